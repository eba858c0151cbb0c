"""Topics, and the words that the presence and the absence of each class bring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda.report.values import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from palda.data import Array, Strings
    from palda.estimators import PALDA, CrowdPALDA
    from palda.report.inputs import ReportInputs

_N_WORDS = 14
_N_TOPICS = 6
_MAX_WORD_LENGTH = 30
_MIN_TOPIC_SHARE = 0.005
_MIN_PROBABILITY = 1e-12
_TINY = np.finfo(np.float64).tiny


class WordNumbers:
    """Numbers for the words that the page shows, so that it contains each word once."""

    def __init__(self, words: Strings) -> None:
        self._words = words
        self._numbers: dict[int, int] = {}

    def number(self, column: int) -> int:
        """The number of a word; a new one if the word has none yet."""
        return self._numbers.setdefault(column, len(self._numbers))

    def names(self) -> list[str]:
        """The words in the order of their numbers."""
        return [shortened(self._words[column], _MAX_WORD_LENGTH) for column in self._numbers]


def display_words(model: PALDA | CrowdPALDA) -> NDArray[Any]:
    """(words,): a name per column of X; the most frequent spelling if stems were counted."""
    spellings: NDArray[Any] = getattr(model.words_, "spellings_", model.vocabulary_)
    return spellings


def state_mixtures(model: PALDA | CrowdPALDA) -> Array:
    """(classes, 2, topics): expected topic shares given that a class is absent (0) or present (1).

    If all classes share one absence prior, the shares given absence are those of a document without the class.
    """
    mixtures = _prior_means(model)
    if model.absence == "shared" and len(mixtures) > 1:
        mixtures[:, 0] = _mixtures_without(model, mixtures)
    return mixtures


def _prior_means(model: PALDA | CrowdPALDA) -> Array:
    """(classes, 2, topics): E[θ] of each class in each state."""
    prior: Array = model.topic_prior_
    means: Array = prior / prior.sum(axis=2, keepdims=True)
    return means


def _mixtures_without(model: PALDA | CrowdPALDA, means: Array) -> Array:
    """(classes, topics): expected topic shares of a document given that a class is absent."""
    if model.profiles_ is None:
        weights, rates = np.ones(1), model.class_prior_[None]
    else:
        weights, rates = model.profiles_.weights, model.profiles_.rates
    absent = weights[:, None] * (1.0 - rates)  # (profiles, classes)
    others = absent.T @ rates / np.maximum(absent.sum(axis=0), _TINY)[:, None]  # P(column present | row absent)
    np.fill_diagonal(others, 0.0)
    mixtures: Array = means[0, 0] + others @ (means[:, 1] - means[0, 0]) / len(means)
    return mixtures


def topic_shares(model: PALDA | CrowdPALDA) -> Array:
    """(topics,): expected share of each topic in the corpus."""
    mixtures = _prior_means(model)
    rates = model.class_prior_[:, None]
    shares: Array = (rates * mixtures[:, 1] + (1.0 - rates) * mixtures[:, 0]).mean(axis=0)
    return shares


def largest(values: Array, number: int) -> NDArray[np.int64]:
    """Positions of the largest values, in descending order."""
    return np.argsort(-values, kind="stable")[:number]


def characteristic_words(model: PALDA | CrowdPALDA, n_words: int) -> list[NDArray[np.int64]]:
    """Per topic, the columns of words that are frequent in it and rare in others, the most characteristic first."""
    words = model.topic_words_
    average = topic_shares(model) @ words
    seen = np.maximum(words, _TINY)  # without smoothing a word may have probability 0
    return [largest(row, n_words) for row in words * np.log(seen / np.maximum(average, _TINY))]


def topics(inputs: ReportInputs) -> list[dict[str, Any]]:
    """Topics with their most characteristic words, and the probabilities of these in the topic."""
    weights, columns = inputs.model.topic_words_, characteristic_words(inputs.model, _N_WORDS)
    return [
        {
            "words": [
                (shortened(inputs.words[word], _MAX_WORD_LENGTH), round(float(probs[word]), 4))
                for word in chosen
                if probs[word] > 0
            ]
        }
        for probs, chosen in zip(weights, columns, strict=True)
    ]


def class_topics(inputs: ReportInputs, rows: Iterable[dict[str, Any]], numbers: WordNumbers) -> list[dict[str, Any]]:
    """Words and topics given presence and absence of each class in ``rows``.

    Words are (number in ``WordNumbers``, evidence in nats, probability); topics are (number, share).
    The evidence of a word is log P(word | one state) / P(word | other state), in nats. Words are selected by evidence
    times probability, so that a selected word is both characteristic and frequent.
    """
    word_probs, mixtures = inputs.model.topic_words_, state_mixtures(inputs.model)
    tables = []
    for mixture in (mixtures[row["number"]] for row in rows):
        absent, present = (np.maximum(mixture[state] @ word_probs, _MIN_PROBABILITY) for state in (0, 1))
        evidence = np.log(present / absent)
        tables.append(
            {
                "present": _strongest(evidence, present, numbers),
                "absent": _strongest(-evidence, absent, numbers),
                "present_topics": _largest_topics(mixture[1]),
                "absent_topics": _largest_topics(mixture[0]),
            }
        )
    return tables


def _strongest(evidence: Array, probs: Array, numbers: WordNumbers) -> list[tuple[int, float, float]]:
    order = np.argsort(-evidence * probs, kind="stable")[:_N_WORDS]
    chosen = sorted((int(word) for word in order if evidence[word] > 0), key=lambda word: -evidence[word])
    return [(numbers.number(word), round(float(evidence[word]), 3), float(f"{probs[word]:.3g}")) for word in chosen]


def _largest_topics(mixture: Array) -> list[tuple[int, float]]:
    """The largest topics; those below ``_MIN_TOPIC_SHARE`` are left out, except the largest."""
    order = largest(mixture, _N_TOPICS)
    chosen = [topic for topic in order if mixture[topic] >= _MIN_TOPIC_SHARE] or order[:1]
    return [(int(topic), round(float(mixture[topic]), 4)) for topic in chosen]
