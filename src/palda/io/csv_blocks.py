"""Columns of CSV files that are plainly regular, as large vote files are: one row a line, quotes only around cells.

No cell becomes a string before it is known to be a new one, so a million votes cost little more than reading the bytes.
Whatever is not plainly regular is refused with ``NeedsCareError``, for a reader that knows the row it is in.
"""

from __future__ import annotations

import csv
import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor, Future

    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["NeedsCareError", "regular_columns"]

_T = TypeVar("_T")
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


class NeedsCareError(Exception):
    """The file is not plainly regular; a careful reader decides."""


def regular_columns(stream: BinaryIO, encoding: str, delimiter: str) -> tuple[list[str], list[pd.Categorical[Any]]]:
    """Header and categorical columns of a file in which every line is one row, with one delimiter between cells.

    Blocks of lines are parsed by threads and only the codes are kept, so the text of the file is never held as a whole.
    """
    first = _plain_lines(stream.readline())
    if encoding not in {"utf-8", "utf-8-sig"} or not first.endswith(b"\n") or not first.strip():
        raise NeedsCareError
    try:
        (cells,) = csv.reader([first.decode(encoding)], delimiter=delimiter, strict=True)
    except (UnicodeDecodeError, csv.Error, ValueError):
        raise NeedsCareError from None
    header = [cell.strip() for cell in cells]
    if len(header) < 2:  # a blank line is a blank cell as well
        raise NeedsCareError
    parse = partial(_parse_block, delimiter=delimiter, n_columns=len(header))
    columns: list[list[_Coded]] = [[] for _ in header]
    with ThreadPoolExecutor(_N_PARSERS) as pool:
        for block in _map_in_order(pool, parse, _line_blocks(stream)):
            for column, part in zip(columns, block, strict=True):
                column.append(part)
        return header, list(pool.map(_merge_column, columns))


def _plain_lines(block: bytes) -> bytes:
    """Lines that end in a line feed alone, as they may stand in a regular file."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    if b"\r" in block or b"\0" in block:
        raise NeedsCareError
    return block


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
    lines = _plain_lines(block)
    text = lines + (b"" if lines.endswith(b"\n") else b"\n") + bytes(_LONGEST_CELL)
    characters = np.frombuffer(text, dtype=np.uint8)
    is_line_end = characters == ord("\n")
    ends = np.flatnonzero(is_line_end | (characters == ord(delimiter)))
    n_rows = int(np.count_nonzero(is_line_end))
    if len(ends) != n_rows * n_columns or not is_line_end[ends[n_columns - 1 :: n_columns]].all():
        raise NeedsCareError
    starts = np.concatenate(([0], ends[:-1] + 1))
    if b'"' in lines:
        _step_inside_quotes(characters, starts, ends)
    words = np.ndarray((len(text) - _WORD + 1,), dtype="<u8", buffer=text, strides=(1,))  # one starts at every byte
    return [_code_cells(words, starts[column::n_columns], ends[column::n_columns]) for column in range(n_columns)]


def _step_inside_quotes(characters: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
    """Leave out quotes that stand around whole cells; any other quote needs care.

    A cell that holds a delimiter was cut there, and begins with a quote without ending in one.
    """
    is_quote = characters == ord('"')
    opened = is_quote[starts]
    closed = is_quote[ends - 1] & (ends - starts > 1)
    if not np.array_equal(opened, closed) or np.count_nonzero(is_quote) != 2 * np.count_nonzero(opened):
        raise NeedsCareError
    starts += opened
    ends -= opened


def _code_cells(words: NDArray[np.uint64], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> _Coded:
    lengths = ends - starts
    longest = int(lengths.max())
    if longest > _LONGEST_CELL:
        raise NeedsCareError
    parts = [
        words[starts + word * _WORD if word else starts] & _MASKS[word][lengths]
        for word in range(max(1, -(-longest // _WORD)))
    ]
    heads = np.flatnonzero(np.concatenate(([True], _differs_from_above(parts))))
    if 2 * len(heads) > len(lengths):
        codes, first = _factorize(parts)
        return _Coded(codes.astype(np.int32), np.column_stack([part[first] for part in parts]))
    parts = [part[heads] for part in parts]  # rows come in runs of equal cells: look at the first of each
    codes, first = _factorize(parts)
    runs = np.diff(heads, append=len(lengths))
    return _Coded(np.repeat(codes.astype(np.int32), runs), np.column_stack([part[first] for part in parts]))


def _differs_from_above(parts: list[NDArray[np.uint64]]) -> NDArray[np.bool_]:
    differs: NDArray[np.bool_] = parts[0][1:] != parts[0][:-1]
    for part in parts[1:]:
        differs |= part[1:] != part[:-1]
    return differs


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
        raise NeedsCareError  # two cells share a hash
    return codes, first


def _merge_column(blocks: list[_Coded]) -> pd.Categorical[Any]:
    """A column over the cells of all its blocks, which stay in order of appearance."""
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
        raise NeedsCareError from None
    return pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(pd.Index(names, dtype=object)), validate=False)
