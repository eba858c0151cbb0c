"""Votes of annotators on pairs of documents and classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import validation
from palda.data.frozen_arrays import Frozen, check_unique, freeze_fields, names_array, selection
from palda.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from palda.data.frozen_arrays import Rows, Strings

LONG_COLUMNS = ("doc", "annotator", "label", "value")


@dataclass(frozen=True, eq=False)
class Votes(Frozen):
    """Votes of annotators on pairs of documents and classes, sorted by document, annotator and class.

    A missing vote means "not judged", never "absent". Make votes with ``read_votes``, ``from_records``, ``from_frame``
    or ``from_array``; the constructor checks little.

    Attributes
    ----------
    doc, annotator, label : int32 arrays of shape (n_votes,)
        Positions in ``doc_ids``, ``annotators`` and ``classes``.
    value : int8 array of shape (n_votes,)
        1 for "present" and 0 for "absent".
    doc_ids, annotators, classes : arrays of str
        Names, including those without votes.
    abstained : int32 array of shape (n_abstentions, 2)
        Pairs (document, annotator) of an annotator who looked at a document and judged nothing. This differs from
        judging every class as absent and from not having looked.

    Examples
    --------
    >>> from palda import Votes
    >>> votes = Votes.from_records([("d1", "ann", "trade", 1), ("d1", "bob", "trade", 0), ("d1", "bob", "ships", 1)])
    >>> len(votes), votes.annotators.tolist(), votes.classes.tolist()
    (3, ['ann', 'bob'], ['ships', 'trade'])
    >>> votes.per_pair().tolist(), votes.yes_per_pair().tolist()
    ([[1, 2]], [[1, 1]])
    """

    doc: NDArray[np.int32]
    annotator: NDArray[np.int32]
    label: NDArray[np.int32]
    value: NDArray[np.int8]
    doc_ids: Strings
    annotators: Strings
    classes: Strings
    abstained: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 2), dtype=np.int32))

    def __post_init__(self) -> None:
        freeze_fields(self)
        for names, kind in (
            (self.doc_ids, "document id"),
            (self.annotators, "annotator"),
            (self.classes, "class"),
        ):
            check_unique(names, kind)

    def __len__(self) -> int:
        return len(self.value)

    def __repr__(self) -> str:
        return (
            f"Votes({len(self)} votes of {self.n_annotators} annotators on {self.n_docs} documents x "
            f"{self.n_classes} classes)"
        )

    @property
    def n_docs(self) -> int:
        """Number of documents, including those without votes."""
        return len(self.doc_ids)

    @property
    def n_annotators(self) -> int:
        """Number of annotators, including those without votes."""
        return len(self.annotators)

    @property
    def n_classes(self) -> int:
        """Number of classes, including those without votes."""
        return len(self.classes)

    @cached_property
    def doc_starts(self) -> NDArray[np.int64]:
        """(documents + 1,): the votes on document d are rows ``doc_starts[d]:doc_starts[d + 1]``."""
        return np.searchsorted(self.doc, np.arange(self.n_docs + 1)).astype(np.int64)

    @cached_property
    def pair(self) -> NDArray[np.int64]:
        """(votes,): position of each vote in a flattened table (documents, classes)."""
        pair = self.doc.astype(np.int64)
        pair *= self.n_classes
        pair += self.label
        return pair

    def per_pair(self) -> NDArray[np.int64]:
        """(documents, classes): number of votes per pair."""
        return self._pair_counts(None)

    def yes_per_pair(self) -> NDArray[np.int64]:
        """(documents, classes): number of votes for "present" per pair."""
        return self._pair_counts(self.value == 1)

    def _pair_counts(self, which: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        pair = self.pair if which is None else self.pair[which]
        return np.bincount(pair, minlength=self.n_docs * self.n_classes).reshape(self.n_docs, self.n_classes)

    def per_annotator(self) -> NDArray[np.int64]:
        """(annotators,): number of votes per annotator."""
        return np.bincount(self.annotator, minlength=self.n_annotators)

    def take(self, rows: Rows) -> Votes:
        """Votes on some documents, which are renumbered; annotators and classes stay the same.

        A slice with step 1 copies only the column of documents.
        """
        rows = selection(rows)
        doc_ids = self.doc_ids[rows]
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.n_docs)
            if step == 1:
                return self._doc_range(start, max(start, stop))
        chosen = np.arange(self.n_docs)[rows]
        starts, stops = self.doc_starts[chosen], self.doc_starts[chosen + 1]
        lengths = stops - starts
        new_doc = np.repeat(np.arange(len(chosen), dtype=np.int32), lengths)
        first_of_run = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
        kept = first_of_run + np.arange(len(new_doc))
        return Votes(
            new_doc,
            self.annotator[kept],
            self.label[kept],
            self.value[kept],
            doc_ids,
            self.annotators,
            self.classes,
            self._abstained_on(chosen),
        )

    def _doc_range(self, start: int, stop: int) -> Votes:
        rows = slice(int(self.doc_starts[start]), int(self.doc_starts[stop]))
        inside = slice(*np.searchsorted(self.abstained[:, 0], [start, stop]))
        return Votes.assembled(
            self.doc[rows] - np.int32(start),
            self.annotator[rows],
            self.label[rows],
            self.value[rows],
            self.doc_ids[start:stop],
            self.annotators,
            self.classes,
            self.abstained[inside] - np.array([start, 0], dtype=np.int32),
        )

    def _abstained_on(self, chosen: NDArray[np.int64]) -> NDArray[np.int32]:
        if not len(self.abstained):
            return self.abstained
        position = np.full(self.n_docs, -1, dtype=np.int32)
        position[chosen] = np.arange(len(chosen), dtype=np.int32)
        pairs = np.column_stack((position[self.abstained[:, 0]], self.abstained[:, 1]))
        pairs = pairs[pairs[:, 0] >= 0]
        return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]

    def on_documents(self, documents: Iterable[object], where: validation.SourceLocation | None = None) -> Votes:
        """The votes with other documents as rows, matched by id; a vote on any other document is an error."""
        frame = self.to_frame().astype({"doc": object})
        return Votes.from_frame(frame, documents=documents, classes=self.classes, where=where)

    @classmethod
    def assembled(cls, *parts: Any) -> Votes:
        """Votes from fields that are known to be valid (sorted, no duplicate names); skips the checks."""
        votes = object.__new__(cls)
        for spec, part in zip(fields(cls), parts, strict=True):
            object.__setattr__(votes, spec.name, part)
        freeze_fields(votes)
        return votes

    @classmethod
    def empty(cls, doc_ids: Iterable[object], classes: Iterable[object], annotators: Iterable[object] = ()) -> Votes:
        """No votes, with given documents, classes and annotators."""
        nothing = np.empty(0, dtype=np.int32)
        return cls(
            nothing,
            nothing,
            nothing,
            nothing.astype(np.int8),
            names_array(doc_ids),
            names_array(annotators),
            names_array(classes),
        )

    @classmethod
    def from_codes(
        cls,
        doc: NDArray[np.integer[Any]],
        annotator: NDArray[np.integer[Any]],
        label: NDArray[np.integer[Any]],
        value: NDArray[np.integer[Any]],
        *,
        doc_ids: Strings,
        annotators: Strings,
        classes: Strings,
        time: NDArray[np.float64] | None = None,
        duplicates: validation.DuplicateRule = "error",
        where: validation.SourceLocation | None = None,
    ) -> Votes:
        """Votes from positions on the three axes; all readers use it.

        A record with ``value`` -1 has no judgement (its ``label`` may be -1 too): it becomes an abstention unless the
        same annotator judged another class of that document.
        """
        where = where or validation.SourceLocation()
        n_annotators, n_classes = max(len(annotators), 1), max(len(classes), 1)
        if len(doc_ids) * n_annotators * n_classes > np.iinfo(np.int64).max:
            raise DataError(
                f"{len(doc_ids)} documents x {n_annotators} annotators x {n_classes} classes are too many "
                "to be numbered; are the columns mixed up?"
            )
        view = doc.astype(np.int64) * n_annotators + annotator
        abstentions = np.empty(0, dtype=np.int64)
        if len(value) and value.min() == validation.BLANK:
            judged = np.flatnonzero(value != validation.BLANK)
            abstentions = np.setdiff1d(view, view[judged])
            doc, annotator, label, value = doc[judged], annotator[judged], label[judged], value[judged]
            view = view[judged]
            time = None if time is None else time[judged]
            where = where.subset(judged)

        def describe(record: int) -> str:
            return (
                f"the vote {int(value[record])} of annotator {validation.shown(annotators[annotator[record]])} on "
                "document "
                f"{validation.shown(doc_ids[doc[record]])}, class {validation.shown(classes[label[record]])},"
            )

        kept = validation.keep_one_vote_each(
            view * n_classes + label,
            value.astype(np.int8, copy=False),
            time=time,
            rule=duplicates,
            describe=describe,
            where=where,
        )
        return cls(
            doc[kept].astype(np.int32, copy=False),
            annotator[kept].astype(np.int32, copy=False),
            label[kept].astype(np.int32, copy=False),
            value[kept].astype(np.int8),
            doc_ids,
            annotators,
            classes,
            np.column_stack(np.divmod(abstentions, n_annotators)).astype(np.int32),
        )

    @classmethod
    def from_array(
        cls,
        array: object,
        *,
        doc_ids: Iterable[object] | None = None,
        annotators: Iterable[object] | None = None,
        classes: Iterable[object] | None = None,
    ) -> Votes:
        """Votes from an array (documents, annotators, classes) of 1, 0, and -1 or NaN for no judgement."""
        votes = np.asarray(array)
        if votes.ndim != 3 or votes.dtype.kind not in "biuf":
            raise DataError(
                f"votes need a numeric array of shape (documents, annotators, classes), not {votes.dtype} "
                f"of shape {votes.shape}"
            )
        missing = (votes == validation.BLANK) | (np.isnan(votes) if votes.dtype.kind == "f" else False)
        bad = ~missing & (votes != 0) & (votes != 1)
        if bad.any():
            place = tuple(int(i) for i in np.argwhere(bad)[0])
            raise DataError(f"vote {votes[place]} at [document, annotator, class] {list(place)} is not 0, 1, -1 or NaN")
        names = [
            names_array(range(size) if given is None else given)
            for given, size in zip((doc_ids, annotators, classes), votes.shape, strict=True)
        ]
        for axis, kind, size in zip(names, ("document ids", "annotators", "classes"), votes.shape, strict=True):
            if len(axis) != size:
                raise DataError(f"{len(axis)} {kind} were given for an array of shape {votes.shape}")
        doc, annotator, label = np.nonzero(~missing)
        value = votes[doc, annotator, label].astype(np.int8)
        return cls.from_codes(doc, annotator, label, value, doc_ids=names[0], annotators=names[1], classes=names[2])

    @classmethod
    def from_records(
        cls,
        records: Iterable[Sequence[object] | Mapping[str, object]],
        **options: Any,
    ) -> Votes:
        """Votes from rows (doc, annotator, label, value), as tuples or mappings, with the options of ``from_frame``."""
        import pandas as pd

        rows = list(records)
        if rows and isinstance(rows[0], Mapping):
            frame = pd.DataFrame(rows, dtype=object)
        else:
            for position, row in enumerate(rows):
                if len(row) != len(LONG_COLUMNS):
                    raise DataError(f"record {position} has {len(row)} fields, not doc, annotator, label, value")
            frame = pd.DataFrame(rows, columns=list(LONG_COLUMNS), dtype=object)
        return cls.from_frame(frame, **options)

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        documents: Iterable[object] | None = None,
        classes: Iterable[object] | None = None,
        present_at: float | None = None,
        duplicates: validation.DuplicateRule = "error",
        where: validation.SourceLocation | None = None,
        declared: bool = True,
        **columns: str | None,
    ) -> Votes:
        """Votes from a long data frame: one row per vote, columns doc, annotator, label, value (or usual other names).

        Documents have the order of ``documents`` (any object with ``doc_ids``, or the ids), else of the categories of a
        categorical column, else of first appearance. Annotators and classes are sorted unless categorical or given.
        ``doc=``, ``annotator=``, ``label=``, ``value=`` and ``time=`` name the columns if needed.
        """
        records = VoteRecords.from_frame(
            frame,
            documents=documents,
            classes=classes,
            present_at=present_at,
            where=where,
            declared=declared,
            **columns,
        )
        return records.votes(duplicates)

    def to_frame(self) -> pd.DataFrame:
        """Votes as a long data frame; its categorical columns have all names, so ``from_frame`` returns equal votes.

        An abstention is a row without label and value.
        """
        import pandas as pd

        n_abstained = len(self.abstained)
        doc = np.concatenate((self.doc, self.abstained[:, 0]))
        annotator = np.concatenate((self.annotator, self.abstained[:, 1]))
        label = np.concatenate((self.label, np.full(n_abstained, -1, dtype=np.int32)))
        value = pd.array(np.concatenate((self.value, np.zeros(n_abstained, dtype=np.int8))), dtype="Int8")
        value[len(self) :] = pd.NA
        return pd.DataFrame(
            {
                "doc": pd.Categorical.from_codes(doc, categories=self.doc_ids.tolist()),
                "annotator": pd.Categorical.from_codes(annotator, categories=self.annotators.tolist()),
                "label": pd.Categorical.from_codes(label, categories=self.classes.tolist()),
                "value": value,
            }
        )


@dataclass(frozen=True)
class VoteRecords:
    """Rows of a file of votes as positions on three axes, before duplicates are resolved.

    A ``value`` of -1 means no judgement. With ``unite``, the rows of one annotator on one document form one answer.
    """

    doc: NDArray[np.integer[Any]]
    annotator: NDArray[np.integer[Any]]
    label: NDArray[np.integer[Any]]
    value: NDArray[np.integer[Any]]
    doc_ids: Strings
    annotators: Strings
    classes: Strings
    where: validation.SourceLocation
    time: NDArray[np.float64] | None = None
    unite: bool = False

    def votes(self, duplicates: validation.DuplicateRule = "error") -> Votes:
        """Votes after duplicates are resolved."""
        records = self._subset(self._merged_rows()) if self.unite else self
        return Votes.from_codes(
            records.doc, records.annotator, records.label, records.value, doc_ids=self.doc_ids,
            annotators=self.annotators, classes=self.classes, time=records.time, duplicates=duplicates,
            where=records.where,
        )  # fmt: skip

    def _subset(self, rows: NDArray[np.int64]) -> VoteRecords:
        columns = {name: getattr(self, name)[rows] for name in LONG_COLUMNS}
        return replace(
            self, **columns, time=None if self.time is None else self.time[rows], where=self.where.subset(rows)
        )

    def _merged_rows(self) -> NDArray[np.int64]:
        """One row per annotator, document and class: "present" takes precedence over "absent"."""
        key = self.doc.astype(np.int64) * len(self.annotators) + self.annotator
        key = key * (len(self.classes) + 1) + self.label + 1
        order = np.lexsort((-self.value, key))
        first = np.ones(len(order), dtype=bool)
        first[1:] = key[order][1:] != key[order][:-1]
        return order[first]

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        documents: Iterable[object] | None = None,
        classes: Iterable[object] | None = None,
        present_at: float | None = None,
        where: validation.SourceLocation | None = None,
        declared: bool = True,
        **columns: str | None,
    ) -> VoteRecords:
        """Records of a long data frame, with the options of ``Votes.from_frame``."""
        from palda.data.columns import codes_of, require_columns, roles, times_of, values_of

        where = where or validation.SourceLocation(first_row=0)
        found = roles(frame, (*LONG_COLUMNS, "time"), columns, where)
        require_columns(found, LONG_COLUMNS, frame, where)
        value = values_of(frame[found["value"]], present_at, where)
        doc, doc_ids = codes_of(frame[found["doc"]], "document", documents, where, by_name=False, declared=declared)
        annotator, annotators = codes_of(frame[found["annotator"]], "annotator", None, where, declared=declared)
        label, names = codes_of(
            frame[found["label"]], "class", classes, where, declared=declared, may_be_blank=value == validation.BLANK
        )
        time = times_of(frame[found["time"]], where) if found["time"] else None
        return cls(doc, annotator, label, value, doc_ids, annotators, names, where, time)
