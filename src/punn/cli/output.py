"""What the commands write: results on standard output, everything else on standard error.

In a terminal headings are bold and notes grey; in a pipe the very same text comes without a control character.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import typer
from rich.console import Console
from rich.text import Text

__all__ = ["INTERRUPTED", "Screen", "check_place", "fail", "polite", "process_number", "write_whole"]

#: The exit code of a command that was stopped by Ctrl-C, as shells have it.
INTERRUPTED = 130

FEW = 12  # notes on the screen
PATIENCE = 3.0  # seconds that other processes than the first wait before they complain
PACKAGE = str(Path(__file__).parents[1])


class Screen:
    """Results for people or for machines.

    Arguments:
        as_json: One JSON document on standard output instead of text.
        quiet: Nothing but errors.
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        # Of several processes the first one speaks for all.
        first = process_number() == 0
        self.as_json, self.quiet = as_json and first, quiet or not first
        self._out = _console()

    def say(self, text: Any = "", style: str = "") -> None:
        """A result, for people."""
        if not self.as_json and not self.quiet:
            _write(self._out, Text(str(text), style=style))

    def sentence(self, text: Any) -> None:
        """A result that may be longer than a line."""
        self.say(_wrapped(f" {text}", self._out))

    def table(self, cells: Sequence[Sequence[str]], align: str) -> None:
        """Columns under a bold heading."""
        from punn.ledger import columns

        first, *lines = columns(cells, align)
        self.say(first, "bold")
        for line in lines:
            self.say(line)

    def block(self, content: Any) -> None:
        """A text of the library with a heading in its first line, such as a trace."""
        first, *lines = str(content).split("\n")
        self.say(first, "bold")
        for line in lines:
            self.say(line)

    def note(self, text: str) -> None:
        """Something to know, beside the result."""
        if not self.quiet:
            note(text)

    def notes(self, texts: Sequence[str]) -> None:
        """The first of many notes."""
        for text in texts[:FEW]:
            self.note(f"  {text}")
        if len(texts) > FEW:
            self.note(f"  ... and {len(texts) - FEW} more; --json has them all")

    def document(self, content: dict[str, Any]) -> None:
        """The result, for machines."""
        if self.as_json:
            print(json.dumps(_plain(content), indent=2))


def _console(stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def _write(console: Console, text: Text) -> None:
    """Write a text; if nobody reads any more, as in `punn train ... | head -1`, the work still goes on."""
    # Rich itself would end the process at a broken pipe, perhaps before a model is saved.
    with console.capture() as captured:
        console.print(text)
    try:
        console.file.write(captured.get())
        console.file.flush()
    except BrokenPipeError:
        _silence(console.file)


def _silence(stream: IO[str]) -> None:
    """Send what else is written to a broken stream nowhere, its last flush included."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def note(text: str) -> None:
    """A grey line on standard error."""
    console = _console(stderr=True)
    _write(console, Text(_wrapped(text, console), style="dim"))


def process_number() -> int:
    """The number of this process among those that torchrun started; 0 if it was started alone."""
    return int(os.environ.get("RANK", "0")) if os.environ.get("WORLD_SIZE", "1") != "1" else 0


def fail(message: object, code: int = 1) -> typer.Exit:
    """Tell what is wrong; raise what comes back."""
    console = _console(stderr=True)
    text = f"punn: {' '.join(str(message).split())}"
    if number := process_number():
        # What is wrong for all is told by the first process, at which torchrun ends the others before they speak.
        time.sleep(PATIENCE)
        text = f"{text} (process {number})"
    text = _wrapped(text, console)
    _write(console, Text.assemble((text[:5], "bold red"), text[5:]))
    return typer.Exit(code)


def _wrapped(text: str, console: Console) -> str:
    """Broken between words in a terminal; in a pipe a line stays one, for whoever searches it."""
    if not console.is_terminal:
        return text
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.fill(text, console.width, subsequent_indent=f"{indent}  ", break_on_hyphens=False)


@contextlib.contextmanager
def polite(quiet: bool = False) -> Iterator[None]:
    """Around a command: what the user can mend is told in one message, without a traceback."""
    try:
        with _told_warnings(quiet):
            yield
        sys.stdout.flush()
    except (KeyboardInterrupt, _InterruptedFit):
        raise fail("interrupted; no result was written", INTERRUPTED) from None
    except BrokenPipeError:
        _silence(sys.stdout)  # whoever reads has seen enough, as in `punn predict ... | head`
        raise typer.Exit(0) from None
    except (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError) as error:
        if os.environ.get("PUNN_DEBUG") or (isinstance(error, RuntimeError) and not _short_of_memory(error)):
            raise
        raise fail(_message(error)) from None


class _InterruptedFit(Exception):  # noqa: N818
    """A fit that ended early by Ctrl-C; in Python it leaves a usable model, in a command it is no result."""


@contextlib.contextmanager
def _told_warnings(quiet: bool) -> Iterator[None]:
    """Warnings as notes; those of other libraries are not for the user of a command."""

    def show(message: Any, category: Any, filename: str, *rest: Any, **more: Any) -> None:
        if str(message).startswith("interrupted in epoch"):
            raise _InterruptedFit
        if not quiet and filename.startswith(PACKAGE) and process_number() == 0:
            note(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def _short_of_memory(error: BaseException) -> bool:
    if not isinstance(error, RuntimeError):
        return isinstance(error, MemoryError)
    from punn.memory import is_shortage

    return is_shortage(error)


def _message(error: BaseException) -> str:
    if _short_of_memory(error):
        return "not enough memory; take fewer rows or columns, or a larger machine"
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}"
    return str(error) or type(error).__name__


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    from punn.checkpoint import write_atomically

    check_place(path)
    write_atomically(path, content)


def check_place(path: Path, kinds: Sequence[str] = ()) -> None:
    """Refuse a place where no file can be written, or a name of another kind, before the work rather than after it."""
    if kinds and path.suffix.lower() not in kinds:
        raise ValueError(f"{path}: expected a name that ends in {', '.join(kinds)}")
    if path.is_dir():
        raise ValueError(f"{path}: expected the name of a file, got a folder")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path}: the folder {path.parent} cannot be written to")


def _plain(value: Any) -> Any:
    """Only what JSON knows: numpy's numbers as numbers, and null where there is no finite one."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, Path):
        return str(value)
    return _plain(value.tolist())  # an array or a number of numpy
