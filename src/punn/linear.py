"""A start for networks: the linear gates that fit the rows best.

Logistic regression is hard to beat on small tables and where classes are told apart by planes, and it is
found at once. A network that starts there leaves it only as far as the data ask for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from punn.gates import SeparateMLP, Shared
from punn.network import PUNN

__all__ = ["carry", "start_linear"]

# Numbers that logistic regression reads or makes at most: it is a start, and must not take longer than the fit.
_ENOUGH = 2_000_000

# Rows, and unknowns, for which Newton's method takes no time.
_FEW = 500

Layer = tuple[Tensor, Tensor]


def start_linear(network: PUNN, x: Tensor, part: Tensor, weight: Tensor | None = None) -> None:
    """Give networks with sigmoid gates the arguments of logistic regression; leave others as they are.

    Separate gates each tell their function from all later ones. Coupled gates have one score per function.

    Arguments:
        network: A network that has been started, see :meth:`punn.PUNN.start`.
        x: Rows as they reach the gates.
        part: The partition function that every row belongs to, shape (n,).
        weight: How often every row counts, shape (n,).

    Example:
        >>> network = PUNN(SeparateMLP(features=1, gates=1, hidden=(8,)))
        >>> start_linear(network, torch.tensor([[-1.0], [1.0]]), torch.tensor([1, 0]))
        >>> network.theta(torch.tensor([[-2.0], [0.0], [2.0]])).sign().flatten().tolist()[::2]
        [-1.0, 1.0]
    """
    if any(name != "sigmoid" for name in network.activation.names):
        return
    stride = max(x.numel(), len(x) * network.functions) // _ENOUGH + 1
    rows = x[::stride].double().cpu().numpy()
    parts = part[::stride].cpu().numpy()
    weights = None if weight is None else weight[::stride].double().cpu().numpy()
    gates = network.gates
    if isinstance(gates, SeparateMLP):
        for gate in range(len(gates)):
            here = parts >= gate
            line = _logistic(rows[here], (parts[here] > gate).astype(int), None if weights is None else weights[here])
            if line is not None:
                # The score of this function less that of the later ones.
                slope, offset = (values[:1] - values[1:] for values in line)
                carry([(w[gate], b[gate]) for w, b in zip(gates.weights, gates.biases, strict=True)], slope, offset)
    elif isinstance(gates, Shared) and gates.coupled and gates.output is not None:
        line = _logistic(rows, parts, weights, network.functions)
        if line is not None:
            layers = [layer for layer in gates.backbone.modules() if isinstance(layer, nn.Linear)]
            carry([(layer.weight, layer.bias) for layer in [*layers, gates.output]], *line)


@torch.no_grad()
def carry(layers: Sequence[Layer], slope: Tensor, offset: Tensor) -> None:
    r"""Make a ReLU network begin as a linear function of its input.

    A number passes a layer of rectified units as a pair, :math:`u = \max(u, 0) - \max(-u, 0)`. As many pairs
    as the function has dimensions carry it; a narrow network carries the largest ones.

    Arguments:
        layers: Weight (after, before) and bias (after,) of every linear layer, changed in place.
        slope: Shape (outputs, inputs).
        offset: Shape (outputs,).

    Example:
        >>> first, last = nn.Linear(3, 8), nn.Linear(8, 2)
        >>> nn.init.zeros_(last.weight), torch.manual_seed(0)  # doctest: +ELLIPSIS
        (...)
        >>> slope, x = torch.randn(2, 3), torch.randn(5, 3)
        >>> carry([(first.weight, first.bias), (last.weight, last.bias)], slope, torch.zeros(2))
        >>> torch.allclose(last(first(x).relu()), x @ slope.T, atol=1e-6)
        True
    """
    *inner, (last, bias) = layers
    bias.copy_(offset)
    if not inner:
        last.copy_(slope)
        return
    left, size, right = torch.linalg.svd(slope, full_matrices=False)
    # A direction of no size is rounding, of which Adam would make steps.
    pairs = min(int((size > 1e-6 * size[0]).sum()), *(len(weight) // 2 for weight, _ in inner))
    root = size[:pairs].sqrt()
    enter, leave = root.unsqueeze(-1) * right[:pairs], left[:, :pairs] * root
    inner[0][0][: 2 * pairs] = torch.cat([enter, -enter]).to(last)
    for weight, _ in inner[1:]:
        weight[: 2 * pairs] = torch.eye(2 * pairs, weight.shape[1]).to(last)
    for _, shift in inner:
        shift[: 2 * pairs] = 0.0
    last[:, : 2 * pairs] = torch.cat([leave, -leave], 1).to(last)


def _logistic(
    rows: np.ndarray, labels: np.ndarray, weight: np.ndarray | None, classes: int = 2
) -> tuple[Tensor, Tensor] | None:
    """Slope (classes, features) and offset (classes,) of one score per class; None where there is nothing to tell."""
    present = np.unique(labels)
    if len(present) < classes:
        return None
    # Newton's method finds the very optimum, so that a rounding in the data stays a rounding in the model.
    exact = len(rows) <= _FEW and classes * rows.shape[1] <= _FEW
    from sklearn.linear_model import LogisticRegression  # takes as long to load as all of punn

    solver = LogisticRegression(solver="newton-cholesky", tol=1e-8) if exact else LogisticRegression()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # near the best is near enough
        model = solver.fit(rows, labels, weight)
    slope, offset = model.coef_, model.intercept_
    if classes == 2:
        slope, offset = np.concatenate([-slope, slope]) / 2, np.concatenate([-offset, offset]) / 2
    if not (np.isfinite(slope).all() and np.isfinite(offset).all()):
        return None
    return torch.from_numpy(slope - slope.mean(0)), torch.from_numpy(offset - offset.mean())
