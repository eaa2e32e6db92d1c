r"""Counterfactuals: the smallest change of a row that makes another class win.

A change is measured in standard deviations of the training rows, :math:`\lVert (x' - x) / \sigma \rVert`. Where one
ball or ellipsoid decides between two classes, the nearest point of its boundary is known in closed form. Otherwise
gradients lead from many starts to rows in which the class wins, and a constrained minimiser moves the nearest of
them on. Whatever is found is predicted once more before it is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from punn.features import as_table, feature_names, feature_number, numbers_of
from punn.geometry import units_of
from punn.ledger import Array, columns, show
from punn.nearest import Box, UnreachableError, nearest_on_shape, search
from punn.trace import GateTrace
from punn.trace_input import class_index, positions_of

__all__ = ["Counterfactual", "counterfactual"]

MOST = 12  # features and gates that are printed
# How far past a boundary to step, as a share of the change, until the prediction says that it is crossed.
PAST = (0.0, 1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
Bounds = Mapping[Any, tuple[float | None, float | None]]


@dataclass(frozen=True)
class Counterfactual:
    """The nearest row that was found in which another class wins; printed, a table of what changes.

    Attributes:
        found: Whether there is one.
        before: The predicted label of the row.
        after: The predicted label of the changed row, or None.
        x: The row.
        x_new: The changed row, or None.
        distance: The length of the change in standard deviations; infinite if none was found.
        features: The names of the features.
        scale: Their standard deviations.
        trace: A trace of the row and, if found, of the changed row.
        method: "closed form" or "search".
        note: What was found, in a sentence, if it is no change.
    """

    found: bool
    before: Any
    after: Any
    x: Array
    x_new: Array | None
    distance: float
    features: tuple[str, ...]
    scale: Array
    trace: GateTrace
    method: str
    note: str = ""

    @property
    def changes(self) -> dict[str, tuple[float, float]]:
        """From and to of every feature that changes, the largest change in standard deviations first."""
        if self.x_new is None:
            return {}
        size = np.abs(self.x_new - self.x) / self.scale
        order = [f for f in np.argsort(-size, kind="stable").tolist() if size[f] > 0]
        return {self.features[f]: (float(self.x[f]), float(self.x_new[f])) for f in order}

    @property
    def flipped(self) -> dict[str, tuple[float, float]]:
        """Before and after of every gate that crossed a half."""
        if self.x_new is None:
            return {}
        old, new = self.trace.gates
        return self._gates(np.flatnonzero((old >= 0.5) != (new >= 0.5)).tolist())

    def _gates(self, positions: Sequence[int]) -> dict[str, tuple[float, float]]:
        old, new = self.trace.gates
        return {self.trace.names[i]: (float(old[i]), float(new[i])) for i in positions}

    def __str__(self) -> str:
        if self.note:
            return self.note
        lines = [f" {show(self.before)} -> {show(self.after)}, a change of {self.distance:.3g} standard deviations"]
        cells = [["feature", "from", "to", "change"]]
        changes = list(self.changes.items())
        cells += [[show(name, 32), f"{a:.4g}", f"{b:.4g}", f"{b - a:+.3g}"] for name, (a, b) in changes[:MOST]]
        lines += columns(cells, "lrrr")
        if len(changes) > MOST:
            lines.append(f" ... {len(changes) - MOST:,} more features change by less")
        return "\n".join([*lines, "", *self._gate_lines()])

    __repr__ = __str__

    def _gate_lines(self) -> list[str]:
        head, gates = "gate that flipped", self.flipped
        if not gates:
            old, new = self.trace.gates
            head, gates = "no gate crossed 0.5", self._gates(np.argsort(-np.abs(new - old))[:3].tolist())
        cells = [[head, "before", "after"]]
        cells += [[show(name), f"{a:.3f}", f"{b:.3f}"] for name, (a, b) in list(gates.items())[:MOST]]
        return columns(cells, "lrr")


def counterfactual(
    model: Any,
    x: ArrayLike,
    cls: Any = None,
    *,
    bounds: Bounds | None = None,
    fixed: Sequence[Any] = (),
    restarts: int = 32,
    random_state: int = 0,
) -> Counterfactual:
    """The smallest change of a row that makes a class win.

    Arguments:
        model: A fitted :class:`punn.PUNNClassifier`.
        x: One row.
        cls: The class that shall win; any other one if None.
        bounds: The least and the largest value that features may take, by name or number; None for no limit.
        fixed: Features that may not change, by name or number.
        restarts: How many starts a search makes.
        random_state: Decides where they are.

    Returns:
        A :class:`Counterfactual`. If its `found` is False, it prints as a sentence that says so.

    Example:
        >>> from punn import PUNNClassifier
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> model = PUNNClassifier("ball", restarts=1, epochs=60, random_state=0).fit(X, np.hypot(*X.T) > 1)
        >>> change = model.counterfactual([0.1, 0.0])
        >>> change.found, change.method, bool(change.after)
        (True, 'closed form', True)
    """
    check_is_fitted(model, "network_")
    names = feature_names(model)
    row = _row(model, x)
    mean, scale = units_of(model.network_, len(names))
    low, high, free = _box(bounds, fixed, names, row)
    answer = _Answer(model, row, mean, scale, free, low, high)
    labels = model.classes_.tolist()
    now = labels.index(answer.before)
    unknown = len(labels) - 1 if model.rest == "unknown" else None
    targets = [c for c in range(len(labels)) if c not in (now, unknown)]
    if cls is not None:
        targets = [class_index(cls, positions_of(model.classes_))]
    if now in targets:
        return answer.of(row, "closed form", f"the row is {show(answer.before)} already: nothing has to change")
    return _found(answer, [labels[c] for c in targets], targets, cls, restarts, random_state)


def _found(
    answer: _Answer, wanted: list[Any], targets: list[int], cls: Any, restarts: int, random_state: int
) -> Counterfactual:
    """The nearest of the candidates that the model confirms."""
    what = "another class" if cls is None else show(cls)
    network, box, method, candidates = answer.model.network_, answer.scaled_box(), "search", []
    if targets:
        try:
            point = nearest_on_shape(network, box, targets)
        except UnreachableError:
            note = f"no change of the features that may change makes {what} win: its boundary is out of their reach"
            return answer.of(None, "closed form", note)
        if point is not None and box.holds(point):
            method, candidates = "closed form", [point]
        else:
            candidates = search(network, box, targets, restarts, random_state)
    rows = [row for row in (answer.confirmed(point, wanted) for point in candidates) if row is not None]
    if not rows:
        tried = f"{restarts} starts were tried" if targets else "there is no other class"
        within = " within the given limits" if answer.limited else ""
        note = f"no change was found that makes {what} win{within}; {tried}, which does not prove that there is none"
        return answer.of(None, method, note if targets else f"no change makes {what} win: {tried}")
    return answer.of(min(rows, key=answer.distance), method)


class _Answer:
    """A row, what may change in it, and the model that judges changes."""

    def __init__(
        self, model: Any, row: Array, mean: Array, scale: Array, free: np.ndarray, low: Array, high: Array
    ) -> None:
        self.model, self.row, self.mean, self.scale, self.free = model, row, mean, scale, free
        self.low, self.high = low, high
        self.limited = bool(np.isfinite(low).any() or np.isfinite(high).any() or not free.all())
        self.before = self._predict(row)

    def scaled_box(self) -> Box:
        """Row and limits as the gates see them."""
        start, low, high = ((values - self.mean) / self.scale for values in (self.row, self.low, self.high))
        return Box(start, low, high, self.free)

    def confirmed(self, point: Array, wanted: list[Any]) -> Array | None:
        """The point in the user's units, pushed past the boundary until the model predicts a wanted class."""
        start = (self.row - self.mean) / self.scale
        for past in PAST:
            moved = self.mean + self.scale * (start + (1 + past) * (point - start))
            row = np.where(self.free, np.clip(moved, self.low, self.high), self.row)
            if self._predict(row) in wanted:
                return np.asarray(row)
        return None

    def distance(self, row: Array) -> float:
        """The length of a change in standard deviations."""
        return float(np.linalg.norm((row - self.row) / self.scale))

    def of(self, row: Array | None, method: str, note: str = "") -> Counterfactual:
        """The result."""
        rows = [self.row] if row is None else [self.row, row]
        return Counterfactual(
            found=row is not None,
            before=self.before,
            after=None if row is None else self._predict(row),
            x=self.row,
            x_new=row,
            distance=np.inf if row is None else self.distance(row),
            features=tuple(feature_names(self.model)),
            scale=self.scale,
            trace=self.model.trace(as_table(self.model, np.stack(rows))),
            method=method,
            note=note,
        )

    def _predict(self, row: Array) -> Any:
        return self.model.predict(as_table(self.model, row[None])).tolist()[0]


