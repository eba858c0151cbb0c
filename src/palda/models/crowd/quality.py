"""What was learned about each annotator: rates, credible intervals, verdicts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import betaincinv

from palda.models.crowd.annotator_model import by_class_and_state
from palda.models.crowd.verdicts import verdicts

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Strings
    from palda.models.crowd.annotator_model import AnnotatorBelief

    Array = NDArray[np.float64]

__all__ = ["AnnotatorSummary", "quality_table", "rates_by_class", "summarize_annotators"]

_TAIL = 0.025  # on either side of a 95% interval


@dataclass(frozen=True)
class AnnotatorSummary:
    """Arrays with an entry an annotator; ``low`` and ``high`` are the ends of the 95% credible interval of quality."""

    quality: Array
    """Expected share of right votes: rates weighted by how often the annotator met each state."""
    low: Array
    high: Array
    sensitivity: Array
    """P(vote 1 | present); where rates differ by class, their mean over the annotator's votes."""
    specificity: Array
    """P(vote 0 | absent), likewise."""
    informedness: Array
    n_votes: NDArray[np.int64]
    verdict: NDArray[np.object_]
    informedness_low: Array
    informedness_high: Array
    n_present: Array
    """Expected number of votes on classes that are present; NaN if the model does not tell states apart."""


class _Spread(NamedTuple):
    mean: Array
    low: Array
    high: Array


def summarize_annotators(belief: AnnotatorBelief, counts: Array) -> AnnotatorSummary:
    """Rates and verdicts, from beliefs and the counts they came from.

    Everything reported is a weighted mean of independent Beta rates; its interval is that of the Beta distribution
    with the same mean and variance (maths, eq. 41).
    """
    rates = _over_classes(belief)
    n_met = by_class_and_state(counts).sum(axis=(1, 3))  # (annotators, states or 1)
    n_votes = n_met.sum(axis=1)
    n_states = n_met.shape[1]
    sensitivity, specificity = (rates[:, state, 0] / rates[:, state].sum(axis=-1) for state in (-1, 0))
    balanced = _mixed(rates, np.full(n_met.shape, 1.0 / n_states))  # as if classes were present half the time
    informedness, low, high = (2 * end - 1 for end in balanced)
    earlier = np.nansum(by_class_and_state(belief.own), axis=(1, 2, 3))
    return AnnotatorSummary(
        *_mixed(rates, _shares(n_met)),
        sensitivity=sensitivity,
        specificity=specificity,
        informedness=informedness,
        n_votes=np.rint(n_votes).astype(np.int64),
        verdict=verdicts(informedness, low, high, n_votes + earlier),
        informedness_low=low,
        informedness_high=high,
        n_present=n_met[:, 1] if n_states == 2 else np.full(len(n_met), np.nan),
    )


def quality_table(found: AnnotatorSummary, annotators: Strings) -> pd.DataFrame:
    """The summary as a data frame, a row an annotator."""
    import pandas as pd

    columns = {spec.name: getattr(found, spec.name) for spec in fields(found)}
    return pd.DataFrame({"annotator": annotators, **columns})


def rates_by_class(belief: AnnotatorBelief, annotators: Strings, classes: Strings) -> pd.DataFrame:
    """Sensitivity and specificity with their 95% intervals, a row an annotator and class.

    Models whose rates are the same in all classes repeat them.
    """
    import pandas as pd

    rates = by_class_and_state(belief.posterior)
    table: dict[str, NDArray[np.generic]] = {
        "annotator": np.repeat(annotators, len(classes)),
        "label": np.tile(classes, len(annotators)),
    }
    for name, state in (("sensitivity", -1), ("specificity", 0)):
        betas = np.broadcast_to(rates[:, :, state], (len(annotators), len(classes), 2)).reshape(-1, 2)
        spread = _mixed(betas[:, None], np.ones((len(betas), 1)))
        table |= {name: spread.mean, f"{name}_low": spread.low, f"{name}_high": spread.high}
    return pd.DataFrame(table)


def _over_classes(belief: AnnotatorBelief) -> Array:
    """Beliefs (annotators, states or 1, 2) about an annotator's mean rates over the votes.

    The votes of all classes and the pool's prior once, not once a class: somebody who is good at one class is mostly
    good at the others, and a prior for each of many classes with few votes would outweigh them all.
    """
    posterior = by_class_and_state(belief.posterior)
    pool = by_class_and_state(belief.pool[None])
    repeated = pool.sum(axis=1) - pool.mean(axis=1)
    rates: Array = posterior.sum(axis=1) - np.where(belief.has_history[:, None, None], 0.0, repeated)
    return rates


def _shares(n_votes: Array) -> Array:
    """Each annotator's shares of votes; those of the crowd for who has none, equal ones if nobody has any."""
    crowd = n_votes.sum(axis=0)
    everybody = crowd / crowd.sum() if crowd.sum() > 0 else np.full(crowd.shape, 1.0 / crowd.size)
    total = n_votes.sum(axis=1, keepdims=True)
    return np.where(total > 0, n_votes / np.where(total > 0, total, 1.0), everybody)


def _mixed(rates: Array, weights: Array) -> _Spread:
    """Weighted means of Beta rates (annotators, states, 2), and the intervals of Betas with the same moments."""
    strength = rates.sum(axis=-1)
    means = rates[..., 0] / strength
    variances = means * (1.0 - means) / (strength + 1.0)
    mean = np.sum(weights * means, axis=1)
    variance = np.sum(weights**2 * variances, axis=1)
    matched = mean * (1.0 - mean) / variance - 1.0
    right, wrong = mean * matched, (1.0 - mean) * matched
    return _Spread(mean, betaincinv(right, wrong, _TAIL), betaincinv(right, wrong, 1.0 - _TAIL))
