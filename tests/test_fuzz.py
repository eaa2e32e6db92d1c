"""Anything goes in; what comes out is right, or an error that says what is wrong.

A short version runs with the other tests. The long one runs as long as it is told to, and tells how many examples it
tried:

    python tests/test_fuzz.py 3600
"""

import contextlib
import gzip
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import hypothesis
import numpy as np
import pandas as pd
import torch
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from torch import nn

from punn import PUNN, PUNNClassifier, nll_loss
from punn.building import build_network
from punn.checkpoint import Checkpoint
from punn.persistence import ModelFileError, load
from punn.sources import Source, learnable
from punn.table import Pieces, TableError, read_table
from punn.training import Rows, train

EXAMPLES = 15  # of every check, with the other tests
FAMILIES = ("mlp", "shared", "ball", "ellipsoid", "shell", "fourier", "harmonic")
ACTIVATIONS = ("sigmoid", "gaussian", "bump", "window", "compact_window")
tried: Counter = Counter()

numbers = st.one_of(
    st.floats(-10, 10, width=32),
    st.sampled_from([0.0, -0.0, 1e-30, 1e-8, 1e4, -1e8, 1e15, 1e30, -1e30, 3e38]),
)


@st.composite
def chains(draw):
    """A network of any gates, activations and parts, with numbers of any size in it."""
    classes = draw(st.integers(2, 5))
    class_of = list(range(classes)) + draw(st.lists(st.integers(0, classes - 1), max_size=4))
    gates = len(class_of) - 1
    features = 2 if draw(st.booleans()) else draw(st.integers(1, 4))
    allowed = [f for f in FAMILIES if (f != "fourier" or features == 2) and (f != "harmonic" or features > 1)]
    alone = [family for family in allowed if family != "shared"]
    families = draw(st.sampled_from(allowed) | st.lists(st.sampled_from(alone), min_size=gates, max_size=gates))
    activation = draw(
        st.sampled_from(("auto", *ACTIVATIONS))
        | st.lists(st.sampled_from(("auto", *ACTIVATIONS)), min_size=gates, max_size=gates)
    )
    torch.manual_seed(draw(st.integers(0, 1000)))
    network = build_network(families, activation, class_of, features, hidden=(4,), degree=2)
    size = draw(st.sampled_from([0.0, 0.1, 1.0, 10.0, 1e3]))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += size * torch.randn_like(parameter)
    return network.to(draw(st.sampled_from([torch.float32, torch.float64])))


def check_networks(network, data):
    """Probabilities are probabilities, and a step of training has a finite loss and gradient."""
    dtype = next(network.parameters()).dtype
    features = _features(network)
    rows = data.draw(st.lists(st.lists(numbers, min_size=features, max_size=features), min_size=1, max_size=6))
    # Squares and products of single precision overflow beyond; the estimator predicts in double precision.
    most = 1e10 if dtype == torch.float32 else 1e38
    x = torch.tensor(rows, dtype=torch.float64).clamp(-most, most).to(dtype)
    network.eval()
    with torch.no_grad():
        log_p = network(x)
    assert not log_p.isnan().any()
    torch.testing.assert_close(log_p.exp().sum(-1).double(), torch.ones(len(x)).double(), rtol=0, atol=1e-5)
    trace = network.trace(x)
    np.testing.assert_allclose(trace.probabilities, log_p.exp().numpy(), atol=1e-5)
    network.train()
    y = torch.tensor(data.draw(st.lists(st.integers(0, network.classes - 1), min_size=len(x), max_size=len(x))))
    if x.abs().max() <= 1e4:  # scaled rows are never far out
        loss = nn.functional.nll_loss(network(x), y)
        loss.backward()
        assert torch.isfinite(loss)
        assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)


def _features(network):
    return next(getattr(m, "features", None) or m.in_features for m in network.gates.modules() if _has_features(m))


