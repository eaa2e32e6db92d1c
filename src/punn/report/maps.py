"""Planes of two features with every partition function on them, for as many pairs as a page can hold."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from punn.displays.plane import plane_of, values_on
from punn.features import as_table, feature_names
from punn.ledger import Array

__all__ = ["influence", "maps"]

FINEST, COARSEST = 48, 20  # points along a side of a map
WANTED = 16  # features between which maps are wanted
BYTES = 1_100_000  # of all maps together
ROWS = 128  # rows by which influence is measured
VISIBLE = 0.02  # a function that is smaller everywhere on a map is left out


def influence(model: Any, X: Array, seed: int = 0) -> Array:
    """How much every feature moves the probabilities: their mean change when it alone is shuffled, (features,).

    Arguments:
        model: A fitted classifier.
        X: Some rows of numbers, shape (n, features).
        seed: Decides the rows and how they are shuffled.

    Example:
        >>> from punn import PUNNClassifier
        >>> X = np.array([[0.0, 5.0], [1.0, 5.0]] * 10)
        >>> model = PUNNClassifier(epochs=30, random_state=0).fit(X, ["a", "b"] * 10)
        >>> influence(model, X).argmax()
        np.int64(0)
    """
    rng = np.random.default_rng(seed)
    some = X[rng.choice(len(X), min(len(X), ROWS), replace=False)]
    p = model.predict_proba(as_table(model, some))
    moved = np.zeros(X.shape[1])
    for f in range(X.shape[1]):
        changed = some.copy()
        changed[:, f] = rng.permutation(changed[:, f])
        moved[f] = 0.5 * np.abs(model.predict_proba(as_table(model, changed)) - p).sum(1).mean()
    return moved


def maps(model: Any, X: Array, moved: Array) -> dict[str, Any] | None:
    """Maps over every pair of the features with most influence, or None for a single feature or class.

    The other features keep their medians. Values are bytes: 255 is all of the mass.

    Arguments:
        model: A fitted classifier.
        X: Some rows of numbers, which decide how far maps reach, shape (n, features).
        moved: The influence of every feature.

    Returns:
        `features`: their numbers; `limits`: from where to where each goes; `pairs`: by "i,j", places in
        `features` with i < j, the maps: see `_map`.
    """
    if X.shape[1] < 2 or len(model.classes_) < 2:
        return None
    table, names = as_table(model, X), feature_names(model)
    falling = np.argsort(-moved, kind="stable").tolist()
    points, used = _points(model, table, falling), 0
    chosen, limits, pairs = [falling[0]], dict[int, list[float]](), dict[str, Any]()
    for place in range(1, len(falling)):
        if used * (place + 1) > BYTES * max(place - 1, 1):  # with one more feature, if its maps are as large
            break
        for other, feature in enumerate(chosen):
            plane = plane_of(model, table, None, (feature, falling[place]), None, points)
            pairs[f"{other},{place}"], size = _map(model, plane)
            used += size
            limits |= {other: plane.first[[0, -1]].tolist(), place: plane.second[[0, -1]].tolist()}
        chosen.append(falling[place])
    return {
        "features": chosen,
        "names": [names[f] for f in chosen],
        "limits": [limits[i] for i in range(len(chosen))],
        "kept": np.median(X[:, chosen], axis=0).tolist(),
        "points": points,
        "pairs": pairs,
        "all": len(chosen) == X.shape[1],
    }


def _points(model: Any, table: Any, falling: list[int]) -> int:
    """Points along a side, so that maps between the wanted features fit; the first map tells how large they are."""
    first, _ = _map(model, plane_of(model, table, None, (falling[0], falling[1]), None, COARSEST))
    layers = 2 + len(first["functions"]) + len(first["gates"])
    features = min(len(falling), WANTED)
    return int(np.clip((BYTES / (layers * features * (features - 1) / 2)) ** 0.5, COARSEST, FINEST))


def _map(model: Any, plane: Any) -> tuple[dict[str, Any], int]:
    """Winner, the root of its lead, the functions that are visible and the gates of shapes, line by line from below."""
    _, p, h, gates = values_on(model, plane)
    two = np.sort(p, axis=-1)[..., -2:]
    winner = p.argmax(-1)
    seen = [i for i in range(h.shape[-1]) if h[..., i].max() >= VISIBLE]
    grids = {
        "winner": winner.astype(np.uint8 if p.shape[-1] <= 256 else np.dtype("<u2")),
        "lead": _bytes(np.sqrt(two[..., 1] - two[..., 0])),  # a root is fine near zero, where the boundary is
    }
    functions = {i: _bytes(h[..., i]) for i in seen}
    # The outline of a shape is of use where its function is to be seen.
    outlines = {i: _bytes(gates[i]) for i in seen if i in gates and gates[i].min() < 0.5 < gates[i].max()}
    size = sum(grid.nbytes for grid in [*grids.values(), *functions.values(), *outlines.values()])
    return {
        **{name: _text(grid) for name, grid in grids.items()},
        "functions": {i: _text(grid) for i, grid in functions.items()},
        "gates": {i: _text(grid) for i, grid in outlines.items()},
    }, size


def _bytes(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.round(255 * np.clip(values, 0, 1)), dtype=np.uint8)


def _text(grid: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(grid).tobytes()).decode()
