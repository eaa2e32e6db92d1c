"""A table that was dropped on the page: read as text, whatever its name says, and never by its name."""

from __future__ import annotations

import base64
import binascii
import tempfile
from pathlib import Path
from typing import NamedTuple

from punn.sources import Source
from punn.table import TableError, read_table

__all__ = ["LARGEST", "Table", "read_upload"]

LARGEST = 20_000_000  # bytes of a table that is dropped


class Table(NamedTuple):
    """A table, and the name by which Python would read it."""

    source: Source
    place: str


PACKED = {b"\x1f\x8b": "a compressed file; unpack it first", b"PAR1": "a Parquet file; pass it to punn train"}


def read_upload(contents: object, name: object) -> Table:
    """The table in what a browser sends for a file.

    Arguments:
        contents: ``data:...;base64,...``.
        name: The name of the file, which is shown, and never a path.

    Raises:
        TableError: It is no table; the message names the file as the user knows it.
    """
    shown = "".join(letter for letter in str(name).replace("\\", "/").split("/")[-1] if letter.isprintable())[:80]
    shown = shown or "the file"
    if not isinstance(contents, str) or "," not in contents:
        raise TableError(f"{shown}: nothing came; drop a CSV file")
    if len(contents) > LARGEST * 4 / 3 + 1000:
        raise TableError(f"{shown} is larger than {LARGEST // 1_000_000} MB; train it in a shell: punn train {shown}")
    try:
        content = base64.b64decode(contents.split(",", 1)[1], validate=True)
    except (binascii.Error, ValueError):
        raise TableError(f"{shown}: it did not come whole; drop it again") from None
    for magic, what in PACKED.items():
        # A small file may unpack to more than the memory holds.
        if content.startswith(magic):
            raise TableError(f"{shown}: expected CSV or TSV, got {what}")
    with tempfile.TemporaryDirectory(prefix="punn-") as folder:
        path = Path(folder) / ("table.tsv" if shown.lower().endswith((".tsv", ".tab")) else "table.csv")
        path.write_bytes(content)
        try:
            frame = read_table(path)
        except TableError as error:
            raise TableError(str(error).replace(str(path), shown)) from None
    name = shown.split(".")[0] or "table"
    return Table(Source(frame, name, None, tuple(frame.attrs.get("notes", ()))), shown)
