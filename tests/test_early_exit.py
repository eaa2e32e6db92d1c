"""Early exit gives the same labels as the full evaluation, always."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from punn import PUNN, PUNNClassifier
from punn.early_exit import early_exit
from punn.gates import Ball, ConstantRadius, Ellipsoid, HarmonicRadius, Hybrid, SeparateMLP, Shell


def fitted(network: PUNN, features: int) -> PUNNClassifier:
    """A classifier around a network that was not fitted."""
    model = PUNNClassifier()
    model.network_, model.n_features_in_ = network.eval(), features
    model.classes_ = np.arange(network.classes)
    return model


FAMILIES = {
    "mlp": lambda k: SeparateMLP(3, k, (5,)),
    "linear": lambda k: SeparateMLP(3, k, ()),
    "ball": lambda k: Ball(3, k),
    "ellipsoid": lambda k: Ellipsoid(3, k),
    "turned": lambda k: Ellipsoid(3, k, full=True),
    "shell": lambda k: Shell(ConstantRadius(3, k), HarmonicRadius(3, 2, k)),
    "hybrid": lambda k: Hybrid([Ball(3, 1), SeparateMLP(3, k - 1, (4,))], [[k - 1], list(range(k - 1))]),
}


@st.composite
def models(draw: st.DrawFn) -> PUNNClassifier:
    """Chains with any parts, activations and precision; weights of zero make exact ties, large ones saturate."""
    family = draw(st.sampled_from(sorted(FAMILIES)))
    gates = draw(st.integers(2 if family == "hybrid" else 1, 7))
    classes = draw(st.integers(1, gates + 1))
    more = draw(st.lists(st.integers(0, classes - 1), min_size=gates + 1 - classes, max_size=gates + 1 - classes))
    class_of = draw(st.permutations([*range(classes), *more]))
    names = st.sampled_from(["sigmoid", "gaussian", "bump", "window", "compact_window"])
    activation: Any = draw(st.lists(names, min_size=gates, max_size=gates) | names)
    torch.manual_seed(draw(st.integers(0, 1000)))
    module = FAMILIES[family](gates)
    size = draw(st.sampled_from([0.0, 1.0, 30.0]))
    for p in module.parameters():
        p.data = size * torch.randn_like(p)
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    return fitted(PUNN(module, activation, class_of).to(dtype), 3)


@settings(max_examples=300, deadline=None)
@given(models(), st.integers(1, 60), st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e6, 1e30]), st.integers(0, 100))
def test_same_labels_as_the_full_evaluation(model: PUNNClassifier, n: int, size: float, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(n, 3)) * size
    x[: n // 3] = x[0]  # rows that are the same
    result = early_exit(model, x)
    assert result.labels.tolist() == model.predict(x).tolist()
    assert result.evaluated.min() >= 1
    assert result.saved <= 1


@pytest.mark.parametrize("parts", [1, 3])
def test_a_fitted_model_saves_gates(parts: int) -> None:
    x, y = load_digits(return_X_y=True)
    model = PUNNClassifier("mlp", hidden=(16,), parts=parts, epochs=5, random_state=0).fit(x, y)
    plain = model.predict(x)
    assert (model.predict(x, exact_early_exit=True) == plain).all()
    assert 0.2 < model.early_exit_saved_ < 1
    result = early_exit(model, x)
    assert result.gates == 10 * parts - 1
    assert result.saved == pytest.approx(1 - result.evaluated.mean() / result.gates)
    assert "saved" in str(result)
    if parts == 1:  # what one gate takes for certain is decided there
        position = np.array([model.order_.tolist().index(label) for label in plain])
        sure = model.predict_proba(x).max(1) > 0.99
        assert (result.evaluated[sure] <= np.minimum(position[sure] + 1, 9)).all()


def test_the_first_gate_decides_where_it_is_sure() -> None:
    module = SeparateMLP(1, 3, ()).double()
    module.weights[0].data = torch.tensor([10.0, 0, 0]).double().view(3, 1, 1)
    module.biases[0].data = torch.zeros(3, 1).double()
    result = early_exit(fitted(PUNN(module).double(), 1), [[5.0], [-5.0]])
    assert result.labels.tolist() == [0, 1]  # 0.5, 0.25, 0.25 of what the first gate leaves
    assert result.evaluated.tolist() == [1, 3]


def test_later_parts_are_waited_for() -> None:
    module = SeparateMLP(1, 3, ()).double()
    module.weights[0].data = torch.zeros(3, 1, 1).double()
    q = torch.tensor([0.4, 0.5, 0.9]).double()  # h = 0.4, 0.3, 0.27, 0.03
    module.biases[0].data = q.logit().view(3, 1)
    result = early_exit(fitted(PUNN(module, "sigmoid", [0, 1, 1, 2]).double(), 1), [[0.0]])
    assert result.labels.tolist() == [1]
    assert result.evaluated.tolist() == [3]


def test_exact_tie_goes_to_the_first_class() -> None:
    module = SeparateMLP(1, 1, ()).double()
    for p in module.parameters():
        p.data.zero_()
    for class_of in ([0, 1], [1, 0]):
        assert early_exit(fitted(PUNN(module, "sigmoid", class_of).double(), 1), [[3.0]]).labels.tolist() == [0]


def test_refusals() -> None:
    x, y = load_digits(return_X_y=True)
    model = PUNNClassifier("shared", hidden=(4,), epochs=1, random_state=0)
    with pytest.raises(NotFittedError):
        model.predict(x, exact_early_exit=True)
    model.fit(x[:200], y[:200])
    with pytest.raises(ValueError, match="Shared computes all of its gates at once"):
        model.predict(x, exact_early_exit=True)
    other = PUNNClassifier("ball", restarts=1, epochs=1, random_state=0).fit(x[:200], y[:200])
    with pytest.raises(ValueError, match="features"):
        other.predict(x[:, :3], exact_early_exit=True)
