"""The loop: batches, schedule, early stopping, checkpoints.

One loop serves the estimator, the experiments and the commands. It trains one network, or several
copies of one side by side as a single batched computation, each copy with its own best weights.
Data stay where they are; a batch is taken from them by index, or comes from a stream. Of every batch each process of
a team takes its own pieces, and their gradients are added before a step.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from punn.adam import Adam
from punn.network import PUNN
from punn.objective import ByHand, Objective
from punn.parallel import ALONE, Team

__all__ = ["SCHEDULES", "History", "Piece", "Rows", "Source", "State", "Step", "few_threads", "take", "train"]


class Rows(NamedTuple):
    """Rows as they reach the gates, their classes, and how much each counts."""

    x: Tensor
    y: Tensor
    weight: Tensor | None = None

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self.x)

    def steps(
        self, batch_size: int, generator: torch.Generator, team: Team = ALONE, accumulate: int = 1
    ) -> Iterator[list[Piece]]:
        """One pass in random order: for every step, what this process takes of the batch."""
        pieces = team.size * accumulate
        if self.n <= batch_size and pieces == 1:
            # One batch holds everything: then its order is nothing to decide, and no row is moved.
            yield [Piece(self, 1.0)]
            return
        order = torch.randperm(self.n, generator=generator) if self.n > batch_size else torch.arange(self.n)
        for batch in order.split(batch_size):
            mine = batch.tensor_split(pieces)[team.rank :: team.size] if pieces > 1 else [batch]
            yield [Piece(take(self, index), self._share(index, batch)) for index in mine if len(index)]

    def some(self, most: int) -> Rows:
        """At most so many of them, evenly spread."""
        return take(self, slice(None, None, self.n // most + 1))

    def _share(self, index: Tensor, batch: Tensor) -> float:
        """How much some rows count in their batch."""
        if self.weight is None or len(index) == len(batch):
            return len(index) / len(batch)
        return float(self.weight[index].sum() / self.weight[batch].sum())


class Piece(NamedTuple):
    """Rows that are worked on at once, and how much they count in their batch."""

    rows: Rows
    share: float


class Source(Protocol):
    """Where the rows of an epoch come from: a table in memory, :class:`Rows`, or a stream of one."""

    @property
    def n(self) -> int:
        """How many there are, in all processes together."""

    def steps(self, batch_size: int, generator: torch.Generator, team: Team, accumulate: int) -> Iterator[list[Piece]]:
        """One pass in random order, ceil(n / batch_size) steps: what this process takes of each of them."""

    def some(self, most: int) -> Rows:
        """At most so many of them."""


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

    objective: Objective
    adam: Adam
    generator: torch.Generator
    best: Tensor  # weights, as Adam has them
    best_score: Tensor  # shape (copies,)
    average: Tensor | None = None  # of the latest weights
    by_hand: ByHand | None = None  # makes the gradient, if autograd is not needed for it
    waited: int = 0
    epoch: int = 0
    history: History = field(default_factory=History)

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything, as tensors and plain data."""
        tensors = {name: getattr(self.adam, name) for name in ("weights", "mean", "square")}
        tensors |= {f"buffer.{name}": value for name, value in self.objective.named_buffers()}
        tensors |= {"best": self.best, "best_score": self.best_score, "generator": self.generator.get_state()}
        if self.average is not None:
            tensors["average"] = self.average
        about = {"epoch": self.epoch, "waited": self.waited, "steps": self.adam.steps, "history": asdict(self.history)}
        return tensors, about

    @torch.no_grad()
    def unpack(self, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
        """Put back what :meth:`pack` gave."""
        for name in ("weights", "mean", "square"):
            getattr(self.adam, name).copy_(tensors[name])
        for name, value in self.objective.named_buffers():
            value.copy_(tensors[f"buffer.{name}"])
        self.best.copy_(tensors["best"])
        self.best_score.copy_(tensors["best_score"])
        if self.average is not None:
            self.average.copy_(tensors["average"])
        self.generator.set_state(tensors["generator"].cpu())
        self.adam.steps = about["steps"]
        self.epoch, self.waited = about["epoch"], about["waited"]
        self.history = History(**about["history"])


#: The learning rate as a share of the largest one, by the share of steps done.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "cosine": lambda done: min(1.0, done / 0.05) * 0.5 * (1 + math.cos(math.pi * done)),
    "triangle": lambda done: min(done / 0.2, (1 - done) / 0.8),
}

# The average of the weights after t steps gives the newest this share of t: (memory) / (t + memory - 1).
_MEMORY = 9


