"""What comes before training: scaling, where rows start, rows held out, settings by the size of the data."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from punn.building import NETWORKS, SHAPES
from punn.memory import side_by_side
from punn.network import Standardize
from punn.training import Rows, few_threads, take

__all__ = [
    "FOLDS",
    "REFIT",
    "SMALL",
    "Settings",
    "hold_out",
    "parts_of_rows",
    "ranges_of",
    "scaled",
    "scaling_of",
    "seeded",
    "unknown_label",
]

#: Tables up to this size are fitted in one batch and in double precision: the order of rows is then no matter.
SMALL = 256

#: A table of up to 512 rows is held out in so many shares, each in turn, to find out how long to train.
FOLDS, FOLDED = 5, 512

#: Up to this size, all rows are trained on once it is known for how long.
REFIT = 5000

# Numbers that are worked on at once: what a processor's cache holds, as doubles.
_PIECE = 100_000


def scaling_of(X: np.ndarray, weight: np.ndarray | None) -> Standardize:
    """Mean and deviation of every feature; a constant one is only shifted."""
    largest = np.maximum(X.max(0), -X.min(0)).astype(np.float64)
    if largest.max(initial=0.0) > 1e150:  # squares would overflow
        unit = np.where(largest > 1e150, largest, 1.0)
        small = scaling_of(X / unit, weight)
        return Standardize(small.mean * torch.from_numpy(unit), small.scale * torch.from_numpy(unit))
    total = float(len(X) if weight is None else weight.sum())
    mean, variance = np.zeros((2, X.shape[1]))
    for piece in _pieces(X):
        # In double: many numbers in single precision add up to something else, or overflow.
        values = X[piece].astype(np.float64, copy=False)
        mean += (values.sum(0) if weight is None else weight[piece] @ values) / total
    for piece in _pieces(X):
        square = (X[piece] - mean) ** 2
        variance += square.sum(0) if weight is None else weight[piece] @ square
    scale = np.sqrt(variance / total)
    # What rounding leaves of a constant column is not a scale.
    scale[scale <= 1e-12 * np.maximum(np.abs(mean), 1e-300)] = 1.0
    return Standardize(torch.from_numpy(mean), torch.from_numpy(scale))


def ranges_of(X: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
    """The least, a middle and the largest value of every feature, shape (features, 3).

    The middle is the median; of many rows, that of evenly spaced ones.

    Arguments:
        X: Rows, shape (n, features).
        before: The ranges of rows seen before, which are widened and keep their middle.

    Example:
        >>> ranges_of(np.array([[1.0], [2.0], [9.0]]))
        array([[1., 2., 9.]])
    """
    low, high = X.min(axis=0), X.max(axis=0)
    if before is not None:
        return np.stack([np.minimum(low, before[:, 0]), before[:, 1], np.maximum(high, before[:, 2])], axis=1)
    middle = np.median(X[:: len(X) // 5_000 + 1], axis=0)
    return np.stack([low, middle, high], axis=1).astype(np.float64)


def scaled(table: np.ndarray, scaling: nn.Module | None, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Rows as the gates take them, made in pieces: a table may take half of the memory."""

    def scaled_piece(piece: slice) -> Tensor:
        rows = table[piece]
        # What stays as it is gets memory of its own, and torch takes none that is read-only or runs backwards.
        if scaling is None or not (rows.flags.writeable and rows.flags.c_contiguous):
            rows = np.array(rows)
        given = torch.from_numpy(rows).to(device)
        return given if scaling is None else scaling(given)

    pieces = _pieces(table)
    if len(pieces) <= 1:
        return scaled_piece(slice(None)).to(dtype)
    x = torch.empty(table.shape, dtype=dtype, device=device)

    inference = torch.is_inference_mode_enabled()  # which other threads do not know of

    def fill(piece: slice) -> None:
        with torch.inference_mode(inference):
            x[piece] = scaled_piece(piece)

    threads = torch.get_num_threads()
    with few_threads(3.0 * _PIECE):
        side_by_side(fill, len(table), pieces[0].stop, threads)
    return x


