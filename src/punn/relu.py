"""ReLU networks forwards and backwards by hand.

For a small network, autograd takes longer to keep account of the products than the products take. The gradient of
linear layers with ReLU between them is short enough to be written down, and so is that of the loss after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from punn.gates import SeparateMLP, Shared

__all__ = ["ReLUNetwork", "layers_of", "softmax_loss"]

#: Weight and bias of a layer.
Pair = tuple[nn.Parameter, nn.Parameter]


class Layer(NamedTuple):
    """Where the numbers of a layer are, and where their gradients go."""

    weight: Tensor  # (after, before), or (networks, after, before)
    bias: Tensor  # (1, after), or (networks, 1, after)
    weight_gradient: Tensor
    bias_gradient: Tensor


class ReLUNetwork:
    """Linear layers with ReLU between them, of one network, or of several that read the same rows.

    It works on the parameters where they are, and writes to the gradients that they have, or adds to them.

    Arguments:
        parameters: Weight and bias of every layer: (after, before) and (after,), or (networks, after, before) and
            (networks, after).

    Example:
        >>> linear = nn.Linear(2, 3)
        >>> linear.weight.grad, linear.bias.grad = torch.zeros(3, 2), torch.zeros(3)
        >>> network = ReLUNetwork([(linear.weight, linear.bias)])
        >>> theta = network.forward(torch.zeros(5, 2))
        >>> network.backward(torch.ones_like(theta))
        >>> linear.bias.grad
        tensor([5., 5., 5.])
    """

    def __init__(self, parameters: Sequence[Pair]) -> None:
        tensors = [[w.detach(), b.detach(), _gradient(w), _gradient(b)] for w, b in parameters]
        self.networks = len(tensors[0][0]) if tensors[0][0].ndim == 3 else 1
        if self.networks > 1:
            # All networks read the same rows: one product of full width serves the first layer of all.
            tensors[0] = [tensor.view(-1, *tensor.shape[2:]) for tensor in tensors[0]]
        elif tensors[0][0].ndim == 3:
            tensors = [[tensor.squeeze(0) for tensor in layer] for layer in tensors]
        self.layers = [Layer(w, b.unsqueeze(-2), dw, db.unsqueeze(-2)) for w, b, dw, db in tensors]
        self.given: list[Tensor] = []  # to every layer

    def forward(self, x: Tensor) -> Tensor:
        """What the last layer gives, shape (n, after), or (n, networks) of networks that give one number each."""
        first, *later = self.layers
        self.given = [x]
        u = torch.addmm(first.bias, x, first.weight.mT)
        if self.networks == 1 or not later:
            for layer in later:
                self.given.append(u.relu_())
                u = torch.addmm(layer.bias, u, layer.weight.mT)
            return u
        u = u.unflatten(1, (self.networks, -1)).transpose(0, 1)  # (networks, n, width)
        for layer in later:
            self.given.append(u.relu_())
            u = torch.baddbmm(layer.bias, u, layer.weight.mT)
        return u.squeeze(-1).T

    def backward(self, slope: Tensor, add: bool = True) -> None:
        """Write the gradients, by the gradient with respect to what :meth:`forward` gave last.

        Arguments:
            slope: What :meth:`forward` gave is to change by this, same shape.
            add: Whether they are added to what is there; otherwise that is never read, which saves a pass over it.
        """
        first, *later = self.layers
        several = self.networks > 1 and len(later) > 0
        if several:
            slope = slope.T.unsqueeze(-1)  # (networks, n, 1)
        for layer, given in zip(reversed(later), reversed(self.given), strict=False):
            _gradients(layer, slope, given, add)
            slope = torch.ops.aten.threshold_backward(slope @ layer.weight, given, 0)
        if several:
            slope = slope.transpose(0, 1).flatten(1)
        _gradients(first, slope, self.given[0], add)


def _gradients(layer: Layer, slope: Tensor, given: Tensor, add: bool) -> None:
    """Of one layer: slopes of what it gave, (..., n, after), and what it was given, (..., n, before)."""
    add_product = layer.weight_gradient.baddbmm_ if slope.ndim == 3 else layer.weight_gradient.addmm_
    add_product(slope.mT, given, beta=int(add))
    if add:
        layer.bias_gradient.add_(slope.sum(-2, keepdim=True))
    else:
        torch.sum(slope, -2, keepdim=True, out=layer.bias_gradient)


def layers_of(gates: nn.Module) -> list[Pair] | None:
    """Weight and bias of every layer, of gates that are nothing but ReLU networks to be trained; None for others."""
    if any(module._forward_hooks or module._forward_pre_hooks for module in gates.modules()):
        return None
    layers: list[Pair] = []
    if type(gates) is SeparateMLP:
        layers = list(zip(gates.weights, gates.biases, strict=True))
    elif type(gates) is Shared and type(gates.backbone) is nn.Sequential and gates.output is not None:
        modules = [*gates.backbone, gates.output]
        kinds = [nn.ReLU if number % 2 else nn.Linear for number in range(len(modules))]
        if [type(module) for module in modules] != kinds:
            return None
        layers = [(module.weight, module.bias) for module in modules[::2]]
    trained = all(isinstance(p, nn.Parameter) and p.requires_grad for layer in layers for p in layer)
    return layers if layers and trained else None


def _gradient(parameter: nn.Parameter) -> Tensor:
    if parameter.grad is None:
        raise ValueError("a network that goes backwards needs the gradients of its parameters; set them to zeros first")
    return parameter.grad


def softmax_loss(
    scores: Tensor, target: Tensor, scale: Tensor | float, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The cross-entropy of all rows, added up, and its gradient; both times a scale.

    Arguments:
        scores: Shape (n, C).
        target: Classes, shape (n,).
        scale: One for every row, shape (n,), or one for all.
        label_smoothing: Share of the target that is spread over all classes.

    Example:
        >>> loss, slope = softmax_loss(torch.zeros(1, 2), torch.tensor([1]), 1.0)
        >>> slope
        tensor([[ 0.5000, -0.5000]])
    """
    log_p, own = scores.log_softmax(-1), target.unsqueeze(-1)
    losses = -log_p.gather(-1, own).squeeze(-1)
    slope = log_p.exp()
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(-1)
        slope -= label_smoothing / scores.shape[-1]
    slope.scatter_add_(-1, own, slope.new_full(own.shape, label_smoothing - 1))
    if isinstance(scale, Tensor):
        return losses @ scale, slope.mul_(scale.unsqueeze(-1))
    return losses.sum() * scale, slope.mul_(scale)
