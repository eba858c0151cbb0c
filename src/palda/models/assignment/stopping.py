"""How many labels are still wrong: expected numbers, calibrated on check votes, and a bound for a stopping rule.

The log-odds of all labels are multiplied by a slope b, which is 1 if the probabilities are calibrated, below 1 if they
are too certain. What check votes say about b is the probability that they have, given labels that did not see them
(maths, eq. 93). The number of wrong labels then has a posterior distribution, and the bound is its 90% quantile. A
posterior does not depend on when one looks, so the bound holds at every look (maths, eq. 94).

b is a product of two slopes. That of the votes says how far votes are as independent as the annotator model takes them,
and check votes show it. That of the link says how far what annotators agree on is the truth, and no vote shows it: it
has a prior, and labels that were known and held back (maths, eq. 109).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, log_expit, logit, ndtr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.models.assignment.gain import Rates

LEVEL = 0.1
"""Probability that there are more wrong labels than the bound."""

GOLD_WEIGHT = 0.5
"""Weight of known labels in the posterior of the slope: the link of the fit that is tested has learned from them, too.

``python -m benchmarks real_gold``, 30 gold documents: with a weight of 1 the bound held in 77 of 100 samples of
brighter_hin.
"""

_STEP, _N_SIDE = 0.0125, 240
_LOG_SLOPES = _STEP * np.arange(-_N_SIDE, _N_SIDE + 1)  # -3 to 3: one in 20 and 20 times as certain
_SLOPES = np.exp(_LOG_SLOPES)
_VOTES_SPREAD, _TAILS = 0.08, 4.0  # scale and degrees of freedom of the logarithm of the slope of the votes
_NEGLIGIBLE = 1e-6  # probability of a slope
_MIN_PROB, _TINY = 1e-9, 1e-300
_BIN, _MAX_LOG_ODDS = 0.02, 21.0  # of the histogram of log-odds


@dataclass(frozen=True)
class LabelHistogram:
    """Log-odds of labels, counted: all that expected numbers of wrong labels depend on."""

    log_odds: Array
    """(bins,): centres."""
    count: Array
    """(bins,): labels that are not known."""
    n_known: int
    n_known_present: int

    @classmethod
    def of(cls, label_probs: Array, known: NDArray[np.int8]) -> LabelHistogram:
        """Histogram of label probabilities (documents, classes)."""
        is_known = known >= 0
        probs = np.clip(label_probs[~is_known], _MIN_PROB, 1.0 - _MIN_PROB)
        n_side = round(_MAX_LOG_ODDS / _BIN)
        position = np.floor(logit(probs) / _BIN).astype(np.int64) + n_side
        count = np.bincount(np.clip(position, 0, 2 * n_side - 1), minlength=2 * n_side)
        centres = np.asarray((np.arange(2 * n_side) - n_side + 0.5) * _BIN, dtype=np.float64)
        return cls(centres, count.astype(np.float64), int(is_known.sum()), int((known == 1).sum()))

    @property
    def n_labels(self) -> int:
        """Number of labels, known ones included."""
        return int(self.count.sum()) + self.n_known

    def quality(self, slope: float) -> ExpectedQuality:
        """Expected numbers after the best decisions, if log-odds are multiplied by a slope."""
        probs = expit(slope * self.log_odds)
        wrong = np.minimum(probs, 1.0 - probs)
        found = float(np.sum(self.count * probs * (self.log_odds > 0))) + self.n_known_present
        return ExpectedQuality(
            float(np.sum(self.count * wrong)), float(np.sqrt(np.sum(self.count * wrong * (1.0 - wrong)))), found
        )


@dataclass(frozen=True)
class ExpectedQuality:
    """Expected number of wrong labels, its standard deviation, and the number of labels that are found."""

    wrong: float
    deviation: float
    found: float

    @property
    def f1(self) -> float:
        """Micro-F1 at the expected numbers (maths, eq. 95)."""
        return micro_f1(self.found, self.wrong)


@dataclass(frozen=True)
class Calibration:
    """What check votes say about the slope of the log-odds."""

    slope: float
    """Posterior median,"""
    low: float
    """and its central 90%: lower"""
    high: float
    """and upper end."""
    n_votes: int
    """Number of check votes on single labels, and known labels that were compared."""
    posterior: Array = field(repr=False)
    """(slopes,): posterior probabilities."""

    def upper_wrong(self, histogram: LabelHistogram) -> float:
        """Number of wrong labels that is exceeded with probability ``LEVEL`` (maths, eq. 94)."""
        likely = np.flatnonzero(self.posterior > _NEGLIGIBLE)
        outcomes = [histogram.quality(float(slope)) for slope in _SLOPES[likely]]
        wrong, deviation = (np.array([getattr(one, name) for one in outcomes]) for name in ("wrong", "deviation"))
        weights = self.posterior[likely] / self.posterior[likely].sum()

        def excess(bound: float) -> float:
            return float(weights @ ndtr((wrong - bound) / np.maximum(deviation, 1e-9))) - LEVEL

        low, high = 0.0, float(np.max(wrong + 10.0 * deviation)) + 1.0
        return float(brentq(excess, low, high)) if excess(low) > 0.0 else 0.0


def vote_log_likelihoods(values: NDArray[np.int8], rates: Rates) -> tuple[Array, Array]:
    """Log-likelihoods of votes (looks, classes) if the class is present, and if it is absent; 0 for no vote (-1)."""
    yes, voted = values == 1, values >= 0
    present = np.log(np.where(yes, rates.sensitivity, 1.0 - rates.sensitivity))
    absent = np.log(np.where(yes, 1.0 - rates.specificity, rates.specificity))
    return np.where(voted, present, 0.0), np.where(voted, absent, 0.0)


def slope_log_likelihoods(label_probs: Array, if_present: Array, if_absent: Array) -> Array:
    """(slopes,): log-likelihood of check votes, given label probabilities without them (maths, eq. 93).

    All tables are (documents, classes): the probabilities, and the log-likelihoods of all check votes on a label in
    either state.
    """
    tested = (if_present != 0.0) | (if_absent != 0.0)
    log_odds = logit(np.clip(label_probs[tested], _MIN_PROB, 1.0 - _MIN_PROB))
    if_present, if_absent = if_present[tested], if_absent[tested]
    result = np.empty(len(_SLOPES))
    for place, slope in enumerate(_SLOPES):
        joint = np.logaddexp(if_present + log_expit(slope * log_odds), if_absent + log_expit(-slope * log_odds))
        result[place] = joint.sum()
    return result


def gold_log_likelihoods(label_probs: Array, truth: NDArray[np.int8], doc: NDArray[np.int64]) -> Array:
    """(slopes,): log-likelihood of the number of wrong labels among known ones, given probabilities without them.

    The number is what the bound is about: one slope does not fit all parts of a curve of calibration, and their number
    is right for the slope that fits on average. One more counts as wrong, as in exact upper bounds of a share: three
    wrong labels say little about slopes under which six are expected. The logarithm is divided by the design effect of
    the documents of the labels (labels,): those of one document are often wrong together. And it has the weight
    ``GOLD_WEIGHT``.
    """
    log_odds = np.abs(logit(np.clip(label_probs, _MIN_PROB, 1.0 - _MIN_PROB)))
    share = np.array([np.clip(expit(-slope * log_odds).mean(), _MIN_PROB, 1.0 - _MIN_PROB) for slope in _SLOPES])
    n_wrong = int(np.sum((label_probs >= 0.5) != (truth == 1)))
    n_wrong = min(n_wrong + 1, len(doc))
    logs = n_wrong * np.log(share) + (len(doc) - n_wrong) * np.log1p(-share)
    return np.asarray(GOLD_WEIGHT * logs / design_effect(label_probs, truth, doc))


def design_effect(label_probs: Array, truth: NDArray[np.int8], doc: NDArray[np.int64]) -> float:
    """Variance of the number of wrong labels over that of independent labels, from known labels; at least 1."""
    wrong = (label_probs >= 0.5) != (truth == 1)
    surplus = wrong - np.minimum(label_probs, 1.0 - label_probs)
    surplus = surplus - surplus.mean()
    of_documents = np.bincount(np.unique(doc, return_inverse=True)[1], surplus)
    return max(float(np.sum(of_documents**2) / max(float(np.sum(surplus**2)), 1e-12)), 1.0)


def slopes() -> Array:
    """Slopes that the posterior of a calibration is about."""
    return np.asarray(_SLOPES, dtype=np.float64)


def calibrate(
    log_likelihoods: Array, n_votes: int, link_spread: float = 0.0, of_gold: Array | None = None
) -> Calibration:
    """Posterior of the slope (maths, eq. 109).

    Parameters
    ----------
    log_likelihoods : array of shape (slopes,)
        Log-likelihood of check votes for each slope of the votes.
    n_votes : int
        Number of check votes on single labels, and of known labels that were compared.
    link_spread : float
        Scale of the logarithm of the slope of the link; 0 if the annotator model has none.
    of_gold : array of shape (slopes,), optional
        Log-likelihood of known labels for each slope.
    """
    posterior = _normalised(log_likelihoods + _student(_VOTES_SPREAD))
    if link_spread > 0.0:
        posterior = np.convolve(posterior, _normalised(_student(link_spread)), mode="same")
    if of_gold is not None:
        posterior = _normalised(np.log(np.maximum(posterior, _TINY)) + of_gold)
    posterior /= posterior.sum()
    below = np.cumsum(posterior) - 0.5 * posterior
    low, median, high = (float(np.exp(np.interp(share, below, _LOG_SLOPES))) for share in (0.05, 0.5, 0.95))
    return Calibration(median, low, high, n_votes, posterior)


def _student(scale: float) -> Array:
    """(slopes,): log-density of the logarithm of a slope, up to a constant: Student's t around 0."""
    density: Array = -0.5 * (_TAILS + 1.0) * np.log1p((_LOG_SLOPES / scale) ** 2 / _TAILS)
    return density


def _normalised(log_weights: Array) -> Array:
    weights: Array = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def no_calibration(link_spread: float = 0.0) -> Calibration:
    """Slopes before any check vote."""
    return calibrate(np.zeros(len(_SLOPES)), 0, link_spread)


def micro_f1(found: float, wrong: float) -> float:
    """Micro-F1 with so many labels correctly found and so many wrong ones (maths, eq. 95)."""
    return 2.0 * found / (2.0 * found + wrong) if found > 0.0 else float(wrong == 0.0)
