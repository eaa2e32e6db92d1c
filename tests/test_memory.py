"""Where memory is short, work goes on in smaller pieces or ends with a clear error."""

import subprocess
import sys

import pytest
import torch

from punn import memory
from punn.memory import free_memory, in_pieces, is_shortage, side_by_side


def test_pieces_shrink_until_they_fit():
    sizes = []

    def work(part):
        size = part.stop - part.start
        sizes.append(size)
        if size > 3:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        return list(range(100))[part]

    rows = list(in_pieces(work, rows=10, size=50))
    assert [row for piece in rows for row in piece] == list(range(10))
    assert sizes == [50, 5, 2, 2, 2, 2, 2]


def test_other_errors_and_a_single_row_that_does_not_fit_are_told():
    def fail(error):
        def work(part):
            raise error

        return work

    with pytest.raises(RuntimeError, match="on purpose"):
        list(in_pieces(fail(RuntimeError("on purpose")), rows=10, size=5))
    with pytest.raises(MemoryError, match="not enough memory for a single row"):
        list(in_pieces(fail(MemoryError()), rows=10, size=5))


def test_torch_says_it_in_the_words_that_are_known():
    with pytest.raises(RuntimeError) as error:
        torch.empty(2**55)
    assert is_shortage(error.value)
    assert is_shortage(RuntimeError("std::bad_alloc"))
    assert not is_shortage(RuntimeError("another"))


def test_memory_is_some():
    assert 10**6 < free_memory() < 10**15


LIMITED = """
import resource, sys
import numpy as np
from punn import PUNNClassifier
rng = np.random.default_rng(0)
X = rng.normal(size=(400_000, 4))
model = PUNNClassifier(gates="mlp", hidden=(32, 32), epochs=1, random_state=0).fit(X[:200], rng.integers(5, size=200))
before = model.predict(X[:500])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
for megabytes in (8, 200):
    resource.setrlimit(resource.RLIMIT_AS, (used + megabytes * 2**20, resource.RLIM_INFINITY))
    try:
        labels = model.predict(X)
        print("same" if (labels[:500] == before).all() and len(labels) == len(X) else "other")
    except MemoryError as error:
        print("MemoryError", error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS and /proc")
def test_predict_under_a_limit():
    """Too little for the answer itself is told; too little for a whole piece is enough for smaller ones."""
    run = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    little, more = run.stdout.splitlines()
    assert little.startswith("MemoryError")
    assert more == "same"


def test_memory_is_kept_for_a_while_only(monkeypatch):
    calls = []

    class Library:
        mallopt = staticmethod(lambda name, value: calls.append((name, value)))

    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: Library)
    with memory.keep_memory():
        assert len(calls) == 3
    assert [name for name, _ in calls[3:]] == [name for name, _ in calls[:3]]
    assert all(before != after for before, after in zip(calls[:3], calls[3:], strict=True))


def test_without_glibc_nothing_is_done(monkeypatch):
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    with memory.keep_memory():
        pass


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [1, 7, 8, 25])
def test_side_by_side_does_every_row_once_in_the_same_pieces(rows, threads):
    done = []
    side_by_side(done.append, rows, 4, threads)
    assert sorted((part.start, part.stop) for part in done) == [(i, min(i + 4, rows)) for i in range(0, rows, 4)]


def test_an_error_in_a_thread_is_told():
    def work(part):
        if part.start == 8:
            raise ValueError("here")

    with pytest.raises(ValueError, match="here"):
        side_by_side(work, 20, 4, 2)
