"""Prediction for new documents: as published, or by letting classes explain words away."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from palda import kernels
from palda.kernels import Bags, ClassWordProbs, PassLimits, WordEvidence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from palda.models.topics.parameters import Params

    Array = NDArray[np.float64]

__all__ = [
    "Temperature",
    "WordEvidenceModel",
    "class_word_probs",
    "fit_temperature",
    "for_prediction",
    "word_evidence_of",
    "word_weights",
]

_STOPPING = PassLimits(max_passes=50, tolerance=1e-4)
_EXPONENTS = (0.0, 0.5, 1.0)
_SCALES = (0.01, 100.0)
_SCALE_ACCURACY = 0.1  # of the logarithm: a tenth more or less is no matter
_MOST_NATS = 500.0


class Temperature(NamedTuple):
    """How much the words of a document are believed (maths, eq. 34).

    The words of a document are less independent than the model says, the more so the longer it is: evidence is
    multiplied by ``scale`` · (tokens / ``length``)^-``exponent``.
    """

    scale: float = 0.5
    exponent: float = 0.5
    length: float = 100.0

    def weights(self, lengths: Array) -> Array:
        """Weight of the evidence of documents with so many tokens."""
        weights: Array = self.scale * (np.maximum(lengths, 1.0) / self.length) ** -self.exponent
        return weights


class WordEvidenceModel(NamedTuple):
    """All that it takes to read new documents: what classes say, how much it is believed, and prior log-odds."""

    said: ClassWordProbs
    temper: Temperature
    log_odds: Array  # (classes,)

    @classmethod
    def mean(cls, readers: Sequence[WordEvidenceModel]) -> WordEvidenceModel:
        """Reader with the mean of what several say; their temper is the same."""
        present, absent, log_odds = (
            np.mean(parts, axis=0)
            for parts in zip(*((one.said.present, one.said.absent, one.log_odds) for one in readers), strict=True)
        )
        return cls(ClassWordProbs(present, absent), readers[0].temper, log_odds)


def for_prediction(params: Params) -> Params:
    """Parameters that new documents are judged by: χ / Σχ in place of q(β) (maths, eq. 25), and nobody's votes."""
    return replace(params, word_counts=None, word_prior=None, annotators=None)


def class_word_probs(params: Params) -> ClassWordProbs:
    """P_ij(w) = Σ_t m_ijt β_tw: how probable each class makes each word with θ at its prior mean (maths, eq. 32)."""
    means = params.topic_prior / params.topic_prior.sum(axis=2, keepdims=True)
    topics = params.topic_words.T
    return ClassWordProbs(np.ascontiguousarray(topics @ means[:, 1].T), np.ascontiguousarray(topics @ means[:, 0].T))


def word_evidence_of(bags: Bags, reader: WordEvidenceModel) -> WordEvidence:
    """What the words of each document say for each class."""
    starts = bags.starts
    doc = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    lengths = np.bincount(doc, bags.counts, minlength=len(starts) - 1).astype(np.float64)
    odds = np.tile(reader.log_odds, (len(lengths), 1))
    weights = reader.temper.weights(lengths)
    result: WordEvidence = kernels.active().explain_away(bags, odds, weights, reader.said, _STOPPING)
    return result


def word_weights(bags: Bags, beliefs: Array, reader: WordEvidenceModel, label: int) -> Array:
    """Nats that each entry adds to the evidence for a class; a document's sum to its evidence (maths, eq. 35)."""
    doc = np.repeat(np.arange(len(bags.starts) - 1), np.diff(bags.starts))
    said = reader.said
    tempers = reader.temper.weights(np.bincount(doc, bags.counts, minlength=len(beliefs)).astype(np.float64))
    mixed = np.einsum("ni,ni->n", beliefs[doc], said.present[bags.words] - said.absent[bags.words])
    mixed += said.absent[bags.words].sum(axis=1)
    present, absent = said.present[bags.words, label], said.absent[bags.words, label]
    own = beliefs[doc, label]
    rest = np.maximum(mixed - own * present - (1.0 - own) * absent, 0.0)
    could_be = absent > 0
    ratio = np.divide(rest + present, rest + absent, out=np.ones_like(rest), where=could_be)
    weights: Array = tempers[doc] * bags.counts * np.log(ratio)
    return weights


def fit_temperature(
    evidence_at: Callable[[Temperature], Array], log_odds: Array, present: Array, absent: Array, length: float
) -> Temperature:
    """Temper under which documents that the topics have not seen are most likely to have the labels they have.

    ``evidence_at`` gives the evidence (documents, classes) of a temper, ``log_odds`` (classes,) is the prior, and
    ``present`` and ``absent`` are the log-likelihoods of what is known of each label: votes, or the label itself.
    """

    def loss(temper: Temperature) -> float:
        odds = np.clip(log_odds + evidence_at(temper), -_MOST_NATS, _MOST_NATS)
        likelihoods = np.logaddexp(present - np.logaddexp(0.0, -odds), absent - np.logaddexp(0.0, odds))
        return -float(likelihoods.sum())

    best, least = Temperature(length=length), np.inf
    for exponent in _EXPONENTS:
        found = minimize_scalar(
            lambda log_scale, exponent=exponent: loss(Temperature(float(np.exp(log_scale)), exponent, length)),
            bounds=tuple(np.log(_SCALES)),
            method="bounded",
            options={"xatol": _SCALE_ACCURACY},
        )
        if found.fun < least:
            best, least = Temperature(float(np.exp(found.x)), exponent, length), float(found.fun)
    return best