def _row(model: Any, x: ArrayLike) -> Array:
    if hasattr(x, "to_frame") and not hasattr(x, "columns"):  # a row of a pandas frame
        x = x.to_frame().T.infer_objects()
    elif not hasattr(x, "columns"):
        values = np.asarray(x, dtype=np.float64)
        x = as_table(model, values[None]) if values.ndim == 1 and len(values) == model.n_features_in_ else values
        x = as_table(model, x) if isinstance(x, np.ndarray) and x.shape == (1, model.n_features_in_) else x
    if np.ndim(x) != 2 or len(x) != 1:  # type: ignore[arg-type]
        raise ValueError(f"expected one row of {model.n_features_in_} features, got the shape {np.shape(x)}")
    row: Array = numbers_of(model, x)[0].astype(np.float64)
    return row


def _box(bounds: Bounds | None, fixed: Sequence[Any], names: list[str], row: Array) -> tuple[Array, Array, np.ndarray]:
    low, high, free = np.full(len(row), -np.inf), np.full(len(row), np.inf), np.ones(len(row), dtype=bool)
    free[[feature_number(feature, names) for feature in ([fixed] if isinstance(fixed, str) else fixed)]] = False
    if not free.any():
        raise ValueError("every feature is fixed: nothing may change")
    for feature, limits in (bounds or {}).items():
        f = feature_number(feature, names)
        least, most = (np.inf * sign if end is None else float(end) for sign, end in zip((-1, 1), limits, strict=True))
        if not least <= most:
            raise ValueError(f"bounds of {names[f]!r} must be (least, largest), got {tuple(limits)}")
        low[f], high[f] = least, most
    return low, high, free
