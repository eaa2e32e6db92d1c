"""The estimator: validation, labels and order around the network; no mathematics."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from punn.activations import Name
from punn.background import with_background
from punn.building import (
    Family,
    build_network,
    chain_order,
    class_of_chain,
    parts_of_classes,
)
from punn.early_exit import early_exit
from punn.features import feature_names, numbers_of
from punn.fitting import Fitting, start, warn_of_dead_gates
from punn.gates import Shared
from punn.memory import side_by_side
from punn.network import PUNN, Standardize
from punn.options import check_options
from punn.parallel import ALONE, assemble
from punn.preparation import Settings, parts_of_rows, ranges_of, scaled, scaling_of, seeded, unknown_label
from punn.regions import Coverage, Regions, build_regions, class_codes, coverage_of
from punn.trace import GateTrace
from punn.training import Rows, Step, few_threads, take, train

if TYPE_CHECKING:
    from punn.counterfactual import Bounds, Counterfactual
    from punn.streaming import Stream

__all__ = ["PUNNClassifier"]


class PUNNClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose every probability is an exact product of gate values.

    Arguments:
        gates: ``"auto"`` (``"mlp"`` for two partition functions, ``"shared"`` for more), or a family for all
            gates: ``"mlp"`` (a network each), ``"shared"`` (one coupled network for all), ``"ball"``,
            ``"ellipsoid"``, ``"shell"``, ``"fourier"`` (2 features), ``"harmonic"``; a function
            ``(features, gates) -> module``; or a list with one of them per gate.
        activation: ``"auto"`` (a window for shells, else a sigmoid), ``"sigmoid"``, ``"gaussian"``,
            ``"bump"``, ``"window"``, ``"compact_window"``, a callable, or a list with one per gate.
        hidden: Widths of the hidden layers of networks.
        parts: Partition functions per class: a number, or a mapping from class to number.
        order: How the classes stand in the chain: ``"given"`` (sorted), ``"frequency"``, ``"random"``,
            ``"separable"`` (the easiest first, so that explanations are short), or a list of classes.
        degree: Order of Fourier radii (5 if None) or degree of harmonic ones (2 if None).
        rest: ``"class"``: the rest is the last class. ``"unknown"``: it belongs to none; only for
            localised gates, which do not extrapolate.
        standardize: Scale features inside the network, so that it takes and tells the user's units.
        epochs: Passes over the data; ``"auto"`` goes by their size.
        batch_size: Rows per step; ``"auto"`` goes by their number.
        learning_rate: The largest step size of Adam; ``"auto"`` is 0.01 for shapes, else 0.003.
        schedule: ``"cosine"``, ``"constant"`` or ``"triangle"``.
        weight_decay: Decoupled decay of network weights; ``"auto"`` is 1, and less the more there are above 5,000 rows.
        smoothness: Penalty on radius functions that grows with the degree.
        early_stopping: True holds rows out and keeps the weights that are best for them. ``"auto"``, the default,
            starts networks from linear gates, finds by held-out rows (five folds of up to 512 rows) for how many
            epochs to train, and then trains on all rows (on more than 5,000, it keeps the best weights); for
            shapes it is True from 257 rows on.
        validation_fraction: Share of rows held out; ``"auto"`` is 0.2 below 1,000 rows, else 0.1.
        patience: Epochs without improvement before the end.
        class_weight: ``"balanced"``, or a mapping from class to weight.
        label_smoothing: Share of the target that is spread over all classes.
        restarts: Starts that are trained side by side, the best is kept; ``"auto"`` is 8 for shapes, else 1.
        warm_start: Go on from the weights of the last fit.
        random_state: Decides all that is random.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ...
        precision: ``"auto"`` (double for small tables, else single), ``"single"``, ``"double"`` or ``"mixed"``.
        accumulate: Pieces that the rows of a step are taken in, one after the other, to need less memory.
        processes: ``"auto"``: all that torchrun started share the work, each with the same rows; 1: this one alone.
        checkpoint: A path; a fit that was interrupted goes on from there to the very same weights.
        verbose: Show progress; or a function that is told of every epoch as a :class:`punn.training.Step`, and
            ends the fit, with the best weights so far, by raising KeyboardInterrupt.

    Attributes:
        classes_: The classes.
        order_: The classes in the order of the chain.
        network_: The fitted :class:`punn.PUNN`.
        n_parameters_: How many numbers were learned.
        loss_curve_: The training loss of every epoch.
        n_iter_: Epochs run.
        ranges_: Least, middle and largest training value of every feature, shape (features, 3).
        n_features_in_: As in scikit-learn, and so is feature_names_in_.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = PUNNClassifier(random_state=0).fit(X, y)
        >>> model.predict(X[50:52]), model.n_parameters_
        (array([1, 1]), 4675)
    """

    classes_: np.ndarray
    network_: PUNN
    coverage_: Coverage | None
    ranges_: np.ndarray | None
    table_: dict[str, Any] | None

    def __init__(
        self,
        gates: Family | Sequence[Family] = "auto",
        activation: Name | Sequence[Name] = "auto",
        hidden: Sequence[int] = (64, 64),
        parts: int | Mapping[Any, int] = 1,
        order: str | Sequence[Any] = "given",
        degree: int | None = None,
        rest: str = "class",
        standardize: bool = True,
        epochs: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float | str = "auto",
        schedule: str = "cosine",
        weight_decay: float | str = "auto",
        smoothness: float = 0.0,
        early_stopping: bool | str = "auto",
        validation_fraction: float | str = "auto",
        patience: int = 20,
        class_weight: str | Mapping[Any, float] | None = None,
        label_smoothing: float = 0.0,
        restarts: int | str = "auto",
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        precision: str = "auto",
        accumulate: int = 1,
        processes: int | str = "auto",
        checkpoint: Any = None,
        verbose: bool | Callable[[Step], None] = False,
    ) -> None:
        self.gates = gates
        self.activation = activation
        self.hidden = hidden
        self.parts = parts
        self.order = order
        self.degree = degree
        self.rest = rest
        self.standardize = standardize
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.smoothness = smoothness
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.class_weight = class_weight
        self.label_smoothing = label_smoothing
        self.restarts = restarts
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.accumulate = accumulate
        self.processes = processes
        self.checkpoint = checkpoint
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from rows X with labels y.

        Arguments:
            X: Features, shape (n, features).
            y: Labels, shape (n,): strings, booleans or integers.
            sample_weight: How much every row counts; a weight of zero is the same as leaving it out.
        """
        going_on = self.warm_start and hasattr(self, "network_")
        table, labels, weight = self._checked(X, y, sample_weight)
        classes = np.unique(labels)
        if going_on and not np.array_equal(classes, self._trained_classes()):
            raise ValueError(
                f"warm_start needs the classes of the last fit, {self.classes_.tolist()}, got {classes.tolist()}"
            )
        settings = Settings(self, len(table))
        fitting = Fitting(self, settings, ALONE if self.processes == 1 else assemble(settings.device))
        seed = fitting.seed
        # Modules draw their first weights, and a user's own module perhaps more, from torch's global generator.
        with seeded(seed) if callable(self.gates) else contextlib.nullcontext():
            if going_on:
                self.network_.to(settings.device, settings.dtype)
                rows = self._rows(table, labels, weight)
            else:
                with seeded(seed):
                    rows, fitting.copies = self._build(table, labels, weight, classes, fitting)
            settings.judged &= not going_on and len(self.classes_) > 1
            self.network_, self.history_ = fitting.learn(self.network_, rows)
        self._finish(take(rows, slice(len(table))), table)  # without a background
        return self

    def fit_stream(self, stream: Stream) -> Self:
        """Learn from rows that do not fit into memory, which are read anew for every epoch.

        ``"auto"`` means batches of 1,024 rows and about 40,000 steps, from 1 to 20 epochs. The network starts from a
        sample of the rows, which is also what :meth:`regions` counts.

        Arguments:
            stream: What :func:`punn.streaming.open_stream` gives.
        """
        check_options(self)
        if self.rest == "unknown" or self.class_weight is not None or self.warm_start:
            raise ValueError("a stream of rows knows neither rest='unknown', nor class_weight, nor warm_start")
        settings = Settings(self, stream.n)
        settings.judged = False  # a stream is read once per epoch, and not for trials
        if self.batch_size == "auto":
            settings.batch_size = min(1024, stream.n)
        if self.epochs == "auto":
            settings.epochs = int(np.clip(round(40_000 * settings.batch_size / stream.n), 1, 20))
        fitting = Fitting(self, settings, stream.team)
        stream.to(settings.device, settings.dtype, self.standardize)
        sample, labels, _ = stream.sample
        self.n_features_in_ = sample.shape[1]
        self.feature_names_in_ = np.array(stream.columns.feature_names, dtype=object)
        with seeded(fitting.seed):
            scaling = stream.scaling.to(settings.device) if self.standardize else None
            rows, fitting.copies = self._build(sample, labels, None, stream.classes, fitting, scaling)
            self.history_ = fitting.learn_stream(self.network_, stream, rows)
        self._finish(rows, sample)
        return self

    def _finish(self, rows: Rows, table: np.ndarray) -> None:
        """What there is to say of a network that has learned, from its rows or a sample of them; also unscaled."""
        # Learned in single precision, used in double: what it says is then the same on every machine.
        self.network_.double()
        self.loss_curve_, self.n_iter_ = self.history_.loss, len(self.history_.loss)
        self.ranges_ = ranges_of(table)
        self.table_ = None  # the columns of an earlier table, if any, are no longer its own
        warn_of_dead_gates(self.network_, self._trained_classes(), rows)
        arguments = self._arguments(lambda part: rows.x[part].double(), *rows.x.shape)
        self.coverage_, _ = coverage_of(self.network_, arguments, rows.y)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Go over some more rows once; the first call names all classes, and scales by its rows.

        Arguments:
            X: Features, shape (n, features).
            y: Labels, shape (n,).
            classes: All classes that will ever come; needed in the first call only.
            sample_weight: How much every row counts.
        """
        first = not hasattr(self, "network_")
        if first and classes is None:
            raise ValueError("the first call of partial_fit must name all classes: partial_fit(X, y, classes=...)")
        table, labels, weight = self._checked(X, y, sample_weight, reset=first)
        known = np.unique(np.asarray(classes)) if first else self._trained_classes()
        unknown = np.setdiff1d(labels, known)
        if len(unknown):
            raise ValueError(f"y has labels that are not among the classes {known.tolist()}: {unknown.tolist()}")
        settings = Settings(self, len(table))
        fitting = Fitting(self, settings)
        if first:
            with seeded(fitting.seed):
                rows, _ = self._build(table, labels, weight, known, fitting)
            self.loss_curve_ = []
        else:
            self.network_.to(settings.device, settings.dtype)
            rows = self._rows(table, labels, weight)
        with few_threads(2.0 * self.n_parameters_ * settings.batch_size):
            history = train(
                self.network_,
                rows,
                epochs=1,
                batch_size=settings.batch_size,
                learning_rate=settings.learning_rate,
                generator=fitting.generator,
                schedule="constant",
            )
        self.network_.double()
        self.ranges_ = ranges_of(table, None if first else getattr(self, "ranges_", None))
        self.coverage_ = None  # earlier rows are gone; regions(X, y) counts those at hand
        self.loss_curve_ = [*self.loss_curve_, *history.loss]
        self.n_iter_ = len(self.loss_curve_)
        return self

    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Log-probability of every class, shape (n, C); minus infinity where a localised gate is exactly 0."""
        return self._answers(X, lambda log_p: log_p)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Probability of every class, shape (n, C), in the order of ``classes_``."""
        return self._answers(X, torch.exp)

    def predict(self, X: ArrayLike, exact_early_exit: bool = False) -> np.ndarray:
        """The most probable class of every row.

        Arguments:
            X: Features, shape (n, features).
            exact_early_exit: Evaluate the gates of a row only until no later one can change the answer, which
                is always the same. ``early_exit_saved_`` tells the share of gate evaluations that the last such
                call saved; :func:`punn.early_exit.early_exit` gives it with the labels, row by row.
        """
        if exact_early_exit:
            result = early_exit(self, X)
            self.early_exit_saved_ = result.saved
            return result.labels
        winner = self.predict_log_proba(X).argmax(1)
        return np.asarray(self.classes_[winner])

    def trace(self, X: ArrayLike) -> GateTrace:
        """How every probability is formed, gate by gate."""
        with torch.inference_mode():
            pieces = [[log.cpu().numpy() for log in self.network_.activation(theta)] for theta in self._theta(X)]
        accept, reject = (np.concatenate(logs) for logs in zip(*pieces, strict=True))
        return GateTrace(accept, reject, self.network_.class_of.cpu().numpy(), self.classes_)

    def regions(self, X: ArrayLike | None = None, y: ArrayLike | None = None) -> Regions:
        """What every partition function is, in the user's units, and which rows it covers.

        Arguments:
            X: Rows to count, with their labels y; the training rows if None.
            y: The labels of the rows.
        """
        check_is_fitted(self, "network_")
        if (X is None) != (y is None):
            raise ValueError("regions needs rows and their labels, regions(X, y), or neither for the training rows")
        coverage, function = getattr(self, "coverage_", None), None
        if X is not None and y is not None:
            check_consistent_length(X, y)
            coverage, function = coverage_of(self.network_, self._theta(X), class_codes(y, self.classes_))
        return build_regions(self.network_, self.classes_, feature_names(self), coverage, function)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safe file, which :func:`punn.load` reads; see :func:`punn.persistence.save`."""
        from punn.persistence import save

        save(self, path)

    def counterfactual(
        self,
        x: ArrayLike,
        cls: Any = None,
        *,
        bounds: Bounds | None = None,
        fixed: Sequence[Any] = (),
        restarts: int = 32,
        random_state: int = 0,
    ) -> Counterfactual:
        """The smallest change of a row that makes a class win: see :func:`punn.counterfactual.counterfactual`."""
        from punn.counterfactual import counterfactual  # few ask for one, and all would wait for it at the start

        return counterfactual(self, x, cls, bounds=bounds, fixed=fixed, restarts=restarts, random_state=random_state)

    def _answers(self, X: ArrayLike, wanted: Callable[[Tensor], Tensor]) -> np.ndarray:
        """What is wanted of the log-probabilities, shape (n, C)."""
        check_is_fitted(self, "network_")
        table = numbers_of(self, X)
        answers = np.empty((len(table), len(self.classes_)))

        def fill(part: slice) -> None:
            with torch.inference_mode():
                answers[part] = wanted(self.network_.answer(self._scaled(table[part]))).cpu().numpy()

        _in_pieces(fill, len(table), self._chunk(table.shape[1]) if len(table) > 1 else 1)
        return answers

    def _theta(self, X: ArrayLike) -> Iterator[Tensor]:
        """Gate arguments in double precision, in pieces that fit into memory."""
        check_is_fitted(self, "network_")
        table = numbers_of(self, X)
        return self._arguments(lambda part: self._scaled(table[part]), *table.shape)

    def _arguments(self, rows_of: Callable[[slice], Tensor], n: int, features: int) -> Iterator[Tensor]:
        """Gate arguments of n rows, in pieces that fit into memory."""
        gates, chunk = self.network_.functions - 1, self._chunk(features)
        like, size = self.network_.first_parameter, chunk * max(1, 1_000_000 // (gates * chunk))
        for first in range(0, n, size):
            theta = torch.empty(min(size, n - first), gates, dtype=like.dtype, device=like.device)

            def fill(part: slice, theta: Tensor = theta, first: int = first) -> None:
                with torch.inference_mode():
                    theta[part] = self.network_.gates(rows_of(slice(first + part.start, first + part.stop)))

            _in_pieces(fill, len(theta), chunk)
            yield theta

    def _pieces(self, X: ArrayLike) -> Iterator[Tensor]:
        """Rows as the gates take them, in pieces that fit into memory."""
        table = numbers_of(self, X)
        chunk = self._chunk(table.shape[1])
        for first in range(0, len(table), chunk):
            yield self._scaled(table[first : first + chunk])

    def _chunk(self, features: int) -> int:
        """Rows that are worked on at once: what a processor's cache holds, which saves half of the time."""
        numbers = 120_000 if self.network_.class_of.device.type == "cpu" else 4_000_000
        functions, hidden = self.network_.functions, max([1, *self.hidden])
        shared = isinstance(self.network_.gates, Shared)
        return max(1, numbers // max(features, hidden, functions if shared else functions * hidden))

    def _checked(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, reset: bool = True
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Options, rows, labels and weights that are right, without the rows that do not count."""
        check_options(self)
        table, labels = validate_data(self, X, y, reset=reset, dtype=[np.float64, np.float32])
        check_classification_targets(labels)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, table, dtype=np.float64, ensure_non_negative=True)
        if self.class_weight is not None:
            balance = compute_sample_weight(self.class_weight, labels)
            weight = balance if weight is None else weight * balance
        if weight is None:
            return table, labels, None
        counts = weight > 0
        if not counts.any():
            raise ValueError("sample_weight must be positive for at least one row, got only zeros")
        return (table, labels, weight) if counts.all() else (table[counts], labels[counts], weight[counts])

    def _build(
        self,
        table: np.ndarray,
        labels: np.ndarray,
        weight: np.ndarray | None,
        classes: np.ndarray,
        fitting: Fitting,
        scaling: Standardize | None = None,
    ) -> tuple[Rows, list[PUNN]]:
        """Make the network and start it from the data; further copies of it start elsewhere."""
        settings, rng = fitting.settings, fitting.rng
        self.classes_ = classes
        if self.standardize and scaling is None:
            scaling = scaling_of(table, weight).to(settings.device)
        x = scaled(table, scaling, settings.device, settings.dtype)
        rows = _as_rows(x, labels, weight, classes)
        order = chain_order(self.order, classes, rows.x.cpu(), rows.y.cpu(), rng)
        several = len(classes) > 1 or self.rest == "unknown"
        class_of = class_of_chain(order, parts_of_classes(self.parts, classes) if several else [2])
        if self.rest == "unknown":
            class_of.append(len(classes))
            self.classes_ = np.append(classes, unknown_label(classes))
            rows = with_background(rows, len(classes))
        networks = []
        part = parts_of_rows(rows, class_of, rng)
        for number in range(settings.restarts):
            network = build_network(self.gates, self.activation, class_of, x.shape[1], self.hidden, self.degree)
            networks.append(network.to(settings.device, settings.dtype))
            start(networks[-1], rows, part, fitting.generator if number else None)
        self.network_ = networks[0].eval()
        self.network_.scaling = scaling
        self.order_ = self.classes_[list(dict.fromkeys(class_of))]
        self.n_parameters_ = sum(p.numel() for p in self.network_.parameters())
        return rows, networks[1:]

    def _rows(self, table: np.ndarray, labels: np.ndarray, weight: np.ndarray | None) -> Rows:
        rows = _as_rows(self._scaled(table), labels, weight, self._trained_classes())
        return with_background(rows, len(self.classes_) - 1) if self.rest == "unknown" else rows

    def _scaled(self, table: np.ndarray) -> Tensor:
        """Rows as the gates take them."""
        like = self.network_.first_parameter
        return scaled(table, self.network_.scaling, like.device, like.dtype)

    def _trained_classes(self) -> np.ndarray:
        """Classes that rows can have: all but the unknown one."""
        return self.classes_[:-1] if self.rest == "unknown" else self.classes_


def _in_pieces(work: Callable[[slice], None], rows: int, chunk: int) -> None:
    """Do some work on all rows: side by side, pieces keep all threads busy, inside of one there is too little to do."""
    if rows <= chunk:
        work(slice(0, rows))
        return
    threads = torch.get_num_threads()
    with few_threads(0):
        side_by_side(work, rows, chunk, threads)


def _as_rows(x: Tensor, labels: np.ndarray, weight: np.ndarray | None, classes: np.ndarray) -> Rows:
    codes = torch.from_numpy(np.searchsorted(classes, labels)).to(x.device)
    return Rows(x, codes, None if weight is None else torch.from_numpy(weight).to(x))
