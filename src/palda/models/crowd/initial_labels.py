"""Label probabilities before the first iteration of EM."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from palda.data import vote_blocks
from palda.models.crowd.annotator_model import AnnotatorBelief, PublishedCoin

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, VoteRows, Votes

_PRIOR_RATE, _PRIOR_VOTES = 0.7, 10.0  # rate of correct votes assumed of an annotator, and its weight in votes


def mean_where_unknown(known: NDArray[np.int8]) -> Array:
    """Labels (documents, classes); unknown ones become the mean of their class, or 1/2 if all are unknown."""
    is_known = known >= 0
    n_known = is_known.sum(axis=0)
    shares = np.where(n_known > 0, (known == 1).sum(axis=0) / np.maximum(n_known, 1), 0.5)
    return np.where(is_known, known, shares)


def initial_label_probs(votes: VoteRows, known: NDArray[np.int8]) -> Array:
    """Known labels, and probabilities from the votes elsewhere; (documents, classes).

    Without known labels every vote has the same weight, which is the majority vote. With some, annotators are weighted
    by their share of correct votes there, and the others by the mean of the crowd, so that a crowd whose majority is
    wrong is recognised.
    """
    seen = reduce(np.add, (_tally(some, known[rows]) for rows, some in vote_blocks(votes)))
    n_yes, n_votes = seen[: 2 * votes.n_classes].reshape(2, -1)
    n_correct, n_tested = seen[2 * votes.n_classes :].reshape(2, -1)
    overall = (n_yes + 1.0) / (n_votes + 2.0)
    crowd = (n_correct.sum() + _PRIOR_RATE * _PRIOR_VOTES) / (n_tested.sum() + _PRIOR_VOTES)
    rates = (n_correct + crowd * _PRIOR_VOTES) / (n_tested + _PRIOR_VOTES) if n_tested.any() else None
    probs = np.empty(known.shape)
    for rows, some in vote_blocks(votes):
        probs[rows] = np.where(known[rows] >= 0, known[rows], _vote_probs(some, overall, rates))
    return probs


def _tally(votes: Votes, known: NDArray[np.int8]) -> Array:
    """Yes votes and all votes per class; then correct votes and votes on known labels per annotator."""
    truth = known[votes.doc, votes.label]
    tested = truth >= 0
    annotator = votes.annotator[tested]
    correct = (votes.value[tested] == truth[tested]).astype(np.float64)
    return np.concatenate(
        (
            np.bincount(votes.label, votes.value == 1, minlength=votes.n_classes),
            np.bincount(votes.label, minlength=votes.n_classes),
            np.bincount(annotator, correct, minlength=votes.n_annotators),
            np.bincount(annotator, minlength=votes.n_annotators),
        )
    )


def _vote_probs(votes: Votes, overall: Array, rates: Array | None) -> Array:
    """(documents, classes): smoothed share of yes votes, or the posterior under the annotators' rates."""
    if rates is None:
        return (votes.yes_per_pair() + overall) / (votes.per_pair() + 1.0)
    no_history = np.full((len(rates), 2), np.nan)
    belief = AnnotatorBelief(np.column_stack((rates, 1.0 - rates)), np.full(2, 0.5), no_history)
    probs: Array = expit(PublishedCoin().evidence(votes, belief).log_odds)
    return probs
