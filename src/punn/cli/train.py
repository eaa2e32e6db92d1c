"""`punn train`: a table in, a measured and explained model out."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from punn.cli.options import Header, Json, Quiet, check_names, split_list, whole_numbers
from punn.cli.output import Screen, check_place, polite, process_number

if TYPE_CHECKING:
    from punn.classifier import PUNNClassifier
    from punn.scoring import Scores
    from punn.sources import Examples, Source

__all__ = ["train"]

CARD_LINES = 32  # lines of region cards after training; punn info shows them all


def train(
    source: Annotated[
        str,
        typer.Argument(
            help="A CSV, TSV or Parquet file, a folder of Parquet files, or a built-in set: iris, wine, breast_cancer, "
            "digits, moons, circles, xor, helix, rings.",
            metavar="TABLE",
        ),
    ],
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The column to predict.", metavar="COLUMN")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column to leave out; may be said again.", metavar="COLUMN")
    ] = None,
    header: Header = None,
    test_share: Annotated[
        float | None,
        typer.Option(min=0.0, max=0.9, help="Share of rows held out to measure; 0.2 if not said.", metavar="SHARE"),
    ] = None,
    cv: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Measure by cross-validation in so many folds instead; the model then learns from all rows.",
            metavar="FOLDS",
        ),
    ] = None,
    gates: Annotated[
        str,
        typer.Option(
            help="auto, mlp, shared, ball, ellipsoid, shell, fourier or harmonic; or one per gate, with commas.",
            metavar="NAME",
        ),
    ] = "auto",
    activation: Annotated[
        str,
        typer.Option(
            help="auto, sigmoid, gaussian, bump, window or compact_window; or one per gate, with commas.",
            metavar="NAME",
        ),
    ] = "auto",
    hidden: Annotated[str, typer.Option(help="Widths of the hidden layers.", metavar="N,N")] = "64,64",
    parts: Annotated[int, typer.Option(min=1, help="Partition functions per class.", metavar="N")] = 1,
    order: Annotated[
        str,
        typer.Option(
            help="How classes stand in the chain: given (sorted), frequency, separable, random, or all of them, with "
            "commas.",
            metavar="ORDER",
        ),
    ] = "given",
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Rare classes count as much as frequent ones; so do probabilities.")
    ] = False,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the rows; goes by their number if not said.", metavar="N")
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Rows per step, in all processes together; goes by their number if not said.", metavar="N"
        ),
    ] = None,
    accumulate: Annotated[
        int,
        typer.Option(
            min=1, help="Take the rows of a step in so many pieces, one after the other: less memory.", metavar="N"
        ),
    ] = 1,
    precision: Annotated[
        str, typer.Option(help="auto, single, double, or mixed: gates in half, the partition in single.")
    ] = "auto",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Decides all that is random.", metavar="N")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The model's file; TABLE.punn.safetensors if not said.", metavar="FILE"),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep the state here; an interrupted run, started again, goes on from it.", metavar="FILE"),
    ] = None,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream",
            help="Read Parquet anew for every epoch instead of holding it in memory; by its size if not said.",
        ),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(min=0.01, help="Gigabytes that rows may take; half of what is free if not said.", metavar="GB"),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Keep the state beside the model's file, and go on from it if there is one already."
        ),
    ] = False,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Show progress; in a terminal if not said.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn a model from a table, and measure it.

    Writes one file with the model and the columns it takes. Tells accuracy, log-loss and calibration error next to
    the majority class and a logistic regression, all on the same rows, which were held out.

    \b
    Examples:
        punn train penguins.csv --target species
        punn train penguins.csv --target species --cv 5 --drop year
        punn train iris --gates ellipsoid
        punn train wine --gates ball,mlp --order frequency -o wine.safetensors
        torchrun --nproc-per-node 2 -m punn train big.parquet --target kind --resume
    """
    screen = Screen(json, quiet)
    with polite(quiet):
        from punn.activations import ACTIVATIONS
        from punn.building import GATES

        if resume and checkpoint is not None:
            raise typer.BadParameter("use --resume or --checkpoint, not both", param_hint="'--resume'")
        if cv is not None and test_share is not None:
            raise typer.BadParameter("use --cv or --test-share, not both", param_hint="'--cv'")
        settings: dict[str, Any] = {
            "gates": check_names(gates, ["auto", *GATES], "--gates"),
            "activation": check_names(activation, ["auto", *ACTIVATIONS], "--activation"),
            "hidden": whole_numbers(hidden, "--hidden"),
            "parts": parts,
            "order": split_list(order) if "," in order else order,
            "class_weight": "balanced" if balanced else None,
            "epochs": "auto" if epochs is None else epochs,
            "batch_size": "auto" if batch_size is None else batch_size,
            "accumulate": accumulate,
            "precision": check_names(precision, ["auto", "single", "double", "mixed"], "--precision"),
            "device": device,
            "random_state": seed,
            "checkpoint": None if checkpoint is None else os.fspath(checkpoint),
            "verbose": not quiet and (sys.stderr.isatty() if progress is None else progress),
        }
        share = 0.2 if test_share is None else test_share
        options = _Options(source, target, drop or [], header, share, cv, out, resume)
        if _streams(options, stream, memory):
            _train_stream(screen, options, settings, memory)
        else:
            _train(screen, options, settings)


