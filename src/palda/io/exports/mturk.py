"""Batch results of Amazon Mechanical Turk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from palda.data import validation
from palda.io.exports.prefixed_tables import Layout, gather
from palda.io.exports.rows import is_empty, parse_json, table_rows
from palda.io.files import file_name

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from palda.data import Dataset
    from palda.io.exports.prefixed_tables import BlankRule
    from palda.io.exports.rows import Row

__all__ = ["read_mturk"]

_LAYOUT = Layout(
    platform="Mechanical Turk",
    inputs="Input.",
    answers="Answer.",
    worker="WorkerId",
    status="AssignmentStatus",
    counts=frozenset({"APPROVED", "SUBMITTED"}),
    does_not_count=frozenset({"REJECTED"}),
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
    id: str | None = None,  # noqa: A002 - the natural word at the call
    text: str | None = None,
    classes: Iterable[str] | None = None,
    partial: bool = False,
    blank: BlankRule = None,
    duplicates: validation.DuplicateRule = "error",
    encoding: str | None = None,
) -> Dataset:
    """Dataset from the CSV file of batch results that Mechanical Turk offers for download.

    Every row is an assignment. Rejected ones, and those marked in the column ``Reject``, give no votes, but their
    documents are kept. Answers are understood as ``a|b`` or a JSON list in one column, as one true/false column a
    class (``Answer.<question>.<class>``, or ``Answer.<class>``), and inside the JSON of ``Answer.taskAnswers``.

    Parameters
    ----------
    path
        CSV file, also gzipped.
    answer
        Question to read, as in ``Answer.<question>``, or a list of true/false columns. By default the only question
        that can be meant: one with a box for each class, or one named like ``label`` or ``categories``.
    id
        Column of document ids: the name of an input or of any column. By default an input named like ``id`` or
        ``doc_id``, else ``HITId``.
    text
        Input that holds the text, by default ``text``, ``sentence`` and the like, or the only one.
    classes
        Names of the classes in the order wanted; any other is an error. By default those that occur, sorted.
    partial
        A class that a list does not name was not judged, rather than absent.
    blank
        What a blank answer means: ``"none"`` (nothing applies) or ``"abstained"`` (no judgement). By default a blank
        list is the empty set; a blank box was not judged if the question has boxes that say "false", and not ticked
        if it has none.
    duplicates
        What counts when one worker answered differently for one document: ``"last"``, ``"first"``, ``"drop"``
        (neither) or ``"error"``. Where every ``SubmitTime`` can be read, the latest answer counts.
    encoding
        Encoding of a file that is not UTF-8.

    Returns
    -------
    Dataset
        Documents with their other inputs as fields, votes, and no gold labels.
    """
    _, rows = table_rows(path, encoding)
    _LAYOUT.check(rows, file_name(path))
    rows = [_unfolded(_marked(row)) for row in rows]
    export = gather(rows, _LAYOUT, id=id, text=text, question=answer, blank=blank)
    return export.dataset(path, classes=classes, partial=partial, duplicates=duplicates)


def _marked(row: Row) -> Row:
    """Row with the requester's own mark in ``Reject``, written before the file is uploaded again, as its status."""
    if is_empty(row.cells.get("Reject")):
        return row
    return replace(row, cells={**row.cells, _LAYOUT.status: "Rejected"})


def _unfolded(row: Row) -> Row:
    """Row in which the answers of a form, all in one JSON cell, stand in columns of their own."""
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
