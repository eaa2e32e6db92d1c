"""Two real processes learn what one learns, and one that dies ends the other."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits

import punn
from punn import PUNNClassifier
from punn.parallel import started_as
from punn.streaming import open_stream

#: Fits that two processes do one after the other, in one program; every one of them is done by one process, too.
FITS = {
    "held out": {"early_stopping": True, "verbose": True},
    "pieces and weights": {"accumulate": 2, "class_weight": {3: 2.0}, "batch_size": 101},
    "copies": {"gates": "ball", "restarts": 2, "batch_size": 2000},
    "mixed": {"precision": "mixed", "gates": "shared"},
}
SCRIPT = f"""
import os, sys, warnings
import numpy as np, torch
from sklearn.datasets import load_digits
from punn import PUNNClassifier
from punn.parallel import assemble
from punn.streaming import open_stream

def fit(name, options, cut=0):
    X, y = load_digits(return_X_y=True)
    settings = {{"epochs": 3, "hidden": (8,), "random_state": 0, "early_stopping": False}}
    model = PUNNClassifier(**{{**settings, **options}}).fit(X[cut:], y[cut:])
    torch.save(model.network_.state_dict(), f"{{name}}.{{os.environ.get('RANK', 'alone')}}")
    return model

if __name__ == "__main__":
    for name, options in {FITS!r}.items():
        fit(name, options)
    fit("any seed", {{"random_state": None, "epochs": 1}})
    rank = int(os.environ["RANK"])
    fit(f"by itself {{rank}}", {{"processes": 1, "epochs": 1}}, cut=rank)
    stream = open_stream("digits.parquet", "digit", memory=10**7, team=assemble(torch.device("cpu")))
    streamed = PUNNClassifier(epochs=10, batch_size=64, hidden=(16,), random_state=0).fit_stream(stream)
    torch.save(streamed.network_.state_dict(), f"stream.{{rank}}")
    streamed.save(f"stream.model.{{rank}}")
    try:
        fit("never", {{"epochs": 1}}, cut=rank)
    except ValueError as error:
        print(error)
"""


def environment(rank, port):
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "GROUP_WORLD_SIZE": 1}
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
    return {**os.environ, **{name: str(value) for name, value in (places | meeting).items()}}


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A folder with what two processes have learned, and what they said."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "fits.py").write_text(SCRIPT)
    X, y = load_digits(return_X_y=True)
    frame = pd.DataFrame(X, columns=[f"pixel {i}" for i in range(64)]).assign(digit=y)
    frame.to_parquet(folder / "digits.parquet", row_group_size=150, index=False)
    port = free_port()
    started = [
        subprocess.Popen(
            [sys.executable, "fits.py"],
            cwd=folder,
            env=environment(rank, port),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=300) for process in started]
    return folder, said


def weights(folder, name, rank):
    return torch.load(folder / f"{name}.{rank}", weights_only=True)


@pytest.mark.parametrize("name", FITS)
def test_two_processes_learn_the_weights_of_one(two, name):
    folder, _ = two
    first, second = weights(folder, name, 0), weights(folder, name, 1)
    X, y = load_digits(return_X_y=True)
    options = {"epochs": 3, "hidden": (8,), "random_state": 0, "early_stopping": False, **FITS[name], "verbose": False}
    alone = PUNNClassifier(**options).fit(X, y).network_.state_dict()
    # Half precision rounds a piece of a batch otherwise than the whole.
    tolerance = {"rtol": 0.05, "atol": 0.05} if name == "mixed" else {"rtol": 1e-4, "atol": 1e-5}
    for key, value in alone.items():
        assert torch.equal(first[key], second[key]), key
        torch.testing.assert_close(first[key], value, **tolerance)


def test_a_seed_that_is_not_given_is_the_same_in_both(two):
    first, second = (weights(two[0], "any seed", rank) for rank in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_a_process_may_fit_by_itself(two):
    first, second = (weights(two[0], f"by itself {rank}", rank) for rank in range(2))
    assert not all(torch.equal(first[key], second[key]) for key in first)


def test_processes_read_a_stream_together(two):
    first, second = (weights(two[0], "stream", rank) for rank in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)
    stream = open_stream(two[0] / "digits.parquet", "digit", memory=10**7)
    alone = PUNNClassifier(epochs=10, batch_size=64, hidden=(16,), random_state=0).fit_stream(stream)
    torch.testing.assert_close(first["scaling.scale"], alone.network_.scaling.scale)
    frame = pd.read_parquet(two[0] / "digits.parquet")[list(stream.columns.feature_names)]
    digits = load_digits().target
    scores = [model.score(frame, digits) for model in (alone, punn.load(two[0] / "stream.model.0"))]
    assert min(scores) > 0.85
    assert abs(scores[0] - scores[1]) < 0.04


def test_the_first_alone_speaks(two):
    (_, errors), (_, silence) = two[1]
    assert errors.count("epoch 3/3") == 1
    assert "epoch" not in silence


def test_other_rows_are_refused(two):
    (_, _), (told, _) = two[1]
    assert "process 1 of 2 was given other rows" in told


def workers_of(process):
    """The processes that torchrun has started, by their rank."""
    found = {}
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        variables = dict(entry.partition("=")[::2] for entry in Path(f"/proc/{child}/environ").read_text().split("\0"))
        found[int(variables.get("RANK", -1))] = int(child)
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to find the processes of torchrun")
def test_torchrun_a_death_and_going_on_alone(tmp_path, monkeypatch):
    from punn.cli import main

    rows = np.random.default_rng(0).normal(size=(3000, 3))
    names = np.where(rows[:, 0] > rows[:, 1] ** 2, "inside", "outside")
    lines = [",".join([*map(str, row), name]) for row, name in zip(rows.round(4), names, strict=True)]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,c,kind", *lines]))
    monkeypatch.chdir(tmp_path)
    command = ["train", "table.csv", "-t", "kind", "--hidden", "8", "--epochs", "60", "--resume"]
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    process = subprocess.Popen(
        [*launch, "-m", "punn", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    state = Path("table.punn.safetensors.checkpoint")
    ends = time.monotonic() + 200
    while not state.exists() and process.poll() is None and time.monotonic() < ends:
        time.sleep(0.05)
    os.kill(workers_of(process)[1], signal.SIGKILL)
    out, errors = process.communicate(timeout=100)
    assert process.returncode != 0
    assert errors.count("punn: another process of this fit has ended before its time") == 1, errors
    assert out.count("3,000 rows, 4 columns") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"table.csv", state.name}

    for arguments in (command, [*command[:-1], "-o", "whole.safetensors"]):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--quiet"])
        assert ended.value.code == 0
    resumed, whole = punn.load("table.punn.safetensors"), punn.load("whole.safetensors")
    assert len(resumed.loss_curve_) == len(whole.loss_curve_)
    table = pd.DataFrame(rows.round(4), columns=["a", "b", "c"])
    np.testing.assert_allclose(resumed.predict_proba(table), whole.predict_proba(table), atol=0.02)
    assert not state.exists()


def test_workers_of_joblib_are_none_of_the_team(monkeypatch):
    from joblib import Parallel, delayed

    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert started_as() == (1, 2)
    assert Parallel(n_jobs=2, backend="multiprocessing")(delayed(started_as)() for _ in range(2)) == [(0, 1), (0, 1)]
