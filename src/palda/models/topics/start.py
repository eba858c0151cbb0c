"""Start of EM: topics that distinguish classes, and random documents for the remaining topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palda.data import document_lengths, weighted_sums, word_totals
from palda.models.topics.parameters import Params

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, CountRows

START_TOPIC_PRIOR = 0.15
START_WORD_PRIOR = 0.1
_OWN_TOPIC_PRIOR = 1.5  # added to α of a block for its own topic
_CORPUS_SHARE = 0.1  # share of the corpus mean in every topic, so that every topic starts with all words
_NOISE = 0.1  # no two topics start equal, even if two classes or documents are
_RIDGE = 1e-3  # of the mean diagonal: classes that always occur together share their words
_DOCS_PER_TOPIC, _TOKENS_PER_TOPIC = 10, 500
_MIN_TOPICS, _MAX_TOPICS = 10, 160
_TOPICS_BESIDE_WORDS, _TOPICS_TO_READ = 40, 20
_MIN_MASS = 1e-9  # share of all tokens below which a block gets no topic of its own


def default_n_topics(counts: CountRows, n_classes: int, label_prior: str | None) -> int:
    """Default number of topics: at most one per ten documents and 500 tokens, but at least ten.

    Labels from topics alone (``"topics"``, ``"base_rate"``): up to 160, and at least one more than there are classes.
    On the five public data sets more topics predict held-out labels better, up to about 160; a class without a topic of
    its own cannot be told from others. Topics beside words (``"stacked"``): 40, or one more than there are classes, up
    to 160. With 20, 40, 60 and 160 topics the log-likelihood of held-out training documents was, in nats per label,
    scene -.173 each time, yeast -.435 -.436 -.436 -.435, enron -.126 each time, Reuters -.041 each time; bibtex, which
    has 159 classes, -.0399 -.0397 and, with 80 and 160, -.0396 -.0394. Topics that only people read: 20.
    """
    n_docs, tokens = counts.shape[0], float(word_totals(counts).sum())
    supported = min(n_docs / _DOCS_PER_TOPIC, tokens / _TOKENS_PER_TOPIC)
    if label_prior in ("topics", "base_rate"):
        wanted = max(min(supported, _MAX_TOPICS), min(n_classes + 1, n_docs))
    elif label_prior == "stacked":
        wanted = max(min(supported, _TOPICS_BESIDE_WORDS), min(n_classes + 1, n_docs, _MAX_TOPICS))
    else:
        wanted = min(supported, _TOPICS_TO_READ)
    return max(int(wanted), _MIN_TOPICS)


def first_params(
    counts: CountRows,
    class_prior: Array,
    n_topics: int,
    rng: np.random.Generator,
    *,
    smoothing: bool,
    guess: Array | None = None,
    shared_absence: bool = False,
) -> Params:
    """Parameters before the first E-step.

    With θ at its mean, word rates are Σ_i P_{i,λ_i} / C: linear in the labels. Regressing the words on ``guess``, the
    label probabilities (documents, classes), gives the words that are more frequent when a class is present, and those
    that are more frequent when it is absent. The present state of each class gets the former as its own topic, the
    classes with most tokens first; all absent states share one topic with the corpus mean; then absent states get their
    own topics. Remaining topics start from random documents, as all topics do without a guess.
    """
    n_classes = len(class_prior)
    overall, lengths = word_totals(counts), document_lengths(counts)
    topic_prior = np.full((n_classes, 2, n_topics), START_TOPIC_PRIOR)
    own = np.zeros((0, counts.shape[1]))
    if guess is not None:
        own = _own_topics(counts, lengths, guess, topic_prior, shared_absence=shared_absence)
    topics = np.concatenate((own, _random_documents(counts, lengths, n_topics - len(own), rng)))
    topics = _normalised(topics) + _CORPUS_SHARE * _normalised(overall[None])
    topics *= 1.0 + _NOISE * rng.random(topics.shape)
    return _params(topic_prior, _normalised(topics), class_prior, overall, smoothing)


def _own_topics(counts: CountRows, lengths: Array, guess: Array, topic_prior: Array, *, shared_absence: bool) -> Array:
    """(at most T, words): topics of single blocks; their entries of ``topic_prior`` are raised in place."""
    n_topics = topic_prior.shape[2]
    rates = _block_rates(counts, lengths, guess)
    present, absent = (_distinct_classes(rates[:, state], lengths, guess if state else 1.0 - guess) for state in (1, 0))
    shared = word_totals(counts)[None]
    if len(present) + len(absent) == n_topics:
        shared = shared[:0]  # every block has its own topic, and no topic is left
    present = present[: n_topics - len(shared)]
    absent = absent[: n_topics - len(shared) - len(present)]
    topic_prior[present, 1, np.arange(len(present))] += _OWN_TOPIC_PRIOR
    topic_prior[:, 0, len(present) : len(present) + len(shared)] += _OWN_TOPIC_PRIOR
    topic_prior[absent, 0, len(present) + len(shared) + np.arange(len(absent))] += _OWN_TOPIC_PRIOR
    if shared_absence:
        topic_prior[:, 0] = topic_prior[:, 0].mean(axis=0)
    return np.concatenate((rates[present, 1], shared, rates[absent, 0]))


def _block_rates(counts: CountRows, lengths: Array, guess: Array) -> Array:
    """(classes, 2, words): excess rate of each word when a class is absent, and when it is present.

    Least squares, each document weighted by its length. Labels are centred, because words that a class has in both
    states cannot be attributed to it; a class with the same label everywhere gets zeros.
    """
    total = max(float(lengths.sum()), 1.0)
    centred = guess - lengths @ guess / total
    ridge = _RIDGE * float(lengths @ (centred**2).sum(axis=1)) / guess.shape[1] + _MIN_MASS * total
    if len(guess) < guess.shape[1]:
        present = _dual_ridge_regression(counts, lengths, centred, ridge)
    else:
        gram = centred.T @ (lengths[:, None] * centred)
        gram[np.diag_indices_from(gram)] += ridge
        present = np.asarray(np.linalg.solve(gram, weighted_sums(counts, centred).T), dtype=np.float64)
    return np.stack((np.maximum(-present, 0.0), np.maximum(present, 0.0)), axis=1)


def _dual_ridge_regression(counts: CountRows, lengths: Array, labels: Array, ridge: float) -> Array:
    """(classes, words): the same regression by a system of as many equations as documents, if classes are more."""
    with_words = np.flatnonzero(lengths > 0)
    scales = np.sqrt(lengths[with_words])[:, None]
    scaled = scales * labels[with_words]
    gram = scaled @ scaled.T
    gram[np.diag_indices_from(gram)] += ridge
    return scaled.T @ np.linalg.solve(gram, counts[with_words].toarray() / scales)


def _distinct_classes(rates: Array, lengths: Array, probs: Array) -> NDArray[np.intp]:
    """Classes with words of their own in a state, in descending order of their tokens."""
    tokens = (lengths @ probs) * rates.sum(axis=1)
    order = np.argsort(-tokens, kind="stable")
    distinct: NDArray[np.intp] = order[tokens[order] > _MIN_MASS * lengths.sum()]
    return distinct


def _random_documents(counts: CountRows, lengths: Array, size: int, rng: np.random.Generator) -> Array:
    """(size, words): word counts of random documents that have words; none is repeated before all are used."""
    with_words = np.flatnonzero(lengths > 0)
    rows = np.zeros((size, counts.shape[1]))
    for start in range(0, size if len(with_words) else 0, max(len(with_words), 1)):
        chosen = rng.permutation(with_words)[: size - start]
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
