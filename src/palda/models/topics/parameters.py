"""Parameters of the topic model, the statistics they are estimated from, and the record of one EM iteration."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import digamma

from palda.engine import add_prefix, strip_prefix
from palda.models.crowd import AnnotatorBelief

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.data import Array

_MIN_BASE_RATE = 1e-6  # ξ is maximised within [1e-6, 1 - 1e-6]: a class without any document may still exist


@dataclass(frozen=True)
class Params:
    """Everything that EM estimates, as plain arrays."""

    topic_prior: Array  # α, (classes, 2, topics)
    topic_words: Array  # β, (topics, words); its posterior mean when smoothed
    class_prior: Array  # ξ, (classes,)
    word_counts: Array | None = None  # χ, (topics, words); None when not smoothed
    word_prior: float | None = None  # η; None when not smoothed
    annotators: AnnotatorBelief | None = None  # None without votes

    @cached_property
    def word_weights(self) -> Array:
        """(words, topics): exp E[log β], which is β itself when not smoothed (maths, eq. 13)."""
        if self.word_counts is None:
            return np.ascontiguousarray(self.topic_words.T)
        expected = digamma(self.word_counts) - digamma(self.word_counts.sum(axis=1, keepdims=True))
        return np.ascontiguousarray(np.exp(expected).T)

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone; ``word_weights`` can be computed again."""
        return {spec.name: getattr(self, spec.name) for spec in fields(self)}


@dataclass(frozen=True)
class SufficientStats:
    """Sums over documents that the M-step needs; the sums of two shards add up to those of both."""

    word_counts: Array  # (words, topics)
    log_theta: Array  # Σ E[log θ], (classes, 2, topics)
    n_blocks: Array  # (classes, 2)
    label_sums: Array  # Σ Δ, (classes,)
    vote_counts: Array  # expected counts of the annotator model; of length 0 without votes
    bound: float
    n_docs: int
    n_passes: int
    n_unconverged: int

    def __add__(self, other: SufficientStats) -> SufficientStats:
        return SufficientStats(*(getattr(self, spec.name) + getattr(other, spec.name) for spec in fields(self)))


@dataclass(frozen=True)
class StepInfo:
    """One iteration of EM."""

    iteration: int
    bound: float
    """Lower bound of the log-likelihood of words, labels and votes under ``params``; an estimate in online EM."""
    change: float
    """Growth of the bound since the last iteration, relative to its size; infinite in the first iteration."""
    worst_fall: float
    """Largest relative fall of the bound in any iteration so far; 0 if it never fell."""
    n_passes: int
    n_unconverged: int
    newton_converged: bool
    converged: bool
    is_estimate: bool = False
    """Whether each document's part of the bound belongs to the parameters of the online step that read it."""
    params: Params | None = None


def estimate_base_rates(label_sums: Array, n_docs: int) -> Array:
    """ξ (classes,), the mean of Δ over documents (maths, eq. 14)."""
    return np.clip(label_sums / max(n_docs, 1), _MIN_BASE_RATE, 1.0 - _MIN_BASE_RATE)


def base_rate_log_odds(class_prior: Array) -> Array:
    """logit ξ (classes,)."""
    return np.log(class_prior) - np.log1p(-class_prior)


def params_to_arrays(params: Params) -> dict[str, NDArray[Any]]:
    """Parameters as named arrays of a file."""
    values = {
        "topic_prior": params.topic_prior,
        "topic_words": params.topic_words,
        "class_prior": params.class_prior,
        "word_counts": params.word_counts,
        "word_prior": params.word_prior,
    }
    arrays = {name: np.asarray(value) for name, value in values.items() if value is not None}
    return arrays | ({} if params.annotators is None else add_prefix("annotators", belief_to_arrays(params.annotators)))


def params_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Params:
    """Parameters from the arrays of a file; ``ValueError`` if their shapes or types do not agree."""
    n_classes, _, n_topics = arrays["topic_prior"].shape
    n_words = arrays["topic_words"].shape[-1]
    shapes = {
        "topic_prior": (n_classes, 2, n_topics),
        "topic_words": (n_topics, n_words),
        "class_prior": (n_classes,),
        "word_counts": (n_topics, n_words),
        "word_prior": (),
    }
    stored = {name: arrays[name] for name in shapes if name in arrays}
    for name, array in stored.items():
        if array.shape != shapes[name] or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError(f"the array {name!r} does not fit the others")
    if ("word_counts" in stored) != ("word_prior" in stored):
        raise ValueError("of 'word_counts' and 'word_prior' one is missing")
    return Params(
        topic_prior=stored["topic_prior"],
        topic_words=stored["topic_words"],
        class_prior=stored["class_prior"],
        word_counts=stored.get("word_counts"),
        word_prior=float(stored["word_prior"]) if "word_prior" in stored else None,
        annotators=belief_from_arrays(strip_prefix("annotators", arrays)),
    )


def belief_to_arrays(belief: AnnotatorBelief) -> dict[str, NDArray[Any]]:
    """The annotators' posterior as named arrays of a file."""
    return {"posterior": belief.posterior, "pool": belief.pool, "own": belief.own}


def belief_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> AnnotatorBelief | None:
    """The annotators' posterior from the arrays of a file; None without arrays."""
    if not arrays:
        return None
    belief = AnnotatorBelief(posterior=arrays["posterior"], pool=arrays["pool"], own=arrays["own"])
    if belief.own.shape != belief.posterior.shape or belief.pool.shape != belief.posterior.shape[1:]:
        raise ValueError("the arrays of annotators do not fit each other")
    return belief
