"""What a model is and how it was trained, in words."""

from __future__ import annotations

from typing import Any

from punn.features import feature_names
from punn.geometry import family_of, kind_of
from punn.ledger import show

__all__ = ["facts", "kept_scores", "training_rows"]

NAMED = 10  # classes of a chain that a line names
SCORES = ("accuracy", "log_loss", "calibration_error")


def facts(model: Any) -> list[tuple[str, str]]:
    """Names and values, in the order in which one asks."""
    network, schema = model.network_, getattr(model, "table_", None) or {}
    columns, features = schema.get("columns", ()), len(feature_names(model))
    order = [show(label, 24) for label in model.order_.tolist()]
    chain = order if len(order) <= NAMED else [*order[: NAMED - 1], f"… {len(order) - NAMED} more …", order[-1]]
    kinds = dict.fromkeys(kind_of(family_of(network.gates, i)[0]) for i in range(network.functions - 1))
    activations = dict.fromkeys(getattr(name, "__name__", name) for name in network.activation.names)
    takes = f"{features:,} features" + (f" made of {len(columns):,} columns" if columns else "")
    return [
        ("Predicts", f"{show(schema.get('target') or 'a class', 60)}: {len(order):,} classes"),
        ("From", takes),
        ("Gates", f"{', '.join(kinds)} with {', '.join(activations)} activation"),
        ("Chain", " → ".join(chain)),
        ("Functions", f"{network.functions:,}, {_parts(network.functions, len(order))}"),
        ("The rest", _rest(model)),
        ("Learned", f"{model.n_parameters_:,} numbers in {model.n_iter_:,} epochs{_rows(model)}"),
        ("Seed", str(model.random_state)),
    ]


def _parts(functions: int, classes: int) -> str:
    return "one for every class" if functions == classes else f"several parts for some or all of {classes:,} classes"


def _rest(model: Any) -> str:
    """To whom the mass belongs that no gate takes."""
    if model.rest == "unknown":
        return "what no gate takes belongs to no class: unknown"
    return f"what no gate takes belongs to {show(model.classes_[int(model.network_.class_of[-1])], 40)}"


def _rows(model: Any) -> str:
    rows, table = training_rows(model)
    source = f" of {show(table, 60)}" if table else ""
    return f", from {rows:,} rows{source}" if rows else ""


def training_rows(model: Any) -> tuple[int | None, str | None]:
    """How many rows a model learned from, and the name of their table, as far as its summary tells."""
    summary = getattr(model, "summary_", None)
    summary = summary if isinstance(summary, dict) else {}
    rows, table = summary.get("rows"), summary.get("table")
    count = rows.get("train") if isinstance(rows, dict) else None
    coverage = getattr(model, "coverage_", None)
    if not isinstance(count, int) and coverage is not None:
        count = int(coverage.rows.sum())
    return (count if isinstance(count, int) else None), (table if isinstance(table, str) else None)


def kept_scores(model: Any) -> dict[str, Any] | None:
    """Scores of the model and of baselines that were measured after training, on rows that it had not seen.

    A summary may be anything, so that what is strange is not shown.
    """
    summary = getattr(model, "summary_", None)
    try:
        rows, folds = int(summary["rows"]["test"]), int(summary["folds"])  # type: ignore[index]
        lines = [
            ["punn" if name == "model" else show(name, 40), *_texts(*(float(scores[score]) for score in SCORES))]
            for name, scores in summary["scores"].items()  # type: ignore[index]
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return {"rows": rows, "folds": folds, "lines": lines} if lines else None


def _texts(accuracy: float, loss: float, error: float) -> list[str]:
    return [f"{accuracy:.1%}", f"{loss:.3f}", f"{error:.3f}"]
