"""Batch results of Amazon Mechanical Turk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from palda.data import validation
from palda.io.exports.prefixed_tables import Layout, gather
from palda.io.exports.rows import is_empty, table_rows
from palda.io.files import file_name
from palda.io.json_text import parse_json

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from palda.data import Dataset
    from palda.io.exports.prefixed_tables import BlankRule
    from palda.io.exports.rows import Row

_LAYOUT = Layout(
    platform="Mechanical Turk",
    inputs="Input.",
    answers="Answer.",
    worker="WorkerId",
    status="AssignmentStatus",
    accepted=frozenset({"APPROVED", "SUBMITTED"}),
    rejected=frozenset({"REJECTED"}),
    time="SubmitTime",
    doc="HITId",
    separators="|",
    option="answer",
)
_FORM = "Answer.taskAnswers"


def read_mturk(
    path: str | os.PathLike[str],
    *,
    answer: str | Sequence[str] | None = None,
    id: str | None = None,  # noqa: A002 - the name that users expect
    text: str | None = None,
    classes: Iterable[str] | None = None,
    partial: bool = False,
    blank: BlankRule = None,
    duplicates: validation.DuplicateRule = "error",
    encoding: str | None = None,
) -> Dataset:
    """Read the CSV file of batch results that Mechanical Turk offers for download.

    Each row is an assignment. Rejected assignments, and those marked in the column ``Reject``, give no votes, but their
    documents are kept. Answers may be ``a|b`` or a JSON list in one column, one true/false column per class
    (``Answer.<question>.<class>`` or ``Answer.<class>``), or part of the JSON in ``Answer.taskAnswers``.

    Parameters
    ----------
    path : str or path-like
        CSV file, also gzipped.
    answer : str or sequence of str, optional
        Question to read, as in ``Answer.<question>``, or a list of true/false columns. By default the only question
        with one true/false column per class, or the one named like ``label`` or ``categories``.
    id : str, optional
        Column of document ids: the name of an input or of any column. By default an input named like ``id`` or
        ``doc_id``, else ``HITId``.
    text : str, optional
        Input that holds the text. By default ``text``, ``sentence`` and the like, or the only input.
    classes : iterable of str, optional
        Classes in the wanted order; any other class is an error. By default those that occur, sorted.
    partial : bool, default False
        Treat classes that a list does not name as not judged (default: absent).
    blank : {"none", "abstained"}, optional
        Meaning of a blank answer: no class applies, or no judgement. By default a blank list means that no class
        applies; a blank true/false cell means no judgement if any cell of the question is "false", else "false".
    duplicates : {"error", "last", "first", "drop"}, default "error"
        Answer to keep if a worker contradicts themselves. If every ``SubmitTime`` can be read, the latest is kept.
    encoding : str, optional
        Encoding of a file that is not UTF-8.

    Returns
    -------
    Dataset
        Documents with their other inputs as fields, votes, and no gold labels.
    """
    rows = [_with_form_columns(_with_reject_mark(row)) for row in table_rows(path, encoding)]
    export = gather(rows, _LAYOUT, file_name(path), id=id, text=text, question=answer, blank=blank)
    return export.dataset(path, classes=classes, partial=partial, duplicates=duplicates)


def _with_reject_mark(row: Row) -> Row:
    """Row whose status is "Rejected" if the requester marked it in the column ``Reject``."""
    if is_empty(row.cells.get("Reject")):
        return row
    return replace(row, cells={**row.cells, _LAYOUT.status: "Rejected"})


def _with_form_columns(row: Row) -> Row:
    """Row with one column per answer instead of one JSON cell for the whole form."""
    cell = row.cells.get(_FORM)
    if cell is None:
        return row
    cells: dict[str, Any] = {name: value for name, value in row.cells.items() if name != _FORM}
    for form in _forms(row, cell):
        for question, value in form.items():
            if isinstance(value, dict):
                cells.update({f"Answer.{question}.{choice}": tick for choice, tick in value.items()})
            else:
                cells[f"Answer.{question}"] = value
    return replace(row, cells=cells)


def _forms(row: Row, cell: object) -> list[dict[str, Any]]:
    if is_empty(cell):
        return []
    try:
        forms = parse_json(cell) if isinstance(cell, str) else cell
    except ValueError as broken:
        row.fail(f"is not JSON: {broken}", _FORM)
    forms = forms if isinstance(forms, list) else [forms]
    if not all(isinstance(form, dict) for form in forms):
        row.fail(f"{validation.shown(cell)} is not a list of answers", _FORM)
    return forms
