"""The CIFAR-100 study: sizes, heads, how a stopped run goes on, and what its table says."""

import dataclasses

import pytest
import torch

from punn import checkpoint, training
from punn.experiments import cifar100
from punn.experiments.paper import CIFAR100


def pictures(task, n=60):
    x = torch.randint(0, 256, (n, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return cifar100.pictures_of(task, x, torch.arange(n) % 100 if n >= 100 else torch.arange(100 - n, 100))


def full_tasks():
    return {task.model: task for task in cifar100.tasks(1, quick=False)}


def quick_tasks():
    return {task.model: task for task in cifar100.tasks(1, quick=True)}


def test_sizes_are_within_the_papers():
    sizes = {}
    for model, task in full_tasks().items():
        network = cifar100.network_of(task, pictures(task))
        sizes[model] = sum(parameter.numel() for parameter in network.parameters())
        assert network.classes == 100
        assert network.functions == (100 if model == "softmax" else 2000)
    assert max(sizes.values()) <= CIFAR100["punn"]["parameters"]
    assert sizes["softmax"] >= 0.98 * max(sizes.values())


def test_models_differ_in_their_heads_and_the_features_that_these_see():
    bodies = []
    for task in full_tasks().values():
        network = cifar100.network_of(task, pictures(task))
        assert network.gates.coupled == (task.model != "uncoupled")
        assert network.gates.backbone[-1].out_features == task.configuration["features"]
        bodies.append([tuple(p.shape) for p in network.gates.backbone[:-1].parameters()])
        assert task.configuration == {**cifar100.SETTINGS, **cifar100.HEADS[task.model]}
    assert bodies[0] == bodies[1] == bodies[2]


def test_softmax_is_softmax():
    task = quick_tasks()["softmax"]
    x, y, _, _ = cifar100.data_of("digits")
    source = cifar100.pictures_of(task, x[:100], y[:100])
    network = cifar100.network_of(task, source).eval()
    pieces = source.some(100).x
    torch.testing.assert_close(network(pieces), network.gates.scores(pieces).log_softmax(1), atol=1e-5, rtol=1e-5)


def test_a_stopped_run_goes_on_to_the_same_numbers(monkeypatch, tmp_path):
    task = quick_tasks()["uncoupled"]
    task = dataclasses.replace(task, configuration={**task.configuration, "widths": [4, 4, 4], "batch_size": 500})
    epoch = training._epoch
    clock = [0.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: clock[0])

    def slow(*arguments):
        clock[0] += 100
        return epoch(*arguments)

    def stopped(state, *arguments):
        if state.epoch == 1:
            raise KeyboardInterrupt
        return slow(state, *arguments)

    monkeypatch.setattr(training, "_epoch", slow)
    whole = cifar100.run(task, tmp_path / "a")
    assert whole["seconds"] == 200

    monkeypatch.setattr(training, "_epoch", stopped)
    with pytest.raises(KeyboardInterrupt):
        cifar100.run(task, tmp_path / "b")
    assert (tmp_path / "b").exists()
    clock[0] += 1000  # while nothing runs

    monkeypatch.setattr(training, "_epoch", slow)
    assert cifar100.run(task, tmp_path / "b") == whole
    assert not list(tmp_path.iterdir())


def test_a_run_that_was_stopped_while_it_was_judged_is_only_judged(monkeypatch, tmp_path):
    task = quick_tasks()["softmax"]
    task = dataclasses.replace(task, configuration={**task.configuration, "widths": [4, 4, 4], "sides": [12]})

    def stopped(*arguments):
        raise KeyboardInterrupt

    judge = cifar100.judge
    monkeypatch.setattr(cifar100, "judge", stopped)
    with pytest.raises(KeyboardInterrupt):
        cifar100.run(task, tmp_path / "a")
    monkeypatch.setattr(cifar100, "judge", judge)
    monkeypatch.setattr(training, "_epoch", stopped)
    assert cifar100.run(task, tmp_path / "a")["accuracy"] > 0
    assert not list(tmp_path.iterdir())


def test_copies_are_moved_and_mirrored():
    x = torch.arange(9.0).view(1, 1, 3, 3)
    first, mirrored, same, *_ = (copy[0, 0].tolist() for copy in cifar100.copies(x))
    assert same == x[0, 0].tolist()
    assert first == [[4, 3, 4], [1, 0, 1], [4, 3, 4]]
    assert mirrored == [row[::-1] for row in first]


def test_judge_adds_up_the_parts_and_averages_copies():
    task = quick_tasks()["coupled"]
    x, y, _, _ = cifar100.data_of("digits")
    source = cifar100.pictures_of(task, x[:300], y[:300])
    network = cifar100.network_of(task, source).eval()
    rows = source.scaled(x[:300])
    p, shares = cifar100.judge(network, rows, y[:300])
    with torch.no_grad():
        expected = torch.stack([network(copy).exp() for copy in cifar100.copies(rows)]).mean(0)
    torch.testing.assert_close(p.float(), expected, atol=1e-6, rtol=1e-5)
    assert len(shares) == 20
    torch.testing.assert_close(shares.sum(), torch.tensor(1.0, dtype=torch.float64))
    assert (shares.diff() <= 0).all()


def runs(**accuracies):
    parameters = {"uncoupled": 5_600_000, "coupled": 5_600_000, "softmax": 5_500_000}
    configuration = cifar100.SETTINGS
    return [
        {"model": m, "seed": s, "accuracy": a, "parameters": parameters[m], "configuration": configuration}
        for m, values in accuracies.items()
        for s, a in enumerate(values)
    ]


def test_table_tells_what_was_met():
    text = cifar100.table(runs(uncoupled=[70.6, 71.0], coupled=[72.0, 72.2], softmax=[72.0, 72.1]))
    lines = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if line.startswith("| ")}
    assert "70.80 ± 0.28 | better (+0.15) | 2 | met |" in lines["uncoupled"]
    assert "72.10 ± 0.14 | better (+1.45) | 2 | met |" in lines["coupled"]
    assert "each other: yes" in text
    # 72.1 and 72.05, variances 0.02 and 0.005, two runs each
    assert "The coupled mean is 0.05 above softmax's, with a standard error of 0.11." in text


def test_a_table_of_the_first_runs_leaves_open_what_it_cannot_tell():
    text = cifar100.table(runs(uncoupled=[70.8], coupled=[72.0]))
    assert "70.80 | better (+0.15) | 1 | met |" in text
    assert "72.00 | better (+1.35) | 1 | - |" in text
    assert "| softmax" not in text
    assert "Not there yet: softmax." in text
    assert "standard error" not in text


@pytest.mark.parametrize("coupled", [71.7, 72.0])
def test_coupled_must_beat_both(coupled):
    text = cifar100.table(runs(uncoupled=[70.65], coupled=[coupled], softmax=[72.1]))
    assert text.count("| missed |") == 2
