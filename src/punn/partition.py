r"""The recursion that turns gates into a partition of unity, its inverse, and the loss.

Pure functions of tensors with any leading batch shape. A chain of :math:`k - 1` gates
makes :math:`k` partition functions:

.. math::
    h_1 = q_1, \qquad h_i = q_i \prod_{j<i} (1 - q_j), \qquad h_k = \prod_{j<k} (1 - q_j)

Everything is computed from :math:`\log q` and :math:`\log(1 - q)`, never from products:
with a thousand functions, nearly all products underflow in single precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from punn.kernels import (
    chain_class_sums,
    chain_loss,
    chain_partition,
    chain_probabilities,
    chain_sigmoid_partition,
    chain_sigmoid_probabilities,
    usable,
)

__all__ = [
    "check_class_of",
    "couple",
    "gates_from_probabilities",
    "log_class_probabilities",
    "log_class_sums",
    "log_partition",
    "log_remaining",
    "log_sigmoid_class_probabilities",
    "log_sigmoid_partition",
    "loss_and_gradient",
    "nll_loss",
]


def log_remaining(log_reject: Tensor) -> Tensor:
    r"""Log of the mass that reaches every partition function.

    All of the mass reaches the first gate; what a gate rejects goes on to the next,
    and the rest reaches the last function, which has no gate.

    .. math:: \log \prod_{j<i} (1 - q_j), \qquad i = 1, \dots, k

    Arguments:
        log_reject: :math:`\log(1 - q_i)`, shape :math:`(*, k - 1)`.

    Returns:
        A tensor of shape :math:`(*, k)`; the first entry is zero.

    Example:
        >>> log_remaining(torch.tensor([0.5, 0.5]).log()).exp()
        tensor([1.0000, 0.5000, 0.2500])
    """
    return F.pad(_cumsum(_at_least_single(log_reject)), (1, 0))


def log_partition(log_accept: Tensor, log_reject: Tensor) -> Tensor:
    r"""Log of the partition functions; their exponentials sum to one.

    Arguments:
        log_accept: :math:`\log q_i`, shape :math:`(*, k - 1)`.
        log_reject: :math:`\log(1 - q_i)`, same shape.

    Returns:
        :math:`\log h_i`, shape :math:`(*, k)`, in single precision or better.

    Example:
        >>> q = torch.tensor([0.2, 0.5])
        >>> log_partition(q.log(), (1 - q).log()).exp()
        tensor([0.2000, 0.4000, 0.4000])
    """
    if log_accept.shape != log_reject.shape:
        raise ValueError(
            "log_accept and log_reject must have one shape, "
            f"got {tuple(log_accept.shape)} and {tuple(log_reject.shape)}"
        )
    if log_accept.ndim == 0 or log_accept.shape[-1] == 0:
        raise ValueError(
            "a partition needs at least one gate in the last dimension (k >= 2 functions), "
            f"got shape {tuple(log_accept.shape)}"
        )
    log_accept, log_reject = _at_least_single(log_accept), _at_least_single(log_reject)
    if _without_gradient(log_accept, log_reject) and log_accept.dtype == log_reject.dtype:
        return _in_batches(chain_partition(_rows(log_accept), _rows(log_reject)), log_accept)
    return log_remaining(log_reject) + F.pad(log_accept, (0, 1))


def log_sigmoid_partition(theta: Tensor) -> Tensor:
    r"""Log of the partition functions of sigmoid gates, from their arguments.

    The same as ``log_partition`` of the gates' logs, in one pass where nobody asks for a gradient.

    Arguments:
        theta: Gate arguments, shape :math:`(*, k - 1)`.

    Example:
        >>> log_sigmoid_partition(torch.zeros(2)).exp()
        tensor([0.5000, 0.2500, 0.2500])
    """
    theta = _at_least_single(theta)
    if theta.shape[-1] and _without_gradient(theta):
        return _in_batches(chain_sigmoid_partition(_rows(theta)), theta)
    return log_partition(*log_sigmoid_gates(theta))


def log_class_probabilities(
    log_accept: Tensor, log_reject: Tensor, class_of: Tensor, classes: int | None = None
) -> Tensor:
    r"""Log of the class probabilities, from the logs of the gates.

    The same as ``log_class_sums`` of ``log_partition``, row by row where nobody asks for a gradient, so that the
    functions of one row are all that is held at once.

    Arguments:
        log_accept: :math:`\log q_i`, shape :math:`(*, k - 1)`.
        log_reject: :math:`\log(1 - q_i)`, same shape.
        class_of: The class of every function, shape :math:`(k,)`.
        classes: The number of classes, if it is known.

    Example:
        >>> q = torch.tensor([0.1, 0.5, 0.2])
        >>> log_class_probabilities(q.log(), (1 - q).log(), torch.tensor([0, 1, 0, 1])).exp()
        tensor([0.1900, 0.8100])
    """
    classes = int(class_of.max()) + 1 if classes is None else classes
    same = log_accept.shape == log_reject.shape and log_accept.dtype == log_reject.dtype
    if same and _in_one_pass(log_accept, class_of, classes) and _without_gradient(log_reject):
        rows = (_rows(log_accept), _rows(log_reject))
        return _in_batches(chain_probabilities(*rows, *_checked_map(class_of, log_accept, 1)), log_accept)
    return log_class_sums(log_partition(log_accept, log_reject), class_of, classes)


def log_sigmoid_class_probabilities(theta: Tensor, class_of: Tensor, classes: int | None = None) -> Tensor:
    r"""Log of the class probabilities of sigmoid gates, from their arguments.

    Arguments:
        theta: Gate arguments, shape :math:`(*, k - 1)`.
        class_of: The class of every function, shape :math:`(k,)`.
        classes: The number of classes, if it is known.

    Example:
        >>> log_sigmoid_class_probabilities(torch.zeros(3), torch.tensor([0, 1, 0, 1])).exp()
        tensor([0.6250, 0.3750])
    """
    classes = int(class_of.max()) + 1 if classes is None else classes
    if _in_one_pass(theta, class_of, classes):
        return _in_batches(chain_sigmoid_probabilities(_rows(theta), *_checked_map(class_of, theta, 1)), theta)
    return log_class_sums(log_sigmoid_partition(theta), class_of, classes)


def log_class_sums(log_h: Tensor, class_of: Tensor, classes: int | None = None) -> Tensor:
    r"""Log of the class probabilities: the sum of the functions that belong to a class.

    .. math:: \log p_c = \log \sum_{i:\, \pi(i) = c} h_i

    A class all of whose functions are exactly zero gets :math:`-\infty`, and passes back a
    gradient of zero instead of NaN.

    Arguments:
        log_h: :math:`\log h_i`, shape :math:`(*, k)`.
        class_of: :math:`\pi`, the class of every function, shape :math:`(k,)`; any map that
            leaves no class out.
        classes: The number of classes, if it is known: then no value of class_of is looked at.

    Returns:
        :math:`\log p_c`, shape :math:`(*, C)`.

    Example:
        >>> log_h = torch.tensor([0.1, 0.2, 0.3, 0.4]).log()
        >>> log_class_sums(log_h, torch.tensor([0, 1, 0, 1])).exp()
        tensor([0.4000, 0.6000])
    """
    classes = int(class_of.max()) + 1 if classes is None else classes
    if usable(log_h) and _parts_of(class_of, log_h.shape[-1], log_h.device).in_order:
        return log_h
    if classes == class_of.shape[-1]:
        return log_h[..., class_of.argsort()]
    if _without_gradient(log_h):
        return _in_batches(chain_class_sums(_rows(log_h), *_checked_map(class_of, log_h)), log_h)
    index = class_of.expand(log_h.shape)
    shape = (*log_h.shape[:-1], classes)
    top = torch.full(shape, -torch.inf, dtype=log_h.dtype, device=log_h.device)
    # The shift is a constant for the gradient, and finite, so that -inf minus it is no NaN.
    top = top.scatter_reduce(-1, index, log_h.detach(), "amax").clamp(min=torch.finfo(log_h.dtype).min)
    shifted = (log_h - top.gather(-1, index)).exp()
    total = torch.zeros_like(top).scatter_add(-1, index, shifted)
    alive = total > 0
    # The logarithm must not see a zero, even where its result is not used: its slope there is infinite.
    return torch.where(alive, top + torch.where(alive, total, 1.0).log(), -torch.inf)


def couple(scores: Tensor) -> Tensor:
    r"""Gate arguments from one score per function, by taking away the later ones.

    .. math:: \theta_i = z_i - \log \sum_{j>i} \exp z_j

    The sigmoid chain of these arguments has :math:`h = \mathrm{softmax}(z)`: every gate decides
    between its own function and all later ones together.

    Arguments:
        scores: :math:`z`, shape :math:`(*, k)`.

    Returns:
        :math:`\theta`, shape :math:`(*, k - 1)`.

    Example:
        >>> couple(torch.tensor([0.5, 0.25, 0.25]).log()).sigmoid()
        tensor([0.5000, 0.5000])
    """
    scores = _at_least_single(scores)
    # Only differences count: what all scores share would cost the sum its digits.
    scores = scores - scores.detach().amax(-1, keepdim=True)
    return scores[..., :-1] - scores[..., 1:].flip(-1).logcumsumexp(-1).flip(-1)


def gates_from_probabilities(p: Tensor) -> Tensor:
    r"""The gates whose partition functions are the given probabilities.

    The inverse of the recursion, as in the proof of the density theorem, total on the whole
    simplex: where nothing remains, the gate is 0.

    .. math:: q_i = p_i \Big/ \sum_{j \ge i} p_j

    Arguments:
        p: Probabilities, shape :math:`(*, k)`: not negative, every row sums to one.

    Returns:
        :math:`q`, shape :math:`(*, k - 1)`.

    Example:
        >>> gates_from_probabilities(torch.tensor([[0.2, 0.4, 0.4], [1.0, 0.0, 0.0]]))
        tensor([[0.2000, 0.5000],
                [1.0000, 0.0000]])
    """
    if not p.is_floating_point():
        raise TypeError(f"p must be a floating point tensor, got {p.dtype}; use p.float()")
    if p.ndim == 0 or p.shape[-1] < 2:
        raise ValueError(f"p must have k >= 2 probabilities in its last dimension, got shape {tuple(p.shape)}")
    tolerance = {torch.float64: 1e-6, torch.float32: 1e-4}.get(p.dtype, 1e-2)
    p = _at_least_single(p)
    tail = _cumsum(p.flip(-1)).flip(-1)
    if not bool(((p >= 0).all(-1) & ((tail[..., 0] - 1).abs() <= tolerance)).all()):
        raise ValueError("every row of p must be finite, not negative and sum to one; divide by p.sum(-1)")
    tail = tail[..., :-1]
    return torch.where(tail > 0, p[..., :-1] / torch.where(tail > 0, tail, 1.0), 0.0)


def nll_loss(
    theta: Tensor,
    target: Tensor,
    class_of: Tensor | Sequence[int] | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Negative log-likelihood of a sigmoid chain, with its gradient in closed form.

    With :math:`r_i` the share of function :math:`i` in the probability of the true class,

    .. math:: \frac{\partial L}{\partial \theta_j} = q_j \sum_{i > j} r_i - (1 - q_j)\, r_j

    so that a row with one part per class needs nothing past its own class.

    Arguments:
        theta: Gate arguments, shape :math:`(*, k - 1)`.
        target: Classes from 0 to :math:`C - 1`, shape :math:`(*)`.
        class_of: The class of every function, shape :math:`(k,)`; one function per class if None.
        weight: A weight for every class, shape :math:`(C,)`.
        reduction: ``"mean"`` (weighted, as in torch), ``"sum"`` or ``"none"``.

    Example:
        >>> theta = torch.tensor([[0.0, 0.0], [2.0, -1.0]])
        >>> nll_loss(theta, torch.tensor([2, 0]), reduction="none")
        tensor([1.3863, 0.1269])
    """
    theta = _at_least_single(theta)
    in_c = usable(theta)
    parts = _checked_loss_input(theta, target, class_of, weight, reduction, in_c)
    if target.dtype != torch.int64:
        target = target.long()
    scale: Tensor | float = 1.0
    if weight is not None:
        scale = weight.detach().to(theta)[target]
    if reduction == "mean":
        scale = 1 / max(1, target.numel()) if isinstance(scale, float) else scale / scale.sum()
    rows = _Rows(target, parts, scale, reduction != "none", in_c)
    loss: Tensor = _ChainNLL.apply(theta, rows)  # type: ignore[no-untyped-call]
    return loss


