"""Class by class: what its region is, which rows it wins, and which of them are worth a look."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from punn.ledger import Array, show
from punn.regions import Region, Regions, edge_sentence
from punn.report.answers import Answers
from punn.report.choice import Choice
from punn.report.images import Layout, packed
from punn.report.measures import share_with_interval

__all__ = ["cards", "shown_classes"]

MOST = 120  # classes that have a card and a line in the matrices
PARTS = 12  # parts of a card
PROFILE = 5  # features that tell the rows of a class from all rows


def shown_classes(answers: Answers, order: list[int]) -> list[int]:
    """The classes that are shown, in the chain's order: all, or of very many those with the most mistakes.

    Arguments:
        answers: The answers.
        order: All classes in the chain's order.
    """
    if len(order) <= MOST:
        return order
    trouble = np.bincount(answers.true[answers.wrong], minlength=len(order)).astype(float)
    trouble += np.bincount(answers.winner, weights=1.0 - answers.confidence, minlength=len(order))
    top = set(np.argsort(-trouble, kind="stable")[:MOST].tolist())
    return [c for c in order if c in top]


def cards(
    regions: Regions,
    answers: Answers,
    choice: Choice,
    shown: list[int],
    rows: NDArray[np.intp],
    X: Array,
    layout: Layout | None,
) -> list[dict[str, Any]]:
    """A card for every shown class.

    Arguments:
        regions: What every function is.
        answers: The answers to all rows.
        choice: The rows that are worth a look.
        shown: The classes.
        rows: Numbers of some rows, by which a class is described.
        X: Their features, shape (len(rows), features), or the values of their pixels.
        layout: How pixels stand in an image, if rows are images.
    """
    return [_card(regions, answers, choice, c, X, answers.winner[rows] == c, layout) for c in shown]


def _card(
    regions: Regions, answers: Answers, choice: Choice, c: int, X: Array, mine: NDArray[np.bool_], layout: Layout | None
) -> dict[str, Any]:
    own, won = answers.true == c, answers.winner == c
    judged = won & answers.known
    label = regions.classes.tolist()[c]
    parts = regions.of(label)
    largest = sorted(parts, key=lambda part: (-(part.rows or 0), part.position))[:PARTS]
    return {
        "class": c,
        "won": int(won.sum()),
        "share": float(won.mean()),
        "right": share_with_interval(int((own & won).sum()), int(judged.sum())) if judged.any() else None,
        "own": int(own.sum()),
        "found": share_with_interval(int((own & won).sum()), int(own.sum())) if own.any() else None,
        "parts": [_part(regions, part) for part in parts if part in largest],
        "more_parts": len(parts) - len(largest),
        "profile": [] if layout is not None or not mine.any() else _profile(regions, X, mine),
        "image": packed(layout, X[mine].mean(0, keepdims=True))[0] if layout is not None and mine.any() else None,
        "doubtful": choice.doubtful[c],
        "wrong": choice.wrong[c],
    }


def _part(regions: Regions, region: Region) -> dict[str, Any]:
    return {
        "name": region.name,
        "sentence": regions.sentence(region),
        "shape": regions.shape_cells(region),
        "edge": None if region.outline is None else edge_sentence(region.outline),
        "dead": bool(region.dead),
    }


def _profile(regions: Regions, X: Array, mine: NDArray[np.bool_]) -> list[list[str]]:
    """Median and the middle 80% of the rows that a class wins, in the features where they differ most from all."""
    low, middle, high = np.quantile(X[mine], [0.1, 0.5, 0.9], axis=0)
    typical = np.median(X, axis=0)
    # A constant feature has no spread, and a one-hot one often the same median: its mean tells them apart.
    apart = np.abs(X[mine].mean(0) - X.mean(0)) / np.maximum(X.std(0), 1e-12)
    top = [f for f in np.argsort(-apart, kind="stable")[:PROFILE].tolist() if X[:, f].std() > 0]
    return [
        [show(regions.features[f], 40), *(f"{values[f]:.4g}" for values in (low, middle, high, typical))] for f in top
    ]
