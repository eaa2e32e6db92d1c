"""The network: gates, activation and partition in one module that returns log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from punn.activations import Activation, LogGates, Name, argument_for
from punn.gates import Ball, Ellipsoid, Hybrid, Shared, Shell
from punn.gates.radii import check_sizes, weighted_mean
from punn.partition import (
    check_class_of,
    gates_from_probabilities,
    log_class_probabilities,
    log_class_sums,
    log_partition,
    log_sigmoid_class_probabilities,
)
from punn.trace import GateTrace

__all__ = ["PUNN", "PUNNHead", "Standardize"]


class Standardize(nn.Module):
    """Features in the user's units to zero mean and unit variance, in double precision.

    It lives inside the network, so that a model takes raw features wherever it goes.

    Arguments:
        mean: The mean of every feature.
        scale: Its standard deviation; positive.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.double())
        self.register_buffer("scale", scale.double())

    def forward(self, x: Tensor) -> Tensor:
        """Standardised features, in x's own precision."""
        # A raw feature may be large and vary little: the difference is taken before digits are lost.
        mean = self.mean
        return (x.to(mean) - mean).div_(self.scale).to(x.dtype)


class PUNN(nn.Module):
    r"""A partition of unity neural network: ``x (n, ...) -> log p (n, C)``.

    Gates give arguments, an activation turns them into what is accepted and rejected, the recursion
    makes :math:`k` partition functions of them, and the functions of a class are added:

    .. math:: \log p_c(x) = \log \sum_{i:\, \pi(i) = c} h_i(x)

    Predictions are exact: outside its support a bump accepts 0, and a class may have the probability 0.
    In training mode localised gates are continued instead, so that no loss or gradient is infinite.

    Arguments:
        gates: A module from x to the gate arguments, shape (n, k - 1).
        activation: A name (``"sigmoid"``, ``"gaussian"``, ``"bump"``, ``"window"``,
            ``"compact_window"``), a callable, or a list with one per gate.
        class_of: The class of every partition function, shape (k,); one function per class if None.
        scaling: A module that is applied to x first, such as :class:`Standardize`.

    Example:
        >>> from punn.gates import SeparateMLP
        >>> network = PUNN(SeparateMLP(features=4, gates=2))
        >>> log_p = network(torch.zeros(5, 4))
        >>> log_p.shape, bool(torch.allclose(log_p.exp().sum(-1), torch.ones(5)))
        (torch.Size([5, 3]), True)
    """

    class_of: Tensor

    def __init__(
        self,
        gates: nn.Module,
        activation: Name | Sequence[Name] = "sigmoid",
        class_of: Tensor | Sequence[int] | None = None,
        scaling: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(gates, nn.Module):
            raise TypeError(f"gates must be a torch module from x to (n, k - 1), got {type(gates).__name__}")
        if class_of is None:
            class_of = range(_gates_of(gates) + 1)
        class_of = check_class_of(torch.as_tensor(class_of))
        self.functions, self.classes = len(class_of), int(class_of.max()) + 1
        if isinstance(getattr(gates, "gates", None), int):
            check_class_of(class_of, _gates_of(gates) + 1)
        self.scaling = scaling
        self.gates = gates
        self.activation = Activation(activation, self.functions - 1)
        self.register_buffer("class_of", class_of)

    def forward(self, x: Tensor) -> Tensor:
        """Log-probability of every class, shape (n, C)."""
        _check_rows(x)
        return self.answer(x if self.scaling is None else self.scaling(x))

    def answer(self, x: Tensor) -> Tensor:
        """Log-probability of every class for rows as they reach the gates, that is after scaling."""
        if isinstance(self.gates, Shared) and self.gates.coupled and self.activation.sigmoid:
            # The chain of coupled gates is the softmax of their scores, and that is one pass.
            scores = self._checked_width(self.gates.scores(x), self.functions)
            dtype = torch.promote_types(scores.dtype, torch.float32)
            return log_class_sums(scores.log_softmax(-1, dtype=dtype), self.class_of, self.classes)
        theta = self._checked_width(self.gates(x), self.functions - 1)
        return self.log_probabilities(theta, continued=self.training)

    def theta(self, x: Tensor) -> Tensor:
        """Gate arguments, shape (n, k - 1)."""
        _check_rows(x)
        return self._checked_width(self.gates(x if self.scaling is None else self.scaling(x)), self.functions - 1)

    @property
    def first_parameter(self) -> Tensor:
        """Tells device and precision; faster than ``next(self.parameters())``, which counts for a single row."""
        return next(_parameters(self.gates), self.class_of)

    def _checked_width(self, given: Tensor, width: int) -> Tensor:
        if given.ndim == 0 or given.shape[-1] != width:
            raise ValueError(
                f"the gates must give {width} arguments per row for {self.functions} partition "
                f"functions, got shape {tuple(given.shape)}"
            )
        return given

    def log_gates(self, x: Tensor) -> LogGates:
        """Log of what every gate accepts and rejects, shape (n, k - 1) each."""
        accept, reject = self.activation(self.theta(x), continued=self.training)
        return accept, reject

    def log_partition(self, x: Tensor) -> Tensor:
        """Log of the partition functions, shape (n, k)."""
        return log_partition(*self.log_gates(x))

    def log_probabilities(self, theta: Tensor, continued: bool = False) -> Tensor:
        """Log-probability of every class from gate arguments, shape (n, C)."""
        if self.activation.sigmoid:
            return log_sigmoid_class_probabilities(theta, self.class_of, self.classes)
        accept, reject = self.activation(theta, continued)
        return log_class_probabilities(accept, reject, self.class_of, self.classes)

    @torch.no_grad()
    def trace(self, x: Tensor, classes: ArrayLike | None = None) -> GateTrace:
        """How every probability is formed, gate by gate; exact, also in training mode.

        Arguments:
            x: Rows, as for a prediction.
            classes: The names of the classes, shape (C,); their numbers if None.
        """
        accept, reject = (log_q.double().cpu().numpy() for log_q in self.activation(self.theta(x)))
        return GateTrace(accept, reject, self.class_of.cpu().numpy(), classes)

    @torch.no_grad()
    def start(
        self, x: Tensor, part: Tensor, weight: Tensor | None = None, generator: torch.Generator | None = None
    ) -> None:
        """Begin with every partition function on its rows, with the mass that it has among them.

        Arguments:
            x: Rows as they reach the gates, that is after scaling.
            part: The partition function that every row belongs to, shape (n,); with one function
                per class in the order of the classes, its class.
            weight: How often every row counts, shape (n,).
            generator: Starts the shapes somewhere near their rows instead, for restarts.
        """
        _check_rows(x)
        if part.shape != x.shape[:1] or not bool(((part >= 0) & (part < self.functions)).all()):
            raise ValueError(
                f"part must name one of the partition functions 0 to {self.functions - 1} for each of {len(x)} rows, "
                f"got shape {tuple(part.shape)} with values {part.unique().tolist()[:20]}"
            )
        # A function without rows still gets the mass of half a row: a gate at 0 could not come back.
        counts = torch.bincount(part, weight, minlength=self.functions).clamp(min=0.5).to(x)
        share = counts / counts.sum()
        q = gates_from_probabilities(share)
        theta = torch.stack([argument_for(name, q[i]) for i, name in enumerate(self.activation.names)])
        self.gates.start(x, part, theta, weight, generator)  # type: ignore[operator]
        if isinstance(self.gates, Ball | Ellipsoid | Shell | Hybrid):
            self._resize(x, share, weight)

    def _resize(self, x: Tensor, share: Tensor, weight: Tensor | None, rounds: int = 60) -> None:
        """Grow and shrink the shapes until each takes its share, each in steps that halve when it overshoots."""
        grown, last = torch.zeros(2, self.functions - 1).to(share)
        gain = torch.ones_like(grown)
        for _ in range(rounds):
            log_h = log_partition(*self.activation(self.gates(x)))
            ratio = (share / weighted_mean(log_h.exp(), weight)).log()
            if float(ratio.abs().max()) < 0.01:
                return
            gain = torch.where(ratio[:-1] * last < 0, gain / 2, (gain * 1.2).clamp(max=1))
            # Where earlier shapes hold all of its rows, a shape would grow without end.
            target = (grown + (gain * ratio[:-1]).clamp(-0.2, 0.2)).clamp(-2, 2)
            self.gates.resize((target - grown).exp())  # type: ignore[operator]
            grown, last = target, ratio[:-1]


# How much of the first weights the parts of a class have in common.
_ALIKE = 0.95


class PUNNHead(nn.Module):
    r"""The last layer of a network: features to log-probabilities, in the place of linear and softmax.

    ``F.nll_loss(model(x), y)`` trains it. Under autocast the linear layer runs in half precision and the
    partition in single. At the start every class has the same mass. The parts of the classes are
    interleaved (1, ..., C, 1, ..., C, ...), which learns faster than blocks.

    With ``coupled=True`` there is one score per function and the later ones are taken away,
    :math:`\theta_i = z_i - \log \sum_{j>i} e^{z_j}`. These are the gates of a softmax over the functions:
    recursion, trace and ledger are the same, and it learns as fast as softmax. The parts of a class start nearly
    alike, so that they begin as one softmax score and part where that helps. Without it, the paper's construction,
    one linear gate must separate its function from all later ones at once.

    Arguments:
        in_features: Width of the features.
        classes: The number of classes.
        parts: The number of partition functions per class.
        coupled: Whether gate arguments are formed from scores.

    Example:
        >>> model = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), PUNNHead(64, classes=10, parts=2))
        >>> loss = nn.functional.nll_loss(model(torch.randn(8, 784)), torch.arange(8))
        >>> loss.backward()
    """

    def __init__(self, in_features: int, classes: int, parts: int = 1, coupled: bool = False) -> None:
        super().__init__()
        check_sizes(in_features=in_features, classes=classes, parts=parts)
        if classes < 2:
            raise ValueError(f"a partition needs at least 2 classes, got {classes}")
        k = classes * parts
        gates = Shared(nn.Identity(), k - 1, features=in_features, coupled=coupled)
        self.punn = PUNN(gates, "sigmoid", torch.arange(k) % classes)
        # Gate i takes 1 / (k - i) of what reaches it; scores that are all the same do that by themselves.
        later = torch.arange(k - 1, 0, -1).log()
        gates.output.bias.data.copy_(torch.zeros(k) if coupled else -later)  # type: ignore[union-attr]
        if coupled:
            # Parts that start apart divide the rows of a class between them from the first step on, by chance, and
            # each learns its share of them by heart.
            weight = gates.output.weight.data.view(parts, classes, in_features)  # type: ignore[union-attr]
            weight.lerp_(weight[:1].clone(), _ALIKE)

    def forward(self, features: Tensor) -> Tensor:
        """Log-probability of every class, shape (n, classes)."""
        log_p: Tensor = self.punn(features)
        return log_p

    def trace(self, features: Tensor, classes: ArrayLike | None = None) -> GateTrace:
        """How every probability is formed, gate by gate; classes are their names, shape (classes,)."""
        return self.punn.trace(features, classes)


def _parameters(module: nn.Module) -> Iterator[Tensor]:
    yield from (parameter for parameter in module._parameters.values() if parameter is not None)
    for child in module._modules.values():
        if child is not None:
            yield from _parameters(child)


def _gates_of(gates: nn.Module) -> int:
    count = getattr(gates, "gates", None)
    if not isinstance(count, int):
        raise TypeError(
            f"{type(gates).__name__} does not say how many gates it has; give class_of, "
            "or wrap it: Shared(module, gates=...)"
        )
    return count


def _check_rows(x: Tensor) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a floating point tensor, got {type(x).__name__}; use torch.as_tensor(x)")
    if not x.is_floating_point():
        raise TypeError(f"x must be a floating point tensor, got {x.dtype}; use x.float()")
    if torch.compiler.is_compiling():
        return
    try:
        finite = bool(torch.isfinite(x).all())
    except RuntimeError:  # under vmap values cannot be looked at
        return
    if not finite:
        raise ValueError("x must be finite, got NaN or infinite values; fill or drop those rows first")
