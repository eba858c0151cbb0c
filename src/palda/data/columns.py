"""Columns of a table as codes: positions on the axes of ``Votes``. Each distinct cell is looked up once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pandas as pd

from palda.data import validation
from palda.data.frozen_arrays import names_array
from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

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
    keeps_unused: bool = True,
    may_be_blank: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.int32], Strings]:
    """Positions of a column's names on an axis, and the axis.

    The axis is ``given``, or (with ``declared``) the categories of a categorical column, or the names that occur:
    sorted ``by_name``, else in order of appearance. Categories without a row are left out unless ``keeps_unused``. A
    blank name is an error except where ``may_be_blank``; its position is -1 there.
    """
    codes, cells = factorize(column)
    check_plain(codes, cells, _ARTICLES.get(kind, f"a {kind}"), str(column.name), where)
    names = [cell.strip() if type(cell) is str else validation.name_text(cell) for cell in cells]
    if given is not None:
        axis = given_axis(given, kind)
    elif declared and isinstance(column.dtype, pd.CategoricalDtype):
        kept = np.full(len(names) + 1, keeps_unused)  # one more for missing cells, whose code is -1
        kept[codes] = True
        axis = names_array(name for place, name in enumerate(names) if name and kept[place])
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


class VoteCells(NamedTuple):
    """Votes in the cells of a column: 1, 0 or -1 for no judgement; probabilities, or None if there are none."""

    value: NDArray[np.int8]
    probability: NDArray[np.float32] | None = None


def values_of(
    column: pd.Series[Any],
    present_at: float | None,
    where: validation.SourceLocation,
    hint: str = "",
    *,
    soft: bool = True,
) -> VoteCells:
    """Votes in a column. With ``soft``, a number between 0 and 1 is the probability of "present"; 1/2 is no vote."""
    codes, cells = factorize(column)
    parsed = _parsed_votes(cells, present_at, soft=soft)
    bad = np.flatnonzero(np.isnan(parsed))
    if len(bad):
        wrong = np.isin(codes, bad)
        if wrong.any():
            record = int(np.argmax(wrong))
            problem = validation.value_problem(cells[codes[record]], present_at)
            where.fail(problem + hint, record, str(column.name))
    between = (parsed > 0) & (parsed < 1)
    # Who says 1/2 does not say "present": taken as that, undecided annotators made absent labels present.
    undecided = np.where(parsed == validation.HALF, validation.BLANK, parsed > validation.HALF)
    values = np.where(between, undecided, np.nan_to_num(parsed, nan=validation.BLANK)).astype(np.int8)
    values = np.append(values, np.int8(validation.BLANK))  # of missing cells, whose code is -1
    if not between.any():
        return VoteCells(values[codes])
    probabilities = np.append(np.where(between, parsed, np.nan), np.nan).astype(np.float32)
    return VoteCells(values[codes], probabilities[codes])


def _parsed_votes(cells: list[Any], present_at: float | None, *, soft: bool) -> NDArray[np.float64]:
    """Vote in each distinct cell; NaN if it is none."""
    if not soft or present_at is not None:
        parsed: list[float | None] = [validation.parse_value(cell, present_at) for cell in cells]
        return np.array(parsed, dtype=np.float64)
    numbers = _numbers(cells)  # there may be as many probabilities as votes
    rest = np.flatnonzero(~((numbers >= 0) & (numbers <= 1)))
    numbers[rest] = [np.nan if vote is None else vote for vote in (validation.parse_vote(cells[i]) for i in rest)]
    return numbers


def _numbers(cells: list[Any]) -> NDArray[np.float64]:
    """Number in each cell; NaN if there is none."""
    plain = [cell if isinstance(cell, (str, int, float)) else None for cell in cells]
    found = pd.to_numeric(pd.Series(plain, dtype=object), errors="coerce")
    return found.to_numpy(dtype=np.float64, na_value=np.nan).copy()


def probabilities_of(
    frame: pd.DataFrame,
    found: Mapping[str, str | None],
    cells: VoteCells,
    where: validation.SourceLocation,
) -> NDArray[np.float32] | None:
    """Probability of "present" behind each vote; NaN for a hard vote, None if there are no others.

    A column of probabilities holds them as they are. A column of confidences says how probable the vote is: for a vote
    of 0, the probability of "present" is 1 minus the confidence.
    """
    given = [column for column in (found.get("probability"), found.get("confidence")) if column is not None]
    given = [column for column in given if column != found.get("value")]
    if len(given) > 1:
        where.fail(f"there is a column {given[0]!r} too; leave one of them out with ignore=[...]", column=given[1])
    if not given:
        return cells.probability
    column = given[0]
    stated = _probabilities(frame[column], where)
    if cells.probability is not None and not np.isnan(stated).all():
        both = ~np.isnan(cells.probability) & ~np.isnan(stated)
        if both.any():
            where.fail("the vote beside it is a probability already; leave one out", int(np.argmax(both)), column)
    if column == found.get("confidence"):
        stated = np.where(cells.value == 0, 1 - stated, stated)
    if cells.probability is not None:
        stated = np.where(np.isnan(stated), cells.probability, stated)
    stated[cells.value == validation.BLANK] = np.nan
    return None if np.isnan(stated).all() else stated


def _probabilities(column: pd.Series[Any], where: validation.SourceLocation) -> NDArray[np.float32]:
    codes, cells = factorize(column)
    numbers = _numbers(cells)
    bad = [i for i in np.flatnonzero(~((numbers >= 0) & (numbers <= 1))) if not validation.is_blank(cells[i])]
    wrong = np.isin(codes, bad)
    if wrong.any():
        record = int(np.argmax(wrong))
        problem = f"{validation.shown(cells[codes[record]])} is not a number between 0 and 1; divide percentages by 100"
        name = str(column.name)
        where.fail(f"{problem}, or leave the column out with ignore=[{name!r}]", record, name)
    return cast("NDArray[np.float32]", np.append(numbers, np.nan).astype(np.float32)[codes])


_MAX_TIME = 1e20  # nanoseconds of a time in a file
_KINDS = {"person": "person", "human": "person", "model": "model", "machine": "model", "llm": "model", "ai": "model"}


class AnnotatorTraits(NamedTuple):
    """Kind ("person", "model" or "") and family of each annotator; of length 0 if nothing is known."""

    kinds: Strings
    families: Strings


def annotator_traits(
    frame: pd.DataFrame,
    found: Mapping[str, str | None],
    annotator: NDArray[np.int32],
    annotators: Strings,
    where: validation.SourceLocation,
    *,
    named: Collection[str] = (),
) -> AnnotatorTraits:
    """Kinds and families in the columns of a table, which agree on each annotator.

    A column "kind" without a known kind in it says something else and is left alone, unless it is one of the columns
    ``named`` by the caller.
    """
    kind, family = found.get("kind"), found.get("family")
    nothing = names_array(())
    kinds = families = nothing
    if kind is not None and (kind in named or _holds_kinds(frame[kind])):
        codes, cells = factorize(frame[kind])
        names = [_KINDS.get(validation.name_text(cell).lower(), "") for cell in cells]
        bad = [i for i, name in enumerate(names) if not name and not validation.is_blank(cells[i])]
        wrong = np.isin(codes, bad)
        if wrong.any():
            record = int(np.argmax(wrong))
            where.fail(f"{validation.shown(cells[codes[record]])} is not 'person' or 'model'", record, kind)
        kinds = _per_annotator(codes, names, annotator, annotators, kind, where)
    if family is not None:
        codes, cells = factorize(frame[family])
        check_plain(codes, cells, "a family", family, where)
        names = ["" if validation.is_blank(cell) else validation.name_text(cell) for cell in cells]
        families = _per_annotator(codes, names, annotator, annotators, family, where)
    return AnnotatorTraits(kinds, families)


def _holds_kinds(column: pd.Series[Any]) -> bool:
    return any(validation.name_text(cell).lower() in _KINDS for cell in factorize(column)[1])


def _per_annotator(
    codes: NDArray[np.integer[Any]],
    names: list[str],
    annotator: NDArray[np.int32],
    annotators: Strings,
    column: str,
    where: validation.SourceLocation,
) -> Strings:
    """The name that the rows of each annotator have; "" if all are blank."""
    distinct = list(dict.fromkeys(filter(None, names)))
    place = {name: position for position, name in enumerate(distinct)}
    positions = np.array([place.get(name, -1) for name in names] + [-1], dtype=np.int64)[codes]
    chosen = np.full(len(annotators), -1, dtype=np.int64)
    filled = np.flatnonzero(positions >= 0)
    chosen[annotator[filled[::-1]]] = positions[filled[::-1]]  # the first row of each annotator
    differs = filled[positions[filled] != chosen[annotator[filled]]]
    if len(differs):
        record = int(differs[0])
        name = validation.shown(annotators[annotator[record]])
        first, here = distinct[chosen[annotator[record]]], distinct[positions[record]]
        problem = f"annotator {name} is {here!r} here and {first!r} in another row; write one of them"
        where.fail(f"{problem}, or leave the column out with ignore=[{column!r}]", record, column)
    if not (chosen >= 0).any():
        return names_array(())
    return names_array("" if position < 0 else distinct[position] for position in chosen)


def times_of(column: pd.Series[Any], where: validation.SourceLocation) -> NDArray[np.float64]:
    """Seconds since 1970 (UTC), NaN where blank: from numbers, else from dates in any form that pandas reads.

    Numbers too large for seconds (after the year 5000) are milli-, micro- or nanoseconds.
    """
    codes, cells = factorize(column)
    filled = [place for place, cell in enumerate(cells) if not validation.is_blank(cell)]
    numbers = np.full(len(cells) + 1, np.nan)  # one more for missing cells, whose code is -1
    for place in filled:
        numbers[place] = _as_number(cells[place])
    for limit, per_second in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)):
        numbers = np.where(np.abs(numbers) >= limit, numbers / per_second, numbers)
    if filled and np.isnan(numbers[filled]).all():
        texts = pd.Series([str(cells[place]) for place in filled], dtype=object)
        moments = pd.to_datetime(texts, errors="coerce", utc=True, format="mixed").to_numpy(dtype="datetime64[us]")
        numbers[filled] = np.where(np.isnat(moments), np.nan, moments.astype(np.float64) / 1e6)
    wrong = np.isin(codes, [place for place in filled if np.isnan(numbers[place])])
    if wrong.any():
        record = int(np.argmax(wrong))
        problem = f"{validation.shown(cells[codes[record]])} is not a time; write 2024-05-31T12:00:00 or a number"
        where.fail(problem, record, str(column.name))
    return cast("NDArray[np.float64]", numbers[codes])


def _as_number(cell: Any) -> float:
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        return np.nan
    return number if abs(number) < _MAX_TIME else np.nan
