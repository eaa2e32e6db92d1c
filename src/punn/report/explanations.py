"""Why rows were answered as they were, as plain data: trace, ledgers and why-not sentences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from punn.ledger import Ledger, LedgerRow, largest
from punn.trace import GateTrace

__all__ = ["explained"]

CLASSES = 4  # classes of a row that are explained: the most probable ones, and the true one
ACTIONS = ("rejects", "accepts", "is the rest", "add")  # the actions of a ledger, by number


def explained(trace: GateTrace, row: int, true: int = -1) -> dict[str, Any]:
    """One row: which functions its mass reached, and for the classes that matter a ledger and a sentence.

    Arguments:
        trace: The trace of some rows.
        row: Which of them.
        true: The row's class, or -1.

    Returns:
        `chain`: place, reached, gate (None for the rest) and h of the functions that hold mass; `hidden`: how many
        others, with how much mass; `classes`: number, probability, sentence and ledger of some classes.

    Example:
        >>> told = explained(GateTrace.from_probabilities([[0.25, 0.75]]), 0)
        >>> told["chain"]
        [[0, 1.0, 0.25, 0.25], [1, 0.75, None, 0.75]]
        >>> told["classes"][1]["why"]
        'class 0 lost because its own gate accepted only 25% of all the mass; class 1 won with 75%'
    """
    h, p = trace.partition[row], trace.probabilities[row]
    shown = largest(h, (np.arange(len(h)) == h.argmax()).tolist())
    falling = np.argsort(-p, kind="stable")[:CLASSES].tolist()
    labels, places = trace.classes.tolist(), {name: i for i, name in enumerate(trace.names)}
    classes = [
        {
            "class": c,
            "p": _round(p[c]),
            "why": str(trace.why_not(row, labels[c])),
            **_ledger(trace.ledger(row, labels[c]), places),
        }
        for c in dict.fromkeys([*falling, *([true] if true >= 0 else [])])
    ]
    return {
        "chain": [[i, _round(trace.remaining[row, i]), _gate(trace, row, i), _round(h[i])] for i in shown],
        "hidden": [len(h) - len(shown), _round(np.delete(h, shown).sum())],
        "classes": classes,
    }


def _gate(trace: GateTrace, row: int, i: int) -> float | None:
    return _round(trace.gates[row, i]) if i < trace.gates.shape[1] else None


def _ledger(ledger: Ledger, places: dict[str, int]) -> dict[str, Any]:
    """Entries as place in the chain (-1 for what other parts add), number of the action, and nats."""
    shown, hidden = ledger.shortened()
    return {
        "ledger": [[_place(entry, places), ACTIONS.index(entry.action), _nats(entry.nats)] for entry in shown],
        "hidden": [len(hidden), _nats(math.fsum(entry.nats for entry in hidden))],
        "total": _nats(ledger.total),
    }


def _place(entry: LedgerRow, places: dict[str, int]) -> int:
    return -1 if entry.action == "add" else places[entry.name]


def _nats(value: float) -> float | None:
    """None stands for minus infinity, which JSON does not know."""
    return _round(value) if math.isfinite(value) else None


def _round(value: float) -> float:
    """Six digits, which is more than any picture shows."""
    return float(f"{value:.6g}") + 0.0
