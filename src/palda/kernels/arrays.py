"""Named tuples of arrays that kernels read and return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIN_WORD_WEIGHT = 1e-150
"""A word whose weight is at most this in every topic belongs to no topic and is ignored."""

# Extrapolation in the joint E-step: from pass FIRST_EXTRAPOLATION on, every other pass goes this share of the way to
# the limit that successive steps point to, but at most so many steps.
FIRST_EXTRAPOLATION = 5
EXTRAPOLATION_DAMPING, MAX_EXTRAPOLATION = 0.8, 10.0

MIN_FACTOR = 1e-30
"""Lower limit of a class's factor in the likelihood of a profile: a product of eight stays a normal number."""


MIN_DOUBT = 1e-6
"""Labels that are certain up to this probability gain nothing by another vote."""

MIN_SHARE = 1e-100
"""Lower limit of the probability of a profile: one that is excluded at first may come back."""

MAX_EVIDENCE_SWEEPS = 30
"""Passes over the classes at most, when evidence is found from label probabilities."""


class Bags(NamedTuple):
    """Words of some documents; document d owns entries ``starts[d]:starts[d + 1]``, one per distinct word."""

    starts: NDArray[np.int64]
    words: NDArray[np.int32]
    counts: NDArray[np.float64]


class Labels(NamedTuple):
    """Known labels, and log-odds of the others before any word is read."""

    known: NDArray[np.int8]
    """(docs, classes): 1 or 0 where the label is observed, -1 where it is not."""
    log_odds: NDArray[np.float64]
    """(docs, classes): prior and votes for "present", in nats."""
    fixed: bool = False
    """Whether the log-odds are final, so that words do not change the labels."""


class Topics(NamedTuple):
    """Parameters that documents share."""

    prior: NDArray[np.float64]
    """α, (classes, 2, topics): Dirichlet parameters, ``[i, 1]`` for class i present."""
    word_weights: NDArray[np.float64]
    """(words, topics): β, or exp E[log β] when smoothed."""
    shared_absence: bool = False
    """Whether ``[i, 0]`` is equal for all classes i, so that classes known to be absent share one posterior."""


class PassLimits(NamedTuple):
    """A document has converged when its counts change by less than ``tolerance`` times their total."""

    max_passes: int
    tolerance: float
    extrapolate: bool = False
    """Whether the joint E-step may extrapolate for documents that converge slowly. Without it, no pass lowers the
    bound."""


class Beliefs(NamedTuple):
    """Where documents start from; filled with where they end. Of length 0 to start from the prior."""

    topic_counts: NDArray[np.float64]
    """γ, (docs, classes, 2, topics)."""
    token_class_probs: NDArray[np.float64]
    """δ, (entries, classes)."""
    label_probs: NDArray[np.float64]
    """Δ, (docs, classes)."""


class ShardResult(NamedTuple):
    """Sums over the documents of a shard, and the posterior of each document."""

    word_counts: NDArray[np.float64]
    """(words, topics): expected number of tokens per word and topic."""
    log_theta: NDArray[np.float64]
    """(classes, 2, topics): Σ_d E[log θ] over blocks, weighted by the probability of their state. With a shared absence
    prior only the sum of ``[:, 0]`` over classes has a meaning: classes known to be absent are counted together, at the
    first of them."""
    n_blocks: NDArray[np.float64]
    """(classes, 2): sum of these weights; likewise."""
    label_probs: NDArray[np.float64]
    """Δ, (docs, classes)."""
    topic_counts: NDArray[np.float64]
    """(docs, topics): expected number of tokens per topic."""
    bounds: NDArray[np.float64]
    """(docs,): each document's part of the lower bound."""
    n_passes: int
    """Passes over documents, summed over documents."""
    n_unconverged: int
    """Documents that had not converged after the maximum number of passes."""


class ClassWordProbs(NamedTuple):
    """Word distributions of classes with θ at its mean; 0 in every column for a word of no topic."""

    present: NDArray[np.float64]
    """P_i1(w), (words, classes)."""
    absent: NDArray[np.float64]
    """P_i0(w), (words, classes)."""


