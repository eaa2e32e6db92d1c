"""Rows that are images: found by the names of their columns, and packed as bytes."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from punn.ledger import Array

__all__ = ["Layout", "layout_of_names", "layout_of_shape", "packed"]

# pixel_3_7, pixel12, px-5 and 3x7 are pixels; x12, 12 and column 12 may be anything.
PIXEL = re.compile(r"(?:pixel|pix|px)[ _.-]?(\d+)(?:[x_ ,.-](\d+))?|(\d+)x(\d+)", re.IGNORECASE)
SMALLEST = 16  # pixels of an image


@dataclass(frozen=True)
class Layout:
    """Where every column stands in an image of `height` by `width` pixels with `channels` values, 1 or 3.

    Attributes:
        columns: Numbers of the columns that are pixels, and `places` their places in the flattened image,
            pixel by pixel with the channels last.
    """

    height: int
    width: int
    channels: int
    columns: NDArray[np.intp]
    places: NDArray[np.intp]


def layout_of_names(names: Sequence[str]) -> Layout | None:
    """The layout if nearly all columns are named as pixels, else None.

    Example:
        >>> layout = layout_of_names([f"pixel_{i}_{j}" for i in range(8) for j in range(8)])
        >>> layout.height, layout.width, layout.channels
        (8, 8, 1)
        >>> layout_of_names(["length", "width"]) is None
        True
    """
    found = [(i, match) for i, name in enumerate(names) if (match := PIXEL.fullmatch(name))]
    if len(found) < SMALLEST or len(found) < len(names) - 2:  # a label and a number of the row may stand beside
        return None
    columns = np.array([i for i, _ in found])
    numbers = [[int(number) for number in match.groups() if number is not None] for _, match in found]
    if len({len(pair) for pair in numbers}) > 1:
        return None
    places = np.array(numbers)
    if places.shape[1] == 2:
        places -= places.min(axis=0)
        height, width = (places.max(axis=0) + 1).tolist()
        return Layout(height, width, 1, columns, places[:, 0] * width + places[:, 1])
    flat = places[:, 0] - _first_number(places[:, 0])
    side = math.isqrt(len(flat) // 3)
    if 3 * side**2 == len(flat) == flat.max() + 1 and math.isqrt(len(flat)) ** 2 != len(flat):
        return Layout(side, side, 3, columns, _channels_last(flat, side * side))
    side = math.isqrt(int(flat.max())) + 1
    return Layout(side, side, 1, columns, flat)


def _first_number(numbers: NDArray[np.intp]) -> int:
    """Whether pixels count from 0 or 1. The least number cannot tell: pixels that never vary may be no columns."""
    last = int(numbers.max())
    return int(numbers.min() > 0 and (len(numbers) == last or math.isqrt(last) ** 2 == last))


def layout_of_shape(shape: Sequence[int], features: int) -> Layout:
    """The layout of rows that are flattened images of a known shape: (28, 28), (32, 32, 3) or (3, 32, 32).

    Example:
        >>> layout_of_shape((3, 32, 32), 3072).channels
        3
    """
    sizes = [int(size) for size in shape]
    if not 2 <= len(sizes) <= 3 or math.prod(sizes) != features or (len(sizes) == 3 and 3 not in (sizes[0], sizes[2])):
        raise ValueError(
            f"expected the shape of an image with {features:,} values, such as 28x28, 32x32x3 or 3x32x32, got "
            f"{'x'.join(map(str, sizes))}"
        )
    flat = np.arange(features)
    if len(sizes) == 2:
        return Layout(sizes[0], sizes[1], 1, flat, flat)
    if sizes[0] == 3:
        return Layout(sizes[1], sizes[2], 3, flat, _channels_last(flat, sizes[1] * sizes[2]))
    return Layout(sizes[0], sizes[1], 3, flat, flat)


def _channels_last(flat: NDArray[np.intp], pixels: int) -> NDArray[np.intp]:
    return flat % pixels * 3 + flat // pixels


def packed(layout: Layout, pixels: Array) -> list[str]:
    """Images as base64 texts of bytes, from black at the smallest value of all to white at the largest.

    Arguments:
        layout: Where the columns stand.
        pixels: The values of the pixel columns, shape (n, columns).
    """
    low, high = float(pixels.min()), float(pixels.max())
    canvas = np.zeros((len(pixels), layout.height * layout.width * layout.channels), dtype=np.uint8)
    canvas[:, layout.places] = np.round(255 * (pixels - low) / (high - low or 1.0)).astype(np.uint8)
    return [base64.b64encode(image.tobytes()).decode() for image in canvas]
