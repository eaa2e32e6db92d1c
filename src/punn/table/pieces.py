"""Parquet piece by piece: a file or a folder of them, of which never more than a few pieces are in memory."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet

from punn.table.cells import TableError, listed
from punn.table.files import DAMAGED, is_parquet, parquet_frame, refuse_duplicates

__all__ = ["Group", "Pieces", "is_parquet_folder"]

PIECE_CELLS = 1 << 19  # cells of a piece: 4 MB of numbers
BUFFER = 1 << 16  # bytes of a column that are read at once; without it a whole row group would be


class Group(NamedTuple):
    """A row group: its file, its place in it, the number of its first row in the whole table, and its rows."""

    path: Path
    number: int
    first: int
    rows: int


class Pieces:
    """A table in a Parquet file, or in the Parquet files of a folder, in the order of their names.

    Arguments:
        path: The file or folder.

    Attributes:
        rows: How many rows there are.
        columns: The names of the columns.
        bytes: What the table takes in memory, or more.
        groups: The row groups of all files.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in "ab":
        ...         pd.DataFrame({"x": [1, 2, 3]}).to_parquet(f"{folder}/{name}.parquet", row_group_size=2)
        ...     pieces = Pieces(folder)
        ...     [group.first for group in pieces.groups], [len(frame) for frame in pieces.read()]
        ([0, 2, 3, 5], [2, 1, 2, 1])
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        files = _parquet_files(self.path) if self.path.is_dir() else [self.path]
        self.groups: list[Group] = []
        self.rows, self.bytes = 0, 0
        schema: pa.Schema | None = None
        for file in files:
            try:
                metadata = parquet.read_metadata(file)
                its = metadata.schema.to_arrow_schema()
            except DAMAGED as error:
                raise _damaged(file, error) from None
            if schema is None:
                schema = its
                refuse_duplicates(file, its.names)
            elif not its.equals(schema):
                differing = sorted({field.name for field in set(its) ^ set(schema)})
                raise TableError(
                    f"{file}: expected the columns of {files[0].name}, with the same types, got others for "
                    f"{listed(differing) if differing else 'their order'}; write all files alike"
                )
            for number in range(metadata.num_row_groups):
                group = metadata.row_group(number)
                self.groups.append(Group(file, number, self.rows, group.num_rows))
                self.rows += group.num_rows
                self.bytes += max(group.total_byte_size, 8 * group.num_rows * len(its.names))
        if schema is None or self.rows == 0:
            raise TableError(f"{self.path}: expected rows, got a table without any")
        self.columns = list(schema.names)

    def read(self, groups: Sequence[Group] | None = None) -> Iterator[pd.DataFrame]:
        """The rows of some groups, or of all, in pieces; their index is their number in the whole table."""
        size = max(1, PIECE_CELLS // len(self.columns))
        for group in self.groups if groups is None else groups:
            first = group.first
            try:
                with parquet.ParquetFile(group.path, buffer_size=BUFFER, pre_buffer=False) as file:
                    for batch in file.iter_batches(size, row_groups=[group.number], use_threads=False):
                        frame = parquet_frame(pa.Table.from_batches([batch]))
                        frame.index = pd.RangeIndex(first, first + len(frame))
                        first += len(frame)
                        yield frame
            except DAMAGED as error:
                raise _damaged(group.path, error) from None


def is_parquet_folder(path: Path) -> bool:
    """Whether there are Parquet files in a folder."""
    return path.is_dir() and bool(_found(path))


def _parquet_files(folder: Path) -> list[Path]:
    files = _found(folder)
    if not files:
        raise TableError(f"{folder}: expected a file, or a folder with Parquet files (*.parquet), got one without any")
    for file in files:
        if not is_parquet(file):
            raise TableError(f"{file}: expected a Parquet file, got another; take it out of the folder")
    return files


def _found(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.parquet") if path.is_file())


def _damaged(file: Path, error: object) -> TableError:
    return TableError(f"{file}: expected a Parquet file, got a damaged one ({error}); write it again")
