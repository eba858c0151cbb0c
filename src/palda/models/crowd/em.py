"""Consensus from votes: EM over label sets, annotators and label-set profiles, as a generator of (state, info).

Other evidence about the labels may join the votes, in nats for each (document, class): so does a classifier that has
read the texts. Without any, this is aggregation of votes alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palda.data import Votes, even_ranges, vote_blocks
from palda.engine import Threads
from palda.models.crowd import label_sets
from palda.models.crowd.annotator_model import by_class_and_state
from palda.models.crowd.label_sets import ProfilePrior, Profiles, ProfileStats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from palda.data import VoteRows
    from palda.models.crowd.annotator_model import AnnotatorBelief, AnnotatorModel

    Array = NDArray[np.float64]

__all__ = [
    "CANDIDATES",
    "N_VOTE_FOLDS",
    "CrowdFit",
    "CrowdInfo",
    "CrowdSettings",
    "CrowdState",
    "VoteShard",
    "choose_n_profiles",
    "consensus_em",
    "count_votes",
    "cut_votes",
    "fit_crowd",
    "label_posterior",
    "select_votes",
    "start_state",
    "vote_folds",
    "votes_log_likelihood",
    "with_profiles",
]

CANDIDATES = (1, 2, 4, 8, 15, 25)
"""Numbers of profiles that "auto" tries, in this order, until more no longer pay."""

N_VOTE_FOLDS = 5
"""Parts that the (document, annotator) rows are cut in: one judges what is learned from the others."""

_VOTES_PER_SHARD = 50_000
_MOST_SHARDS = 256
_MOST_PAIRS = 500_000  # (document, class) pairs looked at for that choice
_CLEAR = 2.0  # standard errors by which more profiles must predict hidden votes better
_PATIENCE = 2  # candidates in a row that may fail to
_LEAST_GAIN = 1.0  # and by how many nats at least, so that rounding never decides
_WARM_UP_ROUNDS, _WARM_UP_TOL = 50, 1e-5  # of new profiles, while annotators are held fixed


@dataclass(frozen=True)
class VoteShard:
    """Some documents: the votes on them, what is known of their labels, and other evidence in nats.

    Votes that are stored elsewhere are read whenever they are asked for.
    """

    said: Votes | tuple[VoteRows, slice] | None
    known: NDArray[np.int8]
    extra: Array | None = None

    @property
    def votes(self) -> Votes | None:
        """Votes on the documents."""
        if not isinstance(self.said, tuple):
            return self.said
        source, rows = self.said
        return source.take(rows)


@dataclass(frozen=True)
class CrowdState:
    """Everything that is learned."""

    belief: AnnotatorBelief
    profiles: Profiles
    prior: ProfilePrior


@dataclass(frozen=True)
class CrowdInfo:
    """How one round of EM went."""

    iteration: int
    log_likelihood: float
    """Objective of the state that goes with this: log-likelihood of the votes, given what is believed of annotators,
    plus the profiles' log prior, less the divergence of the annotators (maths, eq. 44)."""
    change: float
    """Growth since the last round, relative to its size; infinite in the first round."""
    converged: bool


@dataclass(frozen=True)
class CrowdSettings:
    """How EM runs."""

    annotators: AnnotatorModel
    max_iter: int = 500
    tol: float = 1e-6
    engine: Threads = field(default_factory=Threads)
    learn_profiles: bool = True


@dataclass(frozen=True)
class CrowdFit:
    """The end of EM: its last state and what the documents' labels are under it."""

    state: CrowdState
    label_probs: Array  # Δ, (docs, classes)
    vote_counts: Array  # what the annotator model counts
    log_likelihoods: Array  # the objective, an entry a round
    converged: bool


@dataclass(frozen=True)
class _Sums:
    """Additive statistics of a shard; without votes nothing is counted."""

    profiles: ProfileStats
    votes: Array | None
    log_likelihood: float

    def __add__(self, other: _Sums) -> _Sums:
        votes = None if self.votes is None or other.votes is None else self.votes + other.votes
        return _Sums(self.profiles + other.profiles, votes, self.log_likelihood + other.log_likelihood)


