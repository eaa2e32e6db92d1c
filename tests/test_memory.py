"""Where memory is short, work goes on in smaller pieces or ends with a clear error."""

import subprocess
import sys

import pytest
import torch

from punn.memory import free_memory, in_pieces, is_shortage


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
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]) * 2**20,) * 2)
try:
    labels = model.predict(X)
    print("same" if (labels[:500] == before).all() and len(labels) == len(X) else "other")
except MemoryError as error:
    print("MemoryError", error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS and /proc")
@pytest.mark.parametrize(("megabytes", "said"), [(200, "same"), (8, "MemoryError")])
def test_predict_under_a_limit(megabytes, said):
    run = subprocess.run([sys.executable, "-c", LIMITED, str(megabytes)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(said)
