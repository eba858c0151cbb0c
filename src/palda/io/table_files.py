"""Tables from CSV, TSV, JSON lines and Parquet files: the whole file, or some rows at a time."""

from __future__ import annotations

import io
import os
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np

from palda.data import SourceLocation
from palda.errors import DataError, reason_of
from palda.io import limits
from palda.io.csv_files import check_width, csv_dialect, csv_header, csv_rows, csv_table, text_lines
from palda.io.files import Table, check_header, file_name, open_bytes, read_text
from palda.io.json_text import json_frame, json_lines, json_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

    Source = str | os.PathLike[str]
    T = TypeVar("T")


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
    """Table from CSV, TSV, JSON lines, a JSON list of objects, or Parquet, each also gzipped."""
    kind = kind_of(path)
    if kind == "parquet":
        return _parquet_table(path)
    if kind in {"json", "jsonl"}:
        return json_table(read_text(path, encoding), file_name(path))
    return csv_table(path, encoding)


def kind_of(path: Source) -> Literal["csv", "json", "jsonl", "parquet"]:
    """Kind of file by its suffix; .gz does not count."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() not in {".gz", ".gzip"}]
    suffix = suffixes[-1] if suffixes else ""
    if suffix in {".parquet", ".pq"}:
        return "parquet"
    if suffix == ".json":
        return "json"
    if suffix in {".jsonl", ".ndjson"}:
        return "jsonl"
    if suffix in {".csv", ".txt", "", ".tsv", ".tab"}:
        return "csv"
    raise DataError(
        f"files ending in {suffix!r} are not known; use .csv, .tsv, .jsonl or .parquet (or .gz of them)",
        file=file_name(path),
    )


class Chunk(NamedTuple):
    """Some rows of a table, and the share of the file that has been read so far."""

    table: Table
    share: float


def read_chunks(path: Source, size: int = 1000, encoding: str | None = None) -> Iterator[Chunk]:
    """Rows of a file in tables of at most ``size`` rows, in constant memory; a JSON list is one chunk.

    A file without rows is an error, as it is for ``read_table``.
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


@contextmanager
def _parquet_errors(name: str) -> Iterator[None]:
    """Turn whatever Arrow raises about a Parquet file, at any row, into an error of one line."""
    import pyarrow as pa

    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, *_DAMAGE) as broken:
        raise DataError(f"is not a readable Parquet file: {reason_of(broken)}", file=name) from None


_DAMAGE = (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError, RuntimeError)
"""What pyarrow raises besides its own exceptions on a damaged file."""


def _parquet_table(path: Source) -> Table:
    name = file_name(path)
    with open_bytes(path) as stream, _parquet_errors(name):
        file = _parquet_file(stream, name)
        frame = _arrow_frame(file.read(), name)
    if not len(frame):
        raise DataError("has a header but no rows", file=name)
    return Table(frame, SourceLocation(name, first_row=1))


def _parquet_chunks(path: Source, size: int, encoding: str | None) -> Iterator[Chunk]:
    import pyarrow as pa

    del encoding
    name = file_name(path)
    with open_bytes(path) as stream, _parquet_errors(name):
        file = _parquet_file(stream, name)
        n_read = 0
        for batch in file.iter_batches(size):
            frame = _arrow_frame(pa.Table.from_batches([batch]), name)
            where = SourceLocation(name, first_row=1 + n_read)
            n_read += len(frame)
            yield Chunk(Table(frame, where), n_read / max(file.metadata.num_rows, 1))


def _parquet_file(stream: BinaryIO, name: str) -> parquet.ParquetFile:
    """A file whose size in memory is within the limits, as far as the file states it."""
    from pyarrow import parquet

    n_packed = os.fstat(stream.fileno()).st_size
    file = parquet.ParquetFile(stream if stream.seekable() else io.BytesIO(stream.read()))
    groups = [file.metadata.row_group(group) for group in range(file.metadata.num_row_groups)]
    limits.check_unpacked(sum(max(group.total_byte_size, 0) for group in groups), n_packed, name)
    n_columns = file.metadata.num_columns
    limits.check_n_fields(n_columns, name)
    n_rows = max(file.metadata.num_rows, sum(max(group.num_rows, 0) for group in groups))
    limits.check_packed_cells(n_rows * n_columns, n_packed, name)
    return file


def _arrow_frame(table: pa.Table, name: str) -> pd.DataFrame:
    """Frame of a table; damage that Arrow would find later, such as text that is not UTF-8, is found here."""
    table.validate(full=True)
    header = [column.strip() for column in table.column_names]
    check_header(header, SourceLocation(name, first_row=1))
    frame: pd.DataFrame = table.rename_columns(header).to_pandas(ignore_metadata=True)
    return frame


def _blocks(rows: Iterator[T], size: int) -> Iterator[list[T]]:
    while block := list(islice(rows, size)):
        yield block


def _locations(name: str, block: Iterable[tuple[int, Any]]) -> SourceLocation:
    return SourceLocation(name, np.array([number for number, _ in block], dtype=np.int64))


def _share_read(stream: BinaryIO) -> float:
    """Share of the file on disk that has been read, compressed or not."""
    handle = stream.fileno()
    return min(os.lseek(handle, 0, os.SEEK_CUR) / max(os.fstat(handle).st_size, 1), 1.0)
