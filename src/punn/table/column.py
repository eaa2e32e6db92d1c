"""What a column is: a number, a boolean, a category, or of no use; decided once, from the training table."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from punn.table.cells import TableError, blank, is_plain, parse_numbers, to_booleans, to_numbers, to_text

__all__ = ["Column", "infer"]

Kind = Literal["number", "boolean", "category", "presence"]

MAX_CATEGORIES = 100
DATE = re.compile(r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{4})([T ].*)?")
IDENTIFIER = re.compile(r"(?i)(.*[ _-])?(id|index|idx|uuid|key|row|nr|no)|Unnamed: \d+")
FEW_ROWS, MANY_ROWS = 10, 30


@dataclass(frozen=True)
class Column:
    """One column that is used.

    Arguments:
        name: Its name in the table.
        kind: A `"number"`, a `"boolean"` (0 or 1), a `"category"` (one 0-or-1 feature for each), or a `"presence"`,
            of which only whether it is missing matters.
        fill: What stands in for a missing value: the median, or the most frequent value.
        categories: The categories, in their order.
        indicator: Whether a feature tells that the value is missing.

    Example:
        >>> Column("island", "category", fill="Dream", categories=("Biscoe", "Dream")).feature_names
        ('island=Biscoe', 'island=Dream')
    """

    name: str
    kind: Kind
    fill: float | str = 0.0
    categories: tuple[str, ...] = ()
    indicator: bool = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the numbers that the column becomes."""
        values = [self.name] if self.kind in ("number", "boolean") else []
        values += [f"{self.name}={category}" for category in self.categories]
        return (*values, f"{self.name} is missing") if self.indicator else tuple(values)

    @property
    def shown_fill(self) -> str:
        """What stands in for a missing value, as one says it."""
        if self.kind == "boolean":
            return "true" if self.fill else "false"
        return f"{self.fill:.6g}" if isinstance(self.fill, float) else repr(self.fill)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, fit for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "fill": self.fill,
            "categories": list(self.categories),
            "indicator": self.indicator,
        }

    @classmethod
    def from_dict(cls, data: Any) -> "Column":
        """The inverse of `to_dict`; the data may come from anywhere, and are checked."""
        if not isinstance(data, dict) or set(data) != {"name", "kind", "fill", "categories", "indicator"}:
            raise ValueError("expected a column with name, kind, fill, categories and indicator")
        name, kind, fill, categories = data["name"], data["kind"], data["fill"], data["categories"]
        if not isinstance(name, str) or not isinstance(data["indicator"], bool):
            raise ValueError("expected a column's name to be a text and its indicator true or false")
        if kind not in get_args(Kind):
            raise ValueError(f"expected a column's kind to be one of {', '.join(get_args(Kind))}")
        if not isinstance(categories, list) or len(categories) > MAX_CATEGORIES:
            raise ValueError(f"expected the categories to be a list of at most {MAX_CATEGORIES} texts")
        if not all(isinstance(category, str) for category in categories):
            raise ValueError("expected every category to be a text")
        if len(set(categories)) < len(categories) or bool(categories) != (kind == "category"):
            raise ValueError("expected distinct categories in a category column, and none in another")
        if kind == "category" and fill not in categories:
            raise ValueError("expected a category column to be filled with one of its categories")
        if kind != "category" and (isinstance(fill, bool) or not isinstance(fill, int | float)):
            raise ValueError(f"expected a {kind} column to be filled with a number")
        if kind != "category" and not abs(fill) <= sys.float_info.max:
            raise ValueError(f"expected a {kind} column to be filled with a finite number")
        if (kind == "boolean" and fill not in (0, 1)) or (kind == "presence" and not data["indicator"]):
            raise ValueError(f"expected a {kind} column as it is written, got another")
        return cls(name, kind, fill if isinstance(fill, str) else float(fill), tuple(categories), data["indicator"])


def infer(name: str, series: "pd.Series[Any]") -> tuple[Column | None, list[str]]:
    """What a column is, if it is of use, and what to tell the user.

    Arguments:
        name: Its name.
        series: Its values in the training table, shape :math:`(n,)`.

    Example:
        >>> infer("sex", pd.Series(["f", "m", None, "f", "m", "f"]))[0]
        Column(name='sex', kind='category', fill='f', categories=('f', 'm'), indicator=True)
        >>> infer("country", pd.Series(["NO", "NO", "NO"]))
        (None, ["'country' is 'NO' in every row: dropped."])
    """
    _refuse_foreign(name, series)
    missing = blank(series)
    if missing.all():
        return None, [f"{name!r} is empty: dropped."]
    kind = _kind(series, series[~missing])
    values = pd.Series(READERS[kind](name, series))
    if (values[~missing] == values[~missing].iloc[0]).all():
        return _constant(name, str(series[~missing].iloc[0])[:60], missing)
    if kind == "boolean":
        return _boolean(name, values.to_numpy(), missing)
    if kind == "number":
        return _number(name, values.to_numpy(), missing)
    return _category(name, values, missing)


