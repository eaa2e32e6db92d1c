"""What all studies share: runs that are stored as they finish, a table, figures.

A study is a handful of plain functions, see :class:`Study`. :func:`reproduce` does the runs that its folder
does not have yet and writes ``results.json`` after each of them, then ``table.md`` and the figures.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, TextIO

from punn import __version__
from punn.checkpoint import write_atomically
from punn.progress import clock

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from punn.classifier import PUNNClassifier

__all__ = ["Run", "Study", "Task", "fit_and_score", "markdown", "mean_and_deviation", "reproduce", "scores", "verdict"]

#: A finished run as it stands in results.json.
Run = dict[str, Any]

QUICK = "**This is the quick version: fewer seeds and epochs, to see that everything works. Its numbers mean nothing.**"


@dataclass(frozen=True)
class Task:
    """A run that is to be done.

    Arguments:
        model: What is trained.
        dataset: On what.
        seed: Decides all that is random: rows, split, first weights, batches.
        configuration: All settings, as JSON knows them; other settings are another run.

    Example:
        >>> Task("sigmoid", "moons", 42, {"epochs": 200}).label
        'sigmoid on moons, seed 42'
    """

    model: str
    dataset: str
    seed: int
    configuration: dict[str, Any] = field(hash=False)

    @property
    def label(self) -> str:
        """What progress calls it."""
        return f"{self.model} on {self.dataset}, seed {self.seed}"

    @cached_property
    def key(self) -> str:
        """What makes it this run and no other."""
        return _key(self.__dict__)


@dataclass(frozen=True)
class Study:
    """One study of the paper.

    Arguments:
        name: The name of its folder.
        seeds: How many seeds it has unless told otherwise.
        tasks: ``(seeds, quick) -> tasks``.
        run: ``(task, checkpoint, loud) -> results``: at least parameters, accuracy in percent and log_loss. A long
            run may keep its state in the file ``checkpoint``, and tell how far it is if ``loud``.
        table: ``runs -> markdown``.
        figures: ``(runs, quick) -> figures by name``.
        growing: Whether table and figures can be made of any runs, and are, whenever one is done; else of all.
    """

    name: str
    seeds: int
    tasks: Callable[[int, bool], list[Task]]
    run: Callable[[Task, Path, bool], dict[str, Any]]
    table: Callable[[list[Run]], str]
    figures: Callable[[list[Run], bool], dict[str, Figure]]
    growing: bool = False


def reproduce(
    study: Study,
    out: Path,
    seeds: int | None = None,
    jobs: int = 1,
    quick: bool = False,
    stream: TextIO | None = None,
) -> list[Run]:
    """Do the runs that are missing, and write results, table and figures.

    Arguments:
        study: The study.
        out: Where its folder is, or will be made.
        seeds: How many seeds; the study's own number if None.
        jobs: Runs at a time, each in a process of its own.
        quick: A version that takes a minute at most, and says so.
        stream: Where progress goes; standard error if None.

    Returns:
        All runs of the study that its folder has with these settings.
    """
    if (seeds is not None and seeds < 1) or jobs < 1:
        raise ValueError(f"seeds and jobs must be at least 1, got {seeds} and {jobs}")
    seeds = study.seeds if seeds is None else seeds
    tasks = study.tasks(min(seeds, 2) if quick else seeds, quick)
    folder = out / study.name
    folder.mkdir(parents=True, exist_ok=True)
    runs = stored_runs(folder)
    if any(run["quick"] != quick for run in runs):
        kind, other = ("quick", "full") if quick else ("full", "quick")
        raise ValueError(f"{folder} holds {other} results, which {kind} ones would mix with: give another --out")
    done = {_key(run) for run in runs}
    missing = [task for task in tasks if task.key not in done]
    progress = _Progress(study.name, len(tasks), len(missing), sys.stderr if stream is None else stream)
    for run in _results(study, missing, folder, jobs, loud=stream is None):
        runs.append({**run, "quick": quick})
        _store(folder, runs)
        if study.growing:
            write_report(study, tasks, runs, folder, quick)
        progress.tell(run)
    return write_report(study, tasks, runs, folder, quick)


def write_report(study: Study, tasks: list[Task], runs: list[Run], folder: Path, quick: bool) -> list[Run]:
    """Write table and figures of the runs that are current."""
    current = current_runs(tasks, runs)
    text = study.table(current)
    write_atomically(folder / "table.md", ((f"{QUICK}\n\n" if quick else "") + text.rstrip() + "\n").encode())
    for name, figure in study.figures(current, quick).items():
        save_figure(figure, folder / name)
    return current


def current_runs(tasks: list[Task], runs: list[Run]) -> list[Run]:
    """The runs that have the settings of the tasks, whatever their seeds."""
    settings = {_key({**task.__dict__, "seed": None}) for task in tasks}
    return [run for run in runs if _key({**run, "seed": None}) in settings]


def stored_runs(folder: Path) -> list[Run]:
    """The runs that a folder has; none, if there is no file yet."""
    path = folder / "results.json"
    if not path.exists():
        return []
    try:
        runs: list[Run] = json.loads(path.read_text())["runs"]
        for run in runs:
            _key(run), run["quick"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a file of results ({error!r}): delete it to begin anew") from error
    return runs


def _store(folder: Path, runs: list[Run]) -> None:
    """Write all runs, a line each."""
    lines = ",\n".join(json.dumps(run) for run in runs)
    write_atomically(folder / "results.json", f'{{"runs": [\n{lines}\n]}}\n'.encode())


def _results(study: Study, tasks: list[Task], folder: Path, jobs: int, loud: bool) -> Iterable[Run]:
    """Results as they come."""
    if jobs == 1 or len(tasks) < 2:
        return (_do(study.run, task, folder, None, loud) for task in tasks)
    from joblib import Parallel, cpu_count, delayed

    threads = max(1, cpu_count() // jobs)
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    results: Iterable[Run] = parallel(delayed(_do)(study.run, task, folder, threads, False) for task in tasks)
    return results


def _do(
    run: Callable[[Task, Path, bool], dict[str, Any]], task: Task, folder: Path, threads: int | None, loud: bool
) -> Run:
    """Do one run and write down all there is to know of it."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    began = time.perf_counter()
    result = run(task, folder / f".{task.key}.checkpoint", loud)
    seconds = round(time.perf_counter() - began, 3)
    about = {"model": task.model, "dataset": task.dataset, "seed": task.seed}
    return {
        **about,
        **result,
        "seconds": result.get("seconds", seconds),
        "configuration": task.configuration,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    packages = {name: version(name) for name in ("torch", "numpy", "scikit-learn")}
    return {"punn": __version__, "python": platform.python_version(), **packages}


def fit_and_score(model: PUNNClassifier, X_train: Any, y_train: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Fit a model and judge it by rows that it has not seen."""
    import warnings

    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "interrupted in epoch")
        model.fit(X_train, y_train)
    seconds = time.perf_counter() - began
    if model.history_.stopped == "interrupted":
        raise KeyboardInterrupt  # a fit that was stopped is no result
    return {
        "parameters": model.n_parameters_,
        **scores(model.predict_proba(X_test), y_test, model.classes_),
        "train_accuracy": round(100 * float(model.score(X_train, y_train)), 6),
        "seconds": round(seconds, 3),
    }


def scores(p: Any, y: Any, classes: Any) -> dict[str, float]:
    """What probabilities are worth: accuracy in percent, and log-loss.

    Example:
        >>> import numpy as np
        >>> scores(np.array([[0.5, 0.5], [0.25, 0.75]]), np.array(["b", "b"]), np.array(["a", "b"]))
        {'accuracy': 50.0, 'log_loss': 0.490415}
    """
    from sklearn.metrics import log_loss

    return {
        "accuracy": round(100 * float((classes[p.argmax(1)] == y).mean()), 6),
        "log_loss": round(float(log_loss(y, p, labels=classes)), 6),
    }


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """The mean and the deviation between runs; no deviation of a single one.

    Example:
        >>> mean_and_deviation([99.0, 100.0])
        (99.5, 0.7071067811865476)
    """
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def verdict(ours: float, paper: float, digits: int = 1) -> str:
    """Better or worse than the paper, as far as the paper's digits tell.

    Example:
        >>> verdict(98.94, 98.9), verdict(99.2, 98.9), verdict(97.0, 98.9)
        ('equal', 'better (+0.3)', 'worse (-1.9)')
    """
    difference = round(round(ours, digits) - paper, digits)
    if difference == 0:
        return "equal"
    return f"{'better' if difference > 0 else 'worse'} ({difference:+.{digits}f})"


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown: words left, numbers right.

    Example:
        >>> print(markdown(["set", "%"], [["moons", "99.0"]]))
        | set | % |
        | --- | ---: |
        | moons | 99.0 |
    """
    lines = [list(row) for row in rows]
    numeric = [bool(lines) and all(row[i][:1] in "0123456789-+" for row in lines) for i in range(len(heads))]
    marks = ["---:" if right else "---" for right in numeric]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, marks, *lines))


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG and PDF, the same bytes for the same figure, and close it."""
    from io import BytesIO

    from matplotlib import pyplot

    for kind, about in (("png", {"Software": None}), ("pdf", {"CreationDate": None})):
        content = BytesIO()
        figure.savefig(content, format=kind, dpi=150, metadata=about)
        write_atomically(path.with_suffix(f".{kind}"), content.getvalue())
    pyplot.close(figure)


def _key(run: dict[str, Any]) -> str:
    parts = [run[name] for name in ("model", "dataset", "seed", "configuration")]
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=8).hexdigest()


class _Progress:
    """A line for every run, with the time that the others will take."""

    def __init__(self, name: str, total: int, missing: int, stream: TextIO) -> None:
        self.name, self.total, self.missing, self.stream = name, total, missing, stream
        self.done, self.began = 0, time.monotonic()
        there = f"; {total - missing} of {total} runs are there already" if missing < total else ""
        self._print(f"{missing or 'no'} runs to do{there}")

    def tell(self, run: Run) -> None:
        """A run is done."""
        self.done += 1
        left = (time.monotonic() - self.began) / self.done * (self.missing - self.done)
        number = self.total - self.missing + self.done
        label = f"{run['model']} on {run['dataset']}, seed {run['seed']}"
        score = "" if run["accuracy"] is None else f": {run['accuracy']:.2f}%"
        self._print(f"{number}/{self.total}  {label}{score}  {clock(left)} left")

    def _print(self, text: str) -> None:
        print(f"{self.name}: {text}", file=self.stream, flush=True)
