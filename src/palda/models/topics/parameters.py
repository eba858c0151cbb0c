"""What the model knows (``Params``), what a shard says (``ShardStats``), what a step did (``StepInfo``)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import digamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.models.crowd import AnnotatorBelief

    Array = NDArray[np.float64]

__all__ = ["Params", "ShardStats", "StepInfo"]


@dataclass(frozen=True)
class Params:
    """Everything that EM learns, as plain arrays."""

    topic_prior: Array  # α, (classes, 2, topics)
    topic_words: Array  # β, (topics, words); its posterior mean when smoothed
    class_prior: Array  # ξ, (classes,)
    word_counts: Array | None = None  # χ, (topics, words); None when not smoothed
    word_prior: float | None = None  # η; None when not smoothed
    annotators: AnnotatorBelief | None = None  # None without votes

    @property
    def smoothed(self) -> bool:
        """Whether topics have a prior of their own."""
        return self.word_counts is not None

    @cached_property
    def word_weights(self) -> Array:
        """(words, topics): exp E[log β], which is β itself when not smoothed (maths, eq. 13)."""
        if self.word_counts is None:
            return np.ascontiguousarray(self.topic_words.T)
        expected = digamma(self.word_counts) - digamma(self.word_counts.sum(axis=1, keepdims=True))
        return np.ascontiguousarray(np.exp(expected).T)

    def __getstate__(self) -> dict[str, Any]:
        """What is learned, without what can be computed from it again."""
        return {spec.name: getattr(self, spec.name) for spec in fields(self)}


@dataclass(frozen=True)
class ShardStats:
    """Sums over documents; those of two shards add up to those of both."""

    word_counts: Array  # (words, topics)
    log_theta: Array  # Σ E[log θ], (classes, 2, topics)
    n_blocks: Array  # (classes, 2)
    label_sums: Array  # Σ Δ, (classes,)
    vote_counts: Array  # what the annotator model counts; of length 0 without votes
    bound: float
    n_docs: int
    n_passes: int
    n_unsettled: int

    def __add__(self, other: ShardStats) -> ShardStats:
        return ShardStats(*(getattr(self, spec.name) + getattr(other, spec.name) for spec in fields(self)))


@dataclass(frozen=True)
class StepInfo:
    """How one round of EM went."""

    iteration: int
    bound: float
    """Lower bound of the log-likelihood of words, labels and votes under the parameters that go with this; of online EM
    an estimate of it."""
    change: float
    """Growth of the bound since the last round, relative to its size; infinite in the first round."""
    worst_fall: float
    """Largest relative fall of the bound in any round so far; 0 if it never fell."""
    n_passes: int
    n_unsettled: int
    newton_converged: bool
    converged: bool
    is_estimate: bool = False
    """Whether the documents' parts of the bound are each under the parameters of the step that read them."""
