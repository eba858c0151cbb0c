"""Documents and votes from tables: CSV, TSV, JSON lines and Parquet files, or data frames."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from palda.data import (
    LONG_COLUMNS,
    OPTIONAL_COLUMNS,
    Documents,
    Values,
    VoteCells,
    VoteRecords,
    Votes,
    annotator_traits,
    check_plain,
    codes_of,
    factorize,
    given_axis,
    names_array,
    probabilities_of,
    require_columns,
    roles,
    times_of,
    validation,
    values_of,
)
from palda.errors import DataError
from palda.io import limits
from palda.io.annotations import records_from_matrix
from palda.io.coverage import check_rows, warn_about_blanks
from palda.io.exports import is_archive, platform_of
from palda.io.files import Table, file_name
from palda.io.label_lists import list_matrix
from palda.io.table_files import as_table

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from palda.data import Strings

    Source = str | os.PathLike[str] | pd.DataFrame | Table
    Layout = Literal["auto", "long", "wide", "lists"]


def read_documents(
    source: Source,
    *,
    id: str | None = None,  # noqa: A002 - the name that users expect
    text: str | Sequence[str] | None = None,
    encoding: str | None = None,
) -> Documents | Values:
    """Read documents from a table with a column of ids and a column of text, or ids and numeric features.

    Parameters
    ----------
    source : path or DataFrame
        CSV, TSV, JSON lines or Parquet file (each also gzipped), or a data frame.
    id : str, optional
        Column of ids. By default the first of ``doc``, ``doc_id``, ``id``, ``task``, ``item`` and the like.
    text : str or sequence of str, optional
        Column of text, or several that are concatenated. By default ``text``, ``body``, ``content`` and the like, or
        the only column that is not numeric.
    encoding : str, optional
        Encoding of a text file that is not UTF-8.

    Returns
    -------
    Documents or Values
        In file order; ``Values`` if all columns are numbers. Other columns are kept in ``Documents.fields``. Documents
        with a blank text are kept.

    Raises
    ------
    DataError
        If the table has no ids, duplicate ids, or several candidates for the text.

    Examples
    --------
    >>> import pandas as pd
    >>> from palda import read_documents
    >>> table = pd.DataFrame({"doc": ["d1", "d2"], "text": ["ships carry wheat", "wheat prices"], "year": [1986, 1987]})
    >>> documents = read_documents(table)
    >>> list(documents.texts), list(documents.fields["year"])
    (['ships carry wheat', 'wheat prices'], [1986, 1987])
    """
    table = as_table(source, encoding)
    frame, where = table.frame, table.where
    column = validation.find_column(list(frame.columns), "doc", id, where)
    if column is None:
        header = validation.listed(frame.columns)
        where.fail(f"no column of document ids among {header}; name one 'doc' or pass id='...'")
    doc_ids = document_ids(frame[column], where)
    rest = [name for name in frame.columns if name != column]
    chosen = _text_columns(frame, rest, text, where)
    if not chosen:
        return _values(frame, rest, doc_ids, where)
    texts = np.empty(len(frame), dtype=object)
    texts[:] = [
        "\n".join(part for part in parts if part)
        for parts in zip(*(_texts(frame[c], where) for c in chosen), strict=True)
    ]
    fields = {name: _plain(frame[name]) for name in rest if name not in chosen}
    return Documents(doc_ids, texts, fields)


def document_ids(column: pd.Series[Any], where: validation.SourceLocation) -> Strings:
    """Ids in a column; a blank one, a duplicate and a list are errors."""
    codes, cells = factorize(column)
    check_plain(codes, cells, "a document", str(column.name), where)
    doc_ids = names_array(column)
    blank = [record for record, name in enumerate(doc_ids) if not name]
    if blank:
        where.fail("the document id is blank", blank[0], str(column.name))
    duplicate = validation.first_duplicate(doc_ids) if len(set(doc_ids)) < len(doc_ids) else None
    if duplicate is not None:
        first, second = duplicate
        where.fail(validation.duplicate_id(doc_ids[second], where.row(first)), second, str(column.name))
    return doc_ids


def _text_columns(
    frame: pd.DataFrame, rest: list[str], given: str | Sequence[str] | None, where: validation.SourceLocation
) -> list[str]:
    """Columns that hold the text; empty if all columns are numbers."""
    if given is not None:
        wanted = [given] if isinstance(given, str) else list(given)
        return [name for name in (validation.find_column(rest, "text", column, where) for column in wanted) if name]
    alias = validation.find_column(rest, "text", None, where)
    if alias is not None:
        return [alias]
    words = [name for name in rest if _first_non_number(frame[name]) is not None]
    vectors = [name for name in words if _holds_vectors(frame[name])]
    if vectors and len(vectors) == len(words):
        where.fail("holds lists of numbers, which are features and no text; add a column of text", None, vectors[0])
    words = [name for name in words if name not in vectors]
    if len(words) > 1:
        where.fail(f"which column is the text? choose one of {validation.listed(words)} with text='...'")
    if not rest:
        where.fail("there is no column besides the ids; add a column of text or of features")
    return words


def _holds_vectors(column: pd.Series[Any]) -> bool:
    """Whether the first cell that is not blank is a list of numbers."""
    cell = next((cell for cell in column.tolist() if not validation.is_blank(cell)), None)
    return isinstance(cell, (list, np.ndarray)) and len(cell) > 0 and all(_number(one) is not None for one in cell)


def _first_non_number(column: pd.Series[Any]) -> int | None:
    """Position of the first cell that is neither blank nor a number."""
    codes, cells = factorize(column)
    words = [place for place, cell in enumerate(cells) if not validation.is_blank(cell) and _number(cell) is None]
    wrong = np.isin(codes, words)
    return int(np.argmax(wrong)) if wrong.any() else None


def _number(cell: object) -> float | None:
    if validation.is_blank(cell):
        return float("nan")
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _values(frame: pd.DataFrame, features: list[str], doc_ids: Strings, where: validation.SourceLocation) -> Values:
    limits.check_n_cells(len(frame), len(features), where.file, "columns")
    values = np.empty((len(frame), len(features)))
    for position, name in enumerate(features):
        codes, cells = factorize(frame[name])
        numbers = np.array([_number(cell) for cell in cells] + [np.nan], dtype=np.float64)
        values[:, position] = numbers[codes]
    infinite = np.argwhere(np.isinf(values))
    if len(infinite):
        record, position = infinite[0]
        where.fail("the value is infinite; leave the cell blank if it is unknown", int(record), features[position])
    return Values(values, names_array(features), doc_ids)


def _texts(column: pd.Series[Any], where: validation.SourceLocation) -> list[str]:
    cells = column.tolist()
    nested = next((record for record, cell in enumerate(cells) if isinstance(cell, (dict, bytes))), None)
    if nested is not None:
        where.fail(f"{validation.shown(cells[nested])} is not text", nested, str(column.name))
    return [_text(cell) for cell in cells]


def _text(cell: Any) -> str:
    """Text in a cell, which may hold a list of words."""
    if isinstance(cell, (list, tuple, np.ndarray)):
        return " ".join(map(str, cell))
    return "" if pd.isna(cell) else str(cell)


def _plain(column: pd.Series[Any]) -> NDArray[Any]:
    """Cells of a column as an array of Python objects."""
    cells = np.empty(len(column), dtype=object)
    cells[:] = column.tolist()
    return cells


def read_votes(
    source: Source,
    documents: Any = None,
    *,
    classes: Iterable[str] | None = None,
    layout: Layout = "auto",
    partial: bool = False,
    present_at: float | None = None,
    ignore: Collection[str] = (),
    duplicates: validation.DuplicateRule = "error",
    blank: Literal["abstained", "none"] | None = None,
    encoding: str | None = None,
    **columns: str | None,
) -> Votes:
    """Read votes from a table in one of three layouts, recognised by the header.

    - long: ``doc, annotator, label, value``, one row per vote; the value is 1, 0, a number between them or blank;
    - wide: ``doc, annotator, <class>, <class>, ...`` with the same values in the cells;
    - lists: ``doc, annotator, labels`` with a JSON list or ``a;b`` in the cells; classes that are not named are absent.
      A column ``label`` without a value column also works: the rows of an annotator on a document form one list.

    Other usual column names are recognised (``task``, ``item``, ``doc_id``; ``worker``, ``rater_id``,
    ``completed_by``).

    A number between 0 and 1 is a soft vote: the probability of "present" that the annotator states. So is a value of 1
    or 0 with a ``confidence`` beside it (how probable that value is) or a ``probability`` (of "present"); beside a list
    it applies to the classes that the list names. Further optional columns are the time of the vote (``timestamp``,
    ``created_at``), and what the annotator is: ``kind`` ("person" or "model") and ``family`` (such as the model that
    several versions belong to).

    Parameters
    ----------
    source : path or DataFrame
        CSV, TSV, JSON lines or Parquet file (each also gzipped), or a data frame.
    documents : Documents, Corpus, Values or iterable of str, optional
        The documents, or their ids. Documents without votes are kept; a vote on any other document is an error. By
        default the documents that occur, in order of appearance.
    classes : iterable of str, optional
        Classes in the wanted order; a vote on any other class is an error. By default those that occur, sorted.
    layout : {"auto", "long", "wide", "lists"}, default "auto"
        Layout of the table, if the header is misleading.
    partial : bool, default False
        In lists, treat classes that are not named as not judged (default: absent).
    present_at : float, optional
        Cells are scores; a score of at least this value means "present", and the votes are hard votes.
    ignore : collection of str, optional
        Columns to leave out.
    duplicates : {"error", "last", "first", "drop"}, default "error"
        Vote to keep if an annotator contradicts themselves ("drop": none). Equal votes count once; of votes with
        timestamps the latest is kept.
    blank : {"abstained", "none"}, optional
        Meaning of a blank cell in lists: no judgement, or no class applies (like ``[]``). By default "abstained", with
        a warning.
    encoding : str, optional
        Encoding of a text file that is not UTF-8.
    **columns : str
        ``doc=``, ``annotator=``, ``label=``, ``labels=``, ``value=``, ``probability=``, ``confidence=``, ``time=``,
        ``kind=`` and ``family=`` name the columns, if they do not have one of the usual names.

    Returns
    -------
    Votes
        Sorted by document, annotator and class.

    See Also
    --------
    palda.read : Reads exports of labelling platforms too.

    Examples
    --------
    >>> import pandas as pd
    >>> from palda import read_votes
    >>> table = pd.DataFrame({"doc": ["d1", "d1"], "annotator": ["ann", "bob"], "labels": ["trade", "trade;ships"]})
    >>> votes = read_votes(table)
    >>> votes.classes.tolist(), votes.yes_per_pair().tolist()
    (['ships', 'trade'], [[1, 2]])
    """
    if not isinstance(source, (pd.DataFrame, Table)) and is_archive(source):
        raise DataError(
            "is a folder or an archive, not a table of votes; if it is an export, use palda.read(...).votes",
            file=file_name(source),
        )
    return read_table_votes(
        as_table(source, encoding), documents, duplicates, classes=classes, layout=layout, partial=partial,
        present_at=present_at, ignore=ignore, blank=blank, columns=columns,
    )  # fmt: skip


def read_table_votes(
    table: Table, documents: Any = None, duplicates: validation.DuplicateRule = "error", **options: Any
) -> Votes:
    """Votes of a table, with the options of ``vote_rows``."""
    try:
        rows = vote_rows(table, documents, **options)
    except DataError:
        platform = platform_of(table.frame.columns)
        if platform is not None:
            raise DataError(
                f"is an export of {platform}, not a table of votes; use palda.read(...).votes", file=table.where.file
            ) from None
        raise
    if options.get("soft", True):  # gold labels may be known for few rows
        check_rows(table.where.file, rows.n_rows, rows.n_judging)
    if options.get("blank") is None and rows.n_blank:
        warn_about_blanks(rows.n_blank, rows.first_blank)
    return rows.records.votes(duplicates)


class VoteTable(NamedTuple):
    """Records of a table of votes, its layout, numbers of rows and of rows with a vote, and blank cells in lists."""

    records: VoteRecords
    layout: Layout
    n_rows: int
    n_judging: int
    n_blank: int = 0
    first_blank: str = ""


def vote_rows(
    table: Table,
    documents: Any = None,
    *,
    classes: Iterable[str] | None = None,
    layout: Layout = "auto",
    partial: bool = False,
    present_at: float | None = None,
    ignore: Collection[str] = (),
    blank: Literal["abstained", "none"] | None = None,
    columns: Mapping[str, str | None] | None = None,
    whole: bool = True,
    soft: bool = True,
) -> VoteTable:
    """Records of a table, with the options of ``read_votes``.

    A part of a table (not ``whole``) may have no classes. Without ``soft``, as for gold labels, votes are 0 or 1.
    """
    validation.require_choice(layout, ("auto", "long", "wide", "lists"), "layout")
    validation.require_choice(blank, (None, "abstained", "none"), "blank")
    columns = columns or {}
    _check_ignored(table, ignore)
    frame = table.frame.drop(columns=list(ignore))
    table = replace(table, frame=frame)
    found = roles(frame, (*LONG_COLUMNS, "labels", *OPTIONAL_COLUMNS), columns, table.where)
    require_columns(found, ("doc", "annotator"), frame, table.where)
    chosen = _layout(frame, found, columns) if layout == "auto" else layout
    if chosen == "long":
        named = {role: found[role] for role in (*LONG_COLUMNS, *OPTIONAL_COLUMNS)}
        named["kind"] = columns.get("kind")  # any other column of that name may say something else
        records = VoteRecords.from_frame(
            frame, documents=documents, classes=classes, present_at=present_at, where=table.where,
            declared=table.declared, soft=soft, **named,
        )  # fmt: skip
        return VoteTable(records, chosen, len(frame), int(np.count_nonzero(records.value != validation.BLANK)))
    if chosen == "wide":
        found = _wide_roles(frame, found, columns)
        matrix, probability, names = _wide_matrix(table, found, classes, present_at, soft=soft)
        records = _annotation_records(table, found, matrix, names, documents, columns, probability)
        return VoteTable(records, chosen, len(frame), _n_judging(matrix))
    if present_at is not None:
        raise DataError("present_at needs scores, but the votes are lists of classes", file=table.where.file)
    matrix, names, is_blank = list_matrix(table, found, classes, partial=partial, blank=blank, whole=whole)
    probability = _stated_probabilities(frame, found, matrix, table.where) if soft else None
    unite = found["labels"] is None
    records = _annotation_records(table, found, matrix, names, documents, columns, probability, unite=unite)
    n_judging = _n_judging(matrix)
    if not is_blank.any():
        return VoteTable(records, chosen, len(frame), n_judging)
    column = found["labels"] or found["label"]
    first = f"{table.where.file or 'votes'}, row {table.where.row(int(np.argmax(is_blank)))}, column {column!r}"
    return VoteTable(records, chosen, len(frame), n_judging, int(np.count_nonzero(is_blank)), first)


def _n_judging(matrix: NDArray[np.int8]) -> int:
    """Number of rows with at least one vote."""
    return int(np.count_nonzero((matrix != validation.BLANK).any(axis=1)))


def _check_ignored(table: Table, ignore: Collection[str]) -> None:
    if isinstance(ignore, str):
        raise DataError(f"ignore takes a list of columns: ignore=[{ignore!r}]", file=table.where.file)
    for name in ignore:
        if name not in table.frame.columns:
            table.where.fail(
                f"there is no column {name!r} to ignore; the columns are {validation.listed(table.frame.columns)}"
            )


def _layout(frame: pd.DataFrame, found: dict[str, str | None], given: Mapping[str, str | None]) -> Layout:
    if found["label"] and (found["value"] or found["probability"]) and not given.get("labels"):
        return "long"
    column = found["labels"] or found["label"]
    if column is None:
        return "wide"
    named_by_caller = given.get("labels") or given.get("label")
    return "wide" if not named_by_caller and _holds_votes(frame[column]) else "lists"


def _holds_votes(column: pd.Series[Any]) -> bool:
    """Whether a column has only votes and blanks: then "tag" or "category" is a class, not a column of lists."""
    votes = [validation.parse_vote(cell) for cell in factorize(column)[1]]
    return None not in votes and any(vote != validation.BLANK for vote in votes)


def _wide_roles(
    frame: pd.DataFrame, found: dict[str, str | None], given: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Columns of a wide table that are no classes: a "family" that holds votes is a class, like any other column."""
    named = set(given.values())
    return {
        role: None
        if column is not None
        and column not in named
        and (role in {"probability", "confidence"} or (role in {"kind", "family"} and _holds_votes(frame[column])))
        else column
        for role, column in found.items()
    }


