"""The column to be predicted: checked that it is one of classes, and made labels."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from punn.table.cells import TableError, listed, position_of

__all__ = ["Target", "check_classes", "encode_target", "labels_of"]

MAX_CLASSES = 1000


class Target(NamedTuple):
    """What `encode_target` gives: the labels, the rows that have one, and what to tell the user.

    Arguments:
        labels: The class of every row of `frame`: integers, booleans, or texts in an object array.
        frame: The table, without the rows whose target was missing.
        notes: Sentences.

    Example:
        >>> frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "species": ["a", "b", "a", "b"]})
        >>> encode_target(frame, "species").labels
        array(['a', 'b', 'a', 'b'], dtype=object)
    """

    labels: NDArray[Any]
    frame: pd.DataFrame
    notes: tuple[str, ...]


def encode_target(frame: pd.DataFrame, target: str) -> Target:
    """The labels in a column, if it is a column of classes.

    Rows without a label are dropped, and told. Refused, with advice: a name that is not there, one class, more
    than 1,000 classes or hardly two rows per class, and continuous values.

    Arguments:
        frame: The table.
        target: The name of the column.

    Returns:
        Labels, the rows that they belong to, and notes.

    Example:
        >>> frame = pd.DataFrame({"x": range(5), "sick": [True, False, None, True, False]})
        >>> labels, frame, notes = encode_target(frame, "sick")
        >>> labels, len(frame), notes[0]
        (array([ True, False,  True, False]), 4, "'sick' is missing in 1 of 5 rows; they were dropped.")
        >>> encode_target(frame, "sik")
        Traceback (most recent call last):
        punn.table.cells.TableError: there is no column 'sik'; did you mean 'sick'?
    """
    series = frame.iloc[:, position_of(frame, target)]
    notes = []
    missing = series.isna().to_numpy()
    if missing.all():
        raise TableError(f"target {target!r}: expected classes, got missing values alone; name another column")
    if missing.any():
        notes.append(f"{target!r} is missing in {missing.sum()} of {len(frame)} rows; they were dropped.")
        frame, series = frame[~missing], series[~missing]
    labels = labels_of(target, series)
    counts = pd.Series(labels).value_counts()
    check_classes(target, counts, len(labels))
    single = [str(name) for name in counts.index[counts == 1]]
    if single:
        notes.append(
            f"{listed(single)} {'has' if len(single) == 1 else 'have'} one row only: "
            "it can stand in the training or in the test rows, not in both."
        )
    return Target(labels, frame, tuple(notes))


def labels_of(target: str, series: "pd.Series[Any]") -> NDArray[Any]:
    """The values as integers, booleans or texts, whichever they are."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.cat.categories.dtype)
    kind = pd.api.types.infer_dtype(series)
    if kind == "boolean":
        return series.to_numpy(dtype=bool)
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        return _whole_numbers(target, series.to_numpy(dtype=np.float64, na_value=np.nan), series)
    if kind in ("string", "mixed-integer"):
        return series.astype(str).str.strip().to_numpy(dtype=object)
    raise TableError(
        f"target {target!r}: expected classes (texts, whole numbers or booleans), got {kind} values; "
        "turn them into classes first, or name another column"
    )


def _whole_numbers(target: str, numbers: NDArray[np.float64], series: "pd.Series[Any]") -> NDArray[np.int64]:
    odd = ~np.isfinite(numbers) | (numbers != np.round(numbers))
    if odd.any():
        raise TableError(
            f"target {target!r}: expected classes, got numbers such as {numbers[odd][0]:g}, which looks like a "
            "regression target; punn classifies: cut the values into ranges first, e.g. with pandas.cut"
        )
    return series.to_numpy(dtype=np.int64)


def check_classes(target: str, counts: "pd.Series[int]", rows: int) -> None:
    """Refuse values that are no classes, by how many rows have each of them."""
    if len(counts) == 1:
        raise TableError(
            f"target {target!r}: expected at least two classes, got {counts.index[0]!r} in all {rows} rows; "
            "name another column, or add rows of another class"
        )
    if len(counts) > MAX_CLASSES or 2 < len(counts) > rows / 2:
        numbers = "; if it is a quantity, cut it into ranges first" if counts.index.dtype.kind == "i" else ""
        raise TableError(
            f"target {target!r}: expected at most {MAX_CLASSES} classes and at least two rows per class on average, "
            f"got {len(counts)} distinct values in {rows} rows; it looks like an identifier or a "
            f"measurement, name another column{numbers}"
        )
