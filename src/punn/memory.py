"""How much memory there is, what to do where it is short, and how to keep what was had."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

__all__ = ["free_memory", "in_pieces", "is_shortage", "keep_memory", "side_by_side"]

Result = TypeVar("Result")

# Numbers of glibc's options: give back to the system what is free above, ask for more at a time, and how many
# large blocks to ask for one by one. The second value is glibc's own default.
_TRIM, _PAD, _MAPPED = (-1, 128 << 10), (-2, 128 << 10), (-4, 65_536)


def in_pieces(work: Callable[[slice], Result], rows: int, size: int) -> Iterator[Result]:
    """The results of some work on rows, piece by piece; where memory is short, in smaller pieces.

    Arguments:
        work: What is done with some of the rows.
        rows: How many there are.
        size: How many are to be worked on at once.

    Example:
        >>> list(in_pieces(lambda part: range(10)[part], rows=10, size=4))
        [range(0, 4), range(4, 8), range(8, 10)]
    """
    first = 0
    while first < rows:
        try:
            result = work(slice(first, first + size))
        except (MemoryError, RuntimeError) as error:
            if not is_shortage(error):
                raise
            if size == 1:
                raise MemoryError("there is not enough memory for a single row") from error
            size = max(1, min(size, rows - first) // 2)
            continue
        yield result
        first += size


def side_by_side(work: Callable[[slice], object], rows: int, size: int, threads: int) -> None:
    """Do some work on all rows, piece by piece, each thread on its share of the pieces.

    The pieces are the same for any number of threads, so that rounding is, too. Where memory is short they are smaller.

    Arguments:
        work: What is done with some of the rows, in any order.
        rows: How many there are.
        size: How many are to be worked on at once.
        threads: How many threads take part.

    Example:
        >>> numbers = [0] * 10
        >>> side_by_side(lambda part: numbers.__setitem__(part, [part.start] * len(numbers[part])), 10, 4, threads=2)
        >>> numbers
        [0, 0, 0, 0, 4, 4, 4, 4, 8, 8]
    """
    share = math.ceil(math.ceil(rows / size) / threads) * size

    def stripe(first: int) -> None:
        count = min(share, rows - first)
        for _ in in_pieces(lambda part: work(slice(first + part.start, first + min(part.stop, count))), count, size):
            pass

    if share >= rows:
        stripe(0)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(stripe, range(0, rows, share)):
            pass


def is_shortage(error: BaseException) -> bool:
    """Whether an error says that memory is short, which torch does in words of its own."""
    words = ("can't allocate memory", "bad_alloc")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(word in str(error) for word in words)


def free_memory() -> int:
    """Bytes that can still be had: what the machine has free, or what a limit on this process leaves."""
    free = [int(line.split()[1]) * 1024 for line in _lines("/proc/meminfo") if line.startswith("MemAvailable:")]
    free = free or [4 << 30]
    free += _under_limit()
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        free += [int(line) for line in _lines(f"/sys/fs/cgroup/{name}") if line.strip().isdigit()]
    return min(free)


@contextmanager
def keep_memory() -> Iterator[None]:
    """Do not give large blocks back to the system in between, where the C library is glibc.

    A fresh block costs a fault for every page that is first written to. In a network of large layers that takes as
    long as the layers that do little with every number; convolutions gain by half.
    """
    option = getattr(ctypes.CDLL(None), "mallopt", None) if hasattr(ctypes, "RTLD_GLOBAL") else None
    if option is None:
        yield
        return
    for (name, _), value in ((_TRIM, 2**31 - 1), (_PAD, 1 << 29), (_MAPPED, 0)):
        option(name, value)
    try:
        yield
    finally:
        for name, value in (_TRIM, _PAD, _MAPPED):
            option(name, value)


def _under_limit() -> list[int]:
    """What a limit on the addresses of this process leaves, if there is one."""
    try:
        import resource
    except ImportError:  # on Windows
        return []
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    used = [int(line.split()[0]) * resource.getpagesize() for line in _lines("/proc/self/statm")]
    return [] if limit == resource.RLIM_INFINITY else [max(0, limit - sum(used))]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
