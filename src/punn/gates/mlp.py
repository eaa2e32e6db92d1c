"""Networks: gate arguments from separate networks, or from one that all gates share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from punn.gates.radii import check_features, check_sizes, weighted_mean
from punn.partition import couple

__all__ = ["SeparateMLP", "Shared", "mlp"]

# A start shrinks the last layer until arguments deviate by no more than this over the rows: then all rows begin
# with about the same mass, and none outside a bump.
_DEVIATION = 0.01


class SeparateMLP(nn.Module):
    r"""One ReLU network per gate, all evaluated together in batched products.

    Arguments:
        features: The number of features.
        gates: The number of gates.
        hidden: Widths of the hidden layers, the same for every gate; empty for linear gates.

    Example:
        >>> gates = SeparateMLP(features=2, gates=3, hidden=(32, 32))
        >>> gates(torch.zeros(5, 2)).shape
        torch.Size([5, 3])
        >>> sum(p.numel() for p in gates.parameters()) // 3
        1185
        >>> gates[0]  # the network of one gate, on its own
        Sequential(
          (0): Linear(in_features=2, out_features=32, bias=True)
          (1): ReLU()
          (2): Linear(in_features=32, out_features=32, bias=True)
          (3): ReLU()
          (4): Linear(in_features=32, out_features=1, bias=True)
        )
    """

    def __init__(self, features: int, gates: int, hidden: Sequence[int] = (32, 32)) -> None:
        super().__init__()
        check_sizes(features=features, gates=gates, **{f"hidden[{i}]": h for i, h in enumerate(hidden)})
        self.features, self.gates, self.hidden = features, gates, tuple(hidden)
        widths = [features, *hidden, 1]
        self.weights = nn.ParameterList([torch.empty(gates, after, before) for before, after in pairwise(widths)])
        self.biases = nn.ParameterList([torch.empty(gates, after) for after in widths[1:]])
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = weight.shape[-1] ** -0.5  # as in nn.Linear
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Gate arguments, shape (n, gates)."""
        check_features(x, self.features)
        first, *later = zip(self.weights, self.biases, strict=True)
        # All gates read the same rows: one product of full width serves the first layer of all.
        units = nn.functional.linear(x.reshape(-1, self.features), first[0].flatten(0, 1), first[1].flatten())
        if self.gates == 1:  # a plain network
            for weight, bias in later:
                units = nn.functional.linear(units.relu(), weight.squeeze(0), bias.squeeze(0))
            return units.reshape(*x.shape[:-1], 1)
        u: Tensor = units.unflatten(-1, first[1].shape).transpose(-2, -3)  # (gates, n, width)
        for weight, bias in later:
            u = torch.baddbmm(bias.unsqueeze(-2), u.relu(), weight.transpose(-1, -2))
        return u.squeeze(-1).transpose(-1, -2).reshape(*x.shape[:-1], self.gates)

    def __len__(self) -> int:
        return self.gates

    def __getitem__(self, gate: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for weight, bias in zip(self.weights, self.biases, strict=True):
            linear = nn.Linear(weight.shape[-1], weight.shape[-2], device=weight.device, dtype=weight.dtype)
            linear.load_state_dict({"weight": weight[gate].detach(), "bias": bias[gate].detach()})
            layers += [linear, nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    @torch.no_grad()
    def __setitem__(self, gate: int, network: nn.Sequential) -> None:
        linears = [layer for layer in network if isinstance(layer, nn.Linear)]
        shapes = [tuple(layer.weight.shape) for layer in linears]
        expected = [tuple(weight.shape[1:]) for weight in self.weights]
        if shapes != expected:
            raise ValueError(f"a gate's network needs linear layers of shape {expected}, got {shapes}")
        for layer, weight, bias in zip(linears, self.weights, self.biases, strict=True):
            weight[gate], bias[gate] = layer.weight, layer.bias

    @torch.no_grad()
    def start(
        self,
        x: Tensor,
        part: Tensor,
        theta: Tensor,
        weight: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Give every gate nearly the same argument, the given one, on all rows."""
        last, bias = self.weights[-1], self.biases[-1].squeeze(-1)
        arguments = self(x)
        shrink = _quiet(arguments, weight)
        last.mul_(shrink.view(-1, 1, 1))
        bias.copy_(theta - shrink * (weighted_mean(arguments, weight) - bias))

    def extra_repr(self) -> str:
        """Sizes."""
        return f"features={self.features}, gates={self.gates}, hidden={self.hidden}"


class Shared(nn.Module):
    r"""One network for all gates.

    Arguments:
        backbone: Any module from x to (n, gates); or to (n, features), if ``features`` is given.
        gates: The number of gates.
        features: Width of what the backbone gives; then a linear layer of ours follows it.
        coupled: The network gives one score per partition function, ``gates + 1`` of them, and the
            arguments are formed by taking the later scores away: see :func:`punn.partition.couple`.

    Example:
        >>> gates = Shared(nn.Sequential(nn.Linear(4, 16), nn.ReLU()), gates=9, features=16)
        >>> gates(torch.zeros(5, 4)).shape
        torch.Size([5, 9])
    """

    def __init__(self, backbone: nn.Module, gates: int, features: int | None = None, coupled: bool = False) -> None:
        super().__init__()
        check_sizes(gates=gates)
        self.gates, self.coupled = gates, coupled
        self.backbone = backbone
        self.output: nn.Linear | None = None
        if features is not None:
            check_sizes(features=features)
            self.output = nn.Linear(features, gates + 1 if coupled else gates)

    def scores(self, x: Tensor) -> Tensor:
        """What the network gives, before coupling."""
        u: Tensor = self.backbone(x)
        if self.output is None:
            return u
        check_features(u, self.output.in_features)
        scores: Tensor = self.output(u)
        return scores

    def forward(self, x: Tensor) -> Tensor:
        """Gate arguments, shape (n, gates)."""
        return couple(self.scores(x)) if self.coupled else self.scores(x)

    @torch.no_grad()
    def start(
        self,
        x: Tensor,
        part: Tensor,
        theta: Tensor,
        weight: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Give every gate nearly the same argument, the given one, on all rows; needs our own last layer."""
        if self.output is None:
            return
        if self.coupled:
            # Scores whose softmax has these gates: log q_i + log of what the gates before it reject.
            accept = -nn.functional.softplus(-theta)
            reached = nn.functional.pad(-nn.functional.softplus(theta).cumsum(-1), (1, 0))
            theta = nn.functional.pad(accept, (0, 1)) + reached
        scores, bias = self.scores(x), self.output.bias
        shrink = _quiet(scores, weight)
        self.output.weight.mul_(shrink.unsqueeze(-1))
        bias.copy_(theta - shrink * (weighted_mean(scores, weight) - bias))

    def extra_repr(self) -> str:
        """Sizes."""
        return f"gates={self.gates}, coupled={self.coupled}"


def _quiet(arguments: Tensor, weight: Tensor | None) -> Tensor:
    """How much to shrink every gate's last layer."""
    variance = weighted_mean((arguments - weighted_mean(arguments, weight)).square(), weight)
    return (_DEVIATION / variance.sqrt()).clamp(max=1)


def mlp(features: int, hidden: Sequence[int]) -> nn.Sequential:
    """The hidden layers of a ReLU network: Linear, ReLU, ..., ReLU."""
    check_sizes(features=features, **{f"hidden[{i}]": h for i, h in enumerate(hidden)})
    widths = [features, *hidden]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers)
