"""Explaining away compiled: as in reference.py, with a document's words side by side for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from palda.kernels.arrays import Bags, ClassWordProbs, PassLimits, WordEvidence
from palda.kernels.loops import FAST, label_prob, spaced_zeros
from palda.kernels.special import log

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["explain_away"]


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def explain_away(
    bags: Bags, log_odds: Array, tempers: Array, speech: ClassWordProbs, stopping: PassLimits
) -> WordEvidence:
    """Labels of documents whose classes share the explanation of every word (maths, eqs. 33 and 34)."""
    n_docs, n_classes = log_odds.shape
    evidence = np.zeros((n_docs, n_classes))
    beliefs = np.zeros((n_docs, n_classes))
    n_unsettled = 0
    most_words = 0
    for d in range(n_docs):
        most_words = max(most_words, bags.starts[d + 1] - bags.starts[d])
    present = spaced_zeros((n_classes, most_words))
    absent = spaced_zeros((n_classes, most_words))
    counts = spaced_zeros((most_words,))
    mixed = spaced_zeros((most_words,))
    for d in range(n_docs):
        probs = beliefs[d]
        for i in range(n_classes):
            probs[i] = label_prob(-1, log_odds[d, i])
        n_words = _gather(bags, d, speech, tempers[d], probs, present, absent, counts, mixed)
        passes = 0
        moved = np.inf
        while moved > stopping.tolerance and passes < stopping.max_passes:
            passes += 1
            moved = 0.0
            for i in range(n_classes):
                said = _evidence(present[i], absent[i], counts, mixed, probs[i], n_words)
                prob = label_prob(-1, log_odds[d, i] + said)
                step = prob - probs[i]
                moved = max(moved, abs(step))
                for n in range(n_words):
                    mixed[n] += step * (present[i, n] - absent[i, n])
                probs[i] = prob
        n_unsettled += moved > stopping.tolerance
        for i in range(n_classes):
            evidence[d, i] = _evidence(present[i], absent[i], counts, mixed, probs[i], n_words)
    return WordEvidence(evidence, beliefs, n_unsettled)


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _gather(
    bags: Bags,
    d: int,
    speech: ClassWordProbs,
    temper: float,
    probs: Array,
    present: Array,
    absent: Array,
    counts: Array,
    mixed: Array,
) -> int:
    """Put the document's words side by side; returns how many somebody could have written."""
    n_classes = len(probs)
    found = 0
    for entry in range(bags.starts[d], bags.starts[d + 1]):
        word = bags.words[entry]
        if speech.absent[word, 0] <= 0.0:
            continue
        counts[found] = temper * bags.counts[entry]
        total = 0.0
        for i in range(n_classes):
            present[i, found] = speech.present[word, i]
            absent[i, found] = speech.absent[word, i]
            total += probs[i] * present[i, found] + (1.0 - probs[i]) * absent[i, found]
        mixed[found] = total
        found += 1
    return found


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _evidence(present: Array, absent: Array, counts: Array, mixed: Array, prob: float, n_words: int) -> float:
    """What the words say for a class, given what the other classes explain already."""
    said = 0.0
    for n in range(n_words):
        rest = max(mixed[n] - (prob * present[n] + (1.0 - prob) * absent[n]), 0.0)
        said += counts[n] * log((rest + present[n]) / (rest + absent[n]))
    return said
