"""From files to tables: compression, encodings, delimiters, and one clear line for whatever is wrong with them.

CSV has two readers with the same result: ``csv_blocks`` for files that are plainly regular, as large vote files are,
and Python's csv module for everything else (quotes, ragged rows, blank lines, bad bytes), which knows the row it is in.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from array import array
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

import numpy as np

from palda.data import SourceLocation, shown
from palda.errors import DataError, MissingDependencyError
from palda.io.csv_blocks import NeedsCareError, regular_columns

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    import pandas as pd

__all__ = [
    "Table",
    "as_table",
    "check_header",
    "check_width",
    "csv_dialect",
    "csv_rows",
    "decode_text",
    "file_name",
    "json_document",
    "json_frame",
    "json_lines",
    "json_records",
    "kind_of",
    "open_bytes",
    "read_bytes",
    "read_table",
    "read_text",
]

_GZIP = b"\x1f\x8b"
_ENCODINGS_BY_MARK = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_DELIMITERS = (",", "\t", ";", "|")
_TAB_SUFFIXES = frozenset({".tsv", ".tab"})
_LONGEST_FIELD = (1 << 31) - 1  # of a csv cell; Windows takes no larger number
_BROKEN_COMPRESSION = (EOFError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True)
class Table:
    """Columns of a file, and where each record stands in it.

    A frame that the user made may have ``declared`` its names as categories; a file cannot.
    """

    frame: pd.DataFrame
    where: SourceLocation
    declared: bool = False


def file_name(path: str | os.PathLike[str]) -> str:
    """What errors call the file: its name without the folders."""
    return Path(path).name


@contextmanager
def open_bytes(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Decompressed bytes; a file is gzipped when its first bytes say so, whatever it is called."""
    name = file_name(path)
    try:
        with Path(path).open("rb") as raw:
            if raw.peek(2)[:2] == _GZIP:
                with gzip.open(raw) as stream:
                    yield cast("BinaryIO", stream)
            else:
                yield raw
    except _BROKEN_COMPRESSION as broken:
        raise DataError(f"the compressed file is damaged or cut short ({broken}); copy it again", file=name) from broken
    except FileNotFoundError:
        raise DataError(f"there is no such file: {path}", file=name) from None
    except OSError as refused:
        raise DataError(f"cannot be read: {refused.strerror or refused}", file=name) from refused


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Whole content of a file, decompressed."""
    with open_bytes(path) as stream:
        return stream.read()


def read_text(path: str | os.PathLike[str], encoding: str | None = None) -> str:
    """Whole content of a file as text, decompressed and decoded."""
    return decode_text(read_bytes(path), encoding, file_name(path))


def decode_text(data: bytes, encoding: str | None, name: str) -> str:
    """Text of some bytes; UTF-8 unless a byte order mark or the caller says otherwise."""
    chosen = _encoding(data[:4], encoding, name)
    try:
        return data.decode(chosen)
    except UnicodeDecodeError as bad:
        row = data.count(b"\n", 0, bad.start) + 1
        raise _encoding_error(name, row, data[bad.start : bad.start + 1], chosen) from None
    except UnicodeError as bad:
        raise DataError(f"is not {chosen} text ({bad}); pass encoding='...'", file=name) from None


def _encoding_error(name: str, row: int | None, byte: bytes, encoding: str) -> DataError:
    return DataError(
        f"byte 0x{byte.hex() or '??'} is not valid {encoding.upper()}; save the file as UTF-8 or pass its encoding, "
        "such as encoding='latin-1'",
        file=name,
        row=row,
    )


def _encoding(head: bytes, given: str | None, name: str) -> str:
    marked = next((encoding for mark, encoding in _ENCODINGS_BY_MARK if head.startswith(mark)), "utf-8")
    if given is None:
        return marked
    try:
        chosen = codecs.lookup(given).name
    except LookupError:
        raise DataError(f"there is no encoding {given!r}; try 'utf-8' or 'latin-1'", file=name) from None
    return marked if marked == f"{chosen}-sig" else chosen


# Tables of any kind


def as_table(source: str | os.PathLike[str] | pd.DataFrame | Table, encoding: str | None = None) -> Table:
    """Table from a path, from a frame that is already there, or one that was read before."""
    import pandas as pd

    if isinstance(source, Table):
        return source
    if isinstance(source, pd.DataFrame):
        frame = source.rename(columns=lambda column: str(column).strip())
        where = SourceLocation(first_row=0)
        check_header(list(frame.columns), where)
        return Table(frame, where, declared=True)
    return read_table(source, encoding)


def read_table(path: str | os.PathLike[str], encoding: str | None = None) -> Table:
    """Table from CSV, TSV, JSON lines, a JSON list of objects, or Parquet, each also gzipped."""
    kind = kind_of(path)
    if kind == "parquet":
        return _parquet_table(read_bytes(path), file_name(path))
    if kind in {"json", "jsonl"}:
        return _json_table(read_text(path, encoding), file_name(path))
    return _csv_table(path, encoding)


def kind_of(path: str | os.PathLike[str]) -> Literal["csv", "json", "jsonl", "parquet"]:
    """What the name of a file says about its content; .gz does not count."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() not in {".gz", ".gzip"}]
    suffix = suffixes[-1] if suffixes else ""
    if suffix in {".parquet", ".pq"}:
        return "parquet"
    if suffix == ".json":
        return "json"
    if suffix in {".jsonl", ".ndjson"}:
        return "jsonl"
    if suffix in {".csv", ".txt", "", *_TAB_SUFFIXES}:
        return "csv"
    raise DataError(
        f"files ending in {suffix!r} are not known; use .csv, .tsv, .jsonl or .parquet (or .gz of them)",
        file=file_name(path),
    )


