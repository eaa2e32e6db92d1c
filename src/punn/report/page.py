"""The page: everything computed, and written into one HTML file."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from punn import __version__
from punn.checkpoint import write_atomically
from punn.report.contents import contents

__all__ = ["report_html", "write_report"]


def report_html(
    model: Any,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    table: Any = None,
    source: str = "the table",
    image: tuple[int, ...] | None = None,
    seed: int = 0,
) -> str:
    """One HTML page about a model and its answers to some rows; it needs no other file and no network.

    Arguments:
        model: A fitted :class:`punn.PUNNClassifier`.
        X: Rows: features, shape (n, features), or a table with the columns that the model was trained on.
        y: Their labels, shape (n,); without them nothing is scored. A label may be missing.
        table: The table that X was made of, if its values shall be shown instead of those of X.
        source: What the rows are called on the page.
        image: Height and width if every row is an image, (28, 28), (32, 32, 3) or (3, 32, 32); found by names
            such as pixel_3_7 if None.
        seed: Decides which rows of a large table are shown.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from punn import PUNNClassifier
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> model = PUNNClassifier("ball", epochs=20, restarts=1, random_state=0).fit(X, y)
        >>> html = report_html(model, X, y, source="iris")
        >>> html[:15], len(html) < 8_000_000
        ('<!DOCTYPE html>', True)
    """
    check_is_fitted(model, "network_")
    jinja2, plotly = _import_packages()
    page = contents(model, X, y, table=table, source=source, image=image, seed=seed)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("punn.report", "assets"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"percent": _percent, "interval": _interval}
    return str(
        environment.get_template("report.html").render(
            **page["text"],
            data=_script_safe(page["data"]),
            plotly=plotly.get_plotlyjs(),
            script=_asset("report.js"),
            style=_asset("report.css"),
            version=__version__,
        )
    )


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    table: Any = None,
    source: str = "the table",
    image: tuple[int, ...] | None = None,
    seed: int = 0,
) -> None:
    """Write :func:`report_html` to a file, whole or not at all; an earlier file is replaced."""
    html = report_html(model, X, y, table=table, source=source, image=image, seed=seed)
    write_atomically(Path(path), html.encode())


def _import_packages() -> tuple[Any, Any]:
    try:
        import jinja2
        import plotly.offline
    except ImportError as error:
        raise ImportError(f"a report needs {error.name}, which is not installed: pip install punn[report]") from error
    return jinja2, plotly.offline


def _asset(name: str) -> str:
    return (files("punn.report") / "assets" / name).read_text(encoding="utf-8")


def _script_safe(data: Any) -> str:
    """JSON in which no text can end the script element that it stands in.

    Example:
        >>> _script_safe({"name": "</script>"})
        '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, default=_plain)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}%"


def _interval(share: dict[str, float]) -> str:
    return f"{100 * share['low']:.1f} to {100 * share['high']:.1f}%"
