"""What a report holds: texts for the template, and plain arrays for the script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from punn.displays.style import QUIET, class_colors
from punn.features import as_table, feature_names, numbers_of
from punn.ledger import Array, show
from punn.regions import Regions
from punn.report.answers import Answers, answers_of, true_codes
from punn.report.cards import cards, shown_classes
from punn.report.choice import Choice, choose
from punn.report.facts import facts, kept_scores, training_rows
from punn.report.images import Layout, layout_of_names, layout_of_shape
from punn.report.maps import influence, maps
from punn.report.measures import confused, confusion, measures
from punn.report.shown import Table, shown_rows

__all__ = ["contents"]

SOME = 5000  # rows by which classes and maps are described
CURVE = 400  # points of the loss curve
INFLUENCES = 12  # features whose influence is shown


@dataclass(frozen=True)
class _Found:
    """Everything that is computed, before it is put into words and arrays."""

    model: Any
    table: Table
    layout: Layout | None
    answers: Answers
    choice: Choice
    regions: Regions
    some: NDArray[np.intp]
    moved: Array | None

    @property
    def names(self) -> list[str]:
        """The classes as text."""
        return [str(label) for label in self.model.classes_.tolist()]

    @property
    def order(self) -> list[int]:
        """The classes in the chain's order."""
        return list(dict.fromkeys(self.model.network_.class_of.tolist()))


def contents(
    model: Any,
    X: ArrayLike,
    y: ArrayLike | None,
    *,
    table: Any,
    source: str,
    image: tuple[int, ...] | None,
    seed: int,
) -> dict[str, Any]:
    """Everything on the page: see :func:`punn.report.report_html` for the arguments.

    Returns:
        `text`, what the template writes, and `data`, what the script shows.
    """
    found = _find(model, X, y, X if table is None else table, image, seed)
    answers, numbers = found.answers, found.table.numbers
    score = measures(answers, seed)
    rows = shown_rows(model, found.table, answers, found.choice, found.layout, found.moved)
    planes = None if found.moved is None else maps(model, numbers[found.some], found.moved)
    labels = {"source": source, "labels": _labels_note(y, answers), "same": training_rows(model)[1] == source}
    return {
        "text": _texts(found)
        | labels
        | {"score": score, "has_maps": planes is not None}
        | _looks(answers, rows["rows"]),
        "data": _arrays(found)
        | {"score": score, "maps": planes, "points": _points(numbers, planes, rows["rows"])}
        | {"matrices": _matrices(answers, found.order) if score else None}
        | rows,
    }


def _find(
    model: Any, X: ArrayLike, y: ArrayLike | None, table: Any, image: tuple[int, ...] | None, seed: int
) -> _Found:
    numbers = np.asarray(numbers_of(model, X), dtype=np.float64)
    shown = Table.of(model, numbers, None if image is not None else table)
    layout = layout_of_names(shown.names) if image is None else layout_of_shape(image, numbers.shape[1])
    answers = answers_of(model, numbers, true_codes(y, model.classes_, len(numbers)))
    some = np.sort(np.random.default_rng(seed).choice(len(numbers), min(len(numbers), SOME), replace=False))
    return _Found(
        model,
        shown,
        layout,
        answers,
        choose(answers, len(model.classes_), seed),
        _regions(model, numbers, answers),
        some,
        None if layout is not None else influence(model, numbers[some], seed),
    )


def _texts(found: _Found) -> dict[str, Any]:
    model, answers, order = found.model, found.answers, found.order
    numbers = found.table.numbers[found.some]
    described = numbers if found.layout is None else found.table.pixels(found.layout, found.some)
    shown = shown_classes(answers, order)
    return {
        "rows": len(answers.winner),
        "facts": facts(model),
        "kept": kept_scores(model),
        "names": found.names,
        "order": order,
        "cards": cards(found.regions, answers, found.choice, shown, found.some, described, found.layout),
        "training": found.regions.training,
        "confused": confused(confusion(answers, order), order),
        "travel": _travel(answers),
        "influences": _influences(model, found.moved),
        "image": found.layout is not None,
        "even": float(np.log(len(order))),
    }


