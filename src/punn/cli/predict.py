"""`punn predict`: a label, probabilities and the deciding gate for every row of a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from punn.cli.options import Header, Json, Model, OnUnseen, Quiet, Table, Unseen
from punn.cli.output import Screen, check_place, polite, write_whole

if TYPE_CHECKING:
    import pandas as pd

    from punn.classifier import PUNNClassifier

__all__ = ["predict"]

TABLES = (".csv", ".tsv", ".parquet")


def predict(
    model: Model,
    table: Table,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A .csv, .tsv or .parquet file; standard output if not said."),
    ] = None,
    on_unseen: OnUnseen = Unseen.ERROR,
    header: Header = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict every row of a table.

    The gate that decides is the one between the two most probable classes: the first of the two in the chain. It
    accepts the row for its own class, or rejects it and leaves it to the other. The columns: label, one probability
    per class, the deciding gate, what it does, its value, and the mass that reached it.

    \b
    Examples:
        punn predict penguins.punn.safetensors new.csv -o predictions.csv
        punn predict penguins.punn.safetensors new.csv | head -3
    """
    screen = Screen(json, quiet)
    with polite(quiet):
        from punn.cli.predictions import encoded, predictions
        from punn.persistence import load
        from punn.sources import features_of, read_source

        if out is not None:
            check_place(out, TABLES)
        loaded = load(model)
        source = read_source(table, header)
        frame = predictions(loaded, features_of(loaded, source.frame, on_unseen.value))
        for note in source.notes:
            screen.note(note)
        _tell_accuracy(screen, loaded, source.frame, frame)
        if out is not None:
            write_whole(out, encoded(frame, out))
            screen.say(f"wrote {out}: {len(frame):,} rows")
        elif not json:
            sys.stdout.write(encoded(frame, Path("-.csv")).decode())
        screen.document(
            {"model": model, "table": table, "out": out, "rows": len(frame) if out else frame.to_dict("records")}
        )


def _tell_accuracy(screen: Screen, model: PUNNClassifier, frame: pd.DataFrame, found: pd.DataFrame) -> None:
    """If the table holds the truth as well, how much of it was met."""
    target = (model.table_ or {}).get("target")
    if target in frame.columns:
        true = frame[target]
        known = true.notna().to_numpy()
        hits = (true.astype(str).str.strip() == found["label"].astype(str).to_numpy())[known]
        if len(hits):
            screen.note(f"{target!r} is in the table: {hits.mean():.1%} of {len(hits):,} labels predicted right")
