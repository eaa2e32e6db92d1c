"""The loop does what it says."""

import math
import threading

import pytest
import torch
from torch.nn import functional as F

from punn import PUNN
from punn.gates import Ball, FourierRadius, SeparateMLP, Shell
from punn.training import SCHEDULES, Rows, few_threads, train


def rings(n=400, seed=0):
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 2
    radius = 0.5 + y + 0.1 * torch.randn(n, generator=generator)
    angle = 2 * math.pi * torch.rand(n, generator=generator)
    return Rows(torch.stack([radius * angle.cos(), radius * angle.sin()], 1), y)


def fit(network, rows, **options):
    settings = {"epochs": 50, "batch_size": 100, "learning_rate": 0.02, "generator": torch.Generator().manual_seed(0)}
    return train(network, rows, **{**settings, **options})


def accuracy(network, rows):
    return float((network(rows.x).argmax(1) == rows.y).float().mean())


def test_it_learns_and_ends_in_eval_mode():
    torch.manual_seed(0)
    rows, network = rings(), PUNN(SeparateMLP(2, 1, (16, 16)))
    history = fit(network, rows)
    assert not network.training
    assert accuracy(network, rows) > 0.98
    assert len(history.loss) == 50
    assert history.loss[-1] < 0.2 * history.loss[0]


def test_the_first_loss_is_the_mean_over_all_rows():
    rows, network = rings(), PUNN(SeparateMLP(2, 1, (4,)))
    expected = F.nll_loss(network(rows.x), rows.y).detach()
    history = fit(network, rows, epochs=1, batch_size=150, learning_rate=1e-12)
    assert history.loss[0] == pytest.approx(float(expected), rel=1e-5)


