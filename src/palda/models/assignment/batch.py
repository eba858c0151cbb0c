"""A batch of assignments: who judges which document next, one pair after the other, best first.

After each pair the document has one more vote under way, so that the next pair finds it less valuable; and in a batch
that is small beside the collection, it waits for that vote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palda.models.assignment.gain import Rates, document_gains, label_gains
from palda.models.assignment.profile_gain import profile_factors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.models.assignment.gain import TypicalVotes
    from palda.models.crowd import Profiles

    Ints = NDArray[np.int64]

LOOK_COST = 1.0
"""Judgements that opening a document is worth when single classes are asked for, beside the judgements themselves."""

MAX_TIMES_MEAN = 4.0
"""Votes under way on one document, as a multiple of their mean per document; at least one.

A second vote is worth less before the first one is known than after it, and it can be given with the next batch.
``python -m benchmarks adaptive``, one crowd, 75 votes per batch, against no limit: Reuters with 3 votes per document
.998 and .993, the newsroom .997 and .995, yeast .977 and .974.
"""

_MIN_WRONG = 1e-9
_MAX_CELLS = 8_000_000  # (annotator, document, class) cells whose gains are computed; more documents are screened
_MIN_SHORTLIST, _SHORTLIST_PER_PAIR = 500, 4  # documents that are left by screening


@dataclass(frozen=True, eq=False)
class Candidates:
    """Documents and annotators that may be paired."""

    label_probs: Array  # Δ, (documents, classes)
    pending: Ints  # (documents,): votes under way
    doc_room: Ints  # (documents,): votes that a document may still get
    rates: Rates  # (annotators, classes)
    group: Ints  # (annotators,): copies of each other have the same number
    annotator_room: Ints  # (annotators,): documents that an annotator may still get
    price: Array  # (annotators, documents): of a look, or of a judgement if single classes are asked for
    may_judge: NDArray[np.bool_]  # (annotators, documents): whether a pair is possible
    profiles: Profiles | None = None  # classes that occur together; None for independent classes
    worth: Array | None = None  # (documents, classes): of one more vote, as a share of that of an independent one

    def documents(self, rows: Ints) -> Candidates:
        """Some of the documents."""
        return replace(
            self,
            label_probs=np.ascontiguousarray(self.label_probs[rows]),
            pending=self.pending[rows],
            doc_room=self.doc_room[rows],
            price=self.price[:, rows],
            may_judge=self.may_judge[:, rows],
            worth=None if self.worth is None else self.worth[rows],
        )

    def document_worth(self, rows: Ints) -> Array | float:
        """(rows,): worth of one more vote on all classes of documents, by the errors that they may have; 1 for all."""
        if self.worth is None:
            return 1.0
        wrong = np.minimum(self.label_probs[rows], 1.0 - self.label_probs[rows]) + _MIN_WRONG
        worth: Array = np.sum(wrong * self.worth[rows], axis=1) / wrong.sum(axis=1)
        return worth


class Assignment(NamedTuple):
    """One pair; ``gain`` is the expected fall of the number of wrong labels per unit of price."""

    annotator: int
    doc: int
    gain: float
    price: float
    classes: Ints | None = None  # None for all classes


def choose_pairs(
    candidates: Candidates, typical: TypicalVotes, n_pairs: int, budget: float = np.inf, *, by_label: bool = False
) -> list[Assignment]:
    """Up to ``n_pairs`` pairs within the budget, best first; pairs without gain are left out."""
    candidates = _spread(candidates, n_pairs, budget)
    rows = _shortlist(candidates, typical, n_pairs)
    some = candidates if rows is None else candidates.documents(rows)
    search = _Search(some, typical, by_label=by_label)
    if candidates.profiles is not None and len(candidates.profiles.weights) > 1 and not by_label:
        search.include_profiles(max(_MIN_SHORTLIST, _SHORTLIST_PER_PAIR * n_pairs))
    chosen: list[Assignment] = []
    while len(chosen) < n_pairs:
        best = search.best()
        if best is None:
            break
        if best.price > budget:
            search.forbid(best)
            continue
        budget -= best.price
        search.take(best)
        chosen.append(best if rows is None else best._replace(doc=int(rows[best.doc])))
    return chosen


def _spread(candidates: Candidates, n_pairs: int, budget: float) -> Candidates:
    """The candidates with room for at most ``MAX_TIMES_MEAN`` times the mean number of votes under way."""
    n_docs = candidates.price.shape[1]
    if not candidates.price.size:
        return candidates
    n_votes = min(float(n_pairs), budget / float(candidates.price.min()), float(candidates.may_judge.sum()))
    limit = max(1, int(np.ceil(MAX_TIMES_MEAN * (n_votes + candidates.pending.sum()) / n_docs)))
    return replace(candidates, doc_room=np.minimum(candidates.doc_room, limit - candidates.pending))


def _shortlist(candidates: Candidates, typical: TypicalVotes, n_pairs: int) -> Ints | None:
    """Documents worth a closer look: those whose gain is largest for a typical annotator; None for all."""
    n_annotators, n_docs = candidates.price.shape
    n_classes = candidates.label_probs.shape[1]
    size = max(_MIN_SHORTLIST, _SHORTLIST_PER_PAIR * n_pairs, _MAX_CELLS // max(n_annotators * n_classes, 1))
    if size >= n_docs:
        return None
    one = Rates(typical.present[None, :, 1, 1], typical.absent[None, :, 1, 0])
    gains = document_gains(candidates.label_probs, one, typical, candidates.pending)[0]
    gains = gains * candidates.document_worth(np.arange(n_docs))
    possible = candidates.may_judge.any(axis=0) & (candidates.doc_room > 0)
    gains = np.where(possible, gains / np.min(candidates.price, axis=0), -1.0)
    return np.sort(np.argpartition(-gains, size - 1)[:size])


class _Search:
    """Gains of all pairs, kept up to date while pairs are taken."""

    def __init__(self, candidates: Candidates, typical: TypicalVotes, *, by_label: bool) -> None:
        self._given, self._typical, self._by_label = candidates, typical, by_label
        self._pending, self._doc_room = candidates.pending.copy(), candidates.doc_room.copy()
        self._room, self._may = candidates.annotator_room.copy(), candidates.may_judge.copy()
        self._may[self._room <= 0] = False
        n_annotators, n_docs = candidates.price.shape
        self._values, self._sizes = np.empty((n_annotators, n_docs)), np.ones((n_annotators, n_docs), dtype=np.int64)
        self._who, self._best = np.zeros(n_docs, dtype=np.int64), np.full(n_docs, -1.0)
        self._profiles: Profiles | None = None
        if n_annotators:
            self._compute(np.arange(n_docs))

    def include_profiles(self, n_docs: int) -> None:
        """Count what votes on a class tell about others, for the best documents and whenever a pair is taken."""
        self._profiles = self._given.profiles
        n_docs = min(n_docs, len(self._best))
        docs = np.sort(np.argpartition(-self._best, n_docs - 1)[:n_docs]) if n_docs else np.empty(0, dtype=np.int64)
        self._values[:, docs] *= self._factors(docs)
        self._choose(docs)

    def _factors(self, docs: Ints) -> Array:
        if self._profiles is None:
            return np.ones(len(docs))
        probs = np.ascontiguousarray(self._given.label_probs[docs])
        return profile_factors(probs, self._profiles, self._typical, self._pending[docs])

    def best(self) -> Assignment | None:
        if not len(self._best):
            return None
        doc = int(np.argmax(self._best))
        if self._best[doc] <= 0.0:
            return None
        annotator = int(self._who[doc])
        classes = self._classes(annotator, doc) if self._by_label else None
        price = float(self._given.price[annotator, doc]) * (1 if classes is None else len(classes))
        gain = float(self._gain(annotator, doc, classes)) / price
        return Assignment(annotator, doc, gain, price, classes)

    def forbid(self, pair: Assignment) -> None:
        self._may[pair.annotator, pair.doc] = False
        self._choose(np.array([pair.doc]))

    def take(self, pair: Assignment) -> None:
        """Count the pair as given."""
        same = self._given.group == self._given.group[pair.annotator]
        self._may[same, pair.doc] = False
        self._pending[pair.doc] += 1
        self._doc_room[pair.doc] -= 1
        self._room[pair.annotator] -= 1
        if self._room[pair.annotator] <= 0:
            self._may[pair.annotator] = False
            self._choose(np.flatnonzero(self._who == pair.annotator))
        docs = np.array([pair.doc])
        if self._doc_room[pair.doc] > 0:
            self._compute(docs)
        else:
            self._choose(docs)

    def _compute(self, docs: Ints) -> None:
        given = self._given
        probs, pending = np.ascontiguousarray(given.label_probs[docs]), self._pending[docs]
        if self._by_label:
            gains = label_gains(probs, given.rates, self._typical, pending)
            gains = gains if given.worth is None else gains * given.worth[docs]
            ordered = -np.sort(-gains, axis=2)
            count = np.arange(1, gains.shape[2] + 1)
            self._values[:, docs] = (np.cumsum(ordered, axis=2) / (count + LOOK_COST)).max(axis=2)
        else:
            factors = self._factors(docs) * given.document_worth(docs)
            self._values[:, docs] = document_gains(probs, given.rates, self._typical, pending) * factors
        self._choose(docs)

    def _choose(self, docs: Ints) -> None:
        """Choose the best annotator of each of the documents again."""
        may = self._may[:, docs] & (self._doc_room[docs] > 0)
        values = np.where(may, self._values[:, docs] / self._given.price[:, docs], -1.0)
        self._who[docs] = values.argmax(axis=0)
        self._best[docs] = values.max(axis=0)

    def _classes(self, annotator: int, doc: int) -> Ints:
        """Classes that are asked for, most doubtful first: those that make the gain per cost largest."""
        gains = self._label_gains(annotator, doc)
        order = np.argsort(-gains, kind="stable")
        worth = np.cumsum(gains[order]) / (np.arange(1, len(order) + 1) + LOOK_COST)
        return order[: int(worth.argmax()) + 1]

    def _label_gains(self, annotator: int, doc: int) -> Array:
        rows = np.array([annotator])
        probs = np.ascontiguousarray(self._given.label_probs[[doc]])
        gains: Array = label_gains(probs, self._given.rates.take(rows), self._typical, self._pending[[doc]])[0, 0]
        return gains if self._given.worth is None else gains * self._given.worth[doc]

    def _gain(self, annotator: int, doc: int, classes: Ints | None) -> float:
        if classes is None:
            return float(self._values[annotator, doc])
        return float(self._label_gains(annotator, doc)[classes].sum())
