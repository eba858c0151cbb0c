"""One way in for documents and votes in whatever files people have them: tables, or exports of labelling platforms."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.data import Dataset, Documents, Votes, factorize, names_array, validation
from palda.errors import DataError
from palda.io.files import Table, file_name
from palda.io.table_files import as_table, read_chunks
from palda.io.tables import read_documents, read_votes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from palda.data import Strings, Values

    Source = str | os.PathLike[str]

__all__ = [
    "FORMATS",
    "DocumentChunk",
    "ReadOptions",
    "guess_format",
    "read_any_votes",
    "read_dataset",
    "read_gold",
    "read_gold_votes",
    "stream_documents",
]


class _Platform(NamedTuple):
    """A reader of exports, and what it calls the options that it has."""

    module: str
    function: str
    options: dict[str, str]


_PLATFORMS = {
    "labelstudio": _Platform(
        "palda.io.exports.labelstudio", "read_labelstudio", {"text": "text", "question": "from_name"}
    ),
    "doccano": _Platform(
        "palda.io.exports.doccano", "read_doccano", {"text": "text", "question": "label", "blank": "empty"}
    ),
    "prodigy": _Platform("palda.io.exports.prodigy", "read_prodigy", {"id": "id", "text": "text"}),
    "mturk": _Platform(
        "palda.io.exports.mturk", "read_mturk", {"id": "id", "text": "text", "question": "answer", "blank": "blank"}
    ),
    "toloka": _Platform(
        "palda.io.exports.toloka", "read_toloka", {"id": "id", "text": "text", "question": "output", "blank": "blank"}
    ),
}  # fmt: skip
_EVERY_PLATFORM = ("classes", "partial", "duplicates", "encoding")
FORMATS = ("auto", "table", *_PLATFORMS)

# Columns or fields by which an export gives itself away: all of one of the sets are there.
_MARKS: dict[str, tuple[frozenset[str], ...]] = {
    "labelstudio": (
        frozenset({"data", "annotations"}), frozenset({"data", "completions"}),
        frozenset({"annotation_id", "lead_time"}),
    ),
    "prodigy": (frozenset({"_input_hash", "answer"}), frozenset({"_session_id", "answer"})),
    "mturk": (frozenset({"HITId", "WorkerId"}),),
    "toloka": (frozenset({"ASSIGNMENT:worker_id"}),),
}  # fmt: skip


@dataclass(frozen=True)
class ReadOptions:
    """What readers may be told about files; the defaults suit files that follow the usual names."""

    format: str = "auto"
    """One of ``FORMATS``; ``"auto"`` looks at the file."""
    id: str | None = None
    """Column of document ids."""
    text: str | None = None
    """Column of texts."""
    question: str | None = None
    """Which question of an export holds the labels, where there are several."""
    classes: tuple[str, ...] | None = None
    """Classes in the order wanted; any other is an error."""
    layout: str = "auto"
    """Layout of a table of votes: ``"long"``, ``"wide"`` or ``"lists"``."""
    partial: bool = False
    """A class that a list does not name was not judged, rather than absent."""
    blank: str | None = None
    """What a blank cell means: ``"abstained"`` or ``"none"``."""
    present_at: float | None = None
    """Cells are scores, and a score from here up means "present"."""
    columns: tuple[tuple[str, str], ...] = ()
    """Roles (annotator, label, labels, value, time) and the columns of votes that play them, if not named so."""
    ignore: tuple[str, ...] = ()
    """Columns of votes to leave out."""
    duplicates: str = "error"
    """What counts when one annotator contradicts themselves: ``"last"``, ``"first"``, ``"drop"`` or ``"error"``."""
    encoding: str | None = None
    """Encoding of text files that are not UTF-8."""


_DEFAULTS = ReadOptions()


def read_dataset(documents: Source, votes: Source | None = None, options: ReadOptions = _DEFAULTS) -> Dataset:
    """Documents and the votes on them, from two files or from one that holds both.

    One file is an export of a labelling platform, or a table with a row an answer that repeats the text: documents,
    annotators and labels. Votes and documents of two files are joined by id. Columns ``gold_<class>`` of a table of
    documents are known labels; so are answers that a platform marks as such.
    """
    validation.require_choice(options.format, FORMATS, "format")
    if votes is not None:
        found = read_documents(_no_votes(documents, options), id=options.id, text=options.text)
        given = read_any_votes(votes, replace(options, id=None, text=None), documents=found)
        gold = found.gold(given.classes) if isinstance(found, Documents) else None
        return Dataset.of(found, given, gold)
    kind = _format(documents, options)
    dataset = _combined_table(documents, options) if kind == "table" else _export(kind, documents, options)
    _require_votes(dataset.votes, documents)
    return dataset


def _no_votes(path: Source, options: ReadOptions) -> Table:
    """Table of documents, which is not that of votes given in its place."""
    table = as_table(path, options.encoding)
    header = list(table.frame.columns)
    if options.text is None and validation.find_column(header, "text", None, table.where) is None:
        annotator = validation.find_column(header, "annotator", None, table.where)
        if annotator is not None:
            table.where.fail("holds annotators but no texts; give the documents first, then the votes", None, annotator)
    return table


def read_any_votes(path: Source, options: ReadOptions = _DEFAULTS, documents: Any = None) -> Votes:
    """Votes from a table or from an export of a labelling platform; at least one."""
    validation.require_choice(options.format, FORMATS, "format")
    kind = _format(path, options)
    if kind == "table":
        votes = read_votes(as_table(path, options.encoding), documents, **_vote_options(options))
    else:
        votes = _export(kind, path, options).votes
        if documents is not None:
            votes = Votes.from_frame(
                votes.to_frame().astype({"doc": object}), documents=documents, classes=votes.classes,
                where=validation.SourceLocation(file_name(path), first_row=0),
            )  # fmt: skip
    _require_votes(votes, path)
    return votes


def read_gold(
    path: Source, doc_ids: Iterable[str], classes: Iterable[str], encoding: str | None = None
) -> NDArray[np.int8]:
    """Known labels (documents, classes), -1 where unknown, from a table in any layout of votes, without annotators.

    Documents and classes that the caller does not know are an error.
    """
    axis, names = list(doc_ids), list(classes)
    votes = read_gold_votes(path, names, encoding, axis)
    gold = np.full((len(axis), len(names)), validation.BLANK, dtype=np.int8)
    gold[votes.doc, votes.label] = votes.value
    return gold


def read_gold_votes(
    path: Source, classes: Iterable[str], encoding: str | None = None, documents: Iterable[str] | None = None
) -> Votes:
    """Known labels as the votes of somebody who is always right; by default the documents are those that occur."""
    table = as_table(path, encoding)
    clash = validation.find_column(list(table.frame.columns), "annotator", None, table.where)
    if clash is not None:
        table.where.fail("known labels have no annotators; remove the column, or is this a file of votes?", None, clash)
    return read_votes(replace(table, frame=table.frame.assign(annotator="gold")), documents, classes=classes)


def guess_format(path: Source, encoding: str | None = None) -> str:
    """Which platform exported a file, from its name and the names in its first record; ``"table"`` if none did."""
    if Path(path).is_dir() or Path(path).suffix.lower() == ".zip":
        return "doccano"
    chunk = next(read_chunks(path, 1, encoding))
    names = set(chunk.table.frame.columns)
    return next((kind for kind, marks in _MARKS.items() if any(mark <= names for mark in marks)), "table")


class DocumentChunk(NamedTuple):
    """Some documents of a file, and what share of it has been read with them."""

    documents: Documents | Values
    share: float


class _SeenIds:
    """Hashes of the ids so far, 8 bytes per id, in sorted runs that are merged as they grow."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.int64]] = []

    def add(self, ids: Strings) -> list[int]:
        """Add ids; positions of those that seem to have occurred before (two of 2⁶⁴ ids may share a hash)."""
        hashes = np.fromiter(map(hash, ids), np.int64, len(ids))
        known = np.zeros(len(hashes), dtype=bool)
        for run in self._runs:
            known |= run[np.minimum(np.searchsorted(run, hashes), len(run) - 1)] == hashes
        new = np.sort(hashes)
        while self._runs and len(self._runs[-1]) <= len(new):
            new = np.sort(np.concatenate([self._runs.pop(), new]), kind="stable")
        self._runs.append(new)
        return [int(place) for place in np.flatnonzero(known)]


