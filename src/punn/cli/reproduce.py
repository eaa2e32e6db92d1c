"""`punn reproduce`: the paper's tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from punn.cli.options import Json, Quiet, check_names
from punn.cli.output import INTERRUPTED, Screen, fail, polite

__all__ = ["reproduce"]

#: In the order in which `all` does them, those that need a download last; their package takes seconds to import.
NAMES = ("synthetic", "density", "shapes", "mnist", "cifar100")


def reproduce(
    study: Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}, or all.", metavar="STUDY")],
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds; else as many as the study has.")] = None,
    jobs: Annotated[
        int,
        typer.Option(
            min=1, help="Runs at a time, each in a process of its own; fastest with one per core, but for cifar100."
        ),
    ] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Where the study's folder is made; else results, or results-quick.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A version of a minute, to see that everything works.")
    ] = False,
    best: Annotated[bool, typer.Option("--best", help="MNIST with our own settings instead of the paper's.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce a study of the paper.

    Writes STUDY/results.json, table.md and figures. Every run is stored when it is finished: stopped and
    started again, the study goes on with the runs that are missing.

    \b
    Examples:
        punn reproduce shapes
        punn reproduce synthetic --seeds 5 --jobs 2
        punn reproduce all --quick
    """
    screen = Screen(json, quiet)
    with polite(quiet):
        names = check_names(study, [*NAMES, "all"], "STUDY")
        from io import StringIO

        from punn import experiments

        place = out or Path("results-quick" if quick else "results")
        documents = {}
        progress = StringIO() if quiet else None
        for name in NAMES if "all" in names else [names] if isinstance(names, str) else names:
            chosen = experiments.MNIST_BEST if best and name == "mnist" else experiments.STUDIES[name]
            try:
                runs = experiments.reproduce(chosen, place, seeds, jobs, quick, progress)
            except KeyboardInterrupt:
                text = "interrupted; finished runs are stored, and the same command goes on with the others"
                raise fail(text, INTERRUPTED) from None
            screen.say((place / chosen.name / "table.md").read_text())
            screen.say(f"{len(runs)} runs, table and figures are in {place / chosen.name}")
            documents[name] = {"folder": place / chosen.name, "runs": runs}
        screen.document(documents)
