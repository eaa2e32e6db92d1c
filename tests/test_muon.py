"""Steps of kernels: singular values, sizes, and that other weights take Adam's steps."""

import torch
from torch import nn

from punn.adam import Adam
from punn.experiments.muon import Muon, orthogonal


def test_singular_values_come_near_one():
    matrix = torch.randn(12, 40, generator=torch.Generator().manual_seed(0))
    for m in (matrix, matrix.T):
        values = torch.linalg.svdvals(orthogonal(m, rounds=6))
        assert values.min() > 0.6
        assert values.max() < 1.3


def test_singular_vectors_stay():
    matrix = torch.randn(6, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    inner = left.T @ orthogonal(matrix) @ right.T
    torch.testing.assert_close(inner, inner.diag().diag(), atol=1e-9, rtol=0)


def test_no_gradient_is_no_step():
    assert torch.equal(orthogonal(torch.zeros(3, 4)), torch.zeros(3, 4))


def test_kernels_keep_their_size_and_learn():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(16, 1))
    x, y = torch.randn(32, 1, 4, 4), torch.randn(32, 1)
    muon = Muon([network], kernel_rate=5.0)
    losses = []
    for _ in range(40):
        loss = (network(x) - y).square().mean()
        loss.backward()
        muon.step(0.01)
        losses.append(loss.item())
        torch.testing.assert_close(network[0].weight.norm(), torch.tensor(2.0))
    assert losses[-1] < losses[0] / 2


def test_other_weights_take_the_steps_of_adam():
    torch.manual_seed(0)
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    second.load_state_dict(first.state_dict())
    x = torch.randn(5, 3)
    optimizers = Muon([first], 0.1), Adam([second], 0.1)
    for _ in range(3):
        for network, optimizer in zip((first, second), optimizers, strict=True):
            network(x).square().sum().backward()
            optimizer.step(0.01)
    assert torch.equal(first.weight, second.weight)
