"""From files to tables: compression, encodings, delimiters, and one clear line for whatever is wrong with them.

CSV has two readers with the same result: one for files that are plainly regular, as large vote files are, and
Python's csv module for everything else (quotes, ragged rows, blank lines, bad bytes), which knows the row it is in.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import sys
import zlib
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar, cast

import numpy as np

from palda.data.checks import Where, shown
from palda.errors import DataError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor, Future

    import pandas as pd
    from numpy.typing import NDArray

__all__ = [
    "Table",
    "as_table",
    "csv_rows",
    "decode_text",
    "file_name",
    "json_document",
    "json_lines",
    "read_bytes",
    "read_table",
    "read_text",
]

_T = TypeVar("_T")
_GZIP = b"\x1f\x8b"
_ENCODINGS_BY_MARK = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_DELIMITERS = (",", "\t", ";", "|")
_BLOCK_BYTES = 1 << 21
_WORD = 8  # bytes compared at once
_LONGEST_CELL = 64
_MASKS = np.array(  # of the bytes that belong to a cell: one for each of its words and each length
    [
        [(1 << 8 * min(max(length - start, 0), _WORD)) - 1 for length in range(_LONGEST_CELL + 1)]
        for start in range(0, _LONGEST_CELL, _WORD)
    ],
    dtype=np.uint64,
)
_HASH_FACTORS = np.random.default_rng(0).integers(1 << 63, dtype=np.uint64, size=_LONGEST_CELL // _WORD) | np.uint64(1)
_N_PARSERS = min(4, os.cpu_count() or 1)
_BROKEN_COMPRESSION = (EOFError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True)
class Table:
    """Columns of a file, and where each record stands in it.

    A frame that the user made may have ``declared`` its names as categories; a file cannot.
    """

    frame: pd.DataFrame
    where: Where
    declared: bool = False


def file_name(path: str | os.PathLike[str]) -> str:
    """What errors call the file: its name without the folders."""
    return Path(path).name


@contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
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
    with _open(path) as stream:
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
    if given is not None:
        try:
            return codecs.lookup(given).name
        except LookupError:
            raise DataError(f"there is no encoding {given!r}; try 'utf-8' or 'latin-1'", file=name) from None
    return next((encoding for mark, encoding in _ENCODINGS_BY_MARK if head.startswith(mark)), "utf-8")


# Tables of any kind


def as_table(source: str | os.PathLike[str] | pd.DataFrame, encoding: str | None = None) -> Table:
    """Table from a path or from a frame that is already there."""
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        frame = source.rename(columns=str)
        where = Where(first_row=0)
        _check_header(list(frame.columns), where)
        return Table(frame, where, declared=True)
    return read_table(source, encoding)


def read_table(path: str | os.PathLike[str], encoding: str | None = None) -> Table:
    """Table from CSV, TSV, JSON lines, a JSON list of objects, or Parquet, each also gzipped."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() not in {".gz", ".gzip"}]
    kind = suffixes[-1] if suffixes else ""
    name = file_name(path)
    if kind in {".parquet", ".pq"}:
        return _parquet_table(read_bytes(path), name)
    if kind in {".jsonl", ".ndjson", ".json"}:
        return _json_table(read_text(path, encoding), name)
    if kind in {".csv", ".tsv", ".tab", ".txt", ""}:
        return _csv_table(path, encoding, "\t" if kind in {".tsv", ".tab"} else None)
    raise DataError(
        f"files ending in {kind!r} are not known; use .csv, .tsv, .jsonl or .parquet (or .gz of them)", file=name
    )


def _check_header(header: list[str], where: Where) -> None:
    where_header = Where(where.file, first_row=1)
    record = None if where.file is None else 0
    for position, column in enumerate(header, start=1):
        if not column:
            where_header.fail(f"the name of column {position} is blank; name it or remove the column", record)
    twice = [column for column, times in Counter(header).items() if times > 1]
    if twice:
        where_header.fail("the column occurs twice; rename one of them", record, twice[0])


# CSV


class _NeedsCareError(Exception):
    """The file is not plainly regular; the careful reader decides."""


def _csv_table(path: str | os.PathLike[str], encoding: str | None, delimiter: str | None) -> Table:
    name = file_name(path)
    with _open(path) as stream:
        head = stream.read(1 << 16)
    chosen = _encoding(head[:4], encoding, name)
    if not head.strip():
        raise DataError("is empty; it needs a header and at least one row", file=name)
    separator = delimiter or _guess_delimiter(head, chosen)
    try:
        frame = _fast_csv(path, chosen, separator)
        where = Where(name)
    except _NeedsCareError:
        frame, where = _careful_csv(read_text(path, chosen), separator, name)
    if not len(frame):
        raise DataError("has a header but no rows", file=name)
    return Table(frame, where)


