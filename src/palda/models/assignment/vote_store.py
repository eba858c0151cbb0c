"""The votes of a model while people go on voting: new, changed and withdrawn votes at a cost in proportion to them.

All votes on the documents that changed are held apart from the others, which are never moved for a change. When the
changed documents have become many, both parts are merged.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palda.data import Votes, names_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Array, Strings

    Ints = NDArray[np.int64]

_MAX_RECENT, _MAX_RECENT_SHARE = 50_000, 0.05  # votes on changed documents before both parts are merged
WITHDRAWN = -1
"""Value of a change that removes a vote."""


class VoteChanges(NamedTuple):
    """Votes that are new or changed, or withdrawn; later ones count if a vote changes twice.

    A change without a label (-1) is an abstention: it removes all votes of the annotator on the document.
    """

    doc: Ints
    annotator: Ints
    label: Ints
    value: NDArray[np.int8]
    probability: Array
    """(changes,): stated probabilities, NaN for hard votes."""
    time: Array
    """(changes,): seconds since 1970, NaN where unknown."""

    @classmethod
    def none(cls) -> VoteChanges:
        """No change."""
        nothing = np.empty(0, dtype=np.int64)
        return cls(nothing, nothing, nothing, nothing.astype(np.int8), np.empty(0), np.empty(0))

    @classmethod
    def of(cls, votes: Votes, docs: Ints) -> VoteChanges:
        """Votes on the documents ``docs``, one for each document of ``votes``, and their abstentions."""
        n_votes, n_abstained = len(votes), len(votes.abstained)
        nothing, blank = np.full(n_abstained, np.nan), np.full(n_abstained, -1)
        columns = (column if len(column) else np.full(n_votes, np.nan) for column in (votes.probability, votes.time))
        return cls(
            docs[np.concatenate((votes.doc, votes.abstained[:, 0]))],
            np.concatenate((votes.annotator, votes.abstained[:, 1])).astype(np.int64),
            np.concatenate((votes.label, blank)).astype(np.int64),
            np.concatenate((votes.value, blank)).astype(np.int8),
            *(np.concatenate((column, nothing)).astype(np.float64) for column in columns),
        )


@dataclass(frozen=True, eq=False)
class VoteStore:
    """Votes on the training documents of a model, with the current annotators."""

    rest: Votes
    """Votes as they were when both parts were last merged; those on ``docs`` no longer count."""
    annotators: Strings
    kinds: Strings
    families: Strings
    docs: Ints
    """Documents that changed since then, ascending,"""
    recent: Votes
    """and all votes on them."""
    cache: dict[str, Ints] = field(default_factory=dict, repr=False)
    """What depends on ``rest`` alone."""

    @classmethod
    def of(cls, votes: Votes) -> VoteStore:
        """A store of these votes."""
        no_docs = np.empty(0, dtype=np.int64)
        traits = votes.annotator_kinds, votes.annotator_families
        return cls(votes, votes.annotators, *traits, no_docs, votes.take(no_docs))

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return self.rest.n_docs

    def __len__(self) -> int:
        """Number of votes."""
        return len(self.rest) - self._n_replaced + len(self.recent)

    @property
    def _n_replaced(self) -> int:
        starts = self.rest.doc_starts
        return int(np.sum(starts[self.docs + 1] - starts[self.docs]))

    def take(self, docs: Ints) -> Votes:
        """Votes on some documents, given in ascending order; they are renumbered."""
        place = np.searchsorted(self.docs, docs)
        changed = np.zeros(len(docs), dtype=bool)
        inside = place < len(self.docs)
        changed[inside] = self.docs[place[inside]] == docs[inside]
        untouched, touched = np.flatnonzero(~changed), np.flatnonzero(changed)
        if not len(touched):
            return self._with_axes(self.rest.take(docs))
        parts = ((untouched, self.rest.take(docs[untouched])), (touched, self.recent.take(place[touched])))
        return self._with_axes(_united(parts, self.rest.doc_ids[docs]))

    @cached_property
    def all_votes(self) -> Votes:
        """The votes on all documents."""
        if not len(self.docs) and self.rest.n_annotators == len(self.annotators):
            return self.rest
        return self.take(np.arange(self.n_docs))

    def with_annotators(
        self, names: Sequence[str], kinds: Sequence[str] = (), families: Sequence[str] = ()
    ) -> VoteStore:
        """The store with more annotators, who have no votes yet; traits are "" where they are unknown."""
        n_old, n_new = len(self.annotators), len(names)
        return replace(
            self,
            annotators=names_array([*self.annotators, *names]),
            kinds=_extended(self.kinds, n_old, list(kinds), n_new),
            families=_extended(self.families, n_old, list(families), n_new),
        )

    def changed(self, changes: VoteChanges) -> tuple[VoteStore, Ints]:
        """The store after some changes, and the documents whose votes differ, ascending."""
        touched = np.unique(changes.doc)
        before = self.take(touched)
        after = _applied(before, changes._replace(doc=np.searchsorted(touched, changes.doc)))
        differs = _differing_documents(before, after)
        touched, after = touched[differs], after.take(differs)
        if not len(touched):
            return self, touched
        others = np.flatnonzero(~np.isin(self.docs, touched))
        docs = np.concatenate((self.docs[others], touched))
        order = np.argsort(docs)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        docs = docs[order]
        parts = (rank[: len(others)], self.recent.take(others)), (rank[len(others) :], after)
        recent = self._with_axes(_united(parts, self.rest.doc_ids[docs]))
        store = replace(self, docs=docs, recent=recent)
        return (store.merged() if store.is_fragmented else store), touched

    @property
    def is_fragmented(self) -> bool:
        """Whether so many documents have changed that both parts should be merged."""
        return len(self.recent) > _MAX_RECENT + _MAX_RECENT_SHARE * len(self.rest)

    def merged(self) -> VoteStore:
        """The same votes in one part."""
        return VoteStore.of(self.all_votes)

    def with_documents(self, votes: Votes) -> VoteStore:
        """The store with the votes on further documents; ``votes`` has the annotators of the store."""
        old = self.all_votes
        n_old = old.n_docs
        parts = (np.arange(n_old), old), (n_old + np.arange(votes.n_docs), votes)
        return VoteStore.of(self._with_axes(_united(parts, names_array([*old.doc_ids, *votes.doc_ids]))))

    def looks(self) -> Ints:
        """(looks, 2): pairs (document, annotator) of everybody who judged a class of a document, or looked at it."""
        if "looks" not in self.cache:
            self.cache["looks"] = looks_of(self.rest)
        old, recent = self.cache["looks"], looks_of(self.recent)
        if not len(self.docs):
            return old
        is_current = np.ones(self.n_docs, dtype=bool)
        is_current[self.docs] = False
        recent[:, 0] = self.docs[recent[:, 0]]
        return np.concatenate((old[is_current[old[:, 0]]], recent))

    def _with_axes(self, votes: Votes) -> Votes:
        """The votes with the current annotators, of which the former are the first."""
        return Votes.assembled(
            votes.doc, votes.annotator, votes.label, votes.value, votes.doc_ids, self.annotators, votes.classes,
            votes.abstained, votes.probability, votes.time, self.kinds, self.families,
        )  # fmt: skip


def looks_of(votes: Votes) -> NDArray[np.int64]:
    """(looks, 2): pairs (document, annotator) of everybody who judged a class of a document, or looked at it."""
    is_first = np.ones(len(votes), dtype=bool)
    is_first[1:] = (votes.doc[1:] != votes.doc[:-1]) | (votes.annotator[1:] != votes.annotator[:-1])
    pairs = np.column_stack((votes.doc[is_first], votes.annotator[is_first]))
    return np.concatenate((pairs, votes.abstained)).astype(np.int64)


def _extended(old: Strings, n_old: int, new: list[str], n_new: int) -> Strings:
    if not len(old) and not any(new):
        return names_array(())
    return names_array([*(old if len(old) else [""] * n_old), *(new or [""] * n_new)])


def _united(parts: Sequence[tuple[Ints, Votes]], doc_ids: Strings) -> Votes:
    """Votes of several parts whose documents are at the given positions among ``doc_ids``."""
    doc = np.concatenate([rows[votes.doc] for rows, votes in parts]).astype(np.int32)
    order = np.argsort(doc, kind="stable")
    first = parts[0][1]

    def joined(name: str) -> NDArray[np.generic]:
        columns = [getattr(votes, name) for _, votes in parts]
        return np.concatenate(columns)[order]

    optional = []
    for name in ("probability", "time"):
        filled = [
            getattr(votes, name) if len(getattr(votes, name)) else np.full(len(votes), np.nan) for _, votes in parts
        ]
        optional.append(np.concatenate(filled)[order])
    abstained = [
        np.column_stack((rows[votes.abstained[:, 0]], votes.abstained[:, 1])).astype(np.int32) for rows, votes in parts
    ]
    pairs = np.concatenate(abstained)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return Votes.assembled(
        doc[order], joined("annotator"), joined("label"), joined("value"), doc_ids, first.annotators, first.classes,
        pairs, *optional, first.annotator_kinds, first.annotator_families,
    )  # fmt: skip


def _applied(votes: Votes, changes: VoteChanges) -> Votes:
    """Votes on some documents after the changes."""
    width = votes.n_annotators
    old = (column if len(column) else np.full(len(votes), np.nan) for column in (votes.probability, votes.time))
    probability, time = (np.concatenate(pair) for pair in zip(old, (changes.probability, changes.time), strict=True))
    doc, annotator, label, value = (
        np.concatenate((getattr(votes, name).astype(np.int64), getattr(changes, name)))
        for name in ("doc", "annotator", "label", "value")
    )
    view = doc * width + annotator
    kept = _last_of_each(view * (votes.n_classes + 1) + label)
    kept = kept[(label[kept] >= 0) & (value[kept] >= 0) & (kept > _last_abstention(view, label)[kept])]
    earlier = votes.abstained[:, 0].astype(np.int64) * width + votes.abstained[:, 1]
    abstained = np.setdiff1d(np.concatenate((earlier, view[label < 0])), view[kept])
    return Votes.assembled(
        doc[kept].astype(np.int32), annotator[kept].astype(np.int32), label[kept].astype(np.int32),
        value[kept].astype(np.int8), votes.doc_ids, votes.annotators, votes.classes,
        np.column_stack(np.divmod(abstained, width)).astype(np.int32), probability[kept], time[kept],
        votes.annotator_kinds, votes.annotator_families,
    )  # fmt: skip


def _last_of_each(key: Ints) -> Ints:
    """Position of the last entry with each key, in the order of the keys."""
    order = np.argsort(key, kind="stable")
    is_last = np.ones(len(order), dtype=bool)
    is_last[:-1] = key[order][1:] != key[order][:-1]
    return order[is_last]


def _last_abstention(view: Ints, label: Ints) -> Ints:
    """(entries,): position of the last abstention with the same view; -1 if there is none."""
    rows = np.flatnonzero(label < 0)
    if not len(rows):
        return np.full(len(view), -1)
    rows = rows[_last_of_each(view[rows])]
    place = np.minimum(np.searchsorted(view[rows], view), len(rows) - 1)
    return np.where(view[rows][place] == view, rows[place], -1)


def _differing_documents(before: Votes, after: Votes) -> Ints:
    """Documents whose votes or abstentions are not the same."""
    differs = np.zeros(before.n_docs, dtype=bool)
    for one, other in ((before, after), (after, before)):
        differs[one.doc[~_in(one, other)]] = True
        width = one.n_annotators
        keys, others = (
            votes.abstained[:, 0].astype(np.int64) * width + votes.abstained[:, 1] for votes in (one, other)
        )
        differs[np.setdiff1d(keys, others) // width] = True
    return np.flatnonzero(differs)


def _in(votes: Votes, others: Votes) -> NDArray[np.bool_]:
    """(votes,): whether a vote is also among ``others``, with the same value, probability and time."""
    keys, other_keys = (some.pair * some.n_annotators + some.annotator for some in (votes, others))
    order = np.argsort(other_keys)
    if not len(order):
        return np.zeros(len(votes), dtype=bool)
    place = order[np.minimum(np.searchsorted(other_keys, keys, sorter=order), len(order) - 1)]
    same: NDArray[np.bool_] = (other_keys[place] == keys) & (others.value[place] == votes.value)
    for name in ("probability", "time"):
        column, other = getattr(votes, name), getattr(others, name)
        column = column if len(column) else np.full(len(votes), np.nan)
        other = other[place] if len(other) else np.full(len(votes), np.nan)
        same &= (column == other) | (np.isnan(column) & np.isnan(other))
    return same
