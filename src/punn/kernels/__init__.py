"""The sigmoid chain in C, for tensors on the processor; without the library everything runs on torch's operators.

``chain.c`` is compiled when the package is installed, if there is a compiler. ``PUNN_KERNELS=0`` leaves it unused.
The functions here take what :mod:`punn.partition` has checked, and know no gradient.
"""

from __future__ import annotations

import ctypes
import os
from _thread import start_new_thread
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "chain_class_sums",
    "chain_loss",
    "chain_partition",
    "chain_probabilities",
    "chain_sigmoid_partition",
    "chain_sigmoid_probabilities",
    "usable",
]

#: As in chain.c: a library left over from another version is not used.
_VERSION = 3
_POINTER, _COUNT = ctypes.c_void_p, ctypes.c_int64
_LOSS = [_POINTER, _COUNT, _COUNT, _POINTER, _COUNT, *[_POINTER] * 3, ctypes.c_double, *[_POINTER] * 3]
_PARTITION = [*[_POINTER] * 3, _COUNT, _COUNT, _POINTER]
_CLASS_SUMS = [*[_POINTER] * 4, _COUNT, _COUNT, _POINTER, _COUNT, _POINTER]

# Numbers that keep a thread busy for longer than it takes to wake it.
_WORTH_A_THREAD = 250_000


def _load() -> dict[str, Any] | None:
    """The functions of the library, by what they do and the type they are for."""
    path = Path(__file__).with_name("chain.so")
    if os.environ.get("PUNN_KERNELS") == "0" or not path.exists():
        return None
    try:
        library = ctypes.CDLL(str(path))
        if library.punn_chain_version() != _VERSION:
            return None
    except (OSError, AttributeError):  # compiled for another machine, or not ours
        return None
    functions: dict[str, Any] = {}
    for name, arguments in (("loss", _LOSS), ("partition", _PARTITION), ("class_sums", _CLASS_SUMS)):
        for kind in ("float", "double"):
            function: Any = library[f"punn_chain_{name}_{kind}"]
            function.argtypes, function.restype = arguments, _COUNT
            functions[f"{name} {kind}"] = function
    return functions


_functions = _load()


def usable(*tensors: Tensor) -> bool:
    """Whether there is a library, and these are plain tensors on the processor of a type that it knows."""
    return (
        _functions is not None
        and not torch.compiler.is_compiling()
        # torch.jit.trace, and the older export to ONNX, would keep the memory instead of what was written into it.
        and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        and all(
            x.device.type == "cpu"
            and x.dtype in (torch.float32, torch.float64)
            and type(x) in (Tensor, torch.nn.Parameter)
            # Inside vmap and its like a tensor stands for many, and has no memory of its own.
            and not torch._C._functorch.is_functorch_wrapped_tensor(x)
            for x in tensors
        )
    )


def chain_loss(
    theta: Tensor, target: Tensor, offsets: Tensor, positions: Tensor, scale: Tensor | float, added: bool
) -> tuple[Tensor, Tensor]:
    """Loss of every row, or added up, and its gradient; both times a scale.

    Arguments:
        theta: Gate arguments, shape (*, gates).
        target: Classes, shape (*).
        offsets: Where the functions of every class begin among the positions, shape (C + 1,).
        positions: The functions, class by class, shape (k,).
        scale: One for every row, shape (*), or one for all.
        added: Whether the losses are added up.
    """
    rows, gates, classes = target.numel(), theta.shape[-1], len(offsets) - 1
    theta, target = theta.contiguous(), target.contiguous()
    gradient = torch.empty_like(theta)
    losses = None if added else torch.empty_like(target, dtype=theta.dtype)
    scales = scale.contiguous() if isinstance(scale, Tensor) else None
    function, size, totals = _function("loss", theta), theta.element_size(), {}

    def work(first: int, count: int) -> int:
        total = ctypes.c_double()
        done = function(
            theta.data_ptr() + first * gates * size,
            count,
            gates,
            target.data_ptr() + first * 8,
            classes,
            offsets.data_ptr(),
            positions.data_ptr(),
            None if scales is None else scales.data_ptr() + first * size,
            1.0 if isinstance(scale, Tensor) else scale,
            gradient.data_ptr() + first * gates * size,
            None if losses is None else losses.data_ptr() + first * size,
            ctypes.addressof(total),
        )
        totals[first] = total.value
        return -1 if done < 0 else int(done == count)

    # Several parts need logarithms for each, and every gate that comes before the last of them.
    answer = _in_stripes(work, rows, gates if classes > gates else 4 * gates)
    _check_memory(answer)
    if answer == 0 < rows:
        found = f"{int(target.min())} to {int(target.max())}"
        raise ValueError(f"target must hold classes from 0 to {classes - 1}, got {found}")
    if losses is None:
        losses = torch.tensor(sum(totals[first] for first in sorted(totals)), dtype=theta.dtype)
    return losses, gradient


