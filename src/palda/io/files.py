"""Bytes and text of files: compression, encodings, and one clear line for whatever is wrong with them."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import zlib
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from palda.data import SourceLocation
from palda.errors import DataError
from palda.io import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    Source = str | os.PathLike[str]

_GZIP = b"\x1f\x8b"
_ENCODINGS_BY_MARK = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_UNSAFE_ENCODINGS = frozenset({"utf-7", "unicode-escape", "raw-unicode-escape"})  # they can express lone surrogates
_BROKEN_COMPRESSION = (EOFError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True)
class Table:
    """Columns of a file and the row of each record in it.

    ``declared`` is true for a data frame of the user, whose categorical columns may name more than occurs.
    """

    frame: pd.DataFrame
    where: SourceLocation
    declared: bool = False
    typed: bool = False
    """Whether the file states the types of its columns."""


class Chunk(NamedTuple):
    """Some rows of a table, and the share of the file that has been read so far."""

    table: Table
    share: float


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
                n_packed = os.fstat(raw.fileno()).st_size
                with gzip.open(raw) as stream:
                    unpacked = limits.UnpackedStream(cast("BinaryIO", stream), n_packed, name)
                    yield cast("BinaryIO", io.BufferedReader(unpacked))
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
    try:
        with open_bytes(path) as stream:
            return stream.read()
    except MemoryError:
        raise DataError("does not fit into memory; split it", file=file_name(path)) from None


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
        b"a".decode(given, "replace")  # fails for codecs that are no text encodings, such as "zlib"
    except (LookupError, ValueError):
        chosen = ""
    if not chosen or chosen in _UNSAFE_ENCODINGS:
        raise DataError(f"there is no encoding {given!r} of text; try 'utf-8' or 'latin-1'", file=name)
    return marked if marked == f"{chosen}-sig" else chosen


def check_header(header: list[str], where: SourceLocation) -> None:
    """Raise for too many columns, a column without a name, and duplicate names."""
    limits.check_n_fields(len(header), where.file)
    where_header = SourceLocation(where.file, first_row=1)
    record = None if where.file is None else 0
    for position, column in enumerate(header, start=1):
        if not column:
            where_header.fail(f"the name of column {position} is blank; name it or remove the column", record)
    duplicates = [column for column, times in Counter(header).items() if times > 1]
    if duplicates:
        where_header.fail("the column occurs twice; rename one of them", record, duplicates[0])
