"""Which rows are shown: those that are most worth a look, class by class, and a sample of all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from punn.report.answers import Answers

__all__ = ["Choice", "choose"]

SAMPLE = 300  # rows of the sample
NOTABLE = 360  # rows of class cards, at most about


@dataclass(frozen=True)
class Choice:
    """Numbers of rows.

    Attributes:
        doubtful: For every class, of the rows it wins those with the smallest lead.
        wrong: For every class, of the rows it wins wrongly those with the highest confidence.
        rows: All rows that are shown, the most wanted first: those above, then a random sample.
    """

    doubtful: list[list[int]]
    wrong: list[list[int]]
    rows: list[int]


def choose(answers: Answers, classes: int, seed: int = 0) -> Choice:
    """Choose the rows to show.

    Arguments:
        answers: The answers to all rows.
        classes: How many classes there are.
        seed: Decides the sample.
    """
    few = int(np.clip(NOTABLE // (2 * classes), 2, 5))
    doubtful, wrong = [], []
    margin, sure, missed = answers.margin, -answers.confidence, answers.wrong
    for c in range(classes):
        won = np.flatnonzero(answers.winner == c)
        doubtful.append(_smallest(won, margin[won], few))
        errors = won[missed[won]]
        wrong.append(_smallest(errors, sure[errors], few))
    n = len(answers.winner)
    sample = np.random.default_rng(seed).choice(n, size=min(n, SAMPLE), replace=False).tolist()
    notable = [row for lists in zip(wrong, doubtful, strict=True) for rows in lists for row in rows]
    return Choice(doubtful, wrong, list(dict.fromkeys([*notable, *sample])))


def _smallest(rows: NDArray[np.intp], values: NDArray[np.float64], few: int) -> list[int]:
    return [int(row) for row in rows[np.argsort(values, kind="stable")[:few]]]
