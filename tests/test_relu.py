"""The gradient by hand is that of autograd."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from punn.gates import SeparateMLP, Shared
from punn.gates.mlp import mlp
from punn.relu import ReLUNetwork, layers_of, softmax_loss


def shared(features=3, hidden=(5, 4), gates=6):
    return Shared(mlp(features, hidden), gates, features=hidden[-1])


FAMILIES = {
    "shared": shared,
    "one layer": lambda: shared(hidden=(7,)),
    "separate": lambda: SeparateMLP(3, 6, (5, 4)),
    "a single gate": lambda: SeparateMLP(3, 1, (5, 4)),
    "linear gates": lambda: SeparateMLP(3, 6, ()),
    "a single linear gate": lambda: SeparateMLP(3, 1, ()),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [1, 17])
def test_forward_and_backward_agree_with_autograd(family, n):
    gates = FAMILIES[family]().double()
    x, slope = torch.randn(n, 3).double(), torch.randn(n, gates.gates).double()
    theta = gates(x)
    theta.backward(slope)
    exact = [p.grad.clone() for p in gates.parameters()]
    for parameter, gradient in zip(gates.parameters(), exact, strict=True):
        parameter.grad = gradient.clone(memory_format=torch.contiguous_format)
    network = ReLUNetwork(layers_of(gates))
    torch.testing.assert_close(network.forward(x), theta.detach())
    network.backward(slope)  # adds to what is there
    for parameter, gradient in zip(gates.parameters(), exact, strict=True):
        torch.testing.assert_close(parameter.grad, 2 * gradient)


def test_it_follows_parameters_that_change_in_place():
    gates = shared()
    for parameter in gates.parameters():
        parameter.grad = torch.zeros_like(parameter)
    network, x = ReLUNetwork(layers_of(gates)), torch.randn(4, 3)
    with torch.no_grad():
        gates.output.weight.mul_(2)
    torch.testing.assert_close(network.forward(x), gates(x).detach())


def test_backward_needs_gradients_to_add_to():
    with pytest.raises(ValueError, match="set them to zeros first"):
        ReLUNetwork(layers_of(shared()))


def frozen():
    gates = shared()
    gates.backbone[0].weight.requires_grad_(False)
    return gates


def hooked():
    gates = shared()
    gates.backbone[1].register_forward_hook(lambda module, given, result: 2 * result)
    return gates


@pytest.mark.parametrize(
    "gates",
    [
        Shared(nn.Sequential(nn.Linear(3, 4), nn.Tanh()), 2, features=4),
        Shared(nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU()), 2, features=4),
        Shared(nn.Linear(3, 2), 2),
        frozen(),
        hooked(),
    ],
    ids=["tanh", "no bias", "a module of its own", "frozen", "hooked"],
)
def test_other_networks_are_left_to_autograd(gates):
    assert layers_of(gates) is None


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_of_softmax_agrees_with_torch(label_smoothing, weighted):
    scores = torch.randn(9, 5).double().requires_grad_()
    target, scale = torch.randint(5, (9,)), torch.rand(9).double() if weighted else 0.3
    exact = (F.cross_entropy(scores, target, reduction="none", label_smoothing=label_smoothing) * scale).sum()
    exact.backward()
    loss, slope = softmax_loss(scores.detach(), target, scale, label_smoothing)
    torch.testing.assert_close(loss, exact.detach())
    torch.testing.assert_close(slope, scores.grad)


def test_the_loss_of_softmax_is_finite_for_scores_far_apart():
    loss, slope = softmax_loss(torch.tensor([[1e4, -1e4]]), torch.tensor([1]), 1.0)
    assert loss == 2e4
    assert slope.tolist() == [[1.0, -1.0]]