def chain_partition(log_accept: Tensor, log_reject: Tensor) -> Tensor:
    """Log of the partition functions, shape (n, gates + 1), from the logs of any gates."""
    out = log_accept.new_empty(len(log_accept), log_accept.shape[1] + 1)
    function = _function("partition", out)

    def work(first: int, count: int) -> int:
        accept, reject = (_address(logs, first) for logs in (log_accept, log_reject))
        answer: int = function(None, accept, reject, count, log_accept.shape[1], _address(out, first))
        return answer

    _in_stripes(work, *out.shape)
    return out


def chain_sigmoid_partition(theta: Tensor) -> Tensor:
    """Log of the partition functions, shape (n, gates + 1), from the arguments of sigmoid gates."""
    out = theta.new_empty(len(theta), theta.shape[1] + 1)
    function = _function("partition", out)

    def work(first: int, count: int) -> int:
        answer: int = function(_address(theta, first), None, None, count, theta.shape[1], _address(out, first))
        return answer

    _in_stripes(work, *out.shape)
    return out


def chain_class_sums(log_h: Tensor, class_of: Tensor, classes: int) -> Tensor:
    """Log of the class probabilities, shape (n, classes), from the logs of the partition functions."""
    return _class_sums([None, None, None, log_h], log_h.shape[1], class_of, classes)


def chain_probabilities(log_accept: Tensor, log_reject: Tensor, class_of: Tensor, classes: int) -> Tensor:
    """Log of the class probabilities, shape (n, classes), from the logs of any gates."""
    return _class_sums([None, log_accept, log_reject, None], log_accept.shape[1] + 1, class_of, classes)


def chain_sigmoid_probabilities(theta: Tensor, class_of: Tensor, classes: int) -> Tensor:
    """Log of the class probabilities, shape (n, classes), from the arguments of sigmoid gates."""
    return _class_sums([theta, None, None, None], theta.shape[1] + 1, class_of, classes)


def _class_sums(given: list[Tensor | None], k: int, class_of: Tensor, classes: int) -> Tensor:
    like = next(x for x in given if x is not None)
    out = like.new_empty(len(like), classes)
    function, of_class = _function("class_sums", out), class_of.data_ptr()

    def work(first: int, count: int) -> int:
        addresses = [None if x is None else _address(x, first) for x in given]
        answer: int = function(*addresses, count, k, of_class, classes, _address(out, first))
        return answer

    _check_memory(_in_stripes(work, len(like), k))
    return out


def _in_stripes(work: Callable[[int, int], int], rows: int, width: int) -> int:
    """Work on all rows, in as many threads as pay, for C does not hold Python's lock; the least answer."""
    count = max(1, min(torch.get_num_threads(), rows, rows * width // _WORTH_A_THREAD))
    if count == 1:
        return work(0, rows)
    bounds = [rows * i // count for i in range(count + 1)]
    answers: SimpleQueue[int] = SimpleQueue()

    def stripe(i: int) -> None:
        answers.put(work(bounds[i], bounds[i + 1] - bounds[i]))

    _helpers.call([partial(stripe, i) for i in range(1, count)])
    stripe(0)
    return min(answers.get() for _ in range(count))


class _Helpers:
    """Threads that wait for work: to wake one takes a quarter of the time that it takes to start one."""

    def __init__(self) -> None:
        self.forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """A forked process has none of the threads."""
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.count = 0

    def call(self, jobs: list[Callable[[], None]]) -> None:
        """Have every job done by some thread, some time; a job must not fail."""
        for job in jobs:
            self.jobs.put(job)
        while self.count < len(jobs):
            self.count += 1
            start_new_thread(_help, (self.jobs,))


def _help(jobs: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        jobs.get()()


_helpers = _Helpers()


def _address(x: Tensor, row: int) -> int:
    return x.data_ptr() + row * x.stride(0) * x.element_size()


def _function(name: str, like: Tensor) -> Any:
    assert _functions is not None
    return _functions[f"{name} {'float' if like.dtype == torch.float32 else 'double'}"]


def _check_memory(answer: int) -> None:
    if answer < 0:
        raise MemoryError("not enough memory for the partition of one row; use fewer rows at once")
