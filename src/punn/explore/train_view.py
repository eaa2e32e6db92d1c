"""What trains a model: a table, what to learn from it, and how far it is."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from punn.building import GATES
from punn.datasets import DATASETS
from punn.explore.sessions import Session

__all__ = ["GATES_TOLD", "train_view"]

BUILT_IN = {
    "iris": "150 flowers, 4 lengths, 3 species",
    "wine": "178 wines, 13 measurements, 3 growers",
    "breast_cancer": "569 tumours, 30 measurements, 2 kinds",
    "digits": "1,797 small pictures of digits",
    "moons": "two half-circles in the plane",
    "circles": "two circles, one in the other",
    "xor": "four clusters, two classes",
    "helix": "two spirals",
    "rings": "three rings",
}
GATES_TOLD = {
    "auto": "A small network for every gate, or one for all if there are many classes.",
    "mlp": "Every gate is a small network of its own.",
    "shared": "All gates are outputs of one network.",
    "ball": "Every gate is a soft ball: a center and a radius.",
    "ellipsoid": "Every gate is a soft ellipsoid along the axes.",
    "shell": "Every gate is the space between two spheres.",
    "fourier": "Every gate is the space between two curves; for two features.",
    "harmonic": "Every gate is a star-shaped region.",
}


def train_view(session: Session) -> Any:
    """All that chooses a table and trains on it."""
    cards = [
        html.Button([html.B(name), html.Span(told)], id={"type": "builtin", "name": name}, className="set")
        for name, told in BUILT_IN.items()
        if name in DATASETS
    ]
    table = session.table
    return [
        dcc.Interval(id="tick", interval=300, disabled=True),
        dcc.Store(id="table", data=None if table is None else table.place),
        html.Div(
            [html.H1("Train a model"), html.P("Choose a table, say what to predict, and watch it learn.")],
            className="facts",
        ),
        html.Section(
            [
                html.H2("1  A table"),
                html.P("A built-in set, or a CSV file of your own: it stays on this machine.", className="told-by"),
                html.Div(cards, className="sets"),
                dcc.Upload(
                    ["Drop a CSV file here, or ", html.Span("choose one", className="link")],
                    id="upload",
                    className="drop",
                    className_active="drop over",
                    multiple=False,
                ),
                html.P(id="table-message", className="message", role="alert"),
                html.Div(id="preview"),
            ],
            className="card",
        ),
        html.Section(
            [
                html.H2("2  What to learn"),
                html.Div(
                    [
                        _option("Predict", dcc.Dropdown(id="target", options=[], clearable=False), "target-message"),
                        _option(
                            "Leave out", dcc.Dropdown(id="drop", options=[], multi=True, placeholder="nothing"), None
                        ),
                        _option(
                            "Gates",
                            dcc.Dropdown(
                                id="gates", options=["auto", *GATES], value="auto", clearable=False, searchable=False
                            ),
                            "gates-told",
                        ),
                        _option(
                            "Epochs",
                            dcc.Input(id="epochs", type="text", value="auto", className="field", autoComplete="off"),
                            "epochs-message",
                        ),
                    ],
                    className="options",
                ),
                html.Div(
                    [
                        html.Button("Train", id="fit", className="primary"),
                        html.Button("Stop", id="stop", className="small", hidden=True),
                    ],
                    className="actions",
                ),
                html.Div(
                    [html.Progress(id="progress", max="1", value="0"), html.Span(id="progress-told", role="status")],
                    id="progress-box",
                    className="progress",
                    hidden=True,
                ),
                html.P(id="fit-message", className="message", role="alert"),
                html.Ul(id="fit-notes", className="notes"),
            ],
            id="options-card",
            className="card",
            hidden=table is None,
        ),
    ]


def _option(name: str, component: Any, message: str | None) -> Any:
    beside = [html.Span(id=message, className="message", role="alert")] if message else []
    return html.Div([html.Label(name), component, *beside], className="option")
