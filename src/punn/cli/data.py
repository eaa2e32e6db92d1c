"""`punn data`: fetch the image sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from punn.cli.options import Json, Quiet
from punn.cli.output import Screen, polite

__all__ = ["data"]


def data(
    names: Annotated[list[str], typer.Argument(help="mnist, cifar100, or both.", metavar="NAME...")],
    folder: Annotated[
        Path | None, typer.Option(help="Where to; else the variable PUNN_DATA, else your cache folder.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fetch MNIST and CIFAR-100.

    They come from their publishers, and checksums are compared. What is already there and
    readable stays. The small sets (iris, moons, ...) are built in.

    \b
    Examples:
        punn data mnist cifar100
        punn data mnist --folder ~/data
    """
    screen = Screen(json, quiet)
    with polite(quiet):
        from punn.readers import FETCHED, fetch

        unknown = [name for name in names if name not in FETCHED]
        if unknown:
            raise typer.BadParameter(f"{unknown[0]!r} is not one of {', '.join(FETCHED)}", param_hint="'NAME...'")
        places = fetch(names, folder)
        for name, place in zip(names, places, strict=True):
            screen.say(f"{name} is in {place}")
        screen.document(dict(zip(names, places, strict=True)))
