"""Cells that hold lists of classes, as votes."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING, Literal

import numpy as np

from palda.data import factorize, given_axis, names_array, validation
from palda.io import limits
from palda.io.json_text import check_characters, parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from palda.data import Strings
    from palda.io.files import Table


def list_matrix(
    table: Table,
    found: dict[str, str | None],
    classes: Iterable[str] | None,
    *,
    partial: bool,
    blank: Literal["abstained", "none"] | None,
    whole: bool,
) -> tuple[NDArray[np.int8], Strings, NDArray[np.bool_]]:
    """Votes (rows, classes), the classes, and which rows are blank."""
    column = found["labels"] or found["label"]
    if column is None:
        table.where.fail("no column of class lists; name it 'labels' or pass labels='...'")
    codes, cells = factorize(table.frame[column])
    sets = [_label_set(cell) for cell in cells] + [None]  # the last one is for missing cells, whose code is -1
    if "broken" in sets:
        cell = sets.index("broken")
        problem = f'{validation.shown(cells[cell])} is not a list of classes; write ["a", "b"] or a;b'
        table.where.fail(problem, int(np.argmax(codes == cell)), column)
    found_names = sorted({name for names in sets if names is not None for name in names})
    axis = names_array(found_names) if classes is None else given_axis(classes, "class")
    if not len(axis) and whole:
        table.where.fail("no list names a class; pass them with classes=[...]", column=column)
    unknown = set(found_names) - set(axis)
    if unknown:
        cell, name = next((cell, name) for cell, names in enumerate(sets) for name in names or () if name in unknown)
        problem = validation.unknown_name(name, axis.tolist(), "class")
        table.where.fail(problem, int(np.argmax(codes == cell)), column)
    limits.check_n_cells(len(codes), len(axis), table.where.file)
    place = {name: position for position, name in enumerate(axis)}
    rows = np.full((len(sets), len(axis)), validation.BLANK, dtype=np.int8)
    for cell, names in enumerate(sets):
        if names is not None or blank == "none":
            if not partial:
                rows[cell] = 0
            rows[cell, [place[name] for name in names or ()]] = 1
    is_blank = np.array([names is None for names in sets])[codes]
    return rows[codes], axis, is_blank


def _label_set(cell: object) -> list[str] | Literal["broken"] | None:
    """Classes in a cell; None if it is blank."""
    if isinstance(cell, (list, tuple, set, frozenset, np.ndarray)):
        return _names(list(cell))
    if validation.is_blank(cell):
        return None
    if isinstance(cell, dict):
        return "broken"
    text = str(cell).strip()
    if not text.startswith("["):
        return [name for name in (part.strip() for part in text.split(";")) if name]
    try:
        return _names(parse_json(text))
    except ValueError:
        return _python_list(text)


def _python_list(text: str) -> list[str] | Literal["broken"]:
    """List written by Python's ``str(["a", "b"])``; literals only, nothing is executed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # such as an invalid escape
            listed = _names(ast.literal_eval(text))
        check_characters("".join(listed))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, SyntaxWarning):
        return "broken"
    return listed


def _names(cells: object) -> list[str] | Literal["broken"]:
    if not isinstance(cells, list) or not all(isinstance(cell, (str, int, float, np.generic)) for cell in cells):
        return "broken"
    return [name for name in map(validation.name_text, cells) if name]
