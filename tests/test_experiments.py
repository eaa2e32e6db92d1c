"""The studies: their quick versions, how they go on after a stop, and what their tables say."""

import dataclasses
import io
import json
import math
import re

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from punn import datasets, training
from punn.cli import app
from punn.cli.reproduce import NAMES
from punn.experiments import MNIST_BEST, STUDIES, Task, cifar100, density, mnist, reproduce, shapes, synthetic
from punn.experiments.paper import MNIST, SHAPES, SYNTHETIC
from punn.experiments.study import markdown, mean_and_deviation, stored_runs, verdict

FIELDS = {"model", "dataset", "seed", "parameters", "accuracy", "log_loss", "seconds", "configuration", "versions"}


def count(study, **changes):
    """The study with runs that are counted and cost nothing."""
    calls = []

    def run(task, checkpoint, loud):
        calls.append(task.label)
        return {"parameters": 4, "accuracy": 99.0, "log_loss": 0.1}

    parts = {"run": run, "figures": lambda runs, quick: {}, **changes}
    return dataclasses.replace(study, **parts), calls


@pytest.mark.parametrize("study", [*STUDIES.values(), MNIST_BEST], ids=lambda study: study.name)
def test_quick_version(study, tmp_path):
    stream = io.StringIO()
    runs = reproduce(study, tmp_path, seeds=1, quick=True, stream=stream)
    folder = tmp_path / study.name
    stored = json.loads((folder / "results.json").read_text())["runs"]
    assert stored == runs
    assert len(runs) == len(study.tasks(1, True))
    for run in runs:
        assert run.keys() >= FIELDS
        assert run["quick"]
        assert 0 <= run["accuracy"] <= 100
        assert run["log_loss"] >= 0
        assert run["versions"]["torch"] == torch.__version__
    text = (folder / "table.md").read_text()
    assert text.startswith("**This is the quick version")
    assert "# " in text
    pictures = {path.suffix for path in folder.iterdir()} - {".json", ".md"}
    assert pictures == {".png", ".pdf"}
    last = stream.getvalue().splitlines()[-1]
    assert re.search(rf"{len(runs)}/{len(runs)} .* 0:00 left", last)
    assert not list(folder.glob(".*")), "no checkpoint or half a file is left"


def test_a_stopped_study_goes_on_with_the_missing_runs(tmp_path):
    def stopped(task, checkpoint, loud):
        if task.model == "gaussian":
            raise KeyboardInterrupt
        return {"parameters": 1, "accuracy": 50.0, "log_loss": 1.0}

    half, _ = count(synthetic.STUDY, run=stopped)
    with pytest.raises(KeyboardInterrupt):
        reproduce(half, tmp_path, seeds=1, quick=True, stream=io.StringIO())
    assert [run["model"] for run in stored_runs(tmp_path / "synthetic")] == ["sigmoid", "bump"]

    whole, calls = count(synthetic.STUDY)
    stream = io.StringIO()
    runs = reproduce(whole, tmp_path, seeds=1, quick=True, stream=stream)
    assert len(runs) == 40
    assert len(calls) == 38
    assert "2 of 40 runs are there already" in stream.getvalue()
    assert [run["accuracy"] for run in runs[:3]] == [50.0, 50.0, 99.0]

    again, calls = count(synthetic.STUDY)
    reproduce(again, tmp_path, seeds=1, quick=True, stream=io.StringIO())
    assert not calls


def test_the_table_of_a_growing_study_is_there_after_its_first_run(tmp_path):
    def stopped(task, checkpoint, loud):
        if task.model == "coupled":
            raise KeyboardInterrupt
        return {"parameters": 1, "accuracy": 71.0, "log_loss": 1.0}

    half, _ = count(cifar100.STUDY, run=stopped)
    with pytest.raises(KeyboardInterrupt):
        reproduce(half, tmp_path, seeds=1, quick=True, stream=io.StringIO())
    table = (tmp_path / "cifar100" / "table.md").read_text()
    assert re.findall(r"^\| (\w+) \|.* 71\.00 .* 1 \| met \|$", table, re.MULTILINE) == ["uncoupled"]


