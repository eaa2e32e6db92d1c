"""Callbacks that choose a table, train a model on it beside the page, and hand it over to be explored."""

from __future__ import annotations

from typing import Any

from dash import ALL, Input, Output, State, ctx, html, no_update

from punn.building import GATES
from punn.datasets import DATASETS
from punn.explore.job import Job, Recipe
from punn.explore.sessions import Session, Sessions
from punn.explore.train_view import GATES_TOLD
from punn.explore.upload import Table, read_upload
from punn.ledger import percent, show
from punn.sources import read_source
from punn.table import TableError

__all__ = ["register"]

LOST = "This tab was silent for long, and its table is gone: load the page again."
PREVIEW, WIDE = 5, 8  # rows and columns of a table that are shown
LONGEST = 100_000  # epochs


def register(app: Any, sessions: Sessions) -> None:
    """Wire the callbacks."""
    app.callback(
        *(Output(name, prop) for name, prop in (("table", "data"), ("table-message", "children"))),
        Input({"type": "builtin", "name": ALL}, "n_clicks"),
        Input("upload", "contents"),
        State("upload", "filename"),
        State("tab", "data"),
        prevent_initial_call=True,
    )(lambda _, contents, name, tab: _choose(sessions.find(tab), ctx.triggered_id, contents, name))
    app.callback(
        Output("preview", "children"),
        Output("target", "options"),
        Output("target", "value"),
        Output("drop", "value"),
        Output("options-card", "hidden"),
        Input("table", "data"),
        State("tab", "data"),
    )(lambda _, tab: _show(sessions.find(tab)))
    app.callback(Output("drop", "options"), Input("target", "options"), Input("target", "value"))(_droppable)
    app.callback(Output("gates-told", "children"), Input("gates", "value"))(lambda gates: GATES_TOLD.get(gates, ""))
    app.callback(
        Output("tick", "disabled"),
        Output("target-message", "children"),
        Output("epochs-message", "children"),
        Output("fit-message", "children"),
        Output("fit-notes", "children"),
        Input("fit", "n_clicks"),
        State("target", "value"),
        State("drop", "value"),
        State("gates", "value"),
        State("epochs", "value"),
        State("tab", "data"),
        prevent_initial_call=True,
    )(lambda _, target, drop, gates, epochs, tab: _fit(sessions.find(tab), target, drop, gates, epochs))
    app.callback(
        Output("tick", "disabled", allow_duplicate=True),
        Output("progress-box", "hidden"),
        Output("progress", "value"),
        Output("progress-told", "children"),
        Output("fit", "disabled"),
        Output("stop", "hidden"),
        Output("fit-message", "children", allow_duplicate=True),
        Output("fit-notes", "children", allow_duplicate=True),
        Output("subject", "data"),
        Output("view", "data"),
        Input("tick", "n_intervals"),
        State("tab", "data"),
        prevent_initial_call=True,
    )(lambda _, tab: _progress(sessions.find(tab)))
    app.callback(
        Output("stop", "disabled"), Input("stop", "n_clicks"), State("tab", "data"), prevent_initial_call=True
    )(lambda _, tab: _stop(sessions.find(tab)))


def _choose(session: Session | None, trigger: Any, contents: Any, name: Any) -> tuple[Any, str]:
    """Take a built-in set, or read the file that was dropped."""
    if session is None:
        return no_update, LOST
    try:
        if trigger == "upload":
            session.table = read_upload(contents, name)
        else:
            built_in = str(dict(trigger or {}).get("name"))
            if built_in not in DATASETS:
                return no_update, f"there is no built-in set {built_in!r}"
            session.table = Table(read_source(built_in), built_in)
    except TableError as error:
        return no_update, f"{error}."
    # Dropping the same file again must show it again.
    return {"place": session.table.place, "key": id(session.table)}, ""


