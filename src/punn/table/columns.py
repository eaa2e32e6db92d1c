"""Columns to numbers: what was learnt from one table, applied to the next.

`Columns.fit` decides for every column whether it is a number, a boolean or a category, what stands in for a
missing value, and whether it is of no use; `transform` makes numbers of any table with these columns. What was
decided is plain data (`to_dict`, `from_dict`), so that a model file keeps it.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from punn.table.cells import (
    TableError,
    TableWarning,
    blank,
    listed,
    position_of,
    positions,
    row_number,
    to_booleans,
    to_numbers,
    to_text,
)
from punn.table.column import Column, infer

__all__ = ["Columns"]

Floats = NDArray[np.float64]

MAX_COLUMNS = 100_000


@dataclass(frozen=True)
class Columns:
    """How the columns of a table become numbers.

    Arguments:
        columns: The columns that are used, in their order.
        target: The name of the column that is predicted, if there is one.
        notes: Sentences for the user: what was filled in, encoded and dropped.

    Example:
        >>> frame = pd.DataFrame({"mass": [3.7, None, 4.1], "island": ["Dream", "Biscoe", "Dream"]})
        >>> columns = Columns.fit(frame)
        >>> columns.feature_names
        ('mass', 'mass is missing', 'island=Biscoe', 'island=Dream')
        >>> columns.transform(frame)
        array([[3.7, 0. , 0. , 1. ],
               [3.9, 1. , 1. , 0. ],
               [4.1, 0. , 0. , 1. ]])
        >>> print(*columns.notes, sep="\\n")
        'mass' is missing in 1 of 3 rows: filled with the median 3.9, and told in 'mass is missing'.
        'island' is text: one column for each of its 2 categories.
    """

    columns: tuple[Column, ...]
    target: str | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(cls, frame: pd.DataFrame, target: str | None = None, drop: Iterable[str] = ()) -> "Columns":
        """Decide how every column becomes numbers.

        Constant columns, identifiers and free text are left out, and told; dates and infinite numbers are refused.

        Arguments:
            frame: The table, with or without the target.
            target: The name of the column that is predicted, which is no feature.
            drop: The names of other columns to leave out.

        Example:
            >>> frame = pd.DataFrame({"day": ["2024-05-01", "2024-05-02"], "x": [1.5, 2.5]})
            >>> Columns.fit(frame, drop=["day"]).feature_names
            ('x',)
        """
        left_out = {str(name) for name in drop} | ({target} if target is not None else set())
        for name in left_out:
            position_of(frame, name)
        places = positions(frame)
        if len(frame) == 0 or len(places) > MAX_COLUMNS:
            raise TableError(
                f"expected rows and at most {MAX_COLUMNS} columns, got {len(frame)} rows, {len(places)} columns"
            )
        columns, notes = [], []
        for name, place in places.items():
            if name not in left_out:
                column, told = infer(name, frame.iloc[:, place])
                columns += [] if column is None else [column]
                notes += told
        if not columns:
            raise TableError(" ".join(["expected at least one column to learn from, got none.", *notes]))
        return cls(tuple(columns), target, tuple(notes))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name per column of what `transform` gives."""
        return tuple(name for column in self.columns for name in column.feature_names)

    def transform(self, frame: pd.DataFrame, on_unseen: Literal["error", "ignore"] = "error") -> Floats:
        """The numbers of a table.

        Columns that were not there in training, or not used, are ignored. A missing value is filled in as in
        training; if that column had none then, a `TableWarning` tells it.

        Arguments:
            frame: A table with the columns of the training table, in any order.
            on_unseen: With `"ignore"`, a category that was not seen in training is none of the known ones (all
                zeros), and a column that is not there counts as missing in every row; `"error"` refuses both.

        Returns:
            An array of shape :math:`(n, features)`, finite throughout.

        Example:
            >>> columns = Columns.fit(pd.DataFrame({"island": ["Dream", "Biscoe", "Dream"]}))
            >>> columns.transform(pd.DataFrame({"island": ["Torgersen", "Dream"]}), on_unseen="ignore")
            array([[0., 0.],
                   [0., 1.]])
        """
        if on_unseen not in ("error", "ignore"):
            raise ValueError(f"expected on_unseen to be 'error' or 'ignore', got {on_unseen!r}")
        places = positions(frame)
        lost = [column.name for column in self.columns if column.name not in places]
        if lost and on_unseen == "error":
            raise TableError(
                f"expected the columns of the training table, got one without {listed(lost)}; add "
                f"{'it' if len(lost) == 1 else 'them'}, or fill in with on_unseen='ignore' (--on-unseen ignore)"
            )
        features = np.zeros((len(frame), len(self.feature_names)))
        start = 0
        for column in self.columns:
            stop = start + len(column.feature_names)
            if column.name in places:
                series = frame.iloc[:, places[column.name]]
            else:
                series = pd.Series(np.full(len(frame), np.nan))
            missing = _write(column, series, features[:, start:stop], on_unseen == "ignore")
            _tell(column, missing, len(frame), column.name in lost)
            start = stop
        return features

    def to_dict(self) -> dict[str, Any]:
        """Plain data, fit for JSON.

        Example:
            >>> Columns.fit(pd.DataFrame({"x": [1.5, 2.5]})).to_dict()["columns"]
            [{'name': 'x', 'kind': 'number', 'fill': 2.0, 'categories': [], 'indicator': False}]
        """
        return {
            "target": self.target,
            "columns": [column.to_dict() for column in self.columns],
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, data: Any) -> "Columns":
        """The inverse of `to_dict`; the data may come from anywhere, and are checked.

        Raises:
            ValueError: The data are not what `to_dict` gives.

        Example:
            >>> columns = Columns.fit(pd.DataFrame({"x": [1.5, 2.5]}))
            >>> Columns.from_dict(columns.to_dict()) == columns
            True
        """
        if not isinstance(data, dict) or set(data) != {"target", "columns", "notes"}:
            raise ValueError("expected a column schema with target, columns and notes, got something else")
        target, entries, notes = data["target"], data["columns"], data["notes"]
        if target is not None and not isinstance(target, str):
            raise ValueError(f"expected the target's name to be a text, got a {type(target).__name__}")
        if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_COLUMNS:
            raise ValueError(f"expected a list of 1 to {MAX_COLUMNS} columns")
        if not isinstance(notes, list) or len(notes) > 3 * MAX_COLUMNS:
            raise ValueError("expected the notes to be a list of texts")
        if not all(isinstance(note, str) for note in notes):
            raise ValueError("expected every note to be a text")
        columns = tuple(Column.from_dict(entry) for entry in entries)
        if len({column.name for column in columns}) < len(columns):
            raise ValueError("expected every column to have a name of its own, got one twice")
        return cls(columns, target, tuple(notes))