class _Options(NamedTuple):
    """What the user said, as far as it is no setting of the model."""

    source: str
    target: str | None
    drop: list[str]
    header: bool | None
    share: float
    cv: int | None
    out: Path | None
    resume: bool

    def place(self, name: str) -> Path:
        """The model's file, in a place where one can be written."""
        path = Path(f"{name}.punn.safetensors") if self.out is None else self.out
        check_place(path)
        return path

    def model(self, settings: dict[str, Any], path: Path) -> PUNNClassifier:
        """The model that is to learn; its state stands beside its file."""
        from punn.classifier import PUNNClassifier

        state = {"checkpoint": os.fspath(path.with_name(f"{path.name}.checkpoint"))} if self.resume else {}
        return PUNNClassifier(**settings | state)


def _train(screen: Screen, options: _Options, settings: dict[str, Any]) -> None:
    from punn.sources import learnable, read_source

    source = read_source(options.source, options.header)
    goal = _target(source, options.target)
    path = options.place(source.name)
    examples = learnable(source, goal, options.drop)
    shape = source.frame.shape
    del source  # the table itself is not needed any more, and may be large
    _tell_table(screen, options.source, shape, goal, examples, Counter(examples.y.tolist()))
    model = options.model(settings, path)
    results, rows = _measure(model, examples, options.share, options.cv, settings["random_state"])
    _conclude(screen, options, model, examples, goal, path, results, rows)


def _streams(options: _Options, stream: bool | None, memory: float | None) -> bool:
    """Whether the table is read anew for every epoch: because it is so wanted, or does not fit into memory."""
    path = Path(options.source)
    parquet = path.is_dir() or (path.is_file() and path.suffix.lower() == ".parquet")
    if stream and not parquet:
        raise ValueError(f"{path}: --stream reads a Parquet file, or a folder of them; write the table as one")
    if stream is not None or not parquet:
        return bool(stream)
    from punn.memory import free_memory
    from punn.table import Pieces

    # As it was read, as numbers, as the rows that are learned from, and in single precision.
    return 3.5 * Pieces(path).bytes > (free_memory() if memory is None else memory * 1e9)


