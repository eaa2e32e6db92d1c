"""The `punn` command: from a table to a model that explains itself, without a line of Python.

One file per command, or two that belong together. `output` writes results and errors, and `options` holds what
several commands share. torch takes seconds to import, so that every
command imports what it needs inside, and `punn --help` is quick.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from punn import __version__
from punn.cli.data import data
from punn.cli.explain import explain
from punn.cli.explore import explore
from punn.cli.info import export, info
from punn.cli.predict import predict
from punn.cli.report import report
from punn.cli.reproduce import reproduce
from punn.cli.train import train

__all__ = ["app", "main"]

app = typer.Typer(
    name="punn",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes take half of the screen, and stay in a pipe
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"punn {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 done, 1 something to mend (one message says what), 2 wrong usage, 130 stopped by Ctrl-C."
)
def _punn(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Classifiers whose every probability is an exact product of gates.

    \b
    Begin with a table, or with a built-in set:
        punn train penguins.csv --target species
        punn train iris --gates ellipsoid
    then ask the model why:
        punn explain penguins.punn.safetensors penguins.csv --row 17
    """


for command in (train, info, predict, explain, report, explore, export, data, reproduce):
    app.command()(command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; ends by SystemExit with the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a class name shows its code instead of a traceback.
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app(arguments, prog_name="punn")