def _refuse_foreign(name: str, series: "pd.Series[Any]") -> None:
    """Dates, and values that are neither numbers nor text, are refused with advice."""
    if is_plain(series):
        return
    present = series.dropna()
    if isinstance(series.dtype, pd.CategoricalDtype):
        present = pd.Series(series.cat.categories)
    if len(present) == 0:
        return
    kind = pd.api.types.infer_dtype(present)
    dates = kind in ("datetime64", "datetime", "date", "timedelta64", "timedelta", "time", "period")
    if kind == "string":
        dates = all(DATE.fullmatch(str(value).strip()) for value in present)
    if dates:
        raise TableError(
            f"column {name!r}: expected numbers, booleans or categories, got dates or times such as "
            f"{str(present.iloc[0])!r}; turn it into numbers, e.g. days since a first day, month or hour, or drop "
            f"it with --drop {name!r} (drop=[{name!r}])"
        )
    strange = [value for value in present if not isinstance(value, str | Real | Decimal)] if kind != "string" else []
    if strange:
        raise TableError(
            f"column {name!r}: expected numbers, booleans or text, got {type(strange[0]).__name__} values; "
            f"turn them into numbers, or drop the column with --drop {name!r} (drop=[{name!r}])"
        )


def _kind(series: "pd.Series[Any]", present: "pd.Series[Any]") -> Kind:
    if isinstance(series.dtype, pd.CategoricalDtype):
        return "category"  # whoever made it one has said so, be its values numbers
    if pd.api.types.is_bool_dtype(series.dtype) or pd.api.types.infer_dtype(present) == "boolean":
        return "boolean"
    return "category" if np.isnan(parse_numbers(present)).any() else "number"


def _constant(name: str, value: str, missing: NDArray[np.bool_]) -> tuple[Column | None, list[str]]:
    if not missing.any():
        return None, [f"{name!r} is {value!r} in every row: dropped."]
    told = f"{name!r} is {value!r} or missing ({missing.sum()} of {len(missing)} rows): used as 'is missing'."
    return Column(name, "presence", indicator=True), [told]


def _boolean(name: str, values: NDArray[np.float64], missing: NDArray[np.bool_]) -> tuple[Column, list[str]]:
    column = Column(name, "boolean", float(np.nanmean(values) >= 0.5), indicator=bool(missing.any()))
    return column, _told_missing(column, missing, "the more frequent value")


def _number(name: str, values: NDArray[np.float64], missing: NDArray[np.bool_]) -> tuple[Column | None, list[str]]:
    if _is_running_number(name, values):
        return None, [f"{name!r} looks like a running number or an identifier: dropped."]
    # Halves, so that the mean of the two middle values cannot overflow.
    median = float(2.0 * np.nanmedian(values / 2.0))
    column = Column(name, "number", median, indicator=bool(missing.any()))
    return column, _told_missing(column, missing, "the median")


def _is_running_number(name: str, values: NDArray[np.float64]) -> bool:
    """Whole numbers, none twice, hardly a gap; or none twice under an identifier's name.

    Gaps are allowed in longer columns, since a table's rows may be a random part of a larger one.
    """
    if np.isnan(values).any() or (values != np.trunc(values)).any() or len(np.unique(values)) < len(values):
        return False
    spread = values.max() - values.min() + 1
    dense = spread <= (2 if len(values) >= MANY_ROWS else 1) * len(values)
    return bool(len(values) >= FEW_ROWS and dense) or bool(IDENTIFIER.fullmatch(name))


def _category(name: str, text: "pd.Series[Any]", missing: NDArray[np.bool_]) -> tuple[Column | None, list[str]]:
    counts = text.value_counts()
    rows = int(counts.sum())
    if len(counts) == rows > 2:
        return None, [f"{name!r} is another text in every row, like an identifier: dropped."]
    if len(counts) > MAX_CATEGORIES or (len(counts) > 20 and len(counts) > rows / 2):
        told = f"{name!r} is text with {len(counts)} distinct values in {rows} rows, too many for categories: dropped."
        return None, [told]
    categories = tuple(sorted(str(value) for value in counts.index))
    # The first in order among the most frequent, so that the order of the rows does not matter.
    fill = min(str(value) for value in counts.index[counts == counts.max()])
    column = Column(name, "category", fill, categories, bool(missing.any()))
    told = f"{name!r} is text: one column for each of its {len(categories)} categories."
    return column, [told, *_told_missing(column, missing, "the most frequent value")]


def _told_missing(column: Column, missing: NDArray[np.bool_], what: str) -> list[str]:
    if not missing.any():
        return []
    return [
        f"{column.name!r} is missing in {missing.sum()} of {len(missing)} rows: filled with {what} "
        f"{column.shown_fill}, and told in {column.feature_names[-1]!r}."
    ]


READERS: dict[str, Callable[[str, "pd.Series[Any]"], Any]] = {
    "number": to_numbers,
    "boolean": to_booleans,
    "category": lambda name, series: to_text(series),
}
