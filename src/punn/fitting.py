"""One fit of an estimator: which rows judge, which file keeps its state, which processes share the work."""

from __future__ import annotations

import contextlib
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from punn.building import starts_from_data
from punn.checkpoint import Checkpoint, fingerprint
from punn.judging import Split, fit_judged, folds
from punn.linear import start_linear
from punn.network import PUNN
from punn.parallel import ALONE, Team
from punn.preparation import Settings, hold_out, parts_of_rows
from punn.progress import Progress
from punn.training import History, Rows, Source, few_threads, train

if TYPE_CHECKING:
    from punn.streaming import Stream

__all__ = ["Fitting", "start", "warn_of_dead_gates"]


class Fitting:
    """What all runs of the loop in one fit have in common.

    Arguments:
        model: The estimator, of which the options are read.
        settings: The numbers of the fit; the device becomes that of this process.
        team: The processes that share the work.

    Attributes:
        rng: Decides all that is random, the same in all processes.
        seed: For torch's global generator, from which modules draw their first weights.
        generator: Decides the order of the rows, and where copies start.
        copies: Networks that start elsewhere, of which the best is kept.
    """

    def __init__(self, model: Any, settings: Settings, team: Team = ALONE) -> None:
        self.model, self.settings, self.team = model, settings, team
        settings.device = team.device(settings.device)
        self.rng: np.random.RandomState = check_random_state(model.random_state)
        if team.size > 1 and not isinstance(model.random_state, int | np.integer):
            self.rng = np.random.RandomState(team.first(int(self.rng.randint(2**31 - 1))))
        self.seed = int(self.rng.randint(2**31 - 1))
        self.generator = torch.Generator().manual_seed(self.seed)
        self.copies: list[PUNN] = []
        self.checkpoint: Checkpoint | None = None

    def learn(self, network: PUNN, rows: Rows) -> tuple[PUNN, History]:
        """Train on all rows, or on some while others judge; the trained network, and what happened."""
        self.checkpoint = self._checkpoint(*rows)
        with self.checkpoint or contextlib.nullcontext():
            network, history = self._learn(network, rows)
            self._end(history)
        return network, history

    def learn_stream(self, network: PUNN, stream: Stream, sample: Rows) -> History:
        """Train in place on rows that are read anew for every epoch; the network started from a sample of them."""
        self.checkpoint = self._checkpoint(*sample, stream=stream.fingerprint)
        held = self.settings.early_stopping and len(stream.validation.y)
        with self.checkpoint or contextlib.nullcontext():
            history = self._run(network, stream, stream.scaled(stream.validation) if held else None)
            self._end(history)
        return history

    def _learn(self, network: PUNN, rows: Rows) -> tuple[PUNN, History]:
        settings = self.settings
        if settings.judged:
            begin = partial(_start_linear, rng=self.rng)
            return fit_judged(network, rows, self._splits(rows), begin, self._run, settings.refit)
        if settings.early_stopping and network.classes > 1:
            return network, self._run(network, *hold_out(rows, settings.validation_fraction, self.rng))
        return network, self._run(network, rows)

    def _splits(self, rows: Rows) -> list[Split]:
        """Rows to learn from and to judge by: every row once of a small table, a share of a larger one."""
        if self.settings.folds > 1:
            return folds(rows, self.settings.folds, self.rng)
        kept, held = hold_out(rows, self.settings.validation_fraction, self.rng)
        return [] if held is None else [(kept, held)]

    def _run(
        self, network: PUNN, rows: Source, validation: Rows | None = None, until: int | None = None, stage: int = 0
    ) -> History:
        """One run of the loop; a fit may have several."""
        if network.classes == 1:
            return History(stopped="one class: nothing to learn")
        model, settings = self.model, self.settings
        here = self.checkpoint.of_stage(stage) if self.checkpoint else None
        progress = Progress() if model.verbose and not callable(model.verbose) and self.team.rank == 0 else None
        with few_threads(2.0 * model.n_parameters_ * settings.batch_size * (1 + len(self.copies))):
            history = train(
                network,
                rows,
                epochs=settings.epochs,
                batch_size=settings.batch_size,
                learning_rate=settings.learning_rate,
                generator=self.generator,
                copies=self.copies,
                schedule=model.schedule,
                weight_decay=settings.weight_decay,
                smoothness=model.smoothness,
                label_smoothing=model.label_smoothing,
                validation=validation,
                # In one batch an epoch is a single step.
                patience=model.patience * (2 if settings.judged and settings.small else 1),
                until=until,
                average=settings.judged,
                mixed=model.precision == "mixed",
                accumulate=model.accumulate,
                team=self.team,
                resume=here.resume if here else None,
                save=here.save if here else None,
                report=model.verbose if callable(model.verbose) else progress,
            )
        if progress:
            progress.close()
        return history

    def _checkpoint(self, *rows: Tensor | None, **more: Any) -> Checkpoint | None:
        """The file that the first process keeps for all of them, if one is wanted."""
        model, team = self.model, self.team
        if model.checkpoint is None and team.size == 1:
            return None
        # How many processes share the work, and in how many pieces, is no matter of the fit.
        free = ("checkpoint", "verbose", "processes", "accumulate")
        decisive = {name: value for name, value in model.get_params().items() if name not in free}
        mark = fingerprint(decisive | more, rows)
        if team.first(mark) != mark:
            raise ValueError(
                f"process {team.rank} of {team.size} was given other rows or options than the first one: "
                "all of them need the same, each takes its share itself"
            )
        return Checkpoint(model.checkpoint, mark) if model.checkpoint is not None and team.rank == 0 else None

    def _end(self, history: History) -> None:
        if self.checkpoint and history.stopped != "interrupted":
            self.checkpoint.remove()


