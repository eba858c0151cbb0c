"""M-step: parameters from the statistics of the E-step, and the statistics that given parameters correspond to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma

from palda.models.topics.dirichlet import fit_dirichlet, fit_symmetric_dirichlet
from palda.models.topics.parameters import Params, SufficientStats, estimate_base_rates

if TYPE_CHECKING:
    from palda.data import Array
    from palda.models.topics.em import EMSettings


def update_params(params: Params, stats: SufficientStats, settings: EMSettings) -> tuple[Params, bool]:
    """New parameters, and whether Newton's method converged.

    α by Newton's method, β in closed form or q(β) and η when smoothed (maths, eqs. 16, 17 and 19); ξ is the mean of Δ.
    """
    topic_prior, converged = _update_topic_prior(params.topic_prior, stats, shared_absence=settings.shared_absence)
    counts = np.ascontiguousarray(stats.word_counts.T)
    belief, annotators = params.annotators, settings.annotators
    if annotators is not None and belief is not None and stats.vote_counts.size:
        belief = annotators.update(stats.vote_counts, belief)
    class_prior = estimate_base_rates(stats.label_sums, stats.n_docs)
    if params.word_prior is None:
        totals = counts.sum(axis=1, keepdims=True)
        # a topic without any word keeps its distribution
        topic_words = np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), params.topic_words)
        return Params(topic_prior, topic_words, class_prior, annotators=belief), converged
    word_counts = counts + params.word_prior
    topic_words = word_counts / word_counts.sum(axis=1, keepdims=True)
    updated = Params(topic_prior, topic_words, class_prior, word_counts, params.word_prior, belief)
    expected = updated.expected_log_words
    word_prior, prior_converged = fit_symmetric_dirichlet(params.word_prior, float(expected.sum()), *word_counts.shape)
    updated = replace(updated, word_prior=word_prior)
    vars(updated)["expected_log_words"] = expected  # it does not depend on η, and takes a while to compute
    return updated, converged and prior_converged


def _update_topic_prior(topic_prior: Array, stats: SufficientStats, *, shared_absence: bool) -> tuple[Array, bool]:
    """α (classes, 2, topics), and whether Newton's method converged (maths, eqs. 16 and 63)."""
    if not shared_absence:
        n_rows = topic_prior.shape[0] * 2
        fitted = fit_dirichlet(
            topic_prior.reshape(n_rows, -1), stats.log_theta.reshape(n_rows, -1), stats.n_blocks.ravel()
        )
        return fitted.value.reshape(topic_prior.shape), fitted.converged
    fitted = fit_dirichlet(
        np.concatenate((topic_prior[:, 1], topic_prior[:1, 0])),
        np.concatenate((stats.log_theta[:, 1], stats.log_theta[:, 0].sum(axis=0, keepdims=True))),
        np.append(stats.n_blocks[:, 1], stats.n_blocks[:, 0].sum()),
    )
    absence = np.broadcast_to(fitted.value[-1], topic_prior[:, 0].shape)
    return np.stack((absence, fitted.value[:-1]), axis=1), fitted.converged


def implied_stats(params: Params, n_docs: float, n_tokens: float, vote_counts: Array | None = None) -> SufficientStats:
    """Statistics of so many documents and tokens whose M-step gives the parameters back (maths, eq. 59).

    In an exponential family a maximum and the means it was fitted to determine each other. Parameters and the number
    of documents are therefore all that must be stored to continue EM with other documents. The number of blocks is that
    of hard labels. An α at its limit is taken for a maximum inside; topics that are not smoothed share the tokens as
    documents with the base rates would.
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
    return SufficientStats(
        word_counts=np.ascontiguousarray(word_counts.T),
        log_theta=n_blocks[:, :, None] * mean_log,
        n_blocks=n_blocks,
        label_sums=present,
        vote_counts=np.zeros(0) if vote_counts is None else vote_counts,
        bound=0.0,
        n_docs=int(n_docs),
        n_passes=0,
        n_unconverged=0,
    )