def stream_documents(
    path: Source,
    *,
    id: str | None = None,  # noqa: A002 - the natural word at the call
    text: str | None = None,
    encoding: str | None = None,
    size: int = 1000,
) -> Iterator[DocumentChunk]:
    """Documents of a table of any length, ``size`` at a time; which columns matter is settled by the first rows.

    Of documents that went by only a number of 8 bytes is kept, to notice an id that stands twice.
    """
    seen = _SeenIds()
    kind: type[Documents | Values] | None = None
    columns: list[str] | None = None if text is None else [text]
    for table, share in read_chunks(path, size, encoding):
        found = read_documents(table, id=id, text=columns)
        if kind is None:
            kind = type(found)
            id = id or validation.find_column(list(table.frame.columns), "doc", None, table.where)  # noqa: A001
            if isinstance(found, Documents):
                columns = [name for name in table.frame.columns if name != id and name not in found.fields]
        elif type(found) is not kind:
            table.where.fail("a column of numbers holds text from here on; numbers or blanks are needed", 0)
        for place in seen.add(found.doc_ids):
            before = _row_of(found.doc_ids[place], path, str(id), size, encoding, table.where.row(place))
            if before is not None:
                name = validation.shown(found.doc_ids[place])
                table.where.fail(f"the id {name} is in row {before} already; ids must differ", place, id)
        yield DocumentChunk(found, share)


