"""The network and the head: probabilities, modes, precision, training, and what they refuse."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from punn import PUNN, PUNNHead
from punn.gates import Ball, ConstantRadius, FourierRadius, SeparateMLP, Shared, Shell
from punn.network import Standardize


@pytest.mark.parametrize("activation", ["sigmoid", "gaussian", "bump", "window", "compact_window"])
@pytest.mark.parametrize("class_of", [None, [0, 1, 2, 3], [3, 1, 0, 2], [0, 0, 1, 0], [1, 0, 1, 0]])
def test_probabilities_sum_to_one(activation, class_of):
    network = PUNN(SeparateMLP(3, 3, (8,)), activation, class_of).double().eval()
    x = 3 * torch.randn(20, 3, dtype=torch.float64)
    p = network(x).exp().detach()
    torch.testing.assert_close(p.sum(-1), torch.ones(20, dtype=torch.float64), rtol=0, atol=1e-12)
    # Every class is the sum of its functions.
    h = network.log_partition(x).exp().detach()
    for c in range(network.classes):
        own = [i for i, d in enumerate(class_of or range(4)) if d == c]
        torch.testing.assert_close(p[:, c], h[:, own].sum(-1), rtol=1e-10, atol=1e-300)


def test_the_recursion_is_the_papers():
    network = PUNN(SeparateMLP(3, 3, (8,)), "sigmoid", [0, 1, 2, 1]).double()
    x = torch.randn(5, 3, dtype=torch.float64)
    q = network.gates(x).sigmoid()
    h = [q[:, 0], (1 - q[:, 0]) * q[:, 1], (1 - q[:, 0]) * (1 - q[:, 1]) * q[:, 2], (1 - q).prod(-1)]
    expected = torch.stack([h[0], h[1] + h[3], h[2]], -1)
    torch.testing.assert_close(network(x).exp(), expected)


def test_predictions_are_exact_and_training_is_finite():
    network = PUNN(Shell(None, ConstantRadius(2)), "compact_window")
    x = torch.tensor([[5.0, 0.0], [0.1, 0.0]])
    exact = network.eval()(x)
    assert exact[0].exp().tolist() == [0.0, 1.0]
    assert torch.isneginf(exact[0, 0])
    continued = network.train()(x)
    assert torch.isfinite(continued).all()
    (gradient,) = torch.autograd.grad(-continued[0, 0], network.gates.outer.coefficients)
    assert gradient < 0  # a larger radius would lower the loss
    # A trace is exact in training mode as well.
    assert network.trace(x).probabilities[0].tolist() == [0.0, 1.0]


def test_the_trace_agrees_with_the_network():
    network = PUNN(SeparateMLP(3, 3, (8,)), ["bump", "sigmoid", "gaussian"], [0, 1, 0, 2]).double().eval()
    x = torch.randn(8, 3, dtype=torch.float64)
    trace = network.trace(x)
    np.testing.assert_allclose(trace.probabilities, network(x).exp().detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(trace.partition, network.log_partition(x).exp().detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(trace.gates, network.log_gates(x)[0].exp().detach().numpy(), rtol=1e-12)


def test_standardising_keeps_the_digits_of_large_offsets():
    scaling = Standardize(torch.tensor([1e6, 0.0]), torch.tensor([0.5, 2.0]))
    x = torch.tensor([[1e6 + 0.5, 1.0]])
    assert scaling(x).tolist() == [[1.0, 0.5]]
    assert scaling(x).dtype == torch.float32
    network = PUNN(Ball(2, 1), scaling=scaling)
    torch.testing.assert_close(network(x), PUNN(Ball(2, 1))(scaling(x)))


def test_a_gate_without_rows_still_starts_alive():
    network = PUNN(SeparateMLP(2, 2, (8,)))
    x = torch.randn(50, 2)
    network.start(x, torch.zeros(50, dtype=torch.long))
    mass = network(x).exp().mean(0)
    assert (mass > 1e-3).all()
    assert mass[0] > 0.9


# The head --------------------------------------------------------------------------------------------------------


def small_convolutional_network(head):
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 16),
        nn.ReLU(),
        head,
    )


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_torch_jit_records_the_chain_and_not_its_memory():
    model = nn.Sequential(nn.Linear(4, 8), PUNNHead(8, 3, parts=2)).eval()
    with torch.no_grad():
        recorded = torch.jit.trace(model, torch.randn(5, 4))
        x = torch.randn(7, 4)
        torch.testing.assert_close(recorded(x), model(x))


def test_classes_of_a_head_have_names():
    trace = PUNNHead(4, 3).trace(torch.randn(2, 4), ["ant", "bee", "cat"])
    assert trace.names == ["ant", "bee", "cat"]
    with pytest.raises(ValueError, match="expected 3 class labels"):
        PUNNHead(4, 3).trace(torch.randn(2, 4), ["ant", "bee"])


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("parts", [1, 3])
def test_the_head_of_a_convolutional_network_can_be_replaced(parts, coupled):
    y = torch.arange(90) % 3
    images = 0.1 * torch.randn(90, 1, 8, 8)
    images[y == 0, :, :4] += 1
    images[y == 1, :, :, :4] += 1
    model = small_convolutional_network(nn.Linear(16, 3))
    model[-1] = PUNNHead(16, 3, parts, coupled)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(60):
        loss = F.nll_loss(model(images), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(math.log(3), abs=0.2)
    assert losses[-1] < 0.1
    assert (model(images).argmax(-1) == y).float().mean() > 0.97


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize(("classes", "parts"), [(2, 1), (10, 1), (10, 20), (100, 4)])
def test_every_class_starts_with_its_share(classes, parts, coupled):
    head = PUNNHead(64, classes, parts, coupled)
    assert head.punn.class_of.tolist() == list(range(classes)) * parts
    p = head(torch.zeros(1, 64)).exp()
    torch.testing.assert_close(p, torch.full((1, classes), 1 / classes), rtol=1e-4, atol=0)
    spread = head(0.1 * torch.randn(400, 64)).exp().mean(0)
    torch.testing.assert_close(spread, torch.full((classes,), 1 / classes), rtol=0.05, atol=0)


@pytest.mark.parametrize("parts", [1, 4])
def test_a_coupled_head_is_a_softmax_over_its_functions(parts):
    head = PUNNHead(16, 5, parts, coupled=True).double()
    x = torch.randn(7, 16, dtype=torch.float64)
    softmax = head.punn.gates.output(x).softmax(-1)
    torch.testing.assert_close(head(x).exp(), softmax.view(7, parts, 5).sum(1))
    np.testing.assert_allclose(head.trace(x).probabilities, head(x).exp().detach().numpy(), rtol=1e-10)
    np.testing.assert_allclose(head.trace(x).partition, softmax.detach().numpy(), rtol=1e-10)


def test_the_parts_of_a_coupled_head_start_as_one_softmax_score():
    torch.manual_seed(0)
    head, x = PUNNHead(64, 10, parts=5, coupled=True), torch.randn(200, 64)
    scores = head.punn.gates.output(x).view(200, 5, 10)
    assert 0 < scores.std(1).mean() < 0.1 * scores.std(0).mean(), "near each other, but not the same for ever"
    torch.testing.assert_close(head(x), scores[:, 0].log_softmax(-1), atol=0.2, rtol=0)


@pytest.mark.parametrize("coupled", [False, True])
def test_autocast_leaves_the_partition_in_single_precision(coupled):
    model = nn.Sequential(nn.Linear(32, 32), PUNNHead(32, 1000, 1, coupled))
    with torch.autocast("cpu", torch.bfloat16):
        x = torch.randn(4, 32)
        hidden = model[0](x)
        assert hidden.dtype == torch.bfloat16
        log_p = model(x)
        theta = model[1].punn.gates(hidden)
    assert log_p.dtype == torch.float32
    assert log_p.exp().sum(-1).detach().numpy() == pytest.approx(1, abs=1e-5)
    # Given the arguments, nothing is lost: the same chain in double precision.
    exact = model[1].punn.log_probabilities(theta.double())
    torch.testing.assert_close(log_p.double(), exact, rtol=1e-5, atol=1e-5)
    F.nll_loss(log_p, torch.arange(4)).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_the_head_has_the_size_of_the_layer_it_replaces():
    count = lambda module: sum(p.numel() for p in module.parameters())  # noqa: E731
    assert count(PUNNHead(64, 10, coupled=True)) == count(nn.Linear(64, 10))
    assert count(PUNNHead(64, 10)) == count(nn.Linear(64, 9))


# Bad input -------------------------------------------------------------------------------------------------------


def plain(class_of=None):
    return PUNN(SeparateMLP(2, 2, (4,)), class_of=class_of)


BAD = {
    "integer x": (
        lambda: plain()(torch.zeros(3, 2, dtype=torch.long)),
        TypeError,
        "floating point tensor, got torch.int64",
    ),
    "numpy x": (lambda: plain()(np.zeros((3, 2))), TypeError, "floating point tensor, got ndarray"),
    "NaN in x": (lambda: plain()(torch.full((3, 2), math.nan)), ValueError, "x must be finite, got NaN"),
    "infinite x": (lambda: plain()(torch.full((3, 2), math.inf)), ValueError, "x must be finite"),
    "wide x": (lambda: plain()(torch.zeros(3, 5)), ValueError, r"rows of 2 features.*got \(3, 5\)"),
    "k = 1": (lambda: plain([0]), ValueError, "k >= 2 functions, got class_of of length 1"),
    "a gap": (lambda: plain([0, 2, 2]), ValueError, "class 1 has no part"),
    "a negative class": (lambda: plain([0, -1, 1]), ValueError, "counted from 0, got class -1"),
    "class_of too long": (lambda: plain([0, 1, 2, 3]), ValueError, "each of the 3 partition functions .* got 4"),
    "class_of of floats": (lambda: plain([0.0, 1.0, 2.0]), TypeError, "vector of integers"),
    "an unknown name": (lambda: PUNN(Ball(2, 1), "step"), ValueError, "unknown activation 'step': use one of"),
    "too many names": (lambda: PUNN(Ball(2, 1), ["bump", "bump"]), ValueError, r"one per gate \(1\), got 2"),
    "gates that are none": (lambda: PUNN(lambda x: x), TypeError, r"from x to \(n, k - 1\), got function"),
    "gates without a number": (lambda: PUNN(nn.Linear(2, 2)), TypeError, "Linear does not say how many gates"),
    "gates that give too few": (
        lambda: PUNN(Shared(nn.Linear(2, 3), 2))(torch.zeros(4, 2)),
        ValueError,
        r"2 arguments per row for 3 partition functions, got shape \(4, 3\)",
    ),
    "Fourier in space": (lambda: FourierRadius(2, features=3), ValueError, "expected 2 features, got 3"),
    "a head of one class": (lambda: PUNNHead(4, 1), ValueError, "at least 2 classes, got 1"),
    "a head of no width": (lambda: PUNNHead(0, 3), ValueError, "in_features must be a positive integer, got 0"),
    "negative parts": (lambda: PUNNHead(4, 3, -1), ValueError, "parts must be a positive integer, got -1"),
    "features that do not fit": (lambda: PUNNHead(4, 3)(torch.zeros(2, 5)), ValueError, r"4 features.*got \(2, 5\)"),
    "a start out of range": (
        lambda: plain().start(torch.zeros(2, 2), torch.tensor([0, 3])),
        ValueError,
        r"functions 0 to 2 for each of 2 rows.*\[0, 3\]",
    ),
    "a start of another length": (
        lambda: plain().start(torch.zeros(2, 2), torch.tensor([0, 1, 2])),
        ValueError,
        r"each of 2 rows, got shape \(3,\)",
    ),
}


@pytest.mark.parametrize(("run", "error", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_named(run, error, message):
    with pytest.raises(error, match=message):
        run()


def test_a_hundred_thousand_classes_train_in_two_gigabytes():
    """In a process of its own, whose peak of memory is measured."""
    code = """
import resource, torch
from torch import nn
from punn import PUNNHead
for coupled, steps in ((False, 4), (True, 2)):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), PUNNHead(64, classes=100_000, coupled=coupled))
    x, y = torch.randn(64, 16), torch.randint(100_000, (64,))
    adam, losses = torch.optim.Adam(model.parameters(), 0.01), []
    for _ in range(steps):
        adam.zero_grad()
        loss = nn.functional.nll_loss(model(x), y)
        loss.backward()
        adam.step()
        losses.append(loss.item())
    print(losses[0], losses[-1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *losses, (peak,) = [[float(number) for number in line.split()] for line in run.stdout.splitlines()]
    for first, last in losses:
        assert first == pytest.approx(math.log(100_000), rel=0.02)
        assert last < first
    assert peak * 1024 < 2e9
