"""Displays: what is computed, what is drawn, legibility, bad input."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from punn import BlameDisplay, GateTrace, LedgerDisplay, PartitionDisplay, PUNNClassifier, TraceDisplay

pyplot = pytest.importorskip("matplotlib.pyplot")
pandas = pytest.importorskip("pandas")

PAIR = ("petal length (cm)", "petal width (cm)")
LONG = [f"a class with a name that goes on and on, number {i}" for i in range(10)]


@pytest.fixture(scope="module")
def iris() -> tuple[Any, np.ndarray]:
    x, y = load_iris(return_X_y=True, as_frame=True)
    return x, load_iris().target_names[y]


@pytest.fixture(scope="module")
def model(iris: Any) -> PUNNClassifier:
    return PUNNClassifier("ellipsoid", restarts=1, epochs=40, random_state=0).fit(*iris)


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    pyplot.close("all")


def long_trace(k: int, spread: float = 1.0, parts: int = 1) -> GateTrace:
    p = np.random.default_rng(0).dirichlet(np.full(k, spread), 1)
    trace = GateTrace.from_probabilities(p)
    return GateTrace(trace.log_accept, trace.log_reject, np.arange(k) % (k // parts))


def boxes(display: Any, texts: Any) -> list[Any]:
    display.figure_.canvas.draw()
    return [text.get_window_extent() for text in texts if text.get_text()]


def overlaps(display: Any, axis: str) -> bool:
    ticks = display.ax_.get_xticklabels() if axis == "x" else display.ax_.get_yticklabels()
    turned = any(text.get_rotation() for text in ticks)
    found = boxes(display, ticks)
    if turned:  # boxes of turned labels touch though the labels do not: their anchors must be a line apart
        places = [text.get_transform().transform(text.get_position())[0] for text in ticks]
        return bool(np.diff(sorted(places)).min() < 10)
    return any(a.overlaps(b) for i, a in enumerate(found) for b in found[i + 1 :])


def cut_off(display: Any) -> bool:
    figure = display.figure_
    figure.canvas.draw()
    texts = [display.ax_.title, display.ax_.xaxis.label, display.ax_.yaxis.label]
    for axis in (display.ax_.xaxis, display.ax_.yaxis):
        low, high = sorted(axis.get_view_interval())
        texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    legend = display.ax_.get_legend()
    texts += legend.get_texts() if legend else []
    frame = figure.bbox
    found = [text.get_window_extent() for text in texts if text.get_text() and text.get_visible()]
    return any(b.x0 < -1 or b.y0 < -1 or b.x1 > frame.x1 + 1 or b.y1 > frame.y1 + 1 for b in found)


# TraceDisplay


def test_trace_bars_are_h_and_the_predicted_class_is_hatched(model: PUNNClassifier, iris: Any) -> None:
    display = TraceDisplay.from_estimator(model, iris[0], row=70)
    trace = model.trace(iris[0])[70]
    assert_allclose(display.partition, trace.partition[0])
    assert_allclose(display.gates, trace.gates[0])
    assert display.plot() is display
    bars = display.ax_.containers[0]
    assert_allclose([bar.get_height() for bar in bars], trace.partition[0])
    assert [bool(bar.get_hatch()) for bar in bars] == [name == trace.predicted[0] for name in trace.names]
    lines = {line.get_label(): line for line in display.ax_.lines}
    assert_allclose(lines["q, gate"].get_ydata(), trace.gates[0])
    assert display.figure_ is display.ax_.figure


@pytest.mark.parametrize("k", [2, 3, 10, 24, 25, 100, 2000])
@pytest.mark.parametrize("spread", [0.01, 1.0])
def test_trace_is_readable_for_any_length(k: int, spread: float) -> None:
    display = TraceDisplay.from_trace(long_trace(k, spread)).plot()
    assert not cut_off(display)
    assert not overlaps(display, "x")
    if k > 24 and spread < 1:
        assert "more are not drawn" in display.ax_.get_xlabel()


def test_gates_that_nothing_reaches_are_hollow() -> None:
    display = TraceDisplay.from_trace(GateTrace.from_probabilities([[1.0, 0.0, 0.0]])).plot()
    assert [line.get_markerfacecolor() for line in display.ax_.lines][-1] == "white"
    assert len(display.ax_.lines[-1].get_xdata()) == 1


def test_given_axes_are_used(model: PUNNClassifier, iris: Any) -> None:
    figure, axes = pyplot.subplots(1, 2)
    assert TraceDisplay.from_estimator(model, iris[0]).plot(axes[0]).ax_ is axes[0]
    display = PartitionDisplay.from_estimator(model, *iris, features=PAIR, resolution=20).plot(axes[1])
    assert display.figure_ is figure


# PartitionDisplay


def test_plane_holds_what_the_model_says(model: PUNNClassifier, iris: Any) -> None:
    x, y = iris
    display = PartitionDisplay.from_estimator(model, x, y, features=PAIR, resolution=12)
    row = x.median().to_numpy().copy()
    row[2], row[3] = display.plane.first[4], display.plane.second[7]
    frame = pandas.DataFrame([row], columns=x.columns)
    assert_allclose(display.probabilities[7, 4], model.predict_proba(frame)[0], rtol=1e-6)
    assert_allclose(display.partition[7, 4], model.trace(frame).partition[0], rtol=1e-5)
    assert_allclose(display.outlines[1][7, 4], model.trace(frame).gates[0, 1], rtol=1e-5)
    assert display.plane.fixed == {name: pytest.approx(x[name].median()) for name in x.columns[:2]}
    display.plot()
    assert display.ax_.get_xlabel() == PAIR[0]
    assert display.ax_.get_ylabel() == PAIR[1]
    assert "slice at sepal length (cm) = 5.8" in display.ax_.get_title()
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["setosa", "versicolor", "virginica", "decision boundary", "a shape's gate is 0.5"]
    assert not cut_off(display)


def test_slice_at_a_row_and_without_data(model: PUNNClassifier, iris: Any) -> None:
    row = iris[0].iloc[100]
    display = PartitionDisplay.from_estimator(model, features=(2, -1), at=row, resolution=20).plot()
    assert display.plane.fixed == {name: row[name] for name in iris[0].columns[:2]}
    scaling = model.network_.scaling
    assert display.plane.first[0] == pytest.approx(float(scaling.mean[2] - 3 * scaling.scale[2]))
    assert display.ax_.texts  # names in the regions, where no markers tell them


def test_single_functions(model: PUNNClassifier, iris: Any) -> None:
    display = PartitionDisplay.from_estimator(model, *iris, features=PAIR, resolution=20)
    assert display.plot(function="versicolor").ax_.get_xlabel() == PAIR[0]
    assert display.plot(function=2).ax_ is not None
    assert display.plot_functions().axes_.size == 3
    with pytest.raises(ValueError, match="expected the name of a partition function"):
        display.plot(function="rose")
    with pytest.raises(ValueError, match="expected a function from 0 to 2"):
        display.plot(function=3)


def test_two_features_networks_unknown_and_many_classes() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    two = PUNNClassifier(hidden=(4,), epochs=2, random_state=0).fit(x, x[:, 0] > 0)
    display = PartitionDisplay.from_estimator(two, x, resolution=15).plot()
    assert display.outlines == {}
    assert display.ax_.get_title() == "classes and their probabilities"
    unknown = PUNNClassifier("ball", rest="unknown", restarts=1, epochs=5, random_state=0).fit(x, x[:, 0] > 0)
    display = PartitionDisplay.from_estimator(unknown, x, x[:, 0] > 0, resolution=30).plot()
    assert "unknown" in [text.get_text() for text in display.ax_.get_legend().get_texts()]
    labels = np.array(LONG)[np.arange(200) % 10]
    many = PUNNClassifier("shared", hidden=(8,), epochs=2, random_state=0).fit(x, labels)
    display = PartitionDisplay.from_estimator(many, x, labels, resolution=30).plot()
    assert not cut_off(display)


# BlameDisplay and LedgerDisplay


def test_blame_is_the_traces(model: PUNNClassifier, iris: Any) -> None:
    display = BlameDisplay.from_estimator(model, *iris).plot()
    pandas.testing.assert_frame_equal(display.blame, model.trace(iris[0]).blame(iris[1]))
    assert_allclose(display.ax_.images[0].get_array(), display.blame.to_numpy())
    assert not cut_off(display)


@pytest.mark.parametrize("count", [2, 10, 100])
def test_blame_with_long_names(count: int) -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(count), 3 * count)
    names = [f"{LONG[i % 10]} {i}" for i in range(count)]
    trace = GateTrace.from_probabilities(p, names)
    display = BlameDisplay.from_trace(trace, np.array(names)[np.arange(3 * count) % count]).plot()
    assert not cut_off(display)
    assert not overlaps(display, "y")
    assert not overlaps(display, "x")


@pytest.mark.parametrize("k", [2, 10, 2000])
def test_waterfall_ends_at_the_log_probability(k: int) -> None:
    trace = long_trace(k, parts=1 if k < 100 else 200)
    display = LedgerDisplay.from_trace(trace, 0, 1).plot()
    total = display.ax_.patches[-1]
    assert total.get_width() == pytest.approx(trace.log_probabilities[0, 1])
    assert sum(nats for _, nats, _ in display._steps(16)) == pytest.approx(trace.log_probabilities[0, 1])
    assert not cut_off(display)
    assert not overlaps(display, "y")


def test_waterfall_of_an_impossible_class() -> None:
    trace = GateTrace.from_probabilities([[0.5, 0.5, 0.0]], LONG[:3])
    display = LedgerDisplay.from_trace(trace, 0, LONG[2]).plot()
    assert any("-inf" in text.get_text() for text in display.ax_.texts)
    assert not cut_off(display)


# Bad input, and imports


def test_bad_input(model: PUNNClassifier, iris: Any) -> None:
    x, y = iris
    with pytest.raises(NotFittedError):
        PartitionDisplay.from_estimator(PUNNClassifier(), x)
    with pytest.raises(NotFittedError):
        TraceDisplay.from_estimator(PUNNClassifier(), x)
    with pytest.raises(ValueError, match="the model has 4 features: say which two"):
        PartitionDisplay.from_estimator(model, x)
    with pytest.raises(ValueError, match="expected a pair"):
        PartitionDisplay.from_estimator(model, x, features=PAIR[:1])
    with pytest.raises(ValueError, match="two different features"):
        PartitionDisplay.from_estimator(model, x, features=(3, PAIR[1]))
    with pytest.raises(ValueError, match="expected a feature's name"):
        PartitionDisplay.from_estimator(model, x, features=("petal", 1))
    with pytest.raises(ValueError, match="at must hold a finite value"):
        PartitionDisplay.from_estimator(model, x, features=PAIR, at=[1.0, 2.0])
    with pytest.raises(ValueError, match="resolution"):
        PartitionDisplay.from_estimator(model, x, features=PAIR, resolution=1)
    with pytest.raises(ValueError, match="expected one of the classes"):
        PartitionDisplay.from_estimator(model, x, ["rose"] * 150, features=PAIR)
    with pytest.raises(ValueError, match="need their rows"):
        PartitionDisplay.from_estimator(model, y=y, features=PAIR)
    with pytest.raises(ValueError, match="feature names"):
        PartitionDisplay.from_estimator(model, x.rename(columns={PAIR[0]: "rose"}), features=PAIR)
    with pytest.raises(IndexError, match="expected a row from 0 to 149"):
        TraceDisplay.from_estimator(model, x, row=150)
    with pytest.raises(ValueError, match="expected one of the classes"):
        LedgerDisplay.from_estimator(model, x, 0, "rose")
    raw = PUNNClassifier("ball", standardize=False, restarts=1, epochs=1).fit(x.to_numpy()[:, :2], y)
    with pytest.raises(ValueError, match="give rows X"):
        PartitionDisplay.from_estimator(raw)
    single = PUNNClassifier("ball", restarts=1, epochs=1).fit(x.to_numpy()[:, :1], y)
    with pytest.raises(ValueError, match="a plane needs two features"):
        PartitionDisplay.from_estimator(single)


def test_import_needs_no_matplotlib() -> None:
    code = (
        "import sys, punn; assert not {'matplotlib', 'pandas', 'torch'} & set(sys.modules);"
        "punn.PUNNClassifier; assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
