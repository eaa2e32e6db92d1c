"""Options and arguments that commands share, and how their texts are read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Header",
    "Json",
    "Model",
    "OnUnseen",
    "Quiet",
    "Table",
    "Unseen",
    "check_names",
    "nearest",
    "split_list",
    "whole_numbers",
]


class Unseen(StrEnum):
    """What to do about a category or a column that training did not show."""

    ERROR = "error"
    IGNORE = "ignore"


Model = Annotated[Path, typer.Argument(help="A file that punn train wrote.", metavar="MODEL")]
Table = Annotated[
    str,
    typer.Argument(
        help="A CSV, TSV or Parquet file with the columns of the training table, or a built-in set.", metavar="TABLE"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line names the columns; found out if not said."),
]
OnUnseen = Annotated[
    Unseen,
    typer.Option(
        help="A category or column that training did not show, or that is not there: refuse the table, or take it "
        "as unknown."
    ),
]


def split_list(text: str) -> list[str]:
    """The parts of a list with commas.

    Example:
        >>> split_list("ball, mlp")
        ['ball', 'mlp']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def whole_numbers(text: str, option: str) -> tuple[int, ...]:
    """Widths such as 64,64; none for an empty text.

    Example:
        >>> whole_numbers("64,32", "--hidden")
        (64, 32)
    """
    parts = split_list(text)
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"expected whole numbers such as 64,64, got {text!r}", param_hint=f"'{option}'")
    return tuple(int(part) for part in parts)


def check_names(text: str, known: Iterable[str], option: str) -> str | list[str]:
    """One of the known names, or a list of them with commas.

    Example:
        >>> check_names("ball,mlp", ["ball", "mlp"], "--gates")
        ['ball', 'mlp']
    """
    names, known = split_list(text), list(known)
    for name in names or [text]:
        if name not in known:
            raise typer.BadParameter(
                f"{name!r} is not one of {', '.join(known)}{nearest(name, known)}", param_hint=f"'{option}'"
            )
    return names[0] if len(names) == 1 else names


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was probably meant.

    Example:
        >>> nearest("elipsoid", ["ball", "ellipsoid"])
        "; did you mean 'ellipsoid'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
