"""E-step of a shard: beliefs about its documents under fixed parameters, and what they add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from palda import kernels
from palda.kernels import Bags, Beliefs, Labels, PassLimits, ShardResult, Topics
from palda.models.topics.parameters import Params, ShardStats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Counts

    Array = NDArray[np.float64]

__all__ = ["bags_of", "e_step", "fresh_beliefs", "joined_bags", "topic_shares"]


def bags_of(counts: Counts) -> Bags:
    """Rows of a CSR matrix as the kernels read them; shares its memory where the types allow.

    Read-only arrays are copied, because Numba would compile the kernels once more for them.
    """
    return Bags(
        np.require(counts.indptr, np.int64, ["C", "W"]),
        np.require(counts.indices, np.int32, ["C", "W"]),
        np.require(counts.data, np.float64, ["C", "W"]),
    )


def joined_bags(parts: Sequence[Bags]) -> Bags:
    """Documents of several shards as one."""
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    return Bags(
        np.concatenate(([0], np.cumsum(lengths))),
        np.concatenate([part.words for part in parts]),
        np.concatenate([part.counts for part in parts]),
    )


def fresh_beliefs(n_classes: int, n_topics: int, inference: str) -> Beliefs | Array:
    """Nothing carried over: every document starts afresh."""
    if inference == "joint":
        return np.zeros((0, n_classes, n_topics))
    return Beliefs(np.zeros((0, n_classes, 2, n_topics)), np.zeros((0, n_classes)), np.zeros((0, n_classes)))


def e_step(
    bags: Bags,
    labels: Labels,
    params: Params,
    stopping: PassLimits,
    beliefs: Beliefs | Array | None = None,
    *,
    inference: str = "joint",
) -> tuple[ShardStats, Array]:
    """Sums over the shard's documents, and Δ (docs, classes).

    The bound in the sums holds what words and log-odds say; what does not depend on any belief (log p(λ = 0), the
    votes' likelihood if every class were absent) is for the caller to add.
    """
    result = _run_kernel(bags, labels, params, stopping, beliefs, inference)
    stats = ShardStats(
        word_counts=result.word_counts,
        log_theta=result.log_theta,
        n_blocks=result.n_blocks,
        label_sums=result.label_probs.sum(axis=0),
        vote_counts=np.zeros(0),
        bound=float(result.bounds.sum()),
        n_docs=len(result.bounds),
        n_passes=int(result.n_passes),
        n_unsettled=int(result.n_unsettled),
    )
    return stats, result.label_probs


def topic_shares(
    bags: Bags, labels: Labels, params: Params, stopping: PassLimits, *, inference: str = "joint"
) -> Array:
    """(docs, topics): share of each document's words that each topic wrote; its prior mean where there are no words."""
    counts = _run_kernel(bags, labels, params, stopping, None, inference).topic_counts
    means = params.topic_prior / params.topic_prior.sum(axis=2, keepdims=True)
    probs = np.where(labels.known >= 0, labels.known, expit(labels.log_odds))
    expected = (probs @ means[:, 1] + (1.0 - probs) @ means[:, 0]) / probs.shape[1]
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), expected)


def _run_kernel(
    bags: Bags,
    labels: Labels,
    params: Params,
    stopping: PassLimits,
    beliefs: Beliefs | Array | None,
    inference: str,
) -> ShardResult:
    n_classes, _, n_topics = params.topic_prior.shape
    if beliefs is None:
        beliefs = fresh_beliefs(n_classes, n_topics, inference)
    result: ShardResult = getattr(kernels.active(), inference)(
        bags,
        Labels(labels.known, labels.log_odds, bool(labels.fixed)),
        Topics(params.topic_prior, params.word_weights),
        PassLimits(int(stopping.max_passes), float(stopping.tolerance), bool(stopping.leaps)),
        beliefs,
    )
    return result
