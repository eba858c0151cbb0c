"""Where EM starts: topics that tell classes apart, and random documents where topics are left over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palda.data import document_lengths, weighted_sums, word_totals
from palda.models.topics.parameters import Params

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import CountRows

    Array = NDArray[np.float64]

__all__ = ["START_TOPIC_PRIOR", "START_WORD_PRIOR", "default_n_topics", "first_params"]

START_TOPIC_PRIOR = 0.15
START_WORD_PRIOR = 0.1
_TIE = 1.5  # what α of a block adds for the topic that is its own
_OVERALL = 0.1  # share of the corpus mean in every topic, so that none starts without a word
_NOISE = 0.1  # no two topics start equal, even if two classes or documents are
_RIDGE = 1e-3  # of the mean diagonal: classes that always come together share what they say
_DOCS_PER_TOPIC, _TOKENS_PER_TOPIC = 10, 500
_LEAST_TOPICS, _MOST_TOPICS = 10, 160
_LEAST_MASS = 1e-9  # of all tokens; a block that says less has nothing of its own to say


def default_n_topics(counts: CountRows, n_classes: int) -> int:
    """Number of topics when nobody says: one for ten documents and 500 tokens, at most 160, at least one a class.

    On the five public data sets more topics predict held-out labels better, up to about 160; fewer than classes do
    badly, since topics that no class can call its own tell it from no other.
    """
    tokens = float(word_totals(counts).sum())
    enough = min(counts.shape[0] / _DOCS_PER_TOPIC, tokens / _TOKENS_PER_TOPIC, _MOST_TOPICS)
    return max(int(enough), n_classes + 1, _LEAST_TOPICS)


def first_params(
    counts: CountRows,
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
    what it says more when absent. Classes that are present get these as topics of their own, those that say most
    first; one topic of everyday words serves all that are absent; then absences get topics of their own. Topics left
    over start from random documents, as all of them do without a guess.
    """
    n_classes = len(class_prior)
    overall, lengths = word_totals(counts), document_lengths(counts)
    topic_prior = np.full((n_classes, 2, n_topics), START_TOPIC_PRIOR)
    own = np.zeros((0, counts.shape[1]))
    if guess is not None:
        own = _own_topics(counts, lengths, guess, topic_prior)
    topics = np.concatenate((own, _random_documents(counts, lengths, n_topics - len(own), rng)))
    topics = _normalised(topics) + _OVERALL * _normalised(overall[None])
    topics *= 1.0 + _NOISE * rng.random(topics.shape)
    return _params(topic_prior, _normalised(topics), class_prior, overall, smoothing)


def _own_topics(counts: CountRows, lengths: Array, guess: Array, topic_prior: Array) -> Array:
    """(at most T, words): topics that blocks call their own; ``topic_prior`` is made to lean towards them."""
    n_topics = topic_prior.shape[2]
    said = _said_by_blocks(counts, lengths, guess)
    present, absent = (_loud(said[:, state], lengths, guess if state else 1.0 - guess) for state in (1, 0))
    everyday = word_totals(counts)[None]
    if len(present) + len(absent) == n_topics:
        everyday = everyday[:0]  # every block has a topic of its own, and there is no room for more
    present = present[: n_topics - len(everyday)]
    absent = absent[: n_topics - len(everyday) - len(present)]
    topic_prior[present, 1, np.arange(len(present))] += _TIE
    topic_prior[:, 0, len(present) : len(present) + len(everyday)] += _TIE
    topic_prior[absent, 0, len(present) + len(everyday) + np.arange(len(absent))] += _TIE
    return np.concatenate((said[present, 1], everyday, said[absent, 0]))


def _said_by_blocks(counts: CountRows, lengths: Array, guess: Array) -> Array:
    """(classes, 2, words): rate of each word that comes with a class's absence, and with its presence.

    Least squares, each document weighted by its length, and centred: of what a class says in both states nothing is
    known, and a class that is the same everywhere has nothing to tell.
    """
    total = max(float(lengths.sum()), 1.0)
    centred = guess - lengths @ guess / total
    gram = centred.T @ (lengths[:, None] * centred)
    gram[np.diag_indices_from(gram)] += _RIDGE * np.trace(gram) / len(gram) + _LEAST_MASS * total
    present = np.linalg.solve(gram, weighted_sums(counts, centred).T)
    return np.stack((np.maximum(-present, 0.0), np.maximum(present, 0.0)), axis=1)


def _loud(said: Array, lengths: Array, probs: Array) -> NDArray[np.intp]:
    """Classes that say something in a state, those first that wrote most tokens in it."""
    tokens = (lengths @ probs) * said.sum(axis=1)
    order = np.argsort(-tokens, kind="stable")
    loud: NDArray[np.intp] = order[tokens[order] > _LEAST_MASS * lengths.sum()]
    return loud


def _random_documents(counts: CountRows, lengths: Array, size: int, rng: np.random.Generator) -> Array:
    """Word counts of random documents that have words, different ones as long as there are enough."""
    filled = np.flatnonzero(lengths > 0)
    rows = np.zeros((size, counts.shape[1]))
    for start in range(0, size if len(filled) else 0, max(len(filled), 1)):
        chosen = rng.permutation(filled)[: size - start]
        rows[start : start + len(chosen)] = counts[chosen].toarray()
    return rows


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
