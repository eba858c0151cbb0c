"""Consensus from votes: EM over labels, annotators and label-set profiles.

Other evidence about the labels can join the votes, in nats per (document, class), such as that of a text classifier.
Without any, this is aggregation of votes alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.special import expit

from palda.data import Votes, even_ranges, vote_blocks
from palda.engine import Threads
from palda.models.crowd.annotator_model import AnnotatorBelief, PublishedCoin, votes_per_cell
from palda.models.crowd.label_sets import (
    ProfilePrior,
    Profiles,
    ProfileStats,
    SetPosterior,
    VoteTable,
    initial_profiles,
    profile_e_step,
    profile_log_prior,
    profile_m_step,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Array, VoteRows
    from palda.models.crowd.annotator_model import AnnotatorModel

_PRIOR_RATE, _PRIOR_VOTES = 0.7, 10.0  # rate of correct votes assumed of an annotator, and its weight in votes
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
    """Additive statistics of the E-step of a shard."""

    profiles: ProfileStats
    present_votes: Array  # (annotators, classes or 1, 2): expected number of votes on classes that are present
    log_likelihood: float  # of the votes, relative to that if every class were absent

    def __add__(self, other: _CrowdStats) -> _CrowdStats:
        return _CrowdStats(
            self.profiles + other.profiles,
            self.present_votes + other.present_votes,
            self.log_likelihood + other.log_likelihood,
        )


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


def mean_where_unknown(known: NDArray[np.int8]) -> Array:
    """Labels (documents, classes); unknown ones become the mean of their class, or 1/2 if all are unknown."""
    is_known = known >= 0
    n_known = is_known.sum(axis=0)
    shares = np.where(n_known > 0, (known == 1).sum(axis=0) / np.maximum(n_known, 1), 0.5)
    return np.where(is_known, known, shares)


def initial_label_probs(votes: VoteRows, known: NDArray[np.int8]) -> Array:
    """Known labels, and probabilities from the votes elsewhere; (documents, classes).

    Without known labels every vote has the same weight, which is the majority vote. With some, annotators are weighted
    by their share of correct votes there, and the others by the mean of the crowd, so that a crowd whose majority is
    wrong is recognised.
    """
    seen = reduce(np.add, (_tally(some, known[rows]) for rows, some in vote_blocks(votes)))
    n_yes, n_votes = seen[: 2 * votes.n_classes].reshape(2, -1)
    n_correct, n_tested = seen[2 * votes.n_classes :].reshape(2, -1)
    overall = (n_yes + 1.0) / (n_votes + 2.0)
    crowd = (n_correct.sum() + _PRIOR_RATE * _PRIOR_VOTES) / (n_tested.sum() + _PRIOR_VOTES)
    rates = (n_correct + crowd * _PRIOR_VOTES) / (n_tested + _PRIOR_VOTES) if n_tested.any() else None
    probs = np.empty(known.shape)
    for rows, some in vote_blocks(votes):
        probs[rows] = np.where(known[rows] >= 0, known[rows], _vote_probs(some, overall, rates))
    return probs


def _tally(votes: Votes, known: NDArray[np.int8]) -> Array:
    """Yes votes and all votes per class; then correct votes and votes on known labels per annotator."""
    truth = known[votes.doc, votes.label]
    tested = truth >= 0
    annotator = votes.annotator[tested]
    correct = (votes.value[tested] == truth[tested]).astype(np.float64)
    return np.concatenate(
        (
            np.bincount(votes.label, votes.value == 1, minlength=votes.n_classes),
            np.bincount(votes.label, minlength=votes.n_classes),
            np.bincount(annotator, correct, minlength=votes.n_annotators),
            np.bincount(annotator, minlength=votes.n_annotators),
        )
    )


def _vote_probs(votes: Votes, overall: Array, rates: Array | None) -> Array:
    """(documents, classes): smoothed share of yes votes, or the posterior under the annotators' rates."""
    if rates is None:
        return (votes.yes_per_pair() + overall) / (votes.per_pair() + 1.0)
    no_history = np.full((len(rates), 2), np.nan)
    belief = AnnotatorBelief(np.column_stack((rates, 1.0 - rates)), np.full(2, 0.5), no_history)
    probs: Array = expit(PublishedCoin().evidence(votes, belief).log_odds)
    return probs


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
    n_votes = _votes_per_cell(shards, state, settings)
    objectives: list[float] = []
    while True:
        stats, label_probs = _e_step(shards, state, settings)
        objective = stats.log_likelihood + _log_likelihood_if_absent(n_votes, state, settings)
        objective += profile_log_prior(state.profiles, state.prior) - model.divergence(state.belief)
        growth = (objective - objectives[-1]) / max(abs(objective), 1.0) if objectives else np.inf
        objectives.append(objective)
        converged = bool(growth < settings.tol)
        counts = np.empty(0) if n_votes is None else model.counts(n_votes, stats.present_votes)
        if converged or len(objectives) >= settings.max_iter:
            return CrowdFit(state, np.concatenate(label_probs), counts, np.array(objectives), converged)
        state = replace(
            state,
            belief=state.belief if n_votes is None else model.update(counts, state.belief),
            profiles=profile_m_step(stats.profiles, state.prior) if settings.learn_profiles else state.profiles,
        )


