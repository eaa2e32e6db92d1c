"""Features that are the pixels of a square picture, such as MNIST's digits."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from punn.ledger import Array

__all__ = ["Picture", "data_uri", "picture_of"]

MNIST = 28
FEWEST, LARGEST = 36, 64  # pixels of a picture, and its side
NAMED = re.compile(r"(?i)(?:pixel|px)[ _-]?(\d{1,4})(?:_(\d{1,2}))?|(\d{1,2})x(\d{1,2})")


@dataclass(frozen=True)
class Picture:
    """A square picture, row by row.

    Arguments:
        side: Its width and height in pixels.
        places: Where in it every feature stands; pixels that never vary may be no features.
        ink: The value of a pixel that is full of ink.
    """

    side: int
    places: NDArray[np.intp]
    ink: float

    def features(self, grid: Any) -> Array:
        """The features of grey levels from 0 to 1, one for every pixel; what is not that is refused."""
        size = self.side * self.side
        if not isinstance(grid, list) or len(grid) != size:
            raise ValueError(f"expected a picture of {size} pixels")
        if not all(isinstance(level, int | float) and 0 <= level <= 1 for level in grid):
            raise ValueError("expected grey levels from 0 to 1")
        return np.array(grid, dtype=np.float64)[self.places] * self.ink

    def grid(self, features: Array) -> list[float]:
        """The grey levels of a row of features."""
        grid = np.zeros(self.side * self.side)
        grid[self.places] = np.clip(features / self.ink, 0.0, 1.0)
        return [round(level, 4) for level in grid.tolist()]


def picture_of(names: Sequence[str], ranges: Array) -> Picture | None:
    """How features are the pixels of a picture, by their number or their names; None if they are not.

    Arguments:
        names: The names of the features: 784 of any name, or pixel_0_0, pixel_0_1, ... or pixel0, pixel1, ...
        ranges: Least, middle and largest value of every feature, shape (features, 3).

    Example:
        >>> names = [f"pixel_{i}_{j}" for i in range(8) for j in range(8)]
        >>> picture_of(names, np.tile([0.0, 8.0, 16.0], (64, 1))).side
        8
        >>> picture_of(["length", "width"], np.zeros((2, 3))) is None
        True
    """
    ink = float(ranges[:, 2].max())
    found = (np.arange(len(names)), MNIST) if len(names) == MNIST * MNIST else _places(names)
    if found is None or ranges[:, 0].min() < 0 or ink <= 0:
        return None
    return Picture(found[1], found[0], ink)


def _places(names: Sequence[str]) -> tuple[NDArray[np.intp], int] | None:
    """Where features of names such as pixel_3_4 stand, and the side, if there are enough and all have such names."""
    matches = [NAMED.fullmatch(name) for name in names]
    if len(names) < FEWEST or not all(matches):
        return None
    numbers = [[int(part) for part in match.groups() if part is not None] for match in matches if match]
    if any(len(number) != len(numbers[0]) for number in numbers):
        return None
    if len(numbers[0]) == 1:
        places = np.array(numbers)[:, 0]
        side = math.isqrt(int(places.max())) + 1
    else:
        grid = np.array(numbers) - (1 if names[0][0].isdigit() else 0)  # 1x1, 1x2, ... count from one
        side = int(grid.max()) + 1
        places = grid @ [side, 1]
    return (places, side) if side <= LARGEST and places.min() >= 0 else None


def data_uri(levels: Sequence[float], side: int) -> str:
    """A small picture, ink on white, as the address that an image element takes."""
    from PIL import Image

    ink = np.asarray(levels, dtype=np.float64).reshape(side, side)
    content = io.BytesIO()
    Image.fromarray((255 * (1 - ink)).round().astype(np.uint8)).save(content, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
