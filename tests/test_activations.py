"""Activations against 50 digits of mpmath, their gradients everywhere, and a dead gate that comes back."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf
from torch import nn

from punn import PUNN
from punn.activations import ACTIVATIONS, Activation, argument_for, bump, compact_window, gaussian, sigmoid, window
from punn.gates import SeparateMLP, Shared

mpmath.mp.dps = 50
DTYPES = [torch.float32, torch.float64]
LOCALISED = ["gaussian", "bump", "compact_window"]


def _compact(v):
    return v / (1 - v) if v < 1 else mpmath.inf


#: The cost a, with q = exp(-a), by definition.
COSTS = {
    "sigmoid": lambda t: mpmath.log1p(mpmath.exp(-t)),
    "gaussian": lambda t: t**2,
    "bump": lambda t: t**2 / (1 - t**2) if abs(t) < 1 else mpmath.inf,
    "window": lambda t: mpmath.log1p(mpmath.exp(-20 * t)) + mpmath.log1p(mpmath.exp(-20 * (1 - t))),
    "compact_window": lambda t: _compact((2 * t - 1) ** 4),
}


def grid(dtype):
    """A dense grid, the edges and their neighbours, and extremes."""
    numbers = np.dtype("float32" if dtype == torch.float32 else "float64").type
    edges = [np.nextafter(numbers(e), numbers(side)) for e in (-1, 0, 1) for side in (-9, 9)]
    far = [s * v for s in (1, -1) for v in (1e-30, 1e-10, 1e-3, 0.999, 30, 1e4, 1e30)]
    return torch.tensor([*np.linspace(-2, 3, 501), *edges, *far, 0.0, 1.0, -1.0], dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_agree_with_mpmath(name, dtype):
    theta = grid(dtype)
    accept, reject = ACTIVATIONS[name](theta)
    eps, tiny, most = (getattr(torch.finfo(dtype), x) for x in ("eps", "tiny", "max"))
    for t, a, r in zip(theta.tolist(), accept.tolist(), reject.tolist(), strict=True):
        cost = COSTS[name](mpf(t))
        if cost > most:
            assert (a, r) == (-math.inf, 0.0)
            continue
        assert abs(a + cost) <= 6 * eps * cost + tiny, (t, a)
        if cost < tiny:
            continue
        # What is rejected depends on e^-cost, which a rounding of the cost moves by cost times as much.
        exact = mpmath.log(-mpmath.expm1(-cost)) if cost < 1 else mpmath.log1p(-mpmath.exp(-cost))
        assert abs(r - exact) <= (6 + 6 * float(cost)) * eps * abs(exact) + tiny, (t, r)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_accepted_and_rejected_sum_to_one(name, dtype):
    accept, reject = ACTIVATIONS[name](grid(dtype))
    total = accept.exp() + reject.exp()
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=4 * torch.finfo(dtype).eps)
    assert (accept <= 0).all()
    assert (reject <= 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_compact_gates_are_exactly_zero_outside_and_only_there(dtype):
    eps = torch.finfo(dtype).eps
    outside = torch.tensor([1, 1 + eps, 2, 1e4, 1e30], dtype=dtype)
    for theta in (outside, -outside):
        assert (bump(theta)[0].exp() == 0).all()
        assert (bump(theta)[1] == 0).all()
    for theta in (outside, 1 - outside):
        assert (compact_window(theta)[0].exp() == 0).all()
    inside = torch.tensor([1 - eps, -1 + eps], dtype=dtype)
    assert torch.isfinite(bump(inside)[0]).all()
    assert bump(torch.zeros(1, dtype=dtype))[0] == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "low", "high"), [("gaussian", -9, 9), ("bump", -0.89, 0.89), ("compact_window", 0.03, 0.97)]
)
def test_inside_the_edge_the_continuation_is_the_activation(name, low, high, dtype):
    theta = torch.linspace(low, high, 400, dtype=dtype)  # an even number: the peak is not among them
    theta = theta[(theta - (low + high) / 2).abs() > 0.1 * (high - low)]
    for exact, continued in zip(ACTIVATIONS[name](theta), ACTIVATIONS[name](theta, continued=True), strict=True):
        torch.testing.assert_close(continued, exact, rtol=300 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_agree_with_finite_differences(name):
    theta = torch.tensor([-0.8, -0.3, 0.11, 0.4, 0.7, 0.85], dtype=torch.float64, requires_grad=True)
    if name == "compact_window":
        theta = (theta.detach() * 0.5 + 0.5).requires_grad_()
    assert torch.autograd.gradcheck(ACTIVATIONS[name], theta)
    if name in LOCALISED:  # and past the edge, for the continuation
        far = torch.tensor([-40.0, -1.5, 1.5, 40.0], dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda t: ACTIVATIONS[name](t, continued=True), far)


@pytest.mark.parametrize("continued", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_are_finite_everywhere(name, dtype, continued):
    theta = grid(dtype).unsqueeze(-1).requires_grad_()
    accept, reject = Activation(name, 1).to(dtype)(theta, continued)
    assert not accept.isnan().any()
    assert not reject.isnan().any()
    if continued:
        assert torch.isfinite(accept).all()
        assert torch.isfinite(reject).all()
    for logs in (accept, reject):
        (gradient,) = torch.autograd.grad(logs.sum(), theta, retain_graph=True)
        assert torch.isfinite(gradient).all()


@given(st.floats(-(2.0**100), 2.0**100, width=32), st.sampled_from(LOCALISED), st.sampled_from(DTYPES))
def test_no_argument_makes_training_infinite(number, name, dtype):
    theta = torch.tensor([[number]], dtype=dtype, requires_grad=True)
    for logs in Activation(name, 1).to(dtype)(theta, continued=True):
        (gradient,) = torch.autograd.grad(logs.sum(), theta, retain_graph=True)
        assert torch.isfinite(logs).all()
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", ["bump", "compact_window"])
def test_outside_its_support_a_gate_is_led_back(name):
    theta = torch.tensor([-3.0, 3.0], requires_grad=True)
    accept, _ = ACTIVATIONS[name](theta, continued=True)
    (gradient,) = torch.autograd.grad(accept.sum(), theta)
    assert gradient[0] > 1
    assert gradient[1] < -1


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_argument_for_is_an_inverse(name):
    q = torch.tensor([1e-5, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.99], dtype=torch.float64)
    theta = argument_for(name, q)
    torch.testing.assert_close(ACTIVATIONS[name](theta)[0].exp(), q, rtol=1e-9, atol=0)
    # Of two arguments, the larger one: a little further out accepts less; a sigmoid accepts more.
    further = ACTIVATIONS[name](theta + 1e-4)[0].exp()
    assert ((further > q) if name == "sigmoid" else (further < q)).all()


def test_argument_for_finds_its_way_through_a_callable():
    for q in (0.01, 0.3, 0.9):
        theta = argument_for(lambda t: sigmoid(2 * t), torch.tensor(q))
        assert float((2 * theta).sigmoid()) == pytest.approx(q, rel=0.01)


def test_a_dead_bump_is_trained_alive():
    # The gate's class lies around x = 5, where the gate is exactly zero.
    x = torch.cat([5 + 0.1 * torch.randn(50, 1), torch.zeros(50, 1)])
    y = torch.cat([torch.zeros(50), torch.ones(50)]).long()
    network = PUNN(Shared(nn.Linear(1, 1), 1), "bump")
    with torch.no_grad():
        network.gates.backbone.weight.fill_(1.0)
        network.gates.backbone.bias.fill_(0.5)
    assert (network.eval()(x).exp()[y == 0, 0] == 0).all()
    optimizer = torch.optim.Adam(network.parameters(), 0.1)
    network.train()
    for _ in range(300):
        loss = nn.functional.nll_loss(network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert torch.isfinite(loss)
    probabilities = network.eval()(x).exp()
    assert (probabilities[y == 0, 0] > 0.8).all()
    assert (probabilities[y == 1, 1] > 0.8).all()


def test_a_bump_has_one_width_more():
    count = lambda network: sum(p.numel() for p in network.parameters())  # noqa: E731
    assert count(PUNN(SeparateMLP(2, 1, (32, 32)), "sigmoid")) == 1185
    assert count(PUNN(SeparateMLP(2, 1, (32, 32)), "bump")) == 1186
    assert count(PUNN(SeparateMLP(2, 3, (32, 32)), ["bump", "sigmoid", "bump"])) == 3 * 1185 + 2


def test_a_width_scales_the_argument_and_learns():
    activation = Activation("bump", 2).double()
    with torch.no_grad():
        activation.raw_width.copy_(torch.tensor([0.5, 3.0]).expm1().log())
    torch.testing.assert_close(activation.width, torch.tensor([0.5, 3.0]).double(), rtol=1e-6, atol=0)
    theta = torch.tensor([[0.3, 0.3]], dtype=torch.float64)
    accept, _ = activation(theta)
    torch.testing.assert_close(accept, bump(theta / activation.width)[0])
    accept.sum().backward()
    assert (activation.raw_width.grad > 0).all()


def test_no_width_can_divide_by_zero():
    activation = Activation("bump", 1)
    with torch.no_grad():
        activation.raw_width.fill_(-1e4)
    accept, reject = activation(torch.tensor([[0.0], [1.0]]), continued=True)
    assert torch.isfinite(accept).all()
    assert torch.isfinite(reject).all()


def test_every_gate_may_have_its_own_activation():
    def half(theta):
        return torch.full_like(theta, 0.5).log(), torch.full_like(theta, 0.5).log()

    theta = torch.rand(5, 6)
    names = ["bump", "sigmoid", half, "gaussian", "window", "bump"]
    mixed = Activation(names, 6)(theta)
    for i, name in enumerate(names):
        alone = name(theta[:, i]) if callable(name) else ACTIVATIONS[name](theta[:, i])
        for together, single in zip(mixed, alone, strict=True):
            torch.testing.assert_close(together[:, i], single)
    assert str(Activation(names, 6)) == "Activation(bump, sigmoid, half, gaussian, window, bump, width=[1, 1])"


@pytest.mark.parametrize("activation", [sigmoid, gaussian, window])
def test_a_callable_is_as_good_as_its_name(activation):
    theta = torch.randn(4, 3)
    for one, other in zip(Activation(activation, 3)(theta), Activation(activation.__name__, 3)(theta), strict=True):
        torch.testing.assert_close(one, other)


def test_half_precision_is_widened():
    assert all(logs.dtype == torch.float32 for logs in Activation("window", 2)(torch.rand(3, 2).bfloat16()))


@pytest.mark.parametrize(
    ("activation", "error", "message"),
    [
        ("relu", ValueError, "unknown activation 'relu': use one of sigmoid, gaussian, bump, window"),
        (["sigmoid", "tanh"], ValueError, "unknown activation 'tanh'"),
        (["sigmoid"], ValueError, r"one per gate \(2\), got 1"),
        (3, TypeError, "a name, a callable, or a list of them, got int"),
    ],
)
def test_what_is_no_activation_is_refused(activation, error, message):
    with pytest.raises(error, match=message):
        Activation(activation, 2)