def check_header(header: list[str], where: SourceLocation) -> None:
    """Complain about columns without a name, and about names that occur twice."""
    where_header = SourceLocation(where.file, first_row=1)
    record = None if where.file is None else 0
    for position, column in enumerate(header, start=1):
        if not column:
            where_header.fail(f"the name of column {position} is blank; name it or remove the column", record)
    twice = [column for column, times in Counter(header).items() if times > 1]
    if twice:
        where_header.fail("the column occurs twice; rename one of them", record, twice[0])


# CSV


def _csv_table(path: str | os.PathLike[str], encoding: str | None) -> Table:
    name = file_name(path)
    chosen, separator = csv_dialect(path, encoding)
    try:
        frame = _fast_csv(path, chosen, separator)
        where = SourceLocation(name)
    except NeedsCareError:
        frame, where = _careful_csv(path, chosen, separator)
    if not len(frame):
        raise DataError("has a header but no rows", file=name)
    return Table(frame, where)


def csv_dialect(path: str | os.PathLike[str], encoding: str | None) -> tuple[str, str]:
    """Encoding and delimiter of a CSV file, from its first bytes and its name."""
    name = file_name(path)
    with open_bytes(path) as stream:
        head = stream.read(1 << 16)
    chosen = _encoding(head[:4], encoding, name)
    if not head.strip():
        raise _empty_file(name)
    is_tabs = any(suffix.lower() in _TAB_SUFFIXES for suffix in Path(path).suffixes[-2:])
    return chosen, "\t" if is_tabs else _guess_delimiter(head, chosen)


def _empty_file(name: str) -> DataError:
    return DataError("is empty; it needs a header and at least one row", file=name)


def _guess_delimiter(head: bytes, encoding: str) -> str:
    first = head.decode(encoding, errors="replace").lstrip("\ufeff").lstrip().partition("\n")[0]
    outside_quotes = re.sub('"[^"]*"', "", first)
    return max(_DELIMITERS, key=outside_quotes.count)


def _fast_csv(path: str | os.PathLike[str], encoding: str, delimiter: str) -> pd.DataFrame:
    import pandas as pd

    with open_bytes(path) as stream:
        header, columns = regular_columns(stream, encoding, delimiter)
    check_header(header, SourceLocation(file_name(path)))
    return pd.DataFrame(dict(zip(header, columns, strict=True)), copy=False)


