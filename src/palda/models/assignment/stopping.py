"""How many labels are still wrong: expected numbers, calibrated on check votes, and a bound for a stopping rule.

The log-odds of all labels are multiplied by a slope b, which is 1 if the probabilities are calibrated, below 1 if they
are too certain. What check votes say about b is the probability that they have, given labels that did not see them
(maths, eq. 93). The number of wrong labels then has a posterior distribution, and the bound is its 90% quantile. A
posterior does not depend on when one looks, so the bound holds at every look (maths, eq. 94).
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

_SLOPES = np.exp(np.linspace(-1.0, 1.0, 161))
_SLOPE_SPREAD, _SLOPE_TAILS = 0.08, 4.0  # scale and degrees of freedom of the logarithm of the slope, over projects
_NEGLIGIBLE = 1e-6  # probability of a slope
_MIN_PROB = 1e-9
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


def calibrate(log_likelihoods: Array, n_votes: int) -> Calibration:
    """Posterior of the slope, given the log-likelihood of check votes for each slope."""
    log_slopes = np.log(_SLOPES)
    tails = 1.0 + (log_slopes / _SLOPE_SPREAD) ** 2 / _SLOPE_TAILS
    log_posterior = log_likelihoods - 0.5 * (_SLOPE_TAILS + 1.0) * np.log(tails)  # Student's t
    posterior = np.exp(log_posterior - log_posterior.max())
    posterior /= posterior.sum()
    below = np.cumsum(posterior) - 0.5 * posterior
    low, median, high = (float(np.exp(np.interp(share, below, log_slopes))) for share in (0.05, 0.5, 0.95))
    return Calibration(median, low, high, n_votes, posterior)


def no_calibration() -> Calibration:
    """Slopes before any check vote."""
    return calibrate(np.zeros(len(_SLOPES)), 0)


def micro_f1(found: float, wrong: float) -> float:
    """Micro-F1 with so many labels correctly found and so many wrong ones (maths, eq. 95)."""
    return 2.0 * found / (2.0 * found + wrong) if found > 0.0 else float(wrong == 0.0)
