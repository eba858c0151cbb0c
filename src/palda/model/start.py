"""Where EM starts: topics from random documents, labels from what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palda.model.state import Params

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data.types import Counts

    Array = NDArray[np.float64]

__all__ = ["START_TOPIC_PRIOR", "START_WORD_PRIOR", "first_params"]

START_TOPIC_PRIOR = 1.0
START_WORD_PRIOR = 0.1
_DOCS_PER_TOPIC = 10
_NOISE = 0.2


def first_params(
    counts: Counts, class_prior: Array, n_topics: int, rng: np.random.Generator, *, smoothing: bool
) -> Params:
    """Parameters before the first E-step.

    Each topic is the mean of a few random documents, mixed with the corpus mean so that no topic starts without a word,
    and roughened so that no two topics start equal.
    """
    n_docs, n_words = counts.shape
    n_classes = len(class_prior)
    overall = np.asarray(counts.sum(axis=0), dtype=np.float64).ravel()
    used = np.flatnonzero(overall > 0)
    overall = overall / max(overall.sum(), 1.0)
    topics = np.zeros((n_topics, n_words))
    for topic in topics:
        chosen = np.sort(rng.choice(n_docs, min(_DOCS_PER_TOPIC, n_docs), replace=False))
        mean = np.asarray(counts[chosen].sum(axis=0), dtype=np.float64).ravel()
        topic[:] = mean / max(mean.sum(), 1.0) + overall
        topic[used] *= 1.0 + _NOISE * rng.random(len(used))
    topics[:, used] /= np.maximum(topics.sum(axis=1, keepdims=True), 1e-300)
    topic_prior = np.full((n_classes, 2, n_topics), START_TOPIC_PRIOR)
    if not smoothing:
        return Params(topic_prior, topics, class_prior)
    word_counts = START_WORD_PRIOR + topics * (counts.sum() / n_topics)
    return Params(
        topic_prior, word_counts / word_counts.sum(axis=1, keepdims=True), class_prior, word_counts, START_WORD_PRIOR
    )
