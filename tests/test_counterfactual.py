"""Counterfactuals: geometry in closed form, the search, limits, honesty, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from punn import PUNN, PUNNClassifier
from punn.gates import Ball, Ellipsoid
from punn.gates.radii import softplus_inverse
from punn.nearest import Box, UnreachableError, nearest_on_shape, search


def disc(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(n, 2)) * [3.0, 0.5] + [10.0, -4.0]
    return x, np.where(np.hypot(*((x - [10, -4]) / [3, 0.5]).T) < 1, "in", "out")


@pytest.fixture(scope="module")
def model() -> PUNNClassifier:
    return PUNNClassifier("ball", restarts=1, epochs=60, random_state=0).fit(*disc())


def box(start: Any, free: Any = None, low: float = -np.inf, high: float = np.inf) -> Box:
    start = np.asarray(start, dtype=float)
    free = np.ones(len(start), dtype=bool) if free is None else np.array(free)
    return Box(start, np.full(len(start), low), np.full(len(start), high), free)


def ellipsoid(growth: list[float], tilt: float | None = None) -> PUNN:
    shape = Ellipsoid(len(growth), 1, full=tilt is not None).double()
    shape.raw_growth.data = softplus_inverse(torch.tensor([growth]).double())
    if shape.tilt is not None:
        shape.tilt.data[:] = tilt
    return PUNN(shape).double().eval()


# Closed form


def test_ball_against_geometry(model: PUNNClassifier) -> None:
    shape, scaling = model.network_.gates, model.network_.scaling
    assert isinstance(shape, Ball)
    mean, scale = scaling.mean.numpy(), scaling.scale.numpy()
    center, radius = shape.center.detach().numpy()[0], float(shape.radius.detach())
    for x in ([10.3, -4.1], [17.0, -3.0]):
        change = model.counterfactual(x)
        z = (np.array(x) - mean) / scale
        nearest = mean + scale * (center + radius * (z - center) / np.linalg.norm(z - center))
        assert change.found
        assert change.method == "closed form"
        assert_allclose(change.x_new, nearest, rtol=1e-5)
        assert change.distance == pytest.approx(abs(np.linalg.norm(z - center) - radius), rel=1e-4)
        assert {change.before, change.after} == {"in", "out"}
        assert model.predict([change.x_new]).tolist() == [change.after]
        assert list(change.flipped) == ["in"]


def test_fixed_feature_leaves_a_smaller_ball(model: PUNNClassifier) -> None:
    change = model.counterfactual([17.0, -4.2], "in", fixed=[1])
    shape, scaling = model.network_.gates, model.network_.scaling
    mean, scale = scaling.mean.numpy(), scaling.scale.numpy()
    center, radius = shape.center.detach().numpy()[0], float(shape.radius.detach())
    across = (-4.2 - mean[1]) / scale[1] - center[1]
    assert change.x_new is not None
    assert change.x_new[1] == -4.2
    assert change.x_new[0] == pytest.approx(mean[0] + scale[0] * (center[0] + np.sqrt(radius**2 - across**2)), rel=1e-5)


def test_ball_out_of_reach_is_said_to_be_so(model: PUNNClassifier) -> None:
    change = model.counterfactual([10.0, 20.0], "in", fixed=["x1"])
    assert not change.found
    assert change.x_new is None
    assert change.distance == np.inf
    assert change.changes == {}
    assert change.flipped == {}
    assert str(change).startswith("no change of the features that may change makes in win")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-3, 3), min_size=3, max_size=3),
    st.lists(st.floats(0.4, 3), min_size=3, max_size=3),
    st.none() | st.floats(-1, 1),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_nearest_point_of_an_ellipsoid(start: list[float], growth: list[float], tilt: float | None, free: Any) -> None:
    free[0] = True
    network = ellipsoid(growth, tilt)
    matrix = network.gates.matrix[0].detach().numpy()
    try:
        point = nearest_on_shape(network, box(start, free), [0])
    except UnreachableError:
        rows = np.random.default_rng(0).normal(size=(2000, 3)) * 3
        rows[:, ~np.array(free)] = np.array(start)[~np.array(free)]
        assert (np.einsum("ni,ij,nj->n", rows, matrix, rows) > 1).all()
        return
    assert point is not None
    assert_allclose(point @ matrix @ point, 1, atol=1e-6)
    assert_allclose(point[~np.array(free)], np.array(start)[~np.array(free)])
    # No other point of the boundary is nearer: rays in all free directions from the middle of the slice.
    rays = np.random.default_rng(1).normal(size=(4000, 3)) * free
    a, b = np.einsum("ni,ij,nj->n", rays, matrix, rays), 2 * rays @ matrix @ point
    other = point - (b / a)[:, None] * rays  # the second crossing of a line through the point
    gap = np.linalg.norm(other - start, axis=1) - np.linalg.norm(point - start)
    assert gap.min() > -1e-6


def test_center_of_a_ball_leaves_anywhere() -> None:
    network = PUNN(Ball(3, 1)).double().eval()
    point = nearest_on_shape(network, box([0.0, 0, 0]), [1])
    assert point is not None
    assert np.linalg.norm(point) == pytest.approx(1)


# The search


def test_search_agrees_with_geometry(model: PUNNClassifier) -> None:
    scaling = model.network_.scaling
    start = (np.array([17.0, -3.0]) - scaling.mean.numpy()) / scaling.scale.numpy()
    exact = nearest_on_shape(model.network_, box(start), [0])
    assert exact is not None
    found = search(model.network_, box(start), [0], 8, 0)
    nearest = min(found, key=lambda point: np.linalg.norm(point - start))
    assert_allclose(nearest, exact, atol=1e-3)


def test_bounds_are_kept(model: PUNNClassifier) -> None:
    free = model.counterfactual([17.0, -3.0], "in")
    change = model.counterfactual([17.0, -3.0], "in", bounds={"x0": (12.5, None), 1: (None, -2.0)})
    assert change.found
    assert change.method == "search"
    assert change.x_new is not None
    assert change.x_new[0] >= 12.5
    assert change.distance >= free.distance - 1e-9
    assert model.predict([change.x_new]).tolist() == ["in"]


def test_none_found_within_bounds(model: PUNNClassifier) -> None:
    change = model.counterfactual([17.0, -3.0], "in", bounds={0: (17.0, 30.0)}, restarts=4)
    assert not change.found
    assert "no change was found that makes in win within the given limits; 4 starts were tried" in str(change)


@pytest.mark.parametrize(("gates", "activation"), [("mlp", "auto"), ("ellipsoid", "auto"), ("shell", "compact_window")])
def test_any_model_and_many_classes(gates: str, activation: str) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 240)
    x = np.array([[0, 0, 0], [4, 0, 0], [0, 4, 0]])[y] + rng.normal(size=(240, 3))
    model = PUNNClassifier(gates, activation, hidden=(8,), restarts=2, epochs=60, random_state=0).fit(x, y)
    row = x[y == 0][0]
    any_other = model.counterfactual(row)
    assert any_other.found
    assert any_other.after != any_other.before
    wanted = [c for c in range(3) if c != any_other.before]
    single = [model.counterfactual(row, c) for c in wanted]
    assert any(change.found for change in single)
    for change in single:
        if change.found:
            assert model.predict([change.x_new]).tolist() == [change.after]
            assert change.after in wanted
            assert change.distance >= any_other.distance * 0.98


# The object


def test_prints_a_table_with_names() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = disc()
    frame = pandas.DataFrame(x, columns=["income", "age"])
    model = PUNNClassifier("ball", restarts=1, epochs=60, random_state=0).fit(frame, y)
    change = model.counterfactual(frame.iloc[0], fixed=["age"])
    again = model.counterfactual(x[0], fixed="age")
    assert change.found
    assert_allclose(change.x_new, again.x_new)
    text = str(change)
    assert " -> " in text
    assert "standard deviations" in text
    assert "income" in text
    assert "age" not in text
    assert "gate that flipped" in text
    assert list(change.changes) == ["income"]
    with pytest.raises(ValueError, match="feature names"):
        model.counterfactual(frame.rename(columns={"age": "years"}).iloc[[0]])


def test_row_of_the_class_already(model: PUNNClassifier) -> None:
    change = model.counterfactual([10.0, -4.0], "in")
    assert change.found
    assert change.distance == 0
    assert str(change) == "the row is in already: nothing has to change"


# Bad input


def test_bad_input(model: PUNNClassifier) -> None:
    with pytest.raises(NotFittedError):
        PUNNClassifier().counterfactual([1.0, 2.0])
    with pytest.raises(ValueError, match="expected one of the classes"):
        model.counterfactual([10.0, -4.0], "elsewhere")
    with pytest.raises(ValueError, match="expected one row of 2 features"):
        model.counterfactual(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="expected one row of 2 features"):
        model.counterfactual([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="NaN"):
        model.counterfactual([np.nan, 2.0])
    with pytest.raises(ValueError, match="expected a feature's name"):
        model.counterfactual([10.0, -4.0], fixed=["age"])
    with pytest.raises(ValueError, match="every feature is fixed"):
        model.counterfactual([10.0, -4.0], fixed=[0, 1])
    with pytest.raises(ValueError, match="bounds of 'x0' must be"):
        model.counterfactual([10.0, -4.0], bounds={0: (3, 1)})
