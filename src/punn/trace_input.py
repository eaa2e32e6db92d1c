"""Checks of what a trace is made from and asked for: what was expected, what came, how to mend it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from punn.ledger import Array

__all__ = [
    "check_class_of",
    "check_classes",
    "check_logs",
    "check_order",
    "check_probabilities",
    "check_row",
    "check_rows",
    "check_y",
    "class_index",
    "few",
    "positions_of",
]

FEW = 10  # values that a message names


def check_logs(log_accept: ArrayLike, log_reject: ArrayLike) -> tuple[Array, Array]:
    """Log q and log(1 - q) of gates, shape (n, k - 1) each."""
    accept, reject = (np.array(a, dtype=np.float64) for a in (log_accept, log_reject))
    if accept.ndim != 2 or accept.shape != reject.shape:
        shapes = f"{accept.shape} and {reject.shape}; a single row has the shape (1, k - 1)"
        raise ValueError(f"expected log_accept and log_reject of one shape (n, k - 1), got {shapes}")
    # Written so that NaN fails too; a chain computed in float32 keeps well within the tolerance.
    off = ~(np.abs(np.exp(np.minimum(accept, 1.0)) + np.exp(np.minimum(reject, 1.0)) - 1.0) <= 1e-3)
    if off.any():
        i, j = np.argwhere(off)[0].tolist()
        raise ValueError(
            "expected log q and log(1 - q) of gates in 0..1, so that exp(log_accept) + exp(log_reject) is 1, "
            f"got {accept[i, j]:.6g} and {reject[i, j]:.6g} in row {i}, gate {j}; pass logarithms of both"
        )
    return np.minimum(accept, 0.0), np.minimum(reject, 0.0)


def check_class_of(class_of: ArrayLike | None, k: int) -> NDArray[np.intp]:
    """The class of every function, none left out."""
    index = np.arange(k) if class_of is None else np.array(class_of)
    if not np.issubdtype(index.dtype, np.integer):
        raise TypeError(f"expected class_of of whole numbers, got {index.dtype}; pass indices into classes")
    if index.shape != (k,):
        raise ValueError(f"expected class_of of shape ({k},), for {k - 1} gates and the rest, got {index.shape}")
    if not np.array_equal(np.unique(index), np.arange(len(np.unique(index)))):
        raise ValueError(
            "expected class_of to hold every class 0, 1, 2, ... at least once, without a gap, "
            f"got {few(index.tolist())}; leave out classes that have no partition function"
        )
    return index.astype(np.intp)


def check_classes(classes: ArrayLike | None, count: int) -> NDArray[Any]:
    """The labels, all different."""
    if classes is None:
        return np.arange(count)
    # numpy would turn the labels ["a", 1] into two strings
    mixed = isinstance(classes, list | tuple) and len({isinstance(c, str) for c in classes}) > 1
    labels = np.array(classes, dtype=object if mixed else None)
    if labels.shape != (count,):
        raise ValueError(f"expected {count} class labels, one for every class, got the shape {labels.shape}")
    twice = [label for label, times in Counter(labels.tolist()).items() if times > 1]
    if twice:
        raise ValueError(f"expected different class labels, got {few(twice)} more than once; rename them")
    return labels


def check_probabilities(p: ArrayLike) -> Array:
    """Rows of probabilities that sum to one."""
    values = np.array(p, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(f"expected probabilities of shape (n, C), got {values.shape}; one row is (1, C)")
    wrong = ~np.all(values >= 0, axis=1) | ~(np.abs(values.sum(axis=1) - 1.0) <= 1e-4)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(
            "expected probabilities, at least 0 and with the sum 1 in every row, got "
            f"{few(values[i].tolist())} in row {i}; pass the output of predict_proba"
        )
    return values


def check_order(order: ArrayLike | None, labels: NDArray[Any]) -> NDArray[np.intp]:
    """Positions of the classes in a wanted order."""
    if order is None:
        return np.arange(len(labels))
    wanted, index = np.asarray(order, dtype=object).tolist(), positions_of(labels)
    positions = [class_index(label, index) for label in wanted]
    if sorted(positions) != list(range(len(labels))):
        raise ValueError(f"expected order to hold each of {few(labels.tolist())} once, got {few(wanted)}")
    return np.array(positions, dtype=np.intp)


def check_rows(rows: Any, n: int) -> Any:
    """An index that picks rows."""
    if isinstance(rows, slice):
        return rows
    index = np.asarray(rows)
    if index.ndim == 0:
        return [check_row(rows, n)]
    if isinstance(rows, tuple) or index.ndim != 1 or (index.size and index.dtype.kind not in "biu"):
        raise TypeError(f"expected a row number, a slice, a mask or a list of row numbers, got {rows!r}")
    if index.dtype.kind != "b":
        return [check_row(i, n) for i in index.tolist()]
    if len(index) != n:
        raise IndexError(f"expected a mask of {n} values, one for every row, got {len(index)}")
    return index


def check_row(row: Any, n: int) -> int:
    """The number of a row that is there."""
    if isinstance(row, bool) or not isinstance(row, int | np.integer):
        raise TypeError(f"expected a row number, got {row!r}; pass a whole number from 0 to {n - 1}")
    if not -n <= row < n:
        raise IndexError(f"expected a row from 0 to {n - 1}, got {row}; the trace has {n} rows")
    return int(row) % n


def check_y(y: ArrayLike, labels: NDArray[Any], n: int) -> NDArray[np.intp]:
    """True labels as positions of classes."""
    true = np.asarray(y)
    if true.shape != (n,):
        raise ValueError(f"expected one true label for each of {n} rows, got the shape {true.shape}")
    index = positions_of(labels)
    return np.array([class_index(label, index) for label in true.tolist()], dtype=np.intp)


def positions_of(labels: NDArray[Any]) -> dict[Any, int]:
    """The position of every label."""
    return {label: c for c, label in enumerate(labels.tolist())}


def class_index(label: Any, index: dict[Any, int]) -> int:
    """The position of a label that is there."""
    try:
        return index[label]
    except (KeyError, TypeError):
        like = [known for known in index if str(known) == str(label)]
        hint = f"pass {like[0]!r}, of type {type(like[0]).__name__}" if like else "pass one of these"
        raise ValueError(f"expected one of the classes {few([*index])}, got {label!r}; {hint}") from None


def few(values: Sequence[Any]) -> str:
    """The first of some values, and how many there are."""
    head = ", ".join(repr(v) for v in values[:FEW])
    return f"[{head}]" if len(values) <= FEW else f"[{head}, ... {len(values):,} in all]"
