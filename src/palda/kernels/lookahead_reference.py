"""The kernels of lookahead.py in plain NumPy; reference.py has them too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palda.kernels.arrays import MIN_DOUBT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array

    Indices = NDArray[np.int64]


def vote_gains(
    label_probs: Array,
    sensitivity: Array,
    specificity: Array,
    present: Array,
    absent: Array,
    n_others: Indices,
    n_ahead: int,
) -> Array:
    """(annotators, documents): fall of the number of wrong labels by a vote on all classes (maths, eq. 92)."""
    falls = [
        _falls(yes, no, label_probs, present, absent, n_others, n_ahead).sum(axis=2)
        for yes, no in zip(sensitivity, specificity, strict=True)
    ]
    return np.array([np.maximum(fall.mean(axis=0), 0.0) for fall in falls]).reshape(len(sensitivity), len(label_probs))


def label_gains(
    label_probs: Array,
    sensitivity: Array,
    specificity: Array,
    present: Array,
    absent: Array,
    n_others: Indices,
    n_ahead: int,
) -> Array:
    """(documents, classes): the same for a vote of one annotator on a single class."""
    falls = _falls(sensitivity, specificity, label_probs, present, absent, n_others, n_ahead)
    gains: Array = np.maximum(falls.mean(axis=0), 0.0)
    return gains


def wrong_labels(label_probs: Array, present: Array, absent: Array, n_votes: int) -> Array:
    """(documents,): expected number of wrong labels after so many typical votes (maths, eq. 91).

    ``present`` and ``absent`` (classes, votes, yes votes) are the probabilities of so many yes votes of typical
    annotators in each state of the label.
    """
    probs = label_probs[:, :, None]
    wrong: Array = np.minimum(probs * present[:, n_votes], (1.0 - probs) * absent[:, n_votes]).sum(axis=(1, 2))
    return wrong


def _falls(
    sensitivity: Array,
    specificity: Array,
    label_probs: Array,
    present: Array,
    absent: Array,
    n_others: Indices,
    n_ahead: int,
) -> Array:
    """(n_ahead, documents, classes): fall by a vote after ``n_others`` typical votes, after one more, and so on."""
    rates = np.stack((np.ones_like(sensitivity), sensitivity, 1.0 - sensitivity))  # no vote, yes, no
    opposite = np.stack((np.ones_like(specificity), 1.0 - specificity, specificity))
    falls = []
    for ahead in range(n_ahead):
        if_present, if_absent = (np.moveaxis(table[:, n_others + ahead], 1, 0) for table in (present, absent))
        wrong = [
            np.minimum(
                (label_probs * one)[:, :, None] * if_present, ((1.0 - label_probs) * other)[:, :, None] * if_absent
            )
            for one, other in zip(rates, opposite, strict=True)
        ]
        falls.append((wrong[0] - wrong[1] - wrong[2]).sum(axis=2))
    doubtful = (label_probs > MIN_DOUBT) & (label_probs < 1.0 - MIN_DOUBT)
    return np.where(doubtful, np.array(falls), 0.0)
