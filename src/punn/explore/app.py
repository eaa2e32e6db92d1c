"""The app: its page, its callbacks and its guard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dash import Dash

from punn.explore.exploring import register as register_exploring
from punn.explore.guard import guard
from punn.explore.layout import page
from punn.explore.learning import register as register_learning
from punn.explore.sessions import Sessions

__all__ = ["build_app"]

INDEX = """<!DOCTYPE html>
<html lang="en">
    <head>
        {%metas%}
        <title>{%title%}</title>
        {%favicon%}
        {%css%}
    </head>
    <body>
        {%app_entry%}
        <footer>
            {%config%}
            {%scripts%}
            {%renderer%}
        </footer>
    </body>
</html>"""


def build_app(sessions: Sessions, host: str = "127.0.0.1") -> Any:
    """The app of the explorer.

    Arguments:
        sessions: One for every tab.
        host: The address that it will listen on, which decides who may ask.
    """
    app = Dash(
        "punn",
        assets_folder=str(Path(__file__).parent / "assets"),
        title="punn explorer",
        update_title="",
        index_string=INDEX,
        serve_locally=True,
        enable_mcp=False,
        suppress_callback_exceptions=True,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    app.layout = lambda: page(sessions.open(), sessions)
    register_exploring(app, sessions)
    register_learning(app, sessions)
    guard(app.server, host, list(app.csp_hashes()))
    return app
