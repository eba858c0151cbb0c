"""E-step: posterior of the documents of each shard under fixed parameters, its statistics, and the lower bound."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, gammaln

from palda import kernels
from palda.kernels import Beliefs, Labels, PassLimits, ShardResult, Topics
from palda.models.topics.parameters import Params, SufficientStats, base_rate_log_odds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palda.data import Array, Votes
    from palda.models.crowd import AnnotatorModel
    from palda.models.topics.em import EMSettings
    from palda.models.topics.shards import DocumentShard


class EStepInputs(NamedTuple):
    """What the E-steps of all shards share. It holds no more than needed, because it may be sent to other machines."""

    params: Params
    annotators: AnnotatorModel | None
    inference: str
    limits: PassLimits
    shared_absence: bool

    @classmethod
    def of(cls, params: Params, settings: EMSettings) -> EStepInputs:
        """Inputs with the word weights computed, before several threads ask for them."""
        slim = replace(params, topic_words=params.word_weights.T, word_counts=None, word_prior=None)
        _ = slim.word_weights
        return cls(slim, settings.annotators, settings.inference, settings.pass_limits, settings.shared_absence)


def total_statistics(shards: Sequence[DocumentShard], params: Params, settings: EMSettings) -> SufficientStats:
    """Statistics of all shards; ``shards`` may have been placed by the engine."""
    return settings.engine.total(shard_statistics, shards, EStepInputs.of(params, settings))


def label_probs(shards: Sequence[DocumentShard], params: Params, settings: EMSettings) -> Array:
    """Δ (docs, classes): probabilities of the labels under fixed parameters."""
    return np.concatenate(list(settings.engine.each(_shard_label_probs, shards, EStepInputs.of(params, settings))))


def topic_shares(shards: Sequence[DocumentShard], params: Params, settings: EMSettings) -> Array:
    """(docs, topics): share of each document's tokens per topic; the prior mean for a document without words."""
    return np.concatenate(list(settings.engine.each(_shard_topic_shares, shards, EStepInputs.of(params, settings))))


def shard_statistics(
    shard: DocumentShard, inputs: EStepInputs, beliefs: Beliefs | Array | None = None
) -> SufficientStats:
    """Statistics of one shard. ``beliefs``, if given, are where its documents start from, and are updated in place."""
    votes, annotators = shard.votes, inputs.annotators
    labels, votes_if_absent = _labels(shard, votes, inputs)
    result = _run_kernel(shard, labels, inputs, beliefs)
    stats = SufficientStats(
        word_counts=result.word_counts,
        log_theta=result.log_theta,
        n_blocks=result.n_blocks,
        label_sums=result.label_probs.sum(axis=0),
        vote_counts=np.zeros(0),
        bound=float(result.bounds.sum()),
        n_docs=len(result.bounds),
        n_passes=int(result.n_passes),
        n_unconverged=int(result.n_unconverged),
    )
    if votes_if_absent is None or votes is None or annotators is None:
        return stats
    counts = annotators.count(votes, result.label_probs)
    return replace(stats, vote_counts=counts, bound=stats.bound + float(votes_if_absent.sum()))


def _shard_label_probs(shard: DocumentShard, inputs: EStepInputs) -> Array:
    return _run_kernel(shard, _labels(shard, shard.votes, inputs)[0], inputs).label_probs


def _shard_topic_shares(shard: DocumentShard, inputs: EStepInputs) -> Array:
    labels, prior = _labels(shard, shard.votes, inputs)[0], inputs.params.topic_prior
    counts = _run_kernel(shard, labels, inputs).topic_counts
    means = prior / prior.sum(axis=2, keepdims=True)
    probs = np.where(labels.known >= 0, labels.known, expit(labels.log_odds))
    expected = (probs @ means[:, 1] + (1.0 - probs) @ means[:, 0]) / probs.shape[1]
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), expected)


def _labels(shard: DocumentShard, votes: Votes | None, inputs: EStepInputs) -> tuple[Labels, Array | None]:
    """Prior and votes as log-odds (maths, eq. 6), and the votes' log-likelihood if every class were absent."""
    params = inputs.params
    log_odds = np.ascontiguousarray(np.broadcast_to(base_rate_log_odds(params.class_prior), shard.known.shape))
    if shard.fixed_log_odds is not None:
        return Labels(shard.known, np.where(shard.known >= 0, log_odds, shard.fixed_log_odds), fixed=True), None
    if votes is None or inputs.annotators is None or params.annotators is None:
        return Labels(shard.known, log_odds), None
    evidence = inputs.annotators.evidence(votes, params.annotators)
    return Labels(shard.known, log_odds + evidence.log_odds), evidence.absent


def _run_kernel(
    shard: DocumentShard, labels: Labels, inputs: EStepInputs, beliefs: Beliefs | Array | None = None
) -> ShardResult:
    params = inputs.params
    if beliefs is None:
        beliefs = no_beliefs(params.topic_prior.shape[0], params.topic_prior.shape[2], inputs.inference)
    kernel = getattr(kernels.active(), inputs.inference)
    topics = Topics(params.topic_prior, params.word_weights, inputs.shared_absence)
    result: ShardResult = kernel(shard.bags, labels, topics, inputs.limits, beliefs)
    return result


def no_beliefs(n_classes: int, n_topics: int, inference: str) -> Beliefs | Array:
    """Empty arrays, which tell a kernel to start every document from the prior."""
    if inference == "joint":
        return np.zeros((0, n_classes, n_topics))
    return Beliefs(np.zeros((0, n_classes, 2, n_topics)), np.zeros((0, n_classes)), np.zeros((0, n_classes)))


def lower_bound(stats: SufficientStats, params: Params, annotators: AnnotatorModel | None) -> float:
    """Documents' parts, log p(λ = 0), less the divergences of q(β) and q(annotators) (maths, eqs. 12, 18, 31)."""
    labels = stats.n_docs * float(np.log1p(-params.class_prior).sum())
    crowd = 0.0
    if annotators is not None and params.annotators is not None:
        crowd = annotators.divergence(params.annotators)
    return stats.bound + labels - _topic_divergence(params) - crowd


def _topic_divergence(params: Params) -> float:
    """KL(q(β) ‖ p(β)) of all topics, Dir(χ) against Dir(η) (maths, eq. 18); 0 when not smoothed."""
    if params.word_counts is None or params.word_prior is None:
        return 0.0
    chi, eta = params.word_counts, params.word_prior
    n_topics, n_words = chi.shape
    totals = chi.sum(axis=1)
    log_norm_q = float(np.sum(gammaln(totals)) - np.sum(gammaln(chi)))
    log_norm_p = float(n_topics * (gammaln(n_words * eta) - n_words * gammaln(eta)))
    return log_norm_q - log_norm_p + float(np.sum((chi - eta) * params.expected_log_words))
