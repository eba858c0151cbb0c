"""Annotations exported by Prodigy's ``db-out``."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

from palda.data import validation
from palda.errors import DataError, PaldaWarning
from palda.io.exports.rows import ABSTAINED, Answer, Export, Row, class_names, moment
from palda.io.files import file_name, read_text
from palda.io.json_text import json_lines

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from palda.data import Dataset

_TASK_KEYS = frozenset(
    {"accept", "answer", "config", "field_rows", "label", "meta", "options", "sessions", "spans", "tokens", "versions"}
)
"""Keys of a task that are not fields of the document; neither are keys that start with "_"."""

_SERVER_START = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d")


def read_prodigy(
    path: str | os.PathLike[str],
    *,
    id: str | None = None,  # noqa: A002 - the name that users expect
    text: str = "text",
    classes: Iterable[str] | None = None,
    partial: bool = False,
    duplicates: validation.DuplicateRule = "error",
    encoding: str | None = None,
) -> Dataset:
    """Read the JSON lines that ``prodigy db-out`` writes for classification.

    - Choice tasks (``options``, ``accept``): accepted options are present and the other options absent. Options that
      a task did not offer are not judged. Option ids are the class names.
    - Binary tasks (``label``): ``accept`` means that the label is present, ``reject`` that it is absent; other classes
      are not judged.
    - ``ignore`` is an abstention, and so is ``reject`` of a choice task, which rejects the task as a whole.

    The annotator is ``_annotator_id``, else ``_session_id``.

    Parameters
    ----------
    path : str or path-like
        JSON lines file, also gzipped.
    id : str, optional
        Field of the task or of its ``meta`` with document ids. By default ``_input_hash``, which is the same for all
        tasks about one input, else the text itself.
    text : str, default "text"
        Field that holds the text.
    classes : iterable of str, optional
        Classes in the wanted order; any other class is an error. By default all options and labels, sorted.
    partial : bool, default False
        Treat options that were not accepted as not judged (default: absent).
    duplicates : {"error", "last", "first", "drop"}, default "error"
        Answer to keep if an annotator contradicts themselves. If every task has a ``_timestamp``, the latest is kept.
    encoding : str, optional
        Encoding of a file that is not UTF-8.

    Returns
    -------
    Dataset
        Documents with their meta data as fields, votes, and no gold labels.
    """
    name = file_name(path)
    rows = [Row(name, number, record) for number, record in json_lines(read_text(path, encoding).split("\n"), name)]
    if not rows:
        raise DataError("is empty; it needs at least one task", file=name)
    if text != "text" and not any(text in row.cells for row in rows):
        raise DataError(f"no task has a field {text!r}; choose the text with text='...'", file=name)
    export = Export("answers", "ignored or rejected")
    annotators = []
    for row in rows:
        written = row.text(text)
        doc = _document(row, id, written)
        export.add_document(row, doc, written, _fields(row, text))
        offered = _offered(row)
        export.add_classes(offered)
        annotators.append(row.name("_annotator_id") or row.name("_session_id"))
        answer = _answer(row, offered, partial=partial)
        export.add_annotation(row, doc, annotators[-1], answer, time=moment(row.cells.get("_timestamp")))
    _warn_about_sessions(annotators, name)
    return export.dataset(path, classes=classes, partial=partial, duplicates=duplicates)


def _document(row: Row, given: str | None, text: str) -> str:
    if given is None:
        return row.name("_input_hash") or text.strip() or row.fail("has neither an _input_hash nor a text")
    meta = row.cells.get("meta")
    holder = row if given in row.cells or not isinstance(meta, dict) else Row(row.file, row.number, meta)
    return holder.name(given) or row.fail("the document id is blank or missing", given)


def _fields(row: Row, text: str) -> dict[str, Any]:
    meta = row.cells.get("meta")
    others = {
        key: value
        for key, value in row.cells.items()
        if key != text and key not in _TASK_KEYS and not key.startswith("_")
    }
    return {**others, **meta} if isinstance(meta, dict) else others


def _offered(row: Row) -> list[str]:
    """Classes that the task asks about: its options, or its one label."""
    options = row.cells.get("options")
    if options is None:
        label = row.name("label")
        return [label] if label else []
    if not isinstance(options, list):
        row.fail(f"{validation.shown(options)} is not a list of options", "options")
    ids = [option.get("id", option.get("text")) if isinstance(option, dict) else option for option in options]
    return _names(row, ids, "options")


def _names(row: Row, value: object, column: str) -> list[str]:
    names = class_names(value)
    if names is None:
        row.fail(f"{validation.shown(value)} is not a list of option ids", column)
    return names


def _answer(row: Row, offered: Sequence[str], *, partial: bool) -> Answer:
    verdict = row.cells.get("answer")
    if verdict not in ("accept", "reject", "ignore"):
        row.fail(f"{validation.shown(verdict)} is not accept, reject or ignore; export with prodigy db-out", "answer")
    is_choice = "options" in row.cells or "accept" in row.cells
    if not is_choice and not offered:
        row.fail("has neither options nor a label; only choice and text classification tasks can be read")
    if verdict == "ignore" or (is_choice and verdict == "reject"):
        return ABSTAINED
    if not is_choice:
        return Answer(offered, []) if verdict == "accept" else Answer([], offered)
    return _choice(row, offered, partial=partial)


def _choice(row: Row, offered: Sequence[str], *, partial: bool) -> Answer:
    accepted = row.cells.get("accept")
    chosen = _names(row, [] if accepted is None else accepted if isinstance(accepted, list) else [accepted], "accept")
    if "options" not in row.cells:
        return Answer(chosen)
    strange = [name for name in chosen if name not in offered]
    if strange:
        row.fail(validation.unknown_name(strange[0], offered, "option"), "accept")
    return Answer(chosen, [] if partial else [name for name in offered if name not in chosen])


def _warn_about_sessions(annotators: Sequence[str], file: str) -> None:
    """Warn about annotators that are server start times: Prodigy uses them if sessions have no names."""
    times = sorted({name for name in annotators if _SERVER_START.fullmatch(name)})
    if times:
        warnings.warn(
            f"{file}: annotators such as {validation.shown(times[0])} are server start times, not people; give every "
            "annotator a session (?session=name in the address)",
            PaldaWarning,
            stacklevel=3,
        )
