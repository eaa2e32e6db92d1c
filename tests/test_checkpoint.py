"""An interrupted fit goes on to the very same weights."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import punn
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


@pytest.mark.parametrize("after", [3, 8])
def test_a_judged_fit_resumes_in_either_run(tmp_path, after):
    options = {"early_stopping": "auto"}
    whole = model(**options).fit(X, Y)
    path = tmp_path / "fit.safetensors"
    interrupted(path, after, **options)
    assert len(list(tmp_path.iterdir())) == (1 if after < 6 else 2)  # the search, and then all rows
    resumed = model(path, **options).fit(X, Y)
    assert same_bits(whole, resumed)
    assert resumed.history_ == whole.history_
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kill_at_any_moment(tmp_path):
    """PUNN_KILLS=50 is the full run."""
    command = [sys.executable, Path(__file__).with_name("kills.py"), os.environ.get("PUNN_KILLS", "5"), tmp_path]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "same bits: True; files left: []" in run.stdout


def test_another_fit_is_refused(tmp_path):
    path = tmp_path / "fit.safetensors"
    interrupted(path, after=2)
    for other in (model(path, hidden=(9,)), model(path, random_state=1)):
        with pytest.raises(ValueError, match="checkpoint of another fit"):
            other.fit(X, Y)
    with pytest.raises(ValueError, match="checkpoint of another fit"):
        model(path).fit(X[:1700], Y[:1700])
    assert path.exists()


def flipped(content, place):
    damaged = bytearray(content)
    damaged[int(place * (len(content) - 1))] ^= 4
    return bytes(damaged)


DAMAGE = [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"\xff" * 100]
DAMAGE += [lambda b, place=place: flipped(b, place) for place in (0.001, 0.5, 0.9, 1.0)]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_named_and_kept(tmp_path, damage):
    path = tmp_path / "fit.safetensors"
    interrupted(path, after=2)
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="not a whole checkpoint"):
        model(path).fit(X, Y)
    assert path.read_bytes() == damaged
    assert list(tmp_path.iterdir()) == [path]


def test_a_model_is_no_checkpoint_and_a_checkpoint_no_model(tmp_path):
    path = tmp_path / "fit.safetensors"
    model(epochs=1).fit(X, Y).save(path)
    with pytest.raises(ValueError, match="not a whole checkpoint"):
        model(path).fit(X, Y)
    path.unlink()
    interrupted(path, after=1)
    with pytest.raises(ValueError, match="the checkpoint of a fit that was interrupted"):
        punn.load(path)


@pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
def test_two_fits_on_one_path(tmp_path, monkeypatch):
    path = tmp_path / "fit.safetensors"
    met = []

    def second(self, step):
        if step.epoch == 3:
            before = path.read_bytes()
            with pytest.raises(ValueError, match="the checkpoint of a fit that is going on"):
                model(path).fit(X, Y)
            met.append(path.read_bytes() == before)

    monkeypatch.setattr("punn.progress.Progress.__call__", second)
    first = model(path, verbose=True).fit(X, Y)
    assert met == [True]
    assert same_bits(first, model().fit(X, Y))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 kB, which takes an administrator; the test is skipped for others."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("mounting a disk needs an administrator")
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting a disk is not allowed here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_keeps_the_last_state(small_disk):
    path = small_disk / "fit.safetensors"
    interrupted(path, after=2)
    good = path.read_bytes()
    space = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(b"x" * (space.f_bavail * space.f_frsize))
    with pytest.raises(OSError, match="No space left on device") as error:
        model(path).fit(X, Y)
    assert error.value.filename == str(path)
    assert path.read_bytes() == good
    with pytest.raises(OSError, match="No space left on device"):
        model(epochs=1).fit(X, Y).save(small_disk / "model.safetensors")
    assert sorted(entry.name for entry in small_disk.iterdir()) == ["filler", "fit.safetensors"]
    (small_disk / "filler").unlink()
    assert same_bits(model(path).fit(X, Y), model().fit(X, Y))


def test_a_folder_that_cannot_be_written_to(small_disk):
    path = small_disk / "fit.safetensors"
    interrupted(path, after=2)
    good = path.read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for place in (path, small_disk / "other.safetensors"):
        with pytest.raises(OSError, match="Read-only file system") as error:
            model(place).fit(X, Y)
        assert error.value.filename == str(place)
    assert path.read_bytes() == good


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
