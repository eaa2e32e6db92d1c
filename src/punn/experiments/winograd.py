"""A convolution of 3 x 3 pixels in fewer products, after Winograd: what the CIFAR-100 study spends its time on.

On a processor without instructions for half precision this is one and a half to three times as fast as the direct
form, to six digits: ``python -m benchmarks.speed convolution``. ``winograd.c`` is compiled when the package is
installed; without it, and elsewhere, torch convolves.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from punn.kernels import tiles, usable

__all__ = ["Convolution"]

# From a line of three pixels of a filter to six points: with those of a picture, see winograd.c, they are multiplied.
_POINTS = torch.tensor(
    [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]],
    dtype=torch.float64,
)
# Both sides of a filter at once, shape (36, 9).
_FILTER = torch.kron(_POINTS / 24, _POINTS / 24).float()

# Tiles that are worked on together: few enough for the cache of a processor, enough for a product of matrices.
_TILES = 800


class Convolution(nn.Conv2d):
    """``nn.Conv2d`` with 3 x 3 pixels, padding 1 and no bias, and the same parameters."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__(channels, width, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Pictures of the same side, shape (n, width, side, side)."""
        if not (tiles.compiled() and usable(x, self.weight) and self._fits(x)):
            return super().forward(x)
        result: Tensor = _Winograd.apply(x, self.weight)  # type: ignore[no-untyped-call]
        return result

    def _fits(self, x: Tensor) -> bool:
        """Whether tiles are worth it: of fewer than three pixels most of one would be empty."""
        single = x.dtype == self.weight.dtype == torch.float32
        return single and x.ndim == 4 and x.shape[1] == self.in_channels and len(x) > 0 and min(x.shape[2:]) > 2


class _Winograd(torch.autograd.Function):
    """Pictures and filters to tiles of 36 points, a product of matrices for every point, and back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        width, channels = weight.shape[:2]
        x = x.contiguous(memory_format=torch.channels_last)
        filters = (_FILTER @ weight.permute(2, 3, 1, 0).reshape(9, -1)).view(36, channels, width)
        y = torch.empty((len(x), width, *x.shape[2:]), memory_format=torch.channels_last)
        ctx.save_for_backward(x, filters)
        for x_part, y_part in zip(_parts(x), _parts(y), strict=True):
            tiles.put_together(torch.bmm(tiles.take_apart(x_part), filters), y_part)
        return y

    @staticmethod
    def backward(ctx: Any, y_grad: Tensor) -> tuple[Tensor, Tensor]:
        x, filters = ctx.saved_tensors
        y_grad = y_grad.contiguous(memory_format=torch.channels_last)
        x_grad, filters_grad = torch.empty_like(x), torch.zeros_like(filters)
        for x_part, x_grad_part, y_grad_part in zip(_parts(x), _parts(x_grad), _parts(y_grad), strict=True):
            products_grad = tiles.put_together_transposed(y_grad_part)
            filters_grad.baddbmm_(tiles.take_apart(x_part).transpose(1, 2), products_grad)
            tiles.take_apart_transposed(torch.bmm(products_grad, filters.transpose(1, 2)), x_grad_part)
        weight_grad = (_FILTER.T @ filters_grad.view(36, -1)).view(3, 3, *filters.shape[1:]).permute(3, 2, 0, 1)
        return x_grad, weight_grad.contiguous()


def _parts(x: Tensor) -> tuple[Tensor, ...]:
    """Pictures, as many at once as have the tiles that are worked on together."""
    parts: tuple[Tensor, ...] = x.split(max(1, _TILES // tiles.number(x)))
    return parts
