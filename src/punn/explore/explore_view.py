"""What explores one model: the row and its controls, the answers, the map, the change that is asked for."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from punn.explore.figures import best_pair
from punn.explore.panels import colors_of, legend
from punn.explore.subject import Control, Subject
from punn.ledger import Array, percent, show

__all__ = ["explore_view"]


def explore_view(subject: Subject | None) -> Any:
    """All that explores one subject."""
    if subject is None:
        return []
    start = subject.middle() if subject.X is None else subject.X.to_numpy(dtype=float)[0]
    asked = subject.asked(start)
    return [
        dcc.Store(id="asked", data={"subject": subject.key, **asked}),
        dcc.Store(id="answered"),
        dcc.Store(id="begun"),
        dcc.Store(id="moved"),
        dcc.Store(id="map-key"),
        dcc.Store(id="found"),
        dcc.Store(id="controls", data=_controls_data(subject, asked)),
        _facts(subject),
        html.Div(
            [
                _row_card(subject, asked),
                html.Div(_answer_cards(subject), className="column"),
                html.Div([_map_card(subject), _change_card(subject, start)], className="column"),
            ],
            className="grid",
        ),
    ]


def _answer_cards(subject: Subject) -> list[Any]:
    return [
        _card("verdict-card", "Prediction", None, html.Div(id="verdict", **{"aria-live": "polite"})),
        _card(
            "probability-card",
            "Probabilities",
            "Every class with its share of the mass; the shares always add up to one.",
            html.Div(id="probabilities"),
        ),
        _card(
            "trace-card",
            "Gate trace",
            "All of the mass enters at the top; every gate takes its coloured share of what reaches it and "
            "passes the pale rest on to the next.",
            html.Div(id="trace"),
        ),
        _ledger_card(subject),
    ]


def _facts(subject: Subject) -> Any:
    model = subject.model
    gates = model.gates if isinstance(model.gates, str) else "mixed"
    facts = [
        f"{len(model.classes_)} classes",
        f"{model.n_features_in_} features",
        f"{gates} gates",
        f"{model.n_parameters_:,} numbers learned",
    ]
    try:
        summary: Any = getattr(model, "summary_", None)
        accuracy, rows = float(summary["scores"]["model"]["accuracy"]), int(summary["rows"]["test"])
        facts.append(f"{percent(accuracy)} right on {rows:,} held-out rows")
    except (KeyError, TypeError, ValueError):
        pass  # a summary may be anything
    notes = ["The model does not know its training data: the bounds are guesses."] if subject.guessed else []
    return html.Div(
        [
            html.H1(show(subject.name, 60)),
            html.P(" · ".join(facts)),
            *(html.P(note, className="note") for note in notes),
        ],
        className="facts",
    )


def _card(name: str, title: str, told: str | None, *content: Any) -> Any:
    said = [html.P(told, className="told-by")] if told else []
    return html.Section([html.H2(title), *said, *content], id=name, className="card")


def _row_card(subject: Subject, asked: dict[str, Any]) -> Any:
    if subject.picture is not None:
        return _card(
            "row-card",
            "Draw",
            "Draw a digit with the mouse, a finger or a pen; the model answers while you draw.",
            _presets(subject),
            html.Canvas(id="canvas", width="280", height="280", tabIndex="0", **{"aria-label": "Draw here"}),
            html.Div(
                [
                    html.Button("Clear", id="clear", className="small"),
                    html.Figure(
                        [
                            html.Canvas(id="seen", width=str(subject.picture.side), height=str(subject.picture.side)),
                            html.Figcaption("what the model sees"),
                        ]
                    ),
                ],
                className="under",
            ),
        )
    values = [_control(i, control, asked["cells"][i]) for i, control in enumerate(subject.controls)]
    find = dcc.Input(id="find", type="search", placeholder="Find a column", className="field", debounce=False)
    return _card(
        "row-card",
        "The row",
        "Move a slider or type a value; bounds are those of the training data.",
        _presets(subject),
        html.Div(find, className="finder", hidden=len(values) < 12),
        html.Div(values, id="values"),
    )


def _presets(subject: Subject) -> Any:
    rows = subject.X is not None
    count = 0 if subject.X is None else len(subject.X)
    return html.Div(
        [
            html.Div(
                [
                    html.Label("Row", htmlFor="row"),
                    html.Button(
                        "‹",
                        id="previous",
                        className="small",
                        title="The row before",
                        **{"aria-label": "The row before"},
                    ),
                    dcc.Input(id="row", type="text", value="0", className="field short", autoComplete="off"),
                    html.Button(
                        "›", id="next", className="small", title="The next row", **{"aria-label": "The next row"}
                    ),
                    html.Span(f"of {count:,}", className="quiet"),
                ],
                hidden=not rows,
                className="presets",
            ),
            html.Button("Most doubtful row", id="doubtful", className="small", hidden=not rows),
            html.Button("Middle of the data", id="middle", className="small", hidden=subject.picture is not None),
            html.Span(id="truth", className="truth"),
            html.Span(id="row-message", className="message", role="alert"),
        ],
        className="preset-box",
    )


def _control(i: int, control: Control, value: Any) -> Any:
    name = show(control.column.name, 60)
    message = html.Span(id={"type": "message", "index": i}, className="message", **{"aria-live": "polite"})
    if control.choices:
        options = [
            {"label": "(missing)" if choice is None else show(choice, 60), "value": k}
            for k, choice in enumerate(control.choices)
        ]
        menu = _menu({"type": "menu", "index": i}, options, value)
        return html.Div([html.Label(name), menu, message], className="control")
    low, high = (f"{end:.4g}" for end in (control.low, control.high))
    field = dcc.Input(
        id={"type": "field", "index": i},
        type="text",
        value="" if value is None else f"{value:.6g}",
        className="field",
        autoComplete="off",
        inputMode="numeric",
        placeholder="missing" if control.column.indicator else "",
    )
    slider = dcc.Input(
        id={"type": "slider", "index": i},
        type="range",
        min=control.low,
        max=max(control.high, control.low + control.step),
        step=control.step,
        value=control.middle if value is None else value,
        className="slider",
    )
    ends = html.Div([html.Span(low), html.Span(high)], className="ends")
    return html.Div(
        [html.Div([html.Label(name), field], className="line"), slider, ends, message],
        className="control",
    )


def _controls_data(subject: Subject, asked: dict[str, Any]) -> dict[str, Any]:
    """What the scripts of the page know about the controls."""
    picture = subject.picture
    return {
        "subject": subject.key,
        "cells": asked.get("cells"),
        "grid": asked.get("grid"),
        "side": None if picture is None else picture.side,
        "controls": [
            {
                "name": control.column.name,
                "menu": bool(control.choices),
                "low": control.low,
                "high": control.high,
                "missing": control.column.indicator,
            }
            for control in subject.controls
        ],
    }


def _map_card(subject: Subject) -> Any:
    pair = best_pair(subject)
    options = [{"label": show(subject.controls[i].column.name, 60), "value": i} for i in subject.numbers]
    first, second = pair or (None, None)
    labels = subject.model.classes_.tolist()
    card = _card(
        "map-card",
        "Map",
        "Each colour is the class that wins there, the stronger the surer, while all other features keep their values; "
        "click or drag to move the row.",
        html.Div(
            [
                html.Div([html.Label(name), _menu(id, options, value)], className="axis")
                for name, id, value in (("across", "map-x", first), ("up", "map-y", second))
            ],
            className="axes",
        ),
        html.Span(id="map-message", className="message"),
        html.Div(
            dcc.Graph(
                id="map", config={"displayModeBar": False, "responsive": True}, figure={"data": [], "layout": {}}
            ),
            id="map-box",
            tabIndex="0",
            **{"aria-label": "Map of two features; the arrow keys move the row"},
        ),
        legend(labels, colors_of(len(labels))),
    )
    card.hidden = pair is None
    return card


def _ledger_card(subject: Subject) -> Any:
    labels = subject.model.classes_.tolist()
    options = [{"label": "the predicted class", "value": -1}]
    options += [{"label": show(label, 60), "value": c} for c, label in enumerate(labels)]
    return _card(
        "ledger-card",
        "Ledger",
        "A probability is a product of what the gates do, so its logarithm is a sum; the longest bar costs the most.",
        html.Div(
            [
                html.Label("of"),
                _menu("ledger-class", options, -1),
            ],
            className="axes",
        ),
        html.Div(id="ledger"),
    )


def _change_card(subject: Subject, start: Array) -> Any:
    labels = subject.model.classes_.tolist()
    p = subject.model.predict_proba(subject.rows(start))[0]
    wanted = labels[:-1] if subject.model.rest == "unknown" else labels
    options = [{"label": show(label, 60), "value": c} for c, label in enumerate(wanted)]
    rival = int(p[: len(wanted)].argsort()[-2]) if len(wanted) > 1 else 0
    held = " Categories stay as they are." if subject.fixed else ""
    return _card(
        "change-card",
        "Make it another class",
        f"The smallest change of the row that lets a class win, and the gates that turn.{held}",
        html.Div(
            [
                html.Label("make it"),
                _menu("wanted", options, rival),
                html.Button("Find the change", id="change", className="primary"),
            ],
            className="axes",
        ),
        dcc.Checklist(
            id="within", options=[{"label": "stay within the training data", "value": "within"}], value=["within"]
        ),
        dcc.Loading(html.Div(id="change-result"), type="dot", delay_show=300),
        html.Button("Use this row", id="use", className="small", hidden=True),
    )


def _menu(name: str | dict[str, Any], options: list[dict[str, Any]], value: Any) -> Any:
    return dcc.Dropdown(id=name, options=options, value=value, clearable=False, searchable=len(options) > 12)
