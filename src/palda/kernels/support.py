"""Compiled posterior of the support of labels on a grid; the same functions as in support_reference.py.

Symbols in loops: d document, c class, j point of the grid. The likelihood of the votes on a label is kept for each
point of the grid, as a product of probabilities. Sums are added in the order of the arrays, without fast mathematics,
so that the result does not depend on where memory happens to be free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from palda.kernels.arrays import LOWEST_ANSWER, GridEvidence, GridPrior, VoteArrays, VoteProbs
from palda.kernels.compilation import helper
from palda.kernels.loops import FAST, spaced_zeros
from palda.kernels.special import exp, exponent, log, mantissa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array

_LN2 = 0.6931471805599453
_VOTES_PER_SCALE = 16  # probabilities are at least 1e-9, so their product stays a normal number
_SMALLEST = 1e-300  # likelihood of a label, of which the exponent is read from the bits


@njit(nogil=True, cache=True, error_model="numpy")
def support_evidence(votes: VoteArrays, probs: VoteProbs, prior: GridPrior, given: GridEvidence) -> tuple[Array, Array]:
    """Log-odds (documents, classes) of "present" from the votes, and their log-likelihoods if the class is absent.

    The support given the state of a label is summed out.
    """
    n_docs, (n_classes, n_points) = len(votes.starts) - 1, prior.present.shape
    log_odds, if_absent = np.zeros((n_docs, n_classes)), np.zeros((n_docs, n_classes))
    likelihoods, scales = spaced_zeros(prior.present.size), np.empty(n_classes)
    counts = np.empty(n_classes, dtype=np.int64)
    of_present, of_absent = prior.present.reshape(prior.present.size), prior.absent.reshape(prior.absent.size)
    for d in range(n_docs):
        _fill_likelihoods(votes, probs, prior, given, d, likelihoods, scales, counts)
        for c in range(n_classes):
            if counts[c] > 0:
                present, absent = _sums(of_present, of_absent, likelihoods, c * n_points, n_points)
                log_odds[d, c] = log(present) - log(absent)
                if_absent[d, c] = log(absent) + scales[c]
    return log_odds, if_absent


@njit(nogil=True, cache=True, error_model="numpy")
def support_likelihoods(votes: VoteArrays, probs: VoteProbs, prior: GridPrior, given: GridEvidence) -> Array:
    """Likelihoods (documents, classes, points) of the answers about each label, the largest of a label 1."""
    n_docs, (n_classes, n_points) = len(votes.starts) - 1, prior.present.shape
    result = np.ones((n_docs, n_classes, n_points))
    likelihoods, scales = spaced_zeros(prior.present.size), np.empty(n_classes)
    counts = np.empty(n_classes, dtype=np.int64)
    for d in range(n_docs):
        _fill_likelihoods(votes, probs, prior, given, d, likelihoods, scales, counts)
        for c in range(n_classes):
            if counts[c] > 0:
                largest = np.max(likelihoods[c * n_points : (c + 1) * n_points])
                for j in range(n_points):
                    result[d, c, j] = likelihoods[c * n_points + j] / largest
    return result


@njit(nogil=True, cache=True, error_model="numpy")
def support_counts(
    votes: VoteArrays, probs: VoteProbs, prior: GridPrior, given: GridEvidence, label_probs: Array
) -> tuple[Array, Array]:
    """Expected votes (cells, 2, points) by value and support, and labels (classes, points) by support.

    Labels without votes are left out. ``label_probs`` (documents, classes) are given.
    """
    n_docs, (n_classes, n_points) = len(votes.starts) - 1, prior.present.shape
    table, sums = spaced_zeros(probs.table.size), spaced_zeros(prior.present.size)
    likelihoods, scales = spaced_zeros(prior.present.size), np.empty(n_classes)
    counts = np.empty(n_classes, dtype=np.int64)
    of_present, of_absent = prior.present.reshape(prior.present.size), prior.absent.reshape(prior.absent.size)
    for d in range(n_docs):
        _fill_likelihoods(votes, probs, prior, given, d, likelihoods, scales, counts)
        for c in range(n_classes):
            if counts[c] > 0:
                present, absent = _sums(of_present, of_absent, likelihoods, c * n_points, n_points)
                present, absent = label_probs[d, c] / present, (1.0 - label_probs[d, c]) / absent
                _join_states(of_present, of_absent, c * n_points, n_points, present, absent, likelihoods, sums)
        _add_votes(votes, probs, d, n_classes, n_points, likelihoods, table)
    return table.reshape(probs.table.shape), sums.reshape(prior.present.shape)


@njit(nogil=True, cache=True, error_model="numpy")
def support_step(
    votes: VoteArrays,
    probs: VoteProbs,
    prior: GridPrior,
    given: GridEvidence,
    extra: Array,
    known: NDArray[np.int8],
    rates: Array,
) -> tuple[Array, float, Array, Array]:
    """Labels (documents, classes) of independent classes, the log-likelihood, and expected votes and labels.

    The same as ``support_evidence``, the posterior of labels with base rates ``rates`` (classes,), and
    ``support_counts``; the likelihoods are computed once. ``extra`` (documents, classes) is other evidence in nats,
    empty if there is none.
    """
    n_docs, (n_classes, n_points) = len(votes.starts) - 1, prior.present.shape
    label_probs = np.empty((n_docs, n_classes))
    table, sums = spaced_zeros(probs.table.size), spaced_zeros(prior.present.size)
    likelihoods, scales = spaced_zeros(prior.present.size), np.empty(n_classes)
    counts = np.empty(n_classes, dtype=np.int64)
    of_present, of_absent = prior.present.reshape(prior.present.size), prior.absent.reshape(prior.absent.size)
    # The likelihoods of all labels are multiplied as mantissa and exponent, so that one logarithm is enough.
    product, exponents, log_likelihood = 1.0, 0.0, 0.0
    for d in range(n_docs):
        _fill_likelihoods(votes, probs, prior, given, d, likelihoods, scales, counts)
        for c in range(n_classes):
            present = absent = 1.0
            if counts[c] > 0:
                present, absent = _sums(of_present, of_absent, likelihoods, c * n_points, n_points)
                log_likelihood += scales[c]
            nats = extra[d, c] if len(extra) > 0 else 0.0
            if known[d, c] >= 0:
                share = float(known[d, c])
                total = rates[c] * present if known[d, c] == 1 else (1.0 - rates[c]) * absent
                log_likelihood += share * nats
            else:  # evidence in nats becomes a factor of the other state, at most 1
                weaker = exp(-abs(nats)) if nats != 0.0 else 1.0
                joint = rates[c] * present * (weaker if nats < 0.0 else 1.0)
                total = joint + (1.0 - rates[c]) * absent * (weaker if nats > 0.0 else 1.0)
                share = joint / total
                log_likelihood += max(nats, 0.0)
            label_probs[d, c] = share
            product *= max(total, _SMALLEST)
            exponents += exponent(product)
            product = mantissa(product)
            if counts[c] > 0:
                _join_states(
                    of_present, of_absent, c * n_points, n_points, share / present, (1.0 - share) / absent,
                    likelihoods, sums,
                )  # fmt: skip
        _add_votes(votes, probs, d, n_classes, n_points, likelihoods, table)
    log_likelihood += np.log(product) + exponents * _LN2
    return label_probs, log_likelihood, table.reshape(probs.table.shape), sums.reshape(prior.present.shape)


@helper(fastmath=FAST, forceinline=True)
def _sums(of_present: Array, of_absent: Array, likelihoods: Array, first: int, n_points: int) -> tuple[float, float]:
    """Likelihoods of a label in both states, the support summed out."""
    present = absent = 0.0
    for j in range(n_points):
        at = np.uint32(first) + np.uint32(j)
        present += of_present[at] * likelihoods[at]
        absent += of_absent[at] * likelihoods[at]
    return present, absent


@helper(forceinline=True)
def _join_states(
    of_present: Array,
    of_absent: Array,
    first: int,
    n_points: int,
    present: float,
    absent: float,
    likelihoods: Array,
    sums: Array,
) -> None:
    """Turn likelihoods of a label into the distribution of its support, and add it to ``sums``."""
    for j in range(n_points):
        at = np.uint32(first) + np.uint32(j)
        joint = likelihoods[at] * (of_present[at] * present + of_absent[at] * absent)
        likelihoods[at] = joint
        sums[at] += joint


@helper(forceinline=True)
def _add_votes(
    votes: VoteArrays, probs: VoteProbs, d: int, n_classes: int, n_points: int, distributions: Array, table: Array
) -> None:
    """Add the distribution of the support of its label to the cell and value of each vote of a document."""
    for vote in range(votes.starts[d], votes.starts[d + 1]):
        first, row = np.uint32(votes.classes[vote]) * np.uint32(n_points), _place(votes, probs, n_classes, vote)
        for j in range(n_points):
            table[row + np.uint32(j)] += distributions[first + np.uint32(j)]


@helper(forceinline=True)
def _place(votes: VoteArrays, probs: VoteProbs, n_classes: int, vote: int) -> np.uint32:
    """Position of the probabilities of a vote in a flat table (cells, 2, points)."""
    at = np.uint32(votes.annotators[vote]) * np.uint32(n_classes) + np.uint32(votes.classes[vote])
    row = np.uint32(2) * np.uint32(probs.cell_of[at]) + np.uint32(votes.values[vote])
    return row * np.uint32(probs.table.shape[2])


@helper(forceinline=True)
def _fill_likelihoods(
    votes: VoteArrays,
    probs: VoteProbs,
    prior: GridPrior,
    given: GridEvidence,
    d: int,
    likelihoods: Array,
    scales: Array,
    counts: NDArray[np.int64],
) -> None:
    """Fill flat likelihoods (classes, points) of a document, with their log scales and numbers of answers.

    Where something else is known of the support, that distribution stands in place of the one of the class, of which
    the sums over the grid hold the weights: so it is divided by them here. What is there for a label without answers
    stays.
    """
    n_classes, n_points = prior.present.shape
    table = probs.table.reshape(probs.table.size)
    for c in range(n_classes):
        counts[c], scales[c] = 0, 0.0
    if len(given.precision) > 0 or len(given.answers) > 0:
        _join_given(prior, given, d, likelihoods, scales, counts)
    for vote in range(votes.starts[d], votes.starts[d + 1]):
        c = votes.classes[vote]
        first, row = np.uint32(c) * np.uint32(n_points), _place(votes, probs, n_classes, vote)
        counts[c] += 1
        if counts[c] == 1:
            for j in range(n_points):
                likelihoods[first + np.uint32(j)] = table[row + np.uint32(j)]
        else:
            for j in range(n_points):
                likelihoods[first + np.uint32(j)] *= table[row + np.uint32(j)]
        if counts[c] % _VOTES_PER_SCALE == 0:
            scales[c] += _rescale(likelihoods, c * n_points, n_points)


@helper()
def _join_given(
    prior: GridPrior,
    given: GridEvidence,
    d: int,
    likelihoods: Array,
    scales: Array,
    counts: NDArray[np.int64],
) -> None:
    """Fill the likelihoods of what is known besides votes."""
    n_points = len(prior.points)
    for c in range(len(counts)):
        if len(given.precision) > 0 and given.precision[d, c] > 0.0:
            counts[c] = 1
            _start_from_panel(prior, given.mean[d, c], given.precision[d, c], given.doubt, likelihoods, c)
        if len(given.answers) > 0 and given.answers[d, c] != 0.0:
            if counts[c] == 0:
                likelihoods[c * n_points : (c + 1) * n_points] = 1.0
            counts[c] += 1
            scales[c] += _join_answer(prior.points, given.answers[d, c], given.sharpness[c], likelihoods, c)


@helper()
def _rescale(likelihoods: Array, first: int, n_points: int) -> float:
    """Divide the likelihoods of a label by the largest, of which the logarithm is returned."""
    largest = np.max(likelihoods[first : first + n_points])
    for j in range(first, first + n_points):
        likelihoods[j] /= largest
    return float(log(largest))


@helper()
def _start_from_panel(
    prior: GridPrior, mean: float, precision: float, doubt: float, likelihoods: Array, c: int
) -> None:
    """Fill likelihoods of a label with the ratio of a normal distribution and that of the class."""
    n_points, nearest, total = len(prior.points), np.inf, 0.0
    for j in range(n_points):
        nearest = min(nearest, (prior.points[j] - mean) ** 2)
    for j in range(n_points):  # relative to the nearest point: a mean may be far from all of them
        density = np.exp(-0.5 * precision * ((prior.points[j] - mean) ** 2 - nearest))
        likelihoods[c * n_points + j] = density
        total += density
    for j in range(n_points):
        ratio = likelihoods[c * n_points + j] / prior.weights[c, j]
        likelihoods[c * n_points + j] = (1.0 - doubt) / total * ratio + doubt


@helper(forceinline=True)
def _join_answer(points: Array, answer: float, sharpness: float, likelihoods: Array, c: int) -> float:
    """Join the answer of a classifier; returns its largest log-likelihood, which is taken out.

    So no product overflows. The points are equally spaced: the largest is at that nearest to answer / sharpness.
    """
    n_points = len(points)
    low, high = points[0], points[n_points - 1]
    best = high if answer > 0.0 else low
    if sharpness > 0.0:
        best = min(max(answer / sharpness, low), high)
    best = points[int((best - low) / (high - low) * (n_points - 1) + 0.5)]
    largest = (answer - 0.5 * sharpness * best) * best
    for j in range(n_points):
        tilt = (answer - 0.5 * sharpness * points[j]) * points[j] - largest
        likelihoods[np.uint32(c) * np.uint32(n_points) + np.uint32(j)] *= exp(max(tilt, LOWEST_ANSWER))
    return float(largest)
