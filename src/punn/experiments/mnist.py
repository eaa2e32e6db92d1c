"""Handwritten digits and the order of the classes: the paper's second table and its figure of two traces.

Nine sigmoid gates, each a network of its own, are trained under ten orders of the classes, the identity and nine
permutations, with the same seeds for each. Pixels are standardised by one mean and one deviation, those of all
training pixels. The figure shows two test digits found by rule: of the right answers the least probable one, of
the wrong answers the most probable one.

The quick version takes scikit-learn's digits of 8 x 8 pixels in MNIST's place, which need no download.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from punn.experiments.paper import MNIST
from punn.experiments.study import Run, Study, Task, fit_and_score, markdown, mean_and_deviation, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from punn.classifier import PUNNClassifier

__all__ = ["BEST", "STUDY", "data_of", "model_of", "orders"]

#: The paper's settings; it does not say how wide its gates are.
SETTINGS: dict[str, Any] = {
    "hidden": [64, 64],
    "epochs": 20,
    "batch_size": 128,
    "learning_rate": 0.001,
    "schedule": "constant",
    "weight_decay": 0.0,
}
#: Our own settings for the same gates.
BEST_SETTINGS: dict[str, Any] = {
    **SETTINGS,
    "epochs": 40,
    "learning_rate": 0.002,
    "schedule": "cosine",
    "weight_decay": 1.0,
}


def orders() -> dict[str, list[int]]:
    """The identity and nine permutations of the digits."""
    import numpy as np

    rng = np.random.default_rng(0)
    permutations = {f"permutation {i}": rng.permutation(10).tolist() for i in range(1, 10)}
    return {"identity": list(range(10)), **permutations}


def tasks(seeds: int, quick: bool) -> list[Task]:
    """Every order with every seed."""
    return _tasks("sigmoid", SETTINGS, orders(), seeds, quick)


def best_tasks(seeds: int, quick: bool) -> list[Task]:
    """The identity alone, with our own settings."""
    return _tasks("best", BEST_SETTINGS, {"identity": list(range(10))}, seeds, quick)


def _tasks(model: str, settings: dict[str, Any], chosen: dict[str, list[int]], seeds: int, quick: bool) -> list[Task]:
    fast = {"epochs": 2, "hidden": [8, 8], "learning_rate": 0.01} if quick else {}
    return [
        Task(f"{model}, {name}", "digits" if quick else "mnist", seed, {**settings, **fast, "order": order})
        for seed in range(seeds)
        for name, order in chosen.items()
    ]


def data_of(dataset: str) -> tuple[Any, Any, Any, Any]:
    """Standardised rows to learn from and to judge by, with their labels: X_train, X_test, y_train, y_test."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    from punn import datasets

    if dataset == "digits":
        digits = datasets.load("digits")
        X_train, X_test, y_train, y_test = train_test_split(
            digits.X, digits.y, test_size=0.2, random_state=0, stratify=digits.y
        )
    else:
        X_train, y_train, X_test, y_test = datasets.mnist()
    flat = [X.reshape(len(X), -1).astype(np.float32) for X in (X_train, X_test)]
    mean, deviation = flat[0].mean(dtype=np.float64), flat[0].std(dtype=np.float64)
    scaled = [((X - mean) / deviation).astype(np.float32) for X in flat]
    return scaled[0], scaled[1], y_train.astype(np.int64), y_test.astype(np.int64)


def model_of(task: Task, checkpoint: Path | None = None) -> PUNNClassifier:
    """The estimator of a run."""
    from punn.classifier import PUNNClassifier

    return PUNNClassifier(
        gates="mlp",
        activation="sigmoid",
        standardize=False,
        early_stopping=False,
        precision="single",
        random_state=task.seed,
        checkpoint=checkpoint,
        **task.configuration,
    )


def run(task: Task, checkpoint: Path) -> dict[str, Any]:
    """Fit, from its last checkpoint if it was stopped, and judge; the first run also tells of two digits."""
    X_train, X_test, y_train, y_test = data_of(task.dataset)
    model = model_of(task, checkpoint)
    result = fit_and_score(model, X_train, y_train, X_test, y_test)
    if task.seed == 0 and "identity" in task.model:
        result["examples"] = two_digits(model, X_test, y_test)
    return result


def two_digits(model: PUNNClassifier, X: Any, y: Any) -> list[dict[str, Any]]:
    """The least probable right answer and the most probable wrong one, with what the trace says."""
    import numpy as np

    trace = model.trace(X)
    p = trace.probabilities.max(1)
    right = trace.predicted == y
    rows = {
        "an uncertain right answer": int(np.where(right, p, np.inf).argmin()),
        "a confident mistake": int(np.where(right, -np.inf, p).argmax()),
    }
    side = int(X.shape[1] ** 0.5)
    examples = []
    for what, row in rows.items():
        ranked = trace.classes[np.argsort(-trace.probabilities[row])]
        other = int(ranked[1] if right[row] else y[row])  # the class that might have won, or should have
        examples.append(
            {
                "what": what,
                "row": row,
                "true": int(y[row]),
                "predicted": int(trace.predicted[row]),
                "why_not": str(trace.why_not(row, other)),
                "gates": trace.gates[row].tolist(),
                "remaining": trace.remaining[row].tolist(),
                "partition": trace.partition[row].tolist(),
                "names": trace.names,
                "image": np.round(X[row].reshape(side, side), 2).astype(float).tolist(),
            }
        )
    return examples


