"""Families side by side."""

import pytest
import torch
from torch import nn

from punn import PUNN
from punn.gates import Ball, ConstantRadius, Ellipsoid, FourierRadius, Hybrid, SeparateMLP, Shell


def test_every_gate_stands_where_it_was_put():
    families = [Ball(2, 1), SeparateMLP(2, 2, (8,)), Ellipsoid(2, 2)]
    gates = Hybrid(families, positions=[[3], [4, 0], [2, 1]])
    x = torch.randn(6, 2)
    theta = gates(x)
    for family, index in zip(families, gates.positions, strict=True):
        assert torch.equal(theta[:, index], family(x))
    assert gates.gates == 5


def test_without_positions_families_follow_each_other():
    families = [Ball(2, 2), SeparateMLP(2, 1, (8,))]
    x = torch.randn(6, 2)
    assert torch.equal(Hybrid(families)(x), torch.cat([f(x) for f in families], -1))


def test_every_gate_has_its_own_activation():
    shell, networks = Shell(ConstantRadius(2), ConstantRadius(2)), SeparateMLP(2, 2, (8,))
    network = PUNN(Hybrid([shell, networks], [[1], [0, 2]]), ["sigmoid", "window", "bump"]).eval()
    x = torch.randn(7, 2)
    accept, _ = network.log_gates(x)
    torch.testing.assert_close(accept[:, 0].exp(), networks(x)[:, 0].sigmoid())
    t = shell(x)[:, 0]
    torch.testing.assert_close(accept[:, 1].exp(), (20 * t).sigmoid() * (20 * (1 - t)).sigmoid())
    b = networks(x)[:, 1]
    torch.testing.assert_close(accept[:, 2].exp(), (1 - 1 / (1 - b**2)).exp() * (b.abs() < 1))


def test_a_start_reaches_the_rows_of_every_position():
    part = torch.arange(300) % 3
    x = 4 * torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])[part] + 0.2 * torch.randn(300, 2)
    first, second = Ball(2, 1), Ellipsoid(2, 1)
    Hybrid([first, second], [[1], [0]]).start(x, part, torch.zeros(2))
    torch.testing.assert_close(first.center[0].detach(), x[part == 1].mean(0))
    torch.testing.assert_close(second.center[0].detach(), x[part == 0].mean(0))


def test_only_radius_functions_are_rough():
    shell = Shell(FourierRadius(2), FourierRadius(2))
    nn.init.ones_(shell.outer.coefficients)
    gates = Hybrid([Ball(2, 1), shell])
    # cos and sin of frequency 1 and 2, each with m^2 times the coefficient squared.
    assert gates.roughness().item() == pytest.approx(2 * 1 + 2 * 4)
    assert Hybrid([Ball(2, 1)]).roughness() == 0


@pytest.mark.parametrize(
    ("families", "positions", "error", "message"),
    [
        ([], None, ValueError, "at least one family"),
        ([Ball(2, 1), Ball(2, 1)], [[0], [0]], ValueError, r"each of 0 to 1 once, got \[\[0\], \[0\]\]"),
        ([Ball(2, 2)], [[0]], ValueError, r"positions must place \[2\] gates"),
        ([Ball(2, 1)], [[1]], ValueError, "each of 0 to 0 once"),
        ([nn.Linear(2, 1)], None, TypeError, "how many gates it has, Linear does not"),
    ],
)
def test_gates_that_do_not_fit_together_are_refused(families, positions, error, message):
    with pytest.raises(error, match=message):
        Hybrid(families, positions)
