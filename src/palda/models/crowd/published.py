"""The published coin: ρ at its maximum, without a prior."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palda.models.crowd.annotator_model import AnnotatorBelief, VoteEvidence, by_class_and_state
from palda.models.crowd.vote_sums import vote_counts, vote_evidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.models.crowd.annotator_history import AnnotatorHistory

    Array = NDArray[np.float64]

__all__ = ["PublishedCoin"]

_LEAST = 1e-6  # ρ is maximised within [_LEAST, 1 - _LEAST]: nobody is infinitely right
_START = (0.7, 0.3)  # of somebody without votes: a little better than chance


class PublishedCoin:
    """ρ_k: P(vote of annotator k equals the truth), as likely as possible (maths, eq. 15).

    Its "posterior" holds ρ N and (1 - ρ) N, of N votes; only their ratio is used, and nothing is paid for it.
    """

    def start(self, n_annotators: int, n_classes: int, prior: AnnotatorHistory | None = None) -> AnnotatorBelief:  # noqa: ARG002 - the protocol's
        """Everybody a little better than chance."""
        if prior is not None:
            raise ValueError("the published model knows no annotator prior; choose 'one_coin' or 'two_coin' annotators")
        rates = np.tile(_START, (n_annotators, 1))
        return AnnotatorBelief(rates, np.array(_START), np.full_like(rates, np.nan))

    def evidence(self, votes: Votes, belief: AnnotatorBelief) -> VoteEvidence:
        """Σ_k log p(vote | λ) over the votes that exist (maths, eq. 6)."""
        rates = belief.posterior / belief.posterior.sum(axis=-1, keepdims=True)
        return vote_evidence(votes, by_class_and_state(np.log(rates)))

    def count(self, votes: Votes, label_probs: Array) -> Array:
        """(annotators, 2): expected numbers of right and wrong votes."""
        counts: Array = vote_counts(votes, label_probs, by_class=False).sum(axis=(1, 2))
        return counts

    def update(self, counts: Array, belief: AnnotatorBelief) -> AnnotatorBelief:
        """ρ = right votes / votes; annotators without votes keep theirs."""
        total = counts.sum(axis=-1, keepdims=True)
        rates = np.clip(counts / np.maximum(total, np.finfo(float).tiny), _LEAST, 1.0 - _LEAST)
        return AnnotatorBelief(np.where(total > 0, rates * total, belief.posterior), belief.pool, belief.own)

    def divergence(self, belief: AnnotatorBelief) -> float:  # noqa: ARG002 - the protocol's
        """Nothing: a maximum is no belief."""
        return 0.0