def _arrays(found: _Found) -> dict[str, Any]:
    return {
        "classes": found.names,
        "colors": _colors(found.model),
        "functions": [region.name for region in found.regions],
        "class_of": found.model.network_.class_of.tolist(),
        "reached": found.answers.reached,
        "mass": found.answers.mass,
        "loss": _thinned(found.model.loss_curve_),
    }


def _regions(model: Any, X: Array, answers: Answers) -> Regions:
    known = answers.known
    if not known.any():
        regions: Regions = model.regions()
        return regions
    counted: Regions = model.regions(as_table(model, X[known]), model.classes_[answers.true[known]])
    return counted


def _labels_note(y: ArrayLike | None, answers: Answers) -> str | None:
    """Why some rows are not scored."""
    lost = int((~answers.known).sum())
    if y is None:
        return "The table has no labels, so that nothing is scored: what follows is what the model says."
    if not lost:
        return None
    return f"{lost:,} of {len(answers.true):,} rows have no label that the model knows; they are not scored."


def _colors(model: Any) -> list[str]:
    from matplotlib.colors import to_hex

    unknown = model.rest == "unknown"
    colors = [to_hex(color) for color in class_colors(len(model.classes_) - unknown)]
    return [*colors, QUIET] if unknown else colors


def _matrices(answers: Answers, order: list[int]) -> dict[str, Any]:
    """Confusion and blame, for the classes that are shown."""
    few = shown_classes(answers, order)
    places = [order.index(c) for c in few]
    return {
        "order": few,
        "confusion": confusion(answers, order)[np.ix_(places, places)],
        "totals": np.bincount(answers.true[answers.known], minlength=len(order))[few],
        "blame": np.round(answers.blame[np.ix_(places, [0, *(place + 1 for place in places)])], 5),
    }


def _travel(answers: Answers) -> dict[str, Any]:
    """How far along the chain rows come before a function takes most of what they have."""
    place = answers.function + 1
    half, most = np.quantile(place, [0.5, 0.9], method="inverted_cdf").astype(int).tolist()
    return {"half": half, "most": most, "first": float((place == 1).mean()), "functions": len(answers.mass)}


def _influences(model: Any, moved: NDArray[np.float64] | None) -> list[dict[str, Any]]:
    if moved is None:
        return []
    names, top = feature_names(model), np.argsort(-moved, kind="stable")[:INFLUENCES].tolist()
    largest = max(float(moved.max()), 1e-12)
    return [{"name": show(names[f], 40), "value": float(moved[f]), "bar": float(moved[f] / largest)} for f in top]


def _thinned(curve: list[float]) -> list[list[float]]:
    """Epochs and losses, at most a few hundred of them."""
    finite = [(i + 1, loss) for i, loss in enumerate(curve) if np.isfinite(loss)]
    step = -(-len(finite) // CURVE) or 1
    return [[epoch, float(f"{loss:.6g}")] for epoch, loss in finite[::step]]


def _points(X: Array, planes: dict[str, Any] | None, rows: list[dict[str, Any]]) -> list[list[float]]:
    """Where the shown rows stand on the maps."""
    if planes is None:
        return []
    values = X[[entry["row"] for entry in rows]][:, planes["features"]]
    return [[float(f"{value:.5g}") for value in row] for row in values.tolist()]


def _looks(answers: Answers, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What a card says about each of the shown rows, and how many there are."""
    looks = {
        entry["row"]: {
            "p": entry["p"],
            "true": entry["true"],
            "second": int(answers.second[entry["row"]]),
            "next": float(answers.runner_up[entry["row"]]),
        }
        for entry in rows
    }
    return {"looks": looks, "shown": len(looks)}