def start(network: PUNN, rows: Rows, part: Tensor, generator: torch.Generator | None = None) -> None:
    """Begin with every function on its rows, if the gates can; some of very many rows will do."""
    if starts_from_data(network.gates):
        some = slice(None, None, len(rows.x) // 20_000 + 1)
        network.start(rows.x[some], part[some], None if rows.weight is None else rows.weight[some], generator)
    if not all(bool(torch.isfinite(parameter).all()) for parameter in network.parameters()):
        raise ValueError(
            "the gates cannot start from rows with such large numbers, whose squares overflow; "
            "use standardize=True, precision='double', or other units"
        )


def _start_linear(network: PUNN, rows: Rows, rng: np.random.RandomState) -> None:
    part = parts_of_rows(rows, network.class_of.tolist(), rng)
    start(network, rows, part)
    start_linear(network, rows.x, part, rows.weight)


def warn_of_dead_gates(network: PUNN, classes: np.ndarray, rows: Rows) -> None:
    """Name the classes that none of their own training rows reaches.

    Arguments:
        network: The network, in double precision.
        classes: Labels of the classes that rows can have.
        rows: Training rows.
    """
    some = rows.some(min(5000, 1 + 20_000_000 // network.functions))
    with torch.inference_mode():
        log_p = network.log_probabilities(network.gates(some.x.double()))
    own = log_p.gather(1, some.y.unsqueeze(1)).squeeze(1)
    # A class whose rows hardly count may well be given up.
    counts = torch.bincount(rows.y, rows.weight, network.classes).double()
    counts /= counts.sum()
    for code, label in enumerate(classes.tolist()):
        mine = own[some.y == code]
        if counts[code] > 1e-3 and len(mine) and bool((mine < np.log(1e-3)).all()):
            warnings.warn(
                f"the gates of class {label!r} are dead: none of its {len(mine)} training rows gets more than "
                "0.1% for it; more epochs, restarts, another order or another activation will help",
                UserWarning,
                stacklevel=4,
            )
