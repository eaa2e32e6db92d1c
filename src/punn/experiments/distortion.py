"""Distorted copies of pictures: turned, stretched, moved and bent a little, as handwriting is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["distorted"]

# Pictures that are worked on at once.
_PIECE = 5000


def distorted(
    pictures: Tensor,
    generator: torch.Generator,
    *,
    turn: float = 10.0,
    stretch: float = 0.1,
    shift: float = 1.5,
    bend: float = 1.0,
    knots: int = 5,
) -> Tensor:
    """A copy of every picture, each distorted in its own way; what comes in from outside is its darkest value.

    Arguments:
        pictures: Shape (n, side, side).
        generator: Decides how each is distorted.
        turn: The largest rotation, in degrees.
        stretch: The largest change of width and height, and the largest shear, as a share.
        shift: The largest movement along each axis, in pixels.
        bend: The deviation of the movements of single places, in pixels.
        knots: Places along each side that move by themselves; what is between them follows.

    Example:
        >>> import torch
        >>> bar = torch.zeros(1, 8, 8).index_fill(2, torch.tensor([3, 4]), 1.0)
        >>> same = distorted(bar, torch.Generator(), turn=0, stretch=0, shift=0, bend=0)
        >>> bool(torch.isclose(same, bar, atol=1e-6).all())
        True
    """
    import torch
    from torch.nn.functional import affine_grid, grid_sample, interpolate

    def uniform(n: int) -> Tensor:
        return 2 * torch.rand(n, generator=generator) - 1

    copies = []
    for piece in pictures.unsqueeze(1).split(_PIECE):
        n, side = len(piece), piece.shape[-1]
        angle, shear = math.radians(turn) * uniform(n), stretch * uniform(n)
        width, height = 1 + stretch * uniform(n), 1 + stretch * uniform(n)
        cos, sin = angle.cos(), angle.sin()
        # Where each pixel comes from, on a picture that reaches from -1 to 1.
        first = torch.stack([cos * width, shear - sin * height, 2 / side * shift * uniform(n)], -1)
        second = torch.stack([sin * width, cos * height, 2 / side * shift * uniform(n)], -1)
        places = affine_grid(torch.stack([first, second], 1), list(piece.shape), align_corners=False)
        moved = 2 / side * bend * torch.randn(n, 2, knots, knots, generator=generator)
        smooth = interpolate(moved, side, mode="bicubic", align_corners=True)
        places = places + smooth.permute(0, 2, 3, 1)
        darkest = piece.min()
        copies.append((grid_sample(piece - darkest, places, align_corners=False) + darkest).squeeze(1))
    return torch.cat(copies)
