"""The compiled chain at the borders of its lanes and blocks, at the edges of its numbers, and without a library."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import mpmath
import pytest
import torch
from mpmath import mpf
from torch.nn import functional as F

import punn
from punn import kernels
from punn.partition import log_class_sums, log_partition, log_sigmoid_partition, nll_loss

pytestmark = pytest.mark.skipif(kernels._functions is None, reason="installed without a C compiler")
DTYPES = [torch.float32, torch.float64]
# Around a lane of 16 and a block of 512 numbers.
SIZES = [1, 15, 16, 17, 33, 511, 512, 513, 1040]


def softplus(t):
    return mpmath.log1p(mpmath.exp(mpf(t)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gates", SIZES)
@pytest.mark.parametrize("centre", [-60.0, -20.0, 0.0, 20.0])
def test_the_loss_of_the_last_class_is_a_sum_of_softplus(gates, dtype, centre):
    theta = (centre + 3 * torch.randn(2, gates, dtype=dtype)).requires_grad_()
    loss = nll_loss(theta, torch.full((2,), gates), reduction="none")
    loss.sum().backward()
    eps = torch.finfo(dtype).eps
    with mpmath.workdps(40):
        for row in range(2):
            exact = mpmath.fsum(softplus(t) for t in theta[row].tolist())
            # Relative, also where every term is tiny: what 1 + e would lose is kept.
            assert abs(loss[row].item() - exact) <= 4 * eps * abs(exact)
    torch.testing.assert_close(theta.grad, torch.sigmoid(theta.detach()), rtol=8 * eps, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("gates", SIZES)
def test_the_partition_agrees_with_plain_sums(gates, rows, dtype):
    theta = 6 * torch.randn(rows, gates, dtype=dtype)
    log_h = log_sigmoid_partition(theta)
    eps = torch.finfo(dtype).eps
    with mpmath.workdps(40):
        for row in range(rows):
            remaining = mpf(0)
            for i, t in enumerate(theta[row].tolist()):
                exact = remaining - softplus(-t)
                assert abs(log_h[row, i].item() - exact) <= 4 * eps * abs(exact)
                remaining -= softplus(t)
            assert abs(log_h[row, -1].item() - remaining) <= 4 * eps * abs(remaining)
    logs = -torch.nn.functional.softplus(-theta), -torch.nn.functional.softplus(theta)
    torch.testing.assert_close(log_partition(*logs), log_h, rtol=20 * eps, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("class_of", [None, [0, 1, 0, 1, 0]])
@pytest.mark.parametrize("size", [1.0, 100.0, 1e30, "largest"])
def test_no_finite_argument_makes_an_infinite_gradient(size, class_of, dtype):
    largest = torch.finfo(dtype).max if size == "largest" else size
    theta = (largest * torch.tensor([[1.0, 1, 1, 1], [-1, -1, -1, -1], [1, -1, 1, -1]], dtype=dtype)).requires_grad_()
    for target in (0, 1):
        nll_loss(theta, torch.full((3,), target), class_of).backward()
    assert torch.isfinite(theta.grad).all()
    assert not log_sigmoid_partition(theta.detach()).isnan().any()


@pytest.mark.parametrize("class_of", [None, [0, 1, 0, 1]])
def test_what_is_not_a_number_is_not_hidden(class_of):
    theta = torch.tensor([[float("nan"), 0.0, 0.0]])
    assert nll_loss(theta, torch.tensor([1]), class_of).isnan()
    assert log_sigmoid_partition(theta).isnan().any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_class_sums_leave_the_dead_dead(dtype):
    log_h = torch.tensor([[0.0, -torch.inf, -torch.inf, -torch.inf]], dtype=dtype)
    assert log_class_sums(log_h, torch.tensor([0, 1, 0, 1])).tolist() == [[0.0, -torch.inf]]


def test_rows_that_lie_apart_and_batches_of_any_shape_are_taken():
    theta = torch.randn(7, 6, 2).permute(1, 2, 0)
    target = torch.randint(8, (6, 2))
    each = [nll_loss(row, t) for rows, ts in zip(theta, target, strict=True) for row, t in zip(rows, ts, strict=True)]
    torch.testing.assert_close(nll_loss(theta, target, reduction="none").flatten(), torch.stack(each))
    torch.testing.assert_close(log_sigmoid_partition(theta).exp().sum(-1), torch.ones(6, 2))


def test_no_rows_are_no_trouble():
    theta = torch.empty(0, 3)
    assert log_sigmoid_partition(theta).shape == (0, 4)
    assert log_partition(theta, theta).shape == (0, 4)
    assert log_class_sums(torch.empty(0, 4), torch.tensor([0, 1, 0, 1])).shape == (0, 2)
    assert nll_loss(theta, torch.empty(0, dtype=torch.long), reduction="none").shape == (0,)


def test_a_mapped_chain_runs_on_operators():
    theta = torch.randn(5, 3, 4)
    torch.testing.assert_close(torch.func.vmap(log_sigmoid_partition)(theta), log_sigmoid_partition(theta))


def answer_of(folder: Path | None = None, **environment: str) -> str:
    """Whether a fresh process has the kernels, and a loss from it."""
    code = (
        "import torch, punn.kernels as k, punn;"
        "print(k._functions is not None, float(punn.nll_loss(torch.zeros(1, 3), torch.tensor([3]))))"
    )
    path = str(folder or Path(punn.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True).stdout


def test_without_the_library_the_answer_is_the_same(tmp_path):
    assert answer_of(PUNN_KERNELS="0").split() == ["False", "2.079441547393799"]
    assert answer_of().split() == ["True", "2.079441547393799"]
    shutil.copytree(Path(punn.__file__).parent, tmp_path / "punn")
    (tmp_path / "punn" / "kernels" / "chain.so").write_bytes(b"no library")
    assert answer_of(tmp_path).split() == ["False", "2.079441547393799"]


@pytest.mark.parametrize("threads", [2, 3, 50])
def test_stripes_of_rows_give_the_same_bits(threads, monkeypatch):
    theta = 5 * torch.randn(17, 12, generator=torch.Generator().manual_seed(0))
    class_of, logs = torch.arange(13) % 4, (F.logsigmoid(theta), F.logsigmoid(-theta))
    target, weight = torch.randint(4, (17,), generator=torch.Generator().manual_seed(1)), torch.rand(4)

    def answers():
        log_h = kernels.chain_sigmoid_partition(theta)
        yield from (log_h, kernels.chain_partition(*logs), kernels.chain_class_sums(log_h, class_of, 4))
        yield kernels.chain_probabilities(*logs, class_of, 4)
        yield kernels.chain_sigmoid_probabilities(theta, class_of, 4)
        for reduction in ("none", "sum", "mean"):
            x = theta.clone().requires_grad_()
            loss = nll_loss(x, target, class_of, weight, reduction)
            loss.sum().backward()
            yield from (loss.detach(), x.grad)

    alone = list(answers())
    monkeypatch.setattr(kernels, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    for mine, other in zip(answers(), alone, strict=True):
        assert torch.equal(mine, other)


def test_a_class_that_is_none_is_found_in_any_stripe(monkeypatch):
    monkeypatch.setattr(kernels, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    with pytest.raises(ValueError, match="classes from 0 to 3, got 0 to 4"):
        nll_loss(torch.zeros(9, 3), torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 4]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_works_alone():
    code = (
        "import os, torch, punn.kernels as k;"
        "k._WORTH_A_THREAD = 1; torch.set_num_threads(2);"
        "x = torch.zeros(4, 3);"
        "k.chain_sigmoid_partition(x);"
        "child = os.fork();"
        "k.chain_sigmoid_partition(x);"
        "os.write(1, b'%d\\n' % k.threads(4, 3));"  # in one piece: both processes write to the same pipe
        "child or os._exit(0);"
        "print(os.waitpid(child, 0)[1])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert sorted(done.stdout.split()) == ["0", "1", "2"]
