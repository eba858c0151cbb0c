"""Exports of Label Studio: JSON, JSON-MIN, CSV and TSV."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palda.data import validation
from palda.errors import DataError
from palda.io.exports.rows import (
    ABSTAINED,
    Answer,
    Export,
    Row,
    class_names,
    field_names,
    is_empty,
    is_true,
    moment,
    table_rows,
    text_field,
)
from palda.io.files import file_name
from palda.io.json_text import json_document, parse_json

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from palda.data import Dataset

_KINDS = ("choices", "taxonomy")
_OWN_COLUMNS = frozenset(
    {
        "agreement", "annotation_id", "annotator", "created_at", "history", "id", "lead_time", "predictions",
        "updated_at", "was_cancelled",
    }
)  # fmt: skip
"""Columns of CSV and JSON-MIN that are neither data nor answers."""

_TABLES = frozenset({".csv", ".tsv", ".tab", ".txt"})
_LOOKS_LIKE_JSON = re.compile(r'\s*(\{"|\[[{"])')


def read_labelstudio(
    path: str | os.PathLike[str],
    *,
    from_name: str | None = None,
    text: str | None = None,
    classes: Iterable[str] | None = None,
    partial: bool = False,
    duplicates: validation.DuplicateRule = "error",
    encoding: str | None = None,
) -> Dataset:
    """Read a Label Studio export in the formats JSON, JSON-MIN, CSV or TSV.

    - An annotation without any choice means that no class applies, even if other controls, such as a text area, are
      filled in. A skipped task (``was_cancelled``) is an abstention.
    - Annotations marked as ground truth are gold labels, not votes; only the JSON format has them.
    - Tasks without annotations are documents without votes; only the JSON format has them. Predictions are not read.
    - The name of an annotator is the email, else the user name, else the number. Of several annotations of one task
      by one annotator, the one updated last is used.
    - Classes of a taxonomy are paths such as ``Sport/Football``.

    Parameters
    ----------
    path : str or path-like
        The exported file, also gzipped.
    from_name : str, optional
        Name of the ``Choices`` or ``Taxonomy`` tag to read; required if there are several.
    text : str, optional
        Data field that holds the text. By default ``text``, ``body`` and the like, or the only field of strings.
    classes : iterable of str, optional
        Classes in the wanted order; any other class is an error. By default those that were chosen, sorted.
    partial : bool, default False
        Treat classes that were not chosen as not judged (default: absent).
    duplicates : {"error", "last", "first", "drop"}, default "error"
        Annotation to keep if an annotator contradicts themselves and not all annotations have times.
    encoding : str, optional
        Encoding of a file that is not UTF-8.

    Returns
    -------
    Dataset
        Documents with their other data fields, votes, and the ground truth as gold labels.
    """
    suffixes = {suffix.lower() for suffix in Path(path).suffixes}
    rows = table_rows(path, encoding) if suffixes & _TABLES else _json_rows(path, encoding)
    if not rows:
        raise DataError("has no tasks", file=file_name(path))
    are_tasks = any(isinstance(row.cells.get("data"), dict) for row in rows)
    read = _read_tasks if are_tasks else _read_flat
    return read(rows, from_name, text).dataset(path, classes=classes, partial=partial, duplicates=duplicates)


def _json_rows(path: str | os.PathLike[str], encoding: str | None) -> list[Row]:
    document = json_document(path, encoding)
    tasks = document if isinstance(document, list) else [document]
    for number, task in enumerate(tasks, start=1):
        if not isinstance(task, dict):
            problem = f"{validation.shown(task)} is not a task; export from Label Studio as JSON, JSON-MIN or CSV"
            raise DataError(problem, file=file_name(path), row=number)
    return [Row(file_name(path), number, task) for number, task in enumerate(tasks, start=1)]


# JSON: a task holds its annotations


def _read_tasks(rows: Sequence[Row], from_name: str | None, text: str | None) -> Export:
    data = [_object(row, "data") for row in rows]
    text_name = _text_name(data, text, rows[0].file)
    annotations = [list(_objects(row, "annotations") or _objects(row, "completions")) for row in rows]
    control = _control([annotation for of_task in annotations for annotation in of_task], from_name)
    export = Export()
    for row, fields, of_task in zip(rows, data, annotations, strict=True):
        doc = row.name("id")
        others = {name: value for name, value in fields.cells.items() if name != text_name}
        export.add_document(row, doc, fields.text(text_name), others)
        for annotation in of_task:
            _add_annotation(export, annotation, doc, control)
    return export


def _object(row: Row, column: str) -> Row:
    """An object inside a record."""
    value = row.cells.get(column)
    if value is not None and not isinstance(value, dict):
        row.fail(f"{validation.shown(value)} is not an object", column)
    return Row(row.file, row.number, value or {})


def _objects(row: Row, column: str) -> list[Row]:
    """The objects of a list inside a record."""
    value = row.cells.get(column)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        row.fail(f"{validation.shown(value)} is not a list of objects", column)
    return [Row(row.file, row.number, item) for item in value]


def _text_name(data: Sequence[Row], given: str | None, file: str) -> str | None:
    names = field_names(data, file)
    found = validation.find_column(names, "text", given, validation.SourceLocation(file))
    if found is not None:
        return found
    words = [name for name in names if all(isinstance(row.cells.get(name), str | None) for row in data)]
    if names and not words:
        raise DataError(f"no data field is text; choose one of {validation.listed(names)} with text='...'", file=file)
    return text_field(words, None, file)


def _control(annotations: Sequence[Row], given: str | None) -> str | None:
    """Tag whose choices are the classes; None if nothing was chosen anywhere."""
    results = [result for annotation in annotations for result in _objects(annotation, "result")]
    found = sorted({result.name("from_name") for result in results if _is_choice(result)})
    if given is not None and (given in found or not found):
        return given
    if results and not found:
        types = validation.listed(sorted({result.name("type") for result in results}))
        results[0].fail(f"no result has choices, only {types}; classes come from a Choices or Taxonomy tag")
    if given is not None:
        results[0].fail(f"no choices come from {given!r}; from_name can be {validation.listed(found)}", "from_name")
    if len(found) > 1:
        results[0].fail(f"there are several questions; choose from_name= among {validation.listed(found)}", "from_name")
    return found[0] if found else None


def _is_choice(result: Row) -> bool:
    return any(kind in _object(result, "value").cells for kind in _KINDS)


def _add_annotation(export: Export, annotation: Row, doc: str, control: str | None) -> None:
    is_gold = is_true(annotation.cells.get("ground_truth"))
    is_skipped = is_true(annotation.cells.get("was_cancelled"))
    if is_gold and is_skipped:
        return
    chosen = [
        name
        for result in _objects(annotation, "result")
        if result.name("from_name") == control and _is_choice(result)
        for name in _chosen(result, "value")
    ]
    answer = ABSTAINED if is_skipped else Answer(chosen)
    annotator = "" if is_gold else _annotator(annotation)
    export.add_annotation(annotation, doc, annotator, answer, time=_time(annotation.cells), gold=is_gold)


def _annotator(annotation: Row) -> str:
    who = annotation.cells.get("completed_by")
    if isinstance(who, dict):
        user = Row(annotation.file, annotation.number, who)
        name = user.name("email") or user.name("username") or user.name("id")
    else:
        name = annotation.name("completed_by")
    if not name:
        which = annotation.name("id")
        annotation.fail(
            f"annotation {which} has no annotator (the account may be deleted); write a name there or remove the "
            "annotation",
            "completed_by",
        )
    return name


def _time(cells: Mapping[str, Any]) -> float | None:
    updated = moment(cells.get("updated_at"))
    return moment(cells.get("created_at")) if updated is None else updated


def _chosen(row: Row, column: str) -> list[str]:
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
            listed = next((item[kind] for kind in _KINDS if kind in item), item)
            yield [_path(choice) for choice in listed] if isinstance(listed, list) else [listed]
        else:
            yield [item]


def _path(choice: object) -> object:
    """Name of a nested choice, which is given as the list of its ancestors and itself."""
    names = class_names(choice)
    return choice if names is None else "/".join(names)


# CSV and JSON-MIN: a row is an annotation


def _read_flat(rows: Sequence[Row], from_name: str | None, text: str | None) -> Export:
    header = field_names(rows, rows[0].file)
    for column in ("id", "annotator"):
        if column not in header:
            raise DataError(
                f"there is no column {column!r}, so this is not a Label Studio export; the columns are "
                f"{validation.listed(header)}",
                file=rows[0].file,
            )
    names = [column for column in header if column not in _OWN_COLUMNS]
    control = _flat_control(rows, names, from_name, text)
    names.remove(control)
    text_name = text_field(names, text, rows[0].file)
    export = Export()
    for row in rows:
        doc = row.name("id")
        fields = {name: row.cells.get(name) for name in names if name != text_name}
        export.add_document(row, doc, row.text(text_name), fields)
        annotator = row.name("annotator")
        if annotator in {"", "None"}:
            row.fail("the annotation has no annotator (the account may be deleted); write a name there", "annotator")
        is_skipped = is_true(row.cells.get("was_cancelled"))
        answer = ABSTAINED if is_skipped else Answer(_chosen(row, control))
        export.add_annotation(row, doc, annotator, answer, time=_time(row.cells))
    return export


def _flat_control(rows: Sequence[Row], names: Sequence[str], given: str | None, text: str | None) -> str:
    """Column of the choices: the given one, else the only one with lists of choices, else the only one left."""
    where = validation.SourceLocation(rows[0].file)
    if given is not None:
        return validation.find_column(names, "choices", given, where) or given
    candidates = [name for name in names if any(_has_choices(row.cells.get(name)) for row in rows)]
    if not candidates:
        text_name = validation.find_column(names, "text", text, where)
        candidates = [name for name in names if name != text_name]
    if len(candidates) != 1:
        where.fail(
            f"which column holds the choices? choose one of {validation.listed(candidates)} with from_name='...'"
        )
    return candidates[0]


def _has_choices(cell: object) -> bool:
    if isinstance(cell, str):
        return bool(_LOOKS_LIKE_JSON.match(cell)) and any(f'"{kind}"' in cell for kind in _KINDS)
    items = cell if isinstance(cell, list) else [cell]
    return any(isinstance(item, dict) and any(kind in item for kind in _KINDS) for item in items)
