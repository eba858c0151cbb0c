"""Consensus from votes: EM over labels, annotators and label-set profiles.

Other evidence about the labels can join the votes, in nats per (document, class), such as that of a text classifier.
Without any, this is aggregation of votes alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy.special import expit, logit

from palda.data import Votes, even_ranges, vote_blocks
from palda.engine import Threads
from palda.models.crowd.annotator_model import AnnotatorBelief, OneCoinModel, PublishedCoin, votes_per_cell
from palda.models.crowd.confidence import (
    LevelBelief,
    SoftVotes,
    level_divergence,
    level_evidence,
    present_per_level,
    soft_votes,
    update_levels,
    votes_per_level,
)
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
    shifted_profiles,
)
from palda.models.crowd.link import learned_link, unlearned_link
from palda.models.crowd.support import NOTHING_GIVEN, SupportBelief, SupportModel, as_support, with_answers
from palda.models.crowd.support_em import final_belief, fit_support, sample_shards, support_posterior
from palda.models.crowd.traits import POINTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Array, VoteRows
    from palda.models.crowd.annotator_model import AnnotatorModel

_PRIOR_RATE, _PRIOR_VOTES = 0.7, 10.0  # rate of correct votes assumed of an annotator, and its weight in votes
_VOTES_PER_SHARD = 100_000
_MAX_SHARDS = 256
_MAX_STARTS, _MAX_START_PAIRS = 4, 100_000  # of profiles; (document, class) pairs in all starts together
_MAX_START_ROUNDS, _START_TOL = 50, 1e-5  # of EM with one rate per annotator, before EM with several
_WARM_UP_ROUNDS, _WARM_UP_TOL = 50, 1e-5  # EM of new profiles while the annotators are fixed
_MIN_PROB = 1e-6


@dataclass(frozen=True)
class VoteShard:
    """Some documents: their votes, known labels (-1 unknown), and other evidence in nats.

    Stored votes are read each time ``votes`` is used.
    """

    source: Votes | tuple[VoteRows, slice] | None
    known: NDArray[np.int8]
    extra: Array | None = None
    soft: SoftVotes | None = None

    @property
    def votes(self) -> Votes | None:
        """Votes on the documents."""
        if not isinstance(self.source, tuple):
            return self.source
        stored, rows = self.source
        return stored.take(rows)

    def soft_votes(self, votes: Votes | None, levels: LevelBelief) -> SoftVotes:
        """Levels of the votes, which are those of the shard."""
        return soft_votes(cast("Votes", votes), levels) if self.soft is None else self.soft


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
    present_levels: Array  # (rows, 2, levels): the same by level of soft votes; of length 0 without levels

    def __add__(self, other: _CrowdStats) -> _CrowdStats:
        return _CrowdStats(
            self.profiles + other.profiles,
            self.present_votes + other.present_votes,
            self.log_likelihood + other.log_likelihood,
            self.present_levels + other.present_levels,
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
    if known.max(initial=-1) < 0:
        return _vote_shares(votes)
    n_correct, n_tested = reduce(np.add, (_correct_votes(some, known[rows]) for rows, some in vote_blocks(votes)))
    if n_tested.any():
        crowd = (n_correct.sum() + _PRIOR_RATE * _PRIOR_VOTES) / (n_tested.sum() + _PRIOR_VOTES)
        probs = _posterior_of_coins(votes, (n_correct + crowd * _PRIOR_VOTES) / (n_tested + _PRIOR_VOTES))
    else:
        probs = _vote_shares(votes)
    return np.where(known >= 0, known, probs)


def _vote_shares(votes: VoteRows) -> Array:
    """(documents, classes): share of yes votes, smoothed towards that of the class."""
    shape = (votes.n_classes, 2)
    counts = [
        np.bincount(2 * some.pair + some.value, minlength=some.n_docs * votes.n_classes * 2).reshape(-1, *shape)
        for _, some in vote_blocks(votes)
    ]
    n_no, n_yes = np.moveaxis(np.concatenate(counts), -1, 0)
    n_votes = n_no + n_yes
    overall = (n_yes.sum(axis=0) + 1.0) / (n_votes.sum(axis=0) + 2.0)
    shares: Array = (n_yes + overall) / (n_votes + 1.0)
    return shares


def _correct_votes(votes: Votes, known: NDArray[np.int8]) -> Array:
    """(2, annotators): numbers of correct votes, and of votes, on known labels."""
    truth = known.ravel()[votes.pair]
    tested = truth >= 0
    annotator, correct = votes.annotator[tested], votes.value[tested] == truth[tested]
    n_correct = np.bincount(annotator, correct, minlength=votes.n_annotators)
    return np.stack((n_correct, np.bincount(annotator, minlength=votes.n_annotators)))


def _posterior_of_coins(votes: VoteRows, rates: Array) -> Array:
    """(documents, classes): probabilities from the votes under rates (annotators,), classes present half the time."""
    no_history = np.full((len(rates), 2), np.nan)
    belief = AnnotatorBelief(np.column_stack((rates, 1.0 - rates)), np.full(2, 0.5), no_history)
    probs: Array = np.concatenate(
        [expit(PublishedCoin().evidence(some, belief).log_odds) for _, some in vote_blocks(votes)]
    )
    return probs


def first_state(
    votes: VoteRows, known: NDArray[np.int8], guess: Array, belief: AnnotatorBelief, settings: CrowdSettings
) -> CrowdState:
    """State that EM starts from, given initial labels ``guess`` and beliefs before the first vote.

    The support model starts from typical annotators, or from those that known labels show if these contradict the
    crowd: EM does not find out by itself that the majority is wrong. The others start from labels, unless annotators
    have a history.
    """
    probs, model = start_label_probs(votes, known, guess, settings), settings.annotators
    if isinstance(model, SupportModel):
        if _contradict(known, votes):
            belief = model.update(_count_known(model, votes, known), belief)
    elif not belief.has_history.any():
        belief = model.update(count_votes(model, votes, probs), belief)
    return start_state(belief, probs)


def _contradict(known: NDArray[np.int8], votes: VoteRows) -> bool:
    """Whether votes of the crowd say yes to absent labels more often than to present ones, where labels are known."""
    if known.max(initial=-1) < 0:
        return False
    n_votes, n_correct = np.full(2, _PRIOR_VOTES), np.full(2, _PRIOR_RATE * _PRIOR_VOTES)  # absent, present
    for rows, some in vote_blocks(votes):
        truth = known[rows].ravel()[some.pair]
        n_votes += np.bincount(truth[truth >= 0], minlength=2)
        n_correct += np.bincount(truth[truth == some.value], minlength=2)
    return float(np.sum(n_correct / n_votes)) < 1.0


def _count_known(model: AnnotatorModel, votes: VoteRows, known: NDArray[np.int8]) -> Array:
    """Correct and wrong votes on known labels."""
    blocks = ((some.select(known[rows].ravel()[some.pair] >= 0), known[rows]) for rows, some in vote_blocks(votes))
    return reduce(np.add, (model.count(some, np.maximum(own, 0).astype(np.float64)) for some, own in blocks))


def start_label_probs(votes: VoteRows, known: NDArray[np.int8], guess: Array, settings: CrowdSettings) -> Array:
    """Labels (documents, classes) that EM of an annotator model with several rates starts from.

    EM with one rate per annotator, from the initial labels ``guess``. Where classes are rare, EM with several rates can
    go from a majority vote to a solution that has too many labels and low sensitivities. It does not start there.
    """
    if isinstance(settings.annotators, OneCoinModel | PublishedCoin | SupportModel) or not len(votes):
        return guess
    coin = OneCoinModel()
    belief = coin.update(count_votes(coin, votes, guess), coin.start(votes.n_annotators, votes.n_classes))
    settings = replace(settings, annotators=coin, max_iter=_MAX_START_ROUNDS, tol=max(settings.tol, _START_TOL))
    return fit_crowd(cut_votes(votes, known), start_state(belief, guess), settings).label_probs


def start_state(belief: AnnotatorBelief, label_probs: Array) -> CrowdState:
    """One profile at the base rates of ``label_probs``; ``with_profiles`` adds more after a first fit."""
    prior = ProfilePrior.vague(label_probs.shape[1])
    stats = ProfileStats(np.array([float(len(label_probs))]), label_probs.sum(axis=0, keepdims=True))
    return CrowdState(belief, profile_m_step(stats, prior), prior)


def fit_crowd(shards: Sequence[VoteShard], start: CrowdState, settings: CrowdSettings) -> CrowdFit:
    """EM until the relative growth of the objective is below ``tol``, or for ``max_iter`` rounds.

    The objective is the log-likelihood of the votes under the annotator beliefs, plus the log prior of the profiles,
    minus the divergence of the beliefs (maths, eq. 44), those about the levels of soft votes included. It never
    decreases. Labels and profiles are summed out exactly, so any state can be the start: that of an earlier fit, or one
    fitted to other evidence.
    """
    if isinstance(settings.annotators, SupportModel) and shards[0].source is not None and _n_votes(shards):
        return _fit_support(shards, start, settings)
    model, state = settings.annotators, start
    n_votes = _votes_per_cell(shards, state, settings)
    shards = _with_soft_votes(shards, state.belief.levels)
    n_level_votes = _votes_per_level(shards, state.belief.levels)
    objectives: list[float] = []
    while True:
        log_rates = model.log_rates(state.belief)
        levels = None if n_level_votes is None else state.belief.levels
        stats, label_probs = _e_step(shards, state.profiles, log_rates, settings, levels)
        if_absent = 0.0 if n_votes is None else float(np.sum(n_votes * log_rates[:, :, 0]))  # "no" is correct
        objective = stats.log_likelihood + if_absent
        objective += profile_log_prior(state.profiles, state.prior) - model.divergence(state.belief)
        scale = max(abs(objective), 1.0)  # without the levels, so that soft votes do not end EM sooner than hard ones
        if levels is not None and n_level_votes is not None:
            objective += float(np.sum(n_level_votes * levels.log_probs[:, :, 0])) - level_divergence(levels)
        growth = (objective - objectives[-1]) / scale if objectives else np.inf
        objectives.append(objective)
        converged = bool(growth < settings.tol)
        counts = np.empty(0) if n_votes is None else model.counts(n_votes, stats.present_votes)
        if converged or len(objectives) >= settings.max_iter:
            return CrowdFit(state, np.concatenate(label_probs), counts, np.array(objectives), converged)
        belief = state.belief if n_votes is None else model.update(counts, state.belief)
        if levels is not None and n_level_votes is not None:
            belief = replace(belief, levels=update_levels(n_level_votes, stats.present_levels, levels))
        state = replace(
            state,
            belief=belief,
            profiles=profile_m_step(stats.profiles, state.prior) if settings.learn_profiles else state.profiles,
        )


def _n_votes(shards: Sequence[VoteShard]) -> int:
    return sum(len(cast("Votes", shard.votes)) for shard in shards)


def _fit_support(shards: Sequence[VoteShard], start: CrowdState, settings: CrowdSettings) -> CrowdFit:
    shards = _with_soft_votes(shards, start.belief.levels)
    state, label_probs, objectives, converged = fit_support(shards, start, settings)
    probs = np.concatenate(label_probs)
    edges = np.cumsum([0, *(len(own) for own in label_probs)])
    rows = [slice(*pair) for pair in pairwise(edges)]
    model = settings.annotators
    counts = reduce(
        np.add,
        (model.count(cast("Votes", shard.votes), probs[own]) for shard, own in zip(shards, rows, strict=True)),
    )
    state = replace(state, belief=final_belief(state, counts))
    return CrowdFit(state, probs, counts, np.array(objectives), converged)


def _votes_per_cell(shards: Sequence[VoteShard], state: CrowdState, settings: CrowdSettings) -> Array | None:
    """(annotators, classes or 1, 2): number of votes per annotator, class and value; None without votes."""
    if shards[0].source is None:
        return None
    n_columns = settings.annotators.log_rates(state.belief).shape[1]
    return reduce(np.add, (votes_per_cell(cast("Votes", shard.votes), n_columns) for shard in shards))


def _with_soft_votes(shards: Sequence[VoteShard], levels: LevelBelief | None) -> Sequence[VoteShard]:
    """The shards with the levels of their votes, if these are in memory; others are cut anew in every round."""
    if levels is None:
        return shards
    return [
        replace(shard, soft=soft_votes(shard.source, levels)) if isinstance(shard.source, Votes) else shard
        for shard in shards
    ]


def _votes_per_level(shards: Sequence[VoteShard], levels: LevelBelief | None) -> Array | None:
    """(rows, 2, levels): number of votes per source, value and level; None without levels or votes."""
    if levels is None or shards[0].source is None:
        return None
    return reduce(np.add, (votes_per_level(shard.soft_votes(shard.votes, levels), levels) for shard in shards))


def _e_step(
    shards: Sequence[VoteShard],
    profiles: Profiles,
    log_rates: Array,
    settings: CrowdSettings,
    levels: LevelBelief | None = None,
) -> tuple[_CrowdStats, list[Array]]:
    """Statistics of all shards, and Δ of each shard."""
    log_ratios = np.ascontiguousarray(log_rates[:, :, -1, ::-1] - log_rates[:, :, 0])

    def shard_e_step(shard: VoteShard) -> tuple[SetPosterior, Array]:
        votes = shard.votes
        table = None if votes is None else VoteTable(votes, log_ratios)
        if votes is None or levels is None:
            return profile_e_step(shard.extra, shard.known, profiles, table), np.empty(0)
        soft = shard.soft_votes(votes, levels)
        extra = level_evidence(soft, levels.log_ratios, shard.known.shape)
        extra = extra if shard.extra is None else extra + shard.extra
        posterior = profile_e_step(extra, shard.known, profiles, table)
        return posterior, present_per_level(soft, posterior.label_probs, levels)

    label_probs, stats = [], []
    alone = len(shards) == 1  # then threads would only cost time
    for posterior, present in map(shard_e_step, shards) if alone else settings.engine.map(shard_e_step, shards):
        label_probs.append(posterior.label_probs)
        log_likelihood = float(posterior.log_likelihoods.sum())
        stats.append(_CrowdStats(posterior.stats, posterior.present_votes, log_likelihood, present))
    return reduce(_CrowdStats.__add__, stats), label_probs


def label_posterior(
    votes: VoteRows, known: NDArray[np.int8], state: CrowdState, settings: CrowdSettings, extra: Array | None = None
) -> Array:
    """Δ (documents, classes) under a fixed state, from votes, other evidence or both."""
    if isinstance(settings.annotators, SupportModel):
        shards = votes_as_evidence(cut_votes(votes, known, extra), state.belief, settings)
        return np.concatenate(_e_step(shards, state.profiles, np.empty((0, 1, 2, 2)), settings)[1])
    log_rates, levels = settings.annotators.log_rates(state.belief), state.belief.levels
    return np.concatenate(_e_step(cut_votes(votes, known, extra), state.profiles, log_rates, settings, levels)[1])


def votes_as_evidence(shards: Sequence[VoteShard], belief: AnnotatorBelief, settings: CrowdSettings) -> list[VoteShard]:
    """The shards with their votes turned into fixed evidence; EM on them does not update the annotators."""

    def fixed(shard: VoteShard) -> VoteShard:
        votes = shard.votes
        if votes is None:
            return shard
        return VoteShard(None, shard.known, settings.annotators.evidence(votes, belief, shard.extra).log_odds)

    return list(settings.engine.map(fixed, shards))


def with_profiles(
    shards: Sequence[VoteShard],
    single: CrowdFit,
    n_profiles: int,
    settings: CrowdSettings,
    seed: int,
    n_starts: int = 1,
) -> CrowdFit:
    """Fit with several profiles from a fit with one, while the annotators stay fixed: a start for ``fit_crowd``.

    The base rates of the fit with one profile become the centre of the profiles' prior.
    """
    evidence = votes_as_evidence(shards, single.state.belief, settings)
    prior = ProfilePrior(single.state.profiles.rates[0], keeps_rates=isinstance(settings.annotators, SupportModel))
    settings = replace(settings, max_iter=_WARM_UP_ROUNDS, tol=_WARM_UP_TOL)
    rng = np.random.default_rng(seed)

    def from_a_start() -> CrowdFit:
        profiles = initial_profiles(single.label_probs, n_profiles, prior, rng)
        return fit_crowd(evidence, replace(single.state, profiles=profiles, prior=prior), settings)

    return max((from_a_start() for _ in range(n_starts)), key=lambda fit: float(fit.log_likelihoods[-1]))


class GoldEvidence(NamedTuple):
    """What is known about labels of the support model before their truth, (documents, classes, ...)."""

    supports: Array  # (documents, classes, points): distributions given votes and a classifier's answers
    offsets: Array  # log-odds that profiles and evidence in nats add


def gold_evidence(votes: Votes, state: CrowdState, settings: CrowdSettings, extra: Array | None) -> GoldEvidence:
    """Supports of documents, and what profiles say about their labels beside them; known labels take no part."""
    belief = as_support(state.belief)
    given, _ = with_answers(NOTHING_GIVEN, belief, extra)
    supports = support_posterior(votes, belief, given)
    by_support = np.sum(supports * expit(belief.link[:, :1] * POINTS + belief.link[:, 1:]), axis=2)
    unknown = np.full(by_support.shape, -1, dtype=np.int8)
    label_probs = label_posterior(votes, unknown, state, settings, extra)
    log_odds = (logit(np.clip(table, _MIN_PROB, 1.0 - _MIN_PROB)) for table in (label_probs, by_support))
    return GoldEvidence(supports, np.subtract(*log_odds))


def relinked(
    votes: VoteRows, known: NDArray[np.int8], state: CrowdState, settings: CrowdSettings, extra: Array | None = None
) -> CrowdState:
    """The state with the link that known labels teach where profiles or a classifier join the votes (maths, eq. 98).

    A link that was learned from votes alone would be wrong beside them: where documents with known labels have more
    labels than others, both it and the profiles would make up for that.
    """
    if known.max(initial=-1) < 0 or not isinstance(state.belief, SupportBelief) or state.belief.panel is not None:
        return state
    rows = np.flatnonzero((known >= 0).any(axis=1))
    some = votes.take(rows)
    truth = np.where(some.per_pair() > 0, known[rows], np.int8(-1))
    judged = np.any([part.per_pair().any(axis=0) for _, part in vote_blocks(votes)], axis=0)
    link = unlearned_link(votes.n_classes)
    found = gold_evidence(some, with_link(state, link, judged), settings, None if extra is None else extra[rows])
    return with_link(state, learned_link(found.supports, truth, link, found.offsets), judged)


def with_link(state: CrowdState, link: Array, judged: NDArray[np.bool_]) -> CrowdState:
    """The state with another link; profiles are shifted to the shares of present labels that it implies.

    Only those of classes that somebody judged: rates of the others are those of known labels, whatever the link.
    """
    after = replace(as_support(state.belief), link=link)
    mean = np.where(judged, after.prevalence, state.profiles.weights @ state.profiles.rates)
    prior = replace(state.prior, centre=mean) if state.prior.keeps_rates else state.prior
    return CrowdState(after, shifted_profiles(state.profiles, mean), prior)


def fit_with_profiles(
    votes: VoteRows, known: NDArray[np.int8], single: CrowdFit, n_profiles: int, settings: CrowdSettings, seed: int = 0
) -> CrowdFit:
    """Fit with several profiles, from one with a single profile to the same votes."""
    shards = cut_votes(votes, known)
    some = sample_shards(shards) if isinstance(settings.annotators, SupportModel) else shards
    # EM has several optima: with one start, two seeds gave hin labels of which one in 130 differed.
    n_starts = min(_MAX_STARTS, max(1, _MAX_START_PAIRS // single.label_probs.size))
    several = with_profiles(some, single, n_profiles, settings, seed, n_starts)
    start = relinked(votes, known, several.state, settings)
    if len(some) < len(shards):
        start = fit_crowd(some, start, settings).state
    return fit_crowd(shards, start, settings)
