"""Parameters of the topic model, the statistics they are estimated from, and the record of one EM iteration."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import digamma

from palda.data import ArraySpec, prefixed
from palda.engine import add_prefix, strip_prefix
from palda.models.crowd import (
    LEVEL_ARRAYS,
    SUPPORT_ARRAYS,
    AnnotatorBelief,
    KeptPriorBelief,
    SupportBelief,
    levels_from_arrays,
    levels_to_arrays,
)

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
        return np.ascontiguousarray(np.exp(self.expected_log_words).T)

    @cached_property
    def expected_log_words(self) -> Array:
        """(topics, words): E[log β] when smoothed."""
        chi = cast("Array", self.word_counts)
        expected: Array = digamma(chi) - digamma(chi.sum(axis=1, keepdims=True))
        return expected

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone; cached properties can be computed again."""
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


PARAMS_ARRAYS = {
    "topic_prior": ArraySpec(("classes", 2, "topics"), low=1e-12, high=1e12),
    "topic_words": ArraySpec(("topics", "words"), low=0.0, high=1.0 + 1e-6, sum_axis=1),
    "class_prior": ArraySpec(("classes",), above=0.0, below=1.0),
    "word_counts": ArraySpec(("topics", "words"), above=0.0, group="smoothing"),
    "word_prior": ArraySpec((), above=0.0, group="smoothing"),
}
"""Schema of the parameters in a file, without annotators."""


def belief_arrays(rate_shape: tuple[int | str, ...], *, has_support: bool) -> dict[str, ArraySpec]:
    """Schema of the annotators' posterior in a file; ``rate_shape`` are the axes of the rates of one annotator."""
    return {
        "posterior": ArraySpec(("annotators", *rate_shape, 2), above=0.0),
        "pool": ArraySpec((*rate_shape, 2), above=0.0),
        "own": ArraySpec(("annotators", *rate_shape, 2), above=0.0, nan=True),
        **prefixed("levels", LEVEL_ARRAYS),
        **(prefixed("support", SUPPORT_ARRAYS, "support") if has_support else {}),
    }


def belief_schema_like(belief: AnnotatorBelief) -> dict[str, ArraySpec]:
    """Schema of beliefs of the same annotator model."""
    return belief_arrays(belief.posterior.shape[1:-1], has_support=isinstance(belief, SupportBelief))


def schema_like(params: Params) -> tuple[dict[str, ArraySpec], dict[str, int]]:
    """Schema of parameters with the same shapes as the given ones, and the sizes in it."""
    n_topics, n_words = params.topic_words.shape
    sizes = {"classes": len(params.class_prior), "topics": n_topics, "words": n_words}
    schema = {
        name: replace(spec, group="")
        for name, spec in PARAMS_ARRAYS.items()
        if spec.group != "smoothing" or params.word_counts is not None
    }
    if params.annotators is not None:
        schema |= prefixed("annotators", belief_schema_like(params.annotators))
        sizes["annotators"] = len(params.annotators.posterior)
    return schema, sizes


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
    """Parameters from the arrays of a file, which match ``PARAMS_ARRAYS``."""
    return Params(
        topic_prior=arrays["topic_prior"],
        topic_words=arrays["topic_words"],
        class_prior=arrays["class_prior"],
        word_counts=arrays.get("word_counts"),
        word_prior=float(arrays["word_prior"]) if "word_prior" in arrays else None,
        annotators=belief_from_arrays(strip_prefix("annotators", arrays)),
    )


def belief_to_arrays(belief: AnnotatorBelief) -> dict[str, NDArray[Any]]:
    """The annotators' posterior as named arrays of a file."""
    levels = {} if belief.levels is None else add_prefix("levels", levels_to_arrays(belief.levels))
    plain = {"posterior": belief.posterior, "pool": belief.pool, "own": belief.own, **levels}
    if isinstance(belief, SupportBelief):
        return plain | add_prefix("support", belief.arrays())
    return plain | ({"kept.prior": belief.kept} if isinstance(belief, KeptPriorBelief) else {})


def belief_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> AnnotatorBelief | None:
    """The annotators' posterior from the arrays of a file; None without arrays."""
    if not arrays:
        return None
    levels = levels_from_arrays(strip_prefix("levels", arrays))
    shared = arrays["posterior"], arrays["pool"], arrays["own"], levels
    plain, support, effects = AnnotatorBelief(*shared), strip_prefix("support", arrays), strip_prefix("effects", arrays)
    if support:
        return SupportBelief.with_arrays(plain, support)
    if effects:
        return KeptPriorBelief.with_effects(plain, effects)
    return KeptPriorBelief.with_prior(plain, arrays["kept.prior"]) if "kept.prior" in arrays else plain
