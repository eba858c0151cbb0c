"""What the coin models share: rates with Beta beliefs. They differ only in which votes share a rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from palda.models.crowd.annotator_model import AnnotatorBelief, VoteEvidence, by_class_and_state
from palda.models.crowd.pool import IMAGINARY, beta_divergence, expected_logs, fit_pool, pool_divergence
from palda.models.crowd.vote_sums import vote_counts, vote_evidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.models.crowd.annotator_history import AnnotatorHistory

    Array = NDArray[np.float64]

__all__ = ["CoinModel"]

_STEPS_A_ROUND = 3  # of Newton for the pool: the next round goes on from where these led


class CoinModel:
    """A vote is right with its annotator's probability in its cell; what a cell is, subclasses say (maths, eq. 36).

    Rates are not estimated but believed: q(rate) = Beta(prior + expected right votes, prior + expected wrong votes).
    The prior is shared by the pool and learned from it, so three votes make nobody perfect. Rates below ½ are
    possible: the votes of somebody who mostly errs count with inverted sign.
    """

    by_class: ClassVar[bool]
    by_state: ClassVar[bool]

    def start(self, n_annotators: int, n_classes: int, prior: AnnotatorHistory | None = None) -> AnnotatorBelief:
        """Everybody like the pool's imaginary member, but for those with a history.

        Being better than chance is what tells a crowd from its mirror image, where everybody errs and every label
        is turned round; the votes then speak for themselves.
        """
        shape = (n_classes,) * self.by_class + (2,) * self.by_state
        pool = np.broadcast_to(IMAGINARY, (*shape, 2)).copy()
        own = np.full((n_annotators, *shape, 2), np.nan) if prior is None else prior.betas(shape)
        if len(own) != n_annotators:
            raise ValueError(f"the annotator prior speaks of {len(own)} annotators, the votes of {n_annotators}")
        return AnnotatorBelief(np.where(np.isnan(own), pool, own), pool, own)

    def evidence(self, votes: Votes, belief: AnnotatorBelief) -> VoteEvidence:
        """Σ_k E[log p(vote | λ)] over the votes that exist (maths, eq. 37)."""
        return vote_evidence(votes, by_class_and_state(expected_logs(belief.posterior)))

    def count(self, votes: Votes, label_probs: Array) -> Array:
        """(annotators, ..., 2): expected right and wrong votes behind every rate (maths, eq. 38)."""
        counts = vote_counts(votes, label_probs, by_class=self.by_class)
        if not self.by_class:
            counts = counts[:, 0]
        return counts if self.by_state else counts.sum(axis=-2)

    def update(self, counts: Array, belief: AnnotatorBelief) -> AnnotatorBelief:
        """The pool's prior with all its posteriors, in one step; who has a history keeps it (maths, eqs. 38 and 39)."""
        pooled = counts[~belief.has_history]
        before = belief.pool.reshape(-1, 2)
        pool = fit_pool(pooled.reshape(len(pooled), *before.shape), before, _STEPS_A_ROUND).reshape(belief.pool.shape)
        return AnnotatorBelief(np.where(np.isnan(belief.own), pool, belief.own) + counts, pool, belief.own)

    def divergence(self, belief: AnnotatorBelief) -> float:
        """KL of all rates from their priors, the pool's imaginary member included (maths, eq. 40)."""
        return beta_divergence(belief.posterior, belief.prior) + pool_divergence(belief.pool)
