"""The recursion against 50 digits of mpmath, against finite differences, and against torch's own losses."""

import math
from collections import Counter

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mpf

from punn import kernels
from punn.partition import (
    check_class_of,
    couple,
    gates_from_probabilities,
    log_class_probabilities,
    log_class_sums,
    log_partition,
    log_remaining,
    log_sigmoid_class_probabilities,
    log_sigmoid_gates,
    nll_loss,
)

mpmath.mp.dps = 50
DTYPES = [torch.float32, torch.float64]
WITHIN = {torch.float32: 1e-5, torch.float64: 1e-12}


@pytest.fixture(params=["kernels", "operators"], autouse=True, scope="module")
def way(request):
    """Every test here runs twice: with the compiled kernels, and with torch's operators alone."""
    compiled = kernels._functions
    if request.param == "kernels":
        assert compiled is not None, "the kernels were not compiled: pip install -e . with a C compiler"
    else:
        kernels._functions = None
    yield request.param
    kernels._functions = compiled


# The reference: plain arithmetic with 50 digits ------------------------------------------------------------------


def exact_logs(theta):
    """log q and log(1 - q) of a row of numbers."""
    return [-mpmath.log1p(mpmath.exp(-mpf(t))) for t in theta], [-mpmath.log1p(mpmath.exp(mpf(t))) for t in theta]


def exact_log_h(theta):
    accept, reject = exact_logs(theta)
    remaining = [mpf(0)]
    for r in reject:
        remaining.append(remaining[-1] + r)
    return [a + r for a, r in zip([*accept, mpf(0)], remaining, strict=True)]


def exact_log_sum(logs):
    return mpmath.log(mpmath.fsum(mpmath.exp(x) for x in logs))


def exact_loss_and_gradient(theta, target, class_of):
    """-log p of the target, and its gradient from q_i (1 - q_j) products, not from the closed form."""
    log_h = exact_log_h(theta)
    own = [i for i, c in enumerate(class_of) if c == target]
    log_p = exact_log_sum([log_h[i] for i in own])
    gradient = []
    for j, t in enumerate(theta):
        q = 1 / (1 + mpmath.exp(-mpf(t)))
        # d log h_i / d theta_j is 1 - q_j for i = j, -q_j for i > j, and 0 before.
        slopes = [(1 - q) if i == j else (-q if i > j else mpf(0)) for i in own]
        gradient.append(-mpmath.fsum(mpmath.exp(log_h[i] - log_p) * s for i, s in zip(own, slopes, strict=True)))
    return -log_p, gradient


def ulps(values, exact):
    """Distance in units of the last place of the exact number."""
    values = np.asarray(values.detach())
    spacing = [float(np.spacing(values.dtype.type(abs(e)))) for e in exact]
    return max(float(abs(mpf(float(v)) - e)) / s for v, e, s in zip(values, exact, spacing, strict=True))