def _guess_delimiter(head: bytes, encoding: str) -> str:
    first = head.decode(encoding, errors="replace").lstrip("\ufeff").lstrip().partition("\n")[0]
    return max(_DELIMITERS, key=first.count)


def _fast_csv(path: str | os.PathLike[str], encoding: str, delimiter: str) -> pd.DataFrame:
    """Frame of categorical columns from a file in which every line is one row, with one delimiter between cells.

    Blocks of lines are parsed by threads and only the codes are kept, so the text of the file is never held as a whole.
    """
    import pandas as pd

    if encoding not in {"utf-8", "utf-8-sig"}:
        raise _NeedsCareError
    with _open(path) as stream:
        first = stream.readline()
        header = [cell.strip() for cell in first.decode(encoding, errors="replace").split(delimiter)]
        if not _is_plain(first) or not first.endswith(b"\n") or not first.strip():
            raise _NeedsCareError
        parse = partial(_parse_block, delimiter=delimiter, n_columns=len(header))
        with ThreadPoolExecutor(_N_PARSERS) as pool:
            merged = _merge_blocks(_map_in_order(pool, parse, _line_blocks(stream)), len(header))
    _check_header(header, Where(file_name(path)))
    return pd.DataFrame(dict(zip(header, merged, strict=True)), copy=False)


def _is_plain(block: bytes) -> bool:
    return not (b'"' in block or b"\r" in block or b"\0" in block)


def _line_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Content of a stream in pieces that end where lines end."""
    rest = b""
    while block := stream.read(_BLOCK_BYTES):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield rest + block[:cut]
            rest = block[cut:]
        else:
            rest += block
    if rest:
        yield rest


def _map_in_order(pool: Executor, function: Callable[[bytes], _T], blocks: Iterable[bytes]) -> Iterator[_T]:
    """Results in the order of the blocks, with only a few blocks in memory at a time."""
    waiting: deque[Future[_T]] = deque()
    for block in blocks:
        waiting.append(pool.submit(function, block))
        if len(waiting) > _N_PARSERS:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


class _Coded(NamedTuple):
    """A column of some lines: codes into its distinct cells, whose bytes stand in rows of eight-byte words."""

    codes: NDArray[np.int32]
    cells: NDArray[np.uint64]


def _parse_block(block: bytes, delimiter: str, n_columns: int) -> list[_Coded]:
    """Columns of some whole lines.

    No cell becomes a string before it is known to be a new one: cells are compared eight bytes at a time, all rows at
    once, which is several times faster than parsing text.
    """
    if not _is_plain(block):
        raise _NeedsCareError
    text = block + (b"" if block.endswith(b"\n") else b"\n") + bytes(_LONGEST_CELL)
    characters = np.frombuffer(text, dtype=np.uint8)
    is_line_end = characters == ord("\n")
    ends = np.flatnonzero(is_line_end | (characters == ord(delimiter)))
    n_rows = int(np.count_nonzero(is_line_end))
    if len(ends) != n_rows * n_columns or not is_line_end[ends[n_columns - 1 :: n_columns]].all():
        raise _NeedsCareError
    starts = np.concatenate(([0], ends[:-1] + 1))
    words = np.ndarray((len(text) - _WORD + 1,), dtype="<u8", buffer=text, strides=(1,))  # one starts at every byte
    return [_code_cells(words, starts[column::n_columns], ends[column::n_columns]) for column in range(n_columns)]


def _code_cells(words: NDArray[np.uint64], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> _Coded:
    lengths = ends - starts
    longest = int(lengths.max())
    if longest > _LONGEST_CELL:
        raise _NeedsCareError
    parts = [
        words[starts + word * _WORD if word else starts] & _MASKS[word][lengths]
        for word in range(max(1, -(-longest // _WORD)))
    ]
    codes, first = _factorize(parts)
    return _Coded(codes.astype(np.int32), np.column_stack([part[first] for part in parts]))


def _factorize(parts: list[NDArray[np.uint64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Codes of rows of words in order of appearance, and where each first stands; by a hash that is checked."""
    import pandas as pd

    key = parts[0]
    for part, factor in zip(parts[1:], _HASH_FACTORS, strict=False):
        key = key + part * factor
    codes, distinct = pd.factorize(key)
    first = np.empty(len(distinct), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the earliest row is written last
    if len(parts) > 1 and not all(np.array_equal(part[first][codes], part) for part in parts):
        raise _NeedsCareError  # two cells share a hash
    return codes, first


def _merge_blocks(blocks: Iterable[list[_Coded]], n_columns: int) -> list[pd.Categorical[Any]]:
    """Columns over the cells of all blocks, which stay in order of appearance."""
    columns: list[list[_Coded]] = [[] for _ in range(n_columns)]
    for block in blocks:
        for column, part in zip(columns, block, strict=True):
            column.append(part)
    return [_merge_column(column) for column in columns]


def _merge_column(blocks: list[_Coded]) -> pd.Categorical[Any]:
    import pandas as pd

    if not blocks:
        blocks = [_Coded(np.empty(0, dtype=np.int32), np.empty((0, 1), dtype=np.uint64))]
    width = max(block.cells.shape[1] for block in blocks)
    cells = np.concatenate([np.pad(block.cells, ((0, 0), (0, width - block.cells.shape[1]))) for block in blocks])
    places, first = _factorize([np.ascontiguousarray(word) for word in cells.T])
    places = places.astype(np.int32)
    edges = np.cumsum([0, *(len(block.cells) for block in blocks)])
    codes = np.concatenate([places[edges[k] : edges[k + 1]][block.codes] for k, block in enumerate(blocks)])
    blocks.clear()
    encoded = np.ascontiguousarray(cells[first], dtype="<u8").view(f"S{width * _WORD}").ravel().tolist()
    try:
        names = [cell.decode() for cell in encoded]
    except UnicodeDecodeError:  # the careful reader will name the row
        raise _NeedsCareError from None
    return pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(pd.Index(names, dtype=object)), validate=False)


