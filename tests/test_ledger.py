"""The ledger and why-not: they add up, say the right thing, and print well."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from punn.ledger import columns, largest, percent, show
from punn.trace import GateTrace
from test_trace import FIVE, IRIS, SEVEN, logs, traces

# The ledger


@settings(deadline=None)
@given(traces(), st.data())
def test_ledger_adds_up(trace: GateTrace, data: st.DataObject) -> None:
    i, c = data.draw(st.integers(0, len(trace) - 1)), data.draw(st.integers(0, len(trace.classes) - 1))
    ledger = trace.ledger(i, trace.classes[c])
    total = math.fsum(row.nats for row in ledger)
    assert total == pytest.approx(ledger.total, rel=1e-12, abs=1e-12)
    assert total == pytest.approx(trace.log_probabilities[i, c], rel=1e-10, abs=1e-12)
    assert all(row.factor == pytest.approx(math.exp(row.nats)) for row in ledger)
    assert len(ledger) == len(ledger.rows)


@settings(deadline=None)
@given(traces(), st.data())
def test_parts_have_their_own_ledger_and_share(trace: GateTrace, data: st.DataObject) -> None:
    i, c = data.draw(st.integers(0, len(trace) - 1)), data.draw(st.integers(0, len(trace.classes) - 1))
    ledger = trace.ledger(i, trace.classes[c])
    own = np.flatnonzero(trace.class_of == c)
    assert [part.name for part in ledger.parts] == [trace.names[j] for j in own]
    for part, j in zip(ledger.parts, own, strict=True):
        assert math.fsum(row.nats for row in part.rows) == part.total
        assert part.total == pytest.approx(trace.log_partition[i, j], rel=1e-10, abs=1e-12)
        assert [row.name for row in part.rows] == trace.names[: j + 1]
        if ledger.total > -math.inf:
            assert part.share == pytest.approx(math.exp(part.total - ledger.total), rel=1e-10, abs=1e-300)
    assert sum(part.share for part in ledger.parts) == pytest.approx(0 if ledger.total == -math.inf else 1)


def test_ledger_of_known_numbers() -> None:
    ledger = GateTrace(*logs(SEVEN)).ledger(0, 3)
    assert [row.name for row in ledger] == ["0", "1", "2", "3"]
    assert [row.action for row in ledger] == ["rejects", "rejects", "rejects", "accepts"]
    assert [row.factor for row in ledger] == pytest.approx([1, 1, 0.69, 0.37])
    assert ledger.total == pytest.approx(math.log(0.69 * 0.37))
    assert ledger.cls == 3
    assert ledger.parts[0].share == 1


def test_ledger_of_the_rest_has_no_gate_of_its_own() -> None:
    ledger = GateTrace(*logs([0.5, 0.5])).ledger(0, 2)
    assert [(row.name, row.action, row.nats) for row in ledger][-1] == ("2", "is the rest", 0.0)
    assert ledger.total == pytest.approx(math.log(0.25))


def test_ledger_frame() -> None:
    frame = GateTrace(*logs([0.5, 0.5])).ledger(0, 1).to_frame()
    assert frame.columns.tolist() == ["name", "action", "nats", "factor"]
    assert frame["nats"].sum() == pytest.approx(math.log(0.25))


def test_ledger_print() -> None:
    trace = GateTrace(*logs([0.3, 0.4 / 0.7]), [0, 1, 0], ["a", "b"])
    assert (
        str(trace.ledger(0, "b"))
        == """\
 gate  does     factor    nats
 a #1  rejects   0.700  -0.357
 b     accepts   0.571  -0.560
 p(b)            0.400  -0.916"""
    )
    assert (
        repr(trace.ledger(0, "a"))
        == """\
 gate         does     factor    nats
 a #1         accepts   0.300  -1.204
 other parts  add       2.000   0.693
 p(a)                   0.600  -0.511

 part  share
 a #1  0.500
 a #2  0.500"""
    )


