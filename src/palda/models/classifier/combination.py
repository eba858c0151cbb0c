"""A head's log-odds joined with label-set profiles: classes that come together are predicted together.

What a head says about a class counts as evidence of κ (logit ξ_i(d) - logit of the class's base rate) nats. Through the
profiles it reaches the other classes too. A head reads the same words for every class, so its voices are not as
independent as the profiles take them to be: κ < 1 makes up for that. With one profile and κ = 1 the head is left as it
is.

For documents without votes the log-odds that come out are mixed with the head's own and recalibrated, since profiles
make them too sure: ``share`` of the one, the rest of the other, chosen on documents whose labels the profiles have not
seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, logit

from palda.models.classifier.calibration import Platt, fit_platt
from palda.models.crowd import ProfilePrior, Profiles, label_sets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "KAPPAS",
    "MIN_STANDARD_ERRORS",
    "PROFILE_NUMBERS",
    "Combination",
    "CombinationInputs",
    "HeldOut",
    "choose_combination",
    "choose_share",
    "likeliest_combination",
    "recalibrated",
    "refitted",
]

PROFILE_NUMBERS = (4, 10, 25)
"""Numbers of profiles that "auto" tries besides one: fewer than four never were the best anywhere."""

KAPPAS = (1.0, 0.8, 0.6, 0.4, 0.0)
"""Weights of the head's evidence that are tried."""

MIN_STANDARD_ERRORS = 2.0
"""Standard errors by which anything but the head alone must predict better."""

_SURER_KAPPAS = (1.0, 0.8, 0.6)  # where recalibration follows, there is less to make up for
_TYPICAL = 0.6  # κ under which numbers of profiles are compared first
_ROUNDS, _FEW_ROUNDS, _TOL = 50, 10, 1e-5  # of EM over profiles
_SHARES = (0.25, 0.5, 0.75, 1.0)  # of the profiles, besides none
_LEAST_GAIN = 1.0  # and by how many nats at least, so that rounding never decides


@dataclass(frozen=True, eq=False)
class Combination:
    """Profiles, the weight of a head's evidence, and the log-odds of the base rates it is measured from."""

    profiles: Profiles
    kappa: float
    base: Array

    share: float = 1.0
    platt: Platt | None = None

    @classmethod
    def classifier_alone(cls, base: Array, kappa: float = 1.0) -> Combination:
        """Independent classes: with κ = 1, exactly what the head says."""
        return cls(Profiles(np.ones(1), expit(base)[None]), kappa, base)

    def evidence(self, log_odds: Array) -> Array:
        """What a head's log-odds (documents, classes) add to other evidence, in nats (maths, eq. 50)."""
        return self.kappa * (log_odds - self.base)

    def log_odds(self, head: Array) -> Array:
        """Log-odds (documents, classes) of documents without votes, from a head's (maths, eq. 52)."""
        if len(self.profiles.weights) == 1:
            mixed = self.base + self.evidence(head)
        elif self.share == 0.0:
            return head
        else:
            mixed = (1.0 - self.share) * head + self.share * self._through_profiles(head)
        return mixed if self.platt is None else self.platt.apply(mixed)

    def _through_profiles(self, head: Array) -> Array:
        unknown = np.full(head.shape, -1, dtype=np.int8)
        probs = label_sets.profile_e_step(self.evidence(head), unknown, self.profiles).label_probs
        return logit(np.clip(probs, _LEAST_PROB, 1.0 - _LEAST_PROB))

    @property
    def slope(self) -> Array:
        """(classes,): by how much log-odds grow with the head's of the same class, all else equal."""
        alone = len(self.profiles.weights) == 1
        direct = self.kappa if alone else 1.0 - self.share + self.share * self.kappa
        return direct * (np.ones(len(self.base)) if self.platt is None else self.platt.slope)


_LEAST_PROB = 1e-9


class CombinationInputs(NamedTuple):
    """What is known of some documents: labels (-1 unknown), other evidence in nats, and a head's log-odds."""

    known: NDArray[np.int8]
    other: Array
    head: Array


class HeldOut(NamedTuple):
    """What is known of some documents, and what was held back from it as a judge.

    ``score`` gives the log-likelihood of what was held back, an entry a document, from probabilities (documents,
    classes).
    """

    given: CombinationInputs
    score: Callable[[Array], Array]


def choose_combination(
    trials: Sequence[HeldOut],
    base: Array,
    *,
    n_profiles: int | None = None,
    caution: float = MIN_STANDARD_ERRORS,
    seed: int = 0,
) -> tuple[Combination, float]:
    """Profiles and κ under which what was held back is predicted best, and its log-likelihood over all trials.

    The trials are of the same documents. The head alone is kept unless something else is better by ``caution`` standard
    errors and a nat; of more profiles the same is asked again. With ``n_profiles`` only κ is chosen.
    """
    best = _best_kappa_alone(trials, base, caution)
    found = _scores(trials, [best] * len(trials))
    if n_profiles == 1 or len(base) == 1:
        return best, float(found.sum())
    for size in PROFILE_NUMBERS if n_profiles is None else (n_profiles,):
        challengers = _with_profiles(trials, base, size, KAPPAS, seed)
        reached = _scores(trials, challengers)
        if n_profiles is not None or _clearly_better(reached - found, caution):
            best, found = challengers[0], reached
    return best, float(found.sum())


