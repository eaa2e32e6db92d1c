"""A plane of two features, the others kept, and a model's values on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length

from punn.features import as_table, feature_names, feature_number, numbers_of
from punn.gates import Ball, Ellipsoid, Shell
from punn.geometry import family_of
from punn.ledger import Array
from punn.network import Standardize
from punn.regions import class_codes
from punn.trace import GateTrace

__all__ = ["Plane", "plane_of", "values_on"]

CELLS = 2e7  # values that are kept: points of the plane times partition functions
BLOCK = 1_000_000  # values that are computed at once
FINEST = 200


@dataclass(frozen=True)
class Plane:
    """A grid over two features.

    Attributes:
        names: The two features. first, second: The values along them.
        index: Their numbers.
        kept: The values of all features; the two are replaced.
        fixed: The names and values of the other ones.
        points: Rows in the two features, shape (n, 2), or None; codes: the indices of their classes, or None.
    """

    names: tuple[str, str]
    index: tuple[int, int]
    first: Array
    second: Array
    kept: Array
    fixed: dict[str, float]
    points: Array | None = None
    codes: np.ndarray | None = None


def plane_of(
    estimator: Any,
    X: ArrayLike | None,
    y: ArrayLike | None,
    features: tuple[Any, Any] | None,
    at: ArrayLike | None,
    resolution: int | None,
) -> Plane:
    """The plane that from_estimator's arguments describe, checked."""
    names = feature_names(estimator)
    i, j = _pair(features, names)
    table = None if X is None else numbers_of(estimator, X).astype(np.float64)
    if y is not None:
        if X is None:
            raise ValueError("labels y need their rows X")
        check_consistent_length(X, y)
    kept = _kept(estimator, table, at, names)
    low, high = _limits(estimator, table, at)
    sharpest = int(min(FINEST, (CELLS / estimator.network_.functions) ** 0.5))
    count = sharpest if resolution is None else resolution
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 2:
        raise ValueError(f"resolution must be an integer of at least 2, got {resolution!r}")
    return Plane(
        names=(names[i], names[j]),
        index=(i, j),
        first=np.linspace(low[i], high[i], count),
        second=np.linspace(low[j], high[j], count),
        kept=kept,
        fixed={name: float(kept[f]) for f, name in enumerate(names) if f not in (i, j)},
        points=None if table is None else table[:, [i, j]],
        codes=None if y is None else class_codes(y, estimator.classes_).numpy(),
    )


def values_on(estimator: Any, plane: Plane) -> tuple[GateTrace, np.ndarray, np.ndarray, dict[int, np.ndarray]]:
    """A trace of the last lines, and on the whole plane: class probabilities, functions, gates of shapes."""
    shapes = [i for i in range(estimator.network_.functions - 1) if _is_shape(estimator, i)]
    probabilities, partition, gates = [], [], []
    lines = max(1, BLOCK // (len(plane.first) * estimator.network_.functions))
    for start in range(0, len(plane.second), lines):
        second = plane.second[start : start + lines]
        rows = np.repeat(plane.kept[None], len(plane.first) * len(second), axis=0)
        rows[:, plane.index[0]] = np.tile(plane.first, len(second))
        rows[:, plane.index[1]] = np.repeat(second, len(plane.first))
        trace: GateTrace = estimator.trace(as_table(estimator, rows))
        shape = (len(second), len(plane.first), -1)
        probabilities.append(trace.probabilities.reshape(shape))
        partition.append(trace.partition.astype(np.float32).reshape(shape))
        gates.append(trace.gates[:, shapes].astype(np.float32).reshape((*shape[:2], len(shapes))))
    stacked = np.concatenate(gates)
    values = (np.concatenate(probabilities), np.concatenate(partition))
    return trace, *values, {s: stacked[..., n] for n, s in enumerate(shapes)}


def _is_shape(estimator: Any, position: int) -> bool:
    return isinstance(family_of(estimator.network_.gates, position)[0], Ball | Ellipsoid | Shell)


def _pair(features: tuple[Any, Any] | None, names: list[str]) -> tuple[int, int]:
    if len(names) < 2:
        raise ValueError("a plane needs two features, the model has 1; TraceDisplay shows single rows")
    if features is None:
        if len(names) > 2:
            known = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
            raise ValueError(f"the model has {len(names)} features: say which two to draw, features=(a, b), of {known}")
        return 0, 1
    if isinstance(features, str) or len(features) != 2:
        raise ValueError(f"expected a pair of features, features=(a, b), got {features!r}")
    first, second = (feature_number(feature, names) for feature in features)
    if first == second:
        raise ValueError(f"expected two different features, got {names[first]!r} twice")
    return first, second


def _kept(estimator: Any, table: np.ndarray | None, at: ArrayLike | None, names: list[str]) -> Array:
    if at is not None:
        row = np.asarray(at, dtype=np.float64).reshape(-1)
        if row.shape != (len(names),) or not np.isfinite(row).all():
            raise ValueError(f"at must hold a finite value for each of {len(names)} features, got {np.shape(at)}")
        return row
    if table is not None:
        return np.asarray(np.median(table, axis=0), dtype=np.float64)
    scaling = estimator.network_.scaling
    return scaling.mean.cpu().numpy() if isinstance(scaling, Standardize) else np.zeros(len(names))


def _limits(estimator: Any, table: np.ndarray | None, at: ArrayLike | None) -> tuple[Array, Array]:
    if table is not None:
        low, high = table.min(axis=0), table.max(axis=0)
        reach = np.where(high > low, 0.08 * (high - low), 1.0)
        return low - reach, high + reach
    scaling = estimator.network_.scaling
    if not isinstance(scaling, Standardize):
        raise ValueError("the model does not standardise, so it knows no ranges: give rows X to say what to draw")
    mean, scale = scaling.mean.cpu().numpy(), scaling.scale.cpu().numpy()
    return mean - 3 * scale, mean + 3 * scale
