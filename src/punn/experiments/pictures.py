"""Pictures as a source of the training loop: mirrored and shifted anew in every epoch, small ones first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from punn.parallel import ALONE, Team
from punn.training import Piece, Rows

__all__ = ["Pictures", "shifted"]


class Pictures:
    """A :class:`punn.training.Source` of pictures, held as bytes.

    Arguments:
        x: Bytes, shape (n, channels, side, side).
        y: Their classes.
        sides: The side that pictures are given, one for every epoch: small ones teach a network nearly as much
            at the beginning, at a fraction of the work.
        shift: How far a picture is moved at most, in pixels.
        seed: Decides which pictures are mirrored in the first epoch; in the next one it is the others, and so on.

    Attributes:
        epoch: How many passes there were; to be set where a fit goes on.
    """

    def __init__(self, x: Tensor, y: Tensor, sides: Sequence[int], shift: int = 2, seed: int = 0) -> None:
        self.x, self.y, self.sides, self.shift = x, y, sides, shift
        self.mirrored = torch.rand(len(x), generator=torch.Generator().manual_seed(seed)) < 0.5
        self.epoch = 0
        self.mean = x.double().mean((0, 2, 3), keepdim=True).float()
        self.deviation = x.double().std((0, 2, 3), keepdim=True).float()

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self.x)

    def scaled(self, x: Tensor) -> Tensor:
        """Bytes to numbers with mean 0 and deviation 1 in every channel, in the layout that convolutions like."""
        return ((x.float() - self.mean) / self.deviation).contiguous(memory_format=torch.channels_last)

    def some(self, most: int) -> Rows:
        """At most so many of them, evenly spread, as they are."""
        index = slice(None, None, self.n // most + 1)
        return Rows(self.scaled(self.x[index]), self.y[index])

    def steps(
        self, batch_size: int, generator: torch.Generator, team: Team = ALONE, accumulate: int = 1
    ) -> Iterator[list[Piece]]:
        """One pass in random order: for every step, what this process takes of the batch."""
        side, odd = self.sides[self.epoch], bool(self.epoch % 2)
        self.epoch += 1
        for batch in torch.randperm(self.n, generator=generator).split(batch_size):
            moved = torch.randint(2 * self.shift + 1, (2, len(batch)), generator=generator)
            pieces = torch.arange(len(batch)).tensor_split(team.size * accumulate)[team.rank :: team.size]
            yield [
                Piece(self._rows(batch[part], moved[:, part], side, odd), len(part) / len(batch))
                for part in pieces
                if len(part)
            ]

    def _rows(self, index: Tensor, moved: Tensor, side: int, odd: bool) -> Rows:
        x = shifted(self.scaled(self.x[index]), moved, self.shift)
        mirrored = (self.mirrored[index] ^ odd).view(-1, 1, 1, 1)
        x = torch.where(mirrored, x.flip(-1), x)
        if side != x.shape[-1]:
            x = interpolate(x, (side, side), mode="bilinear", antialias=True, align_corners=False)
        return Rows(x.contiguous(memory_format=torch.channels_last), self.y[index])


def shifted(x: Tensor, moved: Tensor, shift: int) -> Tensor:
    """Every picture moved by its own distance; what comes in at the edge mirrors what is there.

    Arguments:
        x: Shape (n, channels, side, side).
        moved: Down and to the right, shape (2, n); ``shift`` is no movement, 0 is farthest up or left.
        shift: The largest movement.

    Example:
        >>> x = torch.arange(9.0).view(1, 1, 3, 3)
        >>> shifted(x, torch.tensor([[0], [1]]), 1)[0, 0]
        tensor([[3., 4., 5.],
                [0., 1., 2.],
                [3., 4., 5.]])
    """
    if shift == 0:
        return x
    n, _, side, _ = x.shape
    windows = pad(x, [shift] * 4, mode="reflect").unfold(2, side, 1).unfold(3, side, 1)
    return windows[torch.arange(n), :, moved[0], moved[1]]
