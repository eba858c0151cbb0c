"""Columns of a table as codes: positions on the axes of ``Votes``. Each distinct cell is looked up once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from palda.data import validation
from palda.data.frozen_arrays import names_array
from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from palda.data.frozen_arrays import Strings


def roles(
    frame: pd.DataFrame, wanted: Iterable[str], given: Mapping[str, str | None], where: validation.SourceLocation
) -> dict[str, str | None]:
    """Column for each role; None if there is none."""
    header = [str(name) for name in frame.columns]
    unknown = set(given) - set(wanted)
    if unknown:
        raise TypeError(f"unexpected keyword argument {sorted(unknown)[0]!r}")
    found = {role: validation.find_column(header, role, given.get(role), where) for role in wanted}
    for column in found.values():
        if column is not None and header.count(column) > 1:
            where.fail("the column occurs twice; rename one of them", column=column)
    return found


def require_columns(
    found: Mapping[str, str | None], needed: Sequence[str], frame: pd.DataFrame, where: validation.SourceLocation
) -> None:
    """Raise for the first role without a column."""
    for role in needed:
        if found[role] is None:
            header = validation.listed(str(name) for name in frame.columns)
            where.fail(f"no column for the {role}; the columns are {header}; name it {role!r} or pass {role}='...'")


def given_axis(given: object, kind: str) -> Strings:
    """Names that the caller passed: a list, or any object with ``doc_ids``."""
    if isinstance(given, (str, os.PathLike, pd.DataFrame)):
        what = validation.shown(given) if isinstance(given, str) else f"a {type(given).__name__}"
        advice = "what read_documents gives, or a list of ids" if kind == "document" else "a list of names"
        raise DataError(f"{what} was given for the {kind} names; pass {advice}")
    return names_array(cast("Iterable[object]", getattr(given, "doc_ids", given)))


def factorize(column: pd.Series[Any]) -> tuple[NDArray[np.integer[Any]], list[Any]]:
    """Positions into the distinct cells of a column, in order of appearance; -1 for a missing cell.

    The distinct cells of a categorical column are its categories, in their own order.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        return np.asarray(column.cat.codes), column.cat.categories.tolist()
    try:
        codes, cells = pd.factorize(column)
    except TypeError:  # lists and other cells without a hash
        codes, _ = pd.factorize(column.map(_spelled).astype(object))
        first = np.unique(codes, return_index=True)[1]
        return codes, [column.iloc[int(i)] for i in first]
    return codes, cells.tolist()


def _spelled(cell: object) -> str:
    """Unique text of a cell; NumPy would abbreviate a long array."""
    return repr(cell.tolist() if isinstance(cell, np.ndarray) else cell)


def codes_of(
    column: pd.Series[Any],
    kind: str,
    given: Iterable[object] | None,
    where: validation.SourceLocation,
    *,
    by_name: bool = True,
    declared: bool = False,
    may_be_blank: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.int32], Strings]:
    """Positions of a column's names on an axis, and the axis.

    The axis is ``given``, or (with ``declared``) all categories of a categorical column, or the names that occur:
    sorted ``by_name``, else in order of appearance. A blank name is an error except where ``may_be_blank``; its
    position is -1 there.
    """
    codes, cells = factorize(column)
    check_plain(codes, cells, _ARTICLES.get(kind, f"a {kind}"), str(column.name), where)
    names = [cell.strip() if type(cell) is str else validation.name_text(cell) for cell in cells]
    if given is not None:
        axis = given_axis(given, kind)
    elif declared and isinstance(column.dtype, pd.CategoricalDtype):
        axis = names_array(filter(None, names))
    else:
        found = dict.fromkeys(names)
        found.pop("", None)
        axis = names_array(sorted(found) if by_name else found)
    position = dict(zip(axis, range(len(axis)), strict=True))
    places = [position.get(name, _UNKNOWN) if name else _BLANK_NAME for name in names] + [_BLANK_NAME]
    positions = np.array(places, dtype=np.int32)[codes]
    if len(positions) and positions.min() < 0:
        _check_names(positions, codes, names, axis, kind, str(column.name), where, may_be_blank)
    return positions, axis