def _has_features(module):
    return isinstance(getattr(module, "features", None), int) or isinstance(module, nn.Linear)


def check_losses(data):
    """The closed form of the loss is that of the network, wherever the arguments are."""
    classes, parts, n = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    class_of = torch.arange(classes * parts) % classes
    width = len(class_of) - 1
    theta = torch.tensor(
        data.draw(st.lists(st.lists(numbers, min_size=width, max_size=width), min_size=n, max_size=n)),
        dtype=torch.float64,
    )
    theta.requires_grad_()
    y = torch.tensor(data.draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n)))
    loss = nll_loss(theta, y, class_of)
    loss.backward()
    network = PUNN(nn.Identity(), "sigmoid", class_of)
    expected = nn.functional.nll_loss(network.log_probabilities(theta.detach()), y)
    torch.testing.assert_close(loss.detach(), expected, rtol=1e-9, atol=1e-9)
    assert torch.isfinite(theta.grad).all()
    assert (theta.grad.abs() <= 1 / n + 1e-9).all()


def check_fits(data):
    """Any table of finite numbers is learned, and predictions of anything finite are probabilities."""
    n, features = data.draw(st.integers(2, 12)), data.draw(st.integers(1, 3))
    row = st.lists(numbers, min_size=features, max_size=features)
    X = np.array(data.draw(st.lists(row, min_size=n, max_size=n)), dtype=data.draw(st.sampled_from(["f4", "f8"])))
    y = np.array(data.draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=n, max_size=n)))
    allowed = [f for f in FAMILIES if (f != "fourier" or features == 2) and (f != "harmonic" or features > 1)]
    options = {
        "gates": data.draw(st.sampled_from(allowed)),
        "activation": data.draw(st.sampled_from(["auto", *ACTIVATIONS])),
        "parts": data.draw(st.integers(1, 2)),
        "order": data.draw(st.sampled_from(["given", "frequency", "random", "separable"])),
        "standardize": data.draw(st.booleans()),
        "label_smoothing": data.draw(st.sampled_from([0.0, 0.1])),
        "precision": data.draw(st.sampled_from(["auto", "single", "double", "mixed"])),
        "early_stopping": data.draw(st.booleans()),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # told: gates that are dead, a loss that is not finite
        warnings.simplefilter("ignore", RuntimeWarning)
        model = PUNNClassifier(hidden=(4,), epochs=2, restarts=1, random_state=0, **options)
        try:
            p = model.fit(X, y).predict_proba(X)
        except ValueError as error:
            assert not options["standardize"], error  # noqa: PT017
            assert "such large numbers" in str(error), error  # noqa: PT017
            return
    assert p.shape == (n, len(model.classes_))
    np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-6)
    assert set(model.predict(X)) <= set(y)


def _damaged(draw, content):
    """A file that was cut, flipped, doubled or filled with something else."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(data) - 1)))
        kind = draw(st.sampled_from(["flip", "cut", "insert", "zero", "tail"]))
        if kind == "flip" and data:
            data[place] ^= draw(st.integers(1, 255))
        elif kind == "cut":
            del data[place : place + draw(st.integers(1, 200))]
        elif kind == "insert":
            data[place:place] = draw(st.binary(min_size=1, max_size=30))
        elif kind == "zero":
            data[place : place + 16] = bytes(len(data[place : place + 16]))
        elif kind == "tail":
            del data[place:]
    return bytes(data)


ROWS = Rows(torch.randn(40, 2, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2)


def _fit(path=None, epochs=2):
    torch.manual_seed(0)
    network = build_network("mlp", "auto", [0, 1], 2, (3,))
    options = {"epochs": epochs, "batch_size": 20, "learning_rate": 0.01, "generator": torch.Generator().manual_seed(0)}
    if path is None:
        train(network, ROWS, **options)
    else:
        with Checkpoint(path, "this fit") as checkpoint:
            train(network, ROWS, **options, resume=checkpoint.resume, save=checkpoint.save)
    return network.state_dict()


def _file(make):
    """The content of a file that a function writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        make(path)
        return path.read_bytes()


