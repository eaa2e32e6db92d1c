"""Every example runs to its end, in a folder of its own; the long ones with few epochs."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from punn import PUNNClassifier
from punn.cli.reproduce import NAMES

EXAMPLES = Path(__file__).parents[1] / "examples"
#: What the output of a short example must tell; these are run as they are.
SHORT = {
    "iris": r"9\d\.\d% of 60 held-out flowers with 18 numbers",
    "picture": r"picture\.png: a held-out [a-z]+, 9",
    "rings": r"order \[0, 1, 2\]: (99\.\d|100\.0)% of the held-out rows with 8 numbers",
    "hybrid": r"ball \+ mlp  9\d\.\d% of the held-out rows",
    "images": r"9\d\.\d% of 397 held-out digits(?s:.*)the same: True",
    "custom_gate": r"9\d\.\d% of 60 held-out flowers with 18 numbers",
    "search": r"the best: (9\d\.\d|100\.0)% of 38 held-out flowers",
    "calibration": r"trained too long calibrated: log-loss 0\.\d+, calibration error 0\.0\d+",
    "serving": r"the largest difference from Python over 38 flowers: \de-1[4-6]",
}
#: The same of a long one.
TOLD = {
    "synthetic": "bump      ",
    "density": "exact gates: the uniform error is",
    "mnist": "The most confident mistake is row",
    "shapes": "petal width (cm)",
    "cifar100": "200 partition functions",
    "demo": "made in",
}


@pytest.mark.parametrize("name", SHORT)
def test_short_example(name, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert re.search(SHORT[name], capsys.readouterr().out)


@pytest.mark.parametrize("name", TOLD)
def test_long_example(name, monkeypatch, tmp_path, capsys):
    fit = PUNNClassifier.fit
    monkeypatch.setattr(
        PUNNClassifier, "fit", lambda self, *rows, **more: fit(self.set_params(epochs=2), *rows, **more)
    )
    monkeypatch.setenv("PUNN_DATA", str(tmp_path))  # no image sets: examples make do with what is built in
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert TOLD[name] in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_every_study_has_an_example(name):
    assert (EXAMPLES / f"{name}.py").is_file()


@pytest.mark.filterwarnings("ignore")  # of dask, which has many
def test_a_dask_cluster_does_the_work_of_joblib(capsys):
    from dask.distributed import LocalCluster

    example = runpy.run_path(str(EXAMPLES / "dask_backend.py"))
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        example["main"](cluster.scheduler_address)
    told = capsys.readouterr().out
    assert "2 workers" in told
    assert "the best of 4 seeds: 9" in told
