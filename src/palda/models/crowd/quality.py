"""What was learned about each annotator: rates, credible intervals, verdicts; and which labels need more votes.

A verdict depends on informedness, sensitivity + specificity - 1, and its 95% credible interval. Informedness is 1 for
an annotator who is always correct, 0 for one whose votes do not depend on the truth (a constant answer, or random
votes), and -1 for one who always votes the opposite. The rules, in this order:

| verdict | rule |
|---|---|
| too few votes | fewer than ``MIN_VOTES`` votes, the annotator's history included |
| too few votes | votes on fewer than ``MIN_DOCS`` documents, or fewer than ``MIN_COMPARED`` to compare them on |
| too few votes | spammer or adversarial by the rules below, but not in a second fit (``confirmed_verdicts``) |
| spammer | informedness within ±``SPAM_INFORMEDNESS``, and its interval within ±``SPAM_INTERVAL`` |
| adversarial | the interval lies below -``MARGIN``: the votes count, with inverted sign |
| reliable | informedness of at least ``RELIABLE``, and the interval lies above ``RELIABLE_LOW`` |
| noisy | informedness below ``RELIABLE``, and the interval lies above ``MARGIN`` |
| too few votes | anything else: the interval is too wide to decide |

A negative verdict thus requires an interval that excludes the alternatives. Votes on one document are not independent,
and votes that can be compared with nothing but themselves agree with their own consensus: neither makes a verdict. The
rule about documents does not apply to annotators with a history of at least ``MIN_VOTES`` votes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import betaincinv, entr

from palda.data import vote_blocks
from palda.models.crowd.annotator_model import by_class_and_state, mean_rates

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Array, Strings, VoteRows
    from palda.models.crowd.annotator_model import AnnotatorBelief

MIN_VOTES = 10.0
"""With fewer votes even a narrow interval reflects the pool more than the annotator."""

MIN_DOCS = 10
"""Votes on fewer documents may all be right or wrong for one reason: the document was easy, or misread."""

MIN_COMPARED = 5
"""Minimum number of documents on which a vote meets another annotator's vote on the same class, or a known label."""

SPAM_INFORMEDNESS = 0.1
"""At this informedness at most 55% of the votes are correct if classes are present half the time."""

SPAM_INTERVAL = 0.2
"""Bound of the 95% interval of a spammer's informedness."""

MARGIN = 0.05
"""Distance from 0 of the whole interval for votes to carry information, straight or inverted."""

RELIABLE = 0.5
"""At this informedness three quarters of the votes are correct if classes are present half the time."""

RELIABLE_LOW = 0.3
"""Lower bound of the 95% interval of a reliable annotator's informedness."""

NEGATIVE_VERDICTS = ("spammer", "adversarial")

LABEL_ERROR_SHARE = 0.15
"""Standard deviation of an annotator's rate by wrong labels, as a share of the doubt about the labels judged.

Labels are wrong where some annotators are, so their errors do not cancel out in a rate. ``python -m benchmarks
real_gold``: standard deviations of sensitivities around those on the reference, over the doubt, are about .2 for premo,
.12 for babe, .1 for brighter_arq, .05 for brighter_hin, beyond the intervals that take labels as known.
"""

VERDICTS = ("reliable", "noisy", "spammer", "adversarial", "too few votes")

_MAX_VARIANCE = 0.5  # of a rate, as a share of that of single votes
_TAIL = 0.025  # probability on either side of a 95% interval


@dataclass(frozen=True)
class AnnotatorSummary:
    """Arrays with one entry per annotator; ``low`` and ``high`` bound the 95% credible interval of quality."""

    quality: Array
    """Expected share of correct votes: rates weighted by how often the annotator met each state."""
    low: Array
    high: Array
    sensitivity: Array
    """P(vote 1 | present); for rates per class, their mean over the annotator's votes."""
    specificity: Array
    """P(vote 0 | absent); for rates per class, their mean over the annotator's votes."""
    informedness: Array
    n_votes: NDArray[np.int64]
    verdict: NDArray[np.object_]
    informedness_low: Array
    informedness_high: Array
    n_present: Array
    """Expected number of votes on classes that are present; NaN if the model has one rate for both states."""
    sensitivity_low: Array
    sensitivity_high: Array
    specificity_low: Array
    specificity_high: Array


class Interval(NamedTuple):
    """Mean and bounds of a 95% interval."""

    mean: Array
    low: Array
    high: Array


def document_counts(votes: VoteRows, known: NDArray[np.int8]) -> NDArray[np.int64]:
    """(annotators, 2): documents with votes of the annotator, and those of them where a vote can be compared.

    It can be compared if somebody else judged the same class of the document, or if the label is ``known`` (documents,
    classes; -1 if not). Sums over documents, so the numbers of separate documents add up.
    """
    counts = np.zeros((votes.n_annotators, 2), dtype=np.int64)
    for rows, some in vote_blocks(votes):
        if not len(some):
            continue
        is_compared = (some.per_pair().ravel()[some.pair] > 1) | (known[rows].ravel()[some.pair] >= 0)
        is_first = np.ones(len(some), dtype=bool)  # of the votes of an annotator on a document
        is_first[1:] = (some.doc[1:] != some.doc[:-1]) | (some.annotator[1:] != some.annotator[:-1])
        first = np.flatnonzero(is_first)
        annotator = some.annotator[first]
        on_compared = annotator[np.logical_or.reduceat(is_compared, first)]
        for column, of_documents in enumerate((annotator, on_compared)):
            counts[:, column] += np.bincount(of_documents, minlength=votes.n_annotators)
    return counts


