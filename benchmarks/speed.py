"""Speed in ratios: each of our operations beside a named peer, measured in turns in one run.

    python -m benchmarks.speed                        # every pair
    python -m benchmarks.speed loss fit               # some
    python -m benchmarks.speed --json speed.json

A pair is run alternately, ours then the peer's, many times; the ratio is that of the medians, its spread the
quartiles of the ratios of neighbours. What else the machine does then hits both. Nothing else should run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits, make_moons
from sklearn.neural_network import MLPClassifier
from torch import Tensor, nn

from punn import PUNN, PUNNClassifier, nll_loss
from punn.adam import Adam
from punn.experiments.winograd import Convolution
from punn.gates import SeparateMLP
from punn.partition import log_class_probabilities, log_sigmoid_class_probabilities
from punn.training import Rows, train

Run = Callable[[], object]


class Pair(NamedTuple):
    """Ours, the peer's, and the ratio that we want to stay below; a bound of None is for comparison only.

    A pause between runs lets threads fall asleep: those of numpy's products spin for a while after the last one, on a
    core that the next run wants.
    """

    what: str
    peer: str
    ours: Run
    theirs: Run
    bound: float | None
    seconds: float = 2.0
    pause: float = 0.0


def loss_pairs() -> Iterator[Pair]:
    for k in (100, 1_000, 10_000, 100_000):
        for n in (64, 512):
            yield loss_pair(n, k, 1, 1.2)
    for n in (64, 512):
        yield loss_pair(n, 2_000, 20, 1.5)


def loss_pair(n: int, k: int, parts: int, bound: float) -> Pair:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(n, k, generator=generator, requires_grad=True)
    theta = torch.randn(n, k - 1, generator=generator, requires_grad=True)
    class_of = torch.arange(k) % (k // parts)
    target, wide_target = torch.randint(k // parts, (n,), generator=generator), torch.randint(k, (n,))

    def ours() -> None:
        theta.grad = None
        nll_loss(theta, target, class_of).backward()

    def theirs() -> None:
        scores.grad = None
        F.cross_entropy(scores, wide_target).backward()

    what = f"nll_loss, k = {k:,}, batch {n}" + (f", {parts} parts" if parts > 1 else "")
    return Pair(what, "F.cross_entropy", ours, theirs, bound)


def inference_pairs() -> Iterator[Pair]:
    for n, k, parts in ((512, 100, 1), (512, 1_000, 1), (64, 100_000, 1), (512, 2_000, 20)):
        theta = torch.randn(n, k - 1)
        logs = F.logsigmoid(theta), F.logsigmoid(-theta)
        scores = torch.randn(n, k)
        classes = k // parts
        class_of = torch.arange(k) % classes
        name = f"k = {k:,}, batch {n}" + (f", {parts} parts" if parts > 1 else "")

        def from_logs(logs=logs, class_of=class_of, classes=classes) -> Tensor:
            return log_class_probabilities(*logs, class_of, classes)

        def from_theta(theta=theta, class_of=class_of, classes=classes) -> Tensor:
            return log_sigmoid_class_probabilities(theta, class_of, classes)

        def theirs(scores=scores) -> Tensor:
            return F.log_softmax(scores, -1)

        yield Pair(f"log_partition and class sums, {name}", "F.log_softmax", from_logs, theirs, 1.5)
        yield Pair(f"the same from theta, {name}", "F.log_softmax", from_theta, theirs, None)


class Loop(nn.Module):
    """How one would write separate gates by hand: a list of networks, and products."""

    def __init__(self, features: int, gates: int, hidden: int) -> None:
        super().__init__()
        self.networks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
            )
            for _ in range(gates)
        )

    def forward(self, x: Tensor) -> Tensor:
        q = torch.cat([network(x) for network in self.networks], 1).sigmoid()
        rest = torch.cumprod(1 - q, 1)
        return torch.cat([q[:, :1], q[:, 1:] * rest[:, :-1], rest[:, -1:]], 1)


def gate_pairs() -> Iterator[Pair]:
    for gates, features, hidden in ((9, 784, 32), (9, 784, 64), (99, 32, 16)):
        x, y = torch.randn(128, features), torch.randint(gates + 1, (128,))
        network, loop = PUNN(SeparateMLP(features, gates, (hidden, hidden))), Loop(features, gates, hidden)
        adam, adam_loop = Adam([network]), torch.optim.Adam(loop.parameters())

        def ours(network=network, adam=adam, x=x, y=y) -> None:
            nll_loss(network.theta(x), y).backward()
            adam.step(0.001)

        def theirs(loop=loop, adam=adam_loop, x=x, y=y) -> None:
            adam.zero_grad()
            F.nll_loss((loop(x) + 1e-10).log(), y).backward()
            adam.step()

        what = f"SeparateMLP step, {gates} gates, {features} features, hidden {hidden}"
        yield Pair(what, "ModuleList and cumprod", ours, theirs, 0.4)


def tables() -> dict[str, tuple[np.ndarray, np.ndarray, int]]:
    """Rows, labels, and how many epochs a fit takes; of MNIST as many as in scikit-learn's own example."""
    digits = load_digits(return_X_y=True)
    moons = make_moons(1000, noise=0.1, random_state=0)
    sets = {"digits": (*digits, 20), "1,000 x 2": (*moons, 50)}
    try:
        from punn.readers import mnist

        x, y, _, _ = mnist()
        sets["MNIST"] = (x.reshape(len(x), -1).astype(np.float32) / 255, y, 8)
    except FileNotFoundError:
        print("MNIST is left out: PUNN_DATA names no folder that has it", file=sys.stderr)
    return sets


