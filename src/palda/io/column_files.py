"""Tables from Parquet and Arrow files, whose size in memory is within the limits as far as the file states it."""

from __future__ import annotations

import io
import mmap
import os
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from palda.data import SourceLocation
from palda.errors import DataError, reason_of
from palda.io import limits
from palda.io.arrow_messages import MAGIC, N_MAGIC, batch_sizes
from palda.io.files import Chunk, Table, check_header, file_name, open_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

    Source = str | os.PathLike[str]

_DAMAGE = (
    OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError, RuntimeError,
    struct.error,
)  # fmt: skip
"""What reading a damaged file raises besides pyarrow's own exceptions."""


@contextmanager
def _damage_reported(name: str, kind: str) -> Iterator[None]:
    """Turn whatever Arrow raises about a file, at any row, into an error of one line."""
    import pyarrow as pa

    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, *_DAMAGE) as broken:
        raise DataError(f"is not a readable {kind} file: {reason_of(broken)}", file=name) from None


# Parquet


def parquet_table(path: Source) -> Table:
    """All rows of a Parquet file."""
    name = file_name(path)
    with open_bytes(path) as stream, _damage_reported(name, "Parquet"):
        return _whole_table(_parquet_file(stream, name).read(), name)


def parquet_chunks(path: Source, size: int) -> Iterator[Chunk]:
    """Rows of a Parquet file, ``size`` at a time."""
    name = file_name(path)
    with open_bytes(path) as stream, _damage_reported(name, "Parquet"):
        file = _parquet_file(stream, name)
        yield from _chunks(file.iter_batches(size), file.metadata.num_rows, size, name)


def _parquet_file(stream: BinaryIO, name: str) -> parquet.ParquetFile:
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


# Arrow


def arrow_table(path: Source) -> Table:
    """All rows of an Arrow file."""
    import pyarrow as pa

    name = file_name(path)
    with open_bytes(path) as stream, _damage_reported(name, "Arrow"):
        reader, _ = _arrow_reader(stream, name)
        return _whole_table(pa.Table.from_batches(list(reader), reader.schema), name)


def arrow_chunks(path: Source, size: int) -> Iterator[Chunk]:
    """Rows of an Arrow file, ``size`` at a time."""
    name = file_name(path)
    with open_bytes(path) as stream, _damage_reported(name, "Arrow"):
        yield from _chunks(*_arrow_reader(stream, name), size, name)


def _arrow_reader(stream: BinaryIO, name: str) -> tuple[Any, int]:
    """Record batches of a file, and their number of rows."""
    import pyarrow as pa

    n_packed = os.fstat(stream.fileno()).st_size
    if stream.seekable():
        content = pa.py_buffer(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    else:
        content = pa.py_buffer(stream.read())
    if content[: len(MAGIC)].to_pybytes() != MAGIC or content[-len(MAGIC) :].to_pybytes() != MAGIC:
        raise ValueError("it is not a whole Arrow file; write it as an IPC file, not as a stream")
    messages = content.slice(N_MAGIC)
    n_rows = n_bytes = 0
    for message in pa.ipc.MessageReader.open_stream(messages):
        if message.type in ("record batch", "dictionary"):
            rows, in_memory = batch_sizes(message)
            n_rows += rows if message.type == "record batch" else 0
            n_bytes += in_memory
            if min(rows, in_memory) < 0:
                raise ValueError("a batch has a negative size")
    limits.check_unpacked(n_bytes, n_packed, name)
    reader = pa.ipc.open_stream(messages)
    limits.check_n_fields(len(reader.schema), name)
    limits.check_packed_cells(n_rows * len(reader.schema), n_packed, name)
    return reader, n_rows


# Both


def _whole_table(table: pa.Table, name: str) -> Table:
    frame = _frame(table, name)
    if not len(frame):
        raise DataError("has a header but no rows", file=name)
    return Table(frame, SourceLocation(name, first_row=1), typed=True)


def _chunks(batches: Any, n_rows: int, size: int, name: str) -> Iterator[Chunk]:
    import pyarrow as pa

    n_read = 0
    for batch in batches:
        for start in range(0, batch.num_rows, size):
            frame = _frame(pa.Table.from_batches([batch.slice(start, size)]), name)
            where = SourceLocation(name, first_row=1 + n_read)
            n_read += len(frame)
            yield Chunk(Table(frame, where, typed=True), min(n_read / max(n_rows, 1), 1.0))


def _frame(table: pa.Table, name: str) -> pd.DataFrame:
    """Frame of a table; damage that Arrow would find later, such as text that is not UTF-8, is found here."""
    table.validate(full=True)
    header = [column.strip() for column in table.column_names]
    check_header(header, SourceLocation(name, first_row=1))
    frame: pd.DataFrame = table.rename_columns(header).to_pandas(ignore_metadata=True)
    return frame
