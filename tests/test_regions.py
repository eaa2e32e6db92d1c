"""Regions: shapes in the user's units, coverage, cards, bad input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from punn import PUNN, PUNNClassifier
from punn.gates import Ball, ConstantRadius, Ellipsoid, FourierRadius, Hybrid, SeparateMLP, Shell
from punn.gates.radii import softplus_inverse
from punn.geometry import distances, outline_of
from punn.network import Standardize
from punn.regions import build_regions, coverage_of

MEAN, SCALE = np.array([10.0, -2.0]), np.array([4.0, 0.5])


def network(gates: torch.nn.Module, activation: Any = "sigmoid", class_of: Any = None) -> PUNN:
    scaling = Standardize(torch.from_numpy(MEAN), torch.from_numpy(SCALE))
    return PUNN(gates.double(), activation, class_of, scaling).double().eval()


def ball(center: list[float], radius: float, sharpness: float) -> Ball:
    shape = Ball(2, 1).double()
    shape.center.data = torch.tensor([center]).double()
    shape.raw_radius.data = softplus_inverse(torch.tensor([radius]).double())
    shape.raw_sharpness.data = softplus_inverse(torch.tensor([sharpness]).double())
    return shape


def gate_at(model: PUNN, x: Any) -> np.ndarray:
    with torch.no_grad():
        return model.log_gates(torch.as_tensor(np.atleast_2d(x)).double())[0].exp().numpy()[:, 0]


def data(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(n, 2)) * SCALE + MEAN
    return x, np.where(np.hypot(*((x - MEAN) / SCALE).T) < 1, "in", "out")


# Outlines


def test_ball_is_an_ellipsoid_in_the_users_units() -> None:
    outline = outline_of(network(ball([0.5, -1.0], 1.5, 4.0)), 0)
    assert outline is not None
    assert_allclose(outline.center, [10 + 4 * 0.5, -2 - 0.5])
    assert outline.semi_axes is not None
    assert_allclose(outline.semi_axes, [4 * 1.5, 0.5 * 1.5])
    assert_allclose(outline.outer, [[6, 18], [-3.25, -1.75]])
    assert outline.sharpness == pytest.approx(6.0)
    assert outline.edge == pytest.approx(1 + np.log(9) / 4 / 1.5)
    assert outline.axes is None
    assert outline.inner is None


@pytest.mark.parametrize("activation", ["sigmoid", "gaussian", "bump", "window", "compact_window"])
def test_every_gate_accepts_a_half_on_its_boundary(activation: str) -> None:
    for shape in (
        ball([0.5, -1.0], 1.5, 2.0),
        Ellipsoid(2, 1),
        Ellipsoid(2, 1, full=True),
        Shell(ConstantRadius(2), ConstantRadius(2)),
        Shell(None, FourierRadius(3)),
    ):
        torch.manual_seed(0)
        for p in shape.parameters():
            p.data += 0.2 * torch.randn_like(p)
        model = network(shape, activation)
        outline = outline_of(model, 0)
        assert outline is not None
        for f in range(2):
            for end in outline.outer[f]:
                point = outline.center.copy()
                point[f] = end
                if np.isfinite(end) and end != outline.center[f]:
                    assert_allclose(gate_at(model, point), 0.5, atol=1e-6)


def test_turned_ellipsoid_has_its_axes_on_the_boundary() -> None:
    shape = Ellipsoid(2, 1, full=True).double()
    shape.center.data[:] = torch.tensor([1.0, 2.0])
    assert shape.tilt is not None
    shape.tilt.data[:] = 0.7
    model = network(shape)
    outline = outline_of(model, 0)
    assert outline is not None
    assert outline.axes is not None
    assert outline.semi_axes is not None
    assert outline.semi_axes[0] > outline.semi_axes[1]
    assert_allclose(outline.axes @ outline.axes.T, np.eye(2), atol=1e-12)
    for length, axis in zip(outline.semi_axes, outline.axes, strict=True):
        assert_allclose(gate_at(model, outline.center + length * axis), 0.5, atol=1e-9)
        assert_allclose(gate_at(model, outline.center - length * axis), 0.5, atol=1e-9)


def test_shell_has_a_hole() -> None:
    outline = outline_of(network(Shell(ConstantRadius(2), ConstantRadius(2)), "window"), 0)
    assert outline is not None
    assert outline.inner is not None
    assert_allclose(outline.inner, [[6, 14], [-2.5, -1.5]], atol=1e-6)
    assert_allclose(outline.outer[0], [10 - 4 * 2.0011, 10 + 4 * 2.0011], atol=1e-4)
    assert outline.sharpness is None


def test_network_has_no_outline() -> None:
    assert outline_of(network(SeparateMLP(2, 1)), 0) is None
    with pytest.raises(TypeError, match="only shapes have a boundary"):
        distances(network(SeparateMLP(2, 1)), 0, torch.eye(2))


# Coverage


def test_coverage_counts_rows_by_their_largest_function() -> None:
    model = PUNN(Hybrid([ball([0, 0], 1.0, 50.0), ball([3, 0], 1.0, 50.0)]).double(), "sigmoid", [0, 1, 0]).double()
    x = torch.tensor([[0, 0], [0.1, 0], [3, 0], [9, 9], [9, 8]]).double()
    y = torch.tensor([0, 1, 1, 0, 1])
    counts, function = coverage_of(model, [model.gates(x[:2]), model.gates(x[2:])], y)
    assert function.tolist() == [0, 0, 1, 2, 2]
    assert counts.rows.tolist() == [2, 1, 2]
    assert counts.own.tolist() == [1, 1, 1]
    assert counts.of_class.tolist() == [2, 3]
    assert counts.right.tolist() == [1, 1, 1]
    assert counts.mass.sum() == pytest.approx(1)
    assert_allclose(counts.peak, 1, atol=1e-6)
    regions = build_regions(model, np.array(["a", "b"]), ["u", "v"], counts)
    assert [region.share for region in regions] == [0.4, 0.2, 0.4]
    assert [region.accuracy for region in regions] == [0.5, 1.0, 0.5]
    assert [region.share_of_class for region in regions.of("a")] == [0.5, 0.5]
    assert [region.kind for region in regions] == ["ball", "ball", "rest"]


def test_dead_gates_are_named() -> None:
    model = network(Hybrid([ball([0, 0], 1.0, 50.0), ball([99, 0], 0.1, 50.0)]))
    x = torch.zeros(4, 2).double()
    counts, _ = coverage_of(model, [model.gates(x)], torch.zeros(4).long())
    regions = build_regions(model, np.array(["a", "b", "c"]), ["u", "v"], counts)
    assert [region.name for region in regions.dead] == ["b", "c"]
    assert "2 dead functions" in str(regions)
    assert "dead, it takes less than 1% of every row" in str(regions)


def test_training_rows_and_given_rows_are_counted_alike() -> None:
    x, y = data()
    model = PUNNClassifier("ball", parts={"in": 2}, restarts=1, epochs=30, random_state=0).fit(x, y)
    trained, given = model.regions(), model.regions(x, y)
    assert trained.training
    assert not given.training
    assert trained.function is None
    assert given.function is not None
    assert given.function.tolist() == model.trace(x).partition.argmax(1).tolist()
    assert [region.rows for region in trained] == [region.rows for region in given]
    right = sum(region.rows * region.accuracy for region in trained if region.rows)
    assert right / len(x) == pytest.approx(model.score(x, y))


def test_partial_fit_forgets_rows() -> None:
    x, y = data()
    model = PUNNClassifier("mlp", hidden=(4,), epochs=1, random_state=0).fit(x, y).partial_fit(x, y)
    assert "no training rows are known" in str(model.regions())
    assert model.regions()[0].rows is None
    assert model.regions(x, y)[0].rows is not None


def test_zero_weights_and_unknown_do_not_count() -> None:
    x, y = data()
    weight = np.ones(len(x))
    weight[:50] = 0
    model = PUNNClassifier("ball", rest="unknown", restarts=1, epochs=20, random_state=0).fit(x, y, weight)
    regions = model.regions()
    assert sum(region.rows or 0 for region in regions) == 150
    assert regions[-1].cls == "unknown"
    assert regions[-1].kind == "rest"


# Views


def test_card_tells_units_and_feature_names() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = data()
    frame = pandas.DataFrame(x, columns=["income", "age"])
    model = PUNNClassifier("ellipsoid", restarts=1, epochs=20, random_state=0).fit(frame, y)
    text = str(model.regions())
    assert "income" in text
    assert "in: gate 1 of 1, ellipsoid, sigmoid; covers" in text
    assert "out: the rest, what no gate takes" in text
    table = model.regions().to_frame()
    assert table["function"].tolist() == ["in", "out"]
    assert table["center income"].iloc[0] == pytest.approx(model.regions()[0].outline.center[0])
    assert np.isnan(table["low age"].iloc[1])


def test_to_dict_is_plain() -> None:
    x, y = data()
    for gates, activation in (("shell", "auto"), ("shell", "sigmoid"), ("mlp", "auto"), ("shared", "auto")):
        model = PUNNClassifier(gates, activation, hidden=(4,), restarts=1, epochs=2, random_state=0).fit(x, y)
        plain = json.loads(json.dumps(model.regions().to_dict(), allow_nan=False))
        assert plain["classes"] == ["in", "out"]
        assert np.sum(plain["rows_of_classes"]) == 200
        assert (plain["functions"][0]["outline"] is None) == (gates in ("mlp", "shared"))


def test_long_lists_are_shortened() -> None:
    x, _ = data()
    labels = np.arange(200) % 40
    model = PUNNClassifier("shared", hidden=(4,), parts=10, epochs=1, random_state=0)
    text = str(model.fit(x, labels).regions())
    assert "10 more classes" in text
    assert len(text.splitlines()) < 400
    wide = np.random.default_rng(0).normal(size=(100, 30))
    text = str(PUNNClassifier("ball", restarts=1, epochs=1).fit(wide, wide[:, 0] > 0).regions())
    assert "22 more features" in text


# Bad input


def test_bad_input() -> None:
    x, y = data()
    model = PUNNClassifier("ball", restarts=1, epochs=2, random_state=0)
    with pytest.raises(NotFittedError):
        model.regions()
    model.fit(x, y)
    with pytest.raises(ValueError, match="rows and their labels"):
        model.regions(x)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        model.regions(x, y[:3])
    with pytest.raises(ValueError, match="expected one of the classes"):
        model.regions(x[:1], ["elsewhere"])
    with pytest.raises(ValueError, match="expected one of the classes"):
        model.regions().of("elsewhere")