def _row_of(name: str, path: Source, id_column: str, size: int, encoding: str | None, end: int) -> int | None:
    """Row before ``end`` in which a document stands; None if there is none, and two ids merely look alike."""
    for table, _ in read_chunks(path, size, encoding):
        ids = names_array(table.frame[id_column])
        row = next((table.where.row(place) for place, other in enumerate(ids) if other == name), end)
        if row < end:
            return row
    return None


def _format(path: Source, options: ReadOptions) -> str:
    return guess_format(path, options.encoding) if options.format == "auto" else options.format


def _require_votes(votes: Votes, path: Source) -> None:
    if not len(votes):
        raise DataError("holds not a single vote; at least one 1 or 0 is needed", file=file_name(path))


def _vote_options(options: ReadOptions) -> dict[str, Any]:
    names = ("classes", "layout", "partial", "blank", "present_at", "duplicates")
    given = {name: getattr(options, name) for name in names}
    return given | {"ignore": list(options.ignore), "doc": options.id, **dict(options.columns)}


def _export(kind: str, path: Source, options: ReadOptions) -> Dataset:
    """Dataset by the reader of a platform, which is told of nothing but the options that it has."""
    platform = _PLATFORMS[kind]
    known = platform.options | {name: name for name in _EVERY_PLATFORM}
    given = {
        spec.name: getattr(options, spec.name)
        for spec in fields(options)
        if spec.name != "format" and getattr(options, spec.name) != spec.default
    }
    for name in given:
        if name not in known:
            raise DataError(f"{name} does not apply to exports of {kind}; leave it out", file=file_name(path))
    reader = getattr(import_module(platform.module), platform.function)
    dataset: Dataset = reader(path, **{known[name]: value for name, value in given.items()})
    return dataset


def _combined_table(path: Source, options: ReadOptions) -> Dataset:
    """Documents and votes from one table: a row an answer, the text repeated in each."""
    table = as_table(path, options.encoding)
    header = list(table.frame.columns)
    text = validation.find_column(header, "text", options.text, table.where)
    doc = validation.find_column(header, "doc", options.id, table.where)
    if validation.find_column(header, "annotator", dict(options.columns).get("annotator"), table.where) is None:
        table.where.fail("holds documents but no annotators; give the file with the votes as well")
    if text is None:
        table.where.fail("holds votes but no texts; give the documents as well, or use aggregate")
    if doc is None:
        table.where.fail(
            f"no column of document ids among {validation.listed(header)}; name one 'doc' or pass id='...'"
        )
    documents = _distinct_documents(table, doc, text)
    rest = replace(table, frame=table.frame.drop(columns=[text]))
    return Dataset.of(documents, read_votes(rest, documents, **_vote_options(replace(options, id=doc))))


def _distinct_documents(table: Table, doc: str, text: str) -> Documents:
    ids, texts = factorize(table.frame[doc])[0], factorize(table.frame[text])[0]
    _, first, place = np.unique(ids, return_index=True, return_inverse=True)
    differs = np.flatnonzero(texts != texts[first][place])
    if len(differs):
        record = int(differs[0])
        before = table.where.row(int(first[place[record]]))
        table.where.fail(f"this document has another text in row {before}; a document needs one text", record, text)
    first = np.sort(first)
    frame = table.frame[[doc, text]].iloc[first].astype(object).reset_index(drop=True)
    found = read_documents(Table(frame, table.where.subset(first)), id=doc, text=text)
    if not isinstance(found, Documents):
        table.where.fail("holds no texts", None, text)
    return found
