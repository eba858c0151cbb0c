"""Compiled value of further votes on documents; the same functions as in reference.py.

Symbols in loops: d document, i class, k annotator, v number of other votes, t how many of them say yes. The labels of a
document are taken as independent, with their posterior probabilities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from palda.kernels.arrays import MIN_DOUBT
from palda.kernels.compilation import helper

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array


@njit(nogil=True, cache=True, error_model="numpy")
def vote_gains(
    label_probs: Array,
    sensitivity: Array,
    specificity: Array,
    present: Array,
    absent: Array,
    n_others: NDArray[np.int64],
    n_ahead: int,
) -> Array:
    """(annotators, documents): fall of the number of wrong labels by a vote on all classes (maths, eq. 92)."""
    n_annotators, n_docs = len(sensitivity), len(label_probs)
    gains = np.zeros((n_annotators, n_docs))
    falls = np.zeros(n_ahead)
    for d in range(n_docs):
        for k in range(n_annotators):
            falls[:] = 0.0
            for i in range(label_probs.shape[1]):
                if MIN_DOUBT < label_probs[d, i] < 1.0 - MIN_DOUBT:
                    _add_falls(
                        label_probs[d, i],
                        sensitivity[k, i],
                        specificity[k, i],
                        present[i],
                        absent[i],
                        n_others[d],
                        falls,
                    )
            gains[k, d] = max(falls.sum() / n_ahead, 0.0)
    return gains


@njit(nogil=True, cache=True, error_model="numpy")
def label_gains(
    label_probs: Array,
    sensitivity: Array,
    specificity: Array,
    present: Array,
    absent: Array,
    n_others: NDArray[np.int64],
    n_ahead: int,
) -> Array:
    """(documents, classes): the same for a vote of one annotator on a single class."""
    gains = np.zeros(label_probs.shape)
    falls = np.zeros(n_ahead)
    for d in range(len(label_probs)):
        for i in range(label_probs.shape[1]):
            if MIN_DOUBT < label_probs[d, i] < 1.0 - MIN_DOUBT:
                falls[:] = 0.0
                _add_falls(label_probs[d, i], sensitivity[i], specificity[i], present[i], absent[i], n_others[d], falls)
                gains[d, i] = max(falls.sum() / n_ahead, 0.0)
    return gains


@njit(nogil=True, cache=True, error_model="numpy")
def wrong_labels(label_probs: Array, present: Array, absent: Array, n_votes: int) -> Array:
    """(documents,): expected number of wrong labels after so many typical votes (maths, eq. 91)."""
    wrong = np.zeros(len(label_probs))
    for d in range(len(label_probs)):
        for i in range(label_probs.shape[1]):
            yes, no = label_probs[d, i], 1.0 - label_probs[d, i]
            for t in range(n_votes + 1):
                wrong[d] += min(yes * present[i, n_votes, t], no * absent[i, n_votes, t])
    return wrong


@helper()
def _add_falls(
    prob: float, sensitivity: float, specificity: float, present: Array, absent: Array, n_others: int, falls: Array
) -> None:
    """Add the fall by one vote on one label, after ``n_others`` typical votes, one more, and so on."""
    yes_present, yes_absent = prob * sensitivity, (1.0 - prob) * (1.0 - specificity)
    no_present, no_absent = prob - yes_present, (1.0 - prob) - yes_absent
    for ahead in range(len(falls)):
        v = n_others + ahead
        fall = 0.0
        for t in range(v + 1):
            if_present, if_absent = present[v, t], absent[v, t]
            fall += min(prob * if_present, (1.0 - prob) * if_absent)
            fall -= min(yes_present * if_present, yes_absent * if_absent)
            fall -= min(no_present * if_present, no_absent * if_absent)
        falls[ahead] += fall
