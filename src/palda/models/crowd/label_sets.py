"""Label-set profiles: which classes come together.

A document has profile m with probability w_m, and given the profile each class i independently with probability π_mi.
One profile is the paper's model: independent classes at their base rates. Since classes are independent given the
profile, the posterior over profiles and label sets is exact, whatever votes and other evidence say about each label:

    p(evidence) = Σ_m w_m Π_i [π_mi p(evidence_i | present) + (1 - π_mi) p(evidence_i | absent)]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import betaln, gammaln

from palda import kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.kernels import LabelSetResult

    Array = NDArray[np.float64]

__all__ = [
    "ProfilePrior",
    "ProfileStats",
    "Profiles",
    "SetPosterior",
    "initial_profiles",
    "profile_e_step",
    "profile_log_prior",
    "profile_m_step",
]

_LEAST = 1e-6  # π and w are never closer to 0 or 1: a class nobody has seen may still exist
_MOST_SEEDS = 20_000  # documents looked at for seeds; more would not choose better


@dataclass(frozen=True)
class Profiles:
    """A mixture of label sets (maths, eq. 42)."""

    weights: Array  # w, (profiles,)
    rates: Array  # π, (profiles, classes)


@dataclass(frozen=True)
class ProfilePrior:
    """What is believed of profiles beforehand, in imaginary documents; part of the objective.

    w ~ Dirichlet(1 + ``documents``, ...), and π_mi ~ Beta(1 + ``strength`` · c_i, 1 + ``strength`` · (1 - c_i)) with
    c_i the ``centre``: the class's base rate, or ½ before that is known. So a profile with few documents stays near the
    base rates.
    """

    centre: Array  # (classes,)
    strength: float = 2.0
    documents: float = 1.0

    @classmethod
    def vague(cls, n_classes: int) -> ProfilePrior:
        """For a single profile, the base rates themselves: half an imaginary document with each class, half without."""
        return cls(np.full(n_classes, 0.5), strength=1.0)


@dataclass(frozen=True)
class ProfileStats:
    """Sums over documents; those of two shards add up to those of both."""

    profile_sums: Array  # Σ r_m, (profiles,)
    label_sums: Array  # Σ r_m Δ_mi, (profiles, classes)

    def __add__(self, other: ProfileStats) -> ProfileStats:
        return ProfileStats(self.profile_sums + other.profile_sums, self.label_sums + other.label_sums)


class SetPosterior(NamedTuple):
    """Exact posterior of the documents' label sets."""

    label_probs: Array
    """Δ, (docs, classes)."""
    profile_probs: Array
    """r, (docs, profiles)."""
    log_likelihoods: Array
    """(docs,): log p(evidence), less its log-likelihood if every class were absent."""
    stats: ProfileStats


def profile_e_step(log_odds: Array, known: NDArray[np.int8], profiles: Profiles) -> SetPosterior:
    """Sums over all profiles and label sets, given the evidence for "present" in nats (maths, eq. 43).

    ``known`` is 1 or 0 where the label is certain and -1 where it is not. ``log_odds`` must be finite: what is certain
    is said by ``known``. There the log-odds only count towards the likelihood.
    """
    found: LabelSetResult = kernels.active().label_sets(
        np.require(log_odds, np.float64, ["C"]),
        np.require(known, np.int8, ["C"]),
        np.log(profiles.weights),
        np.ascontiguousarray(profiles.rates.T),
    )
    stats = ProfileStats(found.profile_probs.sum(axis=0), found.label_sums.T)
    return SetPosterior(found.label_probs, found.profile_probs, found.log_likelihoods, stats)


def profile_m_step(stats: ProfileStats, prior: ProfilePrior) -> Profiles:
    """Profiles that maximise the expected log-likelihood plus ``profile_log_prior``, within limits (maths, eq. 45)."""
    weights = stats.profile_sums + prior.documents
    rates = (stats.label_sums + prior.strength * prior.centre) / (stats.profile_sums[:, None] + prior.strength)
    return Profiles(weights / weights.sum(), np.clip(rates, _LEAST, 1.0 - _LEAST))


def profile_log_prior(profiles: Profiles, prior: ProfilePrior) -> float:
    """Log-density of the profiles before any document is seen."""
    n_profiles = len(profiles.weights)
    present, absent = prior.strength * prior.centre, prior.strength * (1.0 - prior.centre)
    rates = present * np.log(profiles.rates) + absent * np.log1p(-profiles.rates) - betaln(1.0 + present, 1.0 + absent)
    weights = prior.documents * np.log(profiles.weights).sum()
    norm = gammaln(n_profiles * (1.0 + prior.documents)) - n_profiles * gammaln(1.0 + prior.documents)
    return float(rates.sum() + weights + norm)


def initial_profiles(label_probs: Array, n_profiles: int, prior: ProfilePrior, rng: np.random.Generator) -> Profiles:
    """Profiles to start from: documents far apart, each drawn half-way to the base rates.

    Each next document is drawn with a probability that grows with its squared distance from those already chosen, as
    k-means++ does.
    """
    if len(label_probs) > _MOST_SEEDS:
        label_probs = label_probs[np.sort(rng.choice(len(label_probs), _MOST_SEEDS, replace=False))]
    distances = np.full(len(label_probs), np.inf)
    chosen = rng.integers(len(label_probs), size=1)
    while len(chosen) < n_profiles:
        distances = np.minimum(distances, ((label_probs - label_probs[chosen[-1]]) ** 2).sum(axis=1))
        steps = np.cumsum(distances + np.finfo(float).tiny)  # documents that are all alike are drawn all the same
        chosen = np.append(chosen, np.searchsorted(steps, rng.random() * steps[-1], side="right"))
    rates = (label_probs[np.minimum(chosen, len(label_probs) - 1)] + prior.centre) / 2.0
    return Profiles(np.full(n_profiles, 1.0 / n_profiles), np.clip(rates, _LEAST, 1.0 - _LEAST))
