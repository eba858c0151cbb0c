"""Columns of a feature file, read in chunks: what each column holds, and blocks of numbers made of them.

A column holds numbers, categories, or lists of numbers of equal length. What it holds may become clear only after some
chunks: a column of numbers becomes categories at its first word.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import MAX_NUMBER, names_array, validation
from palda.io import limits
from palda.io.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Collection

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import SourceLocation, Strings
    from palda.io.files import Table

    Floats = NDArray[np.floating[Any]]

MAX_CATEGORIES = 1000
"""Different texts in a column; one with more of them is no category."""

_GOLD = "gold_"
_NUMBERS = frozenset({int, float, bool, type(None)})
_LIST_TYPES = (list, tuple, np.ndarray)
_SINGLE_TYPES = frozenset({"float32", "float16", "bool", "boolean", "int8", "uint8", "int16", "uint16"})


@dataclass
class _Column:
    """What a column holds as far as it has been read."""

    name: str
    kind: str = "blank"
    """``"blank"`` until a cell has a value, then ``"numbers"``, ``"texts"`` or ``"lists"``."""
    width: int = 1
    is_single: bool = True
    """Whether single precision holds the numbers."""
    codes: dict[str, int] = field(default_factory=dict)
    """Positions of the categories."""

    @property
    def layout(self) -> tuple[str, int, bool]:
        """What decides how its numbers look."""
        return self.kind, self.width, self.is_single

    def names(self) -> list[str]:
        """Names of the columns of numbers made of this one."""
        return [self.name] if self.kind != "lists" else [f"{self.name}[{place}]" for place in range(self.width)]


class FileColumns:
    """Columns of a file; ``rows`` is called for each chunk.

    After the last chunk, ``settle`` says whether the blocks of this pass are final. Otherwise another pass is needed.
    """

    def __init__(self, categorical: Collection[str] = ()) -> None:
        self._categorical = categorical
        self._columns: dict[str, _Column] = {}
        self._layout: list[tuple[str, int, bool]] | None = None
        self._is_stale = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """Single precision if it holds the numbers of all columns."""
        return np.dtype(np.float32 if all(one.is_single for one in self._columns.values()) else np.float64)

    def names(self) -> Strings:
        """Names of all columns of numbers."""
        return names_array(name for column in self._columns.values() for name in column.names())

    def categories(self) -> tuple[Strings | None, ...]:
        """Categories of each column of numbers; None for those that hold no categories."""
        found: list[Strings | None] = []
        for column in self._columns.values():
            found += [names_array(column.codes)] if column.kind == "texts" else [None] * column.width
        return tuple(found)

    def rows(self, table: Table, ignored: Collection[str]) -> Floats | None:
        """Numbers of a chunk (rows, columns) without the ``ignored`` columns; None if this pass cannot be the last."""
        parts: dict[str, Floats] = {}
        for name in _used_columns(table, ignored):
            kind = "texts" if name in self._categorical else "blank"
            column = self._columns.setdefault(name, _Column(name, kind))
            parts[name] = _numbers(column, table.frame[name], table.where, typed=table.typed)
        layout = [column.layout for column in self._columns.values()]
        self._is_stale |= self._layout not in (None, layout)
        self._layout = layout
        if self._is_stale:
            return None
        block = np.full((len(table.frame), sum(width for _, width, _ in layout)), np.nan, dtype=self.dtype)
        first = 0
        for name, column in self._columns.items():
            if name in parts:
                block[:, first : first + column.width] = parts[name]
            first += column.width
        return block

    def settle(self) -> bool:
        """Sort the categories; whether the blocks of this pass are final."""
        for column in self._columns.values():
            ordered = {name: place for place, name in enumerate(sorted(column.codes))}
            self._is_stale |= list(ordered) != list(column.codes)
            column.codes = ordered
        is_final, self._is_stale = not self._is_stale, False
        return is_final


def _used_columns(table: Table, ignored: Collection[str]) -> list[str]:
    """Columns that are features: neither texts of documents nor gold labels."""
    names = [name for name in table.frame.columns if name not in ignored and not name.startswith(_GOLD)]
    aliases = validation.ALIASES["text"]
    return [name for name in names if name.lower() not in aliases or not _holds_texts(table.frame[name])]


def _holds_texts(column: pd.Series[Any]) -> bool:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
        return False
    return not any(isinstance(cell, _LIST_TYPES) for cell in column.tolist())


def _numbers(column: _Column, cells: pd.Series[Any], where: SourceLocation, *, typed: bool) -> Floats:
    """Numbers of some cells (rows, width); the column learns what it holds."""
    import pandas as pd
    from pandas.api import types

    if column.kind != "texts" and (types.is_numeric_dtype(cells.dtype) or types.is_bool_dtype(cells.dtype)):
        if types.is_complex_dtype(cells.dtype):
            where.fail("complex numbers are no features; write real and imaginary part", 0, column.name)
        column.is_single &= str(cells.dtype).lower() in _SINGLE_TYPES
        numbers = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        return _number_column(column, numbers, where)
    if types.is_datetime64_any_dtype(cells.dtype) or types.is_timedelta64_dtype(cells.dtype):
        where.fail("holds times; turn them into numbers, such as days since a date", 0, column.name)
    given = cells.tolist()
    if isinstance(cells.dtype, pd.CategoricalDtype):
        return _text_column(column, given, where)
    numbers_of_texts = None if typed else _digits(given)
    if numbers_of_texts is None:
        lists = _lists(given, typed=typed)
        if lists is not None:
            return _list_column(column, lists, where)
        numbers_of_texts = None if typed and any(isinstance(cell, str) for cell in given) else _parsed(given)
    if numbers_of_texts is None or column.kind == "texts":
        return _text_column(column, given, where)
    if not np.isnan(numbers_of_texts).all():
        column.is_single = False
    return _number_column(column, numbers_of_texts, where)


def _digits(cells: list[Any]) -> NDArray[np.float64] | None:
    """Numbers of strings that are all digits or empty: the usual case of a text file, and the fast one."""
    try:
        if "_" in "".join(cells):  # which Python takes for a separator of digits
            return None
        return np.array([cell or "nan" for cell in cells], dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _parsed(cells: list[Any]) -> NDArray[np.float64] | None:
    """Numbers of cells that are all numbers or blank; None if there are others."""
    numbers = np.full(len(cells), np.nan)
    for record, cell in enumerate(cells):
        if validation.is_blank(cell):
            continue
        try:
            numbers[record] = float("" if isinstance(cell, str) and "_" in cell else cell)
        except (TypeError, ValueError, OverflowError):
            return None
    return numbers


def _number_column(column: _Column, numbers: NDArray[np.float64], where: SourceLocation) -> Floats:
    wrong = np.flatnonzero(np.abs(numbers) > MAX_NUMBER)
    if len(wrong):
        record = int(wrong[0])
        where.fail(f"{numbers[record]:g} is infinite or too large; leave unknown values blank", record, column.name)
    known = ~np.isnan(numbers)
    if column.kind == "lists" and known.any():
        where.fail("holds one number where other rows hold lists", int(np.argmax(known)), column.name)
    if column.kind == "blank" and known.any():
        column.kind = "numbers"
    return numbers[:, None]


def _lists(cells: list[Any], *, typed: bool) -> list[Any] | None:
    """Cells of a column that holds lists, which may be written as JSON in a text file; None for other columns."""
    if not typed and any(isinstance(cell, str) and cell.lstrip().startswith("[") for cell in cells):
        cells = [_parsed_list(cell) for cell in cells]
    return cells if any(isinstance(cell, _LIST_TYPES) for cell in cells) else None


def _parsed_list(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.lstrip().startswith("["):
        return cell
    try:
        return parse_json(cell)
    except ValueError:
        return cell


def _list_column(column: _Column, cells: list[Any], where: SourceLocation) -> Floats:
    """Numbers of a column of lists; a blank cell is a row of NaN."""
    filled = [record for record, cell in enumerate(cells) if isinstance(cell, _LIST_TYPES)]
    if column.kind == "blank":
        column.kind, column.width = "lists", len(cells[filled[0]])
        _check_list_width(column, filled[0], where)
    if column.kind != "lists":
        where.fail("holds a list where other rows hold one value", filled[0], column.name)
    numbers = np.full((len(cells), column.width), np.nan, dtype=np.float32)
    for record, cell in enumerate(cells):
        if not isinstance(cell, _LIST_TYPES):
            if not validation.is_blank(cell):
                where.fail(f"{validation.shown(cell)} is not a list, as in other rows", record, column.name)
            continue
        if len(cell) != column.width:
            where.fail(
                f"holds {len(cell)} numbers, other rows {column.width}; lists need one length", record, column.name
            )
        numbers[record] = _list_numbers(cell, record, column.name, where)
    return numbers


def _check_list_width(column: _Column, record: int, where: SourceLocation) -> None:
    """Raise for an empty list, and for one that is too long."""
    if not column.width:
        where.fail("holds an empty list; leave the cell blank if it is unknown", record, column.name)
    limits.check_n_fields(column.width, where.file, where.row(record), "numbers in a list")


def _list_numbers(cell: Any, record: int, name: str, where: SourceLocation) -> Floats:
    try:
        with np.errstate(over="ignore"):
            numbers = np.array(
                cell if isinstance(cell, np.ndarray) else [np.nan if one is None else one for one in cell],
                dtype=np.float64,
            ).astype(np.float32)
    except (TypeError, ValueError, OverflowError):
        where.fail(f"{validation.shown(cell)} is not a list of numbers", record, name)
    is_typed = isinstance(cell, np.ndarray) and cell.dtype.kind in "biuf"
    if numbers.ndim != 1 or not (is_typed or _NUMBERS.issuperset(map(type, cell))):
        where.fail(f"{validation.shown(cell)} is not a list of numbers", record, name)
    if np.isinf(numbers).any():
        where.fail("the list has a number that is infinite or too large for single precision", record, name)
    return numbers


def _text_column(column: _Column, cells: list[Any], where: SourceLocation) -> Floats:
    """Positions of categories, in order of first appearance until they are settled; NaN for a blank cell."""
    if column.kind == "lists":
        record = next(record for record, cell in enumerate(cells) if not validation.is_blank(cell))
        where.fail(f"{validation.shown(cells[record])} is not a list, as in other rows", record, column.name)
    column.kind = "texts"
    column.is_single = False
    numbers = np.full((len(cells), 1), np.nan)
    for record, cell in enumerate(cells):
        if validation.is_blank(cell):
            continue
        if not isinstance(cell, (str, int, float, np.generic)):
            where.fail(f"{validation.shown(cell)} is neither a number nor a text", record, column.name)
        numbers[record] = column.codes.setdefault(validation.name_text(cell), len(column.codes))
        if len(column.codes) > MAX_CATEGORIES:
            where.fail(
                f"has more than {MAX_CATEGORIES:,} different texts, which are no categories; remove the column",
                record,
                column.name,
            )
    return numbers
