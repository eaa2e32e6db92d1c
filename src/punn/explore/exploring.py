"""Callbacks that answer about a row: its prediction and why, the map, the nearest change, the downloads."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from dash import ALL, ClientsideFunction, Input, Output, Patch, State, ctx, dcc, no_update

from punn.explore.code import file_name, row_code
from punn.explore.explore_view import explore_view
from punn.explore.figures import map_figure
from punn.explore.panels import change_panel, ledger_panel, probability_panel, trace_panel, verdict
from punn.explore.sessions import Session, Sessions
from punn.explore.subject import Subject
from punn.features import feature_names
from punn.ledger import Array

__all__ = ["register"]

LOST = "This tab was silent for long, and its model is gone: load the page again."
DOUBTFUL = 2000  # rows among which the most doubtful one is sought


def register(app: Any, sessions: Sessions) -> None:
    """Wire the callbacks."""

    def subject_in(tab: Any) -> Subject | None:
        session = sessions.find(tab)
        return None if session is None else session.subject

    _register_scripts(app)
    app.callback(
        Output("explore", "children"),
        *(Output(f"{name}", "disabled") for name in ("go-explore", "get-model", "get-report", "get-code")),
        Input("subject", "data"),
        State("tab", "data"),
        prevent_initial_call=True,
    )(lambda _, tab: _new_subject(sessions.find(tab)))
    app.callback(
        Output("answered", "data"),
        *(Output(name, "children") for name in ("verdict", "probabilities", "trace", "ledger")),
        Output("map", "figure"),
        Output("map-key", "data"),
        Output("map-message", "children"),
        Input("asked", "data"),
        Input("ledger-class", "value"),
        Input("map-x", "value"),
        Input("map-y", "value"),
        State("map-key", "data"),
        State("tab", "data"),
    )(lambda asked, ledger, x, y, key, tab: _answer(subject_in(tab), asked, ledger, x, y, key))
    app.callback(
        *(Output(name, prop) for name, prop in (("moved", "data"), ("row", "value"), ("truth", "children"))),
        Output("row-message", "children"),
        *(Input(name, "n_clicks") for name in ("previous", "next", "doubtful", "middle")),
        Input("row", "value"),
        State("tab", "data"),
        prevent_initial_call=True,
    )(lambda *values: _preset(subject_in(values[-1]), ctx.triggered_id, values[-2]))
    app.callback(
        Output("change-result", "children"),
        Output("found", "data"),
        Output("use", "hidden"),
        Input("change", "n_clicks"),
        State("asked", "data"),
        State("wanted", "value"),
        State("within", "value"),
        State("tab", "data"),
        prevent_initial_call=True,
    )(lambda _, asked, wanted, within, tab: _change(subject_in(tab), asked, wanted, within))
    app.callback(
        Output("moved", "data", allow_duplicate=True),
        Input("use", "n_clicks"),
        State("found", "data"),
        prevent_initial_call=True,
    )(lambda _, found: found or no_update)
    app.callback(
        Output("download", "data"),
        Output("told", "children"),
        *(Input(name, "n_clicks") for name in ("get-model", "get-report", "get-code")),
        State("asked", "data"),
        State("tab", "data"),
        prevent_initial_call=True,
        running=[(Output("get-report", "disabled"), True, False)],
    )(lambda model, report, code, asked, tab: _download(subject_in(tab), ctx.triggered_id, asked))


def _register_scripts(app: Any) -> None:
    """What happens in the browser alone: see assets/explore.js."""
    app.clientside_callback(
        ClientsideFunction("punn", "sync"),
        *(Input({"type": kind, "index": ALL}, "value") for kind in ("slider", "field", "menu")),
        Input("moved", "data"),
        Input("controls", "data"),
    )
    # With an output, so that it is called when the controls of a new model appear.
    app.clientside_callback(ClientsideFunction("punn", "begin"), Output("begun", "data"), Input("controls", "data"))
    app.clientside_callback(ClientsideFunction("punn", "answered"), Input("answered", "data"))
    app.clientside_callback(ClientsideFunction("punn", "axis"), Input("map-x", "value"), Input("map-y", "value"))
    app.clientside_callback(ClientsideFunction("punn", "theme"), Input("theme", "n_clicks"))
    app.clientside_callback(ClientsideFunction("punn", "find"), Input("find", "value"))
    app.clientside_callback(
        ClientsideFunction("punn", "view"),
        Output("explore", "hidden"),
        Output("train", "hidden"),
        Output("go-explore", "className"),
        Output("go-train", "className"),
        Input("go-explore", "n_clicks"),
        Input("go-train", "n_clicks"),
        Input("view", "data"),
    )


def _new_subject(session: Session | None) -> tuple[Any, ...]:
    subject = None if session is None else session.subject
    return explore_view(subject), *[subject is None] * 4


def _answer(subject: Subject | None, asked: Any, ledger: Any, x: Any, y: Any, key: Any) -> tuple[Any, ...]:
    """Everything that follows from a row; the map is drawn anew only if more than the point has moved."""
    if subject is None:
        return (no_update, LOST, *[no_update] * 6)
    if not isinstance(asked, dict) or asked.get("subject") != subject.key:
        return (no_update,) * 8  # asked about a model that is gone
    try:
        features = subject.features(asked)
    except ValueError as error:
        return ({"to": asked.get("number")}, f"{error}.", *[no_update] * 6)
    trace = subject.model.trace(subject.rows(features))
    labels = trace.classes.tolist()
    label = labels[ledger] if isinstance(ledger, int) and 0 <= ledger < len(labels) else trace.predicted.tolist()[0]
    return (
        {"to": asked.get("number")},
        verdict(trace, _outside(subject, features)),
        probability_panel(trace),
        trace_panel(trace),
        ledger_panel(trace, label),
        *_map(subject, features, x, y, key),
    )


def _outside(subject: Subject, features: Array) -> list[str]:
    """Features beyond their training values, but for rounding."""
    slack = 1e-6 * (subject.ranges[:, 2] - subject.ranges[:, 0])
    beyond = (features < subject.ranges[:, 0] - slack) | (features > subject.ranges[:, 2] + slack)
    return [] if subject.guessed else [feature_names(subject.model)[f] for f in np.flatnonzero(beyond).tolist()]


def _map(subject: Subject, features: Array, x: Any, y: Any, key: Any) -> tuple[Any, Any, Any]:
    numbers = subject.numbers
    if len(numbers) < 2 or x not in numbers or y not in numbers:
        return no_update, no_update, no_update
    if x == y:
        return no_update, None, "Choose two different columns."
    pair = [subject.controls[i].first for i in (x, y)]
    others = np.delete(features, pair)
    new = f"{subject.key} {x} {y} {others.tobytes().hex()}"
    if new != key:
        return map_figure(subject, features, (x, y)), new, ""
    figure = Patch()
    figure["data"][-1]["x"] = [float(features[pair[0]])]
    figure["data"][-1]["y"] = [float(features[pair[1]])]
    return figure, no_update, ""


def _preset(subject: Subject | None, trigger: Any, typed: Any) -> tuple[Any, ...]:
    """A row of the table, or the middle of all: where to move, its number, its true class, and what is wrong."""
    if subject is None:
        return no_update, no_update, no_update, LOST
    if trigger == "middle":
        return subject.asked(subject.middle()), no_update, "", ""
    if subject.X is None:
        return (no_update,) * 4
    count, text = len(subject.X), str(typed).strip()
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if trigger == "doubtful":
        number = _most_doubtful(subject)
    elif trigger in ("previous", "next"):
        number = (number + (1 if trigger == "next" else -1)) % count
    if not 0 <= number < count:
        return no_update, no_update, "", f"expected a row from 0 to {count - 1:,}"
    features = subject.X.iloc[number].to_numpy(dtype=np.float64)
    truth = "" if subject.y is None else f"row {number}: labelled {subject.y[number]}"
    return subject.asked(features), no_update if trigger == "row" else str(number), truth, ""


def _most_doubtful(subject: Subject) -> int:
    """The row whose two most probable classes are closest, among evenly spaced ones."""
    if subject.X is None:
        return 0
    some = np.arange(0, len(subject.X), len(subject.X) // DOUBTFUL + 1)
    p = np.sort(subject.model.predict_proba(subject.X.iloc[some]), axis=1)
    return int(some[(p[:, -1] - p[:, -2]).argmin()])


def _change(subject: Subject | None, asked: Any, wanted: Any, within: Any) -> tuple[Any, Any, bool]:
    """The counterfactual of the row: what to show, where it leads, and whether it leads nowhere."""
    if subject is None:
        return LOST, None, True
    labels = subject.model.classes_.tolist()
    try:
        features = subject.features(asked)
        bounds = {f: (low, high) for f, (low, _, high) in enumerate(subject.ranges.tolist())} if within else None
        change = subject.model.counterfactual(features, labels[int(wanted)], bounds=bounds, fixed=subject.fixed)
    except (ValueError, TypeError, IndexError) as error:
        return f"{error}.", None, True
    found = subject.asked(change.x_new) if change.found and change.x_new is not None and not change.note else None
    return change_panel(change, subject.picture, labels), found, found is None


def _download(subject: Subject | None, trigger: Any, asked: Any) -> tuple[Any, str]:
    if subject is None:
        return no_update, LOST
    name = file_name(subject.name).removesuffix(".punn.safetensors")
    try:
        if trigger == "get-model":
            return dcc.send_bytes(_model_bytes(subject), f"{name}.punn.safetensors"), ""
        if trigger == "get-report":
            return dcc.send_string(_report(subject), f"{name}.html"), ""
        return dcc.send_string(row_code(subject, subject.features(asked)), f"{name}.py"), ""
    except (ValueError, TypeError, ImportError) as error:
        return no_update, f"{error}."


def _report(subject: Subject) -> str:
    from punn.report import report_html

    if subject.X is None:
        raise ValueError("a report needs rows: start with the table too, punn explore MODEL TABLE")
    picture = subject.picture
    # A picture without some of its pixels is told from the names of the others.
    image = (picture.side, picture.side) if picture and len(picture.places) == picture.side**2 else None
    return report_html(subject.model, subject.X, subject.y, source=subject.name, image=image)


def _model_bytes(subject: Subject) -> bytes:
    with tempfile.TemporaryDirectory(prefix="punn-") as folder:
        path = Path(folder) / "model"
        subject.model.save(path)
        return path.read_bytes()