_BLANK_NAME, _UNKNOWN = -1, -2
_ARTICLES = {"annotator": "an annotator"}


def check_plain(
    codes: NDArray[np.integer[Any]], cells: list[Any], kind: str, column: str, where: validation.SourceLocation
) -> None:
    """Raise for the first cell that is a list or an object instead of a name."""
    nested = [place for place, cell in enumerate(cells) if validation.is_nested(cell)]
    wrong = np.isin(codes, nested) if nested else np.zeros(1, dtype=bool)
    if wrong.any():
        record = int(np.argmax(wrong))
        where.fail(validation.nested_name(cells[codes[record]], kind), record, column)


def _check_names(
    positions: NDArray[np.int32],
    codes: NDArray[np.integer[Any]],
    names: list[str],
    axis: Strings,
    kind: str,
    column: str,
    where: validation.SourceLocation,
    may_be_blank: NDArray[np.bool_] | None,
) -> None:
    blank = positions == _BLANK_NAME
    wrong = (blank if may_be_blank is None else blank & ~may_be_blank) | (positions == _UNKNOWN)
    if not wrong.any():
        return
    record = int(np.argmax(wrong))
    if blank[record]:
        where.fail(f"the {kind} is blank; every vote needs one", record, column)
    problem = validation.unknown_name(names[codes[record]], axis.tolist(), kind)
    others = int(np.count_nonzero(positions == _UNKNOWN)) - 1
    more = f" ({others} more rows like it)" if others else ""
    where.fail(problem + more, record, column)


def values_of(
    column: pd.Series[Any], present_at: float | None, where: validation.SourceLocation, hint: str = ""
) -> NDArray[np.int8]:
    """Votes in a column: 1, 0 or -1 for no judgement."""
    codes, cells = factorize(column)
    parsed = [validation.parse_value(cell, present_at) for cell in cells]
    bad = [cell for cell, vote in enumerate(parsed) if vote is None]
    if bad:
        wrong = np.isin(codes, bad)
        if wrong.any():
            record = int(np.argmax(wrong))
            problem = validation.value_problem(cells[codes[record]], present_at)
            where.fail(problem + hint, record, str(column.name))
    votes = np.array(
        [validation.BLANK if vote is None else vote for vote in parsed] + [validation.BLANK], dtype=np.int8
    )
    return cast("NDArray[np.int8]", votes[codes])


def times_of(column: pd.Series[Any], where: validation.SourceLocation) -> NDArray[np.float64]:
    """Timestamps as numbers that sort: numbers as they are, else dates in any form pandas reads."""
    codes, cells = factorize(column)
    filled = [place for place, cell in enumerate(cells) if not validation.is_blank(cell)]
    numbers = np.full(len(cells) + 1, np.nan)  # one more for missing cells, whose code is -1
    for place in filled:
        numbers[place] = _as_number(cells[place])
    if filled and np.isnan(numbers[filled]).all():
        texts = pd.Series([str(cells[place]) for place in filled], dtype=object)
        moments = pd.to_datetime(texts, errors="coerce", utc=True, format="mixed").to_numpy(dtype="datetime64[us]")
        numbers[filled] = np.where(np.isnat(moments), np.nan, moments.astype(np.float64))
    wrong = np.isin(codes, [place for place in filled if np.isnan(numbers[place])])
    if wrong.any():
        record = int(np.argmax(wrong))
        problem = f"{validation.shown(cells[codes[record]])} is not a time; write 2024-05-31T12:00:00 or a number"
        where.fail(problem, record, str(column.name))
    return cast("NDArray[np.float64]", numbers[codes])


def _as_number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return np.nan
