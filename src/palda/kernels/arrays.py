"""Structs of arrays that go into kernels and come out of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "CAUTION",
    "FARTHEST",
    "FIRST_LEAP",
    "MIN_WORD_WEIGHT",
    "Bags",
    "Beliefs",
    "ClassWordProbs",
    "Labels",
    "PassLimits",
    "ShardResult",
    "Topics",
    "WordEvidence",
]

MIN_WORD_WEIGHT = 1e-150
"""A word whose weight is not above this in any topic is one that no topic writes: it says nothing."""


# How the joint E-step leaps, where it may: from this pass on, every other pass goes so much of the way to where
# successive steps point, but no further than so many steps.
FIRST_LEAP = 5
CAUTION, FARTHEST = 0.8, 10.0


class Bags(NamedTuple):
    """Words of some documents; document d owns entries ``starts[d]:starts[d + 1]``, a distinct word each."""

    starts: NDArray[np.int64]
    words: NDArray[np.int32]
    counts: NDArray[np.float64]


class Labels(NamedTuple):
    """What is known of the labels before any word is read."""

    known: NDArray[np.int8]
    """(docs, classes): 1 or 0 where the label is observed, -1 where it is not."""
    log_odds: NDArray[np.float64]
    """(docs, classes): prior and votes for "present", in nats."""
    fixed: bool = False
    """Whether the log-odds have the last word: then words say nothing more about labels."""


class Topics(NamedTuple):
    """Parameters that documents share."""

    prior: NDArray[np.float64]
    """α, (classes, 2, topics): Dirichlet parameters, ``[i, 1]`` for class i present."""
    word_weights: NDArray[np.float64]
    """(words, topics): β, or exp E[log β] when smoothed."""


class PassLimits(NamedTuple):
    """When a document's beliefs have settled: counts move by less than ``tolerance`` of their total."""

    max_passes: int
    tolerance: float
    extrapolate: bool = False
    """Whether the joint E-step may extrapolate for documents that converge slowly. Without it, no pass lowers the
    bound."""


class Beliefs(NamedTuple):
    """Where documents start from, and where they end: filled in place. Of length 0 when documents start afresh."""

    topic_counts: NDArray[np.float64]
    """γ, (docs, classes, 2, topics)."""
    token_class_probs: NDArray[np.float64]
    """δ, (entries, classes)."""
    label_probs: NDArray[np.float64]
    """Δ, (docs, classes)."""


class ShardResult(NamedTuple):
    """Sums over the documents of a shard, and the beliefs that users ask for."""

    word_counts: NDArray[np.float64]
    """(words, topics): expected number of times a topic wrote a word."""
    log_theta: NDArray[np.float64]
    """(classes, 2, topics): Σ_d E[log θ] over the blocks that count, by how much they count."""
    n_blocks: NDArray[np.float64]
    """(classes, 2): how many documents' blocks counted."""
    label_probs: NDArray[np.float64]
    """Δ, (docs, classes)."""
    topic_counts: NDArray[np.float64]
    """(docs, topics): expected number of tokens of each topic."""
    bounds: NDArray[np.float64]
    """(docs,): each document's part of the lower bound."""
    n_passes: int
    """Passes over documents, all together."""
    n_unsettled: int
    """Documents that had not settled when their passes were used up."""


class ClassWordProbs(NamedTuple):
    """How probable each class makes each word with θ at its mean; 0 in every column for a word no topic writes."""

    present: NDArray[np.float64]
    """P_i1(w), (words, classes)."""
    absent: NDArray[np.float64]
    """P_i0(w), (words, classes)."""


class WordEvidence(NamedTuple):
    """Labels of new documents, from their words."""

    evidence: NDArray[np.float64]
    """(docs, classes): what the words say for "present", in nats, given what is believed of the other classes."""
    beliefs: NDArray[np.float64]
    """(docs, classes): Δ that the evidence took the other classes to be."""
    n_unsettled: int
    """Documents whose beliefs had not come to rest when their passes were used up."""