def csv_rows(lines: Iterable[str], delimiter: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that hold anything, each with its number as a spreadsheet shows it."""
    before = csv.field_size_limit(_LONGEST_FIELD)
    number = 0
    try:
        for number, row in enumerate(csv.reader(lines, delimiter=delimiter, strict=True), start=1):
            if row and (len(row) > 1 or row[0].strip()):
                yield number, row
    except csv.Error as broken:
        never_closed = "end of data" in str(broken)
        problem = "a quote is opened and never closed" if never_closed else f"the quotes are broken ({broken})"
        raise DataError(f"{problem}; double a quote that belongs to the text", file=name, row=number + 1) from None
    finally:
        csv.field_size_limit(before)


def _careful_csv(path: str | os.PathLike[str], encoding: str, delimiter: str) -> tuple[pd.DataFrame, SourceLocation]:
    """Frame of categorical columns, row by row; a cell that occurs again is not kept again."""
    with open_bytes(path) as stream:
        lines = io.TextIOWrapper(stream, "utf-8-sig" if encoding == "utf-8" else encoding, newline="")
        try:
            return _coded_rows(csv_rows(lines, delimiter, file_name(path)), delimiter, file_name(path))
        except UnicodeError:
            read_text(path, encoding)  # raises the error that names the row
            raise


def check_width(row: list[str], header: list[str], delimiter: str, where: SourceLocation) -> None:
    """Complain about a row with more or fewer cells than the header has."""
    if len(row) != len(header):
        where.fail(
            f"has {len(row)} cells where the header has {len(header)}; quote cells that hold {delimiter!r}, "
            "or add or remove cells",
            0,
        )


def _coded_rows(
    rows: Iterator[tuple[int, list[str]]], delimiter: str, name: str
) -> tuple[pd.DataFrame, SourceLocation]:
    import pandas as pd

    _, first = next(rows, (0, []))
    if not first:
        raise _empty_file(name)
    header = [cell.strip() for cell in first]
    check_header(header, SourceLocation(name))
    numbers = array("q")
    columns: list[tuple[dict[str, int], array[int]]] = [({}, array("i")) for _ in header]
    for number, row in rows:
        check_width(row, header, delimiter, SourceLocation(name, first_row=number))
        numbers.append(number)
        for cell, (places, codes) in zip(row, columns, strict=True):
            codes.append(places.setdefault(cell, len(places)))
    frame = {
        column: pd.Categorical.from_codes(
            np.asarray(codes, dtype=np.int32), categories=pd.Index(list(places), dtype=object)
        )
        for column, (places, codes) in zip(header, columns, strict=True)
    }
    return pd.DataFrame(frame), SourceLocation(name, np.asarray(numbers, dtype=np.int64))


# JSON and Parquet


def _parse_json(text: str, name: str, row: int | None) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as broken:
        place = f"character {broken.colno}" if row is not None else f"line {broken.lineno}, character {broken.colno}"
        raise DataError(f"is not JSON at {place}: {broken.msg}", file=name, row=row) from None
    except RecursionError:
        raise DataError("is nested too deeply to be data", file=name, row=row) from None
    except ValueError as absurd:  # such as an integer of 5,000 digits
        raise DataError(f"holds a number that cannot be read: {absurd}", file=name, row=row) from None


def json_document(path: str | os.PathLike[str], encoding: str | None = None) -> Any:
    """One JSON value that fills the file."""
    text = read_text(path, encoding)
    if not text.strip():
        raise DataError("is empty", file=file_name(path))
    return _parse_json(text, file_name(path), None)


def json_lines(text: str, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects of a JSON lines file with their line numbers; blank lines are passed over."""
    return json_records(text.split("\n"), name)


def json_records(lines: Iterable[str], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects, one a line, with their line numbers; blank lines are passed over."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        record = _parse_json(line, name, number)
        if not isinstance(record, dict):
            raise DataError(
                f'{shown(record)} is not an object; every line needs {{"name": value, ...}}', file=name, row=number
            )
        yield number, record


def _json_table(text: str, name: str) -> Table:
    if not text.strip():
        raise DataError("is empty; it needs at least one record", file=name)
    if text.lstrip().startswith("["):
        records = list(enumerate(_parse_json(text, name, None), start=1))
        for number, record in records:
            if not isinstance(record, dict):
                raise DataError(f"{shown(record)} is not an object", file=name, row=number)
    else:
        records = list(json_lines(text, name))
    if not records:
        raise DataError("is empty; it needs at least one record", file=name)
    return json_frame(records, name)


def json_frame(records: list[tuple[int, dict[str, Any]]], name: str) -> Table:
    """Table of numbered objects; what an object does not have is missing."""
    import pandas as pd

    header = list(dict.fromkeys(column for _, record in records for column in record))
    if not header:
        raise DataError("has records but no columns", file=name)
    stripped = [column.strip() for column in header]
    check_header(stripped, SourceLocation(name))
    frame = pd.DataFrame(
        {
            new: pd.Series([record.get(old) for _, record in records], dtype=object)
            for old, new in zip(header, stripped, strict=True)
        }
    )
    return Table(frame, SourceLocation(name, np.array([number for number, _ in records], dtype=np.int64)))


def _parquet_table(data: bytes, name: str) -> Table:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as missing:
        raise MissingDependencyError("Reading Parquet files", "parquet") from missing
    try:
        arrow = parquet.read_table(io.BytesIO(data))
        header = [column.strip() for column in arrow.column_names]
        check_header(header, SourceLocation(name, first_row=1))
        frame = arrow.rename_columns(header).to_pandas(ignore_metadata=True)
    except (pa.ArrowException, OSError, ValueError, TypeError) as broken:
        if isinstance(broken, DataError):
            raise
        raise DataError(
            f"is not a readable Parquet file: {str(broken).splitlines()[0] if str(broken) else broken}", file=name
        ) from None
    if not len(frame):
        raise DataError("has a header but no rows", file=name)
    return Table(frame, SourceLocation(name, first_row=1))
