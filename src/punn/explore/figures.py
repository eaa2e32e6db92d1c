"""The map: two features, the class that wins at every point, and the row as a point that can be moved."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from punn.displays.plane import Plane, plane_of, values_on
from punn.explore.panels import colors_of
from punn.explore.subject import Subject
from punn.features import as_table
from punn.ledger import Array, show

__all__ = ["best_pair", "map_figure", "map_plane"]

RESOLUTION = 50
POINTS = 400  # rows that are drawn
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")
PALE, FULL = 0.06, 0.7  # opacity where a class just wins, and where it has all of the mass


def best_pair(subject: Subject) -> tuple[int, int] | None:
    """Two controls to begin with: those that tell the classes apart best, one by one; None if there are no two."""
    numbers = subject.numbers
    if len(numbers) < 2:
        return None
    if subject.X is None or subject.y is None:
        return numbers[0], numbers[1]
    from sklearn.feature_selection import f_classif

    columns = [subject.controls[i].first for i in numbers]
    some = slice(None, None, len(subject.X) // 5000 + 1)
    with np.errstate(all="ignore"):
        told = np.nan_to_num(f_classif(subject.X.iloc[some, columns].to_numpy(), subject.y[some])[0])
    second, first = np.argsort(told, kind="stable")[-2:].tolist()
    return numbers[first], numbers[second]


def map_plane(subject: Subject, features: Array, pair: tuple[int, int]) -> Plane:
    """The plane of two controls through a row; it reaches a little beyond the training rows."""
    corners = as_table(subject.model, subject.ranges[:, [0, 2]].T)
    index = tuple(subject.controls[i].first for i in pair)
    return plane_of(subject.model, corners, None, (index[0], index[1]), features, RESOLUTION)


def map_figure(subject: Subject, features: Array, pair: tuple[int, int]) -> dict[str, Any]:
    """The figure of a map; the last of its traces is the row."""
    plane = map_plane(subject, features, pair)
    _, p, _, _ = values_on(subject.model, plane)
    x, y = plane.index
    return {
        "data": [
            _ground(plane, p),
            *_rows(subject, x, y),
            {
                "type": "scatter",
                "x": [float(features[x])],
                "y": [float(features[y])],
                "mode": "markers",
                "hoverinfo": "skip",
                "marker": {"size": 17, "color": "white", "line": {"color": "black", "width": 4}},
            },
        ],
        "layout": {
            "margin": {"l": 58, "r": 12, "t": 8, "b": 46},
            "height": 380,
            "showlegend": False,
            "dragmode": False,
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "inherit", "size": 13},
            "xaxis": _axis(plane.names[0], plane.first),
            "yaxis": _axis(plane.names[1], plane.second),
            "uirevision": "map",
        },
    }


def _axis(name: str, values: Array) -> dict[str, Any]:
    # plotly reads some tags in titles: a name is text, whatever is in it.
    title = {"text": escape(show(name, 44)), "standoff": 8}
    return {"title": title, "range": [float(values[0]), float(values[-1])], "zeroline": False, "showgrid": False,
            "fixedrange": True}  # fmt: skip


def _ground(plane: Plane, p: np.ndarray) -> dict[str, Any]:
    """One heatmap for all classes: the whole part of a value says which one wins, the fraction by how much."""
    classes = p.shape[-1]
    winner, share = p.argmax(axis=-1), p.max(axis=-1)
    lead = (share - 1 / classes) / (1 - 1 / classes)
    scale = []
    for c, color in enumerate(colors_of(classes)):
        red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
        scale += [[(c + end) / classes, f"rgba({red},{green},{blue},{a})"] for end, a in ((0, PALE), (1, FULL))]
    return {
        "type": "heatmap",
        "x": plane.first.tolist(),
        "y": plane.second.tolist(),
        "z": np.round(winner + 0.998 * np.clip(lead, 0, 1) + 0.001, 3).tolist(),
        "zmin": 0,
        "zmax": classes,
        "colorscale": scale,
        "showscale": False,
        "hoverinfo": "skip",
    }


def _rows(subject: Subject, x: int, y: int) -> list[dict[str, Any]]:
    """Some rows, each class with its colour and symbol; rows without a label are grey."""
    if subject.X is None:
        return []
    some = np.arange(0, len(subject.X), len(subject.X) // POINTS + 1)
    points = subject.X.iloc[some, [x, y]].to_numpy(dtype=np.float64)
    labels = subject.model.classes_.tolist()
    codes = np.full(len(some), -1)
    if subject.y is not None:
        place = {label: c for c, label in enumerate(labels)}
        codes = np.array([place.get(label, -1) for label in subject.y[some].tolist()])
    colors = [*colors_of(len(labels)), "#999999"]
    return [
        {
            "type": "scatter",
            "x": points[codes == c, 0].tolist(),
            "y": points[codes == c, 1].tolist(),
            "mode": "markers",
            "hoverinfo": "skip",
            "marker": {
                "size": 6,
                "color": colors[c],
                "symbol": SYMBOLS[c % len(SYMBOLS)],
                "line": {"color": "white", "width": 0.7},
            },
        }
        for c in np.unique(codes).tolist()
    ]
