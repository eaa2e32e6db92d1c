"""The sigmoid chain in C, for tensors on the processor; without the library everything runs on torch's operators.

``chain.c`` is compiled when the package is installed, if there is a compiler. ``PUNN_KERNELS=0`` leaves it unused.
The functions here take what :mod:`punn.partition` has checked, and know no gradient.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import torch
from torch import Tensor

__all__ = ["chain_class_sums", "chain_loss", "chain_partition", "chain_sigmoid_partition", "usable"]

#: As in chain.c: a library left over from another version is not used.
_VERSION = 2
_POINTER, _COUNT = ctypes.c_void_p, ctypes.c_int64
_LOSS = [_POINTER, _COUNT, _COUNT, _POINTER, _COUNT, *[_POINTER] * 3, ctypes.c_double, _POINTER, _POINTER, ctypes.c_int]
_PARTITION = [*[_POINTER] * 3, _COUNT, _COUNT, _POINTER]
_CLASS_SUMS = [_POINTER, _COUNT, _COUNT, _POINTER, _COUNT, _POINTER]

# Numbers that keep a thread busy for longer than it takes to start it.
_WORTH_A_THREAD = 500_000


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
    rows, gates = target.numel(), theta.shape[-1]
    theta, target = theta.contiguous(), target.contiguous()
    gradient, loss = torch.empty_like(theta), theta.new_empty(() if added else target.shape)
    scales = scale.contiguous() if isinstance(scale, Tensor) else None
    bad = _function("loss", theta)(
        theta.data_ptr(),
        rows,
        gates,
        target.data_ptr(),
        len(offsets) - 1,
        offsets.data_ptr(),
        positions.data_ptr(),
        None if scales is None else scales.data_ptr(),
        scale if scales is None else 1.0,
        gradient.data_ptr(),
        loss.data_ptr(),
        added,
    )
    _check_memory(bad)
    if bad < rows:
        found = f"{int(target.min())} to {int(target.max())}"
        raise ValueError(f"target must hold classes from 0 to {len(offsets) - 2}, got {found}")
    return loss, gradient


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
    """Log of the class probabilities, shape (n, classes)."""
    out = log_h.new_empty(len(log_h), classes)
    function, of_class = _function("class_sums", out), class_of.data_ptr()

    def work(first: int, count: int) -> int:
        answer: int = function(_address(log_h, first), count, log_h.shape[1], of_class, classes, _address(out, first))
        return answer

    _check_memory(_in_stripes(work, *log_h.shape))
    return out


def _in_stripes(work: Callable[[int, int], int], rows: int, width: int) -> int:
    """Work on all rows, in as many threads as pay, for C does not hold Python's lock; the least answer."""
    count = max(1, min(torch.get_num_threads(), rows, rows * width // _WORTH_A_THREAD))
    bounds = [rows * i // count for i in range(count + 1)]
    answers = [0] * count

    def stripe(i: int) -> None:
        answers[i] = work(bounds[i], bounds[i + 1] - bounds[i])

    # Threads of this call alone: a pool that stays would be dead in a forked process.
    others = [Thread(target=stripe, args=(i,)) for i in range(1, count)]
    for other in others:
        other.start()
    stripe(0)
    for other in others:
        other.join()
    return min(answers)


def _address(x: Tensor, row: int) -> int:
    return x.data_ptr() + row * x.stride(0) * x.element_size()


def _function(name: str, like: Tensor) -> Any:
    assert _functions is not None
    return _functions[f"{name} {'float' if like.dtype == torch.float32 else 'double'}"]


def _check_memory(answer: int) -> None:
    if answer < 0:
        raise MemoryError("not enough memory for the partition of one row; use fewer rows at once")
