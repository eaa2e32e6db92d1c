"""Where rows come from: a table in a file, or a built-in set by its name; and how a model takes them.

source = read_source("penguins.csv")
examples = learnable(source, target="species")        # features X, labels y, columns
X = features_of(model, source.frame)                  # the same columns for a saved model
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from punn.datasets import DATASETS, load
from punn.table import Columns, Pieces, TableError, encode_target, read_table
from punn.table.files import is_parquet, read_text_pieces

__all__ = ["CLASS", "Examples", "Source", "features_of", "learnable", "read_pieces", "read_source"]

#: What the target of a built-in set is called.
CLASS = "class"

LONG = 1 << 27  # bytes of text that are not read at once where pieces will do


class Source(NamedTuple):
    """A table, a short name for it, the target if it is known, and what to tell the user."""

    frame: pd.DataFrame
    name: str
    target: str | None = None
    notes: tuple[str, ...] = ()


class Examples(NamedTuple):
    """What a classifier learns from, the rows of the table that it came from, and how it did."""

    X: pd.DataFrame
    y: NDArray[Any]
    rows: NDArray[np.intp]
    columns: Columns
    notes: tuple[str, ...]


def read_source(source: str, header: bool | None = None) -> Source:
    """A table from a file, or a built-in set.

    Arguments:
        source: The path of a CSV, TSV or Parquet file, a folder of Parquet files, or one of the names in
            `punn.datasets.DATASETS`; a file of that name is taken first.
        header: Whether the first line of a file holds the names of the columns; found if not said.

    Example:
        >>> source = read_source("iris")
        >>> source.frame.shape, source.target
        ((150, 5), 'class')
    """
    path = Path(source)
    if source in DATASETS and not path.is_file():
        X, y, features, classes = load(source)
        frame = pd.DataFrame(X, columns=list(features))
        frame[CLASS] = np.array(classes, dtype=object)[y]
        return Source(frame, source, CLASS)
    if not path.exists() and path.suffix == "" and path.name == source:
        near = difflib.get_close_matches(source, DATASETS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the built-in sets are {', '.join(DATASETS)}"
        raise TableError(f"{source}: there is no such file in {Path.cwd()}, and no built-in set; {hint}")
    if path.is_dir():
        return Source(pd.concat(Pieces(path).read()), path.name)
    frame = read_table(path, header)
    return Source(frame, path.name.split(".")[0] or path.name, None, tuple(frame.attrs.get("notes", ())))


def read_pieces(source: str, header: bool | None = None) -> tuple[Iterator[pd.DataFrame], tuple[str, ...]]:
    """A table piece by piece, and what to tell the user: Parquet by row groups, long text by lines, else all at once.

    Example:
        >>> pieces, notes = read_pieces("iris")
        >>> [len(frame) for frame in pieces]
        [150]
    """
    path = Path(source)
    if path.is_dir() or (path.is_file() and is_parquet(path)):
        return Pieces(path).read(), ()
    if path.is_file() and path.stat().st_size > LONG:
        return read_text_pieces(path, header)
    whole = read_source(source, header)
    return iter([whole.frame]), whole.notes


def learnable(source: Source, target: str, drop: Iterable[str] = ()) -> Examples:
    """The numbers and labels of a table.

    What a column is, is decided from all rows; the target has no part in it.

    Arguments:
        source: The table.
        target: The column to predict.
        drop: Columns to leave out.

    Example:
        >>> examples = learnable(read_source("iris"), target="class")
        >>> examples.X.shape, examples.y[0]
        ((150, 4), 'setosa')
    """
    labels, frame, notes = encode_target(source.frame, target)
    columns = Columns.fit(frame, target=target, drop=drop)
    rows = np.asarray(frame.index, dtype=np.intp)  # rows without a label are gone, the others keep their numbers
    return Examples(_numbers(columns, frame), labels, rows, columns, (*source.notes, *notes, *columns.notes))


def features_of(model: Any, frame: pd.DataFrame, on_unseen: Literal["error", "ignore"] = "error") -> pd.DataFrame:
    """The features that a model takes, from a table with the columns it was trained on.

    Arguments:
        model: A fitted :class:`punn.PUNNClassifier`. One that was saved with its columns makes numbers of them;
            one without is given the numbers as they are.
        frame: The table.
        on_unseen: See :meth:`punn.table.Columns.transform`.
    """
    schema = getattr(model, "table_", None)
    if schema is not None:
        return _numbers(Columns.from_dict(schema), frame, on_unseen)
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    lost = [name for name in names if name not in frame.columns]
    if lost or (not names and frame.shape[1] != model.n_features_in_):
        wanted = ", ".join(names[:5]) if names else f"{model.n_features_in_} of them"
        raise TableError(
            f"the model was saved without the columns of a table and takes numbers alone: expected the columns "
            f"{wanted}, got {frame.shape[1]} columns"
        )
    return frame[names] if names else frame


def _numbers(columns: Columns, frame: pd.DataFrame, on_unseen: Literal["error", "ignore"] = "error") -> pd.DataFrame:
    # Without a copy: a table of a million rows is there once as it was read, and once as numbers.
    return pd.DataFrame(columns.transform(frame, on_unseen), columns=list(columns.feature_names), copy=False)
