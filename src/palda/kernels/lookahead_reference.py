"""The kernels of lookahead.py and lookahead_profiles.py in plain NumPy; reference.py has them too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palda.kernels.arrays import MAX_EVIDENCE_SWEEPS, MIN_DOUBT, MIN_SHARE

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


def wrong_in_sets(
    label_probs: Array,
    weights: Array,
    rates: Array,
    present: Array,
    absent: Array,
    n_votes: Indices,
    points: Array,
    tolerance: float,
) -> Array:
    """(documents,): expected number of wrong labels after ``n_votes`` typical votes on all classes (maths, eq. 96).

    ``rates`` is (classes, profiles). Votes are drawn once per row of ``points`` (draws, classes), which are numbers
    between 0 and 1; profiles are drawn in proportion to their probabilities. ``tolerance`` is that of label
    probabilities when the evidence behind them is found.
    """
    wrong = np.zeros(len(label_probs))
    for d, v in enumerate(n_votes):
        shares, label_given = _split(label_probs[d], weights, rates, tolerance)
        if_present, if_absent = present[:, v, : v + 1], absent[:, v, : v + 1]
        vote_probs = (
            label_given[:, None] * if_present[:, :, None] + (1.0 - label_given[:, None]) * if_absent[:, :, None]
        )
        drawn = np.searchsorted(np.cumsum(shares)[:-1], (np.arange(len(points)) + 0.5) / len(points))
        for m, point in zip(drawn, points, strict=True):
            counts = (np.cumsum(vote_probs[:, :-1, m], axis=1) < point[:, None]).sum(axis=1)
            own = vote_probs[np.arange(len(counts)), counts]  # (classes, profiles)
            updated = shares * np.prod(own, axis=0) / own
            prob = ((updated * label_given).sum(axis=1) / updated.sum(axis=1))[:, None]
            wrong[d] += np.minimum(prob * if_present, (1.0 - prob) * if_absent).sum() / len(points)
    return wrong


def _split(label_probs: Array, weights: Array, rates: Array, tolerance: float) -> tuple[Array, Array]:
    """Posterior of the profiles, and (classes, profiles) that of each label in each profile, from those of the labels.

    Coordinate ascent in the odds that the evidence gives to each class: each step makes one label's probability right.
    """

    def label_given(i: int, odds: float) -> Array:
        given: Array = odds * rates[i] / (odds * rates[i] + 1.0 - rates[i])
        return given

    def changed(shares: Array, i: int, old: float, new: float) -> Array:
        shares = shares * (new * rates[i] + 1.0 - rates[i]) / (old * rates[i] + 1.0 - rates[i])
        shares = np.maximum(shares, MIN_SHARE)
        updated: Array = shares / shares.sum()
        return updated

    probs, base = np.clip(label_probs, MIN_DOUBT, 1.0 - MIN_DOUBT), rates @ weights
    odds, shares = probs / (1.0 - probs) * (1.0 - base) / base, weights
    for i, new in enumerate(odds):
        shares = changed(shares, i, 1.0, new)
    for _ in range(MAX_EVIDENCE_SWEEPS):
        largest = 0.0
        for i, prob in enumerate(probs):
            found = shares @ label_given(i, odds[i])
            largest = max(largest, abs(found - prob))
            new = odds[i] * prob / (1.0 - prob) * (1.0 - found) / found
            shares, odds[i] = changed(shares, i, odds[i], new), new
        if largest < tolerance:
            break
    return shares, np.array([label_given(i, odd) for i, odd in enumerate(odds)])
