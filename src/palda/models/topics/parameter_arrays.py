"""Parameters as named arrays for files, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda.engine import add_prefix, strip_prefix
from palda.models.crowd import AnnotatorBelief
from palda.models.topics.parameters import Params

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["belief_from_arrays", "belief_to_arrays", "params_from_arrays", "params_to_arrays"]


def params_to_arrays(params: Params) -> dict[str, NDArray[Any]]:
    """Parameters as arrays of a file."""
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
    """Parameters among the arrays of a file, which must fit each other."""
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
    """What is believed of annotators as arrays of a file."""
    return {"posterior": belief.posterior, "pool": belief.pool, "own": belief.own}


def belief_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> AnnotatorBelief | None:
    """What is believed of annotators; None without arrays."""
    if not arrays:
        return None
    belief = AnnotatorBelief(posterior=arrays["posterior"], pool=arrays["pool"], own=arrays["own"])
    if belief.own.shape != belief.posterior.shape or belief.pool.shape != belief.posterior.shape[1:]:
        raise ValueError("the arrays of annotators do not fit each other")
    return belief
