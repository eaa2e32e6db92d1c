"""`punn report`: one HTML file about a model and its answers to a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from punn.cli.options import Header, Json, Model, OnUnseen, Quiet, Table, Unseen
from punn.cli.output import Screen, check_place, polite, write_whole

if TYPE_CHECKING:
    import pandas as pd

    from punn.classifier import PUNNClassifier
    from punn.sources import Source

__all__ = ["report"]

PAGES = (".html", ".htm")


def report(
    model: Model,
    table: Table,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page; TABLE.report.html if not said.", metavar="FILE")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", help="The column with the labels, if its name is another.", metavar="COLUMN"),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(help="Rows are images of this size, 28x28 or 3x32x32; found by names such as pixel_3_7."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides which rows of a large table are shown.", metavar="N")] = 0,
    on_unseen: OnUnseen = Unseen.ERROR,
    header: Header = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page: scores, mistakes, regions, maps, and every gate of single rows.

    The page is one file that opens offline in any browser. All rows are scored if the table has the labels; of a large
    table the notable rows of every class and a sample can be looked at.

    \b
    Examples:
        punn report penguins.punn.safetensors penguins.csv -o report.html
        punn report iris.punn.safetensors iris
    """
    screen = Screen(json, quiet)
    with polite(quiet):
        if out is not None:
            check_place(out, PAGES)
        size = None if image is None else _size(image)
        from punn.persistence import load
        from punn.report import report_html
        from punn.sources import features_of, read_source

        loaded = load(model)
        source = read_source(table, header)
        path = Path(f"{source.name}.report.html") if out is None else out
        check_place(path, PAGES)
        labels = _labels(loaded, source, target)
        X = features_of(loaded, source.frame, on_unseen.value)
        for note in source.notes:
            screen.note(note)
        html = report_html(
            loaded, X, labels, table=source.frame, source=Path(table).name, image=size, seed=seed
        ).encode()
        write_whole(path, html)
        if labels is None:
            screen.note("the table has no labels, so that nothing is scored; --target names their column")
        rows = f"{len(source.frame):,} row{'' if len(source.frame) == 1 else 's'}"
        screen.say(f"wrote {path}: {rows}, {len(html) / 1e6:.1f} MB; open it in a browser")
        screen.document({"model": model, "table": table, "out": path, "rows": len(source.frame), "bytes": len(html)})


def _labels(model: PUNNClassifier, source: Source, target: str | None) -> pd.Series | None:
    """The column with the labels: the one that was said, that of training, or that of a built-in set."""
    from punn.table.cells import position_of

    if target is not None:
        return source.frame.iloc[:, position_of(source.frame, target)]
    trained = (model.table_ or {}).get("target")
    for name in (trained, source.target):
        if name is not None and name in source.frame.columns:
            return source.frame[name]
    return None


def _size(text: str) -> tuple[int, ...]:
    parts = text.lower().split("x")
    if not 2 <= len(parts) <= 3 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"expected a size such as 28x28 or 3x32x32, got {text!r}", param_hint="'--image'")
    return tuple(int(part) for part in parts)
