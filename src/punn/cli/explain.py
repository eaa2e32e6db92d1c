"""`punn explain`: one prediction, gate by gate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from punn.cli.options import Header, Json, Model, OnUnseen, Table, Unseen, nearest
from punn.cli.output import Screen, check_place, polite, write_whole

if TYPE_CHECKING:
    import pandas as pd

    from punn.classifier import PUNNClassifier
    from punn.trace import GateTrace

__all__ = ["explain"]

PICTURES = (".png", ".pdf", ".svg")
FEW = 12  # columns of a row that fit on a screen


def explain(
    model: Model,
    table: Table,
    row: Annotated[int, typer.Option(min=0, help="Which row of the table, counted from 0.")] = 0,
    why_not: Annotated[str | None, typer.Option(help="A class: why did it not win? The runner-up if not said.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the trace into this .png, .pdf or .svg file.")] = None,
    on_unseen: OnUnseen = Unseen.ERROR,
    header: Header = None,
    json: Json = False,
) -> None:
    """Explain one prediction exactly.

    Shows the gates that the row passed, its probability as a product, and why another class lost.

    \b
    Examples:
        punn explain penguins.punn.safetensors new.csv --row 17
        punn explain penguins.punn.safetensors new.csv --row 17 --why-not Gentoo
        punn explain penguins.punn.safetensors new.csv --plot trace.png
    """
    screen = Screen(json)
    with polite():
        from punn.persistence import load
        from punn.sources import features_of, read_source

        if plot is not None:
            check_place(plot, PICTURES)
        loaded = load(model)
        source = read_source(table, header)
        if row >= len(source.frame):
            last = len(source.frame) - 1
            raise ValueError(f"{table} has the rows 0 to {last:,}, got --row {row}; rows are counted from 0")
        one = source.frame.iloc[[row]].reset_index(drop=True)
        trace = loaded.trace(features_of(loaded, one, on_unseen.value))
        rival = _rival(trace, why_not)
        _tell_row(screen, loaded, table, row, one, trace)
        _tell_why(screen, trace, rival)
        if plot is not None:
            _draw(trace, plot)
            screen.say(f"\nwrote {plot}", "bold")
        screen.document(_explanation(trace, row, rival, plot))


def _rival(trace: GateTrace, why_not: str | None) -> Any:
    """The class that was asked for, or the runner-up."""
    labels = trace.classes.tolist()
    if why_not is None:
        return labels[trace.probabilities[0].argsort()[-2]]
    names = [str(label) for label in labels]
    if why_not not in names:
        known = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        raise ValueError(f"{why_not!r} is not one of the classes {known}{nearest(why_not, names)}")
    return labels[names.index(why_not)]


def _tell_row(screen: Screen, model: PUNNClassifier, table: str, row: int, one: pd.DataFrame, trace: GateTrace) -> None:
    from punn.ledger import percent, show

    schema = model.table_ or {}
    target, label = schema.get("target"), trace.predicted[0]
    truth = f"; {target} is {show(one[target].iloc[0])}" if target in one.columns else ""
    screen.say(f"row {row} of {table}: {show(label)} with {percent(trace.probabilities.max())}{truth}", "bold")
    used = [column["name"] for column in schema.get("columns", ()) if column["name"] in one.columns]
    values = [f"{show(name, 32)} {show(one[name].iloc[0], 20)}" for name in used[:FEW]]
    more = [f"and {len(used) - FEW} more"] if len(used) > FEW else []
    screen.sentence(", ".join([*values, *more]))
    screen.say()


def _tell_why(screen: Screen, trace: GateTrace, rival: Any) -> None:
    winner = trace.predicted[0]
    screen.block(trace)
    screen.say(f"\nwhy {winner}: its probability is a product of what the gates do", "bold")
    screen.say(trace.ledger(0, winner))
    if rival == winner:
        screen.sentence(trace.why_not(0, rival))
        return
    screen.say(f"\nwhy not {rival}", "bold")
    screen.sentence(trace.why_not(0, rival))
    screen.say(trace.ledger(0, rival))


def _draw(trace: GateTrace, path: Path) -> None:
    import io

    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    from punn.displays import TraceDisplay

    picture = io.BytesIO()
    figure = TraceDisplay.from_trace(trace).plot().figure_
    figure.savefig(picture, format=path.suffix[1:].lower(), bbox_inches="tight", dpi=150)
    pyplot.close(figure)
    write_whole(path, picture.getvalue())


def _explanation(trace: GateTrace, row: int, rival: Any, plot: Path | None) -> dict[str, Any]:
    from dataclasses import asdict

    winner = trace.predicted[0]
    names = [str(label) for label in trace.classes.tolist()]
    return {
        "row": row,
        "label": winner,
        "probabilities": dict(zip(names, trace.probabilities[0].tolist(), strict=True)),
        "trace": trace.to_frame().drop(columns="row").to_dict("records"),
        "ledger": [asdict(entry) for entry in trace.ledger(0, winner)],
        "why_not": asdict(trace.why_not(0, rival)) | {"sentence": str(trace.why_not(0, rival))},
        "plot": plot,
    }
