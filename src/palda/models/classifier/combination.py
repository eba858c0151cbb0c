"""Combines the log-odds of a classifier with label-set profiles, so that classes inform each other.

The classifier's log-odds for a class count as evidence of κ (logit ξ_i(d) - logit of the class's base rate) nats. The
profiles pass it on to the other classes. A classifier uses the same words for all classes, so its errors are correlated
across classes, while profiles assume independent evidence: κ < 1 compensates for that. One profile with κ = 1 leaves
the classifier's log-odds unchanged.

For documents without votes, the log-odds that result are mixed with the classifier's own and recalibrated, because
profiles make them overconfident. The weight of the profiles in that mixture, ``share``, is chosen on documents whose
labels the profiles have not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from palda.data import ArraySpec
from palda.engine import Threads
from palda.models.classifier.calibration import PLATT_ARRAYS, Platt, fit_platt
from palda.models.crowd import (
    MIN_STANDARD_ERRORS,
    HeldOutVotes,
    ProfilePrior,
    Profiles,
    choose_candidate,
    initial_profiles,
    profile_e_step,
    profile_log_prior,
    profile_m_step,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from palda.data import Array

_NUMBERS_OF_PROFILES = (4, 10, 25)  # tried besides one; fewer than four were never the best on any data set
_KAPPAS = (1.0, 0.8, 0.6, 0.4, 0.0)
_KAPPAS_WITH_RECALIBRATION = (1.0, 0.8, 0.6)  # recalibration corrects most overconfidence
_TYPICAL_KAPPA = 0.6  # κ with which profiles are first fitted
_SHARES = (0.25, 0.5, 0.75, 1.0)  # of the profiles, besides 0
_MAX_ROUNDS, _TOL = 50, 1e-5  # of EM over profiles
_MAX_REFIT_ROUNDS, _TRIAL_TOL = 10, 3e-5  # of EM over profiles for another κ, and for any candidate in a trial
_DOCS_PER_BLOCK = 4096  # whose log-odds are computed at a time
_MIN_PROB = 1e-9  # distance of probabilities from 0 and 1 before their logit is taken
_MIN_SCORE_PROB = 1e-6  # the same for probabilities that are scored


COMBINATION_ARRAYS = {
    "weights": ArraySpec(("profiles",), low=0.0, high=1.0 + 1e-6, sum_axis=0),
    "rates": ArraySpec(("profiles", "classes"), above=0.0, below=1.0),
    "base": ArraySpec(("classes",), low=-100.0, high=100.0),
    "mixture": ArraySpec((2,), low=0.0, high=1.0),
    **{name: replace(spec, group="recalibration") for name, spec in PLATT_ARRAYS.items()},
    "gains": ArraySpec(("classes",), low=0.0, high=1e3, group="answers"),
    "shifts": ArraySpec(("classes",), low=-1e3, high=1e3, group="answers"),
}
"""Schema of a combination in a file."""


@dataclass(frozen=True, eq=False)
class Combination:
    """Profiles, the weight κ of the classifier's evidence, and the log-odds of the base rates."""

    profiles: Profiles
    kappa: float
    base: Array  # (classes,)
    share: float = 1.0  # weight of the profiles where there are no votes
    platt: Platt | None = None
    gains: Array | None = None  # (classes,): of answers about the support; None if evidence is about labels
    shifts: Array | None = None

    @classmethod
    def classifier_alone(cls, base: Array, kappa: float = 1.0) -> Combination:
        """Independent classes; with κ = 1, the classifier's log-odds unchanged."""
        return cls(Profiles(np.ones(1), expit(base)[None]), kappa, base)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Combination:
        """The combination whose ``arrays`` these are."""
        kappa, share = (float(number) for number in arrays["mixture"])
        platt = Platt.from_arrays(arrays) if "slope" in arrays else None
        profiles = Profiles(arrays["weights"], arrays["rates"])
        return cls(profiles, kappa, arrays["base"], share, platt, arrays.get("gains"), arrays.get("shifts"))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The combination as arrays of a file."""
        return {
            "weights": self.profiles.weights,
            "rates": self.profiles.rates,
            "base": self.base,
            "mixture": np.array([self.kappa, self.share]),
            **({} if self.platt is None else self.platt.arrays()),
            **({} if self.gains is None or self.shifts is None else {"gains": self.gains, "shifts": self.shifts}),
        }

    @property
    def n_profiles(self) -> int:
        """Number of profiles; 1 if classes are independent."""
        return len(self.profiles.weights)

    def evidence(self, log_odds: Array) -> Array:
        """Evidence (documents, classes) that the classifier adds to votes.

        In nats (maths, eq. 50); with ``gains`` answers about the support (eq. 108).
        """
        if self.gains is not None and self.shifts is not None:
            return self.kappa * (self.gains * log_odds - self.shifts)
        return self.kappa * (log_odds - self.base)

    def log_odds(self, classifier: Array) -> Array:
        """Log-odds (documents, classes) without votes, from the classifier's log-odds (maths, eq. 52)."""
        if self.n_profiles > 1 and self.share == 0.0:
            return classifier
        log_odds = np.empty_like(classifier)
        for first in range(0, len(classifier), _DOCS_PER_BLOCK):
            rows = slice(first, first + _DOCS_PER_BLOCK)
            log_odds[rows] = self._mixture(classifier[rows])
        return log_odds

    def _mixture(self, classifier: Array) -> Array:
        """Log-odds of some documents."""
        if self.n_profiles == 1:
            mixture = self.base + self.evidence(classifier)
        else:
            unknown = np.full(classifier.shape, -1, dtype=np.int8)
            probs = profile_e_step(self.evidence(classifier), unknown, self.profiles).label_probs
            from_profiles = logit(np.clip(probs, _MIN_PROB, 1.0 - _MIN_PROB))
            mixture = (1.0 - self.share) * classifier + self.share * from_profiles
        return mixture if self.platt is None else self.platt.apply(mixture)

    @property
    def slope(self) -> Array:
        """(classes,): derivative of the log-odds with respect to the classifier's for the same class."""
        direct = self.kappa if self.n_profiles == 1 else 1.0 - self.share + self.share * self.kappa
        return direct * (np.ones(len(self.base)) if self.platt is None else self.platt.slope)


