"""Every example runs to its end, in a folder of its own and with few epochs."""

import runpy
from pathlib import Path

import pytest

from punn import PUNNClassifier
from punn.cli.reproduce import NAMES

EXAMPLES = Path(__file__).parents[1] / "examples"
#: What an example's output must tell.
TOLD = {
    "synthetic": "bump      ",
    "density": "exact gates: the uniform error is",
    "mnist": "The most confident mistake is row",
    "shapes": "petal width (cm)",
    "cifar100": "200 partition functions",
    "demo": "made in",
}


@pytest.mark.parametrize("name", TOLD)
def test_example(name, monkeypatch, tmp_path, capsys):
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
