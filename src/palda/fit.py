"""The one EM loop: a generator of (Params, StepInfo). Stop rules live here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from palda.em_state import Best, Position, Run, finished_record, restored, running_record
from palda.engine.threads import Threads
from palda.journal import Journal
from palda.kernels import Bags, Beliefs, Explained, Labels, Stopping
from palda.model.bound import topic_divergence
from palda.model.e_step import bags_of, e_step, topic_shares
from palda.model.m_step import update_topics
from palda.model.predict import Reader, explained, speech
from palda.model.state import Params, ShardStats, StepInfo, merge
from palda.priors import base_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from palda.annotators.base import AnnotatorBelief, AnnotatorModel
    from palda.data.types import Counts, Votes
    from palda.engine.base import Engine
    from palda.model.predict import Temper

    Array = NDArray[np.float64]
    Rows = NDArray[np.int64]

__all__ = [
    "Best",
    "Labelled",
    "Settings",
    "Shard",
    "carried_beliefs",
    "cut_shards",
    "em",
    "explain_shards",
    "label_probs",
    "reader_of",
    "run_em",
    "shares_of_topics",
    "unlabelled_shards",
]

_ENTRIES_PER_SHARD = 15_000
_MOST_SHARDS = 256


@dataclass(frozen=True)
class Shard:
    """Some documents: their words, what is known of their labels, and the votes on them.

    Where log-odds are ``given``, they settle the labels that are not known: words and votes say nothing more.
    """

    bags: Bags
    known: NDArray[np.int8]
    votes: Votes | None = None
    given: Array | None = None


@dataclass(frozen=True)
class Settings:
    """How EM runs: what it believes of annotators and documents, and when it stops."""

    annotators: AnnotatorModel | None = None
    inference: str = "joint"
    max_iter: int = 100
    tol: float = 1e-4
    stopping: Stopping = field(default_factory=lambda: Stopping(max_passes=30, tolerance=1e-3, leaps=True))
    engine: Engine = field(default_factory=Threads)
    journal: Journal = field(default_factory=Journal)


def cut_shards(
    counts: Counts,
    known: NDArray[np.int8],
    votes: Votes | None = None,
    n_shards: int | None = None,
    given: Array | None = None,
) -> list[Shard]:
    """Shards of about equal numbers of entries; where they are cut depends on the data alone."""
    n_docs = counts.shape[0]
    if n_shards is None:
        n_shards = min(max(1, counts.nnz // _ENTRIES_PER_SHARD), _MOST_SHARDS)
    load = np.arange(n_docs + 1) + np.asarray(counts.indptr, dtype=np.int64)  # an empty document costs something too
    cuts = np.unique(np.searchsorted(load, np.linspace(0, load[-1], n_shards + 1)[1:-1]))
    edges = [0, *(int(cut) for cut in cuts if 0 < cut < n_docs), n_docs]
    return [
        Shard(
            bags_of(sparse.csr_array(counts[start:stop])),
            np.require(known[start:stop], np.int8, ["C", "W"]),
            None if votes is None else votes.take(slice(start, stop)),
            None if given is None else given[start:stop],
        )
        for start, stop in pairwise(edges)
    ]


def unlabelled_shards(counts: Counts, n_classes: int) -> list[Shard]:
    """Shards of new documents, of whose labels nothing is known."""
    return cut_shards(counts, np.full((counts.shape[0], n_classes), -1, dtype=np.int8))


@dataclass(frozen=True)
class Labelled:
    """Documents and what is known of their labels: labels, votes, and a first guess from both."""

    counts: Counts
    known: NDArray[np.int8]
    guess: Array
    votes: Votes | None = None
    belief: AnnotatorBelief | None = None  # about annotators, before the first round

    def take(self, rows: Rows) -> Labelled:
        """Some of the documents."""
        votes = None if self.votes is None else self.votes.take(rows)
        return Labelled(self.counts[rows], self.known[rows], self.guess[rows], votes, self.belief)

    def shards(self) -> list[Shard]:
        """The documents as EM reads them."""
        return cut_shards(self.counts, self.known, self.votes)


def carried_beliefs(shards: Sequence[Shard], params: Params, inference: str = "joint") -> list[Beliefs | Array]:
    """Room to carry every document's beliefs from round to round: a mode for tests on small data.

    Only then does the bound never fall; fits in earnest start documents afresh, and keep no state for them.
    """
    n_classes, _, n_topics = params.topic_prior.shape
    room: list[Beliefs | Array] = []
    for shard in shards:
        n_docs = len(shard.known)
        if inference == "joint":
            room.append(np.full((n_docs, n_classes, n_topics), 1.0 / n_topics))
            continue
        gamma = np.broadcast_to(params.topic_prior + 1.0 / n_topics, (n_docs, *params.topic_prior.shape)).copy()
        delta = np.full((len(shard.bags.words), n_classes), 1.0 / n_classes)
        room.append(Beliefs(gamma, delta, np.where(shard.known >= 0, shard.known, 0.5)))
    return room


def em(
    shards: Sequence[Shard],
    start: Params,
    settings: Settings,
    beliefs: Sequence[Beliefs | Array] | None = None,
    at: Position | None = None,
) -> Iterator[tuple[Params, StepInfo]]:
    """Rounds of EM. Each yields parameters and the bound they reach; the last one says whether EM converged.

    A run that was broken off goes on with the parameters of its last round, ``at`` the position that it had.
    """
    params = start
    at = at or Position()
    before, worst_fall, newton_converged = at.before, at.worst_fall, at.newton_converged
    for iteration in range(at.iteration, settings.max_iter + 1):
        stats = merge(part for part, _ in _steps(shards, params, settings, beliefs))
        bound = _total_bound(stats, params, settings)
        change = (bound - before) / abs(bound) if np.isfinite(before) else np.inf
        worst_fall = max(worst_fall, -change)
        converged = abs(change) < settings.tol
        yield (
            params,
            StepInfo(
                iteration, bound, change, worst_fall, stats.n_passes, stats.n_unsettled, newton_converged, converged
            ),
        )
        if converged:
            return
        params, newton_converged = _maximisation(params, stats, settings)
        before = bound


def run_em(
    shards: Sequence[Shard],
    start: Params,
    settings: Settings,
    watch: Callable[[StepInfo], object] | None = None,
    into: Best | None = None,
) -> Best:
    """EM until it converges or its rounds are used up; ``watch`` is told of every round that was not known already.

    What was found is put ``into`` the caller's own ``Best``, which then survives an interruption.
    """
    best = Best() if into is None else into
    stage = settings.journal.stage("em", start.topic_prior, start.topic_words, start.class_prior)
    known = stage.recall(restored) or Run(Best(), start, Position())
    best.become(known.best)
    if known.params is None:
        return best
    position = known.position
    for params, info in em(shards, known.params, settings, at=position):
        standing = replace(position, newton_converged=info.newton_converged)
        stage.keep(partial(running_record, params, standing, best.copy()), finished=False)
        best.see(params, info)
        if watch is not None:
            watch(info)
        position = Position.after(info)
    stage.keep(partial(finished_record, best))
    return best


def label_probs(shards: Sequence[Shard], params: Params, settings: Settings) -> Array:
    """Δ (documents, classes) under fixed parameters: the consensus."""
    return np.concatenate([probs for _, probs in _steps(shards, params, settings)])


def reader_of(params: Params, temper: Temper) -> Reader:
    """Reader of new documents under fixed parameters."""
    return Reader(speech(params), temper, base_rate.log_odds(params.class_prior))


def explain_shards(shards: Sequence[Shard], reader: Reader, settings: Settings) -> Explained:
    """What the words of documents say for each class (maths, eqs. 32-35)."""
    parts = list(settings.engine.map(lambda shard: explained(shard.bags, reader), shards))
    return Explained(
        np.concatenate([part.evidence for part in parts]),
        np.concatenate([part.beliefs for part in parts]),
        sum(part.n_unsettled for part in parts),
    )


def shares_of_topics(shards: Sequence[Shard], params: Params, log_odds: Array | None, settings: Settings) -> Array:
    """(documents, topics): shares under fixed parameters; log-odds of (document, class), if given, settle labels."""
    starts = np.cumsum([0, *(len(shard.known) for shard in shards)])
    work = list(zip(shards, pairwise(starts), strict=True))

    def shares(item: tuple[Shard, tuple[int, int]]) -> Array:
        shard, (start, stop) = item
        if log_odds is None:
            labels = Labels(shard.known, _prior_log_odds(shard, params))
        else:
            labels = Labels(shard.known, np.ascontiguousarray(log_odds[start:stop]), fixed=True)
        return topic_shares(shard.bags, labels, params, settings.stopping, inference=settings.inference)

    _ = params.word_weights  # computed once, before threads ask for it
    return np.concatenate(list(settings.engine.map(shares, work)))


def _prior_log_odds(shard: Shard, params: Params) -> Array:
    return np.ascontiguousarray(np.broadcast_to(base_rate.log_odds(params.class_prior), shard.known.shape))


def _steps(
    shards: Sequence[Shard], params: Params, settings: Settings, beliefs: Sequence[Beliefs | Array] | None = None
) -> Iterator[tuple[ShardStats, Array]]:
    """E-steps of all shards, in their order."""
    work = [(shard, None if beliefs is None else beliefs[k]) for k, shard in enumerate(shards)]
    _ = params.word_weights  # computed once, before threads ask for it
    return settings.engine.map(lambda item: _shard_step(item[0], params, settings, item[1]), work)


def _shard_step(
    shard: Shard, params: Params, settings: Settings, beliefs: Beliefs | Array | None
) -> tuple[ShardStats, Array]:
    """E-step of a shard, with the votes counted in: prior and votes reach the kernel as log-odds (maths, eq. 6)."""
    log_odds = _prior_log_odds(shard, params)
    if shard.given is not None:
        settled = np.where(shard.known >= 0, log_odds, shard.given)
        labels = Labels(shard.known, settled, fixed=True)
        return e_step(shard.bags, labels, params, settings.stopping, beliefs, inference=settings.inference)
    if shard.votes is None or settings.annotators is None or params.annotators is None:
        labels = Labels(shard.known, log_odds)
        return e_step(shard.bags, labels, params, settings.stopping, beliefs, inference=settings.inference)
    said = settings.annotators.evidence(shard.votes, params.annotators)
    labels = Labels(shard.known, log_odds + said.log_odds)
    stats, probs = e_step(shard.bags, labels, params, settings.stopping, beliefs, inference=settings.inference)
    counted = settings.annotators.count(shard.votes, probs)
    return replace(stats, vote_counts=counted, bound=stats.bound + float(said.absent.sum())), probs


def _total_bound(stats: ShardStats, params: Params, settings: Settings) -> float:
    """Documents' parts, log p(λ = 0), and the cost of q(β) and of q(annotators) (maths, eqs. 12, 18, 31)."""
    labels = stats.n_docs * float(np.log1p(-params.class_prior).sum())
    crowd = 0.0
    if settings.annotators is not None and params.annotators is not None:
        crowd = settings.annotators.divergence(params.annotators)
    return stats.bound + labels - topic_divergence(params) - crowd


def _maximisation(params: Params, stats: ShardStats, settings: Settings) -> tuple[Params, bool]:
    topics = update_topics(params, stats)
    belief = params.annotators
    if settings.annotators is not None and belief is not None and stats.vote_counts.size:
        belief = settings.annotators.update(stats.vote_counts, belief)
    following = Params(
        topic_prior=topics.topic_prior,
        topic_words=topics.topic_words,
        class_prior=base_rate.update(stats.label_sums, stats.n_docs),
        word_counts=topics.word_counts,
        word_prior=topics.word_prior,
        annotators=belief,
    )
    return following, topics.newton_converged
