"""Policies: which document an annotator who arrives is asked about, and optionally who is asked.

A policy sees what a project knows (``Progress``): the fitted model and who has judged what; never the true labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from palda.planning.projects import Requests

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from palda.estimators import CrowdPALDA
    from palda.planning.projects import Ints

    Array = NDArray[np.float64]


_NEWCOMER = "\x00newcomer-"  # no annotator of a project has such a name


@dataclass
class Progress:
    """What is known while a project runs."""

    model: CrowdPALDA
    judged: NDArray[np.bool_]
    """(documents, annotators, classes): what has been judged."""
    rng: np.random.Generator

    @property
    def seen(self) -> NDArray[np.bool_]:
        """(documents, annotators): who has judged a document, at least in part."""
        return np.asarray(self.judged.any(axis=2))

    @property
    def n_votes(self) -> Ints:
        """(documents,): annotators per document."""
        votes: Ints = self.seen.sum(axis=1)
        return votes


class Policy(Protocol):
    """Chooses a document for every annotator who arrives."""

    @property
    def name(self) -> str:
        """Name in tables and pictures."""

    def choose(self, progress: Progress, arrivals: Ints) -> Requests:
        """Requests to the annotators who arrive, in this order; may be fewer."""


@dataclass(frozen=True)
class RandomDocuments:
    """Any document that the annotator has not judged."""

    name: str = "random"

    def choose(self, progress: Progress, arrivals: Ints) -> Requests:
        """Random documents."""
        return by_score(progress.rng.random(len(progress.judged)), progress.seen, arrivals)


@dataclass(frozen=True)
class FixedOverlap:
    """The same number of votes for every document: the documents with the fewest votes come first."""

    name: str = "fixed overlap"

    def choose(self, progress: Progress, arrivals: Ints) -> Requests:
        """Documents with the fewest votes, in random order."""
        score = progress.rng.random(len(progress.judged)) - progress.n_votes
        return by_score(score, progress.seen, arrivals)


@dataclass(frozen=True)
class LabelUncertainty:
    """The documents with the largest expected number of wrong labels."""

    name: str = "uncertainty"

    def choose(self, progress: Progress, arrivals: Ints) -> Requests:
        """Documents in descending order of Σ min(p, 1 - p)."""
        probs = progress.model.consensus_
        return by_score(np.minimum(probs, 1.0 - probs).sum(axis=1), progress.seen, arrivals)


@dataclass(frozen=True)
class SuggestedLabels:
    """``CrowdPALDA.suggest``: documents by the total gain of a typical annotator on their labels."""

    name: str = "suggest"

    def choose(self, progress: Progress, arrivals: Ints) -> Requests:
        """Documents in descending order of the gains of their labels."""
        model = progress.model
        table = model.suggest(model.consensus_.size)
        position = {name: row for row, name in enumerate(model.doc_ids_)}
        gain = np.zeros(len(position))
        np.add.at(gain, table["doc"].map(position), table["gain"])
        return by_score(gain, progress.seen, arrivals)


@dataclass(frozen=True)
class Assignment:
    """``CrowdPALDA.assign``: the document on which each annotator who arrives is worth most.

    ``assign`` leaves out votes without gain. An annotator who arrives is asked all the same, about an uncertain
    document, because a project cannot send people away. With ``chooses_annotators`` the policy decides who is asked as
    well; then nobody has more than ``max_share`` times the equal share of all votes.
    """

    name: str = "assign"
    ask: Literal["document", "labels"] = "document"
    chooses_annotators: bool = False
    max_share: float = 2.0

    def choose(self, progress: Progress, arrivals: Ints) -> Requests:
        """Pairs by ``assign``, and uncertain documents for those whom it leaves out."""
        model = progress.model
        if self.chooses_annotators:
            n_votes = int(progress.n_votes.sum()) + len(arrivals)
            limit = math.ceil(self.max_share * n_votes / len(model.annotators_))
            table = model.assign(n=len(arrivals), max_votes_per_annotator=limit, ask=self.ask)
        else:
            table = model.assign(model.annotators_[arrivals].tolist(), ask=self.ask)
        chosen = _requests_of(table, model, self.ask)
        if self.chooses_annotators or self.ask == "labels":
            return chosen
        return _joined(chosen, _left_out(progress, arrivals, chosen))


@dataclass(frozen=True)
class TypicalAssignment:
    """``CrowdPALDA.assign`` for a typical member of the crowd: chooses documents, whoever comes."""

    name: str = "assign, documents alone"

    def choose(self, progress: Progress, arrivals: Ints) -> Requests:
        """The documents of ``assign`` for unknown annotators, in the order of arrival."""
        model = progress.model
        table = model.assign([f"{_NEWCOMER}{number}" for number in range(len(arrivals))])
        position = {name: row for row, name in enumerate(model.doc_ids_)}
        probs = model.consensus_
        score = np.minimum(probs, 1.0 - probs).sum(axis=1) / probs.shape[1]  # below 1: for documents without gain
        score[table["doc"].map(position)] = len(table) + 1.0 - np.arange(len(table))
        return by_score(score, progress.seen, arrivals)


def _requests_of(table: pd.DataFrame, model: CrowdPALDA, ask: str) -> Requests:
    docs, people, classes = (
        {name: position for position, name in enumerate(names)}
        for names in (model.doc_ids_, model.annotators_, model.classes_)
    )
    found = requests([(people[who], docs[doc]) for who, doc in zip(table["annotator"], table["doc"], strict=True)])
    if ask == "document":
        return found
    asked = np.zeros((found.size, len(classes)), dtype=bool)
    for row, labels in enumerate(table["labels"]):
        asked[row, [classes[label] for label in labels]] = True
    return found._replace(asked=asked)


def _left_out(progress: Progress, arrivals: Ints, chosen: Requests) -> Requests:
    """Uncertain documents for annotators who arrived and got none."""
    n_annotators = progress.judged.shape[1]
    n_left = np.bincount(arrivals, minlength=n_annotators) - np.bincount(chosen.annotator, minlength=n_annotators)
    seen, probs = progress.seen, progress.model.consensus_
    seen[chosen.doc, chosen.annotator] = True
    score = np.minimum(probs, 1.0 - probs).sum(axis=1)
    score[chosen.doc] = 0.0
    return by_score(score, seen, np.repeat(np.arange(n_annotators), n_left))


def _joined(first: Requests, second: Requests) -> Requests:
    return Requests(np.concatenate((first.annotator, second.annotator)), np.concatenate((first.doc, second.doc)))


def by_score(score: Array, seen: NDArray[np.bool_], arrivals: Ints) -> Requests:
    """Each annotator in turn gets the document with the highest score that is free.

    A document is given once per batch, unless nothing else is left for an annotator, and never twice to the same one.
    An annotator who has judged everything gets nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from palda.planning import by_score
    >>> seen = np.array([[False, False], [False, True], [False, False]])  # documents, annotators
    >>> by_score(np.array([0.2, 0.9, 0.5]), seen, np.array([1, 0])).doc.tolist()
    [2, 1]
    """
    order = np.argsort(-score, kind="stable")
    seen, given, pairs = seen[order].copy(), np.zeros(len(order), dtype=bool), []
    for annotator in arrivals.tolist():
        free = ~seen[:, annotator]
        fresh = free & ~given
        place = int(np.argmax(fresh if fresh.any() else free))
        if free[place]:
            seen[place, annotator] = given[place] = True
            pairs.append((annotator, int(order[place])))
    return requests(pairs)


def requests(pairs: Sequence[tuple[int, int]], asked: NDArray[np.bool_] | None = None) -> Requests:
    """Requests from pairs (annotator, document)."""
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Requests(table[:, 0], table[:, 1], asked)
