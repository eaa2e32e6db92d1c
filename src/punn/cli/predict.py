"""`punn predict`: a label, probabilities and the deciding gate for every row of a table."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Literal, TextIO

import typer

from punn.cli.options import Header, Json, Model, OnUnseen, Quiet, Table, Unseen
from punn.cli.output import Screen, check_place, polite

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
    per class, the deciding gate, what it does, its value, and the mass that reached it. A table that is larger than
    memory is read and written piece by piece.

    \b
    Examples:
        punn predict penguins.punn.safetensors new.csv -o predictions.csv
        punn predict penguins.punn.safetensors new.csv | head -3
    """
    screen = Screen(json, quiet)
    with polite(quiet):
        from punn.checkpoint import opened_atomically
        from punn.cli.predictions import writer
        from punn.persistence import load
        from punn.sources import read_pieces

        if out is not None:
            check_place(out, TABLES)
        loaded = load(model)
        pieces, notes = read_pieces(table, header)
        for note in notes:
            screen.note(note)
        found = _Found(loaded, on_unseen.value)
        content: dict[str, object] = {"model": model, "table": table, "out": out}
        if out is not None:
            with opened_atomically(out) as file, writer(file, out.suffix.lower()) as result:
                for frame in found.predictions(pieces):
                    result.write(frame)
            screen.say(f"wrote {out}: {result.rows:,} rows")
            content["rows"] = result.rows
        elif json:
            content["rows"] = [row for frame in found.predictions(pieces) for row in frame.to_dict("records")]
        else:
            sys.stdout.flush()
            with writer(_binary(sys.stdout), ".csv") as result:
                for frame in found.predictions(pieces):
                    result.write(frame)
        found.tell_accuracy(screen)
        screen.document(content)


class _Found:
    """Predictions piece by piece, and how many of them are right, if the table holds the truth as well."""

    def __init__(self, model: PUNNClassifier, on_unseen: Literal["error", "ignore"]) -> None:
        self.model, self.on_unseen = model, on_unseen
        self.target = (model.table_ or {}).get("target")
        self.known = self.right = 0

    def predictions(self, pieces: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """A table of predictions for every piece."""
        from punn.cli.predictions import predictions
        from punn.sources import features_of

        for frame in pieces:
            found = predictions(self.model, features_of(self.model, frame, self.on_unseen))
            if self.target in frame.columns:
                true = frame[self.target]
                known = true.notna().to_numpy()
                hits = (true.astype(str).str.strip() == found["label"].astype(str).to_numpy())[known]
                self.known += len(hits)
                self.right += int(hits.sum())
            yield found

    def tell_accuracy(self, screen: Screen) -> None:
        """How much of the truth was met."""
        if self.known:
            share = self.right / self.known
            screen.note(f"{self.target!r} is in the table: {share:.1%} of {self.known:,} labels predicted right")


def _binary(stream: TextIO) -> IO[bytes]:
    """Where the bytes of a text stream go."""
    return getattr(stream, "buffer", stream)  # type: ignore[arg-type]
