"""One way to read documents and votes from any file: tables, exports of labelling platforms, ARFF, shard folders."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.data import Dataset, Documents, Votes, factorize, names_array, validation
from palda.errors import DataError, PaldaWarning
from palda.io.exports import is_archive, platform_of
from palda.io.files import Table, file_name
from palda.io.table_files import as_table, read_chunks
from palda.io.tables import document_ids, read_documents, read_table_votes, read_votes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from palda.data import Strings, Values

    Source = str | os.PathLike[str]


class _Reader(NamedTuple):
    """A reader of one format, and its names for the fields of ``ReadOptions`` that it supports."""

    module: str
    function: str
    options: dict[str, str]


_COMMON = {name: name for name in ("classes", "partial", "duplicates", "encoding")}
_READERS = {
    "labelstudio": _Reader(
        "palda.io.exports.labelstudio", "read_labelstudio",
        _COMMON | {
            "id": "id", "text": "text", "question": "from_name", "label_config": "label_config",
            "ground_truth": "ground_truth", "predictions": "predictions", "prelabelled": "prelabelled",
        },
    ),
    "doccano": _Reader(
        "palda.io.exports.doccano", "read_doccano", _COMMON | {"text": "text", "question": "label", "blank": "empty"}
    ),
    "prodigy": _Reader("palda.io.exports.prodigy", "read_prodigy", _COMMON | {"id": "id", "text": "text"}),
    "mturk": _Reader(
        "palda.io.exports.mturk", "read_mturk",
        _COMMON | {"id": "id", "text": "text", "question": "answer", "blank": "blank"},
    ),
    "toloka": _Reader(
        "palda.io.exports.toloka", "read_toloka",
        _COMMON | {"id": "id", "text": "text", "question": "output", "blank": "blank"},
    ),
}  # fmt: skip
FORMATS = ("auto", "table", *_READERS)


@dataclass(frozen=True)
class ReadOptions:
    """Options of ``palda.read``, which documents them; the defaults suit files with the usual column names."""

    format: str = "auto"
    id: str | None = None
    text: str | None = None
    question: str | None = None
    classes: tuple[str, ...] | None = None
    layout: str = "auto"
    partial: bool = False
    blank: str | None = None
    present_at: float | None = None
    columns: tuple[tuple[str, str], ...] = ()
    ignore: tuple[str, ...] = ()
    duplicates: str = "error"
    encoding: str | None = None
    label_config: Source | None = None
    ground_truth: str = "auto"
    predictions: str = "ignore"
    prelabelled: str | None = None

    def __post_init__(self) -> None:
        validation.require_choice(self.format, FORMATS, "format")
        if self.classes is not None:
            object.__setattr__(self, "classes", tuple(self.classes))
        object.__setattr__(self, "columns", tuple(dict(self.columns).items()))
        object.__setattr__(self, "ignore", tuple(self.ignore))


_DEFAULTS = ReadOptions()


def read(path: Source, votes: Source | None = None, **options: Any) -> Dataset:
    r"""Read documents, votes and gold labels from any supported file, recognised by its content.

    Supported are tables (CSV, TSV, JSON lines, JSON, Parquet; each also gzipped), exports of Label Studio, doccano,
    Prodigy, Mechanical Turk and Toloka, ARFF files with Mulan's XML file of labels beside them, and shard folders.

    Parameters
    ----------
    path : str or path-like
        With ``votes``: a table of documents. Alone: a file or folder that holds documents and votes (an export, or a
        table with one row per answer that repeats the text), documents and gold labels (ARFF), or a shard folder.
    votes : str or path-like, optional
        Table or export with the votes, which are matched to the documents by id.
    format : {"auto", "table", "labelstudio", "doccano", "prodigy", "mturk", "toloka"}, default "auto"
        Format of the file that holds the votes.
    id, text : str, optional
        Columns of document ids and of texts, if they do not have one of the usual names.
    question : str, optional
        Question of an export that holds the labels, if there are several.
    classes : sequence of str, optional
        Classes in the wanted order; any other class is an error. By default all classes that occur, sorted.
    layout : {"auto", "long", "wide", "lists"}, default "auto"
        Layout of a table of votes; see ``read_votes``.
    partial : bool, default False
        Treat classes that a list does not name as not judged (default: absent).
    blank : {"abstained", "none"}, optional
        Meaning of a blank cell in a column of lists: no judgement, or no class applies.
    present_at : float, optional
        Cells are scores; a score of at least this value means "present". Without it, numbers between 0 and 1 are soft
        votes.
    columns : mapping of str to str, optional
        Columns of the votes by role ("annotator", "label", "labels", "value", "probability", "confidence", "time",
        "kind", "family"), if they do not have one of the usual names.
    ignore : sequence of str, optional
        Columns of the votes to leave out.
    duplicates : {"error", "last", "first", "drop"}, default "error"
        Vote to keep if an annotator contradicts themselves.
    encoding : str, optional
        Encoding of text files that are not UTF-8.
    label_config : str or path-like, optional
        Label Studio: file with the label config of the project, as XML or as the JSON of the project, which names all
        classes.
    ground_truth : {"auto", "gold", "votes"}, default "auto"
        Label Studio: what annotations marked as ground truth are; see ``palda.io.read_labelstudio``.
    predictions : {"ignore", "votes"}, default "ignore"
        Label Studio: whether predictions are votes of their models.
    prelabelled : {"keep", "drop", "separate"}, optional
        Label Studio: what to do with annotations that started from a prediction.

    Returns
    -------
    Dataset
        ``corpus`` (``Documents``, ``Values`` or ``Corpus``), ``votes`` and ``gold``, over the same documents in the
        same order. Columns ``gold_<class>`` of a table of documents are gold labels, and so are answers that a
        platform marks as such.

    Raises
    ------
    DataError
        If a file cannot be read, or has neither votes nor gold labels. The message names file, row and column and says
        what to do.

    Warns
    -----
    PaldaWarning
        If fewer than a tenth of the answers of a file are votes, with the reasons.

    See Also
    --------
    read_documents, read_votes : Read one table.

    Examples
    --------
    >>> import palda, tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     documents, votes = Path(folder, "documents.csv"), Path(folder, "votes.csv")
    ...     _ = documents.write_text("doc,text\nd1,ships carry wheat\nd2,wheat prices rise\n")
    ...     _ = votes.write_text("doc,annotator,labels\nd1,ann,trade\nd2,bob,trade;markets\n")
    ...     dataset = palda.read(documents, votes)
    >>> len(dataset), dataset.classes.tolist(), len(dataset.votes)
    (2, ['markets', 'trade'], 4)
    """
    chosen = ReadOptions(**options)
    if votes is not None:
        documents = read_documents(_documents_table(path, chosen), id=chosen.id, text=chosen.text)
        found = read_judgements(votes, replace(chosen, id=None, text=None), documents=documents)
        _require_votes(found.votes, votes)
        gold = found.gold
        if isinstance(documents, Documents):
            gold = documents.gold(found.votes.classes)
            warn_about_unused_gold(documents, found.votes.classes, path)
        return Dataset.of(documents, found.votes, np.where(gold == validation.BLANK, found.gold, gold))
    if chosen.format == "auto" and (Path(path) / "manifest.json").is_file():
        return _shard_folder(path, chosen)
    if chosen.format == "auto" and ".arff" in (suffix.lower() for suffix in Path(path).suffixes[-2:]):
        return _arff(path, chosen)
    kind = format_of(path, chosen)
    if kind != "table":
        return _export(kind, path, chosen)
    dataset = _combined_table(path, chosen)
    _require_votes(dataset.votes, path)
    return dataset


def warn_about_unused_gold(documents: Documents, classes: Strings, path: Source) -> None:
    """Warn about columns of gold labels whose class has no votes: without ``classes``, such a class does not exist."""
    known = {f"gold_{name}" for name in classes}
    columns = [name for name in documents.fields if name.startswith("gold_") and name not in known]
    unused = [name for name in columns if _has_values(documents, name)]
    if unused:
        warnings.warn(
            f"{file_name(path)}: the gold labels in {validation.listed(unused)} were not used: nobody voted on these "
            "classes; name all classes with classes=[...]",
            PaldaWarning,
            stacklevel=3,
        )


def _has_values(documents: Documents, column: str) -> bool:
    values = {validation.parse_value(cell) for cell in documents.fields[column]}
    return None not in values and values != {validation.BLANK}


def _shard_folder(path: Source, options: ReadOptions) -> Dataset:
    from palda.io.shards import open_shards

    folder = open_shards(path)
    if options != _DEFAULTS:
        raise DataError("is a shard folder, whose files were read already; leave the options out", file=str(path))
    return folder.dataset()


def _arff(path: Source, options: ReadOptions) -> Dataset:
    """Features and gold labels of an ARFF file; ``NAME.xml`` beside ``NAME.arff`` or ``NAME-train.arff`` has labels."""
    from palda.io.corpora.arff import read_arff

    unsupported = [name for name in _given(options) if name != "classes"]
    if unsupported:
        raise DataError(f"{unsupported[0]} does not apply to ARFF files; leave it out", file=file_name(path))
    stem = Path(path).name.lower().partition(".arff")[0]
    names = [Path(path).with_name(Path(path).name[: len(one)] + ".xml") for one in (stem, stem.partition("-")[0])]
    labels = next((xml for xml in names if xml.is_file()), None)
    return read_arff(path, labels if options.classes is None else None, label_names=options.classes)


def _documents_table(path: Source, options: ReadOptions) -> Table:
    """Table of documents; a table of votes in its place is an error."""
    table = as_table(path, options.encoding)
    header = list(table.frame.columns)
    if options.text is None and validation.find_column(header, "text", None, table.where) is None:
        annotator = validation.find_column(header, "annotator", None, table.where)
        if annotator is not None:
            table.where.fail("has annotators but no texts; give the documents first, then the votes", None, annotator)
    return table


class Judgements(NamedTuple):
    """Votes and gold labels (documents, classes), -1 if unknown, over the same documents and classes."""

    votes: Votes
    gold: NDArray[np.int8]


def read_judgements(path: Source, options: ReadOptions = _DEFAULTS, documents: Any = None) -> Judgements:
    """Votes, and the gold labels that an export of a labelling platform marks as such, from a table or an export."""
    kind = format_of(path, options)
    if kind == "table":
        votes = read_votes(as_table(path, options.encoding), documents, **_vote_options(options))
        return Judgements(votes, np.full((votes.n_docs, votes.n_classes), validation.BLANK, dtype=np.int8))
    dataset = _export(kind, path, options)
    if documents is None:
        return Judgements(dataset.votes, dataset.gold)
    votes = dataset.votes.on_documents(documents, validation.SourceLocation(file_name(path), first_row=0))
    gold = np.full((votes.n_docs, votes.n_classes), validation.BLANK, dtype=np.int8)
    place = {doc: position for position, doc in enumerate(votes.doc_ids)}
    known = np.flatnonzero((dataset.gold != validation.BLANK).any(axis=1))
    for row in known:
        name = dataset.doc_ids[row]
        if name not in place:
            problem = validation.unknown_name(name, list(place), "document")
            raise DataError(f"gold labels: {problem}", file=file_name(path))
        gold[place[name]] = dataset.gold[row]
    return Judgements(votes, gold)


def read_any_votes(path: Source, options: ReadOptions = _DEFAULTS, documents: Any = None) -> Votes:
    """Votes from a table or from an export of a labelling platform; at least one."""
    votes = read_judgements(path, options, documents).votes
    _require_votes(votes, path)
    return votes


def read_gold(
    path: Source,
    doc_ids: Iterable[str],
    classes: Iterable[str],
    encoding: str | None = None,
    *,
    id: str | None = None,  # noqa: A002 - the natural word at the call
) -> NDArray[np.int8]:
    """Gold labels (documents, classes), -1 if unknown, from a table in any layout of votes without annotators.

    A table of documents with columns ``gold_<class>`` is accepted too; ``id`` is its column of ids, if it has one of
    that name. Unknown documents and classes are an error.
    """
    axis, names = list(doc_ids), list(classes)
    votes = read_gold_votes(path, names, encoding, axis, id=id)
    gold = np.full((len(axis), len(names)), validation.BLANK, dtype=np.int8)
    gold[votes.doc, votes.label] = votes.value
    return gold


def read_gold_votes(
    path: Source,
    classes: Iterable[str],
    encoding: str | None = None,
    documents: Iterable[str] | None = None,
    *,
    id: str | None = None,  # noqa: A002 - the natural word at the call
) -> Votes:
    """Gold labels as votes of a single annotator; by default the documents are those that occur."""
    table = as_table(path, encoding)
    clash = validation.find_column(list(table.frame.columns), "annotator", None, table.where)
    if clash is not None:
        table.where.fail("gold labels have no annotators; remove the column, or is this a file of votes?", None, clash)
    names = [str(name) for name in classes]
    if any(f"gold_{name}" in table.frame.columns and f"gold_{name}" not in names for name in names):
        return _gold_columns(table, names, id, documents)
    with_annotator = replace(table, frame=table.frame.assign(annotator="gold"))
    try:
        return read_table_votes(with_annotator, documents, soft=False, classes=names)
    except DataError as error:  # no option leaves out a column of gold labels
        advice = error.problem.replace(", pass ignore=", ", leave it out with ignore=")
        advice = re.sub(r" with ignore=\[.*\]", " of the table", advice, flags=re.DOTALL)
        raise DataError(advice, file=error.file, row=error.row, column=error.column) from None


def _gold_columns(table: Table, classes: list[str], id_column: str | None, documents: Iterable[str] | None) -> Votes:
    """Gold labels in the columns ``gold_<class>`` of a table of documents, as votes of a single annotator."""
    header, where = list(table.frame.columns), table.where
    column = validation.find_column(header, "doc", id_column if id_column in header else None, where)
    if column is None:
        where.fail(f"no column of document ids among {validation.listed(header)}; name one 'doc'")
    doc_ids = document_ids(table.frame[column], where)
    fields = {name: table.frame[name].to_numpy(dtype=object) for name in header if name.startswith("gold_")}
    given = Documents(doc_ids, names_array([""] * len(doc_ids)), fields)
    warn_about_unused_gold(given, names_array(classes), where.file or "data frame")
    try:
        known = given.gold(classes)
    except DataError as error:
        raise DataError(error.problem, file=where.file, column=error.column) from None
    axis = doc_ids if documents is None else names_array(documents)
    place = {name: position for position, name in enumerate(axis)}
    labels = np.full((len(axis), len(classes)), validation.BLANK, dtype=np.int8)
    for record in np.flatnonzero((known != validation.BLANK).any(axis=1)):
        if doc_ids[record] not in place:
            where.fail(validation.unknown_name(doc_ids[record], axis.tolist(), "document"), int(record), column)
        labels[place[doc_ids[record]]] = known[record]
    return Votes.from_array(labels[:, np.newaxis], doc_ids=axis, annotators=["gold"], classes=classes)


def guess_format(path: Source, encoding: str | None = None) -> str:
    """Platform that exported a file, from its suffix and the names in its first record; ``"table"`` for other files."""
    if is_archive(path):
        return "doccano"
    chunk = next(read_chunks(path, 1, encoding))
    return platform_of(chunk.table.frame.columns) or "table"


class DocumentChunk(NamedTuple):
    """Some documents of a file, and the share of the file that has been read so far."""

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
    """Documents of a table of any length, ``size`` at a time; the first rows determine which columns are used.

    A hash of 8 bytes per document is kept, to find duplicate ids.
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
            table.where.fail("a column of numbers holds text here; it needs numbers or blanks", 0)
        for place in seen.add(found.doc_ids):
            before = _row_of(found.doc_ids[place], path, str(id), size, encoding, table.where.row(place))
            if before is not None:
                table.where.fail(validation.duplicate_id(found.doc_ids[place], before), place, id)
        yield DocumentChunk(found, share)


