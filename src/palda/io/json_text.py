"""JSON text: one value, or one object per line, within the limits of ``palda.io.limits``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import SourceLocation, shown
from palda.errors import DataError
from palda.io import limits
from palda.io.files import Table, check_header, file_name, read_text

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    Source = str | os.PathLike[str]

_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F]"
_LONE_SURROGATE = re.compile(rf"{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW}")  # or text after a doubled backslash


def parse_json(text: str) -> Any:
    """Value of a JSON text; raises ``ValueError`` with a message of one line for anything that is not data."""
    if text.count('":') - text.count('\\":') > limits.MAX_FIELDS * text.count("{"):  # more names than objects may have
        raise ValueError(_too_many_fields())
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    if text.count("[") + text.count("{") > limits.MAX_DEPTH or text.count(":") > limits.MAX_FIELDS:
        _check_nesting(value)
    if _LONE_SURROGATE.search(text):
        check_characters(json.dumps(value, ensure_ascii=False))
    return value


def check_characters(text: str) -> None:
    """Raise ``ValueError`` if a text has half of a surrogate pair, which no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as lone:
        half = f"\\u{ord(text[lone.start]):04x}"
        raise ValueError(
            f"{half} is half of a surrogate pair, not a character; remove it or write both halves"
        ) from None


def _too_many_fields() -> str:
    return f"has an object of more than {limits.MAX_FIELDS:,} fields, the limit"


def _too_deep() -> str:
    return f"is nested deeper than {limits.MAX_DEPTH} levels, the limit"


def _check_nesting(value: Any) -> None:
    """Raise for too many levels, and for an object with too many fields; level by level, without recursion."""
    level = [value]
    for _ in range(limits.MAX_DEPTH + 1):
        for item in level:
            if isinstance(item, dict) and len(item) > limits.MAX_FIELDS:
                raise ValueError(_too_many_fields())
        level = [
            inner
            for item in level
            if isinstance(item, (dict, list))
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise ValueError(_too_deep())


def parse_record(text: str, name: str, row: int | None) -> Any:
    """Value of a JSON text; raises ``DataError`` with its location."""
    try:
        return parse_json(text)
    except json.JSONDecodeError as broken:
        place = f"character {broken.colno}" if row is not None else f"line {broken.lineno}, character {broken.colno}"
        raise DataError(f"is not JSON at {place}: {broken.msg}", file=name, row=row) from None
    except ValueError as absurd:  # a limit, or an integer of 5,000 digits
        raise DataError(f"cannot be read as JSON: {absurd}", file=name, row=row) from None


def json_document(path: Source, encoding: str | None = None) -> Any:
    """The one JSON value of a file."""
    text = read_text(path, encoding)
    if not text.strip():
        raise DataError("is empty", file=file_name(path))
    return parse_record(text, file_name(path), None)


def json_lines(lines: Iterable[str], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects of a JSON lines file with their line numbers; blank lines are skipped."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if len(line) > limits.MAX_RECORD_LENGTH:
            limits.fail_record_length(name, number)
        record = parse_record(line, name, number)
        if not isinstance(record, dict):
            raise DataError(
                f'{shown(record)} is not an object; every line needs {{"name": value, ...}}', file=name, row=number
            )
        yield number, record


def json_table(text: str, name: str) -> Table:
    """Table of a JSON list of objects, or of JSON lines."""
    if text.lstrip().startswith("["):
        records = list(enumerate(parse_record(text, name, None), start=1))
        for number, record in records:
            if not isinstance(record, dict):
                raise DataError(f"{shown(record)} is not an object", file=name, row=number)
    else:
        records = list(json_lines(text.split("\n"), name))
    if not records:
        raise DataError("is empty; it needs at least one record", file=name)
    return json_frame(records, name)


def json_frame(records: list[tuple[int, dict[str, Any]]], name: str) -> Table:
    """Table of numbered objects; a field that an object lacks is missing."""
    import pandas as pd

    place: dict[str, int] = {}
    for _, record in records:
        for column in record:
            place.setdefault(column, len(place))
    if not place:
        raise DataError("has records but no columns", file=name)
    header = [column.strip() for column in place]
    check_header(header, SourceLocation(name))
    limits.check_density((record for _, record in records), len(records), len(header), name)
    cells = np.full((len(header), len(records)), None, dtype=object)
    for row, (_, record) in enumerate(records):
        for column, cell in record.items():
            cells[place[column], row] = cell
    frame = pd.DataFrame(cells.T, columns=pd.Index(header, dtype=object), dtype=object, copy=False)
    return Table(frame, SourceLocation(name, np.array([number for number, _ in records], dtype=np.int64)))
