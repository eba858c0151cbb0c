"""One coin an annotator: a vote is right with probability ρ, whatever the class and the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palda.annotators.base import VoteEvidence
from palda.annotators.coins import Coins

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data.votes import Votes

    Array = NDArray[np.float64]

__all__ = ["OneCoin", "OneCoinModel"]

_LEAST = 1e-6  # ρ is maximised within [_LEAST, 1 - _LEAST]: nobody is infinitely right
_START = 0.7  # of somebody without votes: a little better than chance


class OneCoin:
    """ρ_j: P(vote of annotator j equals the truth), at its maximum, as published."""

    def evidence(self, votes: Votes, rates: Array) -> VoteEvidence:
        """Σ_j log p(vote | λ) over the votes that exist (maths, eq. 6)."""
        right, wrong = np.log(rates)[votes.annotator], np.log1p(-rates)[votes.annotator]
        said_yes = votes.value == 1
        return VoteEvidence(
            self._sum_pairs(votes, np.where(said_yes, right, wrong)),
            self._sum_pairs(votes, np.where(said_yes, wrong, right)),
        )

    @staticmethod
    def _sum_pairs(votes: Votes, weights: Array) -> Array:
        pair = votes.doc.astype(np.int64) * votes.n_classes + votes.label
        sums = np.bincount(pair, weights, minlength=votes.n_docs * votes.n_classes)
        return sums.astype(np.float64, copy=False).reshape(votes.n_docs, votes.n_classes)

    def count(self, votes: Votes, label_probs: Array) -> Array:
        """(annotators, 2): expected number of right votes, and votes in all (maths, eq. 15)."""
        present = label_probs[votes.doc, votes.label]
        right = np.where(votes.value == 1, present, 1.0 - present)
        right_votes = np.bincount(votes.annotator, right, minlength=votes.n_annotators)
        return np.column_stack((right_votes, votes.per_annotator())).astype(np.float64)

    def update(self, counts: Array, rates: Array) -> Array:
        """ρ = right votes / votes."""
        right, total = counts.T
        shares = right / np.maximum(total, 1.0)
        return np.where(total > 0, np.clip(shares, _LEAST, 1.0 - _LEAST), rates)

    def start(self, n_annotators: int) -> Array:
        """Everybody a little better than chance."""
        return np.full(n_annotators, _START)


class OneCoinModel(Coins):
    """The published coin with a belief about ρ in place of an estimate.

    It cannot see somebody who always says "no" where classes are rare: most of such votes are right.
    """

    by_class = False
    by_state = False