def test_other_settings_are_other_runs(tmp_path):
    study, calls = count(shapes.STUDY, table=lambda runs: str(len(runs)))
    reproduce(study, tmp_path, seeds=1, quick=True, stream=io.StringIO())

    def tasks(seeds, quick):
        return [
            dataclasses.replace(t, configuration={**t.configuration, "epochs": 6}) for t in study.tasks(seeds, quick)
        ]

    runs = reproduce(dataclasses.replace(study, tasks=tasks), tmp_path, seeds=1, quick=True, stream=io.StringIO())
    assert len(calls) == 2 * len(runs) == 18
    assert (tmp_path / "shapes" / "table.md").read_text().endswith("\n9\n")


def test_seeds_that_are_there_stay_in_the_table(tmp_path):
    study, calls = count(shapes.STUDY, table=lambda runs: str(len(runs)))
    reproduce(study, tmp_path, seeds=2, quick=True, stream=io.StringIO())
    runs = reproduce(study, tmp_path, seeds=1, quick=True, stream=io.StringIO())
    assert len(runs) == len(calls) == 18


def test_quick_and_full_results_do_not_mix(tmp_path):
    study, _ = count(shapes.STUDY, table=lambda runs: "")
    reproduce(study, tmp_path, seeds=1, quick=True, stream=io.StringIO())
    with pytest.raises(ValueError, match="holds quick results"):
        reproduce(study, tmp_path, seeds=1, stream=io.StringIO())


def test_a_broken_file_of_results_is_named(tmp_path):
    (tmp_path / "shapes").mkdir()
    (tmp_path / "shapes" / "results.json").write_text('{"runs": [{}]}')
    with pytest.raises(ValueError, match=r"results\.json is not a file of results"):
        reproduce(shapes.STUDY, tmp_path, quick=True)


def test_numbers_below_one_are_refused(tmp_path):
    with pytest.raises(ValueError, match="at least 1"):
        reproduce(shapes.STUDY, tmp_path, seeds=0)


def test_jobs_give_the_same_numbers(tmp_path):
    def few(seeds, quick):
        return [task for task in synthetic.tasks(1, True) if task.dataset == "xor" and task.model == "sigmoid"]

    study = dataclasses.replace(synthetic.STUDY, tasks=few, table=lambda runs: "", figures=lambda runs, quick: {})
    one, two = (reproduce(study, tmp_path / str(jobs), jobs=jobs, quick=True, stream=io.StringIO()) for jobs in (1, 2))
    scores = [sorted((run["seed"], run["accuracy"], run["log_loss"]) for run in runs) for runs in (one, two)]
    assert scores[0] == scores[1]


def test_a_run_is_the_same_every_time():
    task = synthetic.tasks(1, True)[0]
    results = [synthetic.run(task, None) for _ in range(2)]
    assert results[0]["log_loss"] == results[1]["log_loss"]


