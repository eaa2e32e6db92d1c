"""GateTrace: the arrays, the inverse, blame, slicing, printing and bad input."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import ArrayLike

from punn.trace import GateTrace


def logs(q: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    q = np.atleast_2d(np.asarray(q, dtype=float))
    with np.errstate(divide="ignore"):
        return np.log(q), np.log1p(-q)


@st.composite
def traces(draw: st.DrawFn, min_rows: int = 1) -> GateTrace:
    """Chains with saturated, exactly closed and exactly open gates, and any map from functions to classes."""
    n, k = draw(st.integers(min_rows, 4)), draw(st.integers(1, 8))
    sharp = st.sampled_from([-math.inf, math.inf, 0.0]) | st.floats(-800, 800) | st.floats(-5, 5)
    theta = np.array(draw(st.lists(sharp, min_size=n * (k - 1), max_size=n * (k - 1)))).reshape(n, k - 1)
    count = draw(st.integers(1, k))
    more = draw(st.lists(st.integers(0, count - 1), min_size=k - count, max_size=k - count))
    class_of = draw(st.permutations([*range(count), *more]))
    accept, reject = -np.logaddexp(0, -theta), -np.logaddexp(0, theta)
    return GateTrace(accept, reject, class_of, [f"c{i}" for i in range(count)])


@st.composite
def probabilities(draw: st.DrawFn) -> np.ndarray:
    n, count = draw(st.integers(1, 4)), draw(st.integers(1, 7))
    some = st.sampled_from([0.0, 1e-300, 1e-17, 0.5]) | st.floats(0, 1)
    p = np.array(draw(st.lists(some, min_size=n * count, max_size=n * count))).reshape(n, count)
    p[p.sum(axis=1) < 1e-3, draw(st.integers(0, count - 1))] = 1.0
    return p / p.sum(axis=1, keepdims=True)


IRIS = ["setosa", "versicolor", "virginica"]
SEVEN = [0, 0, 0.31, 0.37, 0, 0, 0, 1.0, 0.5]  # the paper's uncertain 7
FIVE = [0.001, 0.002, 0.01, 0.003, 0.004, 0.023, 0.995, 0.3, 0.2]  # the paper's 5 taken for a 6


# The arrays


def test_uncertain_seven_of_the_paper() -> None:
    trace = GateTrace(*logs(SEVEN))
    assert_allclose(trace.partition[0, [2, 3, 7]], [0.31, 0.2553, 0.4347], rtol=1e-12)
    assert trace.predicted.tolist() == [7]
    assert_allclose(trace.remaining[0, [2, 3, 4, 8]], [1, 0.69, 0.4347, 0], atol=1e-15)


def test_five_taken_for_a_six_of_the_paper() -> None:
    trace = GateTrace(*logs(FIVE))
    assert trace.predicted.tolist() == [6]
    assert trace.gates[0, 5] == pytest.approx(0.023)
    assert trace.probabilities[0, 5] < 0.023


@settings(deadline=None)
@given(traces())
def test_partition_of_unity(trace: GateTrace) -> None:
    n, k, count = len(trace), len(trace.class_of), len(trace.classes)
    assert trace.gates.shape == (n, k - 1)
    assert trace.remaining.shape == trace.partition.shape == trace.log_partition.shape == (n, k)
    assert trace.probabilities.shape == (n, count)
    assert_allclose(trace.partition.sum(axis=1), 1, rtol=1e-12)
    assert_allclose(trace.probabilities.sum(axis=1), 1, rtol=1e-12)
    # What reaches a function is what the ones before it have not taken.
    assert_allclose(trace.remaining, 1 - trace.partition.cumsum(axis=1) + trace.partition, atol=1e-12)


@settings(deadline=None)
@given(traces())
def test_probabilities_are_class_sums(trace: GateTrace) -> None:
    sums = np.stack([trace.partition[:, trace.class_of == c].sum(axis=1) for c in range(len(trace.classes))], 1)
    assert_allclose(trace.probabilities, sums, rtol=1e-10, atol=1e-300)
    assert_allclose(sums[np.arange(len(trace)), trace._winner], sums.max(axis=1), rtol=1e-10)


def test_log_space_outlives_underflow() -> None:
    theta = np.full((1, 3000), -1.0)
    theta[:, :1500] = 1.0
    trace = GateTrace(-np.logaddexp(0, -theta), -np.logaddexp(0, theta))
    assert trace.partition[0, -1] == 0
    assert trace.log_probabilities[0, -1] == pytest.approx(-np.logaddexp(0, theta).sum(), rel=1e-12)


def test_order_and_names_follow_the_chain() -> None:
    trace = GateTrace(*logs([0.5] * 3), class_of=[2, 0, 2, 1], classes=IRIS)
    assert trace.order.tolist() == ["virginica", "setosa", "versicolor"]
    assert trace.names == ["virginica #1", "setosa", "virginica #2", "versicolor"]
    assert_allclose(trace.probabilities, [[0.25, 0.125, 0.625]])


def test_labels_keep_their_type() -> None:
    assert GateTrace(*logs([0.9]), classes=[False, True]).predicted.tolist() == [False]
    assert GateTrace(*logs([0.1, 0.9]), classes=["a", 1, 2]).predicted.tolist() == [1]
    assert GateTrace(*logs([0.1]), classes=np.array([10, 20])).predicted.dtype.kind == "i"


def test_equal_probabilities_go_to_the_first_class() -> None:
    for count in range(2, 40):
        p = np.full((1, count), 1 / count)
        order = np.arange(count)[::-1]
        assert GateTrace.from_probabilities(p, order=order).predicted.tolist() == [0]


def test_the_trace_owns_its_arrays() -> None:
    accept, reject = logs([0.5])
    trace = GateTrace(accept, reject)
    accept[:] = -9.0
    assert trace.gates[0, 0] == pytest.approx(0.5)


def test_float32_chains_are_taken() -> None:
    accept, reject = (a.astype(np.float32) for a in logs(np.linspace(0.01, 0.99, 50)))
    trace = GateTrace(accept, reject)
    assert trace.partition.dtype == np.float64
    assert trace.partition.sum() == pytest.approx(1, abs=1e-6)


# The inverse


@settings(deadline=None)
@given(probabilities(), st.randoms(use_true_random=False))
def test_round_trip(p: np.ndarray, random: Any) -> None:
    classes = [f"c{i}" for i in range(p.shape[1])]
    order = random.sample(classes, len(classes))
    trace = GateTrace.from_probabilities(p, classes, order)
    assert trace.order.tolist() == order
    assert trace.classes.tolist() == classes
    assert trace.derived
    assert_allclose(trace.probabilities, p, rtol=1e-12, atol=0)
    assert np.all((trace.gates >= 0) & (trace.gates <= 1))
    assert_allclose(trace.gates + np.exp(trace.log_reject), 1, rtol=1e-12)


def test_gates_are_zero_where_nothing_remains() -> None:
    trace = GateTrace.from_probabilities([[0.0, 1.0, 0.0, 0.0]])
    assert_array_equal(trace.gates, [[0, 1, 0]])
    assert_array_equal(trace.log_reject, [[0, -np.inf, 0]])
    assert_array_equal(trace.probabilities, [[0, 1, 0, 0]])


def test_small_tails_are_exact() -> None:
    trace = GateTrace.from_probabilities([[1.0, 3e-20, 1e-20]])
    assert_allclose(trace.gates[0, 1], 0.75, rtol=1e-12)
    assert_allclose(trace.probabilities, [[1.0, 3e-20, 1e-20]], rtol=1e-12)


# Slicing


def test_rows() -> None:
    trace = GateTrace(*logs([[0.1], [0.2], [0.3], [0.4]]), classes=["no", "yes"])
    assert len(trace) == 4
    for rows, expected in [
        (1, [0.2]),
        (-1, [0.4]),
        (np.int64(2), [0.3]),
        (slice(1, 3), [0.2, 0.3]),
        (slice(9, 9), []),
        (np.array([True, False, False, True]), [0.1, 0.4]),
        ([3, 0, 0], [0.4, 0.1, 0.1]),
        ([], []),
    ]:
        part = trace[rows]
        assert isinstance(part, GateTrace)
        assert_allclose(part.gates[:, 0], expected)
        assert part.classes.tolist() == ["no", "yes"]
    assert [row.gates.item() for row in trace] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert GateTrace.from_probabilities([[1.0]])[0].derived


# Blame and frames


@settings(deadline=None)
@given(traces(), st.data())
def test_blame_adds_up(trace: GateTrace, data: st.DataObject) -> None:
    labels = trace.classes.tolist()
    y = np.array([data.draw(st.sampled_from(labels)) for _ in range(len(trace))])
    frame = trace.blame(y)
    assert frame.columns.tolist() == ["own gate refused", *trace.order]
    assert frame.index.tolist() == [label for label in trace.order if label in y]
    assert (frame.to_numpy() >= 0).all()
    for label, row in frame.iterrows():
        mean = trace.probabilities[y == label, labels.index(label)].mean()
        assert row.sum() == pytest.approx(1 - mean, abs=1e-12)
        assert row[label] == 0


def test_blame_of_known_numbers() -> None:
    trace = GateTrace(*logs([SEVEN, FIVE]))
    frame = trace.blame([7, 5])
    assert frame.loc[7, 2] == pytest.approx(0.31)
    assert frame.loc[7, 3] == pytest.approx(0.2553)
    assert frame.loc[7, "own gate refused"] == pytest.approx(0, abs=1e-15)
    assert frame.loc[5, "own gate refused"] == pytest.approx(trace.remaining[1, 6])
    assert (frame.index.name, frame.columns.name) == ("true class", "cause")


def test_blame_of_parts_divides_at_the_largest() -> None:
    # a #1 0.1, b #1 0.2, a #2 0.3, b #2 0.4: b #1 stands before a's largest part, b #2 after it.
    trace = GateTrace(*logs([0.1, 0.2 / 0.9, 0.3 / 0.7]), [0, 1, 0, 1], ["a", "b"])
    frame = trace.blame(["a"])
    assert_allclose(frame.loc["a"], [0.4, 0.0, 0.2])


def test_to_frame() -> None:
    trace = GateTrace(*logs([[0.25, 0.5], [0.5, 0.5]]), [1, 0, 1], ["a", "b"])
    frame = trace.to_frame()
    assert frame.columns.tolist() == ["row", "position", "function", "class", "reached", "gate", "h"]
    assert frame["row"].tolist() == [0, 0, 0, 1, 1, 1]
    assert frame["position"].tolist() == [0, 1, 2, 0, 1, 2]
    assert frame["function"].tolist() == ["b #1", "a", "b #2"] * 2
    assert frame["class"].tolist() == ["b", "a", "b"] * 2
    assert_allclose(frame["reached"], trace.remaining.ravel())
    assert_allclose(frame["h"], trace.partition.ravel())
    assert frame["gate"].isna().tolist() == [False, False, True] * 2


def test_frames_say_that_pandas_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_pandas(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    trace = GateTrace(*logs([0.5]))
    for call in (trace.to_frame, lambda: trace.blame([0]), trace.ledger(0, 0).to_frame):
        with pytest.raises(ImportError, match=r"pip install punn\[table\]"):
            call()


# Printing


def test_print_of_one_row() -> None:
    text = """\
 class        reached   gate      h
 setosa         1.000  0.004  0.004
 versicolor     0.996  0.871  0.868  <-
 virginica      0.128   rest  0.128"""
    trace = GateTrace(*logs([0.004, 0.871]), classes=IRIS)
    assert str(trace) == repr(trace) == text


def test_print_marks_gates_that_nothing_reaches() -> None:
    lines = str(GateTrace(*logs(SEVEN))).splitlines()
    assert lines[8:] == [
        " 7         0.435  1.000  0.435  <-",
        " 8         0.000      -  0.000",
        " 9         0.000   rest  0.000",
        " -  nothing reaches this gate, so its value would say nothing",
    ]


def test_print_of_parts_shows_class_sums() -> None:
    # The predicted class is a by its sum; the arrow is at its largest part, not at the largest function.
    trace = GateTrace(*logs([0.3, 0.4 / 0.7]), [0, 1, 0], ["a", "b"])
    assert (
        str(trace)
        == """\
 function   reached   gate      h
 a #1         1.000  0.300  0.300  <-
 b            0.700  0.571  0.400
 a #2         0.300   rest  0.300

 class      p
 a      0.600  <-
 b      0.400"""
    )


def test_print_says_that_gates_were_derived() -> None:
    note = " gates derived from given probabilities, not learned"
    p = [[0.5, 0.5], [0.1, 0.9]]
    assert str(GateTrace.from_probabilities(p)).splitlines()[-1] == note
    assert str(GateTrace.from_probabilities(p)[0]).splitlines()[-1] == note
    assert note not in str(GateTrace(*logs([0.5])))


def test_print_of_a_long_chain_is_short_and_complete() -> None:
    theta = np.random.default_rng(0).normal(-12, 1, (1, 1999))
    theta[0, [150, 1234]] = [0.0, 3.0]
    accept, reject = -np.logaddexp(0, -theta), -np.logaddexp(0, theta)
    trace = GateTrace(accept, reject, np.tile(np.arange(100), 20), [f"thing {i}" for i in range(100)])
    lines = str(trace).splitlines()
    assert len(lines) < 40
    assert max(map(len, lines)) < 80
    assert any(line.startswith(" thing 50 #2 ") and line.endswith("<-") for line in lines)
    shown = [float(line.split()[-2 if line.endswith("<-") else -1]) for line in lines[1 : lines.index("") - 1]]
    hidden = lines[lines.index("") - 1].split()
    assert hidden[:4] == ["...", f"{2000 - len(shown):,}", "functions", "hidden,"]
    assert sum(shown) + float(hidden[5]) == pytest.approx(1, abs=0.0005 * (len(shown) + 1))


def test_print_of_a_long_chain_keeps_the_predicted_part() -> None:
    q = 1 / np.arange(3000, 1, -1)  # every function has the same mass, too small to be seen
    assert "<-" in str(GateTrace(*logs(q)))
    assert "2,999 functions hidden, with 1.000 of the mass together" in str(GateTrace(*logs(q)))


def test_print_of_several_rows() -> None:
    trace = GateTrace(*logs([[0.004, 0.871]] * 12), classes=IRIS)
    lines = str(trace).splitlines()
    assert lines[:3] == [
        " 12 rows, 3 functions, 3 classes in the order setosa, versicolor, virginica",
        " row  predicted       p  the largest functions, in the chain's order",
        "   0  versicolor  0.868  setosa 0.004, versicolor 0.868, virginica 0.128",
    ]
    assert len(lines) == 13
    assert lines[-1] == " ... 2 more rows; print(trace[i]) shows row i in full"
    assert str(trace[:0]) == " 0 rows, 3 functions, 3 classes in the order setosa, versicolor, virginica"


def test_print_of_strange_names() -> None:
    names = ["日本", "cafe\u0301", "two\nlines", "x" * 90]
    lines = str(GateTrace.from_probabilities([[0.1, 0.2, 0.3, 0.4]], names)).splitlines()
    assert len(lines) == 6
    assert lines[1] == " 日本" + " " * 48 + "1.000  0.100  0.100"
    assert lines[2] == " cafe\u0301" + " " * 48 + "0.900  0.222  0.200"
    assert lines[3].startswith(" two lines ")
    assert lines[4].startswith(f" {'x' * 22}...{'x' * 22}  ")


# Bad input


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0.5], [0.5]), ValueError, r"shape \(n, k - 1\), got \(1,\) and \(1,\)"),
        (([[-1.0]], [[-1.0, -1.0]]), ValueError, r"got \(1, 1\) and \(1, 2\)"),
        (([[0.5]], [[0.5]]), ValueError, "expected log q and log"),
        (([[math.nan]], [[-1.0]]), ValueError, "row 0, gate 0"),
        (([[1000.0]], [[-1.0]]), ValueError, "got 1000 and -1"),
        ((*logs([0.5]), [0.0, 1.0]), TypeError, "whole numbers, got float64"),
        ((*logs([0.5]), [0]), ValueError, r"shape \(2,\), for 1 gates and the rest, got \(1,\)"),
        ((*logs([0.5]), [0, 2]), ValueError, r"without a gap, got \[0, 2\]"),
        ((*logs([0.5]), [-1, 0]), ValueError, r"without a gap, got \[-1, 0\]"),
        ((*logs([0.5]), [0, 0], ["a", "b"]), ValueError, r"expected 1 class labels.*got the shape \(2,\)"),
        ((*logs([0.5]), None, ["a", "a"]), ValueError, r"different class labels, got \['a'\] more than once"),
    ],
)
def test_bad_chains(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        GateTrace(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, 0.5],), r"shape \(n, C\), got \(2,\)"),
        (([[0.5, 0.6]],), r"got \[0.5, 0.6\] in row 0"),
        (([[0.5, 0.5], [-0.5, 1.5]],), "in row 1"),
        (([[math.nan, 1.0]],), "in row 0"),
        (([[math.inf, 0.0]],), "in row 0"),
        (([[0.5, 0.5]], ["a"]), r"expected 2 class labels.*got the shape \(1,\)"),
        (([[0.5, 0.5]], ["a", "b"], ["a", "c"]), r"expected one of the classes \['a', 'b'\], got 'c'"),
        (([[0.5, 0.5]], ["a", "b"], ["a", "a"]), r"each of \['a', 'b'\] once, got \['a', 'a'\]"),
    ],
)
def test_bad_probabilities(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GateTrace.from_probabilities(*arguments)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (2, IndexError, "expected a row from 0 to 1, got 2; the trace has 2 rows"),
        (-3, IndexError, "got -3"),
        ([0, 5], IndexError, "got 5"),
        ("a", TypeError, "expected a row number, got 'a'"),
        (True, TypeError, "expected a row number, got True"),
        (0.0, TypeError, "got 0.0"),
        (np.array([0.5, 1.0]), TypeError, "a mask or a list of row numbers"),
        ((0, 1), TypeError, r"got \(0, 1\)"),
        ([True], IndexError, "a mask of 2 values, one for every row, got 1"),
    ],
)
def test_bad_rows(rows: Any, error: type[Exception], message: str) -> None:
    trace = GateTrace(*logs([[0.5], [0.5]]))
    with pytest.raises(error, match=message):
        trace[rows]


@pytest.mark.parametrize("ask", ["ledger", "why_not"])
def test_bad_questions(ask: str) -> None:
    trace = GateTrace(*logs([[0.5], [0.5]]))
    question = getattr(trace, ask)
    with pytest.raises(IndexError, match="got 9"):
        question(9, 0)
    with pytest.raises(TypeError, match="expected a row number"):
        question("first", 0)
    with pytest.raises(ValueError, match=r"classes \[0, 1\], got 2; pass one of these"):
        question(0, 2)
    with pytest.raises(ValueError, match="got '1'; pass 1, of type int"):
        question(0, "1")
    with pytest.raises(ValueError, match=r"got \[1\]"):
        question(0, [1])
    many = GateTrace.from_probabilities(np.full((1, 100), 0.01))
    with pytest.raises(ValueError, match=r"8, 9, ... 100 in all\]"):
        getattr(many, ask)(0, 100)


def test_bad_blame() -> None:
    trace = GateTrace(*logs([[0.5], [0.5]]))
    with pytest.raises(ValueError, match=r"each of 2 rows, got the shape \(3,\)"):
        trace.blame([0, 1, 0])
    with pytest.raises(ValueError, match="got 7"):
        trace.blame([0, 7])
