"""Results of Label Studio: the objects of an annotation, and the classes chosen in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from palda.data import validation
from palda.io.exports.labelstudio.label_config import KINDS
from palda.io.exports.rows import Row, class_names, is_empty, moment
from palda.io.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LOOKS_LIKE_JSON = re.compile(r'\s*(\{"|\[[{"])')


def inner_object(row: Row, column: str) -> Row:
    """An object inside a record."""
    value = row.cells.get(column)
    if value is not None and not isinstance(value, dict):
        row.fail(f"{validation.shown(value)} is not an object", column)
    return Row(row.file, row.number, value or {})


def inner_objects(row: Row, column: str) -> list[Row]:
    """The objects of a list inside a record."""
    value = row.cells.get(column)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        row.fail(f"{validation.shown(value)} is not a list of objects", column)
    return [Row(row.file, row.number, item) for item in value]


def is_choice(result: Row) -> bool:
    """Whether a result has choices."""
    return any(kind in inner_object(result, "value").cells for kind in KINDS)


def has_choices(cell: object) -> bool:
    """Whether a cell of a table holds choices with their kind."""
    if isinstance(cell, str):
        return bool(_LOOKS_LIKE_JSON.match(cell)) and any(f'"{kind}"' in cell for kind in KINDS)
    items = cell if isinstance(cell, list) else [cell]
    return any(isinstance(item, dict) and any(kind in item for kind in KINDS) for item in items)


def answers_of(results: Sequence[Row], control: str | None) -> list[Row]:
    """The results that are choices of a control."""
    return [result for result in results if result.name("from_name") == control and is_choice(result)]


def chosen_classes(row: Row, column: str) -> list[str]:
    """Classes of one control: a bare string for one choice, or ``{"choices": [...]}``, or a list of such things."""
    cell = row.cells.get(column)
    value = cell
    if isinstance(cell, str) and _LOOKS_LIKE_JSON.match(cell):
        try:
            value = parse_json(cell)
        except ValueError as broken:
            row.fail(f"{validation.shown(cell)} is cut short or broken: {broken}", column)
    if is_empty(value):
        return []
    names = class_names([name for part in _parts(value) for name in part])
    if names is None:
        row.fail(f"{validation.shown(cell)} is not a list of choices", column)
    return names


def _parts(value: object) -> Iterator[list[Any]]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            listed = next((item[kind] for kind in KINDS if kind in item), item)
            yield [_path(choice) for choice in listed] if isinstance(listed, list) else [listed]
        else:
            yield [item]


def _path(choice: object) -> object:
    """Name of a nested choice, which is given as the list of its ancestors and itself."""
    names = class_names(choice)
    return choice if names is None else "/".join(names)


def time_of(cells: Mapping[str, Any]) -> float | None:
    """Time of an annotation in seconds since 1970: when it was updated, else created; None if it has neither."""
    updated = moment(cells.get("updated_at"))
    return moment(cells.get("created_at")) if updated is None else updated
