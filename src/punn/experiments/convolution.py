"""The convolutional network of the CIFAR-100 study: a fixed whitening layer and three blocks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, gelu, max_pool2d, pad

from punn.experiments.winograd import Convolution

__all__ = ["Block", "Whitening", "body"]


class Whitening(nn.Module):
    """Fixed filters of 2 x 2 pixels, whose responses to training pictures are uncorrelated and of one size.

    Each comes with both signs, as what follows takes positive ones only.

    Arguments:
        x: Pictures to find them from, shape (n, channels, side, side).
        eps: Added to the variances, so that directions without any are not blown up.
    """

    def __init__(self, x: Tensor, eps: float = 1e-2) -> None:
        super().__init__()
        patches = x.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 4 * x.shape[1]).double()
        variances, directions = torch.linalg.eigh(patches.T @ patches / len(patches))
        filters = (directions / (variances + eps).sqrt()).T.reshape(-1, x.shape[1], 2, 2).float()
        self.register_buffer("filters", torch.cat([filters, -filters]))

    def forward(self, x: Tensor) -> Tensor:
        """Responses, shape (n, 8 * channels, side, side)."""
        return gelu(conv2d(pad(x, [0, 1, 0, 1]), self.get_buffer("filters")))


class Block(nn.Module):
    """Three convolutions, the first halves the side, the other two add to what it gives.

    As they start, they hand every channel on as it is; what channels they have beyond that are random mixtures.
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        widths = [channels, width, width, width]
        self.convolutions = nn.ModuleList(_convolution(*pair) for pair in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """Half as high and wide, rounded down."""
        first, second, third = self.convolutions
        x = gelu(self.norms[0](max_pool2d(first(x), 2)))
        more: Tensor = self.norms[2](third(gelu(self.norms[1](second(x)))))
        return gelu(more + x)


def _convolution(channels: int, width: int) -> Convolution:
    convolution = Convolution(channels, width)
    nn.init.dirac_(convolution.weight.data[:channels])
    return convolution


def body(x: Tensor, widths: Sequence[int], features: int) -> nn.Sequential:
    """Pictures to features: any side will do, for the last block's largest responses are taken.

    Arguments:
        x: Some training pictures, for the whitening.
        widths: Channels of every block.
        features: How many there are at the end.
    """
    whitening = Whitening(x)
    channels = [8 * x.shape[1], *widths]
    blocks = [Block(before, after) for before, after in pairwise(channels)]
    return nn.Sequential(whitening, *blocks, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(widths[-1], features))
