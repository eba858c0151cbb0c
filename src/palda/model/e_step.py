"""E-step of a shard: beliefs about its documents under fixed parameters, and what they add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palda import kernels
from palda.kernels import Bags, Beliefs, Labels, Stopping, Topics
from palda.model.state import Params, ShardStats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data.types import Counts

    Array = NDArray[np.float64]

__all__ = ["bags_of", "e_step", "fresh_beliefs"]


def bags_of(counts: Counts) -> Bags:
    """Rows of a CSR matrix as the kernels read them; shares its memory where the types allow.

    Read-only arrays are copied, because Numba would compile the kernels once more for them.
    """
    return Bags(
        np.require(counts.indptr, np.int64, ["C", "W"]),
        np.require(counts.indices, np.int32, ["C", "W"]),
        np.require(counts.data, np.float64, ["C", "W"]),
    )


def fresh_beliefs(n_classes: int, n_topics: int) -> Beliefs:
    """Nothing carried over: every document starts afresh."""
    return Beliefs(np.zeros((0, n_classes, 2, n_topics)), np.zeros((0, n_classes)), np.zeros((0, n_classes)))


def e_step(
    bags: Bags, labels: Labels, params: Params, stopping: Stopping, beliefs: Beliefs | None = None
) -> tuple[ShardStats, Array]:
    """Sums over the shard's documents, and Δ (docs, classes).

    The bound in the sums holds what words and log-odds say; what does not depend on any belief (log p(λ = 0), the
    votes' likelihood if every class were absent) is for the caller to add.
    """
    n_classes, _, n_topics = params.topic_prior.shape
    result = kernels.active().mean_field(
        bags,
        labels,
        Topics(params.topic_prior, params.word_weights),
        Stopping(int(stopping.max_passes), float(stopping.tolerance)),
        beliefs if beliefs is not None else fresh_beliefs(n_classes, n_topics),
    )
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
