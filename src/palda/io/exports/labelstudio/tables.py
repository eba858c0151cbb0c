"""CSV, TSV and JSON-MIN exports of Label Studio: one row per annotation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palda.data import validation
from palda.errors import DataError
from palda.io.exports.labelstudio.results import chosen_classes, has_choices, time_of
from palda.io.exports.rows import ABSTAINED, Answer, Export, Row, field_names, is_true, text_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palda.io.exports.labelstudio.tasks import TaskOptions

_OWN_COLUMNS = frozenset(
    {
        "agreement", "annotation_id", "annotator", "created_at", "history", "id", "lead_time", "predictions",
        "updated_at", "was_cancelled",
    }
)  # fmt: skip
"""Columns that are neither data nor answers."""


def read_annotation_rows(rows: Sequence[Row], options: TaskOptions, export: Export) -> None:
    """Add the documents and annotations of a table to an export."""
    file = rows[0].file
    for name, value in options.of_tasks_only().items():
        raise DataError(
            f"{name}='{value}' needs an export in the format JSON: only that says which annotations are ground truth "
            "and has predictions",
            file=file,
        )
    header = field_names(rows, file)
    for column in ("id", "annotator"):
        if column not in header:
            raise DataError(
                f"there is no column {column!r}, so this is not a Label Studio export; the columns are "
                f"{validation.listed(header)}",
                file=file,
            )
    names = [column for column in header if column not in _OWN_COLUMNS]
    control = _control_column(rows, names, options.control_name, options.text)
    names.remove(control)
    if options.id is not None:
        validation.find_column(names, "document", options.id, validation.SourceLocation(file))
    names = [name for name in names if name != options.id]
    text_name = text_field(names, options.text, file)
    for row in rows:
        doc = row.name(options.id or "id")
        fields = {name: row.cells.get(name) for name in names if name != text_name}
        export.add_document(row, doc, row.text(text_name), fields)
        annotator = row.name("annotator")
        if annotator in {"", "None"}:
            row.fail("the annotation has no annotator (the account may be deleted); write a name there", "annotator")
        is_skipped = is_true(row.cells.get("was_cancelled"))
        answer = ABSTAINED if is_skipped else Answer(chosen_classes(row, control))
        export.add_annotation(row, doc, annotator, answer, time=time_of(row.cells))


def _control_column(rows: Sequence[Row], names: Sequence[str], given: str | None, text: str | None) -> str:
    """Column of the choices: the given one, else the only one with lists of choices, else the only one left."""
    where = validation.SourceLocation(rows[0].file)
    if given is not None:
        return validation.find_column(names, "choices", given, where) or given
    candidates = [name for name in names if any(has_choices(row.cells.get(name)) for row in rows)]
    if not candidates:
        text_name = validation.find_column(names, "text", text, where)
        candidates = [name for name in names if name != text_name]
    if len(candidates) != 1:
        where.fail(
            f"which column holds the choices? choose one of {validation.listed(candidates)} with from_name='...'"
        )
    return candidates[0]
