"""Traces, ledgers and counterfactuals as components: views of the same arrays, and no numbers of their own.

All text becomes the content of an element, which browsers never read as HTML.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from dash import html

from punn.counterfactual import Counterfactual
from punn.displays.style import class_colors
from punn.explore.picture import Picture, data_uri
from punn.ledger import VISIBLE, Ledger, largest, percent, show
from punn.trace import GateTrace

__all__ = ["change_panel", "colors_of", "ledger_panel", "legend", "probability_panel", "trace_panel", "verdict"]

MOST = 16  # lines of a panel; of more, those that hold mass
NAME = 40  # letters of a name


def colors_of(count: int) -> list[str]:
    """A colour for every class that is seen on white and on black."""
    return [_css(color) for color in class_colors(count)]


def _css(color: Any) -> str:
    if isinstance(color, str):
        return "#7A7A7A" if color == "#000000" else color
    return "#" + "".join(f"{round(255 * level):02x}" for level in color[:3])


def legend(labels: Sequence[Any], colors: Sequence[str]) -> Any:
    """Names beside their colours."""
    few = list(zip(labels, colors, strict=True))[:MOST]
    chips = [html.Span([_chip(color), show(label, NAME)], className="entry") for label, color in few]
    more = [html.Span(f"and {len(labels) - MOST:,} more", className="entry")] if len(labels) > MOST else []
    return html.Div([*chips, *more], className="legend")


def verdict(trace: GateTrace, outside: Sequence[str]) -> Any:
    """The predicted class, in a line and a sentence."""
    label = trace.predicted.tolist()[0]
    c = trace.classes.tolist().index(label)
    p = float(trace.probabilities[0, c])
    names = ", ".join(show(name, 30) for name in outside[:3]) + (" and others" if len(outside) > 3 else "")
    beyond = html.P(f"Beyond the training data in {names}: the gates extrapolate there.", className="note")
    return [
        html.Div(
            [
                _chip(colors_of(len(trace.classes))[c]),
                html.Span(show(label, NAME), className="winner"),
                html.Span(percent(p), className="share"),
            ],
            className="headline",
        ),
        html.P(f"{_sentence(trace.why_not(0, label))}", className="why"),
        *([beyond] if outside else []),
    ]


def probability_panel(trace: GateTrace) -> Any:
    """A bar for every class."""
    p, colors = trace.probabilities[0], colors_of(len(trace.classes))
    labels, won = trace.classes.tolist(), trace.predicted.tolist()[0]
    shown = largest(p, [label == won for label in labels], MOST)
    lines = [
        html.Tr(
            [
                html.Th(show(labels[c], NAME), scope="row"),
                html.Td(_bar(0.0, float(p[c]), colors[c]), className="wide"),
                html.Td(f"{p[c]:.3f}", className="number"),
            ],
            className="won" if labels[c] == won else "",
        )
        for c in shown
    ]
    return [html.Table(html.Tbody(lines), className="bars"), *_hidden(len(labels) - len(shown), "classes")]


def trace_panel(trace: GateTrace) -> Any:
    """The chain: what reaches every gate, what it takes, and what it passes on."""
    colors = [colors_of(len(trace.classes))[c] for c in trace.class_of.tolist()]
    won = trace.classes[trace.class_of] == trace.predicted[0]
    shown = largest(trace.partition[0], (won & (trace.partition[0] == trace.partition[0][won].max())).tolist(), MOST)
    head = html.Tr(
        [
            html.Th(text, scope="col", className=kind)
            for text, kind in (
                ("gate", ""),
                ("taken and passed on", "wide"),
                ("reached", "number"),
                ("gate q", "number"),
                ("taken h", "number"),
            )
        ]
    )
    lines = [_gate_line(trace, i, colors[i], bool(won[i])) for i in shown]
    unreached = any(trace.remaining[0, i] < VISIBLE for i in shown[:-1])
    told = [html.P("A dash: nothing reaches this gate, so its value would say nothing.", className="note")]
    return [
        html.Table([html.Thead(head), html.Tbody(lines)], className="bars chain"),
        *_hidden(len(trace.names) - len(shown), "functions"),
        *(told if unreached else []),
    ]


def _gate_line(trace: GateTrace, i: int, color: str, won: bool) -> Any:
    reached, h = float(trace.remaining[0, i]), float(trace.partition[0, i])
    rest, dead = i == len(trace.names) - 1, reached < VISIBLE
    gate = "rest" if rest else "–" if dead else f"{trace.gates[0, i]:.3f}"
    return html.Tr(
        [
            html.Th(show(trace.names[i], NAME), scope="row"),
            html.Td(_bar(1 - reached, h, color, 0.0 if rest else reached - h), className="wide"),
            html.Td(f"{reached:.3f}", className="number"),
            html.Td(gate, className="number"),
            html.Td(f"{h:.3f}", className="number"),
        ],
        className=" ".join(["won" if won else "", "unreached" if dead else ""]),
    )


def ledger_panel(trace: GateTrace, label: Any) -> Any:
    """The log-probability of a class as a sum, and why the class won or lost."""
    ledger = trace.ledger(0, label)
    deepest = max((-row.nats for row in ledger.rows if math.isfinite(row.nats)), default=1.0)
    own = [row.action != "rejects" for row in ledger.rows]
    shown = largest([abs(row.nats) for row in ledger.rows], own, MOST)
    color = colors_of(len(trace.classes))[trace.classes.tolist().index(label)]
    lines = [_ledger_line(ledger, i, max(deepest, 1e-9), color if own[i] else "var(--quiet)") for i in shown]
    hidden = [row.nats for i, row in enumerate(ledger.rows) if i not in set(shown)]
    if hidden:
        lines.append(_sum_line(f"{len(hidden):,} more reject", math.fsum(hidden)))
    lines.append(_sum_line(f"p({show(label, NAME)})", ledger.total, "total"))
    head = [html.Th("gate", scope="col"), html.Th("does", scope="col"), html.Th("", className="wide")]
    head += [html.Th(text, scope="col", className="number") for text in ("factor", "nats")]
    # Why the predicted class won is said in the headline already.
    lost = label != trace.predicted.tolist()[0]
    why = [html.P(_sentence(trace.why_not(0, label)), className="why")] if lost else []
    return [html.Table([html.Thead(html.Tr(head)), html.Tbody(lines)], className="bars"), *why]


def _ledger_line(ledger: Ledger, i: int, deepest: float, color: str) -> Any:
    row = ledger.rows[i]
    depth = 1.0 if math.isinf(row.nats) else min(abs(row.nats) / deepest, 1.0)
    return html.Tr(
        [
            html.Th(show(row.name, NAME), scope="row"),
            html.Td(row.action),
            html.Td(_bar(0.0, depth, color), className="wide"),
            html.Td(f"{row.factor:.3f}", className="number"),
            html.Td(_nats(row.nats), className="number"),
        ]
    )


def _sum_line(name: str, nats: float, kind: str = "") -> Any:
    cells = [html.Td(), html.Td(className="wide"), html.Td(f"{math.exp(nats):.3f}", className="number")]
    return html.Tr([html.Th(name, scope="row"), *cells, html.Td(_nats(nats), className="number")], className=kind)


def _nats(nats: float) -> str:
    return "-∞" if math.isinf(nats) else f"{nats:z.3f}"


def change_panel(change: Counterfactual, picture: Picture | None, labels: Sequence[Any]) -> Any:
    """The smallest change that makes a class win, and the gates that turn."""
    if not change.found or change.note or change.x_new is None:
        return [html.P(f"{_sentence(change.note)}", className="why")]
    colors = dict(zip(map(str, labels), colors_of(len(labels)), strict=True))
    told = f"A change of {change.distance:.3g} standard deviations turns "
    before, after = (
        html.Span([_chip(colors[str(label)]), show(label, NAME)], className="entry")
        for label in (change.before, change.after)
    )
    return [
        html.P([told, before, " into ", after, "."], className="why"),
        _pictures(change, picture) if picture is not None else _changes(change),
        _gates(change),
    ]


def _changes(change: Counterfactual) -> Any:
    lines = [
        html.Tr(
            [
                html.Th(show(name, NAME), scope="row"),
                *(html.Td(f"{value:.4g}", className="number") for value in (old, new)),
                html.Td(f"{new - old:+.3g}", className="number"),
            ]
        )
        for name, (old, new) in list(change.changes.items())[:MOST]
    ]
    heads = ("feature", "from", "to", "change")
    return _plain_table(heads, lines)


def _pictures(change: Counterfactual, picture: Picture) -> Any:
    rows = [change.x] if change.x_new is None else [change.x, change.x_new]
    grids = [picture.grid(row) for row in rows]
    grids.append([abs(a - b) for a, b in zip(grids[0], grids[-1], strict=True)])
    return html.Div(
        [
            html.Figure([html.Img(src=data_uri(grid, picture.side), alt=name), html.Figcaption(name)])
            for grid, name in zip(grids, ("before", "after", "what changes"), strict=True)
        ],
        className="pictures",
    )


def _gates(change: Counterfactual) -> Any:
    old, new = change.trace.gates
    turned = (old >= 0.5) != (new >= 0.5)
    order = np.argsort(-np.abs(new - old), kind="stable")[:6].tolist()
    lines = [
        html.Tr(
            [
                html.Th(show(change.trace.names[i], NAME), scope="row"),
                html.Td(f"{old[i]:.3f}", className="number"),
                html.Td(f"{new[i]:.3f}", className="number"),
                html.Td("turns" if turned[i] else ""),
            ],
            className="won" if turned[i] else "",
        )
        for i in order
    ]
    return _plain_table(("gate", "before", "after", ""), lines)


def _plain_table(heads: Sequence[str], lines: list[Any]) -> Any:
    first, *others = heads
    head = [html.Th(first, scope="col"), *(html.Th(text, scope="col", className="number") for text in others)]
    return html.Table([html.Thead(html.Tr(head)), html.Tbody(lines)], className="bars")


def _bar(start: float, length: float, color: str, rest: float = 0.0) -> Any:
    """A share of the whole width; what goes on after it is pale."""
    pieces = [html.Span(style={"width": _percent(start)}, className="gone")] if start > 0 else []
    pieces.append(html.Span(style={"width": _percent(length), "background": color}, className="taken"))
    if rest > 0:
        pieces.append(html.Span(style={"width": _percent(rest)}, className="passed"))
    return html.Div(pieces, className="bar")


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.2f}%"


def _chip(color: str) -> Any:
    return html.Span(style={"background": color}, className="chip")


def _hidden(count: int, what: str) -> list[Any]:
    return [html.P(f"{count:,} more {what} hold next to nothing.", className="note")] if count else []


def _sentence(text: object) -> str:
    words = str(text)
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"
