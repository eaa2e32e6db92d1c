"""What a report holds: texts for the template, and plain arrays for the script."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from punn.displays.style import QUIET, class_colors
from punn.features import as_table, feature_names, numbers_of
from punn.ledger import Array, show
from punn.regions import Regions
from punn.report.answers import Answers, answers_of, true_codes
from punn.report.cards import cards, shown_classes
from punn.report.choice import choose
from punn.report.facts import facts, kept_scores, training_rows
from punn.report.images import layout_of_names, layout_of_shape
from punn.report.maps import influence, maps
from punn.report.measures import confused, confusion, measures
from punn.report.shown import Table, shown_rows

__all__ = ["contents"]

SOME = 5000  # rows by which classes and maps are described
CURVE = 400  # points of the loss curve
INFLUENCES = 12  # features whose influence is shown


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
    """Everything on the page: see :func:`punn.report.report_html` for the arguments."""
    numbers = np.asarray(numbers_of(model, X), dtype=np.float64)
    shown = Table.of(model, numbers, None if image is not None else X if table is None else table)
    layout = layout_of_names(shown.names) if image is None else layout_of_shape(image, numbers.shape[1])
    answers = answers_of(model, numbers, true_codes(y, model.classes_, len(numbers)))
    order = list(dict.fromkeys(model.network_.class_of.tolist()))
    few = shown_classes(answers, order)
    choice = choose(answers, len(order), seed)
    rng = np.random.default_rng(seed)
    some = np.sort(rng.choice(len(numbers), min(len(numbers), SOME), replace=False))
    regions = _regions(model, numbers, answers)
    described = numbers[some] if layout is None else shown.pixels(layout, some)
    moved = None if layout is not None else influence(model, numbers[some], seed)
    score = measures(answers, seed)
    rows = shown_rows(model, shown, answers, choice, layout, moved)
    planes = None if moved is None else maps(model, numbers[some], moved)
    return {
        "text": {
            "source": source,
            "rows": len(numbers),
            "facts": facts(model),
            "kept": kept_scores(model),
            "score": score,
            "labels": _labels_note(y, answers),
            "same": training_rows(model)[1] == source,
            "names": [str(label) for label in model.classes_.tolist()],
            "order": order,
            "cards": cards(regions, answers, choice, few, some, described, layout),
            "training": regions.training,
            "confused": confused(confusion(answers, order), order),
            "travel": _travel(answers),
            "influences": _influences(model, moved),
            "looks": _looks(answers, rows["rows"]),
            "shown": len(rows["rows"]),
            "image": layout is not None,
            "has_maps": planes is not None,
            "even": float(np.log(len(order))),
        },
        "data": {
            "classes": [str(label) for label in model.classes_.tolist()],
            "colors": _colors(model),
            "functions": [region.name for region in regions],
            "class_of": model.network_.class_of.tolist(),
            "score": score,
            "matrices": _matrices(answers, order, few) if score else None,
            "reached": answers.reached,
            "mass": answers.mass,
            "loss": _thinned(model.loss_curve_),
            "maps": planes,
            "points": _points(numbers, planes, rows["rows"]),
            **rows,
        },
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


def _matrices(answers: Answers, order: list[int], few: list[int]) -> dict[str, Any]:
    """Confusion and blame, for the classes in `few`."""
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


def _looks(answers: Answers, rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """What a card says about each of the shown rows."""
    numbers = [entry["row"] for entry in rows]
    return {
        i: {
            "p": float(answers.confidence[i]),
            "true": int(answers.true[i]),
            "second": int(answers.second[i]),
            "next": float(answers.runner_up[i]),
        }
        for i in numbers
    }
