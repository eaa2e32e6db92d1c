"""`punn info` and `punn export`: what a model is, and the same model for other places."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from punn.cli.options import Json, Model, Quiet
from punn.cli.output import Screen, check_place, polite

if TYPE_CHECKING:
    from punn.classifier import PUNNClassifier

__all__ = ["export", "info"]


def info(model: Model, json: Json = False) -> None:
    """Tell what a model is.

    Its classes, gates and columns, how well it did, and the region of every class.

    \b
    Example:
        punn info penguins.punn.safetensors
    """
    screen = Screen(json)
    with polite():
        from punn.persistence import load

        loaded = load(model)
        for name, value in _facts(model, loaded):
            screen.say(f" {name:<14}{value}")
        cells = _score_cells(loaded.summary_)
        if len(cells) > 1:
            screen.say()
            screen.table(cells, "lrrr")
        if loaded.table_ is not None:
            from punn.table import Columns

            columns = Columns.from_dict(loaded.table_)
            screen.say()
            screen.table(
                [["column", "is", "if missing"], *(_column_cells(column) for column in columns.columns)], "lll"
            )
        screen.say("\nregions", "bold")
        screen.say(loaded.regions())
        screen.document(_document(model, loaded))


def export(
    model: Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="The ONNX file.")],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a model as ONNX.

    It runs without Python and still gives the gates. Its input is one number per feature, in the user's units and in
    the order that punn info --json tells; its outputs are label, probabilities, gates and remaining.

    \b
    Example:
        punn export penguins.punn.safetensors -o penguins.onnx
    """
    screen = Screen(json, quiet)
    with polite(quiet):
        from punn.export import export_onnx
        from punn.persistence import load

        check_place(out)
        export_onnx(load(model), out)
        screen.say(f"wrote {out}: {out.stat().st_size:,} bytes")
        screen.document({"model": model, "out": out})


def _column_cells(column: Any) -> list[str]:
    from punn.ledger import show

    what = {"presence": "missing or not"}.get(column.kind, column.kind)
    if column.kind == "category":
        what = show(f"category: {', '.join(column.categories)}", 44)
    missing = "" if column.kind == "presence" else show(column.shown_fill, 20)
    return [show(column.name, 28), what, f"{missing}, and marked" if column.indicator and missing else missing]


def _facts(path: Path, model: PUNNClassifier) -> list[tuple[str, str]]:
    from punn.ledger import show

    order = [show(label, 20) for label in model.order_.tolist()]
    chain = ", ".join(order if len(order) <= 10 else [*order[:9], f"... {len(order) - 10} more ...", order[-1]])
    return [
        ("file", f"{path} ({path.stat().st_size:,} bytes)"),
        ("predicts", f"{(model.table_ or {}).get('target') or 'classes'}: {len(order)} classes"),
        ("chain", chain),
        ("gates", f"{_few(model.gates)}, activation {_few(model.network_.activation.names)}"),
        ("functions", f"{model.network_.functions:,}, with {model.n_parameters_:,} numbers learned"),
        *_training(model),
    ]


def _few(names: Any) -> str:
    """A name, or those of a list that are not all alike."""
    several = [names] if isinstance(names, str) or callable(names) else list(dict.fromkeys(names))
    return ", ".join(getattr(name, "__name__", name) for name in several)


def _training(model: PUNNClassifier) -> list[tuple[str, str]]:
    """How the model was made, as far as a summary tells, which may be anything."""
    from punn.ledger import show

    summary = model.summary_ or {}
    rows, table = summary.get("rows"), summary.get("table")
    trained = rows.get("train") if isinstance(rows, dict) else None
    source = f", over {trained:,} rows of {show(table)}" if isinstance(trained, int) else ""
    return [("trained", f"epochs: {model.n_iter_}{source}")]


def _score_cells(summary: Any) -> list[list[str]]:
    """The scores that `punn train` has kept; a summary may be anything, so that what is strange is not shown."""
    from punn.cli.train import score_cells
    from punn.scoring import Scores

    try:
        folds, rows = int(summary["folds"]), int(summary["rows"]["test"])
        results = {
            str(name): Scores(*(float(value) for value in scores.values()))
            for name, scores in summary["scores"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        return []
    return score_cells([results], f"{rows:,} held-out rows" if folds == 1 else f"{folds} folds of {rows:,} rows")


def _document(path: Path, model: PUNNClassifier) -> dict[str, Any]:
    parameters = {name: value for name, value in model.get_params().items() if name not in ("verbose", "checkpoint")}
    return {
        "model": path,
        "classes": model.classes_,
        "order": model.order_,
        "features": getattr(model, "feature_names_in_", []),
        "parameters": model.n_parameters_,
        "epochs": model.n_iter_,
        "settings": parameters,
        "table": model.table_,
        "summary": model.summary_,
        "regions": model.regions().to_dict(),
    }