def _pieces(table: np.ndarray) -> list[slice]:
    """Rows that are worked on at once."""
    size = max(1, _PIECE // table.shape[1])
    return [slice(first, first + size) for first in range(0, len(table), size)]


def parts_of_rows(rows: Rows, class_of: list[int], rng: np.random.RandomState) -> Tensor:
    """The function that every row starts in: of a class with several, the one whose cluster it is in."""
    functions = torch.tensor(class_of)
    part = torch.empty_like(rows.y)
    for c in range(int(functions.max()) + 1):
        own = (functions == c).nonzero().squeeze(-1)
        mine = (rows.y == c).nonzero().squeeze(-1)
        if len(own) == 1 or len(mine) <= len(own):
            part[mine] = own[torch.arange(len(mine)) % len(own)]
            continue
        from sklearn.cluster import KMeans  # takes a while to load, and hardly anybody needs it

        some = mine[:: len(mine) // 5000 + 1]
        weight = None if rows.weight is None else rows.weight[some].cpu().numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer distinct rows than parts is no fault
            clusters = KMeans(len(own), n_init=1, random_state=rng).fit(
                rows.x[some].cpu().numpy(), sample_weight=weight
            )
        part[mine] = own[torch.from_numpy(clusters.predict(rows.x[mine].cpu().numpy())).long()]
    return part


def unknown_label(classes: np.ndarray) -> Any:
    """The label of the rest, if it belongs to no class."""
    label: Any = "unknown" if classes.dtype.kind in "OUS" else -1
    if label in classes.tolist():
        raise ValueError(f"rest='unknown' needs the label {label!r} for itself, but it is one of the classes")
    return label


def hold_out(rows: Rows, fraction: float, rng: np.random.RandomState) -> tuple[Rows, Rows | None]:
    """Rows to learn from, with every class among them, and rows to judge by, in the same proportions."""
    from sklearn.model_selection import train_test_split  # not loaded by whoever only predicts

    counts = torch.bincount(rows.y)
    # A class with a single row stays where it is learned from.
    candidates = (counts[rows.y] > 1).nonzero().squeeze(-1).cpu().numpy()
    held = max(round(fraction * len(candidates)), int((counts > 1).sum()))
    if not 0 < held <= len(candidates) // 2:
        warnings.warn(
            f"{len(rows.x)} rows of {int((counts > 0).sum())} classes are too few to hold some out: "
            "fitting without early stopping",
            UserWarning,
            stacklevel=4,
        )
        return rows, None
    labels = rows.y.cpu().numpy()[candidates]
    _, out = train_test_split(candidates, test_size=held, stratify=labels, random_state=rng)
    kept = torch.ones(len(rows.x), dtype=torch.bool)
    kept[torch.from_numpy(out)] = False
    return take(rows, kept.nonzero().squeeze(-1)), take(rows, torch.from_numpy(np.sort(out)))


_BUILDING = threading.RLock()


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[torch.Generator]:
    """A generator of our own, and torch's global one seeded for the modules and put back after."""
    with _BUILDING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield torch.Generator().manual_seed(seed)


class Settings:
    """The numbers of a fit: what the estimator says, or what suits the size of the data where it says "auto"."""

    def __init__(self, model: Any, rows: int) -> None:
        families = [model.gates] if isinstance(model.gates, str) or callable(model.gates) else list(model.gates)
        shape = all(family in SHAPES for family in families)
        small = self.small = rows <= SMALL
        fitting = rows if small else np.clip(2 ** round(np.log2(rows / 16)), 32, 256)
        self.batch_size = int(_or(model.batch_size, fitting))
        steps = -(-rows // self.batch_size)
        self.epochs = int(_or(model.epochs, np.clip(round(6000 / steps), 30, 200)))
        self.learning_rate = float(_or(model.learning_rate, 0.01 if shape else 0.003))
        self.weight_decay = float(_or(model.weight_decay, min(1.0, 5000 / rows)))
        self.restarts = int(_or(model.restarts, 8 if shape else 1))
        # Networks can learn whatever there is: held-out rows always tell when to end, see punn.judging.
        alone = self.restarts == 1 and all(family in NETWORKS for family in families)
        self.judged = alone and isinstance(model.early_stopping, str)
        self.folds = FOLDS if rows <= FOLDED else 1
        self.refit = rows <= REFIT
        self.early_stopping = bool(_or(model.early_stopping, not small))
        self.validation_fraction = float(_or(model.validation_fraction, 0.2 if rows < 1000 else 0.1))
        double = model.precision == "double" or (model.precision == "auto" and small)
        self.dtype = torch.float64 if double else torch.float32
        cuda = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self.device = torch.device(_or(model.device, cuda))
        except (RuntimeError, TypeError) as error:
            raise ValueError(
                f"device must be 'auto' or one that torch knows, such as 'cpu', got {model.device!r}"
            ) from error


def _or(option: Any, fitting: Any) -> Any:
    return fitting if isinstance(option, str) and option == "auto" else option
