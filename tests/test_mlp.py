"""Networks of gates: separate ones against a plain list of modules, shared ones against their parts."""

import pytest
import torch
from torch import nn

from punn.gates import SeparateMLP, Shared
from punn.gates.mlp import mlp


@pytest.mark.parametrize("hidden", [(), (7,), (32, 32), (5, 4, 3)])
def test_separate_networks_equal_a_list_of_modules(hidden):
    gates = SeparateMLP(4, 3, hidden).double()
    alone = nn.ModuleList(gates[i] for i in range(3))
    x = torch.randn(9, 4, dtype=torch.float64)
    torch.testing.assert_close(gates(x), torch.cat([network(x) for network in alone], -1))
    together = torch.autograd.grad(gates(x).square().sum(), list(gates.parameters()))
    torch.cat([network(x) for network in alone], -1).square().sum().backward()
    for layer, weight in enumerate(together[: len(hidden) + 1]):
        torch.testing.assert_close(weight, torch.stack([network[2 * layer].weight.grad for network in alone]))


def test_a_gate_may_be_taken_out_changed_and_put_back():
    gates = SeparateMLP(2, 3, (8,))
    x = torch.randn(5, 2)
    before = gates(x)
    network = gates[1]
    with torch.no_grad():
        network[2].bias += 1
    assert torch.equal(gates(x), before)  # what was taken out is a copy
    gates[1] = network
    torch.testing.assert_close(gates(x), before + torch.tensor([0.0, 1.0, 0.0]))
    assert len(gates) == 3
    assert len(list(gates)) == 3


def test_a_network_of_another_size_is_not_put_back():
    gates = SeparateMLP(2, 3, (8,))
    with pytest.raises(ValueError, match=r"shape \[\(8, 2\), \(1, 8\)\], got \[\(4, 2\), \(1, 4\)\]"):
        gates[0] = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))


def test_gates_begin_as_linear_layers_do():
    gates = SeparateMLP(16, 50, (64,))
    for weight, fan in zip(gates.weights, (16, 64), strict=True):
        assert weight.abs().max() <= fan**-0.5
        assert float(weight.detach().std()) == pytest.approx((3 * fan) ** -0.5, rel=0.1)


@pytest.mark.parametrize("shape", [(2,), (0, 2), (3, 4, 2)])
def test_any_leading_shape(shape):
    gates = SeparateMLP(2, 3, (8,))
    x = torch.randn(shape)
    assert gates(x).shape == (*shape[:-1], 3)
    torch.testing.assert_close(gates(x).reshape(-1, 3), gates(x.reshape(-1, 2)))


def test_a_backbone_may_give_the_arguments_or_the_features():
    backbone = nn.Linear(4, 3)
    x = torch.randn(5, 4)
    assert torch.equal(Shared(backbone, 3)(x), backbone(x))
    gates = Shared(backbone, 6, features=3)
    torch.testing.assert_close(gates(x), gates.output(backbone(x)))


def test_coupled_gates_take_the_later_scores_away():
    gates = Shared(nn.Linear(4, 4), 3, coupled=True)
    x = torch.randn(5, 4)
    z = gates.backbone(x)
    expected = torch.stack([z[:, i] - z[:, i + 1 :].logsumexp(-1) for i in range(3)], -1)
    torch.testing.assert_close(gates(x), expected)
    assert Shared(nn.Identity(), 3, features=4, coupled=True).output.out_features == 4


@pytest.mark.parametrize(
    "gates",
    [SeparateMLP(2, 2, (8,)), Shared(mlp(2, (8,)), 2, 8), Shared(mlp(2, (8,)), 2, 8, coupled=True)],
    ids=["separate", "shared", "coupled"],
)
@pytest.mark.parametrize("scale", [1, 1000])
def test_a_start_gives_nearly_the_same_arguments_everywhere(gates, scale):
    x = scale * torch.randn(200, 2)
    gates.start(x, torch.zeros(200, dtype=torch.long), torch.tensor([-1.0, 0.7]))
    theta = gates(x)
    torch.testing.assert_close(theta.mean(0), torch.tensor([-1.0, 0.7]), rtol=0, atol=1e-2)
    assert (theta.std(0) < 0.03).all()
    assert (theta.std(0) > 1e-4).all()  # quiet, not dead


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SeparateMLP(0, 1), "features must be a positive integer, got 0"),
        (lambda: SeparateMLP(2, 0), "gates must be a positive integer, got 0"),
        (lambda: SeparateMLP(2, 1, (4, -1)), r"hidden\[1\] must be a positive integer, got -1"),
        (lambda: Shared(nn.Identity(), 0), "gates must be a positive integer, got 0"),
        (lambda: Shared(nn.Identity(), 2, features=0), "features must be a positive integer, got 0"),
        (lambda: SeparateMLP(2, 1)(torch.zeros(4, 3)), r"rows of 2 features.*got \(4, 3\)"),
        (lambda: Shared(nn.Identity(), 2, features=5)(torch.zeros(4, 3)), r"rows of 5 features.*got \(4, 3\)"),
    ],
)
def test_bad_sizes_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
