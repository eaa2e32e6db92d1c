"""The cells of a table, whatever pandas keeps them in, as numbers, booleans or text; else the reason why not."""

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = [
    "TableError",
    "TableWarning",
    "blank",
    "is_plain",
    "listed",
    "parse_numbers",
    "position_of",
    "positions",
    "row_number",
    "to_booleans",
    "to_numbers",
    "to_text",
]

Floats = NDArray[np.float64]


class TableError(ValueError):
    """A table that cannot be used; the message says what was expected, what came, and how to mend it."""


class TableWarning(UserWarning):
    """A table that can be used, with something filled in that the user should know of."""


def positions(frame: pd.DataFrame) -> dict[str, int]:
    """Where every column stands, by its name as text.

    Example:
        >>> positions(pd.DataFrame({"a": [1], 7: [2]}))
        {'a': 0, '7': 1}
    """
    names = [str(name) for name in frame.columns]
    places = {name: place for place, name in enumerate(names)}
    if len(places) < len(names):
        twice = sorted({name for place, name in enumerate(names) if places[name] != place})
        raise TableError(f"expected every column to have a name of its own, got {listed(twice)} more than once")
    return places


def position_of(frame: pd.DataFrame, name: str) -> int:
    """Where a column stands; a name that is not there is refused, with the nearest one as a hint.

    Example:
        >>> position_of(pd.DataFrame({"species": [1]}), "spezies")
        Traceback (most recent call last):
        punn.table.cells.TableError: there is no column 'spezies'; did you mean 'species'?
    """
    places = positions(frame)
    if name in places:
        return places[name]
    close = difflib.get_close_matches(str(name), places, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {listed(list(places))}"
    raise TableError(f"there is no column {name!r}; {hint}")


def listed(names: Sequence[str]) -> str:
    """The first few names, quoted.

    Example:
        >>> listed(["a", "b", "c", "d", "e", "f", "g"])
        "'a', 'b', 'c', 'd', 'e' and 2 more"
    """
    shown = ", ".join(repr(str(name)[:60]) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def to_numbers(name: str, series: "pd.Series[Any]") -> Floats:
    """The values as numbers, NaN where they are missing; a value that is no finite number is refused.

    Arguments:
        name: The column, for the message.
        series: The values, shape :math:`(n,)`.

    Example:
        >>> to_numbers("age", pd.Series(["41", " 7", None]))
        array([41.,  7., nan])
    """
    numbers = parse_numbers(series)
    bad = np.isnan(numbers) & ~blank(series)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise TableError(
            f"column {name!r}: expected numbers, as in training, got {str(series.iloc[row])[:60]!r} "
            f"in row {row_number(series, row)} (counted from 0); mend it or leave the cell empty"
        )
    endless = np.isinf(numbers)
    if endless.any():
        row = int(np.flatnonzero(endless)[0])
        raise TableError(
            f"column {name!r}: expected finite numbers, got {numbers[row]} in row {row_number(series, row)} "
            "(counted from 0); mend it or leave the cell empty"
        )
    return numbers


def row_number(series: "pd.Series[Any]", position: int) -> int:
    """The number of a row in its table, of which the series may be a part with its index kept."""
    return int(series.index[position]) if pd.api.types.is_integer_dtype(series.index.dtype) else position


def to_booleans(name: str, series: "pd.Series[Any]") -> Floats:
    """The values as 0 and 1, NaN where they are missing.

    Example:
        >>> to_booleans("alive", pd.Series([True, "false", 1, None], dtype=object))
        array([ 1.,  0.,  1., nan])
    """
    numbers = parse_numbers(series)
    if not is_plain(series):
        words = to_text(series).str.lower().map({"true": 1.0, "false": 0.0}).to_numpy(dtype=np.float64)
        numbers = np.where(np.isnan(numbers), words, numbers)
    bad = (np.isnan(numbers) & ~blank(series)) | ~(np.isnan(numbers) | np.isin(numbers, (0.0, 1.0)))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise TableError(
            f"column {name!r}: expected true or false, as in training, got {str(series.iloc[row])[:60]!r} "
            f"in row {row_number(series, row)} (counted from 0); mend it or leave the cell empty"
        )
    return numbers


def to_text(series: "pd.Series[Any]") -> "pd.Series[Any]":
    """The values as text without surrounding space, None where they are missing; whole numbers without a point.

    Example:
        >>> to_text(pd.Series([1.0, None, 3.0])).tolist()
        ['1', None, '3']
    """
    try:
        codes, values = pd.factorize(series)
    except TypeError:  # lists and the like cannot be compared, but shown
        codes, values = pd.factorize(series.map(str, na_action="ignore"))
    texts = np.array([*(_text(value) for value in values), None], dtype=object)
    return pd.Series(texts[codes], dtype=object)  # a missing value has the code -1, the last of the texts


def _text(value: object) -> str | None:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return str(value).strip() or None


def parse_numbers(series: "pd.Series[Any]") -> Floats:
    """The values as numbers, NaN where they are missing or not numbers."""
    if not is_plain(series):
        series = pd.to_numeric(series.astype(object), errors="coerce")
    return series.to_numpy(dtype=np.float64, na_value=np.nan)


def is_plain(series: "pd.Series[Any]") -> bool:
    """Whether pandas holds the values as real numbers or booleans already."""
    kind = series.dtype
    return pd.api.types.is_bool_dtype(kind) or (
        pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind)
    )


def blank(series: "pd.Series[Any]") -> NDArray[np.bool_]:
    """Where a value is missing: not there, or a text of nothing but space."""
    return (series if is_plain(series) else to_text(series)).isna().to_numpy(dtype=bool)