class CombinationInputs(NamedTuple):
    """What is known of some documents: labels (-1 unknown), other evidence in nats, the classifier's log-odds."""

    known: NDArray[np.int8]
    other: Array
    classifier: Array


class HeldOutLabels(NamedTuple):
    """Soft labels (documents, classes) that were hidden, with weight 0 where they were not."""

    targets: Array
    weights: Array

    def log_likelihoods(self, probs: Array) -> Array:
        """(documents,): log-likelihood of the labels under probabilities (documents, classes), recalibrated first."""
        scores = logit(np.clip(probs, _MIN_SCORE_PROB, 1.0 - _MIN_SCORE_PROB))
        log_odds = fit_platt(scores, self.targets, self.weights).apply(scores)
        return _label_log_likelihoods(log_odds, self.targets, self.weights)


class HeldOut(NamedTuple):
    """Inputs of some documents, and the votes or labels that were hidden from them."""

    given: CombinationInputs
    hidden: HeldOutVotes | HeldOutLabels


def choose_combination(
    trials: Sequence[HeldOut],
    base: Array,
    *,
    n_profiles: int | None = None,
    near: Combination | None = None,
    n_choice_trials: int | None = None,
    min_standard_errors: float = MIN_STANDARD_ERRORS,
    seed: int = 0,
    engine: Threads | None = None,
) -> tuple[Combination, float]:
    """Profiles and κ that predict what was held out best, and its total log-likelihood over all trials.

    The trials are of the same documents. The classifier alone with κ = 1 is kept unless another candidate is better by
    ``min_standard_errors`` standard errors and a nat; more profiles must beat fewer by as much. With ``n_profiles``,
    only κ is chosen. With ``near``, an earlier choice, its number of profiles and κ are the only candidates beside the
    classifier alone. With ``n_choice_trials``, the choice is made on the first trials only; the log-likelihood is that
    of all of them, because a comparison of turns needs more precision than a comparison of candidates. The result does
    not depend on the number of threads.
    """
    engine = engine or Threads()
    trials, others = trials[:n_choice_trials], [] if n_choice_trials is None else trials[n_choice_trials:]
    candidates = [_choose_kappa(trials, base, min_standard_errors)]
    if n_profiles != 1 and len(base) > 1:
        sizes: tuple[int, ...] = _NUMBERS_OF_PROFILES if n_profiles is None else (n_profiles,)
        kappas: tuple[float, ...] = _KAPPAS
        if near is not None:
            sizes, kappas = (near.n_profiles,) if near.n_profiles > 1 else (), (near.kappa,)
        candidates += _fit_sizes(trials, base, sizes, kappas, seed, engine)
    best = len(candidates) - 1
    if n_profiles is None:
        scores = [candidate.scores for candidate in candidates]
        best = choose_candidate(scores, min_standard_errors=min_standard_errors)
    chosen = candidates[best].combinations[0]
    score = candidates[best].total
    if others and chosen.n_profiles > 1:
        score += _fit_sizes(others, base, (chosen.n_profiles,), (chosen.kappa,), seed, engine)[0].total
    elif others:
        score += float(sum(_scores(trial, chosen).sum() for trial in others))
    return chosen, score


