"""The parts of the lower bound that belong to no single document."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma, gammaln

if TYPE_CHECKING:
    from palda.models.topics.parameters import Params

__all__ = ["topic_divergence"]


def topic_divergence(params: Params) -> float:
    """KL(q(β) ‖ p(β)) of all topics, Dir(χ) against Dir(η) (maths, eq. 18); 0 when not smoothed."""
    if params.word_counts is None or params.word_prior is None:
        return 0.0
    chi, eta = params.word_counts, params.word_prior
    n_topics, n_words = chi.shape
    totals = chi.sum(axis=1)
    expected = digamma(chi) - digamma(totals)[:, None]
    log_norm_q = float(np.sum(gammaln(totals)) - np.sum(gammaln(chi)))
    log_norm_p = float(n_topics * (gammaln(n_words * eta) - n_words * gammaln(eta)))
    return log_norm_q - log_norm_p + float(np.sum((chi - eta) * expected))
