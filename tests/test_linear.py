"""Networks that start as logistic regression does."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from torch import nn

from punn import PUNN
from punn.building import build_network
from punn.gates import SeparateMLP
from punn.linear import carry, start_linear


def table(load):
    X, y = load(return_X_y=True)
    return (X - X.mean(0)) / X.std(0), y


@pytest.mark.parametrize("hidden", [(), (8,), (16, 8), (8, 8, 16)])
def test_a_network_carries_a_linear_function(hidden):
    widths = [5, *hidden, 3]
    layers = [nn.Linear(a, b, dtype=torch.float64) for a, b in pairwise(widths)]
    nn.init.zeros_(layers[-1].weight)  # what units without a pair add
    slope, offset, x = torch.randn(3, 5).double(), torch.randn(3).double(), torch.randn(20, 5).double()
    carry([(layer.weight, layer.bias) for layer in layers], slope, offset)
    u = x
    for layer in layers[:-1]:
        u = layer(u).relu()
    torch.testing.assert_close(layers[-1](u), x @ slope.T + offset)


def test_a_narrow_network_carries_the_largest_direction():
    first, last = nn.Linear(4, 3), nn.Linear(3, 4)
    nn.init.zeros_(last.weight)
    carry([(layer.weight, layer.bias) for layer in (first, last)], torch.diag(torch.arange(1.0, 5.0)), torch.zeros(4))
    torch.testing.assert_close(last(first(torch.eye(4)).relu()), torch.diag(torch.tensor([0.0, 0, 0, 4])))


def test_a_unit_that_cannot_make_a_pair_carries_nothing():
    first, last = nn.Linear(4, 1), nn.Linear(1, 2)
    before = first.weight.clone()
    carry([(layer.weight, layer.bias) for layer in (first, last)], torch.ones(2, 4), torch.tensor([1.0, -1.0]))
    assert torch.equal(first.weight, before)
    assert last.bias.tolist() == [1.0, -1.0]


@pytest.mark.parametrize("weighted", [False, True])
def test_coupled_gates_start_as_logistic_regression(weighted):
    X, y = table(load_wine)
    weight = np.random.RandomState(0).rand(len(y)) if weighted else None
    network = build_network("shared", "sigmoid", [0, 1, 2], X.shape[1], (64, 64)).double()
    rows, part = torch.from_numpy(X), torch.from_numpy(y)
    tensor = None if weight is None else torch.from_numpy(weight)
    network.start(rows, part, tensor)
    start_linear(network, rows, part, tensor)
    expected = LogisticRegression().fit(X, y, weight).predict_log_proba(X)
    np.testing.assert_allclose(network(rows).detach(), expected, atol=0.1)  # the other units are quiet, not silent


def test_separate_gates_tell_their_class_from_later_ones():
    X, y = table(load_iris)
    network = build_network("mlp", "sigmoid", [0, 1, 2], 4, (16,)).double()
    rows, part = torch.from_numpy(X), torch.from_numpy(y)
    network.start(rows, part)
    start_linear(network, rows, part)
    for gate in range(2):
        here = y >= gate
        expected = LogisticRegression().fit(X[here], y[here] == gate).decision_function(X)
        np.testing.assert_allclose(network.theta(rows)[:, gate].detach(), expected, atol=0.1)


def test_what_cannot_start_so_is_left_alone():
    rows, part = torch.randn(20, 2), torch.arange(20) % 2
    for network in (PUNN(SeparateMLP(2, 1, (4,)), "bump"), build_network("ball", "auto", [0, 1], 2, ())):
        before = [p.clone() for p in network.parameters()]
        start_linear(network, rows, part)
        assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
    network = build_network("shared", "sigmoid", [0, 1, 2], 2, (4,))
    before = network.gates.output.weight.clone()
    start_linear(network, rows, part)  # the third function has no row
    assert torch.equal(before, network.gates.output.weight)
