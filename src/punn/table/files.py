"""Files to data frames: CSV and TSV text, compressed or not, and Parquet.

The quick way reads a file with pyarrow. Only if that fails is the file read again, line by line, to
find out what is wrong with it and where.
"""

import csv
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from punn.table.cells import TableError

__all__ = ["DAMAGED", "is_parquet", "parquet_frame", "read_table", "read_text_pieces", "refuse_duplicates"]

# In the order of preference: a comma may stand in numbers and texts, the others hardly do.
SEPARATORS = ("\t", ";", "|", ",")
MISSING = ("", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "?")
HEAD_BYTES = 1 << 16
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
#: What pyarrow raises at a Parquet file that is damaged; the last one for the name of a column.
DAMAGED = (pa.ArrowException, OSError, UnicodeDecodeError)
FOREIGN = {
    b"PK\x03\x04": "an Excel workbook or a zip file; save the sheet as CSV, or unpack the file",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV",
    b"\xff\xfe": "text in UTF-16; save it as UTF-8",
    b"\xfe\xff": "text in UTF-16; save it as UTF-8",
}


class _Layout(NamedTuple):
    """How a text file is cut into columns."""

    blank_lines: int
    separator: str
    header: bool
    names: list[str]


def read_table(path: str | os.PathLike[str], header: bool | None = None) -> pd.DataFrame:
    """Read a table from a CSV, TSV or Parquet file.

    The separator of a text file (comma, semicolon, tab or bar) is found from its first lines. Text is UTF-8, with
    or without a byte order mark, and may be compressed with gzip. Decimal commas are understood where the separator
    is not a comma.

    Arguments:
        path: The file.
        header: Whether the first line holds the names of the columns; found from the file if not said.

    Returns:
        The table. What was assumed is told in `frame.attrs["notes"]`, a list of sentences.

    Raises:
        TableError: The file cannot be read as a table; the message says where and what to do.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        ...     file.write(b"length;island\\n39,1;Biscoe\\n36,5;Dream\\n") > 0
        ...     file.flush()
        ...     read_table(file.name)
        True
           length  island
        0    39.1  Biscoe
        1    36.5   Dream
    """
    path = Path(path)
    head = _read_head(path)
    if head.startswith(PARQUET):
        frame, notes = _read_parquet(path), []
    else:
        layout = _find_layout(path, head, header)
        frame = _read_text(path, layout)
        notes = [] if layout.header else [_no_header(layout)]
    if len(frame) == 0:
        raise TableError(f"{path}: expected rows, got a table with the names of its columns alone")
    frame.attrs["notes"] = notes
    return frame


def read_text_pieces(path: Path, header: bool | None = None) -> tuple[Iterator[pd.DataFrame], tuple[str, ...]]:
    """A text file piece by piece, with the types that its first piece shows; and what was assumed."""
    layout = _find_layout(path, _read_head(path), header)
    return _text_pieces(path, layout), () if layout.header else (_no_header(layout),)


def _text_pieces(path: Path, layout: _Layout) -> Iterator[pd.DataFrame]:
    first = 0
    try:
        with _open(path) as file:
            for batch in arrow_csv.open_csv(file, *_csv_options(layout, block_size=1 << 24)):
                frame = _to_pandas(pa.Table.from_batches([batch]))
                frame.index = pd.RangeIndex(first, first + len(frame))
                first += len(frame)
                if len(frame):
                    yield frame if layout.separator == "," else _decimal_commas(frame)
    except (pa.ArrowException, EOFError, gzip.BadGzipFile, zlib.error) as error:
        _diagnose(path, layout)
        raise TableError(
            f"{path}: expected the same kind of values in a column from the first row to the last, got others after "
            f"row {first} ({error}); mend them, or write the table as Parquet"
        ) from None


def _no_header(layout: _Layout) -> str:
    names = f"{layout.names[0]!r} to {layout.names[-1]!r}" if len(layout.names) > 1 else repr(layout.names[0])
    return f"The first line looks like data, not like the names of columns; the columns are called {names}."


