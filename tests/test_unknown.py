"""rest="unknown": the rest belongs to no class."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs

from punn import PUNNClassifier
from punn.background import with_background
from punn.training import Rows

X, Y = make_blobs(200, centers=[[0, 0], [6, 0], [3, 5]], random_state=0)
FAR = np.array([[60.0, 60.0], [-80.0, 3.0], [3.0, -50.0]])


@pytest.mark.parametrize(
    ("gates", "activation"),
    [("ball", "auto"), ("ellipsoid", "auto"), ("shell", "compact_window"), ("harmonic", "auto"), ("mlp", "bump")],
)
def test_far_points_are_unknown_and_rows_are_not(gates: str, activation: str) -> None:
    model = PUNNClassifier(gates, activation, rest="unknown", hidden=(16,), restarts=2, epochs=60, random_state=0)
    model.fit(X, Y)
    assert model.classes_.tolist() == [0, 1, 2, -1]
    assert model.order_.tolist() == [0, 1, 2, -1]
    assert model.predict(FAR).tolist() == [-1, -1, -1]
    assert (model.predict(X) == Y).mean() > 0.9
    p = model.predict_proba(FAR)
    assert p.shape == (3, 4)
    assert (p[:, 3] > 0.5).all()
    np.testing.assert_allclose(p.sum(1), 1)


def test_between_the_classes_is_unknown() -> None:
    model = PUNNClassifier("ball", rest="unknown", restarts=2, epochs=100, random_state=0).fit(X, Y)
    assert model.predict([[3.0, -6.0], [-6.0, 5.0], [12.0, 6.0]]).tolist() == [-1, -1, -1]


def test_trace_shows_unknown() -> None:
    names = np.array(["ant", "bee", "cat"])[Y]
    model = PUNNClassifier("ellipsoid", rest="unknown", restarts=1, epochs=30, random_state=0).fit(X, names)
    trace = model.trace(FAR)
    assert trace.names[-1] == "unknown"
    assert trace.predicted.tolist() == ["unknown"] * 3
    assert "unknown" in str(trace[0])
    assert trace.why_not(0, "ant").winner == "unknown"


def test_one_class_is_told_from_everything_else() -> None:
    model = PUNNClassifier("ball", rest="unknown", restarts=1, epochs=60, random_state=0).fit(X[Y == 0], Y[Y == 0])
    assert model.classes_.tolist() == [0, -1]
    assert (model.predict(X[Y == 0]) == 0).mean() > 0.9
    assert (model.predict(X[Y == 1]) == -1).mean() > 0.9


def test_partial_fit_and_warm_start_keep_the_background() -> None:
    model = PUNNClassifier("ball", rest="unknown", restarts=1, epochs=40, random_state=0, warm_start=True)
    model.fit(X, Y).fit(X, Y)
    for _ in range(5):
        model.partial_fit(X, Y)
    assert model.predict(FAR).tolist() == [-1, -1, -1]
    assert model.score(X, Y) > 0.9


@pytest.mark.parametrize(("gates", "activation"), [("mlp", "auto"), ("shared", "sigmoid"), (["ball", "mlp"], "auto")])
def test_networks_that_extrapolate_are_refused(gates: str, activation: str) -> None:
    model = PUNNClassifier(gates, activation, rest="unknown")
    with pytest.raises(ValueError, match="rest='unknown' needs gates that are small far from the data"):
        model.fit(X[Y < 2], Y[Y < 2])


def test_the_label_must_be_free() -> None:
    with pytest.raises(ValueError, match="needs the label -1 for itself"):
        PUNNClassifier("ball", rest="unknown", epochs=1).fit(X, Y - 1)


def test_background_is_thin_wide_and_the_same_each_time() -> None:
    x = torch.tensor([[0.0, 5.0], [2.0, 5.0]])
    rows = with_background(Rows(x, torch.tensor([0, 1])), 2)
    again = with_background(Rows(x, torch.tensor([0, 1])), 2)
    extra = rows.x[2:]
    assert torch.equal(rows.x, again.x)
    assert rows.weight is not None
    assert float(rows.weight[2:].sum()) == pytest.approx(0.2)
    assert set(rows.y[2:].tolist()) == {2}
    assert -1 <= float(extra[:, 0].min()) < -0.9
    assert 2.9 < float(extra[:, 0].max()) <= 3
    assert float(extra[:, 1].std()) > 0
