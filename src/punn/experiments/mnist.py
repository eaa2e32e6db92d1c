"""Handwritten digits and the order of the classes: the paper's second table and its figure of two traces.

Nine sigmoid gates, each a network of its own, are trained under ten orders of the classes, the identity and nine
permutations, with the same seeds for each. Pixels are standardised by one mean and one deviation, those of all
training pixels. The figure shows two test digits found by rule: of the right answers the least probable one, of
the wrong answers the most probable one.

With our own settings the same gates also see distorted copies of the training digits, and the step size goes down
to zero. The width of the gates and the kind of distortion were chosen by the last 10,000 training rows, with the others
to learn from; no setting was chosen by the test digits.

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
    "hidden": [128, 128],
    "epochs": 20,
    "batch_size": 128,
    "learning_rate": 0.001,
    "schedule": "constant",
    "weight_decay": 0.0,
}
#: Our own settings for the same gates: an epoch goes over the digits and over distorted copies of them.
BEST_SETTINGS: dict[str, Any] = {
    **SETTINGS,
    "epochs": 14,
    "batch_size": 256,
    "learning_rate": 0.002,
    "schedule": "cosine",
    "copies": 7,
}

# What our own settings must exceed.
BEST_BAR = 98.5


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
    fast = {"epochs": 2, "hidden": [8, 8], "learning_rate": 0.01, "batch_size": 128} if quick else {}
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

    settings = {name: value for name, value in task.configuration.items() if name != "copies"}
    return PUNNClassifier(
        gates="mlp",
        activation="sigmoid",
        standardize=False,
        early_stopping=False,
        precision="single",
        random_state=task.seed,
        checkpoint=checkpoint,
        **settings,
    )


def with_copies(X: Any, y: Any, copies: int, seed: int) -> tuple[Any, Any]:
    """The digits, and distorted copies of all of them."""
    import numpy as np
    import torch

    from punn.experiments.distortion import distorted

    side = int(X.shape[1] ** 0.5)
    pictures, generator = torch.from_numpy(X).view(-1, side, side), torch.Generator().manual_seed(seed)
    more = [distorted(pictures, generator).flatten(1).numpy() for _ in range(copies)]
    return np.concatenate([X, *more]), np.tile(y, copies + 1)


def run(task: Task, checkpoint: Path, loud: bool = False) -> dict[str, Any]:
    """Fit, from its last checkpoint if it was stopped, and judge; the first run also tells of two digits."""
    X_train, X_test, y_train, y_test = data_of(task.dataset)
    X_train, y_train = with_copies(X_train, y_train, task.configuration.get("copies", 0), task.seed)
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
        bar = _bar(round(mean, 2) >= paper) if order == "identity" else "-"
        rows.append([order, theirs, f"{mean:.2f} ± {deviation:.2f}", verdict(mean, paper, 2), bar])
    means = [mean for mean, _ in cells.values()]
    spread = {
        "std of the orders' means": mean_and_deviation(means)[1],
        "range of the orders' means": max(means) - min(means),
        "mean of the seeds' deviations": mean_and_deviation([deviation for _, deviation in cells.values()])[0],
    }
    spreads = [
        [name, f"{MNIST[name]:.2f}", f"{ours:.2f}", _bar(round(ours, 2) <= MNIST[name]) if "range" in name else "-"]
        for name, ours in spread.items()
    ]
    seeds = len({run["seed"] for run in runs})
    text = [
        "# MNIST: test accuracy in percent under ten orders of the classes",
        markdown(["order", "paper", "ours", "", "bar"], rows),
        markdown(["spread", "paper", "ours", "bar"], spreads),
        f"Nine gates with H_g = {runs[0]['configuration']['hidden'][0]} units in each of two hidden layers, "
        f"{runs[0]['parameters']:,} parameters together; mean and deviation over {seeds} "
        f"seed{'s' if seeds > 1 else ''}. The bars: the identity at least as good as the paper's, the orders' means "
        "no further apart. The orders of the permutations are ours, for the paper does not print its own: only the "
        "identity can be compared by itself.",
    ]
    return "\n\n".join([*text, *_told(runs)])


def best_table(runs: list[Run]) -> str:
    """Our own settings beside the paper's mean."""
    mean, deviation = mean_and_deviation([run["accuracy"] for run in runs])
    paper = MNIST["mean"]["identity"]
    cells = ["identity", f"{runs[0]['parameters']:,}", f"{paper:.2f}", f"{mean:.2f} ± {deviation:.2f}"]
    cells += [verdict(mean, paper, 2), _bar(mean > BEST_BAR)]
    text = [
        "# MNIST with our own settings: test accuracy in percent",
        markdown(["order", "parameters", "paper", "ours", "", "bar"], [cells]),
        f"Mean and deviation over {len(runs)} seeds. The same gates as in the study of orders, trained on the digits "
        f"and on {runs[0]['configuration']['copies']} distorted copies of each. The bar: above {BEST_BAR} with no more "
        "parameters.",
    ]
    return "\n\n".join([*text, *_told(runs)])


def _bar(met: bool) -> str:
    return "met" if met else "missed"


def _told(runs: list[Run]) -> list[str]:
    """The sentences about the two digits."""
    lines = [f"* {e['what']} (test row {e['row']}, {_read(e)}): {e['why_not']}" for e in _examples(runs)]
    return ["## Two digits of the test set, found by rule", "\n".join(" ".join(line.split()) for line in lines)]


def _examples(runs: list[Run]) -> list[dict[str, Any]]:
    examples: list[dict[str, Any]] = next(run["examples"] for run in runs if "examples" in run)
    return examples


def _read(example: dict[str, Any]) -> str:
    """What a digit is, and what it was read as.

    Example:
        >>> _read({"true": 5, "predicted": 6})
        'a 5 read as 6'
    """
    return f"a {example['true']} read as {example['predicted']}"


def figures(runs: list[Run], quick: bool) -> dict[str, Figure]:
    """The gates of the two digits, beside their pictures and above what the trace says."""
    from textwrap import fill

    import numpy as np

    from punn.displays import TraceDisplay
    from punn.displays.style import import_matplotlib

    figure, axes = import_matplotlib().subplots(2, 2, figsize=(9.5, 8.2), width_ratios=(1, 3.2), layout="constrained")
    for letter, (left, right), example in zip("ab", axes, _examples(runs), strict=True):
        left.imshow(np.array(example["image"]), cmap="gray_r")
        left.set_axis_off()
        gates, remaining, partition = (np.array(example[name]) for name in ("gates", "remaining", "partition"))
        winning = np.array([name == str(example["predicted"]) for name in example["names"]])
        p = float(partition[winning].sum())
        display = TraceDisplay(example["names"], gates, remaining, partition, winning, example["predicted"], p)
        display.plot(right, title=f"({letter}) {example['what']}: {_read(example)} with p = {p:.2f}")
        sentence = fill(" ".join(example["why_not"].split()), 88)
        right.set_xlabel(f"{right.get_xlabel()}\n\n{sentence}")
    axes[1, 1].get_legend().remove()  # the first one serves both
    return {"traces": figure}


STUDY = Study("mnist", 3, tasks, run, table, figures)
BEST = Study("mnist-best", 3, best_tasks, run, best_table, figures)