class _Parts(NamedTuple):
    """Where the functions of every class are."""

    class_of: Tensor  # (k,)
    positions: Tensor  # the functions, class by class, (k,)
    offsets: Tensor  # where the positions of every class begin, (C + 1,)
    in_order: bool  # one function per class, in the order of the classes


class _Rows(NamedTuple):
    """What the loss of given gate arguments depends on."""

    target: Tensor  # (*)
    parts: _Parts
    scale: Tensor | float  # of every row, (*), or of all
    added: bool  # one loss, or one for every row
    in_c: bool  # whether the kernel does it


def loss_and_gradient(theta: Tensor, target: Tensor, class_of: Tensor, scale: Tensor | float) -> tuple[Tensor, Tensor]:
    """What :func:`nll_loss` gives of rows that have been checked, and its gradient, without autograd.

    Arguments:
        theta: Gate arguments, shape (n, k - 1).
        target: Classes, shape (n,).
        class_of: The class of every function, shape (k,).
        scale: What every row counts, shape (n,), or one number for all.

    Example:
        >>> loss_and_gradient(torch.zeros(1, 1), torch.tensor([0]), torch.tensor([0, 1]), 1.0)
        (tensor(0.6931), tensor([[-0.5000]]))
    """
    parts = _parts_of(class_of, theta.shape[-1] + 1, theta.device)
    return _loss_and_gradient(theta, _Rows(target, parts, scale, True, usable(theta)))


