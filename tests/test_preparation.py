"""What comes before training."""

import threading

import numpy as np
import pytest
import torch

from punn import PUNNClassifier
from punn.gates import SeparateMLP
from punn.preparation import Settings, hold_out, parts_of_rows, ranges_of, scaled, scaling_of, seeded, unknown_label
from punn.training import Rows

RNG = np.random.RandomState


def test_scaling_is_that_of_the_weighted_rows():
    X, weight = RNG(0).randn(70_000, 3) * [1, 100, 1e-3] + [5, -1e6, 0], RNG(1).rand(70_000)
    scaling = scaling_of(X, weight)
    mean = np.average(X, axis=0, weights=weight)
    np.testing.assert_allclose(scaling.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(scaling.scale, np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight)), rtol=1e-9)
    rows = scaled(X, scaling, torch.device("cpu"), torch.float64)
    np.testing.assert_allclose(rows.numpy(), (X - scaling.mean.numpy()) / scaling.scale.numpy(), rtol=1e-9, atol=1e-12)


def test_constant_columns_are_only_shifted():
    scaling = scaling_of(np.column_stack([np.full(10, 0.1), np.arange(10.0)]), None)
    assert float(scaling.scale[0]) == 1.0
    assert float(scaling(torch.tensor([[0.1, 0.0]], dtype=torch.float64))[0, 0]) == pytest.approx(0, abs=1e-12)


def test_ranges_are_those_of_all_rows_and_are_widened_by_later_ones():
    X = RNG(0).randn(50_001, 2)
    ranges = ranges_of(X)
    np.testing.assert_array_equal(ranges[:, [0, 2]], np.stack([X.min(0), X.max(0)], axis=1))
    np.testing.assert_allclose(ranges[:, 1], np.median(X, axis=0), atol=0.02)
    wider = ranges_of(np.array([[-100.0, 0.0], [0.0, 100.0]]), ranges)
    assert wider[0].tolist() == [-100.0, ranges[0, 1], ranges[0, 2]]
    assert wider[1].tolist() == [ranges[1, 0], ranges[1, 1], 100.0]


def test_read_only_tables_are_taken():
    table = np.ones((5, 2))
    table.setflags(write=False)
    assert scaled(table, None, torch.device("cpu"), torch.float32).dtype == torch.float32


def test_every_class_is_learned_from():
    y = torch.tensor([0] * 50 + [1] * 48 + [2] * 2 + [3])
    rows, held = hold_out(Rows(torch.arange(101.0).unsqueeze(1), y), 0.1, RNG(0))
    assert {0, 1} <= set(held.y.tolist())
    assert len(held.y) == 10
    assert sorted(set(rows.y.tolist())) == [0, 1, 2, 3]
    assert sorted([*rows.x.flatten().tolist(), *held.x.flatten().tolist()]) == list(range(101))


@pytest.mark.parametrize("y", [[0, 1, 2], [0, 0, 1, 1, 2, 3]])
def test_too_few_rows_to_hold_out_are_told(y):
    rows = Rows(torch.zeros(len(y), 1), torch.tensor(y))
    with pytest.warns(UserWarning, match=f"{len(y)} rows of {len(set(y))} classes are too few"):
        kept, held = hold_out(rows, 0.9, RNG(0))
    assert held is None
    assert kept is rows


def test_rows_start_in_the_cluster_of_their_part():
    x = torch.tensor([[0.0], [0.1], [9.0], [9.1], [4.0]])
    part = parts_of_rows(Rows(x, torch.tensor([0, 0, 0, 0, 1])), [0, 1, 0], RNG(0))
    assert part[0] == part[1] != part[2] == part[3]
    assert set(part[:4].tolist()) == {0, 2}
    assert part[4] == 1


def test_settings_by_size():
    small, large = Settings(PUNNClassifier(), 150), Settings(PUNNClassifier(), 100_000)
    assert (small.batch_size, small.dtype, small.folds, small.refit) == (150, torch.float64, 5, True)
    assert (large.batch_size, large.dtype, large.folds, large.refit) == (256, torch.float32, 1, False)
    assert (small.weight_decay, large.weight_decay) == (1.0, 0.05)
    assert Settings(PUNNClassifier(gates="ball"), 150).restarts == 8
    assert Settings(PUNNClassifier(epochs=3, batch_size=7, learning_rate=0.5), 150).epochs == 3


@pytest.mark.parametrize(
    ("options", "judged"),
    [
        ({}, True),
        ({"gates": "mlp"}, True),
        ({"gates": "ball"}, False),
        ({"gates": ["ball", "mlp"]}, False),
        ({"gates": SeparateMLP}, False),
        ({"restarts": 2}, False),
        ({"early_stopping": True}, False),
        ({"early_stopping": False}, False),
    ],
)
def test_networks_are_judged_if_nothing_else_is_asked_for(options, judged):
    assert Settings(PUNNClassifier(**options), 1000).judged is judged


def test_labels_of_the_unknown():
    assert unknown_label(np.array(["a", "b"])) == "unknown"
    assert unknown_label(np.array([0, 1])) == -1
    with pytest.raises(ValueError, match="for itself"):
        unknown_label(np.array([-1, 1]))


def test_seeding_leaves_the_global_generator_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    drawn = []

    def draw():
        with seeded(1):
            drawn.append(torch.rand(3).tolist())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(numbers == drawn[0] for numbers in drawn)
    assert torch.equal(before, torch.get_rng_state())


def test_means_of_many_rows_in_single_precision_are_exact():
    rows = np.full((300_000, 1), 0.1, dtype=np.float32)
    rows[0] = 3e38
    rows[1] = 3e38
    scaling = scaling_of(rows, None)
    assert float(scaling.mean[0]) == pytest.approx(rows.astype(np.float64).mean(), rel=1e-12)
    assert float(scaling_of(rows[2:], None).mean[0]) == pytest.approx(float(np.float32(0.1)), rel=1e-12)
    weight = np.full(len(rows), 2.0)
    assert float(scaling_of(rows, weight).scale[0]) == pytest.approx(float(scaling.scale[0]), rel=1e-9)