def _row_of(name: str, path: Source, id_column: str, size: int, encoding: str | None, end: int) -> int | None:
    """Row of a document before row ``end``; None if there is none, and two ids only share a hash."""
    for table, _ in read_chunks(path, size, encoding):
        ids = names_array(table.frame[id_column])
        row = next((table.where.row(place) for place, other in enumerate(ids) if other == name), end)
        if row < end:
            return row
    return None


def format_of(path: Source, options: ReadOptions) -> str:
    """Format of a file that holds votes: the given one, else the one that its content shows."""
    return guess_format(path, options.encoding) if options.format == "auto" else options.format


def _require_votes(votes: Votes, path: Source) -> None:
    if not len(votes):
        raise DataError("has no votes; at least one 1 or 0 is needed, besides gold labels", file=file_name(path))


def _vote_options(options: ReadOptions) -> dict[str, Any]:
    names = ("classes", "layout", "partial", "blank", "present_at", "duplicates")
    given = {name: getattr(options, name) for name in names}
    return given | {"ignore": list(options.ignore), "doc": options.id, **dict(options.columns)}


def _given(options: ReadOptions) -> dict[str, Any]:
    """Options that differ from their default."""
    values = {spec.name: getattr(options, spec.name) for spec in fields(options)}
    return {name: value for name, value in values.items() if value != getattr(_DEFAULTS, name)}


def _export(kind: str, path: Source, options: ReadOptions) -> Dataset:
    """Dataset of an export, read with the options that its reader supports."""
    reader = _READERS[kind]
    given = _given(replace(options, format="auto"))
    for name in given:
        if name not in reader.options:
            raise DataError(
                f"the option {name} does not apply to exports of {kind}; leave it out", file=file_name(path)
            )
    function = getattr(import_module(reader.module), reader.function)
    dataset: Dataset = function(path, **{reader.options[name]: value for name, value in given.items()})
    return dataset


def _combined_table(path: Source, options: ReadOptions) -> Dataset:
    """Documents and votes from one table with one row per answer, which repeats the text."""
    table = as_table(path, options.encoding)
    header = list(table.frame.columns)
    text = validation.find_column(header, "text", options.text, table.where)
    doc = validation.find_column(header, "doc", options.id, table.where)
    if validation.find_column(header, "annotator", dict(options.columns).get("annotator"), table.where) is None:
        table.where.fail("has documents but no annotators; give the file with the votes as well")
    if text is None:
        table.where.fail("has votes but no texts; give the documents as well, or use aggregate")
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
        table.where.fail("has no texts", None, text)
    return found
