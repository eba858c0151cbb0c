"""Statistics that parameters stand for: those whose M-step gives the parameters back.

For an exponential family a maximum and the means it was fitted to are two names of the same point. So parameters and
the number of documents behind them are all that must be kept for EM to go on with other documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma

from palda.models.topics.parameters import ShardStats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.models.topics.parameters import Params

    Array = NDArray[np.float64]

__all__ = ["implied_stats"]


def implied_stats(params: Params, n_docs: float, n_tokens: float, vote_counts: Array | None = None) -> ShardStats:
    """Sums over so many documents and tokens that the parameters would come from (maths, eq. 59).

    Labels count as hard ones in the number of blocks. An α on the edge of its box is taken for a maximum inside; topics
    that are not smoothed share the tokens as documents of the base rates would.
    """
    present = n_docs * params.class_prior
    n_blocks = np.stack((n_docs - present, present), axis=1)
    mean_log = digamma(params.topic_prior) - digamma(params.topic_prior.sum(axis=2, keepdims=True))
    if params.word_counts is not None and params.word_prior is not None:
        word_counts = np.maximum(params.word_counts - params.word_prior, 0.0)
        word_counts *= n_tokens / max(float(word_counts.sum()), np.finfo(float).tiny)
    else:
        means = params.topic_prior / params.topic_prior.sum(axis=2, keepdims=True)
        shares = np.einsum("ij,ijt->t", n_blocks, means) / max(float(n_blocks.sum()), np.finfo(float).tiny)
        word_counts = n_tokens * shares[:, None] * params.topic_words
    return ShardStats(
        word_counts=np.ascontiguousarray(word_counts.T),
        log_theta=n_blocks[:, :, None] * mean_log,
        n_blocks=n_blocks,
        label_sums=present,
        vote_counts=np.zeros(0) if vote_counts is None else vote_counts,
        bound=0.0,
        n_docs=int(n_docs),
        n_passes=0,
        n_unsettled=0,
    )
