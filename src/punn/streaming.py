"""Rows that do not fit into memory: Parquet files, read anew for every epoch through a shuffle buffer.

    stream = open_stream("big.parquet", target="kind")
    model = PUNNClassifier().fit_stream(stream)
    model.score(stream.test.x, stream.test.y)

A first pass finds columns, classes, means and deviations. Which rows are held out is decided by their numbers
alone, so that they are the same in every pass and never learned from. Row groups are then read in random order, several
at a time, into a buffer from which batches are drawn at random. Each process of a team reads its share of the groups.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from punn.memory import free_memory
from punn.network import Standardize
from punn.parallel import ALONE, Team
from punn.table import Pieces, TableError
from punn.table.pieces import Group
from punn.table.survey import Survey
from punn.table.target import labels_of
from punn.training import Piece, Rows, take

__all__ = ["Examples", "Stream", "open_stream"]

SAMPLE = 50_000  # rows that the start of a network, and what its columns are, is found from
HELD = 100_000  # rows at most that are held out for a purpose
FEWEST = 20  # rows of a class, below which none of them is held out
OPEN = 4  # row groups that are read side by side, at most
PAGE = 1 << 20  # bytes of a column that pyarrow holds while it reads a row group


class Examples(NamedTuple):
    """Some rows as numbers, their labels, and their numbers in the table."""

    x: NDArray[np.float64]
    y: NDArray[Any]
    rows: NDArray[np.int64]


class Stream:
    """The rows of a table to learn from, a :class:`punn.training.Source`. Made by :func:`open_stream`.

    Attributes:
        columns: How the columns become numbers. classes: The labels, sorted. counts: How many rows each has.
        scaling: Mean and deviation of every feature over the rows to learn from.
        sample, validation, test: Some rows in memory: to start from, to choose the epoch by, and to measure by.
        n: How many rows are learned from, in all processes together. notes: What to tell the user.
    """

    def __init__(self, pieces: Pieces, survey: Survey, held: _Held, team: Team, memory: int) -> None:
        self.pieces, self.team, self.memory = pieces, team, memory
        self._held, self._target = held, survey.target
        self.notes = survey.check()
        self.columns = survey.columns()
        self.notes += self.columns.notes
        self.classes = np.array(sorted(survey.classes), dtype=object if _texts(survey.classes) else None)
        self.counts = np.array([survey.classes[label] for label in self.classes.tolist()])
        mean, deviation = survey.scaling(self.columns.columns)
        deviation[deviation <= 1e-12 * np.maximum(np.abs(mean), 1e-300)] = 1.0
        self.scaling = Standardize(torch.from_numpy(mean), torch.from_numpy(deviation))
        self.sample = self._examples(survey.frame("sample"))
        self.validation, self.test = (self._kept(survey.frame(purpose)) for purpose in ("validation", "test"))
        self.n = survey.rows - len(self.validation.y) - len(self.test.y)
        self._mine = self.n
        self.to(torch.device("cpu"), torch.float32)

    def to(self, device: torch.device, dtype: torch.dtype, standardized: bool = True) -> None:
        """Say where, in which precision and whether standardized rows are wanted."""
        self._device, self._dtype, self._standardized = device, dtype, standardized

    def scaled(self, examples: Examples) -> Rows:
        """Examples as the gates take them."""
        return self._placed(self._rows(examples.x, self._codes(examples.y)))

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """What the rows are, by those that are in memory; the same for any number of processes."""
        numbers = hashlib.blake2b(digest_size=16)
        for array in (self.counts, self.validation.x, self.sample.x):
            numbers.update(np.ascontiguousarray(array).data)
        return {"columns": self.columns.to_dict(), "n": self.n, "numbers": numbers.hexdigest()}

    def some(self, most: int) -> Rows:
        """At most so many of the rows, from the sample."""
        return self.scaled(self.sample).some(most)

    def steps(
        self, batch_size: int, generator: torch.Generator, team: Team = ALONE, accumulate: int = 1
    ) -> Iterator[list[Piece]]:
        """One pass in random order: for every step, what this process takes of the batch.

        The rows of a process are spread evenly over the steps, so that all processes have as many of them.
        """
        steps = math.ceil(self.n / batch_size)
        rng = np.random.default_rng([int(torch.randint(2**62, (1,), generator=generator)), team.rank])
        width = len(self.columns.feature_names)
        capacity = min(max(4096, self.memory // 3 // (self._dtype.itemsize * width + 8)), self._mine)
        buffer = _Buffer(self._pieces(rng), torch.empty(capacity, width, dtype=self._dtype), rng)
        for step in range(steps):
            first, last = (self._mine * (step + i) // steps for i in (0, 1))
            batch = buffer.draw(last - first)
            pieces = [take(batch, index) for index in torch.arange(batch.n).tensor_split(accumulate) if len(index)]
            yield [Piece(self._placed(piece), piece.n * steps / self.n) for piece in pieces]
        buffer.check_empty(self.pieces.path)

    def _pieces(self, rng: np.random.Generator) -> Iterator[Rows]:
        """All rows of this process that are learned from, of row groups in random order, several side by side."""
        groups = _share(self.pieces.groups, self.team)
        order = [groups[i] for i in rng.permutation(len(groups))]
        abreast = min(OPEN, max(1, self.memory // 4 // (PAGE * len(self.pieces.columns))))
        for frame in _side_by_side([self.pieces.read([group]) for group in order], abreast):
            yield self._learned(frame)

    def _learned(self, frame: pd.DataFrame) -> Rows:
        """The rows of a piece that are learned from."""
        frame = frame[frame[self._target].notna().to_numpy()]
        codes = self._codes(labels_of(self._target, frame[self._target])) if len(frame) else np.zeros(0, np.int64)
        held = np.zeros(len(frame), bool)
        for mask in self._held.masks(frame.index.to_numpy()).values():
            held |= mask
        learned = ~(held & (self.counts[codes] >= FEWEST))
        return self._rows(self.columns.transform(frame[learned]), codes[learned])

    def _rows(self, x: NDArray[np.float64], y: NDArray[np.int64]) -> Rows:
        numbers = torch.from_numpy(x)
        return Rows(self.scaling(numbers) if self._standardized else numbers, torch.from_numpy(y))

    def _placed(self, rows: Rows) -> Rows:
        """Rows where, and in the precision in which, they are wanted."""
        return Rows(rows.x.to(self._device, self._dtype), rows.y.to(self._device))

    def _codes(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        codes: NDArray[np.int64] = pd.Index(self.classes).get_indexer(pd.Index(labels)).astype(np.int64)
        if (codes < 0).any():
            raise TableError(f"{self.pieces.path}: it was changed while it was read; start again")
        return codes

    def _examples(self, frame: pd.DataFrame) -> Examples:
        labels = labels_of(self._target, frame[self._target]) if len(frame) else self.classes[:0]
        return Examples(self.columns.transform(frame), labels, frame.index.to_numpy(dtype=np.int64))

    def _kept(self, frame: pd.DataFrame) -> Examples:
        """Held-out rows, without those of classes that are too rare to give one away."""
        if len(frame) == 0:
            return self._examples(frame)
        codes = self._codes(labels_of(self._target, frame[self._target]))
        return self._examples(frame[self.counts[codes] >= FEWEST])


def open_stream(
    path: str | os.PathLike[str],
    target: str,
    *,
    drop: Iterable[str] = (),
    test: float = 0.0,
    validation: float = 0.1,
    seed: int = 0,
    memory: int | None = None,
    team: Team = ALONE,
) -> Stream:
    """Look over a table once, to learn from it piece by piece.

    Arguments:
        path: A Parquet file, or a folder of them.
        target: The column to predict.
        drop: Columns to leave out.
        test: Share of rows to hold out to measure by; at most 100,000 rows are.
        validation: Share of rows to hold out to choose the best epoch by; at most 100,000 rows are.
        seed: Decides which.
        memory: Bytes that rows may take; half of what is free if None.
        team: The processes that read together.
    """
    pieces = Pieces(path)
    memory = free_memory() // 2 if memory is None else memory
    most = min(HELD, memory // 16 // (8 * len(pieces.columns)))
    held = _Held(seed, *(min(share, most / pieces.rows) for share in (test, validation)))
    survey = Survey(target, drop, stride=math.ceil(pieces.rows / min(SAMPLE, most)))
    for frame in pieces.read(_share(pieces.groups, team)):
        survey.add(frame, held.masks(frame.index.to_numpy()))
    mine = survey.rows
    for other in (found := team.gather(survey))[1:]:
        found[0].merge(other)
    stream = Stream(pieces, found[0], held, team, memory)
    if team.size > 1:
        own = {group.first: group.rows for group in _share(pieces.groups, team)}
        kept = np.concatenate([stream.validation.rows, stream.test.rows])
        firsts = np.array([group.first for group in pieces.groups])
        stream._mine = mine - int(np.isin(firsts[np.searchsorted(firsts, kept, "right") - 1], list(own)).sum())
    return stream


class _Held(NamedTuple):
    """Which rows are held out: by a hash of their numbers, the same in every pass and every process."""

    seed: int
    test: float
    validation: float

    def masks(self, rows: NDArray[Any]) -> dict[str, NDArray[np.bool_]]:
        with np.errstate(over="ignore"):
            x = rows.astype(np.uint64) + np.uint64(self.seed + 1) * np.uint64(0x9E3779B97F4A7C15)
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
        even = (x >> np.uint64(11)).astype(np.float64) / 2.0**53
        return {"test": even < self.test, "validation": (even >= self.test) & (even < self.test + self.validation)}


class _Buffer:
    """Rows that were read and not yet learned from; batches are drawn from it at random, and more is read.

    Arguments:
        source: Where rows come from, in pieces.
        x: Room for as many rows as the buffer holds.
        rng: Decides which are drawn.
    """

    def __init__(self, source: Iterator[Rows], x: Tensor, rng: np.random.Generator) -> None:
        self.source, self.rng, self.filled = source, rng, 0
        self.x, self.y = x, torch.empty(len(x), dtype=torch.long)
        self.waiting = Rows(self.x[:0], self.y[:0])  # what was read and did not fit

    def draw(self, count: int) -> Rows:
        """So many rows, or all that are left."""
        self._fill()
        count = min(count, self.filled)
        drawn = self.rng.choice(self.filled, count, replace=False)
        rows = Rows(self.x[drawn], self.y[drawn])
        # The last rows move to where gaps are now.
        self.filled -= count
        gaps = drawn[drawn < self.filled]
        movers = np.setdiff1d(np.arange(self.filled, self.filled + count), drawn)
        self.x[gaps], self.y[gaps] = self.x[movers], self.y[movers]
        return rows

    def check_empty(self, path: Path) -> None:
        """Raise an error if there are rows that no step has taken: then others were there before."""
        self._fill()
        if self.filled:
            raise TableError(f"{path}: it was changed while it was read; start again")

    def _fill(self) -> None:
        while self.filled < len(self.x):
            if self.waiting.n == 0 and (following := next(self.source, None)) is not None:
                self.waiting = following
                continue
            if self.waiting.n == 0:
                return
            new = take(self.waiting, slice(len(self.x) - self.filled))
            self.x[self.filled : self.filled + new.n], self.y[self.filled : self.filled + new.n] = new.x, new.y
            self.filled += new.n
            self.waiting = take(self.waiting, slice(new.n, None))


def _share(groups: list[Group], team: Team) -> list[Group]:
    """The row groups that this process reads: every so many, so that all see all parts of a table."""
    return groups[team.rank :: team.size]


def _side_by_side(sources: list[Iterator[pd.DataFrame]], abreast: int) -> Iterator[pd.DataFrame]:
    """A piece from each of the first few in turn; where one ends the next begins."""
    waiting = iter(sources)
    active = list(islice(waiting, abreast))
    while active:
        for source in list(active):
            frame = next(source, None)
            if frame is None:
                active.remove(source)
                active += islice(waiting, 1)
            else:
                yield frame


def _texts(labels: Iterable[Any]) -> bool:
    return any(isinstance(label, str) for label in labels)