class WordEvidence(NamedTuple):
    """Evidence of words for labels."""

    evidence: NDArray[np.float64]
    """(docs, classes): nats for "present", given the probabilities of the other classes."""
    beliefs: NDArray[np.float64]
    """(docs, classes): Δ, the label probabilities that the evidence was computed with."""
    n_unconverged: int
    """Documents that had not converged after the maximum number of passes."""


class VoteArrays(NamedTuple):
    """Votes on some documents; document d owns ``starts[d]:starts[d + 1]``. Without votes all arrays are empty."""

    starts: NDArray[np.int64]
    annotators: NDArray[np.int32]
    classes: NDArray[np.int32]
    values: NDArray[np.int8]


class LabelSetResult(NamedTuple):
    """Posterior of the labels per document, and sums over documents and votes."""

    label_probs: NDArray[np.float64]
    """Δ, (docs, classes)."""
    log_likelihoods: NDArray[np.float64]
    """(docs,): log p(evidence), less its log-likelihood if every class were absent."""
    profile_sums: NDArray[np.float64]
    """(profiles,): Σ_d r_m."""
    label_sums: NDArray[np.float64]
    """(classes, profiles): Σ_d r_m Δ_mi."""
    present_votes: NDArray[np.float64]
    """(annotators, classes or 1, 2): Σ Δ over the votes of each annotator and value."""


class WordRows(NamedTuple):
    """Weighted words of some documents; document d owns entries ``starts[d]:starts[d + 1]``, one per distinct word."""

    rows: NDArray[np.int64]
    """Which documents, as positions in ``starts`` and in tables of labels."""
    starts: NDArray[np.int64]
    words: NDArray[np.int32]
    values: NDArray[np.floating[Any]]


class SoftLabels(NamedTuple):
    """Labels as targets of logistic regressions, one per column of coefficients."""

    targets: NDArray[np.float64]
    """(docs, classes): probability of presence."""
    weights: NDArray[np.float64]
    """(docs, classes), or of length 0 if all are 1."""
    classes: NDArray[np.int64]
    """(columns,): class of each column."""


class StepRing(NamedTuple):
    """The last steps of L-BFGS for each of many problems, in rings."""

    moves: NDArray[np.floating[Any]]
    """(steps, problems, coefficients)."""
    changes: NDArray[np.floating[Any]]
    """(steps, problems, coefficients): changes of the gradient."""
    inverse: NDArray[np.float64]
    """(steps, problems): 1 / (move · change), 0 for a step that does not count."""
    newest: NDArray[np.int64]
    """(problems,): position of the last step."""


class LabelVotes(NamedTuple):
    """Votes in the order of labels; label (document, class) owns ``starts[label]:starts[label + 1]``."""

    starts: NDArray[np.int64]
    """(documents · classes + 1,)."""
    rows: NDArray[np.int32]
    """(votes,): twice the cell of annotator and class, plus the value: a row of probabilities (cells, 2, points)."""


class GridPrior(NamedTuple):
    """Distributions of the support of labels over the points of a grid."""

    points: NDArray[np.float64]
    weights: NDArray[np.float64]
    """(classes, points): of all labels,"""
    present: NDArray[np.float64]
    """of those that are present,"""
    absent: NDArray[np.float64]
    """and of those that are absent; all add up to 1."""


LOWEST_ANSWER = -200.0
"""Log-likelihood of an answer at the least likely point of the grid, relative to the most likely one."""


class GridEvidence(NamedTuple):
    """What else is known of the support of labels, besides votes.

    Normal distributions stand in place of those of the classes. Answers a classifier gives, normal given the support,
    join the votes: at a point s of the grid they have the log-likelihood "answer · s - sharpness · s² / 2".
    """

    mean: NDArray[np.float64]
    """(documents, classes): of the normal distributions; empty if there are none."""
    precision: NDArray[np.float64]
    """(documents, classes): 0 where there is none."""
    answers: NDArray[np.float64]
    """(documents, classes): 0 where there is none; empty if there is none at all."""
    sharpness: NDArray[np.float64]
    """(classes,): of the answers."""
    doubt: float
    """Probability that a normal distribution says nothing, and the distribution of the class holds."""

    def take(self, rows: NDArray[np.int64] | slice) -> GridEvidence:
        """What is known of some documents."""
        parts = {name: getattr(self, name) for name in ("mean", "precision", "answers")}
        return self._replace(**{name: part[rows] for name, part in parts.items() if len(part)})
