"""Label-set profiles: which classes occur together.

A document has profile m with probability w_m. Given the profile, class i is present with probability π_mi,
independently of the other classes. One profile is the paper's model: independent classes at their base rates. Since
classes are independent given the profile, the posterior over profiles and label sets is exact:

    p(evidence) = Σ_m w_m Π_i [π_mi p(evidence_i | present) + (1 - π_mi) p(evidence_i | absent)]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from scipy.special import betaln, expit, gammaln, logit

from palda import kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, Votes
    from palda.kernels import LabelSetResult

_Array = TypeVar("_Array", bound="np.ndarray[Any, Any]")

_MIN_RATE = 1e-6  # π is never closer to 0 or 1: a class that no document has had may still occur
_MAX_STEPS = 100  # of Newton's method, some of which may be halvings
_ROUNDING, _TINY = 1e-15, 1e-300
_N_HALVINGS = 60
_MAX_SHIFT = 30.0  # of log-odds
_MAX_SEED_DOCS = 20_000  # documents among which initial profiles are drawn; more do not improve the choice


@dataclass(frozen=True)
class Profiles:
    """A mixture of label sets (maths, eq. 42)."""

    weights: Array  # w, (profiles,)
    rates: Array  # π, (profiles, classes)


@dataclass(frozen=True)
class ProfilePrior:
    """Prior of the profiles, in pseudo-documents; part of the objective.

    w ~ Dirichlet(1 + ``documents``, ...), and π_mi ~ Beta(1 + ``strength`` · c_i, 1 + ``strength`` · (1 - c_i)) with
    c_i the ``centre``: the base rate of the class, or ½ before it is known. A profile with few documents therefore
    stays near the base rates.
    """

    centre: Array  # (classes,)
    strength: float = 2.0
    documents: float = 1.0
    keeps_rates: bool = False
    """Whether the mean of several profiles is the centre. Where votes leave labels in doubt, profiles could otherwise
    explain the votes on other classes by a class that nobody has seen: with a quarter of all documents in a profile
    that has a class of 6% for sure (``crowd_brighter_arq``: AUPRC .402 instead of .463)."""

    @classmethod
    def vague(cls, n_classes: int) -> ProfilePrior:
        """Prior of a single profile, the base rates: half a pseudo-document with each class, half without."""
        return cls(np.full(n_classes, 0.5), strength=1.0)


@dataclass(frozen=True)
class ProfileStats:
    """Sums over documents; those of two shards add up."""

    profile_sums: Array  # Σ r_m, (profiles,)
    label_sums: Array  # Σ r_m Δ_mi, (profiles, classes)

    def __add__(self, other: ProfileStats) -> ProfileStats:
        return ProfileStats(self.profile_sums + other.profile_sums, self.label_sums + other.label_sums)


class VoteTable(NamedTuple):
    """Votes on some documents, and what a vote of each annotator and value adds to the log-odds of its class."""

    votes: Votes
    log_ratios: Array  # (annotators, classes or 1, 2)


class SetPosterior(NamedTuple):
    """Exact posterior of the documents' label sets."""

    label_probs: Array
    """Δ, (docs, classes)."""
    log_likelihoods: Array
    """(docs,): log p(evidence), minus its log-likelihood if every class were absent."""
    stats: ProfileStats
    present_votes: Array
    """(annotators, classes or 1, 2): Σ Δ over the votes of each annotator and value; empty without votes."""


def profile_e_step(
    log_odds: Array | None, known: NDArray[np.int8], profiles: Profiles, votes: VoteTable | None = None
) -> SetPosterior:
    """Posterior over all profiles and label sets, given votes and other evidence in nats (maths, eq. 43).

    ``known`` is 1 or 0 where the label is certain and -1 elsewhere. ``log_odds`` must be finite; where the label is
    known they count only towards the likelihood.
    """
    result: LabelSetResult = kernels.active().label_sets(
        _NO_VOTES if votes is None else vote_arrays(votes.votes),
        _NO_RATIOS if votes is None else votes.log_ratios,
        read_only(np.empty((0, known.shape[1])) if log_odds is None else np.require(log_odds, np.float64, ["C"])),
        read_only(np.require(known, np.int8, ["C"])),
        profiles.weights,
        np.ascontiguousarray(profiles.rates.T),
    )
    stats = ProfileStats(result.profile_sums, result.label_sums.T)
    return SetPosterior(result.label_probs, result.log_likelihoods, stats, result.present_votes)


def read_only(array: _Array) -> _Array:
    """A read-only view: Numba compiles a kernel once more for arrays that can be written."""
    view: _Array = array.view()
    view.flags.writeable = False
    return view


def vote_arrays(votes: Votes) -> kernels.VoteArrays:
    """The votes as read-only arrays for kernels."""
    return kernels.VoteArrays(
        read_only(votes.doc_starts), read_only(votes.annotator), read_only(votes.label), read_only(votes.value)
    )


_NO_CODES: NDArray[np.int32] = np.empty(0, dtype=np.int32)
_NO_VOTES = kernels.VoteArrays(
    read_only(np.empty(0, dtype=np.int64)),
    read_only(_NO_CODES),
    read_only(_NO_CODES),
    read_only(np.empty(0, dtype=np.int8)),
)
_NO_RATIOS = np.empty((0, 1, 2))


def profile_m_step(stats: ProfileStats, prior: ProfilePrior) -> Profiles:
    """Profiles that maximise the expected log-likelihood plus ``profile_log_prior`` (maths, eq. 45)."""
    weights = stats.profile_sums + prior.documents
    weights /= weights.sum()
    present, total = stats.label_sums + prior.strength * prior.centre, stats.profile_sums[:, None] + prior.strength
    rates = present / total
    if prior.keeps_rates and len(weights) > 1:
        rates = _rates_with_mean(present, total, weights, prior.centre)
    return Profiles(weights, np.clip(rates, _MIN_RATE, 1.0 - _MIN_RATE))


