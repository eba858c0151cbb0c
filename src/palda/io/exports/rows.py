"""Shared parts of the export readers: rows with their location, cells, and the collection of documents and answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import mktime_tz, parsedate_tz
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from palda.data import validation
from palda.errors import DataError
from palda.io import limits
from palda.io.annotations import Annotation, dataset_from_annotations
from palda.io.coverage import Coverage
from palda.io.files import file_name
from palda.io.table_files import read_table

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from palda.data import Dataset

    Source = str | os.PathLike[str]


class Answer(NamedTuple):
    """Classes that one person judged present and absent, as in ``Annotation``."""

    present: Collection[str] | None
    absent: Collection[str] | None = None


ABSTAINED = Answer(None)


@dataclass(frozen=True)
class Row:
    """One record of an export and its location: a spreadsheet row, a line, or the number of a task."""

    file: str
    number: int
    cells: Mapping[str, Any]

    def fail(self, problem: str, column: str | None = None) -> NoReturn:
        """Raise the error that names this row."""
        raise DataError(problem, file=self.file, row=self.number, column=column)

    def name(self, column: str) -> str:
        """An id or a name; "" for a blank cell."""
        value = self.cells.get(column)
        if isinstance(value, (dict, list)):
            self.fail(f"{validation.shown(value)} is not a name", column)
        return validation.name_text(value)

    def text(self, column: str | None) -> str:
        """A text, unchanged; "" for a blank cell or a missing column."""
        value = None if column is None else self.cells.get(column)
        if isinstance(value, str):
            return value
        if isinstance(value, (dict, list)):
            self.fail(f"{validation.shown(value)} is not text; name the text with text='...'", column)
        return validation.name_text(value)


class Export:
    """Documents and annotations of an export, collected row by row.

    ``answers`` is the platform's word for annotations, ``abstained`` its word for those without a judgement. ``kinds``
    and ``families`` of annotators may be set by name.
    """

    def __init__(self, answers: str, abstained: str) -> None:
        self._coverage = Coverage(answers)
        self._abstained = abstained
        self._texts: dict[str, str] = {}
        self._fields: dict[str, dict[str, Any]] = {}
        self._annotations: list[Annotation] = []
        self._classes: set[str] = set()
        self.kinds: dict[str, str] = {}
        self.families: dict[str, str] = {}

    def add_document(self, row: Row, doc: str, text: str, fields: Mapping[str, Any]) -> None:
        """Add a document; if it occurs again its text must be equal, and its other fields are ignored."""
        if not doc:
            row.fail("the document id is blank")
        known = self._texts.setdefault(doc, text)
        if known.strip() != text.strip():
            row.fail(
                f"document {validation.shown(doc)} has the text {validation.shown(text, 40)} here but "
                f"{validation.shown(known, 40)} before; an id must have one text"
            )
        if doc not in self._fields:
            self._fields[doc] = dict(fields)

    def add_annotation(
        self,
        row: Row,
        doc: str,
        annotator: str,
        answer: Answer,
        *,
        time: float | None = None,
        gold: bool = False,
        probabilities: Mapping[str, float] | None = None,
    ) -> None:
        """Add an answer, or with ``gold`` the gold labels, about a document that was added before."""
        if not annotator and not gold:
            row.fail("the annotator is blank; write a name there or remove the annotation")
        if answer.present is None and not gold:
            self._coverage.unused[self._abstained] += 1
        elif not gold:
            self._coverage.n_judging += 1
        self._annotations.append(
            Annotation(
                doc,
                annotator,
                answer.present,
                row.number,
                answer.absent,
                time=time,
                gold=gold,
                probabilities=probabilities,
            )
        )

    def add_unused(self, reason: str) -> None:
        """Count an answer that gives no vote, such as a rejected assignment."""
        self._coverage.unused[reason] += 1

    def add_doubt(self, doubt: str) -> None:
        """Count an answer that is read as votes although something is odd; it matters if most answers are like it."""
        self._coverage.doubts[doubt] += 1

    def advise(self, reason: str, advice: str) -> None:
        """What users can do if answers are not used for a reason."""
        self._coverage.advice[reason] = advice

    def add_classes(self, names: Iterable[str]) -> None:
        """Add classes that were asked about, whether or not anybody chose them."""
        self._classes.update(names)

    def dataset(
        self,
        path: Source,
        *,
        classes: Iterable[str] | None,
        partial: bool,
        duplicates: validation.DuplicateRule,
    ) -> Dataset:
        """Dataset of everything added; without ``classes``, the classes are those asked about or chosen, sorted.

        Raises ``DataError`` if it has neither votes nor gold labels, and warns if few of the answers are votes.
        """
        validation.require_choice(duplicates, ("error", "last", "first", "drop"), "duplicates")
        if classes is None and self._classes:
            names = set(self._classes)
            for annotation in self._annotations:
                names.update(annotation.present or (), annotation.absent or (), annotation.probabilities or ())
            classes = sorted(names)
        dataset = dataset_from_annotations(
            self._annotations,
            self._texts,
            file=file_name(path),
            classes=classes,
            partial=partial,
            duplicates=duplicates,
            fields=self._columns(file_name(path)),
            kinds=self.kinds,
            families=self.families,
        )
        self._coverage.check(
            file_name(path),
            n_classes=len(dataset.classes),
            has_votes=len(dataset.votes) > 0,
            has_gold=bool((dataset.gold != validation.BLANK).any()),
        )
        return dataset

    def _columns(self, file: str) -> dict[str, np.ndarray[Any, Any]]:
        names = dict.fromkeys(name for fields in self._fields.values() for name in fields)
        limits.check_n_fields(len(names), file, what="different fields")
        limits.check_density(self._fields.values(), len(self._fields), len(names), file)
        columns: dict[str, np.ndarray[Any, Any]] = {}
        for position, fields in enumerate(self._fields.values()):
            for name, value in fields.items():
                if name not in columns:
                    columns[name] = np.full(len(self._fields), None, dtype=object)
                columns[name][position] = value
        return columns


def table_rows(path: Source, encoding: str | None) -> list[Row]:
    """Rows of a table; blank rows are skipped."""
    table = read_table(path, encoding)
    header = [str(column) for column in table.frame.columns]
    columns = [table.frame[column].tolist() for column in table.frame.columns]
    return [
        Row(file_name(path), table.where.row(record), dict(zip(header, cells, strict=True)))
        for record, cells in enumerate(zip(*columns, strict=True))
        if not all(map(is_empty, cells))
    ]


def field_names(rows: Sequence[Row], file: str) -> list[str]:
    """Names of all fields of the records, in order of appearance; too many, or too different ones, are an error."""
    names = list(dict.fromkeys(name for row in rows for name in row.cells))
    limits.check_n_fields(len(names), file, what="different fields")
    limits.check_density((row.cells for row in rows), len(rows), len(names), file)
    return names


def text_field(names: Sequence[str], given: str | None, file: str) -> str | None:
    """Field that holds the text: the given one, else one with a usual name, else the only one."""
    where = validation.SourceLocation(file)
    found = validation.find_column(names, "text", given, where)
    if found is None and len(names) > 1:
        where.fail(f"which field is the text? choose one of {validation.listed(names)} with text='...'")
    return found or next(iter(names), None)


def is_empty(cell: object) -> bool:
    """Whether a cell is blank. Unlike in votes, "NA" is not blank: it may be a class."""
    return (
        cell is None or (isinstance(cell, float) and math.isnan(cell)) or (isinstance(cell, str) and not cell.strip())
    )


def is_true(cell: object) -> bool:
    """Whether a cell is true, as JSON or a spreadsheet writes it."""
    return validation.parse_value(cell) == 1


def class_names(value: object) -> list[str] | None:
    """Names in a list of classes; None for anything else."""
    if not isinstance(value, list):
        return None
    if not all(isinstance(name, (str, int, float)) and not isinstance(name, bool) for name in value):
        return None
    return [name for name in map(validation.name_text, value) if name]


def moment(value: object) -> float | None:
    """Time in seconds since 1970, from a number, an ISO time or one like "Tue May 14 09:12:33 PDT 2024".

    A time without a zone is UTC. None if it cannot be read: times only order the answers of one person, and then the
    order is unknown.
    """
    if isinstance(value, (int, float)):
        return float(value) if abs(value) < _MAX_TIME else None
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value.strip())
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return _mail_time(value)


_MAX_TIME = 1e15  # seconds; also excludes infinity and NaN


def _mail_time(text: str) -> float | None:
    try:
        parts = parsedate_tz(text)
        return None if parts is None else float(mktime_tz(parts))
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