class _ChainNLL(torch.autograd.Function):
    """Loss and gradient together: one pass over theta serves both."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, rows: _Rows) -> Tensor:
        loss, gradient = _loss_and_gradient(theta, rows)
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor) -> tuple[Tensor | None, ...]:
        # The mark takes as long as a small loss, and is needed only where a second derivative may be asked for.
        return _once(ctx, grad_loss) if torch.is_grad_enabled() else _scaled_gradient(ctx, grad_loss)


def _scaled_gradient(ctx: Any, grad_loss: Tensor) -> tuple[Tensor | None, ...]:
    (gradient,) = ctx.saved_tensors
    if grad_loss.ndim == 0 and grad_loss.item() == 1:  # a loss that ends here: spare a pass over all gates
        return gradient, None
    return gradient * (grad_loss.unsqueeze(-1) if grad_loss.ndim else grad_loss), None


_once = torch.autograd.function.once_differentiable(_scaled_gradient)


def _loss_and_gradient(theta: Tensor, rows: _Rows) -> tuple[Tensor, Tensor]:
    """Loss of every row, or their sum, and its gradient, both times the scale."""
    target, parts, scale, added, in_c = rows
    if in_c:
        return chain_loss(theta, target, parts.offsets, parts.positions, scale, added)
    # With one part each, the position in the chain is all that counts.
    if len(parts.offsets) > len(parts.positions):
        loss, gradient = _one_part(theta, parts.positions[target])
    else:
        loss, gradient = _several_parts(theta, target, parts.class_of)
    loss = loss * scale
    gradient = gradient * (scale.unsqueeze(-1) if isinstance(scale, Tensor) else scale)
    return loss.sum() if added else loss, gradient


def _one_part(theta: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """A binary cross-entropy over the gates up to the true class; the ones after it never matter."""
    gates = theta.shape[-1]
    own = position.unsqueeze(-1)
    index = torch.arange(gates, device=theta.device)
    # Accepting with theta costs what rejecting with -theta costs: one sign makes one formula of both.
    sign = torch.where(index == own, -1.0, 1.0).to(theta.dtype) * (index <= own)
    signed = sign * theta
    loss = (F.softplus(signed, threshold=_LINEAR_FROM) * sign.abs()).sum(-1)
    return loss, sign * signed.sigmoid()


def _several_parts(theta: Tensor, target: Tensor, class_of: Tensor) -> tuple[Tensor, Tensor]:
    log_h = log_partition(*log_sigmoid_gates(theta))
    own = class_of == target.unsqueeze(-1)
    log_own = log_h.masked_fill(~own, -torch.inf)
    log_p = log_own.logsumexp(-1)
    share = log_own.softmax(-1)  # sums to one, however far from the largest h the class is
    later = _cumsum(share[..., 1:].flip(-1)).flip(-1)
    return -log_p, theta.sigmoid() * later - (-theta).sigmoid() * share[..., :-1]


# softplus(x) is x to the last bit of a double from here on; torch's own threshold of 20 is not enough.
_LINEAR_FROM = 40.0
_BLOCK = 32
_HALF = (torch.float16, torch.bfloat16)


def log_sigmoid_gates(theta: Tensor) -> tuple[Tensor, Tensor]:
    """Log of what a sigmoid gate accepts and rejects, to the last bits for any theta."""
    theta = _at_least_single(theta)
    return -F.softplus(-theta, threshold=_LINEAR_FROM), -F.softplus(theta, threshold=_LINEAR_FROM)


def check_class_of(class_of: Tensor | Sequence[int], functions: int | None = None) -> Tensor:
    """The map from partition functions to classes as a tensor, or an error that says what is wrong."""
    class_of = torch.as_tensor(class_of)
    if class_of.dtype.is_floating_point or class_of.dtype == torch.bool or class_of.ndim != 1:
        raise TypeError(
            "class_of must be a vector of integers, one class per partition function, "
            f"got {class_of.dtype} of shape {tuple(class_of.shape)}"
        )
    class_of = class_of.long()
    if functions is not None and len(class_of) != functions:
        raise ValueError(
            f"class_of must name a class for each of the {functions} partition functions "
            f"(one more than gates), got {len(class_of)}"
        )
    if len(class_of) < 2:
        raise ValueError(f"a partition needs k >= 2 functions, got class_of of length {len(class_of)}")
    if int(class_of.min()) < 0:
        raise ValueError(f"classes are counted from 0, got class {int(class_of.min())} in class_of")
    parts = torch.bincount(class_of)
    if not bool(parts.all()):
        missing = int((parts == 0).nonzero()[0])
        raise ValueError(f"class_of must use every class from 0 to {len(parts) - 1}, class {missing} has no part")
    return class_of


def _checked_loss_input(
    theta: Tensor,
    target: Tensor,
    class_of: Tensor | Sequence[int] | None,
    weight: Tensor | None,
    reduction: str,
    in_c: bool,
) -> _Parts:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    if not theta.is_floating_point():
        raise TypeError(f"theta must be a floating point tensor, got {theta.dtype}")
    *batch, gates = theta.shape or (0,)
    if gates == 0:
        raise ValueError(f"theta must have at least one gate in its last dimension, got shape {tuple(theta.shape)}")
    if target.dtype.is_floating_point or target.dtype == torch.bool:
        raise TypeError(f"target must hold classes as integers, got {target.dtype}; use target.long()")
    if [*target.shape] != batch:
        raise ValueError(
            f"target must have one class per row of theta, expected shape {tuple(batch)}, got {tuple(target.shape)}"
        )
    parts = _parts_of(class_of, gates + 1, theta.device)
    classes = parts.offsets.shape[0] - 1
    # The kernel looks at every target by itself.
    if not in_c and target.numel() and (int(target.min()) < 0 or int(target.max()) >= classes):
        raise ValueError(f"target must hold classes from 0 to {classes - 1}, got {target.min()} to {target.max()}")
    if weight is not None and weight.shape != (classes,):
        raise ValueError(f"weight must hold one number per class, shape ({classes},), got {tuple(weight.shape)}")
    return parts


# A training loop brings the same map in every step: it is looked at once.
_known_parts: WeakIdKeyDictionary = WeakIdKeyDictionary()


def _parts_of(class_of: Tensor | Sequence[int] | None, functions: int, device: torch.device) -> _Parts:
    if class_of is None:
        return _one_part_each(functions, device)
    key = class_of if isinstance(class_of, Tensor) else torch.as_tensor(class_of)
    parts: _Parts
    looked_at, parts = _known_parts.get(key, (None, None))
    # A tensor of inference mode does not tell when it changes: it is looked at every time.
    version = None if key.is_inference() else key._version
    if version is None or looked_at != (version, functions, device):
        checked = check_class_of(key, functions).to(device)
        offsets = F.pad(torch.bincount(checked).cumsum(0), (1, 0))
        in_order = len(offsets) > functions and bool((checked.diff() == 1).all())
        parts = _Parts(checked, checked.argsort(stable=True), offsets, in_order)
        _known_parts[key] = ((version, functions, device), parts)
    return parts


@lru_cache(maxsize=8)
def _one_part_each(functions: int, device: torch.device) -> _Parts:
    class_of, positions, offsets = (torch.arange(functions + more, device=device) for more in (0, 0, 1))
    return _Parts(class_of, positions, offsets, in_order=True)


def _cumsum(x: Tensor) -> Tensor:
    """Cumulative sum, of doubles in blocks of blocks: rounding grows with the log of k, not with k.

    In single precision torch adds up in double precision by itself.
    """
    k = x.shape[-1]
    if x.dtype != torch.float64 or k <= _BLOCK:
        return x.cumsum(-1)
    blocks = F.pad(x, (0, -k % _BLOCK)).unflatten(-1, (-1, _BLOCK)).cumsum(-1)
    before = F.pad(_cumsum(blocks[..., :-1, -1]), (1, 0))
    sums: Tensor = (blocks + before.unsqueeze(-1)).flatten(-2)
    return sums[..., :k]


def _rows(x: Tensor) -> Tensor:
    """All leading dimensions as one, in one piece of memory."""
    return (x if x.ndim == 2 else x.reshape(x.shape[:-1].numel(), x.shape[-1])).contiguous()


def _in_batches(rows: Tensor, given: Tensor) -> Tensor:
    """The rows in the leading dimensions of what they were made from."""
    return rows if given.ndim == 2 else rows.view(*given.shape[:-1], rows.shape[-1])


def _in_one_pass(gates: Tensor, class_of: Tensor, classes: int) -> bool:
    """Whether the kernel adds up the functions of a row as it makes them: some class has several."""
    return 0 < gates.shape[-1] == class_of.numel() - 1 >= classes and _without_gradient(gates)


def _checked_map(class_of: Tensor, given: Tensor, more: int = 0) -> tuple[Tensor, int]:
    """The class of every function as the kernels read it, who trust it, and the number of classes."""
    parts = _parts_of(class_of, given.shape[-1] + more, given.device)
    return parts.class_of.contiguous(), parts.offsets.shape[0] - 1


def _without_gradient(*tensors: Tensor) -> bool:
    """Whether a kernel may do the work: nobody will ask how it was done."""
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    return not wanted and usable(*tensors)


def _at_least_single(x: Tensor) -> Tensor:
    """Half precision is not enough for a chain: at k = 1000 it is wrong by nats."""
    return x.float() if x.dtype in _HALF else x