def train(
    network: PUNN,
    rows: Source,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    generator: torch.Generator,
    copies: Sequence[PUNN] = (),
    optimizer: Adam | None = None,
    schedule: str = "cosine",
    weight_decay: float = 0.0,
    smoothness: float = 0.0,
    label_smoothing: float = 0.0,
    validation: Rows | None = None,
    patience: int | None = None,
    until: int | None = None,
    average: bool = False,
    mixed: bool = False,
    accumulate: int = 1,
    team: Team = ALONE,
    resume: Callable[[State], None] | None = None,
    save: Callable[[State], None] | None = None,
    report: Callable[[Step], None] | None = None,
) -> History:
    """Train a network in place and return what happened.

    Arguments:
        network: The network; it gets the best weights at the end.
        rows: Training rows, after scaling; in memory, or a stream of them.
        epochs: Passes over the rows.
        batch_size: Rows per step, in all processes together.
        learning_rate: The largest step size of Adam.
        generator: Decides the order of the rows.
        copies: Networks of the same kind that start elsewhere; the one that ends best is kept.
        optimizer: What makes the steps of all of them; Adam, with this weight decay, if None.
        schedule: How the step size changes: one of ``SCHEDULES``.
        weight_decay: Decoupled decay of the weights of networks; shapes do not decay.
        smoothness: Penalty on radius functions, growing with the degree.
        label_smoothing: Share of the target that is spread over all classes.
        validation: Held-out rows that choose the best epoch.
        patience: Epochs without improvement on the held-out rows before the end.
        until: End after so many epochs, on a schedule that goes by ``epochs``.
        average: Judge and keep an average over the last tenth or so of all steps, which is steadier than the
            latest weights and better on new rows while the step size is large.
        mixed: Run the gates in bfloat16; the partition stays in single precision.
        accumulate: Pieces that a process takes its rows of a step in, one after the other, to need less memory.
        team: The processes that train together; all are given the same rows, or their part of a stream.
        resume: Called before the first epoch; may put a saved state in place. The first process has the say.
        save: Called after every epoch with the state.
        report: Called after every epoch with what there is to tell.
    """
    objective = Objective(network, smoothness, label_smoothing, mixed, plain=not copies)
    adam = Adam([network, *copies], weight_decay) if optimizer is None else optimizer
    best_score = torch.full((1 + len(copies),), math.inf, device=adam.weights.device)
    mean = adam.weights.clone() if average else None
    by_hand = None if copies else ByHand.of(objective)
    state = State(objective, adam, generator, adam.weights.clone(), best_score, mean, by_hand)
    if resume is not None:
        resume(state)
    if team.size > 1:
        state.unpack(*team.first(state.pack()))
    network.train()
    last = epochs if until is None else min(until, epochs)
    try:
        while state.epoch < last and not _enough(state, validation, patience):
            steps = rows.steps(batch_size, generator, team, accumulate)
            rate = _rates(state.epoch, epochs, math.ceil(rows.n / batch_size), learning_rate, schedule)
            losses = _epoch(state, zip(rate, steps, strict=True), rows.n, team)
            if not _judge(state, losses, validation, team):
                break
            if report is not None:
                # Of held-out rows, if there are any.
                accuracy = _accuracy(state, (validation or rows).some(2000))
                report(Step(state.epoch, last, state.history.loss[-1], accuracy))
            if save is not None:
                save(state)
    except KeyboardInterrupt:
        state.history.stopped = "interrupted"
        warnings.warn(
            f"interrupted in epoch {state.epoch + 1} of {last}: the model has the best weights so far",
            UserWarning,
            stacklevel=2,
        )
    finally:
        adam.release(state.best, int(state.best_score.argmin()))
        network.eval()
    return state.history


def _losses(state: State, rows: Rows) -> Tensor:
    """The loss of every copy, shape (copies,); a single one is a plain number."""
    if len(state.best_score) == 1:
        loss: Tensor = state.objective(*rows)
        return loss
    buffers = dict(state.objective.named_buffers())

    def one(parameters: dict[str, Tensor]) -> Any:
        return torch.func.functional_call(state.objective, (parameters, buffers), tuple(rows))

    losses: Tensor = torch.func.vmap(one)({f"network.{name}": p for name, p in state.adam.parameters.items()})
    return losses