def test_a_fit_that_was_interrupted_is_no_result(monkeypatch):
    task = synthetic.tasks(1, True)[0]

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("punn.training._epoch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        synthetic.run(task, None)


def test_a_long_run_goes_on_from_its_checkpoint(monkeypatch, tmp_path):
    task, path = mnist.best_tasks(1, True)[0], tmp_path / "run.checkpoint"
    whole = mnist.run(task, path)
    epoch, calls = training._epoch, []

    def second_is_stopped(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return epoch(*arguments)

    monkeypatch.setattr("punn.training._epoch", second_is_stopped)
    with pytest.raises(KeyboardInterrupt):
        mnist.run(task, path)
    assert path.exists()
    again = mnist.run(task, path)
    assert len(calls) == 3
    assert not path.exists()
    assert {**again, "seconds": 0} == {**whole, "seconds": 0}


@pytest.mark.parametrize("model", ["sigmoid", "bump", "gaussian", "softmax"])
def test_synthetic_models_have_the_papers_sizes(model):
    task = next(t for t in synthetic.tasks(1, False) if t.model == model and t.dataset == "moons")
    X_train, X_test, y_train, _ = synthetic.data_of(task)
    assert (len(X_train), len(X_test)) == (800, 200)
    fitted = synthetic.model_of(task).set_params(epochs=1).fit(X_train, y_train)
    assert fitted.n_parameters_ == SYNTHETIC["parameters"][model]


def test_the_softmax_network_is_one():
    task = next(t for t in synthetic.tasks(1, True) if t.model == "softmax")
    X_train, X_test, y_train, _ = synthetic.data_of(task)
    model = synthetic.model_of(task).fit(X_train, y_train)
    x = model.network_.scaling(torch.from_numpy(X_test))
    expected = model.network_.gates.scores(x).log_softmax(-1).detach()
    torch.testing.assert_close(torch.from_numpy(model.predict_log_proba(X_test)), expected)


@pytest.mark.parametrize("dataset", synthetic.DATASETS)
def test_the_ideal_rule_knows_how_rows_are_made(dataset):
    task = next(t for t in synthetic.tasks(1, False) if (t.model, t.dataset) == ("ideal", dataset))
    X, y = getattr(datasets, dataset)(1000, 0.0, task.seed)
    # Points of moons and circles are a fifth of a unit apart at least; both arms of a helix begin in one point.
    far = np.linalg.norm(X, axis=1) > 0.3 if dataset == "helix" else np.full(len(X), True)
    p = synthetic.ideal(task, X[far])
    assert (p.argmax(1) == y[far]).all()
    np.testing.assert_allclose(p.sum(1), 1.0)


def test_the_ideal_rule_is_the_ratio_of_densities():
    task = next(t for t in synthetic.tasks(1, False) if (t.model, t.dataset) == ("ideal", "xor"))
    x = np.array([[0.01, 0.02]])

    def density(*centers):
        return sum(math.exp(-((x - center) ** 2).sum() / 0.02) for center in centers)

    same, other = density([1, 1], [-1, -1]), density([1, -1], [-1, 1])
    np.testing.assert_allclose(synthetic.ideal(task, x), [[same / (same + other), other / (same + other)]])


def test_shapes_have_no_more_numbers_than_the_papers():
    for task in shapes.tasks(1, True):
        X, y = shapes.data_of(task.dataset, 0)
        model = shapes.model_of(task).set_params(epochs=1).fit(X, y)
        assert model.n_parameters_ <= SHAPES[task.dataset][task.model]["parameters"]


@pytest.mark.parametrize("name", density.MAPS)
def test_maps_are_probability_maps(name):
    p = density.MAPS[name](density.grid(33))
    assert bool((p >= 0).all())
    torch.testing.assert_close(p.sum(-1), torch.ones(len(p), dtype=p.dtype))
    assert (p.min() == 0) == (name == "boundary3")
    assert bool((density.inside(p, 0.01) > 0).all())


def test_distorted_copies_are_other_pictures_of_the_same_digits():
    X_train, _, y_train, _ = mnist.data_of("digits")
    X, y = mnist.with_copies(X_train, y_train, copies=2, seed=0)
    assert len(X) == len(y) == 3 * len(X_train)
    original, first, second = X.reshape(3, *X_train.shape)
    assert (original == X_train).all()
    assert (y.reshape(3, -1) == y_train).all()
    assert not (first == second).any(axis=1).all()
    assert (abs(first - original).mean(1) > 0).all()
    assert abs(first.mean() - original.mean()) < 0.3, "most of the ink is still there"
    assert first.min() >= original.min()
    assert (mnist.with_copies(X_train, y_train, 2, seed=0)[0] == X).all()


def test_orders_are_permutations_and_always_the_same():
    orders = mnist.orders()
    assert list(orders) == list(MNIST["mean"])
    assert len({tuple(order) for order in orders.values()}) == 10
    assert all(sorted(order) == list(range(10)) for order in orders.values())
    assert mnist.orders() == orders


def test_table_of_synthetic_sets_tells_better_from_worse():
    def run(model, dataset, seed, accuracy):
        return {"model": model, "dataset": dataset, "seed": seed, "accuracy": accuracy, "parameters": 1185}

    runs = [
        run(model, dataset, seed, 90.0 if (model, dataset) == ("bump", "xor") else 100.0)
        for model in synthetic.MODELS
        for dataset in synthetic.DATASETS
        for seed in (42, 0, 1)
    ]
    text = synthetic.table(runs)
    assert "| xor | PUNN-Bump | 1,185 | 100.0 | 90.0 | worse (-10.0) | 90.00 ± 0.00 | worse (-10.0) | missed |" in text
    assert (
        "| circles | PUNN-Sigma | 1,185 | 99.0 | 100.0 | better (+1.0) | 100.00 ± 0.00 | better (+1.0) | met |" in text
    )
    assert "| moons | softmax MLP | 1,185 | 100.0 | 100.0 | equal | 100.00 ± 0.00 | equal | - |" in text
    assert "| moons | ideal rule | - | - | 100.0 |  | 100.00 ± 0.00 |  | - |" in text
    assert "1 of 12 cells misses it" in text


def test_table_of_orders_has_the_spread():
    example = {"what": "a mistake", "row": 3, "true": 5, "predicted": 6, "why_not": "class 5 lost"}
    runs = [
        {
            "model": f"sigmoid, {name}",
            "seed": seed,
            "accuracy": 97.5 + 0.1 * seed + (0.2 if name == "identity" else 0.0),
            "parameters": 10,
            "configuration": {"hidden": [64, 64]},
            "examples": [example],
        }
        for name in mnist.orders()
        for seed in range(3)
    ]
    text = mnist.table(runs)
    assert "| identity | 97.47 ± 0.25 | 97.80 ± 0.10 | better (+0.33) | met |" in text
    assert "| range of the orders' means | 0.34 | 0.20 | met |" in text
    assert text.count("| met |") == 2
    assert "a mistake (test row 3, a 5 read as 6): class 5 lost" in text


def test_a_tie_by_the_papers_digits_is_no_difference():
    assert verdict(98.949, 98.9) == "equal"
    assert verdict(97.474, 97.47, digits=2) == "equal"
    assert mean_and_deviation([98.0]) == (98.0, 0.0)
    assert markdown(["a", "b"], [["x", "-1"], ["y", "2"]]).splitlines()[1] == "| --- | ---: |"


def test_a_task_is_told_from_others_by_all_it_has():
    tasks = [Task("a", "b", 0, {"c": 1}), Task("a", "b", 1, {"c": 1}), Task("a", "b", 0, {"c": 2})]
    assert len({task.key for task in tasks}) == 3
    assert tasks[0].key == Task("a", "b", 0, {"c": 1}).key


def test_command(monkeypatch, tmp_path):
    study, calls = count(density.STUDY, table=lambda runs: "# Density")
    monkeypatch.setitem(STUDIES, "density", study)
    out = ["--out", str(tmp_path), "--quick", "--seeds", "1"]
    result = CliRunner().invoke(app, ["reproduce", "density", *out])
    assert result.exit_code == 0, result.output
    assert "# Density" in result.stdout
    assert f"12 runs, table and figures are in {tmp_path / 'density'}" in result.stdout
    assert "density: 12 runs to do" in result.stderr
    assert "density: 12/12" in result.stderr
    result = CliRunner().invoke(app, ["reproduce", "density", *out, "--json", "--quiet"])
    assert not result.stderr
    assert len(json.loads(result.stdout)["density"]["runs"]) == len(calls) == 12


def test_the_command_knows_every_study():
    assert sorted(NAMES) == sorted(STUDIES)


def test_command_refuses_an_unknown_study():
    result = CliRunner().invoke(app, ["reproduce", "shape"])
    assert result.exit_code == 2
    assert "did you mean 'shapes'" in result.stderr


def test_command_interrupted(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("punn.experiments.reproduce", interrupted)
    result = CliRunner().invoke(app, ["reproduce", "shapes"])
    assert result.exit_code == 130
    assert "finished runs are stored" in result.stderr
