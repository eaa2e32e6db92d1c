"""The loop: batches, schedule, early stopping, checkpoints.

One loop serves the estimator, the experiments and the commands. It trains one network, or several
copies of one side by side as a single batched computation, each copy with its own best weights.
Data stay where they are; a batch is taken from them by index.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from punn.adam import Adam
from punn.gates import Hybrid, Shell
from punn.network import PUNN
from punn.partition import nll_loss

__all__ = ["SCHEDULES", "History", "Rows", "State", "Step", "few_threads", "train"]


class Rows(NamedTuple):
    """Rows as they reach the gates, their classes, and how much each counts."""

    x: Tensor
    y: Tensor
    weight: Tensor | None = None


class Step(NamedTuple):
    """What there is to tell after an epoch."""

    epoch: int
    epochs: int
    loss: float
    accuracy: float


@dataclass
class History:
    """What happened: a loss for every epoch, and why it ended."""

    loss: list[float] = field(default_factory=list)
    validation_loss: list[float] = field(default_factory=list)
    best_epoch: int = 0
    stopped: str = "all epochs"


@dataclass
class State:
    """All that an interrupted fit needs to go on to the very same weights."""

    objective: _Objective
    adam: Adam
    generator: torch.Generator
    best: Tensor  # weights, as Adam has them
    best_score: Tensor  # shape (copies,)
    waited: int = 0
    epoch: int = 0
    history: History = field(default_factory=History)


#: The learning rate as a share of the largest one, by the share of steps done.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "cosine": lambda done: min(1.0, done / 0.05) * 0.5 * (1 + math.cos(math.pi * done)),
    "triangle": lambda done: min(done / 0.2, (1 - done) / 0.8),
}


def train(
    network: PUNN,
    rows: Rows,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    generator: torch.Generator,
    copies: Sequence[PUNN] = (),
    schedule: str = "cosine",
    weight_decay: float = 0.0,
    smoothness: float = 0.0,
    label_smoothing: float = 0.0,
    validation: Rows | None = None,
    patience: int | None = None,
    mixed: bool = False,
    resume: Callable[[State], None] | None = None,
    save: Callable[[State], None] | None = None,
    report: Callable[[Step], None] | None = None,
) -> History:
    """Train a network in place and return what happened.

    Arguments:
        network: The network; it gets the best weights at the end.
        rows: Training rows, after scaling.
        epochs: Passes over the rows.
        batch_size: Rows per step.
        learning_rate: The largest step size of Adam.
        generator: Decides the order of the rows.
        copies: Networks of the same kind that start elsewhere; the one that ends best is kept.
        schedule: How the step size changes: one of ``SCHEDULES``.
        weight_decay: Decoupled decay of the weights of networks; shapes do not decay.
        smoothness: Penalty on radius functions, growing with the degree.
        label_smoothing: Share of the target that is spread over all classes.
        validation: Held-out rows that choose the best epoch.
        patience: Epochs without improvement on the held-out rows before the end.
        mixed: Run the gates in bfloat16; the partition stays in single precision.
        resume: Called before the first epoch; may put a saved state in place.
        save: Called after every epoch with the state.
        report: Called after every epoch with what there is to tell.
    """
    objective = _Objective(network, smoothness, label_smoothing, mixed, plain=not copies)
    adam = Adam([network, *copies], weight_decay)
    best_score = torch.full((1 + len(copies),), math.inf)
    state = State(objective, adam, generator, adam.weights.clone(), best_score)
    if resume is not None:
        resume(state)
    network.train()
    try:
        while state.epoch < epochs and not _enough(state, validation, patience):
            losses = _epoch(state, rows, batch_size, learning_rate, SCHEDULES[schedule], epochs)
            if not _judge(state, losses, validation):
                break
            if report is not None:
                report(Step(state.epoch, epochs, state.history.loss[-1], _accuracy(state, validation or rows)))
            if save is not None:
                save(state)
    except KeyboardInterrupt:
        state.history.stopped = "interrupted"
        warnings.warn(
            f"interrupted in epoch {state.epoch + 1} of {epochs}: the model has the best weights so far",
            UserWarning,
            stacklevel=2,
        )
    finally:
        adam.release(state.best, int(state.best_score.argmin()))
        network.eval()
    return state.history


class _Objective(nn.Module):
    """Rows to the mean loss of one network."""

    def __init__(self, network: PUNN, smoothness: float, label_smoothing: float, mixed: bool, plain: bool) -> None:
        super().__init__()
        self.network = network
        self.smoothness, self.label_smoothing, self.mixed = smoothness, label_smoothing, mixed
        sigmoid = all(name == "sigmoid" for name in network.activation.names)
        # The closed form knows sigmoid chains, and cannot be mapped over copies.
        self.closed_form = plain and sigmoid and label_smoothing == 0

    def forward(self, x: Tensor, y: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """The loss, with penalties only while training; without classes, the most probable ones."""
        network = self.network
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.mixed):
            theta = network.gates(x)
        if y is None:
            return network.log_probabilities(theta).argmax(-1)
        if self.closed_form:
            losses = nll_loss(theta, y, network.class_of, reduction="none")
        else:
            log_p = network.log_probabilities(theta, continued=True)
            losses = -log_p.gather(-1, y.unsqueeze(-1)).squeeze(-1)
            if self.label_smoothing and network.training:
                losses = (1 - self.label_smoothing) * losses - self.label_smoothing * log_p.mean(-1)
        loss = losses.mean() if weight is None else (losses * weight).sum() / weight.sum()
        if self.smoothness and network.training and isinstance(network.gates, Shell | Hybrid):
            loss = loss + self.smoothness * network.gates.roughness().to(loss)
        return loss


def _losses(state: State, rows: Rows) -> Tensor:
    """The loss of every copy, shape (copies,)."""
    if len(state.best_score) == 1:
        loss: Tensor = state.objective(*rows)
        return loss.unsqueeze(0)
    buffers = dict(state.objective.named_buffers())

    def one(parameters: dict[str, Tensor]) -> Any:
        return torch.func.functional_call(state.objective, (parameters, buffers), tuple(rows))

    losses: Tensor = torch.func.vmap(one)({f"network.{name}": p for name, p in state.adam.parameters.items()})
    return losses


def _epoch(
    state: State, rows: Rows, batch_size: int, rate: float, schedule: Callable[[float], float], epochs: int
) -> Tensor:
    """One pass over the rows; the mean loss of every copy."""
    n = len(rows.x)
    steps = math.ceil(n / batch_size)
    # One batch holds everything: then its order is nothing to decide, and no row is moved.
    order = torch.randperm(n, generator=state.generator) if steps > 1 else None
    total = torch.zeros(len(state.best_score))
    for step in range(steps):
        now = rate * schedule((state.epoch * steps + step) / (epochs * steps))
        batch = rows if order is None else take(rows, order[step * batch_size : (step + 1) * batch_size])
        losses = _losses(state, batch)
        losses.sum().backward()
        state.adam.step(now)
        total += losses.detach() * (len(batch.x) / n)
    state.epoch += 1
    state.history.loss.append(float(total.min()))
    return total


def _judge(state: State, score: Tensor, validation: Rows | None) -> bool:
    """Note what improved; False ends the fit because the loss is no longer finite."""
    if validation is not None:
        score = _validation_losses(state, validation)
        state.history.validation_loss.append(float(score.min()))
    if not bool(torch.isfinite(score).any()):
        state.history.stopped = "loss not finite"
        warnings.warn(
            f"the loss is not finite after epoch {state.epoch}: the best weights before it are kept; "
            "a smaller learning_rate or scaled features will help",
            UserWarning,
            stacklevel=3,
        )
        return False
    # Without held-out rows the latest weights are the ones wanted, as long as they are finite.
    better = torch.isfinite(score) if validation is None else score < state.best_score
    improved = bool((score < state.best_score).any())
    state.best = torch.where(better[state.adam.copy_of], state.adam.weights, state.best)
    state.best_score = torch.where(better, score, state.best_score)
    state.waited = 0 if improved else state.waited + 1
    if improved:
        state.history.best_epoch = state.epoch
    return True


@torch.no_grad()
def _validation_losses(state: State, rows: Rows, chunk: int = 8192) -> Tensor:
    """Loss on held-out rows, in pieces; buffers of eval mode, and no row weighs more for its piece."""
    state.objective.eval()
    total, weight = torch.zeros(len(state.best_score)), 0.0
    for first in range(0, len(rows.x), chunk):
        piece = take(rows, slice(first, first + chunk))
        share = float(len(piece.x) if piece.weight is None else piece.weight.sum())
        if share:
            total += _losses(state, piece) * share
            weight += share
    state.objective.train()
    return total / weight


@torch.no_grad()
def _accuracy(state: State, rows: Rows, most: int = 2000) -> float:
    """Share of rows (at most some) that the best copy gets right; held-out rows, if there are any."""
    stride = len(rows.x) // most + 1
    some = take(rows, slice(None, None, stride))
    state.objective.eval()
    winner = {f"network.{name}": p for name, p in state.adam.copy(int(state.best_score.argmin())).items()}
    guess: Tensor = torch.func.functional_call(state.objective, winner, (some.x,))
    state.objective.train()
    return float((guess == some.y).double().mean())


def _enough(state: State, validation: Rows | None, patience: int | None) -> bool:
    if validation is None or patience is None or state.waited < patience:
        return False
    state.history.stopped = "no improvement"
    return True


def take(rows: Rows, index: Tensor | slice) -> Rows:
    """Some of the rows."""
    return Rows(rows.x[index], rows.y[index], None if rows.weight is None else rows.weight[index])


class _Threads:
    """How many fits ask for few threads, and what to go back to after the last of them."""

    lock = Lock()
    users = 0
    before = 1


@contextmanager
def few_threads(flops: float) -> Iterator[None]:
    """One thread while every step is small work: waking the others would cost more than they do."""
    if flops > 2e7:
        yield
        return
    with _Threads.lock:
        if _Threads.users == 0:
            _Threads.before = torch.get_num_threads()
            torch.set_num_threads(1)
        _Threads.users += 1
    try:
        yield
    finally:
        with _Threads.lock:
            _Threads.users -= 1
            if _Threads.users == 0:
                torch.set_num_threads(_Threads.before)
