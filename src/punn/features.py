"""Features by name: what the columns of a fitted model are called, and rows in the form it was fitted with."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from punn.ledger import import_pandas

__all__ = ["as_table", "feature_names", "feature_number", "numbers_of"]

_FEW = 100


def feature_names(model: Any) -> list[str]:
    """The names of the features a model was fitted with, or x0, x1, ..."""
    default = [f"x{i}" for i in range(model.n_features_in_)]
    return [str(name) for name in getattr(model, "feature_names_in_", default)]


def feature_number(feature: Any, names: list[str]) -> int:
    """The number of a feature that is given by its name or number.

    Example:
        >>> feature_number("width", ["length", "width"]), feature_number(-1, ["length", "width"])
        (1, 1)
    """
    if isinstance(feature, int | np.integer) and not isinstance(feature, bool) and -len(names) <= feature < len(names):
        return int(feature) % len(names)
    if feature in names:
        return names.index(feature)
    known = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
    raise ValueError(f"expected a feature's name or a number from 0 to {len(names) - 1}, of {known}, got {feature!r}")


def as_table(model: Any, rows: np.ndarray) -> Any:
    """Rows in the form the model was fitted with, so that it does not miss the names of its features."""
    if hasattr(model, "feature_names_in_"):
        return import_pandas().DataFrame(rows, columns=model.feature_names_in_)
    return rows


def numbers_of(model: Any, X: Any) -> np.ndarray:
    """Rows as numbers, checked; a model that was saved with the columns of a table takes such a table as it is."""
    if _plainly_right(model, X):
        return np.asarray(X)
    schema = getattr(model, "table_", None)
    if schema is not None and hasattr(X, "columns") and list(X.columns) != list(model.feature_names_in_):
        from punn.table import Columns  # needs pandas, which whoever has a frame has

        X = as_table(model, Columns.from_dict(schema).transform(X))
    return np.asarray(validate_data(model, X, reset=False, dtype=[np.float64, np.float32]))


def _plainly_right(model: Any, X: Any) -> bool:
    """Whether a few rows are as they must be: for one row in a service the full check takes longer than the answer."""
    if type(X) is not np.ndarray or X.dtype != np.float64 or X.ndim != 2 or not 0 < len(X) <= _FEW:
        return False
    known = X.shape[1] == model.n_features_in_ and not hasattr(model, "feature_names_in_")
    return known and bool(np.isfinite(X).all())
