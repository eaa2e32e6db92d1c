"""One contract for every gate family: a new one adds a line to FAMILIES and inherits every check."""

import copy
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

from punn import PUNN
from punn.gates import (
    Ball,
    ConstantRadius,
    Ellipsoid,
    FourierRadius,
    HarmonicRadius,
    Hybrid,
    SeparateMLP,
    Shared,
    Shell,
)
from punn.gates.mlp import mlp

D = 2  # features


@dataclass
class Family:
    """How to build a family for a number of gates, and the activations that fit it."""

    build: callable
    activations: tuple = ("sigmoid",)


NETWORK = ("sigmoid", "gaussian", "bump")
WINDOWS = ("window", "compact_window")

FAMILIES = {
    "separate": Family(lambda gates: SeparateMLP(D, gates, (16, 16)), NETWORK),
    "shared": Family(lambda gates: Shared(nn.Sequential(mlp(D, (16,)), nn.Linear(16, gates)), gates), NETWORK),
    "features": Family(lambda gates: Shared(mlp(D, (16,)), gates, features=16), NETWORK),
    "coupled": Family(lambda gates: Shared(mlp(D, (16,)), gates, features=16, coupled=True)),
    "ball": Family(lambda gates: Ball(D, gates)),
    "ellipsoid": Family(lambda gates: Ellipsoid(D, gates)),
    "full ellipsoid": Family(lambda gates: Ellipsoid(D, gates, full=True)),
    "shell": Family(lambda gates: Shell(ConstantRadius(D, gates), ConstantRadius(D, gates)), WINDOWS),
    "fourier": Family(lambda gates: Shell(FourierRadius(3, gates), FourierRadius(3, gates)), WINDOWS),
    "harmonic": Family(lambda gates: Shell(HarmonicRadius(D, 2, gates), HarmonicRadius(D, 2, gates)), WINDOWS),
    "star": Family(lambda gates: Shell(None, HarmonicRadius(D, 3, gates)), WINDOWS),
    "hybrid": Family(
        lambda gates: (
            Hybrid([Ball(D, 1), SeparateMLP(D, gates - 1, (16,))], [[gates - 1], list(range(gates - 1))])
            if gates > 1
            else Hybrid([Ball(D, 1)])
        ),
    ),
}
#: Our own last layer is needed to start; a backbone that gives the arguments is left alone.
STARTING = {name: family for name, family in FAMILIES.items() if name != "shared"}
every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def network_of(family, gates=3, class_of=None):
    network = PUNN(family.build(gates), family.activations[0], class_of)
    for name, parameter in network.named_parameters():
        if name.endswith(("center", "coefficients", "tilt")):
            nn.init.normal_(parameter, std=0.5)
    return network


@every_family
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shape_and_dtype(family, dtype):
    gates = family.build(3).to(dtype)
    assert gates.gates == 3
    for n in (0, 1, 7):
        theta = gates(torch.randn(n, D, dtype=dtype))
        assert theta.shape == (n, 3)
        assert theta.dtype == dtype


@every_family
def test_a_gradient_reaches_every_parameter(family):
    network = network_of(family).double()
    x = torch.randn(40, D, dtype=torch.float64)
    nn.functional.nll_loss(network(x), torch.arange(40) % 4).backward()
    for name, parameter in network.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name
        reached = (parameter.grad != 0).float().mean()
        # All of a shape's numbers; of a network's weights, those behind a ReLU that is open somewhere.
        assert reached > 0.5 if "weight" in name or "bias" in name else reached == 1, name