def _rates_with_mean(present: Array, total: Array, weights: Array, mean: Array) -> Array:
    """Rates (profiles, classes) that maximise Σ present ln π + (total - present) ln(1 - π) with a given mean.

    The Lagrange multiplier μ of Σ w π = mean solves μ w π² - (μ w + total) π + present = 0 for each profile; the mean
    falls with μ, which is found by Newton's method between bounds.
    """

    def rates(multiplier: Array) -> tuple[Array, Array]:
        """Rates, and their derivatives by the multiplier."""
        scaled = multiplier * weights[:, None]
        added = scaled + total
        root = np.sqrt(added**2 - 4.0 * scaled * present)
        # the form without cancellation of each of the two solutions
        falling = 2.0 * present / np.where(added > 0.0, added + root, 1.0)
        rising = (added - root) / np.where(scaled == 0.0, 1.0, 2.0 * scaled)
        found = np.where(added > 0.0, falling, rising)
        return found, -weights[:, None] * found * (1.0 - found) / np.maximum(root, _TINY)

    largest = 4.0 * float(total.max() / weights.min())
    low, high = np.full(len(mean), -largest), np.full(len(mean), largest)
    multiplier, before = np.zeros(len(mean)), np.full(len(mean), np.inf)
    found, slopes = rates(multiplier)
    for _ in range(_MAX_STEPS):
        excess = weights @ found - mean
        done = np.abs(excess) < _ROUNDING
        if done.all():
            break
        low, high = np.where(excess > 0.0, multiplier, low), np.where(excess > 0.0, high, multiplier)
        step = multiplier - excess / np.minimum(weights @ slopes, -_TINY)
        # A rate without present labels has a corner, at which Newton's method alone would go to and fro.
        trusted = (step > low) & (step < high) & (np.abs(excess) < 0.5 * before)
        multiplier = np.where(done, multiplier, np.where(trusted, step, (low + high) / 2.0))
        before = np.abs(excess)
        found, slopes = rates(multiplier)
    return found


def shifted_profiles(profiles: Profiles, mean: Array) -> Profiles:
    """Profiles whose mean rates are ``mean`` (classes,), all log-odds of a class shifted alike.

    Newton's method between bounds.
    """
    log_odds = logit(profiles.rates)
    low, high = np.full(len(mean), -_MAX_SHIFT), np.full(len(mean), _MAX_SHIFT)
    shift = np.zeros(len(mean))
    for _ in range(_N_HALVINGS):
        rates = expit(log_odds + shift)
        excess = profiles.weights @ rates - mean
        low, high = np.where(excess < 0.0, shift, low), np.where(excess < 0.0, high, shift)
        step = shift - excess / np.maximum(profiles.weights @ (rates * (1.0 - rates)), _TINY)
        step = np.where((step > low) & (step < high), step, (low + high) / 2.0)
        if np.abs(step - shift).max(initial=0.0) < _ROUNDING:
            break
        shift = step
    return Profiles(profiles.weights, np.clip(expit(log_odds + shift), _MIN_RATE, 1.0 - _MIN_RATE))


def profiles_at(log_weights: Array, log_odds: Array, prior: ProfilePrior) -> Profiles:
    """Profiles with weights and rates at a point; rates are shifted where the prior keeps their mean."""
    weights = np.exp(log_weights - log_weights.max())
    rates = expit(log_odds).reshape(len(weights), -1)
    profiles = Profiles(weights / weights.sum(), np.clip(rates, _MIN_RATE, 1.0 - _MIN_RATE))
    return shifted_profiles(profiles, prior.centre) if prior.keeps_rates else profiles


def profile_log_prior(profiles: Profiles, prior: ProfilePrior) -> float:
    """Log-density of the profiles under their prior."""
    n_profiles = len(profiles.weights)
    present, absent = prior.strength * prior.centre, prior.strength * (1.0 - prior.centre)
    rates = present * np.log(profiles.rates) + absent * np.log1p(-profiles.rates) - betaln(1.0 + present, 1.0 + absent)
    weights = prior.documents * np.log(profiles.weights).sum()
    norm = gammaln(n_profiles * (1.0 + prior.documents)) - n_profiles * gammaln(1.0 + prior.documents)
    return float(rates.sum() + weights + norm)


def initial_profiles(label_probs: Array, n_profiles: int, prior: ProfilePrior, rng: np.random.Generator) -> Profiles:
    """Profiles to start EM from: documents far apart, each shrunk half-way to the base rates.

    As in k-means++, each next document is drawn with a probability proportional to its squared distance from those
    already drawn.
    """
    if len(label_probs) > _MAX_SEED_DOCS:
        label_probs = label_probs[np.sort(rng.choice(len(label_probs), _MAX_SEED_DOCS, replace=False))]
    distances = np.full(len(label_probs), np.inf)
    chosen = rng.integers(len(label_probs), size=1)
    while len(chosen) < n_profiles:
        distances = np.minimum(distances, ((label_probs - label_probs[chosen[-1]]) ** 2).sum(axis=1))
        cumulative = np.cumsum(distances + np.finfo(float).tiny)  # positive even if all documents are alike
        chosen = np.append(chosen, np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
    rates = (label_probs[np.minimum(chosen, len(label_probs) - 1)] + prior.centre) / 2.0
    return Profiles(np.full(n_profiles, 1.0 / n_profiles), np.clip(rates, _MIN_RATE, 1.0 - _MIN_RATE))