def _backward(state: State, piece: Piece, first: bool) -> Tensor:
    """Leave the gradient of a piece with the parameters; the loss of every copy."""
    if state.by_hand is not None:
        return state.by_hand(*piece.rows, piece.share, add=not first)
    losses = _losses(state, piece.rows)
    # A sum needs no gradient to begin with: given one, torch loads its compiler to compare shapes.
    (losses.sum() if piece.share == 1 else piece.share * losses.sum()).backward()
    return losses.detach()


def _rates(epoch: int, epochs: int, steps: int, largest: float, schedule: str) -> Iterator[float]:
    """The step sizes of an epoch."""
    for step in range(steps):
        yield largest * SCHEDULES[schedule]((epoch * steps + step) / (epochs * steps))


def _epoch(state: State, steps: Iterable[tuple[float, list[Piece]]], n: int, team: Team) -> Tensor:
    """One pass over n rows; the mean loss of every copy."""
    total = torch.zeros_like(state.best_score)
    for rate, pieces in steps:
        for number, piece in enumerate(pieces):
            total.add_(_backward(state, piece, first=number == 0), alpha=piece.rows.n / n)
        team.sum(state.adam.gradient)
        # By hand, the first piece of the next step is written over the gradient; a step without any must find none.
        state.adam.step(rate, forget=state.by_hand is None or team.size > 1)
        if state.average is not None:
            state.average.lerp_(state.adam.weights.detach(), _MEMORY / (state.adam.steps + _MEMORY - 1))
    team.sum(total)
    state.epoch += 1
    state.history.loss.append(float(total.min()))
    return total


def _judge(state: State, score: Tensor, validation: Rows | None, team: Team) -> bool:
    """Note what improved; False ends the fit because the loss is no longer finite."""
    if validation is not None:
        score = _validation_losses(state, validation, team)
        state.history.validation_loss.append(float(score.min()))
    # A step may overflow though the loss before it was finite.
    finite = torch.isfinite(state.adam.weights)
    if not bool(finite.all()):
        score = score.index_fill(0, state.adam.copy_of[~finite], torch.nan)
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
    weights = state.adam.weights if state.average is None else state.average
    if bool(better.all()):
        state.best = weights.detach().clone()
    else:
        state.best = torch.where(better[state.adam.copy_of], weights, state.best)
    state.best_score = torch.where(better, score, state.best_score)
    state.waited = 0 if improved else state.waited + 1
    if improved:
        state.history.best_epoch = state.epoch
    return True


@torch.no_grad()
def _validation_losses(state: State, rows: Rows, team: Team, chunk: int = 8192) -> Tensor:
    """Loss on held-out rows, in pieces; buffers of eval mode, and no row weighs more for its piece."""
    state.objective.eval()
    device = state.best_score.device
    total = torch.zeros(len(state.best_score) + 1, dtype=torch.float64, device=device)  # the last is the rows' weight
    with _averaged(state):
        for first in range(team.rank * chunk, rows.n, team.size * chunk):
            piece = take(rows, slice(first, first + chunk))
            share = float(piece.n if piece.weight is None else piece.weight.sum())
            if share:
                total[:-1] += _losses(state, piece) * share
                total[-1] += share
    state.objective.train()
    team.sum(total)
    return (total[:-1] / total[-1]).float()


@contextmanager
def _averaged(state: State) -> Iterator[None]:
    """The average of the weights in the place of the latest ones, if there is one."""
    if state.average is None:
        yield
        return
    latest = state.adam.weights.clone()
    state.adam.weights.copy_(state.average)
    try:
        yield
    finally:
        state.adam.weights.copy_(latest)


@torch.no_grad()
def _accuracy(state: State, some: Rows) -> float:
    """Share of rows that the best copy gets right."""
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

    def some(values: Tensor) -> Tensor:
        # By number, this takes half as long as square brackets do.
        return values.index_select(0, index) if isinstance(index, Tensor) else values[index]

    return Rows(some(rows.x), some(rows.y), None if rows.weight is None else some(rows.weight))


class _Threads:
    """How many fits ask for few threads, and what the last of them goes back to."""

    lock = Lock()
    users = 0
    before = 1


@contextmanager
def few_threads(flops: float) -> Iterator[None]:
    """One thread while every step is small work: waking the others would cost more than they do.

    torch counts for every thread of Python by itself, and for new ones goes by who set a number last.
    """
    if flops > 2e7:
        yield
        return
    with _Threads.lock:
        mine = torch.get_num_threads()
        if _Threads.users == 0:
            _Threads.before = mine
        _Threads.users += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _Threads.lock:
            _Threads.users -= 1
            torch.set_num_threads(mine if _Threads.users else _Threads.before)