def _read_head(path: Path) -> bytes:
    """The first bytes of a file, decompressed, or the reason why there are none that could be a table."""
    if not path.exists():
        raise TableError(f"{path}: there is no such file; check the name and the folder ({Path.cwd()})")
    if not path.is_file():
        raise TableError(f"{path}: expected a CSV, TSV or Parquet file, got a folder or a device; name a file")
    try:
        with _open(path) as file:
            head = file.read(HEAD_BYTES)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TableError(f"{path}: expected a gzip file, got a damaged one ({error}); get it again") from None
    except OSError as error:
        raise TableError(f"{path}: cannot be read ({error.strerror})") from None
    if not head.removeprefix(b"\xef\xbb\xbf").strip():
        raise TableError(f"{path}: expected a table, got an empty file")
    for magic, what in FOREIGN.items():
        if head.startswith(magic):
            raise TableError(f"{path}: expected CSV, TSV or Parquet, got {what}")
    if b"\0" in head and not head.startswith(PARQUET):
        raise TableError(f"{path}: expected CSV, TSV or Parquet, got a binary file of another kind; export it as CSV")
    return head


def _open(path: Path) -> gzip.GzipFile | io.BufferedReader:
    with path.open("rb") as file:
        compressed = file.read(2) == GZIP
    return gzip.open(path) if compressed else path.open("rb")


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        table = parquet.ParquetFile(path).read()
        refuse_duplicates(path, table.column_names)
        return parquet_frame(table)
    except DAMAGED as error:
        raise TableError(f"{path}: expected a Parquet file, got a damaged one ({error}); write it again") from None


def parquet_frame(table: pa.Table) -> pd.DataFrame:
    """The frame of a table from a Parquet file, with decimals as numbers."""
    for i, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            table.column(i).validate(full=True)  # bytes that are no text would be met much later
        if pa.types.is_decimal(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.float64()))
    return _to_pandas(table)


def is_parquet(path: Path) -> bool:
    """Whether a file begins as Parquet files do."""
    with path.open("rb") as file:
        return file.read(len(PARQUET)) == PARQUET


def _to_pandas(table: pa.Table) -> pd.DataFrame:
    # Column by column, each given back as soon as it is copied, so that there are never two whole tables.
    try:
        frame: pd.DataFrame = table.to_pandas(date_as_object=False, split_blocks=True, self_destruct=True)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise pa.ArrowInvalid(f"what it says of its columns is damaged: {error}") from None
    return frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()


def refuse_duplicates(path: Path, names: list[str]) -> None:
    """Every column needs a name of its own."""
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise TableError(
            f"{path}: expected every column to have a name of its own, got {', '.join(map(repr, twice[:5]))} "
            "more than once; rename them"
        )


def _find_layout(path: Path, head: bytes, header: bool | None) -> _Layout:
    """Separator, header and names from the first lines."""
    text = head.decode("utf-8-sig", errors="replace")
    if len(head) == HEAD_BYTES and ("\n" in text or "\r" in text):
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]  # the last line may be cut
    separators = ("\t",) if ".tsv" in path.suffixes else SEPARATORS
    rows, separator = max(
        ((_rows(text, separator), separator) for separator in separators), key=lambda found: _agreement(found[0])
    )
    if not rows:
        raise TableError(f"{path}: expected a table, got a single cell of more than {HEAD_BYTES} bytes")
    has_header = _looks_like_header(rows) if header is None else header
    names = [cell.strip() if has_header else "" for cell in rows[0]]
    refuse_duplicates(path, [name for name in names if name])
    blank_lines = len(text[: len(text) - len(text.lstrip("\r\n"))].splitlines())
    names = [name or f"column {i}" for i, name in enumerate(names, 1)]
    layout = _Layout(blank_lines, separator, has_header, names)
    if "\ufffd" in "".join(names):
        _diagnose(path, layout)  # the mark of a byte that is not UTF-8
    return layout


def _rows(text: str, separator: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row][:200]
    except csv.Error:
        return []


def _agreement(rows: list[list[str]]) -> float:
    """The share of lines with as many cells as the first; a separator that never occurs loses."""
    if not rows or len(rows[0]) < 2:
        return 0.0
    return sum(len(row) == len(rows[0]) for row in rows) / len(rows)


