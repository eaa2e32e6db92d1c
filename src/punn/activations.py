r"""Activations: gate arguments to the logs of what a gate accepts and rejects.

The contract is ``theta -> (log_accept, log_reject)``, that is :math:`\log q` and
:math:`\log(1 - q)` with :math:`q = g(\theta)`, both of theta's shape. Any function that keeps
it is an activation.

A localised gate is written :math:`q = e^{-a}` with a *cost* :math:`a(\theta) \ge 0`. Its exact
logs reach :math:`-\infty` (a bump outside its support, any of them at its peak), where a loss
could neither be finite nor lead back. In training they are *continued*: past an edge the cost
goes on as a straight line, and near the peak so does the log of what is rejected. The value of
a prediction is always exact; its gradient is always that of the continuation, hence finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from punn.partition import log_sigmoid_gates

__all__ = ["ACTIVATIONS", "Activation", "bump", "compact_window", "gaussian", "sigmoid", "window"]

LogGates = tuple[Tensor, Tensor]
Name = str | Callable[[Tensor], LogGates]

#: A bump or compact window is continued from the argument where it accepts exp(-4), about 2%.
_EDGE_COST = 4.0
#: A gaussian is continued from |theta| = 30, where it accepts exp(-900).
_GAUSSIAN_EDGE = 30.0
#: Near its peak a gate is continued from where it rejects 0.01%.
_PEAK_COST = 1e-4
#: How steep the sides of a soft window are, in units of the shell's thickness.
_STEEPNESS = 20.0
#: A bump may not be narrower: a width of zero would be divided by.
_NARROWEST = 1e-6


def sigmoid(theta: Tensor) -> LogGates:
    r"""A monotone gate, :math:`q = 1 / (1 + e^{-\theta})`.

    Example:
        >>> log_accept, log_reject = sigmoid(torch.tensor([0.0, 1000.0]))
        >>> log_accept.exp(), log_reject
        (tensor([0.5000, 1.0000]), tensor([-6.9315e-01, -1.0000e+03]))
    """
    return log_sigmoid_gates(theta)


def gaussian(theta: Tensor, continued: bool = False) -> LogGates:
    r"""A gate localised around zero, :math:`q = e^{-\theta^2}`.

    Example:
        >>> gaussian(torch.tensor([1.0]))[0].exp()
        tensor([0.3679])
    """
    inner = theta.clamp(-_GAUSSIAN_EDGE, _GAUSSIAN_EDGE)
    # Past the edge the square goes on along its tangent, so that no finite argument overflows.
    cost = inner.square() + 2 * _GAUSSIAN_EDGE * (theta - inner).abs()
    return _log_gates(theta.square(), cost, continued)


def bump(theta: Tensor, continued: bool = False) -> LogGates:
    r"""A gate with compact support, :math:`q = \exp(1 - 1 / (1 - \theta^2))` for :math:`|\theta| < 1`.

    Outside it is exactly zero.

    Example:
        >>> bump(torch.tensor([0.0, 0.5, 1.0, 2.0]))[0].exp()
        tensor([1.0000, 0.7165, 0.0000, 0.0000])
    """
    return _compact(theta, 1 + theta, 1 - theta, 2, continued)


def compact_window(theta: Tensor, continued: bool = False) -> LogGates:
    r"""A window on [0, 1] with compact support and a flat top: a bump of :math:`(2\theta - 1)^2`.

    Example:
        >>> compact_window(torch.tensor([0.0, 0.1, 0.5, 1.0]))[0].exp()
        tensor([0.0000, 0.4997, 1.0000, 0.0000])
    """
    return _compact(2 * theta - 1, 2 * theta, 2 - 2 * theta, 4, continued)


def window(theta: Tensor) -> LogGates:
    r"""A soft window on [0, 1]: a smooth step up at 0 times a smooth step down at 1.

    .. math:: q = \sigma(s\,\theta)\, \sigma(s\,(1 - \theta)), \qquad s = 20

    It is a half on the boundaries of a shell and positive everywhere.

    Example:
        >>> window(torch.tensor([0.0, 0.5, 1.0]))[0].exp()
        tensor([0.5000, 0.9999, 0.5000])
    """
    up, down = log_sigmoid_gates(_STEEPNESS * theta), log_sigmoid_gates(_STEEPNESS * (1 - theta))
    log_accept = up[0] + down[0]
    return log_accept, _log1mexp(-log_accept)


#: Every activation by its name.
ACTIVATIONS: dict[str, Callable[..., LogGates]] = {
    "sigmoid": sigmoid,
    "gaussian": gaussian,
    "bump": bump,
    "window": window,
    "compact_window": compact_window,
}

_CONTINUED = ("gaussian", "bump", "compact_window")


class Activation(nn.Module):
    """The activation of every gate in a chain, and the widths that bumps learn.

    A bump gate accepts :math:`g(\\theta / w)` with a width of its own, because the scale at which
    it vanishes is not the network's to choose.

    Arguments:
        activation: A name, a callable, or a list with one of them per gate.
        gates: The number of gates.

    Example:
        >>> log_accept, _ = Activation(["sigmoid", "bump"], gates=2)(torch.tensor([[0.0, 2.0]]))
        >>> log_accept.exp()
        tensor([[0.5000, 0.0000]], grad_fn=<ExpBackward0>)
    """

    def __init__(self, activation: Name | Sequence[Name], gates: int) -> None:
        super().__init__()
        single = isinstance(activation, str) or callable(activation)
        if not single and not isinstance(activation, Sequence):
            raise TypeError(
                f"activation must be a name, a callable, or a list of them, got {type(activation).__name__}"
            )
        self.names: list[Name] = [activation] * gates if single else list(activation)  # type: ignore[arg-type, list-item]
        if len(self.names) != gates:
            raise ValueError(f"activation must be one, or one per gate ({gates}), got {len(self.names)}")
        for name in self.names:
            if not callable(name) and name not in ACTIVATIONS:
                raise ValueError(f"unknown activation {name!r}: use one of {', '.join(ACTIVATIONS)}, or a callable")
        distinct = list(dict.fromkeys(self.names))
        self.groups = [(name, [i for i, other in enumerate(self.names) if other == name]) for name in distinct]
        bumps = self.names.count("bump")
        self.raw_width = nn.Parameter(torch.full((bumps,), _softplus_inverse(1.0))) if bumps else None

    @property
    def sigmoid(self) -> bool:
        """Whether all gates are sigmoids."""
        return [name for name, _ in self.groups] == ["sigmoid"]

    @property
    def width(self) -> Tensor:
        """The width of every bump gate, in units of its argument."""
        return F.softplus(self.raw_width).clamp(min=_NARROWEST) if self.raw_width is not None else torch.empty(0)

    def forward(self, theta: Tensor, continued: bool = False) -> LogGates:
        """Log of what every gate accepts and rejects; continued in training."""
        theta = theta.float() if theta.dtype in (torch.float16, torch.bfloat16) else theta
        if len(self.groups) == 1:
            return self._log_gates(self.groups[0][0], theta, continued)
        results = [self._log_gates(name, theta[..., index], continued) for name, index in self.groups]
        back = torch.tensor([i for _, index in self.groups for i in index], device=theta.device).argsort()
        accept, reject = (torch.cat(logs, -1)[..., back] for logs in zip(*results, strict=True))
        return accept, reject

    def _log_gates(self, name: Name, theta: Tensor, continued: bool) -> LogGates:
        if callable(name):
            return name(theta)
        if name == "bump":
            theta = theta / self.width.to(theta.dtype)
        return ACTIVATIONS[name](theta, continued) if name in _CONTINUED else ACTIVATIONS[name](theta)

    def extra_repr(self) -> str:
        """Names and widths, in true units."""
        names = [name if isinstance(name, str) else getattr(name, "__name__", repr(name)) for name in self.names]
        text = names[0] if len(set(names)) == 1 else ", ".join(names)
        widths = ", ".join(f"{w:.3g}" for w in self.width.tolist()[:8])
        return f"{text}, width=[{widths}{', ...' if len(self.width) > 8 else ''}]" if len(self.width) else text


def argument_for(name: Name, q: Tensor) -> Tensor:
    """The argument at which an activation accepts q; of two, the larger one."""
    q = q.clamp(1e-6, 1 - 1e-4)
    cost = -q.log()
    if name == "gaussian":
        return cost.sqrt()
    if name == "bump":
        return (cost / (1 + cost)).sqrt()
    if name == "compact_window":
        return (1 + (cost / (1 + cost)).sqrt().sqrt()) / 2
    if name == "window":
        q = q.clamp(max=0.999)
        # (1 + u)(1 + e^-s / u) = 1 / q for u = e^{-s (1 - theta)}, the side of the outer boundary.
        excess = 1 / q - 1 - math.exp(-_STEEPNESS)
        u = (excess + (excess.square() - 4 * math.exp(-_STEEPNESS)).clamp(min=0).sqrt()) / 2
        return 1 + u.log() / _STEEPNESS
    if callable(name):
        grid = torch.linspace(20, -20, 16001).to(q)  # the first of the nearest is the largest
        return grid[(name(grid)[0] - q.log()).abs().argmin()]
    return q.logit()


def _compact(t: Tensor, from_left: Tensor, from_right: Tensor, power: int, continued: bool) -> LogGates:
    """Cost v / (1 - v) with v = t^power inside |t| < 1, infinite outside.

    The distances 1 + t and 1 - t from the edges are given, because t alone has lost their digits.
    """
    edge = (_EDGE_COST / (1 + _EDGE_COST)) ** (1 / power)
    slope = power * edge ** (power - 1) * (1 + _EDGE_COST) ** 2
    inner = t.clamp(-edge, edge)
    v = inner.pow(power)
    cost = v / (1 - v) + slope * (t - inner).abs()
    # 1 - t^4 is (1 + t)(1 - t)(1 + t^2); for a bump the last factor is missing.
    rest = from_left * from_right * (1 + t.square()).pow(power // 2 - 1)
    exact = torch.where((from_left > 0) & (from_right > 0), t.pow(power) / rest, torch.inf)
    return _log_gates(exact, cost, continued)


def _log_gates(exact: Tensor, cost: Tensor, continued: bool) -> LogGates:
    peak = cost.clamp(min=_PEAK_COST)
    log_reject = _log1mexp(peak) - (peak - cost) / _PEAK_COST
    if continued:
        return -cost, log_reject
    return _graft(-exact.detach(), -cost), _graft(_log1mexp(exact.detach()), log_reject)


def _log1mexp(cost: Tensor) -> Tensor:
    """log(1 - e^-cost), by whichever of two formulas keeps its digits."""
    return torch.where(
        cost < math.log(2),
        torch.log(-torch.expm1(-cost)),
        torch.log1p(-torch.exp(-cost.clamp(min=math.log(2)))),
    )


def _graft(value: Tensor, gradient: Tensor) -> Tensor:
    """The first one's value with the second one's gradient."""
    return value + (gradient - gradient.detach())


def _softplus_inverse(y: float) -> float:
    return y + math.log(-math.expm1(-y))
