"""Examples that no other test runs."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.filterwarnings("ignore")  # of dask, which has many
def test_a_dask_cluster_does_the_work_of_joblib(capsys):
    from dask.distributed import LocalCluster

    example = runpy.run_path(str(EXAMPLES / "dask_backend.py"))
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        example["main"](cluster.scheduler_address)
    told = capsys.readouterr().out
    assert "2 workers" in told
    assert "the best of 4 seeds: 9" in told
