"""Limits of input files, and the errors for files that exceed them.

The limits are far above real data and below what a file built to exhaust memory or time needs: small files that
unpack to gigabytes, records of millions of fields, values nested thousands of levels deep.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NoReturn

from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sized
    from typing import BinaryIO

    from _typeshed import WriteableBuffer

MAX_RECORD_LENGTH = 1 << 24
"""Bytes or characters of a record: a line of JSON, a row of a CSV file, a line of an ARFF file, a Reuters story."""

MAX_FIELDS = 100_000
"""Fields of a record, columns of a table, attributes of an ARFF file, labels of a label file."""

MAX_DEPTH = 100
"""Levels of nested lists, objects and elements."""

MAX_UNPACKED_RATIO = 100
MIN_UNPACKED_BYTES = 1 << 26
"""A compressed file may unpack to this size, plus ``MAX_UNPACKED_RATIO`` times its own size."""

MAX_UNPACKED_BYTES = 1 << 36
"""Size of any file after decompression."""

MAX_ARCHIVE_BYTES = 1 << 30
MAX_ARCHIVE_FILES = 10_000
"""Size and number of the files in a zip archive, all of which are in memory at the same time."""

MAX_CELLS = 250_000_000
"""Numbers of a dense table in memory, and judgements in a table of votes."""

MIN_SPARSE_CELLS = 10_000_000
MAX_CELLS_PER_VALUE = 100
"""A table may always have the first number of cells; a larger one needs at least one value, or one byte in a compressed
column, per so many cells."""

_UNPACK_YOURSELF = "if you trust the file, unpack it yourself and read the result"


def max_unpacked_bytes(n_packed: int) -> int:
    """Size to which a compressed file of ``n_packed`` bytes may unpack."""
    return min(MIN_UNPACKED_BYTES + MAX_UNPACKED_RATIO * n_packed, MAX_UNPACKED_BYTES)


def check_unpacked(n_bytes: int, n_packed: int, file: str) -> None:
    """Raise if a file of ``n_packed`` bytes unpacks to too many bytes."""
    maximum = max_unpacked_bytes(n_packed)
    if n_bytes > maximum:
        raise DataError(
            f"unpacks to more than {maximum:,} bytes, the limit for {n_packed:,} compressed bytes; {_UNPACK_YOURSELF}",
            file=file,
        )


def fail_record_length(file: str | None, row: int | None) -> NoReturn:
    """Raise the error for a record that is too long."""
    raise DataError(
        f"the record is longer than {MAX_RECORD_LENGTH:,} characters, the limit; is a quote or a line end missing? "
        "split long documents",
        file=file,
        row=row,
    )


def check_n_fields(n_fields: int, file: str | None, row: int | None = None, what: str = "columns") -> None:
    """Raise if a record or a table has too many fields."""
    if n_fields > MAX_FIELDS:
        raise DataError(
            f"has {n_fields:,} {what}; the limit is {MAX_FIELDS:,}; write one row per value instead", file=file, row=row
        )


def check_n_cells(n_rows: int, n_columns: int, file: str | None, what: str = "classes") -> None:
    """Raise if a dense table of all rows and columns would be too large."""
    if n_rows * n_columns > MAX_CELLS:
        raise DataError(
            f"{n_rows:,} rows of {n_columns:,} {what} are {n_rows * n_columns:,} values; the limit is {MAX_CELLS:,}; "
            f"split the file, or leave out {what}",
            file=file,
        )


def check_density(records: Iterable[Sized], n_records: int, n_fields: int, file: str | None) -> None:
    """Raise if a table of ``records``, each a collection of fields, would consist of missing cells."""
    n_cells = n_records * n_fields
    if n_cells <= MIN_SPARSE_CELLS:
        return
    n_values = sum(map(len, records))
    if n_cells > MAX_CELLS_PER_VALUE * n_values:
        raise DataError(
            f"{n_records:,} records have {n_fields:,} different fields, and fewer than 1 in {MAX_CELLS_PER_VALUE} is "
            "filled; use the same fields in every record, and write changing names as values",
            file=file,
        )


def check_packed_cells(n_cells: int, n_packed: int, file: str) -> None:
    """Raise if a file of ``n_packed`` bytes states an absurd number of cells; equal cells take almost no space."""
    if n_cells > MIN_SPARSE_CELLS + MAX_CELLS_PER_VALUE * n_packed:
        raise DataError(f"states {n_cells:,} cells in {n_packed:,} bytes, which is not credible", file=file)


class UnpackedStream(io.RawIOBase):
    """Bytes of a decompressing stream; an error when they exceed the limit for the size of the packed file."""

    def __init__(self, stream: BinaryIO, n_packed: int, file: str) -> None:
        self._stream, self._n_packed, self._file = stream, n_packed, file
        self._n_read = 0

    def readable(self) -> bool:
        """Reading is what it is for."""
        return True

    def fileno(self) -> int:
        """Handle of the packed file."""
        return self._stream.fileno()

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the buffer."""
        n_bytes = self._stream.readinto(buffer)  # type: ignore[attr-defined]
        self._n_read += n_bytes
        check_unpacked(self._n_read, self._n_packed, self._file)
        return int(n_bytes)


class LineStream(io.RawIOBase):
    """Bytes of a text file; an error at a line that is too long."""

    def __init__(self, stream: BinaryIO, file: str) -> None:
        self._stream, self._file = stream, file
        self._n_lines = self._length = 0

    def readable(self) -> bool:
        """Reading is what it is for."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the buffer."""
        view = memoryview(buffer).cast("B")
        block = self._stream.read(len(view))
        view[: len(block)] = block
        end = max(block.rfind(b"\n"), block.rfind(b"\r"))
        self._length = len(block) - end - 1 if end >= 0 else self._length + len(block)
        self._n_lines += block.count(b"\n")
        if self._length > MAX_RECORD_LENGTH:
            fail_record_length(self._file, self._n_lines + 1)
        return len(block)
