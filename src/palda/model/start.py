"""Where EM starts: topics that tell classes apart, and random documents where topics are left over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palda.model.state import Params

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data.types import Counts

    Array = NDArray[np.float64]

__all__ = ["START_TOPIC_PRIOR", "START_WORD_PRIOR", "default_n_topics", "first_params"]

START_TOPIC_PRIOR = 0.15
START_WORD_PRIOR = 0.1
_TIE = 1.5  # what α of a block adds for the topic that is its own
_OVERALL = 0.1  # share of the corpus mean in every topic, so that none starts without a word
_NOISE = 0.1  # no two topics start equal, even if two classes or documents are
_RIDGE = 1e-3  # of the mean diagonal: classes that always come together share what they say
_LEAST_MASS = 1e-9  # of all tokens; a block that says less has nothing of its own to say


def default_n_topics(counts: Counts, n_classes: int) -> int:
    """Number of topics when nobody says."""
    return 2 * n_classes + 60


def first_params(
    counts: Counts,
    class_prior: Array,
    n_topics: int,
    rng: np.random.Generator,
    *,
    smoothing: bool,
    guess: Array | None = None,
) -> Params:
    """Parameters before the first E-step.

    With θ at its mean, words are written at the rate Σ_i P_{i,λ_i} / C: linear in the labels. Regressing the words on
    ``guess``, the probabilities (documents, classes) of the labels, gives what each class says more when present, and
    what it says more when absent. The blocks (class, state) that say most get these as topics of their own; topics
    left over start from random documents, as all of them do without a guess.
    """
    n_classes = len(class_prior)
    if guess is None:
        guess = np.broadcast_to(class_prior, (counts.shape[0], n_classes))
    overall = np.asarray(counts.sum(axis=0), dtype=np.float64).ravel()
    said = _said_by_blocks(counts, guess)
    blocks = _loudest(said, counts, guess, n_topics)
    topics = np.concatenate((said[blocks], _random_documents(counts, n_topics - len(blocks), rng)))
    topics = _normalised(topics) + _OVERALL * _normalised(overall[None])
    topics *= 1.0 + _NOISE * rng.random(topics.shape)
    topic_prior = np.full((2 * n_classes, n_topics), START_TOPIC_PRIOR)
    topic_prior[blocks, np.arange(len(blocks))] += _TIE
    return _params(topic_prior.reshape(n_classes, 2, n_topics), _normalised(topics), class_prior, overall, smoothing)


def _said_by_blocks(counts: Counts, guess: Array) -> Array:
    """(2 · classes, words): rate of each word that comes with a class's absence, and with its presence.

    Least squares, each document weighted by its length, and centred: of what a class says in both states nothing is
    known, and a class that is the same everywhere has nothing to tell.
    """
    lengths = _lengths(counts)
    total = max(float(lengths.sum()), 1.0)
    centred = guess - lengths @ guess / total
    gram = centred.T @ (lengths[:, None] * centred)
    gram[np.diag_indices_from(gram)] += _RIDGE * np.trace(gram) / len(gram) + _LEAST_MASS * total
    present = np.linalg.solve(gram, np.asarray(counts.T @ centred, dtype=np.float64).T)
    said: Array = np.stack((np.maximum(-present, 0.0), np.maximum(present, 0.0)), axis=1)
    return said.reshape(-1, said.shape[2])


def _loudest(said: Array, counts: Counts, guess: Array, n_topics: int) -> NDArray[np.intp]:
    """At most ``n_topics`` blocks, those that wrote most tokens first."""
    lengths = _lengths(counts)
    tokens = np.column_stack((lengths @ (1.0 - guess), lengths @ guess)).ravel() * said.sum(axis=1)
    order = np.argsort(-tokens, kind="stable")[:n_topics]
    loud: NDArray[np.intp] = order[tokens[order] > _LEAST_MASS * lengths.sum()]
    return loud


def _random_documents(counts: Counts, size: int, rng: np.random.Generator) -> Array:
    """Word counts of random documents that have words, different ones as long as there are enough."""
    filled = np.flatnonzero(_lengths(counts) > 0)
    rows = np.zeros((size, counts.shape[1]))
    for start in range(0, size if len(filled) else 0, max(len(filled), 1)):
        chosen = rng.permutation(filled)[: size - start]
        rows[start : start + len(chosen)] = counts[chosen].toarray()
    return rows


def _lengths(counts: Counts) -> Array:
    return np.asarray(counts.sum(axis=1), dtype=np.float64).ravel()


def _normalised(rows: Array) -> Array:
    """Rows that sum to one; a row of zeros stays."""
    totals = rows.sum(axis=1, keepdims=True)
    return rows / np.where(totals > 0, totals, 1.0)


def _params(topic_prior: Array, topics: Array, class_prior: Array, overall: Array, smoothing: bool) -> Params:
    if not smoothing:
        return Params(topic_prior, topics, class_prior)
    word_counts = START_WORD_PRIOR + topics * (overall.sum() / len(topics))
    return Params(
        topic_prior, word_counts / word_counts.sum(axis=1, keepdims=True), class_prior, word_counts, START_WORD_PRIOR
    )
