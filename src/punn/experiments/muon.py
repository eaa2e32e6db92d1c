"""Muon: steps for the kernels of a convolutional network that move every direction of them equally far."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from punn.adam import Adam

__all__ = ["Muon", "orthogonal"]


class Muon(Adam):
    """Adam, but for kernels: their step is the orthogonal matrix nearest to their momentum, and they keep their size.

    A kernel followed by batch normalisation has no size that matters, so that a step size is an angle: the share of
    the kernel that is new after a step.

    Arguments:
        networks: As for :class:`~punn.adam.Adam`, one of them.
        weight_decay: Of all other weights.
        kernel_rate: How much larger the step size of kernels is.
    """

    def __init__(self, networks: Sequence[nn.Module], weight_decay: float = 0.0, kernel_rate: float = 20.0) -> None:
        super().__init__(networks, weight_decay)
        self.kernel_rate = kernel_rate
        self._keep_size()

    @torch.no_grad()
    def step(self, learning_rate: float, forget: bool = True) -> None:
        """Move along the gradient that backward has left, and forget it, unless the next one is written over it."""
        before = self.weights.clone()
        super().step(learning_rate, forget=False)
        vectors = (self.weights, before, self.gradient, self.mean)
        for blocks in zip(*map(self._blocks, vectors), strict=True):
            if blocks[0][0].ndim == 4:
                kernel, old, new, mean = (block[0].flatten(1) for _, block in blocks)
                ahead = new.lerp(mean, self.betas[0])  # Nesterov's momentum
                kernel.copy_(old).add_(orthogonal(ahead), alpha=-learning_rate * self.kernel_rate)
        if forget:
            self.gradient.zero_()
        self._keep_size()

    @torch.no_grad()
    def _keep_size(self) -> None:
        for parameter in self.network.parameters():
            if parameter.ndim == 4:
                parameter.mul_(len(parameter) ** 0.5 / parameter.norm())


def orthogonal(matrix: Tensor, rounds: int = 3) -> Tensor:
    """A matrix with the same singular vectors and singular values near 1, by Newton's iteration.

    Example:
        >>> step = orthogonal(torch.tensor([[3.0, 0.0], [0.0, -0.5]]), rounds=5)
        >>> bool((step.diag().abs() - 1 < 0.35).all())
        True
    """
    # The coefficients lift small singular values fastest; the values end between 0.7 and 1.2, which is near enough.
    a, b, c = 3.4445, -4.7750, 2.0315
    if len(matrix) > matrix.shape[1]:
        return orthogonal(matrix.T, rounds).T
    x: Tensor = matrix / (matrix.norm() + 1e-7)
    # A round is x <- (a + b g + c g²) x with g = x xᵀ. All factors are polynomials of the first g, so they can be
    # multiplied with each other, which are small, and only once with x, which is long.
    gram, product = x @ x.T, torch.eye(len(x)).to(x)
    for _ in range(rounds):
        factor = b * gram + c * gram @ gram
        factor.diagonal().add_(a)
        gram, product = factor @ gram @ factor, factor @ product
    return product @ x