def test_ledger_print_of_a_long_chain_adds_up() -> None:
    theta = np.random.default_rng(0).normal(-6, 1, (1, 1999))
    accept, reject = -np.logaddexp(0, -theta), -np.logaddexp(0, theta)
    trace = GateTrace(accept, reject, np.tile(np.arange(100), 20))
    lines = str(trace.ledger(0, 99)).splitlines()
    rows = lines[1 : lines.index("")]
    assert len(rows) <= 22
    nats = [float(line.split()[-1]) for line in rows]
    assert sum(nats[:-1]) == pytest.approx(nats[-1], abs=0.0005 * len(nats))
    assert " hidden " in rows[-2]
    assert len(lines[lines.index("") :]) <= 8


# Why not


@settings(deadline=None)
@given(traces(), st.data())
def test_why_not_adds_up(trace: GateTrace, data: st.DataObject) -> None:
    i, c = data.draw(st.integers(0, len(trace) - 1)), data.draw(st.integers(0, len(trace.classes) - 1))
    answer = trace.why_not(i, trace.classes[c])
    taken = [mass for _, mass in answer.taken]
    assert answer.probability + math.fsum(taken) + answer.refused == pytest.approx(1, rel=1e-12)
    assert answer.reached * answer.accepted == pytest.approx(answer.probability, rel=1e-9, abs=1e-300)
    assert answer.reached == pytest.approx(1 - math.fsum(taken), abs=1e-12)
    assert taken == sorted(taken, reverse=True)
    assert answer.cls not in [label for label, _ in answer.taken]
    assert (answer.cause == "won") == (answer.cls == answer.winner == trace.predicted[i])
    assert 0 <= answer.accepted <= 1 + 1e-12
    assert "\n" not in str(answer)


@settings(deadline=None)
@given(traces(), st.data())
def test_why_not_agrees_with_blame(trace: GateTrace, data: st.DataObject) -> None:
    label = data.draw(st.sampled_from(trace.classes.tolist()))
    answer, blame = trace.why_not(0, label), trace[0].blame([label]).loc[label]
    assert blame["own gate refused"] == pytest.approx(answer.refused)
    assert {k: v for k, v in blame.drop("own gate refused").items() if v > 0} == pytest.approx(dict(answer.taken))


@settings(deadline=None)
@given(traces(), st.data())
def test_a_single_part_is_reached_and_accepted_by_its_gate(trace: GateTrace, data: st.DataObject) -> None:
    c = data.draw(st.integers(0, len(trace.classes) - 1))
    own = np.flatnonzero(trace.class_of == c)
    answer = trace.why_not(0, trace.classes[c])
    if len(own) == 1:
        assert answer.reached == pytest.approx(trace.remaining[0, own[0]], rel=1e-9, abs=1e-12)
        rest = own[0] == len(trace.class_of) - 1
        assert answer.rest == rest
        if trace.remaining[0, own[0]] == 0 or trace.remaining[0, own[0]] > 1e-200:
            assert answer.accepted == pytest.approx(1 if rest else trace.gates[0, own[0]], rel=1e-9, abs=1e-100)


def test_sentences_of_the_paper() -> None:
    five = GateTrace(*logs(FIVE)).why_not(0, 5)
    assert five.cause == "own gate refused"
    assert (five.winner, five.accepted, five.reached) == (6, pytest.approx(0.023), pytest.approx(0.98, abs=0.001))
    assert str(five) == (
        "class 5 lost because its own gate accepted only 2.3% of the 98% that reached it; class 6 won with 95%"
    )
    seven = GateTrace(*logs(SEVEN))
    assert str(seven.why_not(0, 7)) == ("class 7 won with 43%: its own gate accepted 100% of the 43% that reached it")
    assert str(seven.why_not(0, 2)) == (
        "class 2 lost because its own gate accepted only 31% of all the mass; class 7 won with 43%"
    )
    assert str(seven.why_not(0, 8)) == (
        "class 8 lost because class 7 took 43%, class 2 31% and class 3 26% before it was reached; "
        "nothing was left for it"
    )


