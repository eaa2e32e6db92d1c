"""One fit: what decides all that is random, who judges, and which classes are named as dead."""

import numpy as np
import pytest
import torch

from punn import PUNN, PUNNClassifier
from punn.fitting import Fitting, start, warn_of_dead_gates
from punn.gates import Ball
from punn.preparation import Settings
from punn.training import Rows


def fitting(rows=100, **options):
    model = PUNNClassifier(random_state=3, **options)
    return Fitting(model, Settings(model, rows))


def balls():
    network = PUNN(Ball(2, 2)).double()
    with torch.no_grad():
        network.gates.center.copy_(torch.tensor([[0.0, 0.0], [50.0, 0.0]]))
    return network


def test_the_same_seed_gives_the_same_generators():
    one, other = fitting(), fitting()
    assert one.seed == other.seed
    assert torch.equal(torch.randperm(9, generator=one.generator), torch.randperm(9, generator=other.generator))
    assert one.rng.randint(10**6) == other.rng.randint(10**6)


@pytest.mark.parametrize(("rows", "splits"), [(100, 5), (1000, 1)])
def test_small_tables_are_judged_fold_by_fold(rows, splits):
    x = torch.randn(rows, 2, generator=torch.Generator().manual_seed(0)).double()
    found = fitting(rows)._splits(Rows(x, (x[:, 0] > 0).long()))
    assert len(found) == splits
    assert all(kept.n + held.n == rows for kept, held in found)


def test_one_class_is_nothing_to_learn():
    network = PUNN(Ball(2, 1), class_of=[0, 0])
    trained, history = fitting(early_stopping=False).learn(network, Rows(torch.zeros(4, 2), torch.zeros(4).long()))
    assert trained is network
    assert history.stopped == "one class: nothing to learn"


def test_a_start_that_overflows_is_refused():
    x = torch.tensor([[1e30, 0.0], [-1e30, 1.0], [3e30, 0.0]])
    with pytest.raises(ValueError, match="such large numbers"):
        start(PUNN(Ball(2, 1)), Rows(x, torch.tensor([0, 0, 1])), torch.tensor([0, 0, 1]))


def test_dead_classes_are_named():
    x = torch.zeros(6, 2).double()
    rows = Rows(x, torch.tensor([0, 0, 1, 1, 2, 2]))
    with pytest.warns(UserWarning, match="'b' are dead: none of its 2 training rows") as told:
        warn_of_dead_gates(balls(), np.array(["a", "b", "c"]), rows)
    assert not any("'a'" in str(warning.message) for warning in told)


def test_a_class_that_hardly_counts_may_be_given_up():
    x = torch.zeros(4, 2).double()
    rows = Rows(x, torch.tensor([0, 0, 1, 2]), torch.tensor([1.0, 1.0, 1e-6, 1e-6]).double())
    warn_of_dead_gates(balls(), np.array(["a", "b", "c"]), rows)
