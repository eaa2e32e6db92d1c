"""`punn explore`: a local page where a model answers while one touches it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from punn.cli.options import Header
from punn.cli.output import Screen, polite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from punn.classifier import PUNNClassifier
    from punn.explore.sessions import Session
    from punn.sources import Source

__all__ = ["explore"]


def explore(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A file that punn train wrote; or mnist-demo. A table or a built-in set is opened to train on; "
            "without any, the page lets you choose.",
            metavar="[MODEL]",
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Argument(
            help="Rows to begin with: a CSV, TSV or Parquet file with the columns of the training table, or a "
            "built-in set.",
            metavar="[TABLE]",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; any other than 127.0.0.1 lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port; 8050 or, if it is taken, any free one if not said.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    header: Header = None,
) -> None:
    """Explore a model in the browser, or train one there.

    Move sliders and see trace, ledger and probabilities change; move the row on a map of two features; ask for the
    smallest change that makes another class win; draw digits. Everything stays on this machine. Ctrl-C ends it, with
    exit code 0.

    \b
    Examples:
        punn explore penguins.punn.safetensors penguins.csv
        punn explore mnist-demo
        punn explore
    """
    screen = Screen()
    with polite():
        start = _start(screen, model, table, header)
        from punn.explore import serve
    if host not in ("127.0.0.1", "localhost", "::1"):
        screen.note(f"warning: whoever reaches {host} can use the model and start fits on this machine")
    try:
        serve(start, host, port, browser, screen.say)
    except (ValueError, OSError) as error:
        with polite():
            raise error from None
    screen.say("\nended")


def _start(screen: Screen, model: str | None, table: str | None, header: bool | None) -> Session:
    """What a new tab begins with."""
    from punn.explore.code import loading_code
    from punn.explore.demo import NAME, mnist_demo
    from punn.explore.sessions import Session
    from punn.explore.subject import subject_of
    from punn.explore.upload import Table
    from punn.persistence import load
    from punn.sources import features_of, read_source

    if model is None:
        return Session()
    if model == NAME:
        screen.say("training a small model on some of MNIST's digits")
        return Session(mnist_demo(verbose=sys.stderr.isatty()))
    if table is None and _is_table(model):
        source = read_source(model, header)
        return Session(table=Table(source, model))
    loaded = load(model)
    name = Path(model).name.removesuffix(".safetensors").removesuffix(".punn")
    X = y = None
    if table is not None:
        source = read_source(table, header)
        X, y = features_of(loaded, source.frame), _labels(loaded, source)
    return Session(subject_of(name, loaded, X, y, loading_code(Path(model))))


def _is_table(name: str) -> bool:
    """Whether a table was named where a model is expected."""
    from punn.datasets import DATASETS

    path = Path(name)
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(16)
        # A safetensors file begins with the length of its header, and then a brace.
        return start[8:9] != b"{"
    return name in DATASETS


def _labels(model: PUNNClassifier, source: Source) -> NDArray[Any] | None:
    """The true labels in a table, as the model has them; None if they are not there."""
    import numpy as np

    target = (model.table_ or {}).get("target") or source.target
    if target not in source.frame.columns:
        return None
    place = {str(label): label for label in model.classes_.tolist()}
    texts = source.frame[target].astype(str).str.strip()
    return np.array([place.get(text, text) for text in texts], dtype=object)