def choose_for_new_documents(
    classifier: Array,
    label_probs: Array,
    weights: Array,
    base: Array,
    sample: NDArray[np.int64],
    hidden: NDArray[np.bool_],
    *,
    n_profiles: int | None = None,
    seed: int = 0,
    engine: Threads | None = None,
) -> Combination:
    """Profiles, κ, share and recalibration for documents without votes.

    ``classifier`` are out-of-fold log-odds, ``label_probs`` soft labels and ``weights`` their weights, all (documents,
    classes). The choices are made on the documents in ``sample``, where the labels of the ``hidden`` ones (sample, 1)
    are held out; candidates are compared after recalibration. Profiles and recalibration are then fitted to all labels.
    """
    if n_profiles == 1 or len(base) == 1:
        return Combination.classifier_alone(base)
    targets, log_odds, hidden_weights = label_probs[sample], classifier[sample], weights[sample] * hidden
    label_evidence = logit(np.clip(targets, _MIN_SCORE_PROB, 1.0 - _MIN_SCORE_PROB)) - log_odds
    unknown = np.full(targets.shape, -1, dtype=np.int8)
    given = CombinationInputs(unknown, np.where(hidden, 0.0, label_evidence), log_odds)
    trial = HeldOut(given, HeldOutLabels(targets, hidden_weights))
    sizes = _NUMBERS_OF_PROFILES if n_profiles is None else (n_profiles,)
    candidates = _fit_sizes([trial], base, sizes, _KAPPAS_WITH_RECALIBRATION, seed, engine or Threads())
    best = max(candidates, key=lambda candidate: candidate.total).combinations[0]
    share = _choose_share(best, log_odds, targets, hidden_weights)
    all_labels = CombinationInputs(unknown, label_evidence, log_odds)
    refitted = _fit_profiles(all_labels, best, ProfilePrior(expit(base)), _MAX_ROUNDS, _TOL)
    return _recalibrate(replace(refitted, share=share), classifier, label_probs, weights)


def _choose_share(combination: Combination, classifier: Array, targets: Array, weights: Array) -> float:
    """Weight of the profiles against the classifier's own log-odds, for documents without votes.

    The profiles must not have seen the documents' labels. Each mixture is recalibrated here, which costs it one nat for
    each of the two numbers per class. The classifier alone is calibrated already.
    """
    likelihoods = {0.0: float(_label_log_likelihoods(classifier, targets, weights).sum())}
    for share in _SHARES:
        candidate = _recalibrate(replace(combination, share=share), classifier, targets, weights)
        likelihood = float(_label_log_likelihoods(candidate.log_odds(classifier), targets, weights).sum())
        likelihoods[share] = likelihood - 2.0 * len(combination.base)
    return max(likelihoods, key=lambda share: likelihoods[share])


def _recalibrate(combination: Combination, classifier: Array, targets: Array, weights: Array) -> Combination:
    """The combination, recalibrated on out-of-fold log-odds; the classifier alone is left unchanged."""
    if combination.share == 0.0:
        return combination
    return replace(combination, platt=fit_platt(combination.log_odds(classifier), targets, weights))


def _label_log_likelihoods(log_odds: Array, targets: Array, weights: Array) -> Array:
    likelihoods: Array = np.sum(weights * (targets * log_odds - np.logaddexp(0.0, log_odds)), axis=1)
    return likelihoods


