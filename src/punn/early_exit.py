r"""Predictions that stop as soon as they are certain.

The gates of a row are evaluated in the chain's order. After some of them the class sums so far are lower bounds, and
all that can still be added to a class is what remains:

.. math:: p_c \le \sum_{i \le j,\, \pi(i) = c} h_i + \prod_{i \le j} (1 - q_i)

Once the best class is ahead of every other one and what remains together, no later gate can change the answer.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from punn.activations import Activation
from punn.gates import Ball, Ellipsoid, Hybrid, SeparateMLP, Shell
from punn.ledger import percent
from punn.network import PUNN

__all__ = ["EarlyExit", "early_exit"]

BLOCKS = 64  # gates of a long chain are evaluated in so many blocks: a call for each gate would cost more than it saves
# A gate evaluated among other rows may differ in its last bits. A lead of the size that rounding may have counts as a
# tie; a row is left early only with a lead this many times larger.
SAFE = 64.0
COARSE = 0.1

_SEPARATE = SeparateMLP | Ball | Ellipsoid | Shell


@dataclass(frozen=True)
class EarlyExit:
    """Labels, and how many gates they took.

    Attributes:
        labels: The most probable class of every row, the same as without early exit.
        evaluated: The number of gates that were evaluated for every row.
        gates: The number of gates in the chain.
        saved: The share of gate evaluations that were not needed; below zero where ties made all of them necessary
            once more.
    """

    labels: NDArray[Any]
    evaluated: NDArray[np.int64]
    gates: int

    @property
    def saved(self) -> float:
        """The share of gate evaluations that were not needed."""
        return 1.0 - float(self.evaluated.mean()) / self.gates if len(self.evaluated) else 0.0

    def __str__(self) -> str:
        mean = self.evaluated.mean() if len(self.evaluated) else 0.0
        return f"{len(self.labels):,} rows, {mean:.1f} of {self.gates} gates each: {percent(max(self.saved, 0))} saved"

    __repr__ = __str__


def early_exit(model: Any, X: ArrayLike) -> EarlyExit:
    """The predictions of a fitted classifier, each with as few gates as it needs.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from punn import PUNNClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = PUNNClassifier("ball", restarts=1, epochs=20, random_state=0).fit(X, y)
        >>> fast = early_exit(model, X)
        >>> bool((fast.labels == model.predict(X)).all()), fast.gates
        (True, 2)
    """
    check_is_fitted(model, "network_")
    chain = _Chain(model.network_)
    results = [chain.winners(piece) for piece in model._pieces(X)]
    winner, evaluated, unsure = (np.concatenate(part) for part in zip(*results, strict=True))
    if unsure.any():
        # A tie is decided by the last bits, so by the very computation that predict makes.
        plain = model.predict_log_proba(X).argmax(1)
        winner, evaluated = np.where(unsure, plain, winner), evaluated + chain.gates
    return EarlyExit(np.asarray(model.classes_[winner]), evaluated, chain.gates)


class _Block:
    """Some gates that follow one another in the chain."""

    def __init__(self, network: PUNN, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.families, order = [], []
        for family, positions in _families(network.gates):
            local = [i for i, position in enumerate(positions) if first <= position < last]
            if local:
                self.families.append(_sliced(family, local))
                order += [positions[i] - first for i in local]
        self.back = np.argsort(order).tolist()
        names = network.activation.names
        self.activation = Activation(names[first:last], last - first)
        if self.activation.raw_width is not None and network.activation.raw_width is not None:
            bumps = names[:first].count("bump")
            width = network.activation.raw_width.detach()[bumps : bumps + names[first:last].count("bump")]
            self.activation.raw_width = nn.Parameter(width, requires_grad=False)
        noise = zip(*[_noise(family) for family in self.families], strict=True)
        self.noise = [torch.cat(numbers)[self.back] for numbers in noise]

    def gates(self, x: Tensor, length: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Accepted and rejected shares and how far rounding may shift them, shape (n, gates of the block) each."""
        theta = torch.cat([family(x) for family in self.families], -1)[:, self.back]
        # In the network's own precision, as predict does; only sums are formed in double.
        accept, reject = (log.exp().double() for log in self.activation(theta))
        constant, by_length, by_argument = self.noise
        shift = constant + by_length * length.unsqueeze(-1) + by_argument * theta.double().abs()
        # Hardly at all where a gate is sure of itself; where rounding is coarse nothing is certain.
        shifted = [(self.activation(theta.double() + sign * shift)[0].exp() - accept).abs() for sign in (-1, 1)]
        return accept, reject, torch.where(shift < COARSE, sum(shifted), torch.inf)