def _wide_matrix(
    table: Table, found: dict[str, str | None], classes: Iterable[str] | None, present_at: float | None, *, soft: bool
) -> tuple[NDArray[np.int8], NDArray[np.float32] | None, Strings]:
    """Votes (rows, classes), their probabilities if there are any, and the classes."""
    taken = {found[role] for role in ("doc", "annotator", "time", "kind", "family")}
    present = [name for name in table.frame.columns if name not in taken]
    if not present:
        table.where.fail("there is no column with votes; add label and value, labels, or one column per class")
    names = names_array(sorted(present)) if classes is None else given_axis(classes, "class")
    known = set(names)
    for column in present:
        if column not in known:
            problem = validation.unknown_name(column, names.tolist(), "class")
            table.where.fail(f"{problem}; leave the column out with ignore=[{column!r}]", column=column)
    limits.check_n_cells(len(table.frame), len(names), table.where.file)
    matrix = np.full((len(table.frame), len(names)), validation.BLANK, dtype=np.int8)
    probability: NDArray[np.float32] | None = None
    for position, name in enumerate(names):
        if name in table.frame.columns:
            hint = f"; if {name!r} is not a class, pass ignore=[{name!r}]"
            value, stated = values_of(table.frame[name], present_at, table.where, hint, soft=soft)
            matrix[:, position] = value
            if stated is not None:
                if probability is None:
                    probability = np.full(matrix.shape, np.nan, dtype=np.float32)
                probability[:, position] = stated
    return matrix, probability, names