def classifiers(epochs: int, gates: str) -> tuple[PUNNClassifier, MLPClassifier]:
    """Same sizes, epochs, batches and optimiser; no early stopping."""
    same = {"batch_size": 128, "random_state": 0, "early_stopping": False}
    ours = PUNNClassifier(
        gates=gates,
        hidden=(64, 64),
        epochs=epochs,
        learning_rate=0.001,
        schedule="constant",
        weight_decay=0.0,
        **same,
    )
    theirs = MLPClassifier((64, 64), max_iter=epochs, n_iter_no_change=epochs, **same)
    return ours, theirs


def fit_pairs() -> Iterator[Pair]:
    warnings.simplefilter("ignore")  # MLPClassifier says that it might go on
    for name, (x, y, epochs) in tables().items():
        for gates in ("shared", "mlp"):
            if gates == "mlp" and name == "MNIST":
                continue
            ours, theirs = classifiers(epochs, gates)
            pair = (lambda m=ours, x=x, y=y: m.fit(x, y)), (lambda m=theirs, x=x, y=y: m.fit(x, y))
            # Separate gates are one network for each class but one: more work, told beside.
            bound = 1.0 if gates == "shared" or name == "1,000 x 2" else None
            yield Pair(f"fit {name}, gates={gates!r}", "MLPClassifier.fit", *pair, bound, seconds=6)


def predict_pairs() -> Iterator[Pair]:
    warnings.simplefilter("ignore")
    x, y = load_digits(return_X_y=True)
    many = np.tile(x, (56, 1))[:100_000]
    for gates in ("shared", "mlp"):
        ours, theirs = (model.fit(x, y) for model in classifiers(2, gates))
        for rows in (x[:1], many):
            pair = (lambda m=ours, r=rows: m.predict_proba(r)), (lambda m=theirs, r=rows: m.predict_proba(r))
            what = f"predict_proba, {len(rows):,} row{'s' * (len(rows) > 1)}, gates={gates!r}"
            bound = 1.0 if gates == "shared" else None
            yield Pair(
                what, "MLPClassifier.predict_proba", *pair, bound, pause=0.1 if len(rows) > 1 else 0.0, seconds=6
            )


def restart_pairs() -> Iterator[Pair]:
    x, y = make_moons(1000, noise=0.1, random_state=0)

    def fit(restarts: int) -> PUNNClassifier:
        return PUNNClassifier("fourier", restarts=restarts, epochs=20, batch_size=128, random_state=0).fit(x, y)

    yield Pair("32 restarts of a Fourier shell", "one restart", lambda: fit(32), lambda: fit(1), 4.0, seconds=10)


def seed_pairs() -> Iterator[Pair]:
    """Three seeds each of some orders of the MNIST study: a run per core at a time, which is what --jobs does."""
    threads = torch.get_num_threads()
    for hidden in (32, 64, 128):
        bound = 0.6 if threads > 1 else None  # a single core has nothing to share
        pair = side_by_side(hidden, 3 * threads)
        yield Pair(
            f"MNIST order study, hidden {hidden}, runs side by side", "one after another", *pair, bound, seconds=8
        )


