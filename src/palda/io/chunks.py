"""Tables of any length, some rows at a time: what is in memory does not grow with the file."""

from __future__ import annotations

import io
import os
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from palda.data import SourceLocation
from palda.errors import DataError, MissingDependencyError
from palda.io.files import (
    Table,
    check_header,
    check_width,
    csv_dialect,
    csv_rows,
    file_name,
    json_frame,
    json_records,
    kind_of,
    open_bytes,
    read_table,
    read_text,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from typing import BinaryIO

    from numpy.typing import NDArray

    Source = str | os.PathLike[str]
    T = TypeVar("T")

__all__ = ["Chunk", "SeenNames", "read_chunks"]


class Chunk(NamedTuple):
    """Some rows of a table, and what share of the file has been read with them."""

    table: Table
    share: float


def read_chunks(path: Source, size: int = 1000, encoding: str | None = None) -> Iterator[Chunk]:
    """Rows of a CSV, TSV, JSON lines or Parquet file in tables of at most ``size``; a JSON list comes in one.

    A file without any row is an error, as it is for ``read_table``.
    """
    kind = kind_of(path)
    if kind == "json":
        yield Chunk(read_table(path, encoding), 1.0)
        return
    readers = {"csv": _csv_chunks, "jsonl": _json_chunks, "parquet": _parquet_chunks}
    n_chunks = 0
    for chunk in readers[kind](path, size, encoding):
        n_chunks += 1
        yield chunk
    if not n_chunks:
        problem = "is empty; it needs at least one record" if kind == "jsonl" else "has a header but no rows"
        raise DataError(problem, file=file_name(path))


class SeenNames:
    """Names that went by, at 8 bytes each: their hashes, in sorted runs that are merged as they grow."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.int64]] = []

    def again(self, names: Collection[str]) -> list[int]:
        """Places of the names that seem to have gone by before; two names in 2⁶⁴ look alike without being so."""
        hashes = np.fromiter(map(hash, names), np.int64, len(names))
        known = np.zeros(len(hashes), dtype=bool)
        for run in self._runs:
            known |= run[np.minimum(np.searchsorted(run, hashes), len(run) - 1)] == hashes
        new = np.sort(hashes)
        while self._runs and len(self._runs[-1]) <= len(new):
            new = np.sort(np.concatenate([self._runs.pop(), new]), kind="stable")
        self._runs.append(new)
        return [int(place) for place in np.flatnonzero(known)]


def _csv_chunks(path: Source, size: int, encoding: str | None) -> Iterator[Chunk]:
    import pandas as pd

    name = file_name(path)
    chosen, delimiter = csv_dialect(path, encoding)
    with open_bytes(path) as stream:
        lines = _text_lines(stream, chosen, newline="")
        try:
            rows = csv_rows(lines, delimiter, name)
            header = [cell.strip() for cell in next(rows)[1]]
            check_header(header, SourceLocation(name))
            for block in _blocks(rows, size):
                for number, row in block:
                    check_width(row, header, delimiter, SourceLocation(name, first_row=number))
                frame = pd.DataFrame([row for _, row in block], columns=header, dtype=object)
                yield Chunk(Table(frame, _places(name, block)), _share_read(stream))
        except UnicodeError:
            read_text(path, encoding)  # raises the error that names the row
            raise


def _json_chunks(path: Source, size: int, encoding: str | None) -> Iterator[Chunk]:
    name = file_name(path)
    with open_bytes(path) as stream:
        lines = _text_lines(stream, csv_dialect(path, encoding)[0], newline="\n")
        try:
            for block in _blocks(json_records(lines, name), size):
                yield Chunk(json_frame(block, name), _share_read(stream))
        except UnicodeError:
            read_text(path, encoding)
            raise


def _parquet_chunks(path: Source, size: int, encoding: str | None) -> Iterator[Chunk]:
    del encoding
    name = file_name(path)
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as missing:
        raise MissingDependencyError("Reading Parquet files", "parquet") from missing
    with open_bytes(path) as stream:
        try:
            file = parquet.ParquetFile(stream)
            n_read = 0
            for batch in file.iter_batches(size):
                frame = batch.to_pandas().rename(columns=str.strip)
                check_header(list(frame.columns), SourceLocation(name, first_row=1))
                yield Chunk(
                    Table(frame, SourceLocation(name, first_row=1 + n_read)), (n_read + len(frame)) / _n_rows(file)
                )
                n_read += len(frame)
        except (pa.ArrowException, ValueError) as broken:
            if isinstance(broken, DataError):
                raise
            raise DataError(f"is not a readable Parquet file: {str(broken).splitlines()[0]}", file=name) from None


def _n_rows(file: Any) -> int:
    """Rows of a Parquet file, as its footer says."""
    return max(int(file.metadata.num_rows), 1)


def _blocks(rows: Iterator[T], size: int) -> Iterator[list[T]]:
    while block := list(islice(rows, size)):
        yield block


def _places(name: str, block: Iterable[tuple[int, Any]]) -> SourceLocation:
    return SourceLocation(name, np.array([number for number, _ in block], dtype=np.int64))


def _text_lines(stream: BinaryIO, encoding: str, newline: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(stream, "utf-8-sig" if encoding == "utf-8" else encoding, newline=newline)


def _share_read(stream: BinaryIO) -> float:
    """How far the file on disk has been read, compressed or not."""
    handle = stream.fileno()
    return min(os.lseek(handle, 0, os.SEEK_CUR) / max(os.fstat(handle).st_size, 1), 1.0)
