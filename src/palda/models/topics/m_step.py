"""M-step: parameters of topics and documents from the sums of the E-step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import digamma

from palda.models.topics.dirichlet import fit_dirichlet, fit_symmetric_dirichlet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.models.topics.parameters import Params, ShardStats

    Array = NDArray[np.float64]

__all__ = ["NewTopics", "update_topics"]


class NewTopics(NamedTuple):
    """Topic parameters after an M-step, and whether its Newton steps came to rest."""

    topic_prior: Array
    topic_words: Array
    word_counts: Array | None
    word_prior: float | None
    newton_converged: bool


def update_topics(params: Params, stats: ShardStats) -> NewTopics:
    """α by Newton, β in closed form or q(β) and η when smoothed (maths, eqs. 16, 17 and 19)."""
    n_classes, _, n_topics = params.topic_prior.shape
    fitted = fit_dirichlet(
        params.topic_prior.reshape(n_classes * 2, n_topics),
        stats.log_theta.reshape(n_classes * 2, n_topics),
        stats.n_blocks.ravel(),
    )
    topic_prior = fitted.value.reshape(params.topic_prior.shape)
    counts = np.ascontiguousarray(stats.word_counts.T)
    if params.word_prior is None:
        return NewTopics(topic_prior, _normalised(counts, params.topic_words), None, None, fitted.converged)
    word_counts = counts + params.word_prior
    totals = word_counts.sum(axis=1, keepdims=True)
    log_sum = float(np.sum(digamma(word_counts) - digamma(totals)))
    word_prior, rested = fit_symmetric_dirichlet(params.word_prior, log_sum, *word_counts.shape)
    return NewTopics(topic_prior, word_counts / totals, word_counts, word_prior, fitted.converged and rested)


def _normalised(counts: Array, before: Array) -> Array:
    """Rows that sum to one; a topic that wrote no word stays as it was."""
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), before)
