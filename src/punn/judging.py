"""How long to train: held-out rows tell, and all rows are then learned from.

Training for too long learns noise, and how long that is depends on the table. Rows that are held out show it,
but what they could teach is lost. So they only choose the number of epochs: a second network, started anew, is
trained on all rows for as many. Small tables are held out fold by fold, every row once; of a large one the
held-out share is hardly missed, and the first network with its best weights is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch

from punn.network import PUNN
from punn.training import History, Rows, take

__all__ = ["Run", "Split", "fit_judged", "folds"]

Split = tuple[Rows, Rows]  # to learn from, to judge by


class Run(Protocol):
    """Trains a network on rows; ``stage`` counts the runs of one fit."""

    def __call__(
        self, network: PUNN, rows: Rows, validation: Rows | None = None, until: int | None = None, stage: int = 0
    ) -> History:
        """What happened."""


def folds(rows: Rows, count: int, rng: np.random.RandomState) -> list[Split]:
    """Shares of the rows, with about as much of every class, each held out in turn; none if rows are too few.

    Rows that are equal stay together, and the order of the rows decides nothing: a row that counts twice is the
    same as two rows. A class with a single row is always learned from.

    Example:
        >>> rows = Rows(torch.arange(6.0).unsqueeze(1), torch.tensor([0, 0, 0, 1, 1, 1]))
        >>> [len(held.x) for _, held in folds(rows, 3, np.random.RandomState(0))]
        [2, 2, 2]
    """
    table = torch.cat([rows.x, rows.y.unsqueeze(1)], 1).cpu().numpy()
    distinct, number = np.unique(table, axis=0, return_inverse=True)
    label = distinct[:, -1].astype(int)
    shuffled = rng.permutation(len(distinct))
    fold = np.empty(len(distinct), int)
    fold[shuffled[np.argsort(label[shuffled], kind="stable")]] = np.arange(len(distinct)) % count
    fold[np.bincount(label)[label] == 1] = -1
    of_row = torch.from_numpy(fold[number.ravel()])
    indices = [((of_row != i).nonzero().squeeze(-1), (of_row == i).nonzero().squeeze(-1)) for i in range(count)]
    return [(take(rows, kept), take(rows, held)) for kept, held in indices if len(held)]


def fit_judged(
    network: PUNN, rows: Rows, splits: Sequence[Split], start: Callable[[PUNN, Rows], None], run: Run, refit: bool
) -> tuple[PUNN, History]:
    """Train for as many epochs as are best for held-out rows.

    Arguments:
        network: The network; it is trained in place, or a copy of it is returned.
        rows: All rows.
        splits: Rows to learn from and rows to judge by; if there are none, all epochs are run.
        start: Starts a network from rows.
        run: Trains a network on rows.
        refit: Whether to train on all rows in the end, or to keep the best weights of the only split.

    Returns:
        The trained network and what happened; the loss on held-out rows is the mean over the splits.
    """
    if not splits:
        return network, run(network, rows)
    curves, stopped = [], "all epochs"
    for stage, (kept, held) in enumerate(splits):
        trial = copy.deepcopy(network)
        start(trial, kept)
        history = run(trial, kept, validation=held, stage=stage)
        if history.stopped == "interrupted" or not refit:
            return trial, history
        curves.append(history.validation_loss)
        stopped = "loss not finite" if history.stopped == "loss not finite" else stopped
    validation_loss = _mean_curve(curves, [_mass(held) for _, held in splits])
    best = int(np.argmin(validation_loss)) + 1
    start(network, rows)
    history = run(network, rows, until=best, stage=len(splits))
    history.validation_loss, history.best_epoch = validation_loss, best
    if history.stopped == "all epochs":
        history.stopped = stopped
    return network, history


def _mean_curve(curves: list[list[float]], weights: list[float]) -> list[float]:
    """The mean of curves; one that ended early stays where it was, which was not its best."""
    longest = max(len(curve) for curve in curves)
    whole = np.array([curve + curve[-1:] * (longest - len(curve)) for curve in curves])
    mean: list[float] = np.nan_to_num(np.average(whole, axis=0, weights=weights), nan=np.inf).tolist()
    return mean


def _mass(rows: Rows) -> float:
    return float(len(rows.x) if rows.weight is None else rows.weight.sum())
