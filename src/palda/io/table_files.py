"""Tables from CSV, TSV, JSON lines, Parquet and Arrow files: the whole file, or some rows at a time."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from palda.data import SourceLocation
from palda.errors import DataError
from palda.io.column_files import arrow_chunks, arrow_table, parquet_chunks, parquet_table
from palda.io.csv_files import check_width, csv_dialect, csv_header, csv_rows, csv_table, text_lines
from palda.io.files import Chunk, Table, check_header, file_name, open_bytes, read_text
from palda.io.json_text import json_frame, json_lines, json_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    import pandas as pd

    Source = str | os.PathLike[str]
    T = TypeVar("T")


_COLUMN_FILES = {"parquet": (parquet_table, parquet_chunks), "arrow": (arrow_table, arrow_chunks)}


def as_table(source: Source | pd.DataFrame | Table, encoding: str | None = None) -> Table:
    """Table from a path or from a data frame; a ``Table`` is returned as it is."""
    import pandas as pd

    if isinstance(source, Table):
        return source
    if isinstance(source, pd.DataFrame):
        frame = source.rename(columns=lambda column: str(column).strip())
        where = SourceLocation(first_row=0)
        check_header(list(frame.columns), where)
        return Table(frame, where, declared=True)
    return read_table(source, encoding)


def read_table(path: Source, encoding: str | None = None) -> Table:
    """Table from CSV, TSV, JSON lines, a JSON list of objects, Parquet or Arrow, each also gzipped."""
    kind = kind_of(path)
    if kind in _COLUMN_FILES:
        return _COLUMN_FILES[kind][0](path)
    if kind in {"json", "jsonl"}:
        return json_table(read_text(path, encoding), file_name(path))
    return csv_table(path, encoding)


def kind_of(path: Source) -> Literal["csv", "json", "jsonl", "parquet", "arrow"]:
    """Kind of file by its suffix; .gz does not count."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() not in {".gz", ".gzip"}]
    suffix = suffixes[-1] if suffixes else ""
    if suffix in {".parquet", ".pq"}:
        return "parquet"
    if suffix in {".arrow", ".feather"}:
        return "arrow"
    if suffix == ".json":
        return "json"
    if suffix in {".jsonl", ".ndjson"}:
        return "jsonl"
    if suffix in {".csv", ".txt", "", ".tsv", ".tab"}:
        return "csv"
    raise DataError(
        f"files ending in {suffix!r} are not known; use .csv, .tsv, .jsonl, .parquet or .arrow (or .gz of them)",
        file=file_name(path),
    )


def read_chunks(path: Source, size: int = 1000, encoding: str | None = None) -> Iterator[Chunk]:
    """Rows of a file in tables of at most ``size`` rows, in constant memory; a JSON list is one chunk.

    A file without rows is an error, as it is for ``read_table``.
    """
    kind = kind_of(path)
    if kind == "json":
        yield Chunk(read_table(path, encoding), 1.0)
        return
    n_chunks = 0
    for chunk in _chunks(kind, path, size, encoding):
        n_chunks += 1
        yield chunk
    if not n_chunks:
        problem = "is empty; it needs at least one record" if kind == "jsonl" else "has a header but no rows"
        raise DataError(problem, file=file_name(path))


def _chunks(kind: str, path: Source, size: int, encoding: str | None) -> Iterator[Chunk]:
    if kind in _COLUMN_FILES:
        return _COLUMN_FILES[kind][1](path, size)
    return (_csv_chunks if kind == "csv" else _json_chunks)(path, size, encoding)


def _csv_chunks(path: Source, size: int, encoding: str | None) -> Iterator[Chunk]:
    import pandas as pd

    name = file_name(path)
    chosen, delimiter = csv_dialect(path, encoding)
    with open_bytes(path) as stream:
        lines = text_lines(stream, chosen, "", name)
        try:
            rows = csv_rows(lines, delimiter, name)
            header = csv_header(rows, name)
            for block in _blocks(rows, size):
                for number, row in block:
                    check_width(row, header, delimiter, SourceLocation(name, first_row=number))
                frame = pd.DataFrame([row for _, row in block], columns=header, dtype=object)
                yield Chunk(Table(frame, _locations(name, block)), _share_read(stream))
        except UnicodeError:
            read_text(path, encoding)  # raises the error that names the row
            raise


def _json_chunks(path: Source, size: int, encoding: str | None) -> Iterator[Chunk]:
    name = file_name(path)
    with open_bytes(path) as stream:
        lines = text_lines(stream, csv_dialect(path, encoding)[0], "\n", name)
        try:
            for block in _blocks(json_lines(lines, name), size):
                yield Chunk(json_frame(block, name), _share_read(stream))
        except UnicodeError:
            read_text(path, encoding)
            raise


def _blocks(rows: Iterator[T], size: int) -> Iterator[list[T]]:
    while block := list(islice(rows, size)):
        yield block


def _locations(name: str, block: Iterable[tuple[int, Any]]) -> SourceLocation:
    return SourceLocation(name, np.array([number for number, _ in block], dtype=np.int64))


def _share_read(stream: BinaryIO) -> float:
    """Share of the file on disk that has been read, compressed or not."""
    handle = stream.fileno()
    return min(os.lseek(handle, 0, os.SEEK_CUR) / max(os.fstat(handle).st_size, 1), 1.0)
