"""The sigmoid chain in C, for tensors on the processor; without the library everything runs on torch's operators.

``chain.c`` is compiled when the package is installed, if there is a compiler. ``PUNN_KERNELS=0`` leaves it unused.
The functions here take what :mod:`punn.partition` has checked, and know no gradient.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
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
    rows, gates = log_accept.shape
    out = log_accept.new_empty(rows, gates + 1)
    _function("partition", out)(None, log_accept.data_ptr(), log_reject.data_ptr(), rows, gates, out.data_ptr())
    return out


def chain_sigmoid_partition(theta: Tensor) -> Tensor:
    """Log of the partition functions, shape (n, gates + 1), from the arguments of sigmoid gates."""
    rows, gates = theta.shape
    out = theta.new_empty(rows, gates + 1)
    _function("partition", out)(theta.data_ptr(), None, None, rows, gates, out.data_ptr())
    return out


def chain_class_sums(log_h: Tensor, class_of: Tensor, classes: int) -> Tensor:
    """Log of the class probabilities, shape (n, classes)."""
    rows, k = log_h.shape
    out = log_h.new_empty(rows, classes)
    answer = _function("class_sums", out)(log_h.data_ptr(), rows, k, class_of.data_ptr(), classes, out.data_ptr())
    _check_memory(answer)
    return out


def _function(name: str, like: Tensor) -> Any:
    assert _functions is not None
    return _functions[f"{name} {'float' if like.dtype == torch.float32 else 'double'}"]


def _check_memory(answer: int) -> None:
    if answer < 0:
        raise MemoryError("not enough memory for the partition of one row; use fewer rows at once")