def test_sentences_of_earlier_gates() -> None:
    rest = GateTrace(*logs([0.004, 0.871]), classes=IRIS).why_not(0, "virginica")
    assert rest.cause == "earlier gates took the mass"
    assert rest.taken == (("versicolor", pytest.approx(0.867516)), ("setosa", pytest.approx(0.004)))
    assert str(rest) == (
        "class virginica lost because versicolor took 87% before it was reached; "
        "it is the rest and takes 100% of the 13% that reached it"
    )
    gate = GateTrace(*logs([0.6, 0.8]), classes=IRIS).why_not(0, "versicolor")
    assert str(gate) == (
        "class versicolor lost because setosa took 60% before it was reached; "
        "its own gate accepted 80% of the 40% that reached it"
    )


def test_a_winner_behind_is_named() -> None:
    trace = GateTrace.from_probabilities([[0.2, 0.201, 0.199, 0.171, 0.229]], ["a", "b", "c", "d", "Class e"])
    assert str(trace.why_not(0, "d")) == (
        "class d lost because b took 20%, a 20% and c 20% before it was reached; "
        "its own gate accepted 43% of the 40% that reached it; Class e won with 23%"
    )


def test_sentences_of_parts() -> None:
    trace = GateTrace(*logs([0.1, 0.5 / 0.9, 0.3 / 0.4]), [0, 1, 0, 1], ["a", "b"])
    assert str(trace.why_not(0, "a")) == (
        "class a lost because b took 50% before its largest part was reached; "
        "its 2 parts accepted 80% of the 50% that reached it"
    )
    assert str(trace.why_not(0, "b")) == ("class b won with 60%: its 2 parts accepted 67% of the 90% that reached it")


def test_many_takers_are_summed_up() -> None:
    p = np.linspace(2, 1, 100)[None] / 150
    assert str(GateTrace.from_probabilities(p).why_not(0, 99)).startswith(
        "class 99 lost because class 0 took 1.3%, class 1 1.3%, class 2 1.3% and 96 other classes 95% before"
    )


def test_a_gate_that_nothing_reaches_is_not_to_blame() -> None:
    answer = GateTrace(*logs([1.0, 0.0])).why_not(0, 1)
    assert (answer.cause, answer.reached, answer.accepted) == ("earlier gates took the mass", 0.0, 0.0)
    assert GateTrace(*logs([1.0, 0.7])).why_not(0, 1).accepted == pytest.approx(0.7)


def test_a_single_class_always_wins() -> None:
    trace = GateTrace(np.zeros((1, 0)), np.zeros((1, 0)))
    assert str(trace.why_not(0, 0)) == "class 0 won with 100%: it is the rest and takes 100% of all the mass"
    assert trace.ledger(0, 0).total == 0


# Text


@settings(deadline=None)
@given(st.floats(0, 1))
def test_percent_is_right(share: float) -> None:
    text = percent(share)
    if not text.startswith("less"):
        assert float(text.rstrip("%")) == pytest.approx(100 * share, rel=0.055)


def test_columns_keep_wide_names_in_line() -> None:
    assert columns([["名", "1"], ["abc", "22"]], "lr") == [" 名    1", " abc  22"]


def test_largest_keeps_what_is_asked() -> None:
    mass = [0.01] * 100
    mass[50] = 0.0
    keep = [i == 50 for i in range(100)]
    assert 50 in largest(mass, keep)
    assert len(largest(mass, keep)) == 20
    assert len(largest(mass, keep, longest=5)) == 5


def test_show_keeps_the_number_of_a_part() -> None:
    assert show("x" * 90 + " #17").endswith(" #17")
    assert show(3) == "3"