def _train_stream(screen: Screen, options: _Options, settings: dict[str, Any], memory: float | None) -> None:
    """Learn from a table that is larger than memory."""
    import pandas as pd
    import torch

    from punn.parallel import assemble
    from punn.scoring import baselines, scores
    from punn.sources import Examples
    from punn.streaming import open_stream

    if options.cv is not None:
        raise ValueError("--cv needs all rows in memory; without it, a share of the rows is held out to measure")
    if options.target is None:
        raise typer.BadParameter("name the column to predict", param_hint="'--target'")
    path = options.place(Path(options.source).name.split(".")[0])
    model = options.model(settings, path)
    device = settings["device"]
    cuda = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    stream = open_stream(
        options.source,
        options.target,
        drop=options.drop,
        test=options.share,
        seed=settings["random_state"],
        memory=None if memory is None else int(memory * 1e9),
        team=assemble(torch.device("cuda" if cuda else "cpu")),
    )
    names = list(stream.columns.feature_names)
    x, y, numbers = stream.sample
    examples = Examples(pd.DataFrame(x, columns=names), y, numbers, stream.columns, stream.notes)
    counts = Counter(dict(zip(stream.classes.tolist(), stream.counts.tolist(), strict=True)))
    shape = (stream.pieces.rows, len(stream.pieces.columns))
    _tell_table(screen, options.source, shape, options.target, examples, counts)
    screen.note(f"  {stream.n:,} rows to learn from are read anew for every epoch.")
    model.fit_stream(stream)
    results = []
    if len(stream.test.y):
        held = pd.DataFrame(stream.test.x, columns=names)
        screen.note(f"  The baselines learned from a sample of {len(y):,} rows.")
        results = [baselines(examples.X, y, held, stream.test.y) | {"model": scores(model, held, stream.test.y)}]
    rows = {"train": stream.n + len(stream.validation.y), "test": len(stream.test.y)}
    _conclude(screen, options, model, examples, options.target, path, results, rows)


def _conclude(
    screen: Screen,
    options: _Options,
    model: PUNNClassifier,
    examples: Examples,
    target: str,
    path: Path,
    results: list[dict[str, Scores]],
    rows: dict[str, int],
) -> None:
    """Save the model, and tell what it is."""
    from punn.persistence import save

    model.set_params(checkpoint=None, verbose=False)  # of this run, not of the model
    name = options.source
    summary = {"table": Path(name).name, "rows": rows, "folds": len(results), "scores": _means(results)}
    if process_number() == 0:
        save(model, path, table=examples.columns.to_dict(), summary=summary)
    _tell_result(screen, model, results, rows)
    _tell_next(screen, model, examples, name, path)
    screen.document({"model": path} | summary | _document(model, target, results, examples))


def _target(source: Source, target: str | None) -> str:
    if source.target is not None:
        if target not in (None, source.target):
            raise typer.BadParameter(
                f"{source.name} is built in, and its target is {source.target!r}", param_hint="'--target'"
            )
        return source.target
    if target is None:
        from punn.table.cells import listed

        columns = listed([str(column) for column in source.frame.columns])
        raise typer.BadParameter(f"name the column to predict; there are {columns}", param_hint="'--target'")
    return target


def _measure(
    model: PUNNClassifier, examples: Examples, share: float, cv: int | None, seed: int
) -> tuple[list[dict[str, Scores]], dict[str, int]]:
    """Fit the model; its scores and those of the baselines, one set for every fold, and how many rows were used."""
    from rich.console import Console
    from rich.progress import Progress
    from sklearn.base import clone

    from punn.scoring import baselines, cross_scores, hold_out, scores

    X, y = examples.X, examples.y
    if cv is not None:
        # Folds have neither a checkpoint, which is of one fit, nor a bar each.
        probe = clone(model).set_params(checkpoint=None, verbose=False)
        bar = Progress(*Progress.get_default_columns(), console=Console(stderr=True), transient=True)
        bar.disable = not model.verbose or process_number() > 0
        with bar:
            folds = list(bar.track(cross_scores(probe, X, y, cv, seed), cv, description="folds"))
        model.fit(X, y)
        return folds, {"train": len(y), "test": len(y)}
    kept, held = hold_out(y, share, seed)
    if len(held) == 0:
        model.fit(X, y)
        return [], {"train": len(y), "test": 0}
    X_kept, X_held = X.iloc[kept], X.iloc[held]
    model.fit(X_kept, y[kept])
    found = baselines(X_kept, y[kept], X_held, y[held]) | {"model": scores(model, X_held, y[held])}
    return [found], {"train": len(kept), "test": len(held)}


def _tell_table(
    screen: Screen, name: str, shape: tuple[int, int], target: str, examples: Examples, of_class: Counter[Any]
) -> None:
    from punn.ledger import show

    counts = of_class.most_common()
    classes = ", ".join(f"{show(label, 20)} {count:,}" for label, count in counts[:6])
    more = f" and {len(counts) - 6} more" if len(counts) > 6 else ""
    screen.say(f"{name}: {shape[0]:,} rows, {shape[1]} columns, {examples.X.shape[1]} numbers to learn from")
    screen.say(f"{target}: {len(counts)} classes, {classes}{more}")
    screen.notes(examples.notes)