def test_weights_scale_the_loss_of_their_rows():
    rows, network = rings(), PUNN(SeparateMLP(2, 1, (4,)))
    weight = torch.rand(400, generator=torch.Generator().manual_seed(1))
    losses = F.nll_loss(network(rows.x), rows.y, reduction="none").detach()
    history = fit(network, rows._replace(weight=weight), epochs=1, batch_size=400, learning_rate=1e-12)
    assert history.loss[0] == pytest.approx(float((weight * losses).sum() / weight.sum()), rel=1e-5)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_closed_form_and_copies_agree(label_smoothing):
    rows = rings()
    torch.manual_seed(0)
    alone, first, second = (PUNN(Ball(2, 1)) for _ in range(3))
    for network in (alone, first, second):
        network.start(rows.x, rows.y)
    second.gates.center.data += 3.0  # a start that ends worse
    fit(alone, rows, epochs=20, label_smoothing=label_smoothing)
    fit(first, rows, epochs=20, label_smoothing=label_smoothing, copies=[second])
    for mine, other in zip(alone.parameters(), first.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_the_best_copy_is_kept():
    rows = rings()
    bad, good = PUNN(Ball(2, 1)), PUNN(Ball(2, 1))
    bad.gates.center.data += 50.0
    good.start(rows.x, rows.y)
    fit(bad, rows, copies=[good])
    assert accuracy(bad, rows) > 0.98


def test_held_out_rows_choose_the_epoch():
    torch.manual_seed(0)
    rows, held_out, network = rings(40), rings(400, seed=1), PUNN(SeparateMLP(2, 1, (64, 64)))
    rows.y[:8] = 1 - rows.y[:8]  # wrong labels, to be learned by heart
    history = fit(network, rows, validation=held_out, patience=5, epochs=500, batch_size=40, schedule="constant")
    assert history.stopped == "no improvement"
    loss = float(F.nll_loss(network(held_out.x), held_out.y).detach())
    assert loss == pytest.approx(min(history.validation_loss), rel=1e-4)


def test_a_fit_may_end_in_the_middle_of_its_schedule():
    networks = [PUNN(SeparateMLP(2, 1, (8,))) for _ in range(2)]
    networks[1].load_state_dict(networks[0].state_dict())
    states = []
    whole = fit(networks[0], rings(), save=lambda state: states.append(state.adam.weights.clone()))
    part = fit(networks[1], rings(), until=7)
    assert part.loss == whole.loss[:7]
    weights = torch.cat([p.detach().flatten() for p in networks[1].parameters()])
    assert torch.equal(weights, states[6])


def test_the_average_is_over_the_latest_weights():
    rows, network, seen = rings(), PUNN(SeparateMLP(2, 1, (8,))), []
    fit(network, rows, batch_size=400, average=True, save=lambda state: seen.append(state.adam.weights.clone()))
    share, mean = torch.zeros(50, dtype=torch.float64), 0.0
    for t in range(50):  # the newest of t + 1 weights has the share 9 / (t + 9)
        share *= t / (t + 9)
        share[t] = 9 / (t + 9)
    mean = sum(s * w.double() for s, w in zip(share, seen, strict=True))
    assert float(share.sum()) == pytest.approx(1)
    assert float(share[40:].sum()) > 0.8
    weights = torch.cat([p.detach().flatten() for p in network.parameters()])
    torch.testing.assert_close(weights.double(), mean, rtol=1e-4, atol=1e-5)


def test_held_out_rows_judge_the_average():
    torch.manual_seed(0)
    held_out, network = rings(400, seed=1), PUNN(SeparateMLP(2, 1, (16,)))
    history = fit(network, rings(40), validation=held_out, average=True, epochs=30, batch_size=10)
    loss = float(F.nll_loss(network(held_out.x), held_out.y).detach())
    assert loss == pytest.approx(min(history.validation_loss), rel=1e-4)


def test_smoothness_keeps_high_degrees_small():
    rough = []
    for smoothness in (0.0, 0.1):
        network = PUNN(Shell(None, FourierRadius(5)), "window")
        rows = rings(60)
        rows = rows._replace(y=torch.randint(2, (60,), generator=torch.Generator().manual_seed(3)))
        network.start(rows.x, rows.y)
        fit(network, rows, epochs=200, smoothness=smoothness)
        rough.append(float(network.gates.roughness().detach()))
    assert rough[1] < 0.3 * rough[0]


def test_shapes_do_not_decay():
    rows, network = rings(), PUNN(Ball(2, 1))
    network.gates.center.data += 100.0
    before = network.gates.center.detach().clone()
    fit(network, rows, epochs=5, learning_rate=1e-9, weight_decay=1e8)
    torch.testing.assert_close(network.gates.center.detach(), before)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_stay_between_zero_and_one(name):
    values = [SCHEDULES[name](i / 100) for i in range(100)]
    assert all(0 <= value <= 1 for value in values)
    assert max(values) > 0.99


def test_threads_come_back():
    before = torch.get_num_threads()

    def fail():
        with few_threads(1.0), few_threads(1.0):
            assert torch.get_num_threads() == 1
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert torch.get_num_threads() == before


def test_threads_come_back_whoever_leaves_first():
    before, entered, leave = torch.get_num_threads(), threading.Event(), threading.Event()

    def other():
        with few_threads(1.0):
            entered.set()
            leave.wait(60)

    worker = threading.Thread(target=other)
    with few_threads(1.0):
        worker.start()
        entered.wait(60)
    assert torch.get_num_threads() == before
    leave.set()
    worker.join()
    assert torch.get_num_threads() == before


def test_weights_that_overflow_are_not_kept():
    """The loss of the only step is finite, and what the step makes of the weights is not."""
    rows, network = rings(), PUNN(SeparateMLP(2, 1, (4,)))
    before = [parameter.detach().clone() for parameter in network.parameters()]
    with pytest.warns(UserWarning, match="the loss is not finite after epoch 1"):
        fit(network, rows, epochs=1, batch_size=400, learning_rate=1e30, weight_decay=1e20, schedule="constant")
    for parameter, start in zip(network.parameters(), before, strict=True):
        assert torch.equal(parameter.detach(), start)