def side_by_side(hidden: int, runs: int, steps: int = 20) -> tuple[Run, Run]:
    """Some steps of every run, on all cores at a time or one after another; three per core, that none is idle."""
    rows, threads = Rows(torch.randn(128 * steps, 784), torch.randint(10, (128 * steps,))), torch.get_num_threads()
    networks = [PUNN(SeparateMLP(784, 9, (hidden, hidden))) for _ in range(runs)]

    def fit(network: PUNN) -> None:
        train(network, rows, epochs=1, batch_size=128, learning_rate=0.001, generator=torch.Generator())

    def ours() -> None:
        torch.set_num_threads(1)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fit, networks))
        torch.set_num_threads(threads)

    def theirs() -> None:
        for network in networks:
            fit(network)

    return ours, theirs


def convolution_pairs() -> Iterator[Pair]:
    """The convolutions that the CIFAR-100 study spends its time on, forwards and backwards."""
    for channels, width, side in ((64, 256, 16), (256, 256, 8), (384, 384, 4)):
        x = torch.randn(500, channels, side, side).contiguous(memory_format=torch.channels_last).requires_grad_()
        layers = Convolution(channels, width), nn.Conv2d(channels, width, 3, padding=1, bias=False)
        ours, theirs = ((lambda layer=layer, x=x: layer(x).sum().backward()) for layer in layers)
        what = f"convolution, {channels} to {width} channels, {side} x {side} pixels, batch 500"
        yield Pair(what, "nn.Conv2d", ours, theirs, None, seconds=6)


def import_pairs() -> Iterator[Pair]:
    def imports(what: str) -> Run:
        return lambda: subprocess.run([sys.executable, "-c", f"import {what}"], check=True)

    ours = imports("punn; punn.PUNNClassifier")  # the names of punn are loaded when they are asked for
    yield Pair(
        "import punn and its classifier", "import torch, sklearn", ours, imports("torch, sklearn"), 1.1, seconds=40
    )


GROUPS = {
    "loss": loss_pairs,
    "inference": inference_pairs,
    "gates": gate_pairs,
    "fit": fit_pairs,
    "predict": predict_pairs,
    "restarts": restart_pairs,
    "seeds": seed_pairs,
    "convolution": convolution_pairs,
    "import": import_pairs,
}


def seconds_of(run: Run, pause: float) -> float:
    time.sleep(pause)
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(pair: Pair, most: int = 1000) -> dict:
    """Medians of both in seconds, their ratio, and the quartiles of the ratios of neighbours."""
    for _ in range(2):
        pair.ours(), pair.theirs()
    times: list[tuple[float, float]] = []
    end = time.perf_counter() + pair.seconds
    while len(times) < 5 or (time.perf_counter() < end and len(times) < most):
        times.append((seconds_of(pair.ours, pair.pause), seconds_of(pair.theirs, pair.pause)))
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    low, _, high = statistics.quantiles([a / b for a, b in times], n=4)
    return {
        "what": pair.what,
        "peer": pair.peer,
        "ours": ours,
        "theirs": theirs,
        "ratio": ours / theirs,
        "quartiles": [low, high],
        "bound": pair.bound,
        "rounds": len(times),
    }


def row(result: dict) -> str:
    low, high = result["quartiles"]
    bound = "" if result["bound"] is None else f"{result['bound']:.1f}"
    verdict = "" if result["bound"] is None else ("met" if result["ratio"] <= result["bound"] else "missed")
    cells = [result["what"], result["peer"], f"{result['ratio']:.2f}", f"{low:.2f} to {high:.2f}", bound, verdict]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help=f"which of {', '.join(GROUPS)}; all if none")
    parser.add_argument("--json", help="a file for the numbers; those of other pairs in it are kept")
    options = parser.parse_args()
    unknown = set(options.groups) - set(GROUPS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    print("| what | against | ratio | quartiles | at most | |\n| --- | --- | --- | --- | --- | --- |")
    results = []
    for group in options.groups or GROUPS:
        for pair in GROUPS[group]():
            results.append(measure(pair))
            print(row(results[-1]), flush=True)
    if options.json:
        write(Path(options.json), results)


def write(path: Path, results: list[dict]) -> None:
    """Put numbers into a file; pairs that it has from before, with as many threads, are replaced or kept."""
    about = {"threads": torch.get_num_threads(), "torch": torch.__version__}
    stored = json.loads(path.read_text()) if path.exists() else {}
    before = stored.get("results", []) if stored.items() >= about.items() else []
    merged = {result["what"]: result for result in [*before, *results]}
    path.write_text(json.dumps({**about, "results": list(merged.values())}, indent=1) + "\n")


if __name__ == "__main__":
    main()
