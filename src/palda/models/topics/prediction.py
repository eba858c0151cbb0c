"""Labels of new documents from their words: evidence per class, and how strongly it counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from palda import kernels
from palda.data import ArraySpec, document_lengths, take_counts
from palda.kernels import Bags, ClassWordProbs, PassLimits, WordEvidence
from palda.models.topics.parameters import base_rate_log_odds
from palda.models.topics.shards import cut_shards

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Array, CountRows
    from palda.models.crowd import VoteEvidence
    from palda.models.topics.em import EMSettings
    from palda.models.topics.parameters import Params
    from palda.models.topics.shards import DocumentShard

    Indices = NDArray[np.int64]

_PASS_LIMITS = PassLimits(max_passes=50, tolerance=1e-4)
_EXPONENTS = (0.0, 0.5, 1.0)
_SCALES = (0.01, 100.0)
_LOG_SCALE_TOLERANCE = 0.1  # a difference of a tenth in the scale does not matter
_MAX_NATS = 500.0
_MIN_SAMPLE, _MAX_SAMPLE, _MAX_PAIRS = 200, 1000, 50_000  # documents, and labels of them, to fit a temperature
_SAMPLE_SHARDS = 8  # that they are cut into, so that all threads have some


class Temperature(NamedTuple):
    """How strongly the words of a document count (maths, eq. 34).

    The words of a document are less independent than the model assumes, and the less so the longer it is: evidence is
    multiplied by ``scale`` · (tokens / ``length``)^-``exponent``.
    """

    scale: float = 0.5
    exponent: float = 0.5
    length: float = 100.0

    def weights(self, lengths: Array) -> Array:
        """Factor of the evidence of documents with these numbers of tokens."""
        weights: Array = self.scale * (np.maximum(lengths, 1.0) / self.length) ** -self.exponent
        return weights


class WordEvidenceModel(NamedTuple):
    """Everything that is needed to compute the word evidence of new documents."""

    word_probs: ClassWordProbs
    temperature: Temperature
    log_odds: Array  # (classes,): prior

    @classmethod
    def mean(cls, models: Sequence[WordEvidenceModel]) -> WordEvidenceModel:
        """Mean of models with the same temperature."""
        present, absent, log_odds = (
            np.mean(parts, axis=0)
            for parts in zip(*((m.word_probs.present, m.word_probs.absent, m.log_odds) for m in models), strict=True)
        )
        return cls(ClassWordProbs(present, absent), models[0].temperature, log_odds)


EVIDENCE_ARRAYS = {
    "present": ArraySpec(("words", "classes"), low=0.0, high=1.0 + 1e-6, sum_axis=0),
    "absent": ArraySpec(("words", "classes"), low=0.0, high=1.0 + 1e-6, sum_axis=0),
    "temper": ArraySpec((3,), low=0.0, high=1e12),
    "log_odds": ArraySpec(("classes",)),
}
"""Schema of a ``WordEvidenceModel`` in a model file."""


def for_prediction(params: Params) -> Params:
    """Parameters for new documents: χ / Σχ in place of q(β) (maths, eq. 25), and no annotators."""
    return replace(params, word_counts=None, word_prior=None, annotators=None)


def class_word_probs(params: Params) -> ClassWordProbs:
    """P_ij(w) = Σ_t m_ijt β_tw: word distribution of each class with θ at its prior mean (maths, eq. 32)."""
    means = params.topic_prior / params.topic_prior.sum(axis=2, keepdims=True)
    topics = params.topic_words.T
    return ClassWordProbs(np.ascontiguousarray(topics @ means[:, 1].T), np.ascontiguousarray(topics @ means[:, 0].T))


def word_evidence_model(params: Params, temperature: Temperature) -> WordEvidenceModel:
    """The evidence model of fixed parameters."""
    return WordEvidenceModel(class_word_probs(params), temperature, base_rate_log_odds(params.class_prior))


def evidence_of_shards(shards: Sequence[DocumentShard], model: WordEvidenceModel, settings: EMSettings) -> WordEvidence:
    """Word evidence of documents for each class, in nats (maths, eqs. 32-35)."""
    parts = list(settings.engine.each(_shard_evidence, shards, model))
    return WordEvidence(
        np.concatenate([part.evidence for part in parts]),
        np.concatenate([part.beliefs for part in parts]),
        sum(part.n_unconverged for part in parts),
    )


def _shard_evidence(shard: DocumentShard, model: WordEvidenceModel) -> WordEvidence:
    return word_evidence_of(shard.bags, model)


def word_evidence_of(bags: Bags, model: WordEvidenceModel) -> WordEvidence:
    """Word evidence of the documents of one shard."""
    starts = bags.starts
    doc = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    lengths = np.bincount(doc, bags.counts, minlength=len(starts) - 1).astype(np.float64)
    log_odds = np.tile(model.log_odds, (len(lengths), 1))
    scales = model.temperature.weights(lengths)
    result: WordEvidence = kernels.active().explain_away(bags, log_odds, scales, model.word_probs, _PASS_LIMITS)
    return result


def word_weights(bags: Bags, beliefs: Array, model: WordEvidenceModel, label: int) -> Array:
    """(entries,): nats that each word adds to the evidence for a class; they sum to the evidence (maths, eq. 35)."""
    doc = np.repeat(np.arange(len(bags.starts) - 1), np.diff(bags.starts))
    probs = model.word_probs
    scales = model.temperature.weights(np.bincount(doc, bags.counts, minlength=len(beliefs)).astype(np.float64))
    mixture = np.einsum("ni,ni->n", beliefs[doc], probs.present[bags.words] - probs.absent[bags.words])
    mixture += probs.absent[bags.words].sum(axis=1)
    present, absent = probs.present[bags.words, label], probs.absent[bags.words, label]
    own = beliefs[doc, label]
    rest = np.maximum(mixture - own * present - (1.0 - own) * absent, 0.0)
    ratio = np.divide(rest + present, rest + absent, out=np.ones_like(rest), where=absent > 0)
    weights: Array = scales[doc] * bags.counts * np.log(ratio)
    return weights


def label_likelihoods(known: NDArray[np.int8], votes: VoteEvidence | None) -> tuple[Array, Array]:
    """Log-likelihood of known label and votes if a class is present, and if it is absent; both (docs, classes)."""
    present = np.zeros(known.shape) if votes is None else votes.present
    absent = np.zeros(known.shape) if votes is None else votes.absent
    return np.where(known == 0, -np.inf, present), np.where(known == 1, -np.inf, absent)


def temperature_sample(rows: Indices, n_classes: int) -> Indices:
    """Evenly spaced rows, as many as are enough to fit the two numbers of a temperature; fewer if classes are many."""
    max_docs = max(_MIN_SAMPLE, min(_MAX_SAMPLE, _MAX_PAIRS // n_classes))
    return rows[:: 1 + len(rows) // max_docs]


def fit_temperature(
    counts: CountRows, rows: Indices, params: Params, present: Array, absent: Array, settings: EMSettings
) -> Temperature:
    """Temperature under which the labels of held-out documents are most likely (maths, eq. 34).

    ``counts`` are all documents, whose median length is the reference length. ``rows`` are documents that ``params``
    were not fitted to; ``present`` and ``absent`` are their ``label_likelihoods``.
    """
    lengths = document_lengths(counts)
    length = float(np.median(lengths[lengths > 0])) if (lengths > 0).any() else 1.0
    unknown = np.full((len(rows), len(params.class_prior)), -1, dtype=np.int8)
    shards = cut_shards(take_counts(counts, rows), unknown, n_shards=_SAMPLE_SHARDS)
    word_probs, prior = class_word_probs(params), base_rate_log_odds(params.class_prior)

    def loss(temperature: Temperature) -> float:
        evidence = evidence_of_shards(shards, WordEvidenceModel(word_probs, temperature, prior), settings).evidence
        log_odds = np.clip(prior + evidence, -_MAX_NATS, _MAX_NATS)
        likelihoods = np.logaddexp(present - np.logaddexp(0.0, -log_odds), absent - np.logaddexp(0.0, log_odds))
        return -float(likelihoods.sum())

    best, lowest = Temperature(length=length), np.inf
    for exponent in _EXPONENTS:
        optimum = minimize_scalar(
            lambda log_scale, exponent=exponent: loss(Temperature(float(np.exp(log_scale)), exponent, length)),
            bounds=tuple(np.log(_SCALES)),
            method="bounded",
            options={"xatol": _LOG_SCALE_TOLERANCE},
        )
        if optimum.fun < lowest:
            best, lowest = Temperature(float(np.exp(optimum.x)), exponent, length), float(optimum.fun)
    return best
