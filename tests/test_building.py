"""From names to a network."""

import numpy as np
import pytest
import torch

from punn.building import GATES, build_network, chain_order, class_of_chain, parts_of_classes
from punn.gates import SeparateMLP, Shared

CLASSES = np.array(["a", "b", "c"])


def test_auto_shares_a_network_among_many_functions():
    assert isinstance(build_network("auto", "auto", range(2), 4, (8,)).gates, SeparateMLP)
    many = build_network("auto", "auto", range(3), 4, (8,)).gates
    assert isinstance(many, Shared)
    assert many.coupled


@pytest.mark.parametrize("name", GATES)
def test_every_name_builds(name):
    network = build_network(name, "auto", [0, 1, 2], 2, (8,))
    assert network(torch.zeros(4, 2)).shape == (4, 3)


def test_shells_get_windows():
    network = build_network(["shell", "mlp"], "auto", [0, 1, 2], 2, (8,))
    assert network.activation.names == ["window", "sigmoid"]


def test_numbers_of_the_paper():
    counts = {
        ("mlp", "sigmoid", 2, 2): 1185,
        ("mlp", "bump", 2, 2): 1186,
        ("shell", "auto", 2, 2): 4,
        ("fourier", "auto", 2, 2): 24,
        ("shell", "auto", 2, 3): 8,
        ("ellipsoid", "auto", 4, 3): 18,
        ("harmonic", "auto", 4, 3): 36,
    }
    for (gates, activation, features, k), expected in counts.items():
        network = build_network(gates, activation, range(k), features, (32, 32))
        assert sum(p.numel() for p in network.parameters()) == expected, gates


def test_shared_gates_do_not_mix():
    with pytest.raises(ValueError, match="stand or fall together"):
        build_network(["shared", "mlp"], "auto", [0, 1, 2], 2, (8,))


def test_a_function_must_build_a_module():
    with pytest.raises(TypeError, match="must build a torch module, got int"):
        build_network(lambda features, gates: 3, "auto", [0, 1], 2, (8,))


def test_parts():
    assert parts_of_classes(2, CLASSES) == [2, 2, 2]
    assert parts_of_classes({"b": 3}, CLASSES) == [1, 3, 1]
    assert class_of_chain([0, 1, 2], [1, 3, 1]) == [0, 1, 2, 1, 1]
    for wrong in (0, -1, 1.5, True, {"b": 0}):
        with pytest.raises(ValueError, match="positive integer"):
            parts_of_classes(wrong, CLASSES)


def test_the_separable_class_comes_first():
    rng = np.random.RandomState(0)
    mixed, apart = rng.randn(200, 2), 50 + rng.randn(100, 2)
    x = torch.from_numpy(np.vstack([mixed, apart]))
    y = torch.from_numpy(np.r_[rng.randint(0, 2, 200), np.full(100, 2)])
    assert chain_order("separable", CLASSES, x, y, rng)[0] == 2