def _tell_result(screen: Screen, model: PUNNClassifier, results: list[dict[str, Scores]], rows: dict[str, int]) -> None:
    screen.say()
    if not results:
        screen.say("no rows were held out, so that nothing is measured; --cv 5 measures without holding out")
    elif len(results) > 1:
        screen.table(score_cells(results, f"{len(results)} folds of {rows['test']:,} rows"), "lrrr")
    else:
        screen.table(score_cells(results, f"{rows['test']:,} held-out rows"), "lrrr")
    blocks = str(model.regions()).split("\n\n")
    shown = blocks[:1]
    for block in blocks[1:]:
        if len(shown) > 1 and "\n\n".join([*shown, block]).count("\n") > CARD_LINES:
            break
        shown.append(block)
    screen.say("\nregions", "bold")
    screen.say("\n\n".join(shown))
    if len(shown) < len(blocks):
        screen.say(f"\n ... {len(blocks) - len(shown)} more classes: punn info shows them all")


def score_cells(results: list[dict[str, Scores]], heading: str) -> list[list[str]]:
    """Accuracy, log-loss and calibration error of every model; means and deviations over several folds."""
    import numpy as np

    cells = [[heading, "accuracy", "log-loss", "calibration error"]]
    for name in results[0]:
        values = np.array([fold[name] for fold in results])
        texts = []
        for mean, deviation, digits, factor in zip(values.mean(0), values.std(0), (1, 3, 3), (100, 1, 1), strict=True):
            text = f"{factor * mean:.{digits}f}" + ("%" if factor == 100 else "")
            texts.append(f"{text} ± {factor * deviation:.{digits}f}" if len(results) > 1 else text)
        cells.append(["punn" if name == "model" else name, *texts])
    return cells


def _tell_next(screen: Screen, model: PUNNClassifier, examples: Examples, source: str, path: Path) -> None:
    file, table = shlex.quote(str(path)), shlex.quote(source)
    row, rival = _least_certain(model, examples)
    screen.say(f"\nwrote {path}", "bold")
    screen.say(f" {model.n_parameters_:,} numbers learned; epochs: {model.n_iter_}\n")
    screen.say("what next", "bold")
    screen.say(f" punn info {file}")
    screen.say(f" punn explain {file} {table} --row {row} --why-not {shlex.quote(rival)}")
    screen.say(f" punn report {file} {table} -o report.html")
    screen.say(f" punn predict {file} {table} -o predictions.csv")


def _least_certain(model: PUNNClassifier, examples: Examples, most: int = 2000) -> tuple[int, str]:
    """The row that is most worth a look, of the first ones, and its runner-up."""
    import numpy as np

    p = model.predict_proba(examples.X.iloc[:most])
    second, first = np.argsort(p, axis=1, kind="stable")[:, -2:].T
    rows = np.arange(len(p))
    i = int((p[rows, first] - p[rows, second]).argmin())
    return int(examples.rows[i]), str(model.classes_[second[i]])


def _means(results: list[dict[str, Scores]]) -> dict[str, dict[str, float]]:
    """The scores of every model, as plain data; means over several folds."""
    return {
        name: {
            score: sum(getattr(fold[name], score) for fold in results) / len(results)
            for score in ("accuracy", "log_loss", "calibration_error")
        }
        for name in (results[0] if results else ())
    }


def _document(
    model: PUNNClassifier, target: str, results: list[dict[str, Scores]], examples: Examples
) -> dict[str, Any]:
    folds = [{name: scores._asdict() for name, scores in fold.items()} for fold in results]
    return {
        "target": target,
        "classes": model.classes_,
        "order": model.order_,
        "features": examples.columns.feature_names,
        "parameters": model.n_parameters_,
        "epochs": model.n_iter_,
        "scores_by_fold": folds,
        "regions": model.regions().to_dict(),
        "notes": examples.notes,
    }