def label_doubt(votes: VoteRows, label_probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """(annotators, 2): Σ p (1 - p) over Σ p of absent, and of present labels that an annotator judged."""
    sums = np.zeros((3, votes.n_annotators))
    for rows, some in vote_blocks(votes):
        present = label_probs[rows].ravel()[some.pair]
        for row, values in enumerate((present * (1.0 - present), 1.0 - present, present)):
            sums[row] += np.bincount(some.annotator, values, minlength=votes.n_annotators)
    return np.asarray(np.stack((sums[0] / np.maximum(sums[1], 1e-9), sums[0] / np.maximum(sums[2], 1e-9)), axis=1))


def summarize_annotators(
    belief: AnnotatorBelief,
    counts: Array,
    documents: NDArray[np.int64] | None = None,
    doubt: Array | None = None,
    confirmed: NDArray[np.bool_] | None = None,
) -> AnnotatorSummary:
    """Rates, intervals and verdicts from beliefs and the vote counts behind them.

    ``documents`` are the ``document_counts``; None if they are unknown, and verdicts then depend on votes alone.
    ``doubt`` is the ``label_doubt`` of the consensus, by which intervals of annotators who are informed are wider; None
    for labels that are known.
    ``confirmed`` are the annotators whose negative verdict a second fit shares; None if there was no other fit.
    Each reported number is a weighted mean of independent Beta rates. Its interval is that of the Beta distribution
    with the same mean and variance (maths, eq. 41).
    """
    rates = belief.rates_over_classes()
    state_votes = by_class_and_state(counts).sum(axis=(1, 3))  # (annotators, states or 1)
    n_votes = state_votes.sum(axis=1)
    n_states = state_votes.shape[1]
    errors = np.zeros(state_votes.shape)  # variances by wrong labels
    if doubt is not None:
        # Wrong labels mix the rates of both states. Those of random voters are the same: they stay what they are.
        means = rates[..., 0] / rates.sum(axis=-1)
        difference = np.abs(means[:, -1] + means[:, 0] - 1.0)
        share = LABEL_ERROR_SHARE * np.minimum(difference / SPAM_INTERVAL, 1.0)[:, None]
        errors = (share * (doubt if n_states > 1 else doubt.mean(axis=1, keepdims=True))) ** 2
    of_states = [_weighted_mean(rates[:, [state]], np.ones((len(rates), 1)), errors[:, [state]]) for state in (-1, 0)]
    sensitivity, specificity = of_states
    balanced = _weighted_mean(rates, np.full(state_votes.shape, 1.0 / n_states), errors)  # present half the time
    informedness, low, high = (2 * end - 1 for end in balanced)
    n_earlier = np.nansum(by_class_and_state(belief.own), axis=(1, 2, 3))
    few_documents: NDArray[np.bool_] | bool = False
    if documents is not None:
        few_documents = (documents < (MIN_DOCS, MIN_COMPARED)).any(axis=1) & (n_earlier < MIN_VOTES)
    verdict = verdicts(informedness, low, high, n_votes + n_earlier, few_documents)
    if confirmed is not None:
        verdict = np.where(np.isin(verdict, NEGATIVE_VERDICTS) & ~confirmed, "too few votes", verdict)
    return AnnotatorSummary(
        *_weighted_mean(rates, _state_shares(state_votes), errors),
        sensitivity=sensitivity.mean,
        specificity=specificity.mean,
        informedness=informedness,
        n_votes=np.rint(n_votes).astype(np.int64),
        verdict=verdict,
        informedness_low=low,
        informedness_high=high,
        n_present=state_votes[:, 1] if n_states == 2 else np.full(len(state_votes), np.nan),
        sensitivity_low=sensitivity.low,
        sensitivity_high=sensitivity.high,
        specificity_low=specificity.low,
        specificity_high=specificity.high,
    )


def verdicts(
    informedness: Array, low: Array, high: Array, n_votes: Array, few_documents: NDArray[np.bool_] | bool = False
) -> NDArray[np.object_]:
    """One of ``VERDICTS`` per annotator; ``n_votes`` includes the annotator's history.

    ``few_documents`` says whose votes are on too few documents, or on too few where they can be compared.
    """
    rules = {
        "too few votes": (n_votes < MIN_VOTES) | few_documents,
        "spammer": (np.abs(informedness) <= SPAM_INFORMEDNESS) & (np.maximum(-low, high) <= SPAM_INTERVAL),
        "adversarial": high < -MARGIN,
        "reliable": (informedness >= RELIABLE) & (low > RELIABLE_LOW),
        "noisy": (informedness < RELIABLE) & (low > MARGIN),
    }
    return np.select(list(rules.values()), [np.array(name, dtype=object) for name in rules], "too few votes")


def quality_table(summary: AnnotatorSummary, annotators: Strings) -> pd.DataFrame:
    """The summary as a data frame with one row per annotator."""
    import pandas as pd

    columns = {spec.name: getattr(summary, spec.name) for spec in fields(summary)}
    return pd.DataFrame({"annotator": annotators, **columns})


def rates_by_class(
    belief: AnnotatorBelief, annotators: Strings, classes: Strings, positions: NDArray[np.int64] | None = None
) -> pd.DataFrame:
    """Sensitivity and specificity with their 95% intervals, one row per annotator and class.

    Models with the same rates for all classes repeat them. ``positions`` selects annotators.
    """
    import pandas as pd

    rates = belief.rates_of_classes()
    if positions is not None:
        rates, annotators = rates[positions], annotators[positions]
    table: dict[str, NDArray[np.generic]] = {
        "annotator": np.repeat(annotators, len(classes)),
        "label": np.tile(classes, len(annotators)),
    }
    for name, state in (("sensitivity", -1), ("specificity", 0)):
        betas = np.broadcast_to(rates[:, :, state], (len(annotators), len(classes), 2)).reshape(-1, 2)
        interval = _weighted_mean(betas[:, None], np.ones((len(betas), 1)))
        table |= {name: interval.mean, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return pd.DataFrame(table)


def _state_shares(n_votes: Array) -> Array:
    """Each annotator's shares of votes per state; the crowd's for annotators without votes, else equal shares."""
    crowd = n_votes.sum(axis=0)
    default = crowd / crowd.sum() if crowd.sum() > 0 else np.full(crowd.shape, 1.0 / crowd.size)
    total = n_votes.sum(axis=1, keepdims=True)
    return np.where(total > 0, n_votes / np.where(total > 0, total, 1.0), default)


def _weighted_mean(rates: Array, weights: Array, errors: Array | float = 0.0) -> Interval:
    """Weighted means of Beta rates (annotators, states, 2), with intervals of Betas that have the same moments.

    ``errors`` (annotators, states) are variances that the rates have besides.
    """
    strength = rates.sum(axis=-1)
    means = rates[..., 0] / strength
    variances = means * (1.0 - means) / (strength + 1.0)
    variances = np.minimum(variances + errors, _MAX_VARIANCE * means * (1.0 - means))
    return beta_interval(np.sum(weights * means, axis=1), np.sum(weights**2 * variances, axis=1))


def beta_interval(mean: Array, variance: Array) -> Interval:
    """95% intervals of Beta distributions with these means and variances (maths, eq. 41)."""
    strength = mean * (1.0 - mean) / variance - 1.0
    correct, wrong = mean * strength, (1.0 - mean) * strength
    low, high = (np.asarray(betaincinv(correct, wrong, tail), dtype=np.float64) for tail in (_TAIL, 1.0 - _TAIL))
    # If nearly all of a distribution is at 0 or 1, its mean is beyond the quantiles: .9969 was said to be above .9997.
    return Interval(mean, np.minimum(low, mean), np.maximum(high, mean))


class TypicalRates(NamedTuple):
    """P(vote 1 | present) and P(vote 0 | absent) of a typical annotator, (classes,) or (documents, classes)."""

    sensitivity: Array
    specificity: Array


def typical_rates(belief: AnnotatorBelief, vote_counts: Array, n_classes: int) -> TypicalRates:
    """Mean rates of the annotators, weighted by their numbers of votes; equally if there are no votes."""
    n_votes = vote_counts.reshape(len(vote_counts), -1).sum(axis=1)
    weights = n_votes if n_votes.sum() > 0 else np.ones(len(n_votes))
    mean = np.average(mean_rates(belief), axis=0, weights=weights)  # (classes or 1, states or 1)
    sensitivity, specificity = (np.broadcast_to(mean[:, state], n_classes).copy() for state in (-1, 0))
    return TypicalRates(sensitivity, specificity)


def expected_gain(label_probs: Array, rates: TypicalRates) -> Array:
    """Expected decrease of each label's entropy by one more vote, in nats, (documents, classes).

    This is the mutual information of label and vote: the entropy of the vote minus its entropy given the label
    (maths, eq. 55). It is 0 for a label that is certain, and for votes that do not depend on the label.
    """
    prob_yes = label_probs * rates.sensitivity + (1.0 - label_probs) * (1.0 - rates.specificity)
    given_label = label_probs * _entropy(rates.sensitivity) + (1.0 - label_probs) * _entropy(rates.specificity)
    gain: Array = np.maximum(_entropy(prob_yes) - given_label, 0.0)
    return gain


def _entropy(probs: Array) -> Array:
    entropy: Array = entr(probs) + entr(1.0 - probs)
    return entropy