def _looks_like_header(rows: list[list[str]]) -> bool:
    """A header has words above numbers; where there are no numbers, names that do not come again below."""
    first, rest = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if not rest:
        return not any(map(_is_number, first))
    votes = []
    for name, *below in zip(first, *rest, strict=True):
        present = [cell for cell in below if cell.strip() not in MISSING]
        if name.strip() not in MISSING and present and all(map(_is_number, present)):
            votes.append(not _is_number(name))
    if votes:
        return any(votes)
    return all(name not in column for name, *column in zip(first, *rest, strict=True))


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _read_text(path: Path, layout: _Layout) -> pd.DataFrame:
    try:
        table = _parse(path, layout)
    except (pa.ArrowException, EOFError, gzip.BadGzipFile, zlib.error) as error:
        _diagnose(path, layout)
        raise TableError(
            f"{path}: expected lines of cells, got quotes that do not match ({error}); mend them"
        ) from None
    if any(pa.types.is_binary(field.type) for field in table.schema):
        _diagnose(path, layout)  # text that is not UTF-8 comes back as bytes
    if any("\n" in str(cell) for row in table.slice(max(0, table.num_rows - 1)).to_pylist() for cell in row.values()):
        _diagnose(path, layout)  # a quote that is never closed has swallowed the lines below it
    frame = _to_pandas(table)
    return frame if layout.separator == "," else _decimal_commas(frame)


def _parse(path: Path, layout: _Layout) -> pa.Table:
    try:
        # Block by block, which takes little memory, with the types that the first block shows.
        with _open(path) as file:
            return arrow_csv.open_csv(file, *_csv_options(layout, block_size=1 << 22)).read_all()
    except pa.ArrowInvalid:
        # A later block has what the first had not, say a text among numbers: types from the whole file.
        with _open(path) as file:
            return arrow_csv.read_csv(file, *_csv_options(layout, block_size=1 << 26))


def _csv_options(layout: _Layout, block_size: int) -> tuple[Any, Any, Any]:
    read = arrow_csv.ReadOptions(
        block_size=block_size,
        column_names=layout.names,
        skip_rows=layout.blank_lines,
        skip_rows_after_names=layout.header,
    )
    parse = arrow_csv.ParseOptions(delimiter=layout.separator, newlines_in_values=True)
    convert = arrow_csv.ConvertOptions(null_values=MISSING, strings_can_be_null=True, quoted_strings_can_be_null=True)
    return read, parse, convert


def _diagnose(path: Path, layout: _Layout) -> None:
    """Raise what is wrong with a file that could not be read, and on which line; return if nothing is found."""
    with _open(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", errors="strict", newline="") as text:
        reader = csv.reader(_decoded_lines(path, text), delimiter=layout.separator, strict=True)
        try:
            for row in reader:
                if row and len(row) != len(layout.names):
                    raise TableError(
                        f"{path}, line {reader.line_num}: expected {len(layout.names)} cells, as in the first line, "
                        f"got {len(row)}; check its separators ({layout.separator!r}) and quotes"
                    )
        except csv.Error as error:
            raise TableError(f"{path}, line {reader.line_num}: {error}; check its quotes") from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TableError(f"{path}: expected a gzip file, got a damaged one ({error}); get it again") from None


def _decoded_lines(path: Path, text: TextIO) -> Iterator[str]:
    """The lines of a file; a byte that is not UTF-8 is named with its place."""
    try:
        yield from text
    except UnicodeDecodeError:
        pass
    else:
        return
    with _open(path) as file:
        start = 0
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                raise TableError(
                    f"{path}, line {number}: expected text in UTF-8, got byte {line[error.start]:#04x} at position "
                    f"{start + error.start}; save it as UTF-8, e.g. with `iconv -f latin1 -t utf-8`"
                ) from None
            start += len(line)


def _decimal_commas(frame: pd.DataFrame) -> pd.DataFrame:
    """Texts such as 1,5 to numbers, in the columns where every value is one."""
    for name in frame.columns:
        if not pd.api.types.is_string_dtype(frame[name]):
            continue
        present = frame[name].dropna().str.strip()
        if len(present) and present.str.fullmatch(r"[+-]?[0-9]*,?[0-9]+(?:[eE][+-]?[0-9]+)?").all():
            frame[name] = pd.to_numeric(frame[name].str.strip().str.replace(",", ".", regex=False))
    return frame
