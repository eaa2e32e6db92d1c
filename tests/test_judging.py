"""Held-out rows tell how long to train."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_iris

from punn import PUNNClassifier
from punn.gates import SeparateMLP
from punn.judging import fit_judged, folds
from punn.network import PUNN
from punn.training import History, Rows

RNG = np.random.RandomState


def table(n=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Rows(torch.randn(n, 2, generator=generator, dtype=torch.float64), torch.arange(n) % 3)


def values(rows):
    return {tuple(row) for row in rows.x.tolist()}


def test_every_row_is_held_out_once():
    rows = table()
    splits = folds(rows, 5, RNG(0))
    assert sorted(value for _, held in splits for value in values(held)) == sorted(values(rows))
    for kept, held in splits:
        assert values(kept) | values(held) == values(rows)
        assert not values(kept) & values(held)
        assert torch.bincount(held.y).tolist() == [4, 4, 4]


def test_equal_rows_stay_together_and_their_order_is_no_matter():
    rows = table()
    twice = torch.cat([torch.arange(60), torch.arange(30)]).flip(0)
    one = folds(rows, 5, RNG(0))
    other = folds(Rows(rows.x[twice], rows.y[twice]), 5, RNG(0))
    assert [values(held) for _, held in one] == [values(held) for _, held in other]


def test_a_class_with_one_row_is_always_learned_from():
    rows = table(30)
    rows.y[7] = 3
    splits = folds(rows, 5, RNG(0))
    assert all(3 in kept.y for kept, _ in splits)
    assert sum(len(held.y) for _, held in splits) == 29


def test_too_few_rows_make_no_folds():
    rows = table(3)
    assert folds(rows, 5, RNG(0)) == []
    model = PUNNClassifier(epochs=3, random_state=0).fit(rows.x.numpy(), rows.y.numpy())
    assert model.n_iter_ == 3


def fake_run(curves, calls):
    """Notes what it is asked for, and tells of losses that were made up."""

    def run(network, rows, validation=None, until=None, stage=0):
        calls.append((len(rows.x), None if validation is None else len(validation.x), until, stage))
        stopped = "interrupted" if stage < len(curves) and curves[stage] is None else "all epochs"
        return History(
            loss=[1.0], validation_loss=(curves[stage] or [9.0]) if validation is not None else [], stopped=stopped
        )

    return run


def judged(curves, refit=True, weights=(1.0, 1.0)):
    rows, calls, network = table(40), [], PUNN(SeparateMLP(2, 2, (4,)))
    weight = torch.cat([torch.full((20,), w) for w in weights])
    halves = [Rows(rows.x[i : i + 20], rows.y[i : i + 20], weight[i : i + 20]) for i in (0, 20)]
    splits = [(halves[1], halves[0]), (halves[0], halves[1])]
    result, history = fit_judged(network, rows, splits, lambda *_: None, fake_run(curves, calls), refit)
    return network, result, history, calls


def test_the_best_mean_decides_and_all_rows_follow():
    network, result, history, calls = judged([[3.0, 1.0, 5.0, 9.0], [3.0, 4.0, 1.0]])
    assert calls == [(20, 20, None, 0), (20, 20, None, 1), (40, None, 2, 2)]
    assert history.validation_loss == [3.0, 2.5, 3.0, 5.0]  # the one that ended early stays where it was
    assert history.best_epoch == 2
    assert result is network


def test_folds_count_by_the_weight_of_their_rows():
    _, _, history, _ = judged([[1.0, 2.0], [2.0, 1.0]], weights=(1.0, 3.0))
    assert history.validation_loss == [1.75, 1.25]


def test_a_loss_that_is_not_a_number_is_never_the_best():
    assert judged([[float("nan"), 2.0], [1.0, 2.0]])[2].best_epoch == 2


@pytest.mark.parametrize(("curves", "refit"), [([None, [1.0]], True), ([[1.0], [1.0]], False)])
def test_an_interrupted_or_large_fit_keeps_its_first_network(curves, refit):
    network, result, _, calls = judged(curves, refit)
    assert len(calls) == 1
    assert result is not network


@pytest.mark.parametrize(("load", "most"), [(load_iris, 256), (load_breast_cancer, 1000)])
def test_a_fit_ends_where_held_out_rows_are_best(load, most):
    X, y = load(return_X_y=True)
    assert len(X) <= most
    model = PUNNClassifier(epochs=40, random_state=0).fit(X, y)
    history = model.history_
    assert model.n_iter_ == history.best_epoch == np.argmin(history.validation_loss) + 1
    assert model.score(X, y) > 0.95
