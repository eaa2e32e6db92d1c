"""How time and memory grow: the loss with the number of functions, a fit with rows and classes, a trace with rows.

    python -m benchmarks.growth                       # a table of slopes
    python -m benchmarks.growth --figure growth.png --json growth.json

A slope of 1 on two logarithmic axes is growth in proportion. It is that of the line through the upper half of the
points, where fixed costs no longer count. Beside it, how close the loss comes to the memory's limit and the gate
networks to the processor's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import make_classification

from punn import PUNNClassifier, nll_loss
from punn.gates import SeparateMLP

FUNCTIONS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
ROWS = (1_000, 10_000, 100_000, 1_000_000)
CLASSES = (2, 5, 10, 20, 50, 100)


def seconds(run: Callable[[], object], rounds: int = 7) -> float:
    """The median of some rounds, after one to warm up."""
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def peak_bytes(run: Callable[[], object]) -> int:
    """Largest number of bytes that torch held at once, above what it held before."""
    with torch.profiler.profile(profile_memory=True) as profile:
        run()
    held = peak = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def slope(sizes: list[int], values: list[float]) -> float:
    """Of the line through the upper half of the points, on logarithmic axes."""
    half = len(sizes) // 2
    x, y = np.log(sizes[half:]), np.log(values[half:])
    return float(np.polyfit(x, y, 1)[0])


def loss_over_functions() -> dict[str, list[float]]:
    times, ours, theirs = [], [], []
    for k in FUNCTIONS:
        theta = torch.randn(64, k - 1, requires_grad=True)
        scores, target = torch.randn(64, k, requires_grad=True), torch.randint(k, (64,))

        def loss(theta=theta, target=target) -> None:
            theta.grad = None
            nll_loss(theta, target).backward()

        def cross_entropy(scores=scores, target=target) -> None:
            scores.grad = None
            F.cross_entropy(scores, target).backward()

        times.append(seconds(loss, rounds=15))
        ours.append(peak_bytes(loss))
        theirs.append(peak_bytes(cross_entropy))
    return {"seconds": times, "bytes": ours, "bytes of cross_entropy": theirs}


def table(rows: int, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(
        rows, n_features=10, n_informative=8, n_redundant=0, n_classes=classes, n_clusters_per_class=1, random_state=0
    )


def model() -> PUNNClassifier:
    return PUNNClassifier(gates="mlp", epochs=2, batch_size=256, early_stopping=False, random_state=0)


def fit_seconds(rows: int, classes: int = 3) -> float:
    x, y = table(rows, classes)
    return seconds(lambda: model().fit(x, y), rounds=1 if rows > 100_000 else 3)


def fit_over_rows() -> dict[str, list[float]]:
    return {"seconds": [fit_seconds(n) for n in ROWS]}


def fit_over_classes() -> dict[str, list[float]]:
    return {"seconds": [fit_seconds(5_000, c) for c in CLASSES]}


def trace_over_rows() -> dict[str, list[float]]:
    x, y = table(ROWS[-1])
    fitted = model().fit(x[:1000], y[:1000])
    return {"seconds": [seconds(lambda n=n: fitted.trace(x[:n]), rounds=3) for n in ROWS]}


def limits() -> dict[str, float]:
    """Bytes per second of the loss beside a copy, operations per second of gate networks beside a product."""
    n, k = 512, 10_000
    theta, target = torch.randn(n, k - 1, requires_grad=True), torch.randint(k, (n,))
    copy = torch.empty_like(theta.detach())
    moved = 2 * 4 * theta.numel()  # every gate is read once and written once
    gates = SeparateMLP(784, 9, (64, 64))
    x, matrix = torch.randn(512, 784), torch.randn(1024, 1024)
    operations = 2 * len(x) * sum(w.numel() for w in gates.weights)

    def loss() -> None:
        theta.grad = None
        nll_loss(theta, target).backward()

    with torch.no_grad():
        return {
            "loss, GB/s": moved / seconds(_with_gradient(loss)) / 1e9,
            "copy_, GB/s": moved / seconds(lambda: copy.copy_(theta)) / 1e9,
            "gates, Gflop/s": operations / seconds(lambda: gates(x)) / 1e9,
            "matrix product, Gflop/s": 2 * 1024**3 / seconds(lambda: matrix @ matrix) / 1e9,
        }


def _with_gradient(run: Callable[[], object]) -> Callable[[], object]:
    return torch.enable_grad()(run)


STUDIES = {
    "loss over functions": (FUNCTIONS, loss_over_functions),
    "fit over rows": (ROWS, fit_over_rows),
    "fit over classes": (CLASSES, fit_over_classes),
    "trace over rows": (ROWS, trace_over_rows),
}


def draw(results: dict, path: str) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
    for axis, (name, result) in zip(axes.flat, results.items(), strict=True):
        axis.loglog(result["sizes"], result["seconds"], marker="o", color="#0072b2", label="measured")
        last, size = result["seconds"][-1], result["sizes"][-1]
        axis.loglog(
            result["sizes"], [last * s / size for s in result["sizes"]], ":", color="0.4", label="in proportion"
        )
        axis.set(title=f"{name}: slope {result['slope']:.2f}", xlabel=name.split()[-1], ylabel="seconds")
        axis.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", help="a file for the curves")
    parser.add_argument("--json", help="a file for the numbers")
    options = parser.parse_args()
    results = {}
    for name, (sizes, study) in STUDIES.items():
        result = {"sizes": list(sizes), **study()}
        result["slope"] = slope(result["sizes"], result["seconds"])
        results[name] = result
        print(f"{name}: slope {result['slope']:.2f}, from {sizes[0]:,} to {sizes[-1]:,}", flush=True)
    loss = results["loss over functions"]
    ratio = max(a / b for a, b in zip(loss["bytes"], loss["bytes of cross_entropy"], strict=True))
    print(
        f"peak memory of the loss: at most {ratio:.2f} of cross_entropy's, slope {slope(FUNCTIONS, loss['bytes']):.2f}"
    )
    near = limits()
    print(", ".join(f"{name} {value:.1f}" for name, value in near.items()))
    if options.figure:
        draw(results, options.figure)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"threads": torch.get_num_threads(), "limits": near, **results}, file, indent=1)


if __name__ == "__main__":
    main()
