"""Sums over votes: what rates say about labels, and labels about rates. Everything that is as long as the votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palda.models.crowd.annotator_model import VoteEvidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Votes

    Array = NDArray[np.float64]

__all__ = ["vote_counts", "vote_evidence"]


def vote_evidence(votes: Votes, log_rates: Array) -> VoteEvidence:
    """Sums of log-rates over the votes that exist, for each (document, class).

    ``log_rates`` is (annotators, classes or 1, states or 1, 2): logarithms of the rates of right and wrong votes.
    """
    answer = _answers(votes, log_rates.shape[1])
    if_absent = log_rates[:, :, 0, :]  # "no" (0) is right, "yes" (1) is wrong
    if_present = log_rates[:, :, -1, ::-1]
    present, absent = (_sums(table.ravel()[answer], votes) for table in (if_present, if_absent))
    return VoteEvidence(present, absent)


def vote_counts(votes: Votes, label_probs: Array, *, by_class: bool) -> Array:
    """Expected numbers of votes, (annotators, classes or 1, states, 2): absent or present, right or wrong."""
    shape = (votes.n_annotators, votes.n_classes if by_class else 1, 2)
    answer = _answers(votes, shape[1])
    n_cells = int(np.prod(shape))
    total = np.bincount(answer, minlength=n_cells)
    present = np.bincount(answer, np.ravel(label_probs)[votes.pair], minlength=n_cells)
    absent = np.maximum(total - present, 0.0)  # a difference of sums may fall below 0 by rounding
    return np.stack((absent.reshape(shape), present.reshape(shape)[..., ::-1]), axis=2)


def _answers(votes: Votes, n_classes: int) -> NDArray[np.int64]:
    """Position of every vote in a table (annotators, classes or 1, 2) of who says what about which class."""
    answer = votes.annotator.astype(np.int64)
    if n_classes > 1:
        answer *= n_classes
        answer += votes.label
    answer *= 2
    answer += votes.value
    return answer


def _sums(weights: Array, votes: Votes) -> Array:
    sums = np.bincount(votes.pair, weights, minlength=votes.n_docs * votes.n_classes)
    return sums.astype(np.float64, copy=False).reshape(votes.n_docs, votes.n_classes)
