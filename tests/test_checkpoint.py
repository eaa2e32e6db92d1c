"""An interrupted fit goes on to the very same weights."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from punn import PUNNClassifier
from punn.checkpoint import write_atomically

X, Y = load_digits(return_X_y=True)


def model(path=None, **options):
    settings = {"epochs": 6, "hidden": (8,), "random_state": 0, "early_stopping": True, "checkpoint": path}
    return PUNNClassifier(**{**settings, **options})


def interrupted(path, after, **options):
    """A fit that ends with an error after some epochs, as a crash would end it."""
    calls = iter(range(100))

    def crash(step):
        if next(calls) == after:
            raise RuntimeError("crash")

    fit = model(path, verbose=True, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("punn.progress.Progress.__call__", lambda self, step: crash(step))
        with pytest.raises(RuntimeError, match="crash"):
            fit.fit(X, Y)


def same_bits(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.network_.parameters(), other.network_.parameters(), strict=True))


@pytest.mark.parametrize("options", [{}, {"gates": "ball", "restarts": 3}, {"activation": "bump"}])
def test_resumes_to_the_same_bits(tmp_path, options):
    whole = model(**options).fit(X, Y)
    path = tmp_path / "fit.safetensors"
    interrupted(path, after=3, **options)
    assert path.exists()
    resumed = model(path, **options).fit(X, Y)
    assert same_bits(whole, resumed)
    assert resumed.loss_curve_ == whole.loss_curve_
    assert list(tmp_path.iterdir()) == []  # the fit has ended: nothing is left


def test_kill_at_any_moment(tmp_path):
    path = tmp_path / "fit.safetensors"
    script = tmp_path / "fit.py"
    script.write_text(
        "import sys; from sklearn.datasets import load_digits; from punn import PUNNClassifier\n"
        "X, y = load_digits(return_X_y=True)\n"
        "m = PUNNClassifier(epochs=60, hidden=(8,), random_state=0, early_stopping=False, checkpoint=sys.argv[1])\n"
        "print('ready', flush=True); m.fit(X, y)\n"
    )
    for wait in (0.3, 0.9):
        process = subprocess.Popen([sys.executable, script, path], stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        time.sleep(wait)
        process.kill()
        process.communicate()
    options = {"epochs": 60, "early_stopping": False}
    assert same_bits(model(path, **options).fit(X, Y), model(**options).fit(X, Y))


def test_another_fit_is_refused(tmp_path):
    path = tmp_path / "fit.safetensors"
    interrupted(path, after=2)
    for other in (model(path, hidden=(9,)), model(path, random_state=1)):
        with pytest.raises(ValueError, match="checkpoint of another fit"):
            other.fit(X, Y)
    with pytest.raises(ValueError, match="checkpoint of another fit"):
        model(path).fit(X[:1700], Y[:1700])
    assert path.exists()


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"\xff" * 100])
def test_damaged_files_are_named(tmp_path, damage):
    path = tmp_path / "fit.safetensors"
    interrupted(path, after=2)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match="not a whole checkpoint"):
        model(path).fit(X, Y)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="folder of the checkpoint"):
        model(tmp_path / "nowhere" / "fit.safetensors").fit(X, Y)


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"first")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_probabilities_do_not_depend_on_a_checkpoint(tmp_path):
    with_file = model(tmp_path / "fit.safetensors").fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(with_file, model().fit(X, Y).predict_proba(X))