def table(runs: list[Run]) -> str:
    """Accuracy by order, the spread between orders and between seeds, each beside the paper's."""
    names = [f"sigmoid, {name}" for name in orders()]
    cells = {name: mean_and_deviation([run["accuracy"] for run in runs if run["model"] == name]) for name in names}
    rows = []
    for name, (mean, deviation) in cells.items():
        order = name.removeprefix("sigmoid, ")
        paper = MNIST["mean"][order]
        theirs = f"{paper:.2f} ± {MNIST['std'][order]:.2f}"
        rows.append([order, theirs, f"{mean:.2f} ± {deviation:.2f}", verdict(mean, paper, 2)])
    means = [mean for mean, _ in cells.values()]
    spread = {
        "std of the orders' means": mean_and_deviation(means)[1],
        "range of the orders' means": max(means) - min(means),
        "mean of the seeds' deviations": mean_and_deviation([deviation for _, deviation in cells.values()])[0],
    }
    spreads = [[name, f"{MNIST[name]:.2f}", f"{ours:.2f}"] for name, ours in spread.items()]
    ours, largest = cells["sigmoid, identity"][0], spread["range of the orders' means"]
    met = round(ours, 2) >= MNIST["mean"]["identity"] and round(largest, 2) <= MNIST["range of the orders' means"]
    seeds = len({run["seed"] for run in runs})
    text = [
        "# MNIST: test accuracy in percent under ten orders of the classes",
        markdown(["order", "paper", "ours", ""], rows),
        markdown(["spread", "paper", "ours"], spreads),
        f"Nine gates with H_g = {runs[0]['configuration']['hidden'][0]} units in each of two hidden layers, "
        f"{runs[0]['parameters']:,} parameters together; mean and deviation over {seeds} seeds. The bar, the identity "
        f"at least at the paper's and the range of the orders' means at most 0.34, is {'met' if met else 'missed'}. "
        "The orders of the permutations are ours: the paper does not print its own.",
    ]
    return "\n\n".join([*text, *_told(runs)])


def best_table(runs: list[Run]) -> str:
    """Our own settings beside the paper's mean."""
    mean, deviation = mean_and_deviation([run["accuracy"] for run in runs])
    paper = MNIST["mean"]["identity"]
    cells = ["identity", f"{runs[0]['parameters']:,}", f"{paper:.2f}", f"{mean:.2f} ± {deviation:.2f}"]
    text = [
        "# MNIST with our own settings: test accuracy in percent",
        markdown(["order", "parameters", "paper", "ours", ""], [[*cells, verdict(mean, paper, 2)]]),
        f"Mean and deviation over {len(runs)} seeds. The bar, above 98.5, is {'met' if mean > 98.5 else 'missed'}.",
    ]
    return "\n\n".join([*text, *_told(runs)])


def _told(runs: list[Run]) -> list[str]:
    """The sentences about the two digits."""
    examples = next(run["examples"] for run in runs if "examples" in run)
    lines = [
        f"* {e['what']} (row {e['row']}, a {e['true']} taken for a {e['predicted']}): {e['why_not']}" for e in examples
    ]
    return ["## Two digits of the test set, found by rule", "\n".join(" ".join(line.split()) for line in lines)]


def figures(runs: list[Run], quick: bool) -> dict[str, Figure]:
    """The gates of the two digits, beside their pictures."""
    import numpy as np

    from punn.displays import TraceDisplay
    from punn.displays.style import import_matplotlib

    examples = next(run["examples"] for run in runs if "examples" in run)
    figure, axes = import_matplotlib().subplots(2, 2, figsize=(9.5, 8.0), width_ratios=(1, 3), layout="constrained")
    for (left, right), example in zip(axes, examples, strict=True):
        left.imshow(np.array(example["image"]), cmap="gray_r")
        left.set_axis_off()
        left.set_title(f"a {example['true']}", fontsize="medium")
        winning = np.array([name == str(example["predicted"]) for name in example["names"]])
        partition = np.array(example["partition"])
        gates, remaining = np.array(example["gates"]), np.array(example["remaining"])
        display = TraceDisplay(
            example["names"],
            gates,
            remaining,
            partition,
            winning,
            example["predicted"],
            float(partition[winning].sum()),
        )
        p = float(partition[winning].sum())
        display.plot(right, title=f"{example['what']}: predicted {example['predicted']}, p = {p:.2f}")
    return {"traces": figure}


STUDY = Study("mnist", 3, tasks, run, table, figures)
BEST = Study("mnist-best", 3, best_tasks, run, best_table, figures)