class _Chain:
    """All gates of a network in blocks, and which classes still have functions after each."""

    def __init__(self, network: PUNN) -> None:
        self.gates, self.classes = network.functions - 1, network.classes
        self.class_of = network.class_of
        size = -(-self.gates // BLOCKS)
        starts = range(0, self.gates, size)
        self.blocks = [_Block(network, first, min(first + size, self.gates)) for first in starts]

    @torch.inference_mode()
    def winners(self, x: Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """For scaled rows: the most probable class, the gates evaluated, and whether rounding might decide."""
        n = len(x)
        open_rows = torch.arange(n, device=x.device)
        sums = torch.zeros(n, self.classes, dtype=torch.float64, device=x.device)
        remaining = torch.ones(n, dtype=torch.float64, device=x.device)
        noise = torch.zeros_like(remaining)
        evaluated = torch.zeros(n, dtype=torch.int64, device=x.device)
        unsure = torch.zeros(n, dtype=torch.bool, device=x.device)
        for block in self.blocks:
            if not len(open_rows):
                break
            self._add(block, x, open_rows, sums, remaining, noise)
            evaluated[open_rows] += block.last - block.first
            last = block.last == self.gates
            if last:
                sums[open_rows, self.class_of[-1]] += remaining[open_rows]
                remaining[open_rows] = 0.0
            lead = self._lead(sums[open_rows], remaining[open_rows], block.last)
            if last:
                unsure[open_rows] = ~(lead > noise[open_rows])
            open_rows = open_rows[~(lead > SAFE * noise[open_rows])]
        return sums.argmax(-1).cpu().numpy(), evaluated.cpu().numpy(), unsure.cpu().numpy()

    def _add(self, block: _Block, x: Tensor, rows: Tensor, sums: Tensor, remaining: Tensor, noise: Tensor) -> None:
        rows_x = x[rows]
        accept, reject, shift = block.gates(rows_x, torch.linalg.vector_norm(rows_x.double(), dim=-1))
        reached = torch.cat([torch.ones_like(reject[:, :1]), reject], -1).cumprod(-1) * remaining[rows].unsqueeze(-1)
        own = self.class_of[block.first : block.last]
        sums[rows] = sums[rows].index_add(1, own, accept * reached[:, :-1])
        remaining[rows] = reached[:, -1]
        # Mass that rounding may move at a gate goes from one class to another: both sides of a lead.
        noise[rows] += 2 * (reached[:, :-1] * shift).sum(-1) + 16 * torch.finfo(x.dtype).eps * len(own)

    def _lead(self, sums: Tensor, remaining: Tensor, done: int) -> Tensor:
        """How far the best class is ahead of what any other can still get."""
        best = sums.argmax(-1, keepdim=True)
        later = torch.zeros(self.classes, dtype=torch.bool, device=sums.device)
        later[self.class_of[done:]] = True
        most = sums + later * remaining.unsqueeze(-1)
        return sums.gather(1, best).squeeze(1) - most.scatter(1, best, -1.0).amax(-1)


def _families(gates: nn.Module) -> list[tuple[nn.Module, Sequence[int]]]:
    """Families whose gates can be evaluated one without the other, and where these stand."""
    pairs: list[tuple[nn.Module, Sequence[int]]] = [(gates, [])]
    if isinstance(gates, Hybrid):
        pairs = list(zip(gates.families, gates.positions, strict=True))
    for family, _ in pairs:
        if not isinstance(family, _SEPARATE):
            raise ValueError(
                "exact_early_exit needs gates that are evaluated separately, 'mlp' or shapes: "
                f"{type(family).__name__} computes all of its gates at once, so that stopping saves nothing"
            )
    return pairs if isinstance(gates, Hybrid) else [(gates, range(int(gates.gates)))]  # type: ignore[arg-type]


def _sliced(module: nn.Module, index: list[int]) -> nn.Module:
    """Some gates of a family; every parameter of a family has its gates in the first dimension."""
    part = copy.copy(module)
    # Gates that follow one another need no copy of their numbers.
    rows = slice(index[0], index[-1] + 1) if index == list(range(index[0], index[-1] + 1)) else index
    part._parameters = {
        name: None if p is None else nn.Parameter(p.detach()[rows], requires_grad=False)
        for name, p in module._parameters.items()
    }
    part._modules = {name: None if m is None else _sliced(m, index) for name, m in module._modules.items()}
    if "gates" in vars(part):
        part.gates = len(index)  # type: ignore[assignment]
    return part


@torch.no_grad()
def _noise(family: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
    """How far two evaluations of an argument may be apart by rounding, as numbers per gate.

    A constant, a factor of the row's length and one of the argument itself.
    """
    if isinstance(family, SeparateMLP):
        return _network_noise(family)
    if not isinstance(family, Ball | Ellipsoid | Shell):
        raise TypeError(f"expected separate gates, got {type(family).__name__}")
    # A sum of squares is off by a share of itself, so by a share of the argument and of its value at the center.
    unit = (family.features**0.5 + 8) * torch.finfo(family.center.dtype).eps
    if isinstance(family, Ball):
        middle = family.sharpness * family.radius
    elif isinstance(family, Ellipsoid):
        middle = family.sharpness
    else:
        hole = torch.zeros_like(family.outer.mean) if family.inner is None else family.inner.mean
        middle, unit = 1 + hole / family.outer.mean, 100 * unit  # radius functions are sums of many terms
    middle = unit * middle.double()
    return middle, torch.zeros_like(middle), torch.full_like(middle, unit)


def _network_noise(family: SeparateMLP) -> tuple[Tensor, Tensor, Tensor]:
    """A sum of m products of total size s is off by at most m roundings of s; 1/64 of it is more than is ever seen."""
    dtype = family.weights[0].dtype
    zero = torch.zeros(family.gates, dtype=torch.float64, device=family.weights[0].device)
    error, size = [zero, zero], [zero, zero + 1.0]  # constant and factor of the row's length, of each
    for weight, bias in zip(family.weights, family.biases, strict=True):
        unit = (weight.shape[-1] + 2) * torch.finfo(dtype).eps / 64
        norm, shift = weight.double().flatten(1).norm(dim=1), bias.double().norm(dim=1)
        size = [norm * size[0] + shift, norm * size[1]]
        error = [norm * e + unit * s for e, s in zip(error, size, strict=True)]
    return error[0], error[1], zero
