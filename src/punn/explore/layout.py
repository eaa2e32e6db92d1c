"""The page: a bar on top, and below it the two views, to explore a model and to train one."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from punn.explore.explore_view import explore_view
from punn.explore.sessions import Session, Sessions
from punn.explore.train_view import train_view

__all__ = ["page"]


def page(key: str, sessions: Sessions) -> Any:
    """The whole page of a new tab."""
    session = sessions.find(key) or Session()
    return html.Div(
        [
            dcc.Store(id="tab", data=key),
            dcc.Store(id="subject", data=None if session.subject is None else session.subject.key),
            dcc.Store(id="view", data="train" if session.subject is None else "explore"),
            dcc.Download(id="download"),
            _top(session),
            html.Main(
                [
                    html.Div(explore_view(session.subject), id="explore", hidden=session.subject is None),
                    html.Div(train_view(session), id="train", hidden=session.subject is not None),
                ]
            ),
            html.Footer("Everything here is computed on this machine; nothing leaves it.", className="foot"),
        ],
        id="page",
    )


def _top(session: Session) -> Any:
    nothing = session.subject is None
    return html.Header(
        [
            html.Div([html.Span("punn", className="brand"), html.Span("explorer", className="sub")], className="name"),
            html.Nav(
                [
                    html.Button("Explore", id="go-explore", className="view", disabled=nothing),
                    html.Button("Train", id="go-train", className="view"),
                ],
                **{"aria-label": "Views"},
            ),
            html.Div(
                [
                    html.Button("Model", id="get-model", className="small", disabled=nothing, title="The model's file"),
                    html.Button("Report", id="get-report", className="small", disabled=nothing, title="One HTML file"),
                    html.Button(
                        "Python", id="get-code", className="small", disabled=nothing, title="The same in Python"
                    ),
                    html.Button(
                        "◐", id="theme", className="small", title="Light or dark", **{"aria-label": "Light or dark"}
                    ),
                ],
                className="tools",
                role="group",
                **{"aria-label": "Downloads"},
            ),
            html.Div(id="told", className="told", role="status"),
        ],
        className="top",
    )
