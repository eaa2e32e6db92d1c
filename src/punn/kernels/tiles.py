"""The linear maps of Winograd's convolution in C: pictures in channels-last layout to tiles of 36 points, and back.

Shapes are (n, channels, height, width) and (36, tiles, channels), both of single precision. The functions take what
:mod:`punn.experiments.winograd` has checked, and know no gradient; transposed maps are there to make one of them.
"""

from __future__ import annotations

import ctypes

from torch import Tensor

from punn.kernels import library, threads

__all__ = ["compiled", "number", "put_together", "put_together_transposed", "take_apart", "take_apart_transposed"]

_library = library("winograd", 1)


def compiled() -> bool:
    """Whether there is a library."""
    return _library is not None


def number(pictures: Tensor) -> int:
    """How many tiles a picture is cut into: 4 x 4 pixels each, and what is left."""
    height, width = pictures.shape[2:]
    return -(-height // 4) * -(-width // 4)


def take_apart(pictures: Tensor) -> Tensor:
    """What a convolution sees of pictures, tile by tile."""
    return _move("take_apart", pictures, _new_tiles(pictures))


def take_apart_transposed(of_tiles: Tensor, pictures: Tensor) -> None:
    """Write the gradient by pictures, from that by their tiles."""
    _move("take_apart_transposed", pictures, of_tiles)


def put_together(of_tiles: Tensor, pictures: Tensor) -> None:
    """Write the answer of a convolution, from its tiles."""
    _move("put_together", pictures, of_tiles)


def put_together_transposed(pictures: Tensor) -> Tensor:
    """The gradient by the tiles of an answer, from that by the answer."""
    return _move("put_together_transposed", pictures, _new_tiles(pictures))


def _new_tiles(pictures: Tensor) -> Tensor:
    return pictures.new_empty(36, len(pictures) * number(pictures), pictures.shape[1])


def _move(name: str, pictures: Tensor, of_tiles: Tensor) -> Tensor:
    n, channels, height, width = pictures.shape
    sizes = [n, height, width, channels, threads(n, of_tiles.numel() // n)]
    addresses = [ctypes.c_void_p(pictures.data_ptr()), ctypes.c_void_p(of_tiles.data_ptr())]
    assert _library is not None
    _library[f"punn_winograd_{name}"](*addresses, *map(ctypes.c_int64, sizes))
    return of_tiles