def _votes_per_cell(shards: Sequence[VoteShard], state: CrowdState, settings: CrowdSettings) -> Array | None:
    """(annotators, classes or 1, 2): number of votes per annotator, class and value; None without votes."""
    if shards[0].source is None:
        return None
    n_columns = settings.annotators.log_rates(state.belief).shape[1]
    return reduce(np.add, (votes_per_cell(cast("Votes", shard.votes), n_columns) for shard in shards))


def _log_likelihood_if_absent(n_votes: Array | None, state: CrowdState, settings: CrowdSettings) -> float:
    """Log-likelihood of the votes if every class were absent."""
    if n_votes is None:
        return 0.0
    return float(np.sum(n_votes * settings.annotators.log_rates(state.belief)[:, :, 0]))  # "no" is correct


def _log_ratios(belief: AnnotatorBelief, settings: CrowdSettings) -> Array:
    """(annotators, classes or 1, 2): what a vote of each value adds to the log-odds of "present"."""
    log_rates = settings.annotators.log_rates(belief)
    return np.ascontiguousarray(log_rates[:, :, -1, ::-1] - log_rates[:, :, 0])


def _e_step(shards: Sequence[VoteShard], state: CrowdState, settings: CrowdSettings) -> tuple[_CrowdStats, list[Array]]:
    """Statistics of all shards, and Δ of each shard."""
    log_ratios = _log_ratios(state.belief, settings)

    def shard_e_step(shard: VoteShard) -> SetPosterior:
        votes = shard.votes
        table = None if votes is None else VoteTable(votes, log_ratios)
        return profile_e_step(shard.extra, shard.known, state.profiles, table)

    label_probs, stats = [], []
    for posterior in settings.engine.map(shard_e_step, shards):
        label_probs.append(posterior.label_probs)
        log_likelihood = float(posterior.log_likelihoods.sum())
        stats.append(_CrowdStats(posterior.stats, posterior.present_votes, log_likelihood))
    return reduce(_CrowdStats.__add__, stats), label_probs


def label_posterior(
    votes: VoteRows, known: NDArray[np.int8], state: CrowdState, settings: CrowdSettings, extra: Array | None = None
) -> Array:
    """Δ (documents, classes) under a fixed state, from votes, other evidence or both."""
    return np.concatenate(_e_step(cut_votes(votes, known, extra), state, settings)[1])


def votes_as_evidence(shards: Sequence[VoteShard], belief: AnnotatorBelief, settings: CrowdSettings) -> list[VoteShard]:
    """The shards with their votes turned into fixed evidence; EM on them does not update the annotators."""

    def fixed(shard: VoteShard) -> VoteShard:
        votes = shard.votes
        if votes is None:
            return shard
        log_odds = settings.annotators.evidence(votes, belief).log_odds
        return VoteShard(None, shard.known, log_odds if shard.extra is None else log_odds + shard.extra)

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