FRAME = pd.DataFrame({"a": [1.5, None, 3.0] * 20, "b": ["x", "y", "z"] * 20, "kind": ["p", "q"] * 30})
CHECKPOINT = _file(_fit)
PARQUET = _file(lambda path: FRAME.to_parquet(path, row_group_size=17))
CSV = FRAME.to_csv(index=False).encode()
MODEL = _file(lambda path: PUNNClassifier(hidden=(3,), epochs=1, random_state=0).fit(ROWS.x.numpy(), ROWS.y).save(path))


def check_checkpoints(data):
    """A damaged checkpoint is refused, or does no harm."""
    content = _damaged(data.draw, CHECKPOINT)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit"
        path.write_bytes(content)
        try:
            state = _fit(path)
        except ValueError as error:
            assert "not a whole checkpoint" in str(error), error  # noqa: PT017
            assert path.read_bytes() == content
        else:
            whole = _fit()
            assert all(torch.equal(state[name], whole[name]) for name in whole)


def check_models(data):
    """A damaged model is refused."""
    content = _damaged(data.draw, MODEL)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(content)
        try:
            assert load(path).predict(ROWS.x.numpy()).shape == (40,)
        except ModelFileError:
            pass
        else:
            assert content.startswith(MODEL[:8])


def check_tables(data):
    """A damaged table is refused, or is a table that can be learned from, or is refused then."""
    kind = data.draw(st.sampled_from(["csv", "gzip", "parquet", "any"]))
    whole = {"csv": CSV, "gzip": gzip.compress(CSV, mtime=0), "parquet": PARQUET, "any": b""}[kind]
    content = _damaged(data.draw, whole) if whole else data.draw(st.text('a1.,;"\n\t-é', max_size=80)).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                frame = read_table(path)
                examples = learnable(Source(frame, "table"), str(frame.columns[-1]))
                assert np.isfinite(examples.X.to_numpy()).all()
            except TableError:
                pass
            if kind == "parquet":
                with contextlib.suppress(TableError):
                    assert sum(map(len, Pieces(path).read())) >= 0


#: Every check, and what it is given.
CHECKS = {
    check_networks: {"network": chains(), "data": st.data()},
    check_losses: {"data": st.data()},
    check_fits: {"data": st.data()},
    check_checkpoints: {"data": st.data()},
    check_models: {"data": st.data()},
    check_tables: {"data": st.data()},
}


def run(check, examples, seed):
    """Try one check with some examples."""

    def counted(**arguments):
        tried[check.__name__] += 1
        check(**arguments)

    settings = hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],  # a small example takes minutes to find, the seed finds it again
    )
    hypothesis.seed(seed)(settings(given(**CHECKS[check])(counted)))()


def test_nothing_is_found_in_a_short_time():
    seed = int(os.environ.get("PUNN_FUZZ_SEED", "0"))
    for check in CHECKS:
        run(check, EXAMPLES, seed)
    assert min(tried[check.__name__] for check in CHECKS) >= EXAMPLES


def main(seconds):
    """Go on for some time, with other examples in every turn."""
    end, turn, failures = time.monotonic() + seconds, 0, 0
    torch.set_num_threads(1)
    first = int(os.environ.get("PUNN_FUZZ_SEED", "1"))
    while time.monotonic() < end:
        turn += 1
        for number, check in enumerate(CHECKS):
            try:
                run(check, 200, seed=1000 * (first + turn) + number)
            except Exception:
                failures += 1
                print(f"{check.__name__}, turn {turn}\n{traceback.format_exc(chain=False)[-4000:]}", flush=True)
        print(f"turn {turn}: {sum(tried.values()):,} examples, {dict(tried)}, {failures} failures", flush=True)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
