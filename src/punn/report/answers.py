"""A model's answers to all rows of a table: a few numbers per row, and sums over the rows.

A table may have a million rows, so that traces are made of some rows at a time and not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from punn.features import as_table
from punn.ledger import Array
from punn.trace import GateTrace

__all__ = ["Answers", "answers_of", "true_codes"]

CELLS = 2_000_000  # of a trace that is worked on at once


@dataclass(frozen=True)
class Answers:
    """What a model says about n rows; classes are numbered as in its `classes_`.

    Attributes:
        true: The class of every row, or -1 where it is not known, shape (n,).
        winner: The predicted class, and `second` the runner-up, shape (n,).
        confidence: The probability of the winner, and `runner_up` that of the second, shape (n,).
        log_true: The log-probability of the true class, 0 where it is not known, shape (n,).
        function: The place in the chain of the largest partition function, shape (n,).
        reached: The mean mass that reaches every function, and `mass` the mean that it takes, shape (k,).
        blame: As :meth:`punn.GateTrace.blame`, a row for every class in the chain's order, shape (C, C + 1).
    """

    true: NDArray[np.intp]
    winner: NDArray[np.intp]
    second: NDArray[np.intp]
    confidence: Array
    runner_up: Array
    log_true: Array
    function: NDArray[np.intp]
    reached: Array
    mass: Array
    blame: Array

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which rows have a label that the model knows."""
        return self.true >= 0

    @property
    def margin(self) -> Array:
        """By how much the winner leads; small where the model is in doubt."""
        return self.confidence - self.runner_up

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """Which rows are known to be predicted wrongly."""
        return np.asarray(self.known & (self.true != self.winner))


def true_codes(y: Any, classes: NDArray[Any], n: int) -> NDArray[np.intp]:
    """The class of every label, -1 where it is missing or unknown to the model; labels are compared as text.

    Example:
        >>> true_codes(["a", None, "z", " b"], np.array(["a", "b"]), 4)
        array([ 0, -1, -1,  1])
    """
    if y is None:
        return np.full(n, -1)
    import pandas as pd

    from punn.table.cells import to_text

    labels = pd.Series(np.asarray(y, dtype=object).reshape(-1))
    if len(labels) != n:
        raise ValueError(f"expected one label for each of {n:,} rows, got {len(labels):,}")
    known = {str(label).strip(): c for c, label in enumerate(classes.tolist())}
    return np.array(to_text(labels).map(known).fillna(-1), dtype=np.intp)


def answers_of(model: Any, X: Array, true: NDArray[np.intp]) -> Answers:
    """Ask a model about all rows.

    Arguments:
        model: A fitted :class:`punn.PUNNClassifier`.
        X: Its features, shape (n, features).
        true: The class of every row or -1, shape (n,).
    """
    step = max(1, CELLS // model.network_.functions)
    pieces, blame = [], np.zeros((len(model.classes_), len(model.classes_) + 1))
    reached, mass = np.zeros(model.network_.functions), np.zeros(model.network_.functions)
    for first in range(0, len(X), step):
        trace = model.trace(as_table(model, X[first : first + step]))
        codes = true[first : first + step]
        pieces.append(_of_rows(trace, codes))
        reached, mass = reached + trace.remaining.sum(0), mass + trace.partition.sum(0)
        blame += _lost(trace, codes)
    order = list(dict.fromkeys(model.network_.class_of.tolist()))
    counts = np.bincount(true[true >= 0], minlength=len(model.classes_))[order]
    winner, second, confidence, runner_up, log_true, function = map(np.concatenate, zip(*pieces, strict=True))
    blame /= np.maximum(counts, 1)[:, None]
    reached, mass = reached / len(X), mass / len(X)
    return Answers(true, winner, second, confidence, runner_up, log_true, function, reached, mass, blame)


def _of_rows(trace: GateTrace, codes: NDArray[np.intp]) -> Sequence[np.ndarray]:
    p, rows = trace.probabilities, np.arange(len(trace))
    place = {label: c for c, label in enumerate(trace.classes.tolist())}
    winner = np.array([place[label] for label in trace.predicted.tolist()], dtype=np.intp)
    others = p.copy()
    others[rows, winner] = -1.0
    second = others.argmax(1)
    log_true = np.where(codes >= 0, trace.log_probabilities[rows, codes], 0.0)
    function = trace.log_partition.argmax(1)
    runner_up = np.maximum(others[rows, second], 0.0)  # of a single class there is none
    return winner, second, p[rows, winner], runner_up, log_true, function


def _lost(trace: GateTrace, codes: NDArray[np.intp]) -> Array:
    """Blame as sums over rows, in the chain's order; classes without a row have none."""
    lost, known = np.zeros((len(trace.classes), len(trace.classes) + 1)), codes >= 0
    if known.any():
        frame = trace[known].blame(trace.classes[codes[known]])
        order = trace.order.tolist()
        counts = np.bincount(codes[known], minlength=len(trace.classes))
        place = {label: c for c, label in enumerate(trace.classes.tolist())}
        for label, means in zip(frame.index.tolist(), frame.to_numpy(), strict=True):
            lost[order.index(label)] = means * counts[place[label]]
    return lost