@dataclass(frozen=True)
class _Candidate:
    """A combination per trial, and the held-out log-likelihood (documents,), summed over the trials."""

    combinations: list[Combination]
    scores: Array

    @property
    def total(self) -> float:
        return float(self.scores.sum())


def _choose_kappa(trials: Sequence[HeldOut], base: Array, min_standard_errors: float) -> _Candidate:
    """The classifier alone with the best κ; κ = 1 unless another is clearly better."""

    def candidate(kappa: float) -> _Candidate:
        alone = Combination.classifier_alone(base, kappa)
        return _Candidate([alone] * len(trials), np.sum([_scores(trial, alone) for trial in trials], axis=0))

    unchanged, best = candidate(_KAPPAS[0]), candidate(_KAPPAS[1])
    for kappa in _KAPPAS[2:]:
        smaller = candidate(kappa)
        if smaller.total <= best.total:
            break
        best = smaller
    chosen = choose_candidate([unchanged.scores, best.scores], min_standard_errors=min_standard_errors)
    return best if chosen else unchanged


def _fit_sizes(
    trials: Sequence[HeldOut], base: Array, sizes: Sequence[int], kappas: Sequence[float], seed: int, engine: Threads
) -> list[_Candidate]:
    """For each number of profiles, combinations of each trial with the best common κ.

    The likelihood has one maximum in κ. Profiles are first fitted with the typical κ. From there the search moves to
    the next κ, up or else down, as long as the score grows; for all numbers of profiles at a time, so that threads have
    enough to do.
    """
    prior = ProfilePrior(expit(base))

    def fit(task: tuple[HeldOut, Combination, int]) -> tuple[Combination, Array]:
        trial, start, max_rounds = task
        fitted = _fit_profiles(trial.given, start, prior, max_rounds, _TRIAL_TOL)
        return fitted, _scores(trial, fitted)

    def fit_all(starts: list[list[Combination]], max_rounds: int) -> list[_Candidate]:
        tasks = [(trial, start, max_rounds) for own in starts for trial, start in zip(trials, own, strict=True)]
        results = iter(list(engine.map(fit, tasks)))
        parts = [[next(results) for _ in trials] for _ in starts]
        return [_Candidate([own for own, _ in part], np.sum([scores for _, scores in part], axis=0)) for part in parts]

    typical = min(range(len(kappas)), key=lambda position: abs(kappas[position] - _TYPICAL_KAPPA))
    alone = [_label_probs(trial.given, Combination.classifier_alone(base)) for trial in trials]
    seeds = [[initial_profiles(probs, size, prior, np.random.default_rng(seed)) for probs in alone] for size in sizes]
    best = fit_all([[Combination(own, kappas[typical], base) for own in part] for part in seeds], _MAX_ROUNDS)
    unmoved = list(range(len(sizes)))
    for direction in (-1, 1):
        moving, position = unmoved, typical + direction
        while moving and 0 <= position < len(kappas):
            starts = [[replace(own, kappa=kappas[position]) for own in best[size].combinations] for size in moving]
            found = dict(zip(moving, fit_all(starts, _MAX_REFIT_ROUNDS), strict=True))
            moving = [size for size in moving if found[size].total > best[size].total]
            for size in moving:
                best[size] = found[size]
            unmoved = [size for size in unmoved if size not in moving]
            position += direction
    return best


def _scores(trial: HeldOut, combination: Combination) -> Array:
    """(documents,): held-out log-likelihood."""
    return trial.hidden.log_likelihoods(_label_probs(trial.given, combination))


def _fit_profiles(
    given: CombinationInputs, start: Combination, prior: ProfilePrior, max_rounds: int, tol: float
) -> Combination:
    """EM over the profiles alone."""
    log_odds = given.other + start.evidence(given.classifier)
    profiles, previous = start.profiles, -np.inf
    for _ in range(max_rounds):
        posterior = profile_e_step(log_odds, given.known, profiles)
        objective = float(posterior.log_likelihoods.sum()) + profile_log_prior(profiles, prior)
        if objective - previous < tol * abs(objective):
            break
        profiles, previous = profile_m_step(posterior.stats, prior), objective
    return Combination(profiles, start.kappa, start.base)


def _label_probs(given: CombinationInputs, combination: Combination) -> Array:
    log_odds = given.other + combination.evidence(given.classifier)
    return profile_e_step(log_odds, given.known, combination.profiles).label_probs