def _show(session: Session | None) -> tuple[Any, ...]:
    """The first rows of the table, and its columns to choose from."""
    if session is None or session.table is None:
        return "", [], None, [], True
    source = session.table.source
    frame, names = source.frame, [str(name) for name in source.frame.columns]
    head = html.Thead(html.Tr([html.Th(show(name, 24), scope="col") for name in names[:WIDE]]))
    body = [
        html.Tr([html.Td(_cell(frame.iloc[row, column])) for column in range(min(len(names), WIDE))])
        for row in range(min(len(frame), PREVIEW))
    ]
    more = f", of which {WIDE} are shown" if len(names) > WIDE else ""
    said = f"{show(session.table.place, 60)}: {len(frame):,} rows, {len(names):,} columns{more}."
    notes = [html.P(note, className="note") for note in source.notes]
    table = html.Div(html.Table([head, html.Tbody(body)], className="preview"), className="scroll")
    options = [{"label": show(name, 60), "value": name} for name in names]
    return [html.P(said), table, *notes], options, source.target or _likely_target(session.table), [], False


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else show(value, 24)


def _likely_target(table: Table) -> str:
    """The last column with few values, else the last."""
    frame = table.source.frame
    names = [str(name) for name in frame.columns]
    few = [name for i, name in enumerate(names) if 2 <= frame.iloc[:, i].nunique() <= min(20, len(frame) // 2)]
    return (few or names)[-1]


def _droppable(options: list[dict[str, Any]], target: Any) -> list[dict[str, Any]]:
    return [option for option in options or [] if option["value"] != target]


def _fit(session: Session | None, target: Any, drop: Any, gates: Any, epochs: Any) -> tuple[Any, ...]:
    """Begin a fit, or say beside the field what is wrong."""
    if session is None or session.table is None:
        return True, "", "", LOST if session is None else "choose a table first", []
    if session.job is not None and not session.job.done:
        return False, "", "", "", []
    names = [str(name) for name in session.table.source.frame.columns]
    if target not in names:
        return True, "choose the column to predict", "", "", []
    text = str(epochs).strip().lower()
    if text != "auto" and not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= LONGEST and len(text) < 9):
        return True, "", f"expected auto, or a whole number from 1 to {LONGEST:,}", "", []
    options = {
        "gates": gates if gates in GATES else "auto",
        "epochs": "auto" if text == "auto" else int(text),
    }
    left_out = tuple(name for name in drop or [] if name in names and name != target)
    session.job = Job(Recipe(session.table, target, left_out, options))
    session.job.start()
    return False, "", "", "", []


def _progress(session: Session | None) -> tuple[Any, ...]:
    """How far the fit is; its result is explored as soon as it is there."""
    job = None if session is None else session.job
    if session is None or job is None:
        return True, True, "0", "", False, True, LOST if session is None else "", [], no_update, no_update
    if not job.done:
        share = "0" if job.step is None else f"{job.step.epoch / job.step.epochs:.4f}"
        return False, False, share, _told(job), True, False, no_update, no_update, no_update, no_update
    # The job stays: a browser drops an answer when it has asked again in the meantime, and must find it then.
    notes = [html.Li(note) for note in job.notes[:12]]
    if job.subject is None:
        return True, True, "0", "", False, True, f"{job.error}.", notes, no_update, no_update
    session.subject = job.subject
    return True, True, "1", "", False, True, "", notes, job.subject.key, {"view": "explore", "key": job.subject.key}


def _told(job: Job) -> str:
    if job.step is None:
        return "getting ready"
    if job.stopping:
        return "stopping after this epoch, with the best weights so far"
    minutes, seconds = divmod(round(job.left), 60)
    return (
        f"epoch {job.step.epoch} of {job.step.epochs} · loss {job.step.loss:.4f} · "
        f"{percent(job.step.accuracy)} right · {minutes}:{seconds:02} left"
    )


def _stop(session: Session | None) -> bool:
    if session is not None and session.job is not None:
        session.job.stop()
    return False
