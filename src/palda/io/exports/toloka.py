"""Assignments of Toloka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palda.io.exports.prefixed_tables import Layout, gather
from palda.io.exports.rows import table_rows
from palda.io.files import file_name

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from palda.data import Dataset, DuplicateRule
    from palda.io.exports.prefixed_tables import BlankRule

__all__ = ["read_toloka"]

_LAYOUT = Layout(
    platform="Toloka",
    inputs="INPUT:",
    answers="OUTPUT:",
    worker="ASSIGNMENT:worker_id",
    status="ASSIGNMENT:status",
    counts=frozenset({"APPROVED", "ACCEPTED", "SUBMITTED"}),
    does_not_count=frozenset({"REJECTED", "ACTIVE", "EXPIRED", "SKIPPED"}),
    time="ASSIGNMENT:submitted",
    doc="ASSIGNMENT:task_id",
    separators=",;",
    option="output",
    gold="GOLDEN:",
)


def read_toloka(
    path: str | os.PathLike[str],
    *,
    output: str | Sequence[str] | None = None,
    id: str | None = None,  # noqa: A002 - the natural word at the call
    text: str | None = None,
    classes: Iterable[str] | None = None,
    partial: bool = False,
    blank: BlankRule = None,
    duplicates: DuplicateRule = "error",
    encoding: str | None = None,
) -> Dataset:
    """Dataset from the TSV file of assignments that Toloka offers for download.

    Every row is one worker's answer for one task; blank rows between task suites are passed over. Only approved and
    submitted assignments give votes; the documents of the others are kept. Outputs are understood as a JSON list,
    as a JSON object of true and false, as ``a, b`` or ``a; b`` (write a list when names hold commas), and as one
    true/false column a class. Answers of control tasks (``GOLDEN:*``) are gold labels.

    Parameters
    ----------
    path
        TSV file, also gzipped.
    output
        Output to read, as in ``OUTPUT:<output>``, or a list of true/false columns. By default the only one that can be
        meant: all true/false columns, or one named like ``labels`` or ``category``.
    id
        Column of document ids: the name of an input or of any column. By default an input named like ``id`` or
        ``doc_id``, else ``ASSIGNMENT:task_id``, else the text itself.
    text
        Input that holds the text, by default ``text``, ``sentence`` and the like, or the only one.
    classes
        Names of the classes in the order wanted; any other is an error. By default those that occur, sorted.
    partial
        A class that a list does not name was not judged, rather than absent.
    blank
        What a blank output means: ``"none"`` (nothing applies) or ``"abstained"`` (no judgement). By default a blank
        list is the empty set; a blank box was not judged if some boxes say "false", and not ticked if none does.
    duplicates
        What counts when one worker answered differently for one document: ``"last"``, ``"first"``, ``"drop"``
        (neither) or ``"error"``. Where every row has ``ASSIGNMENT:submitted``, the latest answer counts.
    encoding
        Encoding of a file that is not UTF-8.

    Returns
    -------
    Dataset
        Documents with their other inputs as fields, votes, and the gold labels of control tasks.
    """
    _, rows = table_rows(path, encoding)
    _LAYOUT.check(rows, file_name(path))
    export = gather(rows, _LAYOUT, id=id, text=text, question=output, blank=blank)
    return export.dataset(path, classes=classes, partial=partial, duplicates=duplicates)