@st.composite
def chains(draw, largest=1e4, most=40):
    """Gate arguments of any leading shape, in either precision."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = (*draw(st.lists(st.integers(1, 3), max_size=2)), draw(st.integers(1, most)))
    scale = draw(st.sampled_from([0.125, 1.0, 20.0, largest]))
    number = st.floats(-scale, scale, width=32)
    flat = draw(st.lists(number, min_size=math.prod(shape), max_size=math.prod(shape)))
    return torch.tensor(flat, dtype=dtype).view(shape)


# The partition ---------------------------------------------------------------------------------------------------


@given(chains())
@example(torch.full((1,), -1e4))
@example(torch.full((2, 39), 1e4, dtype=torch.float64))
def test_a_chain_is_finite_and_sums_to_one(theta):
    theta.requires_grad_()
    log_h = log_partition(*log_sigmoid_gates(theta))
    assert log_h.shape == (*theta.shape[:-1], theta.shape[-1] + 1)
    assert log_h.dtype == theta.dtype
    assert torch.isfinite(log_h).all()
    assert log_h.max() <= 0
    assert log_h.logsumexp(-1).abs().max() <= WITHIN[theta.dtype]
    (gradient,) = torch.autograd.grad(log_h.sum(), theta)
    assert torch.isfinite(gradient).all()


@settings(max_examples=40)
@given(chains(most=12))
def test_values_agree_with_mpmath_to_a_few_ulp(theta):
    log_h = log_partition(*log_sigmoid_gates(theta))
    k = log_h.shape[-1]
    for row, values in zip(theta.reshape(-1, k - 1), log_h.reshape(-1, k), strict=True):
        assert ulps(values, exact_log_h(row.tolist())) <= 4


# Arguments with few distinct values, so that a reference of 50 digits is quick for any length.
CHAINS = {
    "all alike": lambda k: torch.full((k - 1,), -math.log(k)),
    "nearly equal shares": lambda k: -(8 * torch.arange(k - 1, 0, -1).log()).round() / 8,
    "random": lambda k: torch.randint(-40, 41, (k - 1,)) / 4,
    "wide": lambda k: 100.0 * torch.randint(-100, 101, (k - 1,)),
    "all reject": lambda k: torch.full((k - 1,), -1e4),
    "all accept": lambda k: torch.full((k - 1,), 1e4),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", CHAINS)
@pytest.mark.parametrize("k", [2, 3, 10, 1000, 100_000])
def test_long_chains_keep_their_digits(k, kind, dtype):
    theta = CHAINS[kind](k).to(dtype).requires_grad_()
    log_h = log_partition(*log_sigmoid_gates(theta))
    assert torch.isfinite(log_h).all()
    assert float(log_h.detach().logsumexp(-1).abs()) <= WITHIN[dtype]
    (gradient,) = torch.autograd.grad(log_h.mean(), theta)
    assert torch.isfinite(gradient).all()
    # Plain cumulative sums of doubles lose up to 15,000 ulp here.
    numbers = theta.tolist()
    logs = {t: [x[0] for x in exact_logs([t])] for t in set(numbers)}
    places = sorted({0, 1, k // 3, k // 2, k - 2, k - 1})
    exact = []
    for i in places:
        reached = mpmath.fsum(count * logs[t][1] for t, count in Counter(numbers[:i]).items())
        exact.append(reached + (logs[numbers[i]][0] if i < k - 1 else 0))
    assert ulps(log_h[places], exact) <= 8


def test_half_precision_is_widened():
    theta = torch.randn(5, 999, dtype=torch.bfloat16)
    log_h = log_partition(*log_sigmoid_gates(theta))
    assert log_h.dtype == torch.float32
    assert log_h.logsumexp(-1).abs().max() < 1e-5


def test_remaining_is_the_product_of_what_was_rejected():
    reject = torch.rand(4, 3, 6, dtype=torch.float64)
    remaining = log_remaining(reject.log()).exp()
    for i in range(7):
        torch.testing.assert_close(remaining[..., i], reject[..., :i].prod(-1))


def test_a_gate_that_accepts_all_leaves_nothing():
    log_h = log_partition(torch.tensor([0.0, -1.0]), torch.tensor([-torch.inf, -1.0]))
    assert log_h.tolist() == [0.0, -math.inf, -math.inf]


def test_the_partition_needs_gates_of_one_shape():
    with pytest.raises(ValueError, match=r"one shape, got \(2,\) and \(3,\)"):
        log_partition(torch.zeros(2), torch.zeros(3))
    with pytest.raises(ValueError, match=r"at least one gate .* got shape \(4, 0\)"):
        log_partition(torch.zeros(4, 0), torch.zeros(4, 0))


# Sums over the parts of a class ----------------------------------------------------------------------------------


@st.composite
def class_maps(draw, k):
    """Any map from k functions onto classes: unbalanced, in any order."""
    classes = draw(st.integers(1, k))
    rest = draw(st.lists(st.integers(0, classes - 1), min_size=k - classes, max_size=k - classes))
    return draw(st.permutations([*range(classes), *rest]))


@settings(max_examples=60)
@given(st.data())
def test_class_sums_agree_with_mpmath(data):
    theta = data.draw(chains(most=8))
    class_of = data.draw(class_maps(theta.shape[-1] + 1))
    log_h = log_partition(*log_sigmoid_gates(theta))
    log_p = log_class_sums(log_h, torch.tensor(class_of))
    assert log_p.shape == (*theta.shape[:-1], max(class_of) + 1)
    for row, values in zip(
        log_h.reshape(-1, len(class_of)).tolist(), log_p.reshape(-1, max(class_of) + 1), strict=True
    ):
        for c, value in enumerate(values.tolist()):
            own = [mpf(h) for h, d in zip(row, class_of, strict=True) if d == c]
            size = max(1.0, abs(float(max(own))))
            assert abs(value - float(exact_log_sum(own))) <= 4 * torch.finfo(theta.dtype).eps * size


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("class_of", "gates"),
    [
        (torch.arange(60) % 20, 59),  # turns, over whole vectors and the rest
        (torch.arange(8) % 2, 7),
        (torch.tensor([0, 0, 1, 2, 1, 0]), 5),
        (torch.tensor([2, 0, 1]), 2),
        (torch.tensor([0, 0]), 1),
    ],
)
def test_class_probabilities_are_the_sums_of_the_partition(dtype, class_of, gates):
    theta = 20 * torch.randn(9, 3, gates, dtype=dtype, generator=torch.Generator().manual_seed(0))
    logs, classes = log_sigmoid_gates(theta), int(class_of.max()) + 1
    expected = log_class_sums(log_partition(*(log.double() for log in logs)), class_of)
    # The operators are what runs where a gradient is wanted.
    for wanted in (False, True):
        given = [x.clone().requires_grad_(wanted) for x in (*logs, theta)]
        for count in (None, classes):
            from_logs = log_class_probabilities(*given[:2], class_of, count)
            from_theta = log_sigmoid_class_probabilities(given[2], class_of, count)
            for log_p in (from_logs, from_theta):
                assert log_p.requires_grad == wanted
                torch.testing.assert_close(log_p.detach().double(), expected, rtol=2e-6, atol=2e-6)


def test_class_probabilities_want_logs_of_one_shape():
    with pytest.raises(ValueError, match="must have one shape"):
        log_class_probabilities(torch.zeros(2, 3), torch.zeros(2, 2), torch.tensor([0, 1, 0, 1]))


@pytest.mark.parametrize("inference", [False, True])
def test_a_map_that_changes_is_looked_at_again(inference):
    theta, target = torch.randn(4, 3), torch.zeros(4, dtype=torch.int64)
    with torch.inference_mode(inference):
        class_of = torch.tensor([0, 0, 1, 1])
        first = nll_loss(theta, target, class_of)
        class_of.copy_(torch.tensor([1, 0, 1, 0]))
        second = nll_loss(theta, target, class_of)
    log_p = log_class_sums(log_partition(*log_sigmoid_gates(theta)), torch.tensor([1, 0, 1, 0]))
    torch.testing.assert_close(second, F.nll_loss(log_p, target))
    assert first != second


def test_maps_of_any_integers_are_taken_and_wrong_ones_refused():
    theta = torch.randn(3, 3)
    for class_of in (torch.tensor([0, 1, 0, 1], dtype=torch.int32), torch.tensor([0, 9, 1, 9, 0, 9, 1, 9])[::2]):
        expected = log_class_sums(log_partition(*log_sigmoid_gates(theta.double())), class_of.long())
        log_p = log_sigmoid_class_probabilities(theta, class_of)
        torch.testing.assert_close(log_p.double(), expected, rtol=1e-5, atol=1e-5)
    # C would read and write elsewhere; operators look at what they are given by themselves.
    for wrong in ([0, 1, -1, 1], [0, 2, 0, 2]) if kernels.usable(theta) else ():
        with pytest.raises(ValueError, match="class"):
            log_sigmoid_class_probabilities(theta, torch.tensor(wrong))


def test_class_sums_pass_gradcheck():
    class_of = torch.tensor([2, 0, 2, 1, 0, 2])
    log_h = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda h: log_class_sums(h, class_of), log_h)


@pytest.mark.parametrize("class_of", [[0, 1, 0], [0, 1, 2], [2, 0, 1]])
def test_a_class_of_zeros_has_a_zero_gradient(class_of):
    log_h = torch.tensor([0.0, -torch.inf, -torch.inf]).requires_grad_()
    log_p = log_class_sums(log_h, torch.tensor(class_of))
    assert torch.isneginf(log_p).any()
    assert not log_p.isnan().any()
    (gradient,) = torch.autograd.grad(log_p.exp().sum(), log_h)
    assert gradient.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("class_of", "error", "message"),
    [
        ([0], ValueError, "k >= 2 functions, got class_of of length 1"),
        ([0, 2, 0], ValueError, "every class from 0 to 2, class 1 has no part"),
        ([0, -1, 1], ValueError, "counted from 0, got class -1"),
        ([0.0, 1.0], TypeError, "vector of integers.*float32"),
        ([[0, 1]], TypeError, r"vector of integers.*shape \(1, 2\)"),
        ([True, False], TypeError, "vector of integers.*bool"),
    ],
)
def test_a_bad_class_of_is_named(class_of, error, message):
    with pytest.raises(error, match=message):
        check_class_of(class_of)


def test_class_of_must_fit_the_chain():
    with pytest.raises(ValueError, match=r"each of the 4 partition functions .* got 3"):
        check_class_of([0, 1, 2], 4)


# Scores to gate arguments ----------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=2, max_size=12), st.sampled_from(DTYPES))
def test_coupled_gates_are_those_of_a_softmax(scores, dtype):
    z = torch.tensor(scores, dtype=dtype, requires_grad=True)
    log_h = log_partition(*log_sigmoid_gates(couple(z)))
    total = exact_log_sum([mpf(s) for s in scores])
    exact = torch.tensor([float(mpf(s) - total) for s in scores], dtype=torch.float64)
    scale = 1 + max(scores) - min(scores)
    torch.testing.assert_close(log_h.detach().double(), exact, rtol=0, atol=20 * torch.finfo(dtype).eps * scale)
    (gradient,) = torch.autograd.grad(log_h[0], z)
    softmax = torch.softmax(z.detach().double(), -1)
    expected = (torch.arange(len(z)) == 0).double() - softmax
    torch.testing.assert_close(gradient.double(), expected, rtol=0, atol=20 * torch.finfo(dtype).eps)


@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_coupling_holds_for_many_functions(dtype, within):
    z = 3 * torch.randn(2, 10_000, dtype=dtype)
    log_h = log_partition(*log_sigmoid_gates(couple(z)))
    torch.testing.assert_close(log_h.double(), z.double().log_softmax(-1), rtol=0, atol=within)


# The inverse -----------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30).filter(lambda p: sum(p) > 0.1), st.sampled_from(DTYPES))
@example([0.0, 0.0, 1.0], torch.float32)
@example([1.0, 0.0, 0.0], torch.float64)
@example([0.0, 1.0, 0.0, 0.0], torch.float32)
@example([0.5, 0.0, 0.0, 0.5], torch.float32)
def test_probabilities_come_back_from_their_gates(weights, dtype):
    p = torch.tensor(weights, dtype=torch.float64)
    p = (p / p.sum()).to(dtype)
    q = gates_from_probabilities(p)
    assert ((q >= 0) & (q <= 1)).all()
    back = log_partition(q.log(), torch.log1p(-q)).exp()
    torch.testing.assert_close(back, p, rtol=0, atol=4 * torch.finfo(dtype).eps)
    assert (back[p == 0] == 0).all()


def test_where_nothing_remains_the_gate_is_zero():
    assert gates_from_probabilities(torch.tensor([[0.0, 1.0, 0.0, 0.0]])).tolist() == [[0.0, 1.0, 0.0]]


def test_the_inverse_takes_half_precision_and_batches():
    p = torch.randn(2, 3, 5).softmax(-1)
    assert gates_from_probabilities(p.bfloat16()).dtype == torch.float32
    assert gates_from_probabilities(p).shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("p", "error", "message"),
    [
        (torch.tensor([1, 0]), TypeError, "floating point tensor, got torch.int64"),
        (torch.tensor([1.0]), ValueError, r"k >= 2 probabilities .* got shape \(1,\)"),
        (torch.tensor([0.5, 0.6]), ValueError, "sum to one"),
        (torch.tensor([1.5, -0.5]), ValueError, "not negative"),
        (torch.tensor([math.nan, 1.0]), ValueError, "finite"),
        (torch.tensor([math.inf, 0.0]), ValueError, "finite"),
    ],
)
def test_what_is_no_probability_is_refused(p, error, message):
    with pytest.raises(error, match=message):
        gates_from_probabilities(p)


# The loss --------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.data())
def test_loss_and_gradient_agree_with_mpmath(data):
    theta = data.draw(chains(most=7)).reshape(-1)
    class_of = data.draw(class_maps(len(theta) + 1))
    target = data.draw(st.integers(0, max(class_of)))
    theta.requires_grad_()
    loss = nll_loss(theta, torch.tensor(target), class_of)
    (gradient,) = torch.autograd.grad(loss, theta)
    exact, exact_gradient = exact_loss_and_gradient(theta.tolist(), target, class_of)
    eps = torch.finfo(theta.dtype).eps
    # A sum over parts takes a logarithm near its own size; shares inherit the absolute error of log h.
    size = max(1.0, max(abs(float(h)) for h in exact_log_h(theta.tolist()))) if len(set(class_of)) <= len(theta) else 1
    assert abs(loss.detach().item() - float(exact)) <= 8 * eps * max(size, float(exact))
    expected = torch.tensor([float(g) for g in exact_gradient], dtype=torch.float64)
    torch.testing.assert_close(gradient.double(), expected, rtol=8 * eps, atol=8 * eps * size)


@pytest.mark.parametrize("class_of", [None, [3, 1, 0, 2], [0, 1, 0, 1], [1, 1, 0, 1]])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_torchs_loss_of_the_class_sums(class_of, reduction, weighted):
    theta = (2 * torch.randn(2, 5, 3, dtype=torch.float64)).requires_grad_()
    pi = torch.arange(4) if class_of is None else torch.tensor(class_of)
    classes = int(pi.max()) + 1
    target = torch.randint(classes, (2, 5))
    weight = torch.rand(classes, dtype=torch.float64) + 0.1 if weighted else None
    loss = nll_loss(theta, target, class_of, weight, reduction)
    log_p = log_class_sums(log_partition(F.logsigmoid(theta), F.logsigmoid(-theta)), pi)
    expected = F.nll_loss(log_p.flatten(0, 1), target.flatten(), weight, reduction=reduction)
    torch.testing.assert_close(loss, expected.view(loss.shape))
    seed = torch.rand_like(loss)
    (gradient,) = torch.autograd.grad(loss, theta, seed, retain_graph=True)
    (expected_gradient,) = torch.autograd.grad(expected, theta, seed.view(expected.shape))
    torch.testing.assert_close(gradient, expected_gradient)
    assert torch.autograd.gradcheck(lambda t: nll_loss(t, target, class_of, weight, reduction), theta)


def test_known_numbers():
    theta = torch.full((4,), 10.0, requires_grad=True)
    loss = nll_loss(theta, torch.tensor(4))
    loss.backward()
    # log(h + 1e-10) gives 15.9 and a gradient of zero.
    assert loss.item() == pytest.approx(40.0002, abs=1e-4)
    assert theta.grad.tolist() == pytest.approx([1.0] * 4, abs=1e-4)


@pytest.mark.parametrize("argument", [17.0, 40.0, 88.0, 1e4])
@pytest.mark.parametrize("class_of", [None, [0, 1, 2, 0, 1]])
def test_large_arguments_have_a_finite_loss_and_gradient(argument, class_of):
    theta = torch.full((3, 4), argument, requires_grad=True)
    loss = nll_loss(theta, torch.tensor([0, 1, 2]), class_of)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(theta.grad).all()
    assert theta.grad.abs().sum() > 0


def test_nothing_after_the_true_class_matters():
    theta = torch.randn(1, 6, requires_grad=True)
    nll_loss(theta, torch.tensor([2])).backward()
    assert theta.grad[0, 3:].tolist() == [0.0, 0.0, 0.0]
    assert (theta.grad[0, :3] != 0).all()


@pytest.mark.parametrize("class_of", [None, [0, 1, 2, 0]])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_arguments_lose_only_their_own_digits(dtype, class_of):
    theta = torch.randn(8, 3).to(dtype).requires_grad_()
    target = torch.randint(3, (8,))
    loss = nll_loss(theta, target, class_of)
    loss.backward()
    assert loss.dtype == torch.float32
    assert theta.grad.dtype == dtype
    torch.testing.assert_close(loss.double(), nll_loss(theta.detach().double(), target, class_of), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_targets_may_be_any_integers(dtype):
    theta, target = torch.randn(3, 2), torch.tensor([2, 0, 1])
    torch.testing.assert_close(nll_loss(theta, target.to(dtype)), nll_loss(theta, target))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"target": torch.tensor([0, 3])}, ValueError, "classes from 0 to 2, got 0 to 3"),
        ({"target": torch.tensor([-1, 0])}, ValueError, "classes from 0 to 2, got -1 to 0"),
        ({"target": torch.tensor([0.0, 1.0])}, TypeError, "classes as integers, got torch.float32"),
        ({"target": torch.tensor([0])}, ValueError, r"expected shape \(2,\), got \(1,\)"),
        ({"theta": torch.zeros(2, 2, dtype=torch.long)}, TypeError, "floating point tensor, got torch.int64"),
        ({"theta": torch.zeros(2, 0)}, ValueError, r"at least one gate .* got shape \(2, 0\)"),
        ({"class_of": [0, 1]}, ValueError, "each of the 3 partition functions .* got 2"),
        ({"class_of": [0, 2, 0]}, ValueError, "class 1 has no part"),
        ({"weight": torch.ones(2)}, ValueError, r"shape \(3,\), got \(2,\)"),
        ({"reduction": "median"}, ValueError, "'mean', 'sum' or 'none', got 'median'"),
    ],
)
def test_bad_input_to_the_loss_is_named(arguments, error, message):
    good = {"theta": torch.zeros(2, 2), "target": torch.tensor([0, 1])}
    with pytest.raises(error, match=message):
        nll_loss(**(good | arguments))


# Memory ----------------------------------------------------------------------------------------------------------


def peak_bytes(run):
    """Largest number of bytes that torch held at once, above what it held before."""
    with torch.profiler.profile(profile_memory=True) as profile:
        run()
    held = peak = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("parts", [1, 10])
@pytest.mark.parametrize("what", ["loss", "partition"])
def test_memory_is_a_small_multiple_of_the_partition(what, parts):
    n, k = 64, 100_000
    class_of = torch.arange(k) % (k // parts)
    theta = torch.randn(n, k - 1, requires_grad=True)

    def loss():
        nll_loss(theta, torch.arange(n), class_of).backward()

    def partition():
        log_p = log_class_sums(log_partition(*log_sigmoid_gates(theta)), class_of, k // parts)
        log_p[:, 0].sum().backward()

    peak = peak_bytes(loss if what == "loss" else partition)
    unit = 4 * n * k
    assert unit <= peak <= 12 * unit
