"""CSV files as tables of categorical columns; every cell is text.

There are two readers with equal results. Arrow's reader is fast and takes regular files: one row per line, quotes only
around whole cells. Python's csv module reads everything else and knows the row it is in, so every error comes from it.
"""

from __future__ import annotations

import csv
import io
import os
import re
from array import array
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from palda.data import SourceLocation
from palda.errors import DataError
from palda.io import limits
from palda.io.files import Table, check_header, encoding_of, file_name, open_bytes, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    import pandas as pd
    import pyarrow as pa

    Source = str | os.PathLike[str]

_DELIMITERS = (",", "\t", ";", "|")
_TAB_SUFFIXES = frozenset({".tsv", ".tab"})
_BLOCK_BYTES = 1 << 21
_N_PARSERS = min(4, os.cpu_count() or 1)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class IrregularFileError(Exception):
    """The file is not regular; Python's csv module has to read it."""


def csv_table(path: Source, encoding: str | None) -> Table:
    """Table of a CSV file; the fast reader is tried first."""
    name = file_name(path)
    chosen, delimiter = csv_dialect(path, encoding)
    try:
        frame, where = regular_csv(path, chosen, delimiter), SourceLocation(name)
    except IrregularFileError:
        frame, where = any_csv(path, chosen, delimiter)
    if not len(frame):
        raise DataError("has a header but no rows", file=name)
    return Table(frame, where)


def csv_dialect(path: Source, encoding: str | None) -> tuple[str, str]:
    """Encoding and delimiter of a CSV file, from its first bytes and its name."""
    name = file_name(path)
    with open_bytes(path) as stream:
        head = stream.read(1 << 16)
    chosen = encoding_of(head[:4], encoding, name)
    if not head.strip():
        raise _empty_file(name)
    if any(suffix.lower() in _TAB_SUFFIXES for suffix in Path(path).suffixes[-2:]):
        return chosen, "\t"
    header = head.decode(chosen, errors="replace").lstrip("\ufeff").lstrip().partition("\n")[0]
    return chosen, max(_DELIMITERS, key=re.sub('"[^"]*"', "", header).count)


def _empty_file(name: str) -> DataError:
    return DataError("is empty; it needs a header and at least one row", file=name)


# Regular files


def regular_csv(path: Source, encoding: str, delimiter: str) -> pd.DataFrame:
    """Frame of a regular UTF-8 file; anything irregular raises ``IrregularFileError``.

    Blocks of lines are parsed by threads, and only codes and distinct cells are kept: the text of the file is never
    held as a whole.
    """
    import pandas as pd
    import pyarrow as pa

    with open_bytes(path) as stream:
        header = _regular_header(stream.readline(limits.MAX_RECORD_LENGTH), encoding, delimiter)
        names = [str(position) for position in range(len(header))]
        try:
            columns = _categorical_columns(list(_parsed_blocks(stream, names, delimiter)), names)
        except pa.ArrowException:
            raise IrregularFileError from None
    check_header(header, SourceLocation(file_name(path)))
    return pd.DataFrame(dict(zip(header, columns, strict=True)), copy=False)


def _regular_header(line: bytes, encoding: str, delimiter: str) -> list[str]:
    if encoding not in {"utf-8", "utf-8-sig"} or not line.endswith(b"\n") or not line.strip():
        raise IrregularFileError
    _check_regular(line.removeprefix(_BYTE_ORDER_MARK), delimiter)
    try:
        (cells,) = csv.reader([line.decode(encoding)], delimiter=delimiter, strict=True)
    except (UnicodeDecodeError, csv.Error, ValueError):
        raise IrregularFileError from None
    if not 2 <= len(cells) <= limits.MAX_FIELDS:  # a blank line would be a blank cell as well
        raise IrregularFileError
    return [cell.strip() for cell in cells]


def _check_regular(block: bytes, delimiter: str) -> None:
    """Raise for a byte order mark, NUL bytes, CR without LF, and quotes that are not around a cell of one line."""
    if block.startswith(_BYTE_ORDER_MARK) or b"\0" in block:
        raise IrregularFileError
    if len(block) > limits.MAX_RECORD_LENGTH and max(map(len, block.split(b"\n"))) > limits.MAX_RECORD_LENGTH:
        raise IrregularFileError
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        raise IrregularFileError
    if b'"' not in block:
        return
    characters = np.frombuffer(b"\n" + block + b"\n", dtype=np.uint8)  # so that every cell has an edge on both sides
    quotes = np.flatnonzero(characters == ord('"'))
    opening, closing = quotes[::2], quotes[1::2]
    edges = np.frombuffer(delimiter.encode() + b"\r\n", dtype=np.uint8)
    line_ends = np.flatnonzero(characters == ord("\n"))
    if (
        len(opening) != len(closing)
        or not np.isin(characters[opening - 1], edges).all()
        or not np.isin(characters[closing + 1], edges).all()
        or not np.array_equal(np.searchsorted(line_ends, opening), np.searchsorted(line_ends, closing))
    ):
        raise IrregularFileError