@every_family
def test_gradients_agree_with_finite_differences(family):
    gates = network_of(family, gates=2).gates.double()
    names, parameters = zip(*gates.named_parameters(), strict=True)
    x = torch.randn(4, D, dtype=torch.float64)

    def run(*values):
        return functional_call(gates, dict(zip(names, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(run, parameters, fast_mode=True)


@every_family
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_row_alone_equals_the_row_in_a_batch(family, dtype):
    network = network_of(family, class_of=[0, 1, 0, 2]).to(dtype)
    x = torch.randn(9, D, dtype=dtype)
    alone = torch.cat([network(row[None]) for row in x])
    torch.testing.assert_close(network(x), alone, rtol=50 * torch.finfo(dtype).eps, atol=50 * torch.finfo(dtype).eps)


@every_family
def test_copies_are_equal_bit_for_bit(family):
    network = network_of(family)
    x = torch.randn(9, D)
    loaded = PUNN(family.build(3), family.activations[0])
    loaded.load_state_dict(network.state_dict())
    for other in (copy.deepcopy(network), loaded):
        assert torch.equal(other(x), network(x))
        for a, b in zip(other.parameters(), network.parameters(), strict=True):
            assert torch.equal(a, b)
            assert a is not b


@every_family
def test_devices(family):
    network = network_of(family, class_of=[0, 1, 0, 2]).to("meta")
    log_p = network(torch.empty(5, D, device="meta"))
    assert log_p.device.type == "meta"
    assert log_p.shape == (5, 3)
    assert all(tensor.device.type == "meta" for tensor in network.state_dict().values())


@every_family
def test_what_is_printed_is_in_true_units(family):
    text = repr(network_of(family))
    assert "raw" not in text
    assert "gates=3" in text


def test_a_printed_size_is_the_size():
    gates = Ball(2, 2)
    gates.start(torch.randn(20, 2), torch.arange(20) % 2, torch.zeros(2))
    assert f"radius=[{gates.radius[0].item():.3g}, {gates.radius[1].item():.3g}]" in repr(gates)


@every_family
def test_rows_can_be_mapped_over(family):
    network = network_of(family, class_of=[0, 1, 0, 2])
    x = torch.randn(6, D)
    torch.testing.assert_close(vmap(network)(x), network(x), rtol=1e-5, atol=1e-5)
    batches = torch.randn(2, 5, D)
    torch.testing.assert_close(vmap(network)(batches), torch.stack([network(b) for b in batches]), rtol=1e-5, atol=1e-5)


@every_family
@pytest.mark.parametrize("class_of", [None, [0, 1, 0, 2]])
def test_restarts_run_side_by_side(family, class_of):
    networks = [network_of(family, class_of=class_of) for _ in range(3)]
    parameters, buffers = stack_module_state(networks)
    x = torch.randn(6, D)

    def loss(parameters, buffers):
        return functional_call(networks[0], (parameters, buffers), (x,))[:, 0].sum()

    together = vmap(loss)(parameters, buffers)
    alone = [network(x)[:, 0].sum() for network in networks]
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-4, atol=1e-4)
    gradients = torch.autograd.grad(together.sum(), list(parameters.values()))
    for i, network in enumerate(networks):
        expected = torch.autograd.grad(alone[i], list(network.parameters()))
        for ours, theirs in zip(gradients, expected, strict=True):
            torch.testing.assert_close(ours[i], theirs, rtol=1e-3, atol=1e-4)


@every_family
def test_compiled_networks_agree(family):
    torch._dynamo.reset()
    network = network_of(family, class_of=[0, 1, 0, 2])
    x = torch.randn(9, D)
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)(x)
    torch.testing.assert_close(compiled, network(x))
    ours = torch.autograd.grad(compiled[:, 0].sum(), list(network.parameters()))
    expected = torch.autograd.grad(network(x)[:, 0].sum(), list(network.parameters()))
    for a, b in zip(ours, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore")  # inductor's own
@torch.no_grad()
def test_the_real_compiler_agrees():
    torch._dynamo.reset()
    network = network_of(FAMILIES["ball"], class_of=[0, 1, 0, 2])
    x = torch.randn(9, D)
    torch.testing.assert_close(torch.compile(network, fullgraph=True)(x), network(x), rtol=1e-4, atol=1e-5)


@every_family
@pytest.mark.parametrize("training", [True, False])
def test_the_center_and_far_away_have_a_value_and_a_gradient(family, training):
    for activation in family.activations:
        network = PUNN(family.build(2), activation).train(training)
        x = torch.tensor([[0.0, 0.0], [1e15, -1e15], [1e18, 1e18], [0.0, 1e18], [1e-30, 0.0]], requires_grad=True)
        log_p = network(x)
        assert not log_p.isnan().any()
        if training:
            assert torch.isfinite(log_p).all()
        else:
            torch.testing.assert_close(log_p.exp().sum(-1), torch.ones(5))
        gradients = torch.autograd.grad(log_p.sum(), [x, *network.parameters()])
        assert all(torch.isfinite(g).all() for g in gradients)


# The start -------------------------------------------------------------------------------------------------------


def rows_of(kind, k, n=900):
    """Classes with priors that fall like 1/i, as blobs or as rings around one center."""
    generator = torch.Generator().manual_seed(k)
    prior = 1 / torch.arange(1.0, k + 1)
    y = torch.multinomial(prior, n, True, generator=generator)
    v = torch.randn(n, D, generator=generator)
    if kind == "blobs":
        x = 2 * torch.randn(k, D, generator=generator)[y] + 0.7 * v
    else:
        noise = 0.15 * torch.randn(n, 1, generator=generator)
        x = nn.functional.normalize(v) * (1 + y.unsqueeze(-1) + noise)
    return (x - x.mean(0)) / x.std(0), y


@pytest.mark.parametrize("kind", ["blobs", "rings"])
@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("name", STARTING)
def test_every_function_starts_with_its_share(name, k, kind):
    x, y = rows_of(kind, k)
    share = torch.bincount(y, minlength=k) / len(y)
    for activation in STARTING[name].activations:
        network = PUNN(STARTING[name].build(k - 1), activation).eval()
        network.start(x, y)
        with torch.no_grad():
            mass = network.log_partition(x).exp().mean(0)
        torch.testing.assert_close(mass, share, rtol=0.03, atol=0.001, msg=lambda m, a=activation: f"{a}: {m}")


@pytest.mark.parametrize("k", [2, 10, 100])
@pytest.mark.parametrize("name", ["separate", "features"])
def test_bumps_cover_their_rows(name, k):
    x, y = rows_of("blobs", k)
    network = PUNN(STARTING[name].build(k - 1), "bump").eval()
    network.start(x, y)
    accept, _ = network.log_gates(x)
    assert torch.isfinite(accept).all()
    assert torch.isfinite(network(x)).all()


@pytest.mark.parametrize("name", ["shell", "fourier", "star"])
def test_compact_shells_cover_most_of_their_rows(name):
    x, y = rows_of("rings", 3)
    network = PUNN(STARTING[name].build(2), "compact_window").eval()
    network.start(x, y)
    accept, _ = network.log_gates(x)
    for i in range(2):
        assert (accept[y == i, i].exp() > 0).float().mean() > 0.9


@pytest.mark.parametrize("name", STARTING)
def test_a_start_is_deterministic_and_counts_weights(name):
    x, y = rows_of("blobs", 3)
    times = torch.arange(len(x)) % 3
    states = []
    for rows, part, weight in [
        (x, y, times.float()),
        (x, y, times.float()),
        (x.repeat_interleave(times, 0), y.repeat_interleave(times), None),
    ]:
        torch.manual_seed(1)
        network = PUNN(STARTING[name].build(2), STARTING[name].activations[0])
        network.start(rows, part, weight)
        states.append(network.eval().log_partition(x).detach())
    assert torch.equal(states[0], states[1])
    torch.testing.assert_close(states[0].exp(), states[2].exp(), rtol=0, atol=0.02)


def test_any_callable_starts_with_its_share():
    x, y = rows_of("blobs", 3)
    network = PUNN(
        SeparateMLP(D, 2), lambda theta: (nn.functional.logsigmoid(3 * theta), nn.functional.logsigmoid(-3 * theta))
    )
    network.start(x, y)
    mass = network.log_partition(x).exp().mean(0).detach()
    torch.testing.assert_close(mass, torch.bincount(y) / len(y), rtol=0.03, atol=0)


def test_a_shape_that_cannot_have_its_share_stays_near_its_rows():
    # A gaussian of a ball's argument is a ring: no radius gives it nine tenths of a blob.
    network = PUNN(Ball(D, 1), "gaussian")
    network.start(torch.randn(200, D), (torch.arange(200) % 10 == 0).long())
    assert 0.1 < network.gates.radius.item() < 20