def csv_rows(text: str, delimiter: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that hold anything, each with its number as a spreadsheet shows it."""
    before = csv.field_size_limit(sys.maxsize)
    number = 0
    try:
        for number, row in enumerate(
            csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), start=1
        ):
            if row and (len(row) > 1 or row[0].strip()):
                yield number, row
    except csv.Error as broken:
        problem = (
            "a quote is opened and never closed"
            if "end of data" in str(broken)
            else f"the quotes are broken ({broken})"
        )
        raise DataError(f"{problem}; double a quote that belongs to the text", file=name, row=number + 1) from None
    finally:
        csv.field_size_limit(before)


def _careful_csv(text: str, delimiter: str, name: str) -> tuple[pd.DataFrame, Where]:
    import pandas as pd

    rows = csv_rows(text.lstrip("\ufeff"), delimiter, name)
    _, first = next(rows, (0, []))
    header = [cell.strip() for cell in first]
    _check_header(header, Where(name))
    numbers, records = [], []
    for number, row in rows:
        if len(row) != len(header):
            raise DataError(
                f"has {len(row)} cells where the header has {len(header)}; quote cells that hold {delimiter!r}, "
                "or add or remove cells",
                file=name,
                row=number,
            )
        numbers.append(number)
        records.append(row)
    frame = pd.DataFrame(records, columns=pd.Index(header), dtype=object)
    return frame, Where(name, np.array(numbers, dtype=np.int64))


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
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        record = _parse_json(line, name, number)
        if not isinstance(record, dict):
            raise DataError(
                f'{shown(record)} is not an object; every line needs {{"name": value, ...}}', file=name, row=number
            )
        yield number, record


def _json_table(text: str, name: str) -> Table:
    import pandas as pd

    if not text.strip():
        raise DataError("is empty; it needs at least one record", file=name)
    if text.lstrip().startswith("["):
        records = list(enumerate(_parse_json(text, name, None), start=1))
        for number, record in records:
            if not isinstance(record, dict):
                raise DataError(f"{shown(record)} is not an object", file=name, row=number)
    else:
        records = list(json_lines(text, name))
    header = list(dict.fromkeys(column for _, record in records for column in record))
    if not header:
        raise DataError("has records but no columns", file=name)
    stripped = [column.strip() for column in header]
    _check_header(stripped, Where(name))
    frame = pd.DataFrame(
        {
            new: pd.Series([record.get(old) for _, record in records], dtype=object)
            for old, new in zip(header, stripped, strict=True)
        }
    )
    return Table(frame, Where(name, np.array([number for number, _ in records], dtype=np.int64)))


def _parquet_table(data: bytes, name: str) -> Table:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as missing:
        raise MissingDependencyError("Reading Parquet files", "parquet") from missing
    try:
        arrow = parquet.read_table(io.BytesIO(data))
        _check_header(list(arrow.column_names), Where(name, first_row=1))
        frame = arrow.to_pandas(ignore_metadata=True)
    except (pa.ArrowException, OSError, ValueError, TypeError) as broken:
        if isinstance(broken, DataError):
            raise
        raise DataError(
            f"is not a readable Parquet file: {str(broken).splitlines()[0] if str(broken) else broken}", file=name
        ) from None
    if not len(frame):
        raise DataError("has a header but no rows", file=name)
    return Table(frame, Where(name, first_row=1))
