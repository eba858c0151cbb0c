"""The one EM loop: a generator of (Params, StepInfo). Stop rules live here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from palda.data import Votes, even_ranges, in_memory, take_counts, take_votes
from palda.engine import StageStore, Threads
from palda.kernels import Bags, Beliefs, Labels, PassLimits, WordEvidence
from palda.models.topics import base_rate
from palda.models.topics.bound import topic_divergence
from palda.models.topics.e_step import bags_of, e_step, topic_shares
from palda.models.topics.em_state import EMResult, Position, Run, finished_record, restored, running_record
from palda.models.topics.m_step import update_topics
from palda.models.topics.parameters import Params, ShardStats, StepInfo
from palda.models.topics.prediction import WordEvidenceModel, class_word_probs, word_evidence_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from palda.data import CountRows, VoteRows
    from palda.engine import Engine
    from palda.models.crowd import AnnotatorBelief, AnnotatorModel
    from palda.models.topics.prediction import Temperature

    Array = NDArray[np.float64]
    Rows = NDArray[np.int64]

__all__ = [
    "DocumentShard",
    "EMResult",
    "EMRounds",
    "EMSettings",
    "TrainingData",
    "carried_beliefs",
    "cut_shards",
    "e_step_statistics",
    "em_rounds",
    "evidence_of_shards",
    "label_probs",
    "lower_bound",
    "place_shards",
    "run_em",
    "topic_shares_of_shards",
    "unlabelled_shards",
    "update_params",
    "word_evidence_model",
]

_ENTRIES_PER_SHARD = 15_000
_MOST_SHARDS = 256  # unless they would hold more than ...
_MOST_ENTRIES = 2_000_000


class _Stretch(NamedTuple):
    """Rows of something that is stored elsewhere."""

    source: Any
    rows: slice


@dataclass(frozen=True)
class DocumentShard:
    """Some documents: their words, what is known of their labels, and the votes on them.

    Where log-odds are ``given``, they settle the labels that are not known: words and votes say nothing more. Words and
    votes that are stored elsewhere are read whenever they are asked for, or once, by ``loaded``.
    """

    words: Bags | _Stretch
    known: NDArray[np.int8]
    said: Votes | _Stretch | None = None
    given: Array | None = None

    @property
    def bags(self) -> Bags:
        """Words of the documents."""
        return bags_of(self.words.source[self.words.rows]) if isinstance(self.words, _Stretch) else self.words

    @property
    def votes(self) -> Votes | None:
        """Votes on the documents."""
        return self.said.source.take(self.said.rows) if isinstance(self.said, _Stretch) else self.said

    def loaded(self) -> DocumentShard:
        """The same with everything in memory."""
        return replace(self, words=self.bags, said=self.votes)


class EMRounds(Protocol):
    """Anything that takes the place of ``em_rounds``."""

    def __call__(
        self, shards: Sequence[DocumentShard], start: Params, settings: EMSettings
    ) -> Iterator[tuple[Params, StepInfo]]:
        """Rounds of EM from a start: parameters and how each went."""


@dataclass(frozen=True)
class EMSettings:
    """How EM runs: what it believes of annotators and documents, and when it stops."""

    annotators: AnnotatorModel | None = None
    inference: str = "joint"
    max_iter: int = 100
    tol: float = 1e-4
    stopping: PassLimits = field(default_factory=lambda: PassLimits(max_passes=30, tolerance=1e-3, leaps=True))
    engine: Engine = field(default_factory=Threads)
    rounds: EMRounds | None = None  # None: ``em``
    stages: StageStore = field(default_factory=StageStore)


def cut_shards(
    counts: CountRows,
    known: NDArray[np.int8],
    votes: VoteRows | None = None,
    n_shards: int | None = None,
    given: Array | None = None,
) -> list[DocumentShard]:
    """Shards of about equal numbers of entries; where they are cut depends on the data alone."""
    if n_shards is None:
        n_shards = max(1, min(counts.nnz // _ENTRIES_PER_SHARD, _MOST_SHARDS), counts.nnz // _MOST_ENTRIES)

    def words(rows: slice) -> Bags | _Stretch:
        return bags_of(sparse.csr_array(counts[rows])) if in_memory(counts) else _Stretch(counts, rows)

    def said(rows: slice) -> Votes | _Stretch | None:
        return votes.take(rows) if isinstance(votes, Votes) else None if votes is None else _Stretch(votes, rows)

    return [
        DocumentShard(
            words(slice(start, stop)),
            np.require(known[start:stop], np.int8, ["C", "W"]),
            said(slice(start, stop)),
            None if given is None else given[start:stop],
        )
        for start, stop in even_ranges(counts.indptr, n_shards)
    ]


def unlabelled_shards(counts: CountRows, n_classes: int, given: Array | None = None) -> list[DocumentShard]:
    """Shards of new documents, of whose labels nothing is known; log-odds may be given all the same."""
    return cut_shards(counts, np.full((counts.shape[0], n_classes), -1, dtype=np.int8), given=given)


@dataclass(frozen=True)
class TrainingData:
    """Documents and what is known of their labels: labels, votes, and a first guess from both."""

    counts: CountRows
    known: NDArray[np.int8]
    guess: Array
    votes: VoteRows | None = None
    belief: AnnotatorBelief | None = None  # about annotators, before the first round

    def take(self, rows: Rows) -> TrainingData:
        """Some of the documents."""
        votes = None if self.votes is None else take_votes(self.votes, rows)
        return TrainingData(take_counts(self.counts, rows), self.known[rows], self.guess[rows], votes, self.belief)

    def shards(self) -> list[DocumentShard]:
        """The documents as EM reads them."""
        return cut_shards(self.counts, self.known, self.votes)


def carried_beliefs(shards: Sequence[DocumentShard], params: Params, inference: str = "joint") -> list[Beliefs | Array]:
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


def em_rounds(
    shards: Sequence[DocumentShard],
    start: Params,
    settings: EMSettings,
    beliefs: Sequence[Beliefs | Array] | None = None,
    at: Position | None = None,
) -> Iterator[tuple[Params, StepInfo]]:
    """Rounds of EM. Each yields parameters and the bound they reach; the last one says whether EM converged.

    A run that was broken off goes on with the parameters of its last round, ``at`` the position that it had.
    """
    params = start
    at = at or Position()
    before, worst_fall, newton_converged = at.before, at.worst_fall, at.newton_converged
    work = place_shards(shards, settings, beliefs)
    for iteration in range(at.iteration, settings.max_iter + 1):
        stats = e_step_statistics(work, params, settings)
        bound = lower_bound(stats, params, settings)
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
        params, newton_converged = update_params(params, stats, settings)
        before = bound


def place_shards(
    shards: Sequence[DocumentShard], settings: EMSettings, beliefs: Sequence[Beliefs | Array] | None = None
) -> Sequence[_Work]:
    """Shards where the engine works on them, for several rounds of ``e_step_statistics``."""
    return settings.engine.place(
        [_Work(shard, None if beliefs is None else beliefs[k]) for k, shard in enumerate(shards)]
    )


def e_step_statistics(work: Sequence[_Work], params: Params, settings: EMSettings) -> ShardStats:
    """Sum of the E-steps of all shards."""
    return settings.engine.total(_stats_of, work, _Rules.of(params, settings))


def run_em(
    shards: Sequence[DocumentShard],
    start: Params,
    settings: EMSettings,
    watch: Callable[[StepInfo], object] | None = None,
    into: EMResult | None = None,
) -> EMResult:
    """EM until it converges or its rounds are used up; ``watch`` is told of every round that was not known already.

    What was found is put ``into`` the caller's own ``EMResult``, which then survives an interruption.
    """
    best = EMResult() if into is None else into
    stage = settings.stages.stage("em", start.topic_prior, start.topic_words, start.class_prior)
    known = stage.recall(restored) or Run(EMResult(), start, Position())
    best.become(known.best)
    if known.params is None:
        return best
    position, other = known.position, settings.rounds
    rounds = (
        em_rounds(shards, known.params, settings, None, position) if other is None else other(shards, start, settings)
    )
    for params, info in rounds:
        if other is None:  # rounds of another kind know more than their parameters, and start anew
            standing = replace(position, newton_converged=info.newton_converged)
            stage.keep(partial(running_record, params, standing, best.copy()), finished=False)
        best.see(params, info)
        if watch is not None:
            watch(info)
        position = Position.after(info)
    stage.keep(partial(finished_record, best))
    return best


def label_probs(shards: Sequence[DocumentShard], params: Params, settings: EMSettings) -> Array:
    """Δ (documents, classes) under fixed parameters: the consensus."""
    return np.concatenate(list(settings.engine.each(_probs_of, shards, _Rules.of(params, settings))))


def word_evidence_model(params: Params, temper: Temperature) -> WordEvidenceModel:
    """Reader of new documents under fixed parameters."""
    return WordEvidenceModel(class_word_probs(params), temper, base_rate.log_odds(params.class_prior))


def evidence_of_shards(
    shards: Sequence[DocumentShard], reader: WordEvidenceModel, settings: EMSettings
) -> WordEvidence:
    """What the words of documents say for each class (maths, eqs. 32-35)."""
    parts = list(settings.engine.each(_explained_by, shards, reader))
    return WordEvidence(
        np.concatenate([part.evidence for part in parts]),
        np.concatenate([part.beliefs for part in parts]),
        sum(part.n_unsettled for part in parts),
    )


def topic_shares_of_shards(shards: Sequence[DocumentShard], params: Params, settings: EMSettings) -> Array:
    """(documents, topics): shares under fixed parameters; log-odds that are given settle labels."""
    return np.concatenate(list(settings.engine.each(_shares_of, shards, _Rules.of(params, settings))))


class _Work(NamedTuple):
    """A shard, and the beliefs that are carried from round to round, if any are."""

    shard: DocumentShard
    beliefs: Beliefs | Array | None

    def loaded(self) -> _Work:
        """The same with everything in memory."""
        return self._replace(shard=self.shard.loaded())


class _Rules(NamedTuple):
    """What the documents of every shard are judged by: no more than an E-step needs, since it may travel."""

    params: Params
    annotators: AnnotatorModel | None
    inference: str
    stopping: PassLimits

    @classmethod
    def of(cls, params: Params, settings: EMSettings) -> _Rules:
        slim = replace(params, topic_words=params.word_weights.T, word_counts=None, word_prior=None)
        _ = slim.word_weights  # computed once, before threads ask for it
        return cls(slim, settings.annotators, settings.inference, settings.stopping)


def _explained_by(shard: DocumentShard, reader: WordEvidenceModel) -> WordEvidence:
    return word_evidence_of(shard.bags, reader)


def _stats_of(work: _Work, rules: _Rules) -> ShardStats:
    return _shard_step(work.shard, rules, work.beliefs)[0]


def _probs_of(shard: DocumentShard, rules: _Rules) -> Array:
    return _shard_step(shard, rules)[1]


def _shares_of(shard: DocumentShard, rules: _Rules) -> Array:
    log_odds = _prior_log_odds(shard, rules.params)
    if shard.given is not None:
        log_odds = np.ascontiguousarray(shard.given)
    labels = Labels(shard.known, log_odds, fixed=shard.given is not None)
    return topic_shares(shard.bags, labels, rules.params, rules.stopping, inference=rules.inference)


def _prior_log_odds(shard: DocumentShard, params: Params) -> Array:
    return np.ascontiguousarray(np.broadcast_to(base_rate.log_odds(params.class_prior), shard.known.shape))


def _shard_step(
    shard: DocumentShard, rules: _Rules, beliefs: Beliefs | Array | None = None
) -> tuple[ShardStats, Array]:
    """E-step of a shard, with the votes counted in: prior and votes reach the kernel as log-odds (maths, eq. 6)."""
    params, annotators = rules.params, rules.annotators
    log_odds = _prior_log_odds(shard, params)

    def step(labels: Labels) -> tuple[ShardStats, Array]:
        return e_step(shard.bags, labels, params, rules.stopping, beliefs, inference=rules.inference)

    if shard.given is not None:
        return step(Labels(shard.known, np.where(shard.known >= 0, log_odds, shard.given), fixed=True))
    votes = shard.votes
    if votes is None or annotators is None or params.annotators is None:
        return step(Labels(shard.known, log_odds))
    said = annotators.evidence(votes, params.annotators)
    stats, probs = step(Labels(shard.known, log_odds + said.log_odds))
    counted = annotators.count(votes, probs)
    return replace(stats, vote_counts=counted, bound=stats.bound + float(said.absent.sum())), probs


def lower_bound(stats: ShardStats, params: Params, settings: EMSettings) -> float:
    """Documents' parts, log p(λ = 0), and the cost of q(β) and of q(annotators) (maths, eqs. 12, 18, 31)."""
    labels = stats.n_docs * float(np.log1p(-params.class_prior).sum())
    crowd = 0.0
    if settings.annotators is not None and params.annotators is not None:
        crowd = settings.annotators.divergence(params.annotators)
    return stats.bound + labels - topic_divergence(params) - crowd


def update_params(params: Params, stats: ShardStats, settings: EMSettings) -> tuple[Params, bool]:
    """Parameters of the M-step, and whether Newton's method came to rest."""
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
