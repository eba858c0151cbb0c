"""Compiled word evidence: as in reference.py, with the words of a document contiguous per class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from palda.kernels.arrays import Bags, ClassWordProbs, PassLimits, WordEvidence
from palda.kernels.compilation import helper
from palda.kernels.loops import FAST, label_prob, spaced_table, spaced_zeros
from palda.kernels.special import log

if TYPE_CHECKING:
    from palda.data import Array


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def explain_away(
    bags: Bags, log_odds: Array, scales: Array, word_probs: ClassWordProbs, limits: PassLimits
) -> WordEvidence:
    """Word evidence for labels, where all classes together explain each word (maths, eqs. 33 and 34)."""
    n_docs, n_classes = log_odds.shape
    evidence = np.zeros((n_docs, n_classes))
    beliefs = np.zeros((n_docs, n_classes))
    n_unconverged = 0
    max_words = 0
    for d in range(n_docs):
        max_words = max(max_words, bags.starts[d + 1] - bags.starts[d])
    present = spaced_table(n_classes, max_words)
    absent = spaced_table(n_classes, max_words)
    counts = spaced_zeros(max_words)
    mixture = spaced_zeros(max_words)
    for d in range(n_docs):
        probs = beliefs[d]
        for i in range(n_classes):
            probs[i] = label_prob(-1, log_odds[d, i])
        n_words = _gather(bags, d, word_probs, scales[d], probs, present, absent, counts, mixture)
        passes = 0
        change = np.inf
        while change > limits.tolerance and passes < limits.max_passes:
            passes += 1
            change = 0.0
            for i in range(n_classes):
                word_evidence = _evidence(present[i], absent[i], counts, mixture, probs[i], n_words)
                prob = label_prob(-1, log_odds[d, i] + word_evidence)
                step = prob - probs[i]
                change = max(change, abs(step))
                for n in range(n_words):
                    mixture[n] += step * (present[i, n] - absent[i, n])
                probs[i] = prob
        n_unconverged += change > limits.tolerance
        for i in range(n_classes):
            evidence[d, i] = _evidence(present[i], absent[i], counts, mixture, probs[i], n_words)
    return WordEvidence(evidence, beliefs, n_unconverged)


@helper(fastmath=FAST, forceinline=True)
def _gather(
    bags: Bags,
    d: int,
    word_probs: ClassWordProbs,
    scale: float,
    probs: Array,
    present: Array,
    absent: Array,
    counts: Array,
    mixture: Array,
) -> int:
    """Copy the document's words into the scratch arrays; returns how many belong to some topic."""
    n_classes = len(probs)
    n_words = 0
    for entry in range(bags.starts[d], bags.starts[d + 1]):
        word = bags.words[entry]
        if word_probs.absent[word, 0] <= 0.0:
            continue
        counts[n_words] = scale * bags.counts[entry]
        total = 0.0
        for i in range(n_classes):
            present[i, n_words] = word_probs.present[word, i]
            absent[i, n_words] = word_probs.absent[word, i]
            total += probs[i] * present[i, n_words] + (1.0 - probs[i]) * absent[i, n_words]
        mixture[n_words] = total
        n_words += 1
    return n_words


@helper(fastmath=FAST, forceinline=True)
def _evidence(present: Array, absent: Array, counts: Array, mixture: Array, prob: float, n_words: int) -> float:
    """Evidence of the words for a class, given the probabilities of the other classes."""
    total = 0.0
    for n in range(n_words):
        rest = max(mixture[n] - (prob * present[n] + (1.0 - prob) * absent[n]), 0.0)
        total += counts[n] * log((rest + present[n]) / (rest + absent[n]))
    return total
