"""Adam with decoupled weight decay, on one flat vector.

torch's own optimizers load its compiler when the first one is made, which takes longer than most fits of
a table. Parameters and gradients are views of two vectors here, so that a step is a handful of operators
whatever the number of tensors, and all weights can be kept and put back at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

__all__ = ["Adam"]


class Adam:
    """Adam for several networks of one kind, side by side.

    Arguments:
        networks: The first one is trained in place; further ones only say where their copies start.
        weight_decay: How fast weights (parameters with "weight" in their name) shrink, per unit of step size.
        betas: Memory of the gradient's mean and of its square.
        eps: Keeps the step finite where there is no gradient.

    Attributes:
        weights: All numbers, one parameter after the other, each with its copies.
        copy_of: The copy that every number belongs to.
        parameters: Views of the weights by name; with a leading dimension of copies, if there are several.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.betas, self.eps = betas, eps
        self.network = networks[0]
        self.copies = len(networks)
        each = [dict(network.named_parameters()) for network in networks]
        blocks = {name: torch.stack([named[name].detach() for named in each]) for name in each[0]}
        self.weights = torch.cat([block.flatten() for block in blocks.values()])
        self.gradient, self.mean, self.square = (torch.zeros_like(self.weights) for _ in range(3))
        self.copy_of = torch.cat([_number_copies(block) for block in blocks.values()])
        self.steps = 0
        self.decay: Tensor | None = None
        if weight_decay:
            marks = [torch.full_like(block, weight_decay * ("weight" in name)) for name, block in blocks.items()]
            self.decay = torch.cat([mark.flatten() for mark in marks])
        self.parameters: dict[str, Tensor] = {}
        self._bind()

    @torch.no_grad()
    def step(self, learning_rate: float, forget: bool = True) -> None:
        """Move along the gradient that backward has left, and forget it, unless the next one is written over it."""
        self.steps += 1
        if self.decay is not None:
            self.weights.addcmul_(self.weights, self.decay, value=-learning_rate)
        # The operator behind torch's own Adam: one pass over all numbers, a third of the time of single operators.
        torch._fused_adam_(
            [self.weights],
            [self.gradient],
            [self.mean],
            [self.square],
            [],
            [torch.tensor(float(self.steps), device=self.weights.device)],
            lr=learning_rate,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=0.0,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
        )
        if forget:
            self.gradient.zero_()

    def copy(self, number: int) -> dict[str, Tensor]:
        """The parameters of one copy, by name."""
        if self.copies == 1:
            return self.parameters
        return {name: p[number].detach() for name, p in self.parameters.items()}

    @torch.no_grad()
    def release(self, weights: Tensor, number: int) -> None:
        """Give the network one copy of these weights, in memory of their own."""
        for parameter, block in self._blocks(weights):
            parameter.data = block[number].clone()
            parameter.grad = None

    def _bind(self) -> None:
        """Make parameters and gradients views of the vectors."""
        names = [name for name, _ in self.network.named_parameters()]
        pairs = zip(self._blocks(self.weights), self._blocks(self.gradient), strict=True)
        for name, ((parameter, weights), (_, gradient)) in zip(names, pairs, strict=True):
            if self.copies == 1:
                parameter.data, parameter.grad = weights[0], gradient[0]
                self.parameters[name] = parameter
            else:
                self.parameters[name] = weights.requires_grad_()
                weights.grad = gradient

    def _blocks(self, vector: Tensor) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """The part of a vector that belongs to every parameter, shape (copies, ...)."""
        first = 0
        for parameter in self.network.parameters():
            size = self.copies * parameter.numel()
            yield parameter, vector[first : first + size].view(self.copies, *parameter.shape)
            first += size


def _number_copies(block: Tensor) -> Tensor:
    index = torch.arange(len(block), device=block.device)
    return index.view(-1, *[1] * (block.ndim - 1)).expand_as(block).flatten()
