"""What another vote on a document is worth: the expected fall of the number of wrong labels.

A label is wrong with probability min(Δ, 1 - Δ) after the best decision. One vote alone often cannot change a decision:
its own fall is 0 although a few votes would settle the label, and a policy that counts it alone leaves such labels
behind. A vote is therefore valued as one of several that the document will get: its mean marginal fall when it comes
first, second, ... among votes of typical annotators (its Shapley value). For a typical annotator this is the fall by
all of these votes divided by their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import comb

from palda import kernels
from palda.models.crowd import by_class_and_state, mean_rates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.models.crowd import AnnotatorBelief

    Ints = NDArray[np.int64]

N_AHEAD = 4
"""Votes among which a vote is valued.

``python -m benchmarks adaptive``, crowds 0 to 2, votes for the micro-F1 of five votes per document as a share of five:
Reuters .379 with 4 votes and .385 with 3, the newsroom .395 and .417, yeast .599 and .627, enron .726 and .735; with 6,
crowd 0 alone, .429, .395, .639 and .709 against .417, .378, .598 and .711.
"""

MAX_PENDING = 4
"""Votes under way on a document that are counted; with more, the document waits as with so many."""

_N_HALVINGS = 50
_MIN_RATE = 1e-3  # mean rates are no closer to 0 and 1


class Rates(NamedTuple):
    """P(vote 1 | present) and P(vote 0 | absent), (annotators, classes)."""

    sensitivity: Array
    specificity: Array

    def take(self, rows: Ints) -> Rates:
        """Rates of some annotators."""
        return Rates(self.sensitivity[rows], self.specificity[rows])


@dataclass(frozen=True)
class TypicalVotes:
    """Probability of t yes among v votes of typical annotators, (classes, votes, yes votes), in each state."""

    present: Array
    absent: Array


def rates_by_annotator(belief: AnnotatorBelief, sources: Ints, n_classes: int) -> Rates:
    """Mean rates of annotators whose votes come from ``sources``; -1 for an annotator without history (the pool)."""
    means = mean_rates(belief)
    pool = by_class_and_state(belief.pool[None])
    typical = pool[..., 0] / pool.sum(axis=-1)
    table = np.concatenate((means, typical))[sources]  # -1 is the pool
    spread = np.broadcast_to(np.clip(table, _MIN_RATE, 1.0 - _MIN_RATE), (len(sources), n_classes, table.shape[2]))
    return Rates(np.ascontiguousarray(spread[..., -1]), np.ascontiguousarray(spread[..., 0]))


def typical_votes(rates: Rates, weights: Array, max_votes: int = MAX_PENDING + N_AHEAD) -> TypicalVotes:
    """Votes of annotators drawn by weight, as if all had the same rates (maths, eq. 91).

    These are the mean rates of all, with fewer errors: votes of different annotators tell more than those of an
    average one, because it is known who is good. Who is mostly wrong counts with inverted votes.
    """
    inverted = rates.sensitivity + rates.specificity < 1.0
    weights = weights if weights.sum() > 0 else np.ones(len(weights))
    if not len(weights):
        raise ValueError("there are no annotators")
    straight = [np.where(inverted, 1.0 - table, table) for table in rates]
    errors = [1.0 - np.average(table, axis=0, weights=weights) for table in straight]
    factor = _error_factor(errors, np.average(_affinity(*straight), axis=0, weights=weights))
    sensitivity, false_alarms = 1.0 - factor * errors[0], factor * errors[1]
    return TypicalVotes(_yes_probs(sensitivity, max_votes), _yes_probs(false_alarms, max_votes))


def _affinity(sensitivity: Array, specificity: Array) -> Array:
    """Bhattacharyya coefficient of the votes on a label in its two states: 1 for votes that tell nothing, 0 for all."""
    yes, no = sensitivity * (1.0 - specificity), (1.0 - sensitivity) * specificity
    affinity: Array = np.sqrt(yes) + np.sqrt(no)
    return affinity


def _error_factor(errors: list[Array], affinity: Array) -> Array:
    """(classes,): what both error rates are multiplied by so that votes have the affinity; by bisection."""
    low, high = np.zeros(len(affinity)), np.ones(len(affinity))
    for _ in range(_N_HALVINGS):
        middle = (low + high) / 2.0
        above = _affinity(*(1.0 - middle * error for error in errors)) > affinity
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return high


def _yes_probs(rates: Array, max_votes: int) -> Array:
    """(classes, votes, yes votes): binomial probabilities of yes votes, for numbers of votes up to ``max_votes``."""
    votes, yes = np.arange(max_votes + 1)[:, None], np.arange(max_votes + 1)
    rates = rates[:, None, None]
    probs: Array = comb(votes, yes) * rates**yes * (1.0 - rates) ** np.maximum(votes - yes, 0)
    return probs


def document_gains(
    label_probs: Array, rates: Rates, typical: TypicalVotes, pending: Ints, n_ahead: int = N_AHEAD
) -> Array:
    """(annotators, documents): gain of one vote on all classes of a document (maths, eq. 92).

    ``pending`` (documents,) are votes under way, which count as if given by typical annotators.
    """
    tables = typical.present, typical.absent, _few(pending), n_ahead
    gains: Array = kernels.active().vote_gains(label_probs, *rates, *tables)
    return gains


def label_gains(
    label_probs: Array, rates: Rates, typical: TypicalVotes, pending: Ints, n_ahead: int = N_AHEAD
) -> Array:
    """(annotators, documents, classes): gain of one vote on a single class."""
    kernel, tables = kernels.active().label_gains, (typical.present, typical.absent, _few(pending), n_ahead)
    gains = [kernel(label_probs, *pair, *tables) for pair in zip(*rates, strict=True)]
    return np.array(gains).reshape(len(gains), *label_probs.shape)


def expected_wrong(label_probs: Array, typical: TypicalVotes, n_votes: int = 0) -> Array:
    """(documents,): expected number of wrong labels after ``n_votes`` more typical votes (maths, eq. 91)."""
    wrong: Array = kernels.active().wrong_labels(label_probs, typical.present, typical.absent, n_votes)
    return wrong


def _few(pending: Ints) -> Ints:
    return np.minimum(pending, MAX_PENDING)
