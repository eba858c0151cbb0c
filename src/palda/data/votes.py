"""Votes of annotators on pairs of documents and classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from palda.data import validation
from palda.data.frozen_arrays import Frozen, check_unique, freeze_fields, names_array, selection
from palda.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from palda.data.frozen_arrays import Rows, Strings

LONG_COLUMNS = ("doc", "annotator", "label", "value")
OPTIONAL_COLUMNS = ("probability", "confidence", "time", "kind", "family")
_PER_VOTE = ("probability", "time")
_PER_ANNOTATOR = ("annotator_kinds", "annotator_families")


def _no_names() -> Strings:
    return names_array(())


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
        1 for "present" and 0 for "absent"; of a soft vote, what its probability or the annotator says.
    doc_ids, annotators, classes : arrays of str
        Names, including those without votes.
    abstained : int32 array of shape (n_abstentions, 2)
        Pairs (document, annotator) of an annotator who looked at a document and judged nothing. This differs from
        judging every class as absent and from not having looked.
    probability : float32 array of shape (n_votes,) or (0,)
        Probability of "present" that the annotator stated (a soft vote), NaN for a hard vote; of length 0 if all votes
        are hard.
    time : float64 array of shape (n_votes,) or (0,)
        Seconds since 1970 (UTC), NaN where unknown; of length 0 if all are unknown.
    annotator_kinds, annotator_families : arrays of str of shape (n_annotators,) or (0,)
        "person", "model" or "" for unknown; and the name of the family (such as the versions of one model), or "". Of
        length 0 if all are unknown.

    Examples
    --------
    >>> from palda import Votes
    >>> votes = Votes.from_records([("d1", "ann", "trade", 1), ("d1", "bob", "trade", 0), ("d1", "bob", "ships", 1)])
    >>> len(votes), votes.annotators.tolist(), votes.classes.tolist()
    (3, ['ann', 'bob'], ['ships', 'trade'])
    >>> votes.per_pair().tolist(), votes.yes_per_pair().tolist()
    ([[1, 2]], [[1, 1]])

    A number between 0 and 1 is a soft vote:

    >>> soft = Votes.from_records([("d1", "ann", "trade", 0.75), ("d1", "bob", "trade", 0)])
    >>> soft.value.tolist(), soft.probability.tolist()
    ([1, 0], [0.75, nan])
    """

    doc: NDArray[np.int32]
    annotator: NDArray[np.int32]
    label: NDArray[np.int32]
    value: NDArray[np.int8]
    doc_ids: Strings
    annotators: Strings
    classes: Strings
    abstained: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 2), dtype=np.int32))
    probability: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, dtype=np.float32))
    time: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, dtype=np.float64))
    annotator_kinds: Strings = field(default_factory=_no_names)
    annotator_families: Strings = field(default_factory=_no_names)

    def __post_init__(self) -> None:
        self._drop_unknown()
        for name, length in (
            *((name, len(self)) for name in _PER_VOTE),
            *((name, self.n_annotators) for name in _PER_ANNOTATOR),
        ):
            if len(getattr(self, name)) not in (0, length):
                raise DataError(f"{name} has {len(getattr(self, name))} entries, not one for each of {length}")
        if (
            len(self.probability)
            and not ((self.probability >= 0) & (self.probability <= 1) | np.isnan(self.probability)).all()
        ):
            raise DataError("probabilities of votes must lie between 0 and 1")
        freeze_fields(self)
        for names, kind in (
            (self.doc_ids, "document id"),
            (self.annotators, "annotator"),
            (self.classes, "class"),
        ):
            check_unique(names, kind)

    def _drop_unknown(self) -> None:
        """Give optional fields that say nothing the length 0, so that equal votes have equal fields."""
        for name, kind in zip(_PER_VOTE, (np.float32, np.float64), strict=True):
            column = getattr(self, name)
            if len(column):
                column = column.astype(kind, copy=False)
                object.__setattr__(self, name, column[:0] if np.isnan(column).all() else column)
        for name in _PER_ANNOTATOR:
            if len(getattr(self, name)) and not any(getattr(self, name)):
                object.__setattr__(self, name, _no_names())

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
        return replace(
            self, **self._columns_at(kept) | {"doc": new_doc}, doc_ids=doc_ids, abstained=self._abstained_on(chosen)
        )

    def select(self, rows: Rows) -> Votes:
        """Some of the votes, by position or mask, in ascending order; the axes and abstentions stay the same."""
        return replace(self, **self._columns_at(selection(rows)))

    def of_annotators(self, positions: NDArray[np.int64]) -> Votes:
        """The votes of the annotators at ascending ``positions``, who are the only ones left; no abstentions."""
        number_of = np.full(self.n_annotators, -1, dtype=np.int32)
        number_of[positions] = np.arange(len(positions), dtype=np.int32)
        columns = self._columns_at(number_of[self.annotator] >= 0)
        columns["annotator"] = number_of[columns["annotator"]]
        columns |= {name: getattr(self, name)[positions] for name in _PER_ANNOTATOR if len(getattr(self, name))}
        return replace(self, **columns, annotators=self.annotators[positions], abstained=self.abstained[:0])

    def _columns_at(self, rows: NDArray[Any] | slice) -> dict[str, Any]:
        columns = {name: getattr(self, name)[rows] for name in LONG_COLUMNS}
        return columns | {name: getattr(self, name)[rows] for name in _PER_VOTE if len(getattr(self, name))}

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
            *(getattr(self, name)[rows] for name in _PER_VOTE),  # a slice of nothing is nothing
            self.annotator_kinds,
            self.annotator_families,
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
        found = Votes.from_frame(frame, documents=documents, classes=self.classes, where=where)
        return replace(found, **{name: getattr(self, name) for name in _PER_ANNOTATOR})

    @classmethod
    def assembled(cls, *parts: Any) -> Votes:
        """Votes from fields that are known to be valid (sorted, no duplicate names); skips the checks.

        Optional fields may be left out.
        """
        votes = object.__new__(cls)
        for position, spec in enumerate(fields(cls)):
            part: Any = parts[position] if position < len(parts) else cast("Any", spec.default_factory)()
            object.__setattr__(votes, spec.name, part)
        votes._drop_unknown()
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
        probability: NDArray[np.floating[Any]] | None = None,
        annotator_kinds: Strings | None = None,
        annotator_families: Strings | None = None,
        duplicates: validation.DuplicateRule = "error",
        where: validation.SourceLocation | None = None,
    ) -> Votes:
        """Votes from positions on the three axes; all readers use it.

        A record with ``value`` -1 has no judgement (its ``label`` may be -1 too): it becomes an abstention unless the
        same annotator judged another class of that document. ``time`` and ``probability`` have NaN where there is none.
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
            probability = None if probability is None else probability[judged]
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
            np.empty(0, dtype=np.float32) if probability is None else probability[kept].astype(np.float32),
            np.empty(0, dtype=np.float64) if time is None else time[kept],
            _no_names() if annotator_kinds is None else annotator_kinds,
            _no_names() if annotator_families is None else annotator_families,
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
        """Votes from an array (documents, annotators, classes) of 1, 0, and -1 or NaN for no judgement.

        A number between 0 and 1 is a soft vote: the probability of "present". 1/2 is no judgement.
        """
        votes = np.asarray(array)
        if votes.ndim != 3 or votes.dtype.kind not in "biuf":
            raise DataError(
                f"votes need a numeric array of shape (documents, annotators, classes), not {votes.dtype} "
                f"of shape {votes.shape}"
            )
        missing = np.isin(votes, (validation.BLANK, validation.HALF)) | (
            np.isnan(votes) if votes.dtype.kind == "f" else False
        )
        bad = ~missing & ~((votes >= 0) & (votes <= 1))
        if bad.any():
            place = tuple(int(i) for i in np.argwhere(bad)[0])
            raise DataError(
                f"vote {votes[place]} at [document, annotator, class] {list(place)} is not from 0 to 1, -1 or NaN"
            )
        names = [
            names_array(range(size) if given is None else given)
            for given, size in zip((doc_ids, annotators, classes), votes.shape, strict=True)
        ]
        for axis, kind, size in zip(names, ("document ids", "annotators", "classes"), votes.shape, strict=True):
            if len(axis) != size:
                raise DataError(f"{len(axis)} {kind} were given for an array of shape {votes.shape}")
        doc, annotator, label = np.nonzero(~missing)
        value = votes[doc, annotator, label]
        probability = None
        if votes.dtype.kind == "f":
            probability = np.where((value > 0) & (value < 1), value, np.nan)
            value = value > validation.HALF
        return cls.from_codes(
            doc, annotator, label, value.astype(np.int8), doc_ids=names[0], annotators=names[1], classes=names[2],
            probability=probability,
        )  # fmt: skip

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
        categorical column, else of first appearance. Annotators and classes are sorted unless categorical or given. A
        class that no row names exists only if it is in ``classes``: unused categories of labels are left out.
        A value between 0 and 1 is a soft vote: the probability of "present"; 1/2 is no judgement. A column
        ``confidence`` says how certain the annotator is of the value beside it, and ``probability`` how probable
        "present" is. Other optional columns are the time (``timestamp``, ``created_at``), and the kind ("person" or
        "model") and family of the annotator. ``doc=``, ``annotator=``, ``label=``, ``value=``, ``probability=``,
        ``confidence=``, ``time=``, ``kind=`` and ``family=`` name the columns if needed.
        """
        from palda.data.vote_records import VoteRecords

        records = VoteRecords.from_frame(
            frame,
            documents=documents,
            classes=classes,
            present_at=present_at,
            where=where,
            declared=declared,
            soft=True,
            **columns,
        )
        return records.votes(duplicates)

    def to_frame(self) -> pd.DataFrame:
        """Votes as a long data frame; its categorical columns have all names.

        ``from_frame`` returns equal votes from it, with ``classes=votes.classes`` if there are classes without votes.
        An abstention is a row without label and value. There are columns ``probability``, ``timestamp``, ``kind`` and
        ``family`` if any vote or annotator has one.
        """
        import pandas as pd

        n_abstained = len(self.abstained)
        doc = np.concatenate((self.doc, self.abstained[:, 0]))
        annotator = np.concatenate((self.annotator, self.abstained[:, 1]))
        label = np.concatenate((self.label, np.full(n_abstained, -1, dtype=np.int32)))
        value = pd.array(np.concatenate((self.value, np.zeros(n_abstained, dtype=np.int8))), dtype="Int8")
        value[len(self) :] = pd.NA
        frame = pd.DataFrame(
            {
                "doc": pd.Categorical.from_codes(doc, categories=self.doc_ids.tolist()),
                "annotator": pd.Categorical.from_codes(annotator, categories=self.annotators.tolist()),
                "label": pd.Categorical.from_codes(label, categories=self.classes.tolist()),
                "value": value,
            }
        )
        for name, column in (("probability", self.probability), ("timestamp", self.time)):
            if len(column):
                frame[name] = np.concatenate((column, np.full(n_abstained, np.nan, dtype=column.dtype)))
        for name, traits in (("kind", self.annotator_kinds), ("family", self.annotator_families)):
            if len(traits):
                frame[name] = traits[annotator]
        return frame
