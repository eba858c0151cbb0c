"""Which labels are worth another vote."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import entr

from palda.models.crowd.annotator_model import mean_rates

if TYPE_CHECKING:
    from palda.data import Array
    from palda.models.crowd.annotator_model import AnnotatorBelief


class TypicalRates(NamedTuple):
    """P(vote 1 | present) and P(vote 0 | absent) of a typical annotator, (classes,)."""

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