def _write(column: Column, series: "pd.Series[Any]", out: Floats, ignore: bool) -> int:
    """Fill the features of one column, (n, its features); the number of missing values comes back."""
    if column.kind == "category":
        missing = _write_categories(column, series, out, ignore)
    elif column.kind == "presence":
        missing = blank(series)
    else:
        read = to_booleans if column.kind == "boolean" else to_numbers
        values = read(column.name, series)
        missing = np.isnan(values)
        out[:, 0] = np.where(missing, column.fill, values)
    if column.indicator:
        out[:, -1] = missing
    return int(missing.sum())


def _write_categories(column: Column, series: "pd.Series[Any]", out: Floats, ignore: bool) -> NDArray[np.bool_]:
    text = to_text(series)
    codes = pd.Index(column.categories, dtype=object).get_indexer(pd.Index(text))
    missing = text.isna().to_numpy()
    unseen = (codes < 0) & ~missing
    if unseen.any() and not ignore:
        row = row_number(series, int(np.flatnonzero(unseen)[0]))
        values = [str(value) for value in text[unseen].unique()]
        raise TableError(
            f"column {column.name!r}: expected one of {listed(column.categories)}, as in training, got "
            f"{listed(values)} (first in row {row}, counted from 0); mend it, or take such values as none of the "
            "known ones with on_unseen='ignore' (--on-unseen ignore)"
        )
    codes = np.where(missing, column.categories.index(str(column.fill)), codes)
    rows = np.flatnonzero(codes >= 0)
    out[rows, codes[rows]] = 1.0
    return missing


def _tell(column: Column, missing: int, rows: int, lost: bool) -> None:
    fill = "told as missing" if column.kind == "presence" else f"filled with {column.shown_fill}"
    if lost:
        warnings.warn(f"there is no column {column.name!r}; {fill} in every row", TableWarning, stacklevel=3)
    elif missing and not column.indicator:
        warnings.warn(
            f"{column.name!r} is missing in {missing} of {rows} rows, but never was in training; {fill}",
            TableWarning,
            stacklevel=3,
        )