class _Round(NamedTuple):
    state: CrowdState
    info: CrowdInfo
    sums: _Sums
    label_probs: list[Array]  # a part a shard


def cut_votes(
    votes: VoteRows, known: NDArray[np.int8], extra: Array | None = None, n_shards: int | None = None
) -> list[VoteShard]:
    """Shards with about equal numbers of votes; where they are cut depends on the data alone."""
    if n_shards is None:
        n_shards = min(max(1, len(votes) // _VOTES_PER_SHARD), _MOST_SHARDS)
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
    """Expected (right, wrong) votes behind every rate, wherever the votes lie."""
    return reduce(np.add, (model.count(some, label_probs[rows]) for rows, some in vote_blocks(votes)))


def start_state(belief: AnnotatorBelief, label_probs: Array) -> CrowdState:
    """Independent classes at the rates of a first guess; ``with_profiles`` adds profiles once these have settled."""
    prior = ProfilePrior.vague(label_probs.shape[1])
    sums = ProfileStats(np.array([float(len(label_probs))]), label_probs.sum(axis=0, keepdims=True))
    return CrowdState(belief, label_sets.profile_m_step(sums, prior), prior)


def consensus_em(
    shards: Sequence[VoteShard], start: CrowdState, settings: CrowdSettings
) -> Iterator[tuple[CrowdState, CrowdInfo]]:
    """Rounds of EM. Each yields a state and its objective, which never falls; the last says whether EM converged.

    Labels and profiles are summed out exactly, so any state may be a start: that of an earlier fit, or the same state
    with other evidence.
    """
    for step in _rounds(shards, start, settings):
        yield step.state, step.info


def fit_crowd(
    shards: Sequence[VoteShard],
    start: CrowdState,
    settings: CrowdSettings,
    watch: Callable[[CrowdInfo], object] | None = None,
) -> CrowdFit:
    """EM until it converges or its rounds are used up; ``watch`` is told of every round."""
    objectives = []
    for step in _rounds(shards, start, settings):
        objectives.append(step.info.log_likelihood)
        if watch is not None:
            watch(step.info)
    return CrowdFit(
        step.state,
        np.concatenate(step.label_probs),
        np.empty(0) if step.sums.votes is None else step.sums.votes,
        np.array(objectives),
        step.info.converged,
    )


def with_profiles(
    shards: Sequence[VoteShard], fitted: CrowdFit, n_profiles: int, settings: CrowdSettings, seed: int
) -> CrowdState:
    """State with several profiles, from a fit with one: seeds, warmed up while the annotators are held fixed.

    The fit's base rates become the centre of the profiles' prior.
    """
    fixed = _with_annotators_fixed(shards, fitted.state.belief, settings)
    return _warmed_up(fixed, fitted, n_profiles, settings, seed)


def label_posterior(
    votes: VoteRows, known: NDArray[np.int8], state: CrowdState, settings: CrowdSettings, extra: Array | None = None
) -> Array:
    """Δ (documents, classes) of documents under a fixed state; new documents may have votes, other evidence or both."""
    return np.concatenate([probs for _, probs in _steps(cut_votes(votes, known, extra), state, settings)])


def votes_log_likelihood(held_out: Votes, label_probs: Array, belief: AnnotatorBelief) -> Array:
    """(documents,): Σ log p(vote) over votes that were not counted in ``label_probs``.

    A vote is predicted from what all the other votes say about its label, and from its annotator's mean rates
    (maths, eq. 46).
    """
    rates = by_class_and_state(belief.posterior)
    rates = rates[..., 0] / rates.sum(axis=-1)
    column = held_out.label if rates.shape[1] > 1 else np.zeros_like(held_out.label)
    present = label_probs[held_out.doc, held_out.label]
    specificity, sensitivity = (rates[held_out.annotator, column, state] for state in (0, -1))
    says_yes = present * sensitivity + (1.0 - present) * (1.0 - specificity)
    predicted = np.log(np.where(held_out.value == 1, says_yes, 1.0 - says_yes))
    sums = np.bincount(held_out.doc, predicted, minlength=held_out.n_docs)
    return sums.astype(np.float64, copy=False)


def choose_n_profiles(
    votes: Votes,
    known: NDArray[np.int8],
    start: CrowdState,
    settings: CrowdSettings,
    *,
    extra: Array | None = None,
    candidates: Sequence[int] = CANDIDATES,
    seed: int = 0,
) -> int:
    """Number of profiles that predicts hidden votes best; fewer unless more are clearly better.

    All that an annotator says about a document is hidden, for a fifth of such rows; everything is learned from the
    others, and each candidate predicts the hidden ones. (With single votes hidden, profiles would pay for learning how
    an annotator's votes on one document go together: that is not what documents are about.) While there are few
    documents, every fifth has its turn. More profiles must win by a nat at least, and by two standard errors of the
    difference, documents being the unit. Annotators are those of the fit with one profile: the choice then cannot trade
    what annotators do for what label sets are. All candidates descend from one ``start``, which may know the hidden
    votes; ``extra`` must not.
    """
    if votes.n_classes < 2 or not len(votes):
        return 1
    rng = np.random.default_rng(seed)
    rows = _sample(votes, rng)
    votes, known = votes.take(rows), known[rows]
    part = vote_folds(votes, rng)
    trials = [
        _Trial.of(votes, known, part == fifth, start, settings, None if extra is None else extra[rows])
        for fifth in range(max(1, min(N_VOTE_FOLDS, _MOST_PAIRS // known.size)))
    ]

    def predicted(n_profiles: int) -> Array:
        total: Array = np.sum([trial.predicted(n_profiles, settings, seed) for trial in trials], axis=0)
        return total

    best, score, failures = 1, predicted(1), 0
    for n_profiles in sorted(set(candidates) - {1}):
        challenger = predicted(n_profiles)
        if _clearly_better(challenger - score):
            best, score, failures = n_profiles, challenger, 0
        else:
            failures += 1
        if failures == _PATIENCE:
            break
    return best


@dataclass(frozen=True)
class _Trial:
    """A fit with one profile to the votes that are not hidden, ready to try more profiles."""

    held_out: Votes
    single: CrowdFit
    fixed: list[VoteShard]

    @classmethod
    def of(
        cls,
        votes: Votes,
        known: NDArray[np.int8],
        hidden: NDArray[np.bool_],
        start: CrowdState,
        settings: CrowdSettings,
        extra: Array | None,
    ) -> _Trial:
        shards = cut_votes(select_votes(votes, ~hidden), known, extra)
        single = fit_crowd(shards, start, settings)
        return cls(select_votes(votes, hidden), single, _with_annotators_fixed(shards, single.state.belief, settings))

    def predicted(self, n_profiles: int, settings: CrowdSettings, seed: int) -> Array:
        """(documents,): log-likelihood of the hidden votes."""
        probs, belief = self.single.label_probs, self.single.state.belief
        if n_profiles > 1:
            state = _warmed_up(self.fixed, self.single, n_profiles, settings, seed)
            probs = np.concatenate([part for _, part in _steps(self.fixed, state, settings)])
        return votes_log_likelihood(self.held_out, probs, belief)


def _sample(votes: Votes, rng: np.random.Generator) -> NDArray[np.int64]:
    """Documents that choose the number of profiles, in order: all of them if they are not too many."""
    most = max(1, _MOST_PAIRS // votes.n_classes)
    if votes.n_docs <= most:
        return np.arange(votes.n_docs)
    return np.sort(rng.choice(votes.n_docs, most, replace=False))


def vote_folds(votes: Votes, rng: np.random.Generator) -> NDArray[np.int64]:
    """(votes,): which of five random parts a vote is in; all that an annotator says about a document is in the same."""
    row_of_vote = votes.doc.astype(np.int64) * votes.n_annotators + votes.annotator
    rows, place = np.unique(row_of_vote, return_inverse=True)
    parts: NDArray[np.int64] = rng.integers(N_VOTE_FOLDS, size=len(rows))[place]
    return parts


def select_votes(votes: Votes, chosen: NDArray[np.bool_]) -> Votes:
    """Some of the votes; documents, annotators and classes stay."""
    columns = {name: getattr(votes, name)[chosen] for name in ("doc", "annotator", "label", "value")}
    return replace(votes, **columns)


def _clearly_better(gains: Array) -> bool:
    standard_error = float(np.std(gains) * np.sqrt(len(gains)))
    return float(gains.sum()) > max(_CLEAR * standard_error, _LEAST_GAIN)


def _with_annotators_fixed(
    shards: Sequence[VoteShard], belief: AnnotatorBelief, settings: CrowdSettings
) -> list[VoteShard]:
    """The same shards, with what the votes say turned into plain evidence."""

    def fixed(shard: VoteShard) -> VoteShard:
        log_odds, _ = _evidence(shard.votes, shard, belief, settings)
        return VoteShard(None, shard.known, log_odds)

    return list(settings.engine.map(fixed, shards))


def _warmed_up(
    fixed: Sequence[VoteShard], fitted: CrowdFit, n_profiles: int, settings: CrowdSettings, seed: int
) -> CrowdState:
    prior = ProfilePrior(fitted.state.profiles.rates[0])
    profiles = label_sets.initial_profiles(fitted.label_probs, n_profiles, prior, np.random.default_rng(seed))
    state = replace(fitted.state, profiles=profiles, prior=prior)
    *_, (state, _) = consensus_em(fixed, state, replace(settings, max_iter=_WARM_UP_ROUNDS, tol=_WARM_UP_TOL))
    return state


def _rounds(shards: Sequence[VoteShard], start: CrowdState, settings: CrowdSettings) -> Iterator[_Round]:
    """Rounds of EM, each with what the E-step found under its state."""
    state = start
    before = -np.inf
    for iteration in range(1, settings.max_iter + 1):
        parts = list(_steps(shards, state, settings))
        sums = reduce(_Sums.__add__, (part for part, _ in parts))
        objective = sums.log_likelihood + _log_priors(state, settings)
        change = (objective - before) / max(abs(objective), 1.0) if np.isfinite(before) else np.inf
        converged = change < settings.tol
        yield _Round(state, CrowdInfo(iteration, objective, change, converged), sums, [probs for _, probs in parts])
        if converged:
            return
        state = _maximisation(state, sums, settings)
        before = objective


def _steps(shards: Sequence[VoteShard], state: CrowdState, settings: CrowdSettings) -> Iterator[tuple[_Sums, Array]]:
    """E-steps of all shards, in their order."""
    return settings.engine.map(lambda shard: _shard_step(shard, state, settings), shards)


def _shard_step(shard: VoteShard, state: CrowdState, settings: CrowdSettings) -> tuple[_Sums, Array]:
    votes = shard.votes
    log_odds, if_absent = _evidence(votes, shard, state.belief, settings)
    found = label_sets.profile_e_step(log_odds, shard.known, state.profiles)
    counts = None if votes is None else settings.annotators.count(votes, found.label_probs)
    return _Sums(found.stats, counts, float(found.log_likelihoods.sum()) + if_absent), found.label_probs


def _evidence(
    votes: Votes | None, shard: VoteShard, belief: AnnotatorBelief, settings: CrowdSettings
) -> tuple[Array, float]:
    """Log-odds of all evidence, and the log-likelihood of the votes if every class were absent."""
    if votes is None:
        return np.zeros(shard.known.shape) if shard.extra is None else shard.extra, 0.0
    said = settings.annotators.evidence(votes, belief)
    log_odds = said.log_odds if shard.extra is None else said.log_odds + shard.extra
    return log_odds, float(said.absent.sum())


def _log_priors(state: CrowdState, settings: CrowdSettings) -> float:
    return label_sets.profile_log_prior(state.profiles, state.prior) - settings.annotators.divergence(state.belief)


def _maximisation(state: CrowdState, sums: _Sums, settings: CrowdSettings) -> CrowdState:
    belief = state.belief if sums.votes is None else settings.annotators.update(sums.votes, state.belief)
    profiles = label_sets.profile_m_step(sums.profiles, state.prior) if settings.learn_profiles else state.profiles
    return replace(state, belief=belief, profiles=profiles)
