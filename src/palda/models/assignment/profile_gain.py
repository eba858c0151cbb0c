"""What votes are worth when classes occur together: a vote on one class tells about others too.

With label-set profiles the classes of a document are dependent. Votes on all classes sharpen the profile, and through
it every label. The gain of a vote with independent classes (``document_gains``) is too small by a factor, which is
computed for typical annotators.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from palda import kernels
from palda.models.assignment.gain import MAX_PENDING, N_AHEAD, TypicalVotes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.models.crowd import Profiles

    Ints = NDArray[np.int64]

N_OUTCOMES = 32
"""Outcomes of the votes on a document over which errors are averaged.

Yeast, 25 profiles, one and two votes per document, the 300 documents with the largest gains: the factor is 1.05 and
1.07, with a standard deviation of .03 over documents, and that of its error is .007.
"""

_TOLERANCE = 1e-4  # of label probabilities, when the evidence behind them is found
_MIN_GAIN = 1e-9  # documents that gain less keep the factor 1


def profile_factors(
    label_probs: Array, profiles: Profiles, typical: TypicalVotes, pending: Ints, n_ahead: int = N_AHEAD
) -> Array:
    """(documents,): gain of typical votes under the profiles over that with independent classes (maths, eq. 97)."""
    if len(profiles.weights) == 1:
        return np.ones(len(label_probs))
    first = np.minimum(pending, MAX_PENDING)
    alone, fall = np.zeros((2, len(label_probs)))
    for n_votes, sign in ((first, 1.0), (first + n_ahead, -1.0)):
        alone += sign * _wrong_alone(label_probs, typical, n_votes)
        fall += sign * wrong_in_sets(label_probs, profiles, typical, n_votes)
    factors: Array = np.divide(fall, alone, out=np.ones(len(fall)), where=(alone > _MIN_GAIN) & (fall > 0.0))
    return factors


def wrong_in_sets(label_probs: Array, profiles: Profiles, typical: TypicalVotes, n_votes: Ints) -> Array:
    """(documents,): expected number of wrong labels after so many typical votes, under profiles (maths, eq. 96).

    It is never larger than with independent classes, in which votes on other classes are not used.
    """
    wrong = _wrong_alone(label_probs, typical, n_votes)
    rows = np.flatnonzero(n_votes > 0)
    if len(profiles.weights) == 1 or not len(rows):
        return wrong
    found = kernels.active().wrong_in_sets(
        np.ascontiguousarray(label_probs[rows]),
        profiles.weights,
        np.ascontiguousarray(profiles.rates.T),
        typical.present,
        typical.absent,
        n_votes[rows],
        _points(label_probs.shape[1]),
        _TOLERANCE,
    )
    wrong[rows] = np.minimum(found, wrong[rows])
    return wrong


def _wrong_alone(label_probs: Array, typical: TypicalVotes, n_votes: Ints) -> Array:
    wrong = np.empty(len(label_probs))
    for votes in np.unique(n_votes):
        rows = n_votes == votes
        tables = typical.present, typical.absent, int(votes)
        wrong[rows] = kernels.active().wrong_labels(np.ascontiguousarray(label_probs[rows]), *tables)
    return wrong


@cache
def _points(n_classes: int) -> Array:
    """(outcomes, classes): a Latin hypercube, the same for all documents."""
    column = (np.arange(N_OUTCOMES) + 0.5) / N_OUTCOMES
    points = np.random.default_rng(0).permuted(np.tile(column, (n_classes, 1)), axis=1).T
    return np.ascontiguousarray(points)
