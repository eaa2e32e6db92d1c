"""How much memory there is, and what to do where it is short."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import torch

__all__ = ["free_memory", "in_pieces", "is_shortage"]

Result = TypeVar("Result")


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