def likeliest_combination(trial: HeldOut, base: Array, *, n_profiles: int | None = None, seed: int = 0) -> Combination:
    """Profiles and κ under which what was held back is likeliest; ``choose_share`` then weighs the head alone."""
    if n_profiles == 1 or len(base) == 1:
        return Combination.classifier_alone(base)
    sizes = PROFILE_NUMBERS if n_profiles is None else (n_profiles,)
    candidates = [_with_profiles([trial], base, size, _SURER_KAPPAS, seed) for size in sizes]
    return max(candidates, key=lambda found: float(_scores([trial], found).sum()))[0]


def choose_share(joined: Combination, head: Array, targets: Array, weights: Array) -> float:
    """Share of what comes out of the profiles, the rest being the head's own log-odds, for documents without votes.

    The documents' labels must not have been seen by the profiles. Mixtures are recalibrated here: two numbers a class,
    which cost them a nat each. The head alone is calibrated already.
    """
    if len(joined.profiles.weights) == 1:
        return 1.0
    reached = {0.0: float(_log_likelihoods(head, targets, weights).sum())}
    for share in _SHARES:
        ready = recalibrated(replace(joined, share=share), head, targets, weights)
        likelihood = float(_log_likelihoods(ready.log_odds(head), targets, weights).sum())
        reached[share] = likelihood - 2.0 * len(joined.base)
    return max(reached, key=lambda share: reached[share])


def recalibrated(joined: Combination, head: Array, targets: Array, weights: Array) -> Combination:
    """The same, recalibrated on out-of-fold log-odds of a head and their soft targets; the head alone is left as is."""
    if len(joined.profiles.weights) == 1 or joined.share == 0.0:
        return replace(joined, platt=None)
    mixed = replace(joined, platt=None).log_odds(head)
    return replace(joined, platt=fit_platt(mixed, targets, weights))


def refitted(joined: Combination, given: CombinationInputs) -> Combination:
    """The same number of profiles, fitted to more evidence."""
    if len(joined.profiles.weights) == 1:
        return joined
    return replace(_fitted(given, joined, ProfilePrior(expit(joined.base)), _ROUNDS), share=joined.share)


def _log_likelihoods(log_odds: Array, targets: Array, weights: Array) -> Array:
    likelihoods: Array = np.sum(weights * (targets * log_odds - np.logaddexp(0.0, log_odds)), axis=1)
    return likelihoods


def _best_kappa_alone(trials: Sequence[HeldOut], base: Array, caution: float) -> Combination:
    best = Combination.classifier_alone(base)
    found = _scores(trials, [best] * len(trials))
    others = [Combination.classifier_alone(base, kappa) for kappa in KAPPAS if kappa != 1.0]
    scores = [_scores(trials, [other] * len(trials)) for other in others]
    likeliest = int(np.argmax([reached.sum() for reached in scores]))
    return others[likeliest] if _clearly_better(scores[likeliest] - found, caution) else best


def _with_profiles(
    trials: Sequence[HeldOut], base: Array, size: int, kappas: Sequence[float], seed: int
) -> list[Combination]:
    """Best κ for so many profiles, which each trial fits once for a typical κ and a little more for each other κ."""
    prior = ProfilePrior(expit(base))
    typical = min(kappas, key=lambda kappa: abs(kappa - _TYPICAL))

    def first(given: CombinationInputs) -> Combination:
        alone = _probs(given, Combination.classifier_alone(base))
        seeds = label_sets.initial_profiles(alone, size, prior, np.random.default_rng(seed))
        return _fitted(given, Combination(seeds, typical, base), prior, _ROUNDS)

    starts = [first(trial.given) for trial in trials]
    best, found = starts, float(_scores(trials, starts).sum())
    for kappa in kappas:
        if kappa == typical:
            continue
        tried = [
            _fitted(trial.given, replace(start, kappa=kappa), prior, _FEW_ROUNDS)
            for trial, start in zip(trials, starts, strict=True)
        ]
        reached = float(_scores(trials, tried).sum())
        if reached > found:
            best, found = tried, reached
    return best


def _scores(trials: Sequence[HeldOut], found: Sequence[Combination]) -> Array:
    """(documents,): log-likelihood of what was held back, summed over the trials, each with its own."""
    total: Array = np.sum(
        [trial.score(_probs(trial.given, joined)) for trial, joined in zip(trials, found, strict=True)], axis=0
    )
    return total


def _fitted(given: CombinationInputs, start: Combination, prior: ProfilePrior, rounds: int) -> Combination:
    """EM over profiles alone."""
    log_odds = given.other + start.evidence(given.head)
    profiles, before = start.profiles, -np.inf
    for _ in range(rounds):
        found = label_sets.profile_e_step(log_odds, given.known, profiles)
        objective = float(found.log_likelihoods.sum()) + label_sets.profile_log_prior(profiles, prior)
        if objective - before < _TOL * abs(objective):
            break
        profiles, before = label_sets.profile_m_step(found.stats, prior), objective
    return Combination(profiles, start.kappa, start.base)


def _probs(given: CombinationInputs, joined: Combination) -> Array:
    log_odds = given.other + joined.evidence(given.head)
    return label_sets.profile_e_step(log_odds, given.known, joined.profiles).label_probs


def _clearly_better(gains: Array, caution: float) -> bool:
    standard_error = float(np.std(gains) * np.sqrt(len(gains)))
    return float(gains.sum()) > max(caution * standard_error, _LEAST_GAIN)
