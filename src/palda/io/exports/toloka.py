"""Assignments exported by Toloka."""

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

_LAYOUT = Layout(
    platform="Toloka",
    inputs="INPUT:",
    answers="OUTPUT:",
    worker="ASSIGNMENT:worker_id",
    status="ASSIGNMENT:status",
    accepted=frozenset({"APPROVED", "ACCEPTED", "SUBMITTED"}),
    rejected=frozenset({"REJECTED", "ACTIVE", "EXPIRED", "SKIPPED"}),
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
    id: str | None = None,  # noqa: A002 - the name that users expect
    text: str | None = None,
    classes: Iterable[str] | None = None,
    partial: bool = False,
    blank: BlankRule = None,
    duplicates: DuplicateRule = "error",
    encoding: str | None = None,
) -> Dataset:
    """Read the TSV file of assignments that Toloka offers for download.

    Each row is the answer of one worker for one task; blank rows between task suites are skipped. Only approved and
    submitted assignments give votes; the documents of the others are kept. Outputs may be a JSON list, a JSON object of
    true and false, ``a, b`` or ``a; b`` (use a list if class names contain commas), or one true/false column per class.
    Answers of control tasks (``GOLDEN:*``) are gold labels.

    Parameters
    ----------
    path : str or path-like
        TSV file, also gzipped.
    output : str or sequence of str, optional
        Output to read, as in ``OUTPUT:<output>``, or a list of true/false columns. By default all true/false columns,
        or the one named like ``labels`` or ``category``.
    id : str, optional
        Column of document ids: the name of an input or of any column. By default an input named like ``id`` or
        ``doc_id``, else ``ASSIGNMENT:task_id``, else the text itself.
    text : str, optional
        Input that holds the text. By default ``text``, ``sentence`` and the like, or the only input.
    classes : iterable of str, optional
        Classes in the wanted order; any other class is an error. By default those that occur, sorted.
    partial : bool, default False
        Treat classes that a list does not name as not judged (default: absent).
    blank : {"none", "abstained"}, optional
        Meaning of a blank output: no class applies, or no judgement. By default a blank list means that no class
        applies; a blank true/false cell means no judgement if any cell is "false", else "false".
    duplicates : {"error", "last", "first", "drop"}, default "error"
        Answer to keep if a worker contradicts themselves. If every row has ``ASSIGNMENT:submitted``, the latest is
        kept.
    encoding : str, optional
        Encoding of a file that is not UTF-8.

    Returns
    -------
    Dataset
        Documents with their other inputs as fields, votes, and the gold labels of control tasks.
    """
    export = gather(
        table_rows(path, encoding), _LAYOUT, file_name(path), id=id, text=text, question=output, blank=blank
    )
    return export.dataset(path, classes=classes, partial=partial, duplicates=duplicates)