def _stated_probabilities(
    frame: pd.DataFrame, found: dict[str, str | None], matrix: NDArray[np.int8], where: validation.SourceLocation
) -> NDArray[np.float32] | None:
    """Probabilities (rows, classes) of the classes that lists name, from the column beside them."""
    named = VoteCells(np.ones(len(frame), dtype=np.int8))
    stated = probabilities_of(frame, found, named, where)
    return None if stated is None else np.where(matrix == 1, stated[:, None], np.float32(np.nan))


def _annotation_records(
    table: Table,
    found: dict[str, str | None],
    matrix: NDArray[np.int8],
    classes: Strings,
    documents: Any,
    given: Mapping[str, str | None],
    probability: NDArray[np.float32] | None,
    *,
    unite: bool = False,
) -> VoteRecords:
    """Records of a matrix with one row per answer; ``unite`` merges the answers of an annotator on a document."""
    frame, where = table.frame, table.where
    doc, doc_ids = codes_of(frame[found["doc"]], "document", documents, where, by_name=False, declared=table.declared)
    annotator, annotators = codes_of(frame[found["annotator"]], "annotator", None, where, declared=table.declared)
    time = None if found["time"] is None else times_of(frame[found["time"]], where)
    named = [column for column in given.values() if column is not None]
    kinds, families = annotator_traits(frame, found, annotator, annotators, where, named=named)
    return records_from_matrix(
        doc, annotator, matrix, doc_ids=doc_ids, annotators=annotators, classes=classes, where=where, time=time,
        unite=unite, probability=probability, annotator_kinds=kinds, annotator_families=families,
    )  # fmt: skip
