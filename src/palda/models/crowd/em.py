"""Consensus from votes: EM over labels, annotators and label-set profiles.

Other evidence about the labels can join the votes, in nats per (document, class), such as that of a text classifier.
Without any, this is aggregation of votes alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from palda.data import Votes, even_ranges, vote_blocks
from palda.engine import Threads
from palda.models.crowd.label_sets import (
    ProfilePrior,
    Profiles,
    ProfileStats,
    initial_profiles,
    profile_e_step,
    profile_log_prior,
    profile_m_step,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Array, VoteRows
    from palda.models.crowd.annotator_model import AnnotatorBelief, AnnotatorModel

_VOTES_PER_SHARD = 50_000
_MAX_SHARDS = 256
_WARM_UP_ROUNDS, _WARM_UP_TOL = 50, 1e-5  # EM of new profiles while the annotators are fixed


@dataclass(frozen=True)
class VoteShard:
    """Some documents: their votes, known labels (-1 unknown), and other evidence in nats.

    Stored votes are read each time ``votes`` is used.
    """

    source: Votes | tuple[VoteRows, slice] | None
    known: NDArray[np.int8]
    extra: Array | None = None

    @property
    def votes(self) -> Votes | None:
        """Votes on the documents."""
        if not isinstance(self.source, tuple):
            return self.source
        stored, rows = self.source
        return stored.take(rows)


@dataclass(frozen=True)
class CrowdState:
    """Parameters that EM learns, and the prior of the profiles."""

    belief: AnnotatorBelief
    profiles: Profiles
    prior: ProfilePrior


@dataclass(frozen=True)
class CrowdSettings:
    """Annotator model, stop rule and engine of EM."""

    annotators: AnnotatorModel
    max_iter: int = 500
    tol: float = 1e-6
    engine: Threads = field(default_factory=Threads)
    learn_profiles: bool = True


@dataclass(frozen=True)
class CrowdFit:
    """Result of EM: the last state, and the labels under it."""

    state: CrowdState
    label_probs: Array  # Δ, (docs, classes)
    vote_counts: Array  # counts of the annotator model; of length 0 without votes
    log_likelihoods: Array  # the objective in each round (maths, eq. 44)
    converged: bool


@dataclass(frozen=True)
class _CrowdStats:
    """Additive statistics of the E-step of a shard; ``votes`` is None without votes."""

    profiles: ProfileStats
    votes: Array | None
    log_likelihood: float

    def __add__(self, other: _CrowdStats) -> _CrowdStats:
        votes = None if self.votes is None or other.votes is None else self.votes + other.votes
        return _CrowdStats(self.profiles + other.profiles, votes, self.log_likelihood + other.log_likelihood)


def cut_votes(
    votes: VoteRows, known: NDArray[np.int8], extra: Array | None = None, n_shards: int | None = None
) -> list[VoteShard]:
    """Shards with about equal numbers of votes; the cuts depend on the data alone."""
    if n_shards is None:
        n_shards = min(max(1, len(votes) // _VOTES_PER_SHARD), _MAX_SHARDS)
    ranges = (slice(*edges) for edges in even_ranges(votes.doc_starts, n_shards))
    return [
        VoteShard(
            votes.take(rows) if isinstance(votes, Votes) else (votes, rows),
            known[rows],
            None if extra is None else np.asarray(extra[rows]),
        )
        for rows in ranges
    ]


def count_votes(model: AnnotatorModel, votes: VoteRows, label_probs: Array) -> Array:
    """Expected (correct, wrong) votes behind each rate, for votes in memory or stored."""
    return reduce(np.add, (model.count(some, label_probs[rows]) for rows, some in vote_blocks(votes)))


def start_state(belief: AnnotatorBelief, label_probs: Array) -> CrowdState:
    """One profile at the base rates of ``label_probs``; ``with_profiles`` adds more after a first fit."""
    prior = ProfilePrior.vague(label_probs.shape[1])
    stats = ProfileStats(np.array([float(len(label_probs))]), label_probs.sum(axis=0, keepdims=True))
    return CrowdState(belief, profile_m_step(stats, prior), prior)


def fit_crowd(shards: Sequence[VoteShard], start: CrowdState, settings: CrowdSettings) -> CrowdFit:
    """EM until the relative growth of the objective is below ``tol``, or for ``max_iter`` rounds.

    The objective is the log-likelihood of the votes under the annotator beliefs, plus the log prior of the profiles,
    minus the divergence of the beliefs (maths, eq. 44). It never decreases. Labels and profiles are summed out exactly,
    so any state can be the start: that of an earlier fit, or one fitted to other evidence.
    """
    model, state = settings.annotators, start
    objectives: list[float] = []
    while True:
        stats, label_probs = _e_step(shards, state, settings)
        log_priors = profile_log_prior(state.profiles, state.prior) - model.divergence(state.belief)
        objective = stats.log_likelihood + log_priors
        growth = (objective - objectives[-1]) / max(abs(objective), 1.0) if objectives else np.inf
        objectives.append(objective)
        converged = bool(growth < settings.tol)
        if converged or len(objectives) >= settings.max_iter:
            counts = np.empty(0) if stats.votes is None else stats.votes
            return CrowdFit(state, np.concatenate(label_probs), counts, np.array(objectives), converged)
        state = replace(
            state,
            belief=state.belief if stats.votes is None else model.update(stats.votes, state.belief),
            profiles=profile_m_step(stats.profiles, state.prior) if settings.learn_profiles else state.profiles,
        )


def _e_step(shards: Sequence[VoteShard], state: CrowdState, settings: CrowdSettings) -> tuple[_CrowdStats, list[Array]]:
    """Statistics of all shards, and Δ of each shard."""

    def shard_e_step(shard: VoteShard) -> tuple[_CrowdStats, Array]:
        votes = shard.votes
        log_odds, if_absent = _evidence(votes, shard, state.belief, settings)
        labels = profile_e_step(log_odds, shard.known, state.profiles)
        counts = None if votes is None else settings.annotators.count(votes, labels.label_probs)
        log_likelihood = float(labels.log_likelihoods.sum()) + if_absent
        return _CrowdStats(labels.stats, counts, log_likelihood), labels.label_probs

    parts = list(settings.engine.map(shard_e_step, shards))
    return reduce(_CrowdStats.__add__, (stats for stats, _ in parts)), [label_probs for _, label_probs in parts]


def _evidence(
    votes: Votes | None, shard: VoteShard, belief: AnnotatorBelief, settings: CrowdSettings
) -> tuple[Array, float]:
    """Log-odds of votes and other evidence, and the log-likelihood of the votes if every class were absent."""
    if votes is None:
        return np.zeros(shard.known.shape) if shard.extra is None else shard.extra, 0.0
    evidence = settings.annotators.evidence(votes, belief)
    log_odds = evidence.log_odds if shard.extra is None else evidence.log_odds + shard.extra
    return log_odds, float(evidence.absent.sum())


def label_posterior(
    votes: VoteRows, known: NDArray[np.int8], state: CrowdState, settings: CrowdSettings, extra: Array | None = None
) -> Array:
    """Δ (documents, classes) under a fixed state, from votes, other evidence or both."""
    return np.concatenate(_e_step(cut_votes(votes, known, extra), state, settings)[1])


def votes_as_evidence(shards: Sequence[VoteShard], belief: AnnotatorBelief, settings: CrowdSettings) -> list[VoteShard]:
    """The shards with their votes turned into fixed evidence; EM on them does not update the annotators."""

    def fixed(shard: VoteShard) -> VoteShard:
        log_odds, _ = _evidence(shard.votes, shard, belief, settings)
        return VoteShard(None, shard.known, log_odds)

    return list(settings.engine.map(fixed, shards))


def with_profiles(
    shards: Sequence[VoteShard], single: CrowdFit, n_profiles: int, settings: CrowdSettings, seed: int
) -> CrowdFit:
    """Fit with several profiles from a fit with one, while the annotators stay fixed: a start for ``fit_crowd``.

    The base rates of the fit with one profile become the centre of the profiles' prior.
    """
    evidence = votes_as_evidence(shards, single.state.belief, settings)
    prior = ProfilePrior(single.state.profiles.rates[0])
    profiles = initial_profiles(single.label_probs, n_profiles, prior, np.random.default_rng(seed))
    start = replace(single.state, profiles=profiles, prior=prior)
    return fit_crowd(evidence, start, replace(settings, max_iter=_WARM_UP_ROUNDS, tol=_WARM_UP_TOL))