def _line_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Content of a stream in blocks that end with a line end."""
    rest = b""
    while block := stream.read(_BLOCK_BYTES):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield rest + block[:cut]
            rest = block[cut:]
        elif len(rest) > limits.MAX_RECORD_LENGTH:
            raise IrregularFileError
        else:
            rest += block
    if rest:
        yield rest


def _parsed_blocks(stream: BinaryIO, names: list[str], delimiter: str) -> Iterator[pa.Table]:
    """Tables of the blocks, in order; only a few blocks are in memory at a time."""
    pending: deque[Future[pa.Table]] = deque()
    with ThreadPoolExecutor(_N_PARSERS) as pool:
        for block in _line_blocks(stream):
            pending.append(pool.submit(_parse_block, block, names, delimiter))
            if len(pending) > _N_PARSERS:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _parse_block(block: bytes, names: list[str], delimiter: str) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    _check_regular(block, delimiter)
    table = arrow_csv.read_csv(
        pa.BufferReader(block),
        arrow_csv.ReadOptions(use_threads=False, column_names=names, block_size=len(block) + 1),
        arrow_csv.ParseOptions(delimiter=delimiter),
        arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.dictionary(pa.int32(), pa.string()))),
    )
    n_lines = np.count_nonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")) + (not block.endswith(b"\n"))
    if table.num_rows != n_lines:  # Arrow skips blank lines, which have row numbers
        raise IrregularFileError
    return table


def _categorical_columns(tables: list[pa.Table], names: list[str]) -> list[pd.Categorical[Any]]:
    """One categorical column per name; categories are in order of first appearance."""
    import pandas as pd
    import pyarrow as pa

    if not tables:
        return [pd.Categorical([]) for _ in names]
    columns = []
    remaining = [list(reversed(table.columns)) for table in tables]
    del tables
    for _ in names:
        chunks = pa.chunked_array([parts.pop().chunk(0) for parts in remaining]).unify_dictionaries().chunks
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in chunks])
        cells = pd.Index(chunks[0].dictionary.to_pylist(), dtype=object)
        del chunks
        columns.append(pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(cells), validate=False))
    pa.default_memory_pool().release_unused()
    return columns


# All other files


def any_csv(path: Source, encoding: str, delimiter: str) -> tuple[pd.DataFrame, SourceLocation]:
    """Frame of any CSV file and the row of each record, read by Python's csv module."""
    with open_bytes(path) as stream:
        lines = text_lines(stream, encoding, "", file_name(path))
        try:
            return _coded_rows(csv_rows(lines, delimiter, file_name(path)), delimiter, file_name(path))
        except UnicodeError:
            read_text(path, encoding)  # raises the error that names the row
            raise


def text_lines(stream: BinaryIO, encoding: str, newline: str, name: str) -> io.TextIOWrapper:
    """Decoded lines of a stream, without a byte order mark; a line that is too long is an error."""
    lines = io.BufferedReader(limits.LineStream(stream, name))
    return io.TextIOWrapper(lines, "utf-8-sig" if encoding == "utf-8" else encoding, newline=newline)


def csv_rows(lines: Iterable[str], delimiter: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, each with its number as a spreadsheet shows it."""
    before = csv.field_size_limit(limits.MAX_RECORD_LENGTH)
    number = length = 0

    def counted() -> Iterator[str]:
        nonlocal length
        for line in lines:  # of which a row may have several
            length += len(line)
            if length > limits.MAX_RECORD_LENGTH:
                limits.fail_record_length(name, number + 1)
            yield line

    try:
        for number, row in enumerate(csv.reader(counted(), delimiter=delimiter, strict=True), start=1):
            length = 0
            if row and (len(row) > 1 or row[0].strip()):
                yield number, row
    except csv.Error as broken:
        never_closed = "end of data" in str(broken)
        problem = "a quote is opened and never closed" if never_closed else f"the quotes are broken ({broken})"
        raise DataError(f"{problem}; double a quote that belongs to the text", file=name, row=number + 1) from None
    finally:
        csv.field_size_limit(before)


def csv_header(rows: Iterator[tuple[int, list[str]]], name: str) -> list[str]:
    """Names of the columns: the first row that is not blank."""
    _, first = next(rows, (0, []))
    if not first:
        raise _empty_file(name)
    header = [cell.strip() for cell in first]
    check_header(header, SourceLocation(name))
    return header


def check_width(row: list[str], header: list[str], delimiter: str, where: SourceLocation) -> None:
    """Raise for a row with more or fewer cells than the header has."""
    if len(row) != len(header):
        where.fail(
            f"has {len(row)} cells where the header has {len(header)}; quote cells that hold {delimiter!r}, "
            "or add or remove cells",
            0,
        )


def _coded_rows(
    rows: Iterator[tuple[int, list[str]]], delimiter: str, name: str
) -> tuple[pd.DataFrame, SourceLocation]:
    """Categorical columns of the rows; each distinct cell is kept once."""
    import pandas as pd

    header = csv_header(rows, name)
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
