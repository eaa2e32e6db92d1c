"""Predictions as a table: label, probabilities, and the gate that decided."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from punn.classifier import PUNNClassifier
from punn.trace import GateTrace

__all__ = ["Writer", "deciding", "predictions", "writer"]

CELLS = 4_000_000  # of a trace that is worked on at once


def predictions(model: PUNNClassifier, X: pd.DataFrame) -> pd.DataFrame:
    """A row for every row of X: label, p(class) ..., gate, does, value, reached.

    Arguments:
        model: A fitted classifier.
        X: Its features, shape :math:`(n, features)`.

    Example:
        >>> X = pd.DataFrame({"x": [0.0, 1.0] * 8})
        >>> model = PUNNClassifier(epochs=50, random_state=0).fit(X, ["a", "b"] * 8)
        >>> predictions(model, X)[["label", "gate", "does"]].head(2)
          label gate     does
        0     a    a  accepts
        1     b    a  rejects
    """
    step = max(1, CELLS // model.network_.functions)
    pieces = [_piece(model.trace(X.iloc[first : first + step])) for first in range(0, len(X), step)]
    return pd.concat(pieces, ignore_index=True)


def _piece(trace: GateTrace) -> pd.DataFrame:
    gate = deciding(trace)
    rows = np.arange(len(trace))
    names = np.array(trace.names, dtype=object)
    winner = trace.classes.tolist().index
    own = np.array([winner(label) for label in trace.predicted.tolist()])
    columns = {"label": trace.predicted}
    columns |= {f"p({label})": p for label, p in zip(trace.classes, trace.probabilities.T, strict=True)}
    columns["gate"] = names[gate]
    columns["does"] = np.where(trace.class_of[gate] == own, "accepts", "rejects").astype(object)
    columns["value"] = trace.gates[rows, gate]
    columns["reached"] = trace.remaining[rows, gate]
    return pd.DataFrame(columns)


def deciding(trace: GateTrace) -> NDArray[np.intp]:
    """The gate of every row that decided between the two most probable classes, as a position in the chain.

    Of the largest functions of the two classes it is the one that comes first: it accepts, or leaves the row to the
    other. The rest never comes first, so that it is a gate always.

    Arguments:
        trace: The trace of some rows.

    Example:
        >>> trace = GateTrace.from_probabilities([[0.1, 0.3, 0.6], [0.8, 0.1, 0.1]])
        >>> deciding(trace)
        array([1, 0])
    """
    two = np.argsort(-trace.probabilities, axis=1, kind="stable")[:, :2]
    first = np.full(len(trace), len(trace.class_of))
    for cls in two.T:
        own = np.where(trace.class_of == cls[:, None], trace.log_partition, -np.inf)
        # A class without any mass has no largest function: its first one stands for it.
        own = np.where((trace.class_of == cls[:, None]) & np.isneginf(own), np.finfo(float).min, own)
        first = np.minimum(first, own.argmax(axis=1))
    return first


class Writer:
    """Writes a table to a file, piece by piece.

    Arguments:
        file: Where to.
        kind: In which format: .csv, .tsv or .parquet.
    """

    def __init__(self, file: IO[bytes], kind: str) -> None:
        self.file, self.kind = file, kind
        self.parquet: Any = None
        self.rows = 0

    def write(self, frame: pd.DataFrame) -> None:
        """Add rows; the names of the columns come with the first ones."""
        if self.kind == ".parquet":
            self._write_parquet(frame)
        else:
            separator = "\t" if self.kind == ".tsv" else ","
            text = frame.to_csv(
                index=False, header=self.rows == 0, sep=separator, float_format="%.6g", lineterminator="\n"
            )
            self.file.write(text.encode())
        self.rows += len(frame)

    def _write_parquet(self, frame: pd.DataFrame) -> None:
        import pyarrow as pa
        import pyarrow.parquet as parquet

        table = pa.Table.from_pandas(frame, preserve_index=False)
        if self.parquet is None:
            self.parquet = parquet.ParquetWriter(self.file, table.schema)
        self.parquet.write_table(table.cast(self.parquet.schema))


@contextmanager
def writer(file: IO[bytes], kind: str) -> Iterator[Writer]:
    """A writer that ends its file, as Parquet files must be."""
    writing = Writer(file, kind)
    try:
        yield writing
    finally:
        if writing.parquet is not None:
            writing.parquet.close()
