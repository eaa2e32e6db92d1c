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

__all__ = [
    "chain_class_sums",
    "chain_loss",
    "chain_partition",
    "chain_probabilities",
    "chain_sigmoid_partition",
    "chain_sigmoid_probabilities",
    "library",
    "threads",
    "usable",
]

#: As in chain.c: a library left over from another version is not used.
_VERSION = 4
_POINTER, _COUNT = ctypes.c_void_p, ctypes.c_int64
_LOSS = [_POINTER, _COUNT, _COUNT, _POINTER, _COUNT, *[_POINTER] * 3, ctypes.c_double, *[_POINTER] * 2, _COUNT, _COUNT]
_PARTITION = [*[_POINTER] * 3, _COUNT, _COUNT, _POINTER, _COUNT]
_CLASS_SUMS = [*[_POINTER] * 4, _COUNT, _COUNT, _POINTER, _COUNT, _POINTER, _COUNT]

_TYPES = {"float": torch.float32, "double": torch.float64}
_CLASSES = (Tensor, torch.nn.Parameter)

# Numbers that keep a thread busy for longer than it takes to call it, or to wake it if it sleeps when it waits.
_WORTH_A_THREAD = 100_000 if os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive" else 25_000


def library(name: str, version: int) -> ctypes.CDLL | None:
    """A compiled library of this folder, if it is there and its functions are those that are expected."""
    path = Path(__file__).with_name(f"{name}.so")
    if os.environ.get("PUNN_KERNELS") == "0" or not path.exists():
        return None
    try:
        found = ctypes.CDLL(str(path))
        return found if found[f"punn_{name}_version"]() == version else None
    except (OSError, AttributeError):  # compiled for another machine, or not ours
        return None


def _load() -> dict[tuple[str, torch.dtype], Any] | None:
    """The functions of the chain, by what they do and the type they are for."""
    chain = library("chain", _VERSION)
    if chain is None:
        return None
    functions: dict[tuple[str, torch.dtype], Any] = {}
    for name, arguments in (("loss", _LOSS), ("partition", _PARTITION), ("class_sums", _CLASS_SUMS)):
        for kind, dtype in _TYPES.items():
            function: Any = chain[f"punn_chain_{name}_{kind}"]
            function.argtypes, function.restype = arguments, _COUNT
            functions[name, dtype] = function
    return functions


_functions = _load()


def usable(*tensors: Tensor) -> bool:
    """Whether there is a library, and these are plain tensors on the processor of a type that it knows."""
    return (
        _functions is not None
        and not torch.compiler.is_compiling()
        # torch.jit.trace, and the older export to ONNX, would keep the memory instead of what was written into it.
        and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        and all(map(_plain, tensors))
    )


def _plain(x: Tensor) -> bool:
    return (
        x.is_cpu
        and x.dtype in _TYPES.values()
        and type(x) in _CLASSES
        # Inside vmap and its like a tensor stands for many, and has no memory of its own.
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
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
    rows, gates, classes = target.numel(), theta.shape[-1], offsets.shape[0] - 1
    theta, target = theta.contiguous(), target.contiguous()
    gradient = torch.empty_like(theta)
    losses = theta.new_empty(() if added else target.shape)
    scales = scale.contiguous() if isinstance(scale, Tensor) else None
    answer = _function("loss", theta)(
        theta.data_ptr(),
        rows,
        gates,
        target.data_ptr(),
        classes,
        offsets.data_ptr(),
        positions.data_ptr(),
        _address(scales),
        1.0 if isinstance(scale, Tensor) else scale,
        gradient.data_ptr(),
        losses.data_ptr(),
        added,
        # Several parts need logarithms for each, and every gate that comes before the last of them.
        threads(rows, gates if classes > gates else 4 * gates),
    )
    _check_memory(answer)
    if answer < rows:
        found = f"{int(target.min())} to {int(target.max())}"
        raise ValueError(f"target must hold classes from 0 to {classes - 1}, got {found}")
    return losses, gradient


def chain_partition(log_accept: Tensor, log_reject: Tensor) -> Tensor:
    """Log of the partition functions, shape (n, gates + 1), from the logs of any gates."""
    return _partition(None, log_accept, log_reject)


def chain_sigmoid_partition(theta: Tensor) -> Tensor:
    """Log of the partition functions, shape (n, gates + 1), from the arguments of sigmoid gates."""
    return _partition(theta, None, None)


def chain_class_sums(log_h: Tensor, class_of: Tensor, classes: int) -> Tensor:
    """Log of the class probabilities, shape (n, classes), from the logs of the partition functions."""
    return _class_sums([None, None, None, log_h], log_h.shape[1], class_of, classes)


def chain_probabilities(log_accept: Tensor, log_reject: Tensor, class_of: Tensor, classes: int) -> Tensor:
    """Log of the class probabilities, shape (n, classes), from the logs of any gates."""
    return _class_sums([None, log_accept, log_reject, None], log_accept.shape[1] + 1, class_of, classes)


def chain_sigmoid_probabilities(theta: Tensor, class_of: Tensor, classes: int) -> Tensor:
    """Log of the class probabilities, shape (n, classes), from the arguments of sigmoid gates."""
    return _class_sums([theta, None, None, None], theta.shape[1] + 1, class_of, classes)


def _partition(*given: Tensor | None) -> Tensor:
    like = next(x for x in given if x is not None)
    rows, gates = like.shape
    out = like.new_empty(rows, gates + 1)
    _function("partition", out)(*map(_address, given), rows, gates + 1, out.data_ptr(), threads(rows, gates))
    return out


def _class_sums(given: list[Tensor | None], k: int, class_of: Tensor, classes: int) -> Tensor:
    like = next(x for x in given if x is not None)
    rows = like.shape[0]
    out = like.new_empty(rows, classes)
    answer = _function("class_sums", out)(
        *map(_address, given), rows, k, class_of.data_ptr(), classes, out.data_ptr(), threads(rows, k)
    )
    _check_memory(answer)
    return out


def threads(rows: int, width: int) -> int:
    """In how many threads it pays to work; one in a forked process, which has none of torch's others."""
    return max(1, min(torch.get_num_threads(), rows, rows * width // _WORTH_A_THREAD)) if not _forked else 1


def _note_fork() -> None:
    global _forked
    _forked = True


_forked = False
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def _address(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


def _function(name: str, like: Tensor) -> Any:
    assert _functions is not None
    return _functions[name, like.dtype]


def _check_memory(answer: int) -> None:
    if answer < 0:
        raise MemoryError("not enough memory for the partition of one row; use fewer rows at once")
