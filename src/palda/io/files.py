"""Bytes, text and JSON of files: compression, encodings, and one clear line for whatever is wrong with them."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from palda.data import SourceLocation, shown
from palda.errors import DataError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    import pandas as pd

    Source = str | os.PathLike[str]

_GZIP = b"\x1f\x8b"
_ENCODINGS_BY_MARK = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_BROKEN_COMPRESSION = (EOFError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True)
class Table:
    """Columns of a file and the row of each record in it.

    ``declared`` is true for a data frame of the user, whose categorical columns may name more than occurs.
    """

    frame: pd.DataFrame
    where: SourceLocation
    declared: bool = False


def file_name(path: Source) -> str:
    """Name of the file without its folders, as errors show it."""
    return Path(path).name


@contextmanager
def open_bytes(path: Source) -> Iterator[BinaryIO]:
    """Decompressed bytes; gzip is recognised by the first bytes, not by the name."""
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


def read_bytes(path: Source) -> bytes:
    """Content of a file, decompressed."""
    with open_bytes(path) as stream:
        return stream.read()


def read_text(path: Source, encoding: str | None = None) -> str:
    """Content of a file as text, decompressed and decoded."""
    return decode_text(read_bytes(path), encoding, file_name(path))


def decode_text(data: bytes, encoding: str | None, name: str) -> str:
    """Text of some bytes; UTF-8 unless a byte order mark or the caller says otherwise."""
    chosen = encoding_of(data[:4], encoding, name)
    try:
        return data.decode(chosen)
    except UnicodeDecodeError as bad:
        byte = data[bad.start : bad.start + 1].hex() or "??"
        raise DataError(
            f"byte 0x{byte} is not valid {chosen.upper()}; save the file as UTF-8 or pass its encoding, "
            "such as encoding='latin-1'",
            file=name,
            row=data.count(b"\n", 0, bad.start) + 1,
        ) from None
    except UnicodeError as bad:
        raise DataError(f"is not {chosen} text ({bad}); pass encoding='...'", file=name) from None


def encoding_of(head: bytes, given: str | None, name: str) -> str:
    """Encoding to use for a file that starts with ``head``; a byte order mark counts unless the caller names one."""
    marked = next((encoding for mark, encoding in _ENCODINGS_BY_MARK if head.startswith(mark)), "utf-8")
    if given is None:
        return marked
    try:
        chosen = codecs.lookup(given).name
    except LookupError:
        raise DataError(f"there is no encoding {given!r}; try 'utf-8' or 'latin-1'", file=name) from None
    return marked if marked == f"{chosen}-sig" else chosen


def check_header(header: list[str], where: SourceLocation) -> None:
    """Raise for a column without a name and for duplicate names."""
    where_header = SourceLocation(where.file, first_row=1)
    record = None if where.file is None else 0
    for position, column in enumerate(header, start=1):
        if not column:
            where_header.fail(f"the name of column {position} is blank; name it or remove the column", record)
    duplicates = [column for column, times in Counter(header).items() if times > 1]
    if duplicates:
        where_header.fail("the column occurs twice; rename one of them", record, duplicates[0])


# JSON


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


def json_document(path: Source, encoding: str | None = None) -> Any:
    """The one JSON value of a file."""
    text = read_text(path, encoding)
    if not text.strip():
        raise DataError("is empty", file=file_name(path))
    return _parse_json(text, file_name(path), None)


def json_lines(lines: Iterable[str], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects of a JSON lines file with their line numbers; blank lines are skipped."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        record = _parse_json(line, name, number)
        if not isinstance(record, dict):
            raise DataError(
                f'{shown(record)} is not an object; every line needs {{"name": value, ...}}', file=name, row=number
            )
        yield number, record


def json_table(text: str, name: str) -> Table:
    """Table of a JSON list of objects, or of JSON lines."""
    if text.lstrip().startswith("["):
        records = list(enumerate(_parse_json(text, name, None), start=1))
        for number, record in records:
            if not isinstance(record, dict):
                raise DataError(f"{shown(record)} is not an object", file=name, row=number)
    else:
        records = list(json_lines(text.split("\n"), name))
    if not records:
        raise DataError("is empty; it needs at least one record", file=name)
    return json_frame(records, name)


def json_frame(records: list[tuple[int, dict[str, Any]]], name: str) -> Table:
    """Table of numbered objects; a field that an object lacks is missing."""
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
