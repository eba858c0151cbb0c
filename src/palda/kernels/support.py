"""Compiled posterior of the support of labels on a grid; the same functions as in support_reference.py.

Symbols in loops: d document, c class, j point of the grid. The likelihood of the votes on a label is kept for each
point of the grid, as a product of probabilities: in two vectors of eight points and one number (lanes.py), so that
nothing but the tables of votes is read and written per vote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from palda.kernels import lanes
from palda.kernels.arrays import LOWEST_ANSWER, GridEvidence, GridPrior, LabelVotes, VoteArrays
from palda.kernels.compilation import helper
from palda.kernels.special import exp, exponent, log, mantissa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array

    Lanes = Any

_LN2 = 0.6931471805599453
_MIDDLE = lanes.WIDTH  # point 0 of the grid
_MAX_ANSWER, _MAX_SHARPNESS = 20.0, 2.0  # likelihoods of such answers differ by less than LOWEST_ANSWER
_N_POINTS = 2 * lanes.WIDTH + 1  # of the grid
_VOTES_PER_SCALE = 16  # probabilities are at least 1e-9, so their product stays a normal number
_SMALLEST = 1e-300  # likelihood of a label, of which the exponent is read from the bits


@njit(nogil=True, cache=True, error_model="numpy")
def votes_by_label(votes: VoteArrays, cell_of: NDArray[np.int32], n_classes: int) -> LabelVotes:
    """The votes in the order of labels, (document, class); ``cell_of`` is (annotators · classes,)."""
    n_docs = len(votes.starts) - 1
    starts = np.zeros(n_docs * n_classes + 1, dtype=np.int64)
    rows = np.empty(len(votes.classes), dtype=np.int32)
    for d in range(n_docs):
        for vote in range(votes.starts[d], votes.starts[d + 1]):
            starts[d * n_classes + votes.classes[vote] + 1] += 1
    for label in range(n_docs * n_classes):
        starts[label + 1] += starts[label]
    following = np.empty(n_classes, dtype=np.int64)
    for d in range(n_docs):
        for c in range(n_classes):
            following[c] = starts[d * n_classes + c]
        for vote in range(votes.starts[d], votes.starts[d + 1]):
            c = votes.classes[vote]
            rows[following[c]] = 2 * cell_of[votes.annotators[vote] * n_classes + c] + votes.values[vote]
            following[c] += 1
    return LabelVotes(starts, rows)


@njit(nogil=True, cache=True, error_model="numpy")
def support_evidence(votes: LabelVotes, probs: Array, prior: GridPrior, given: GridEvidence) -> tuple[Array, Array]:
    """Log-odds (documents, classes) of "present" from the votes, and their log-likelihoods if the class is absent.

    The support given the state of a label is summed out. ``probs`` is (cells, 2, points).
    """
    n_classes = len(prior.present)
    n_docs = (len(votes.starts) - 1) // n_classes
    log_odds, if_absent = np.zeros((n_docs, n_classes)), np.zeros((n_docs, n_classes))
    starts, rows, of_present, of_absent = votes.starts, votes.rows, prior.present, prior.absent
    table, first = probs.reshape(-1, _N_POINTS), np.ones((n_classes, _N_POINTS))
    more = len(given.precision) > 0 or len(given.answers) > 0
    narrow = _sharpness_factors(given.sharpness, prior.points)
    scales, told = np.zeros(n_classes), np.zeros(n_classes, dtype=np.bool_)
    for d in range(n_docs):
        if more:
            _fill_given(prior, given, narrow, d, first, scales, told)
        for c in range(n_classes):
            label = d * n_classes + c
            begin, end, scale = starts[label], starts[label + 1], scales[c]
            answered = end > begin or told[c]
            if answered:
                one, two, last, scale = _with_votes(rows, begin, end, table, first, c, scale)
                absent = _total(one, two, last, of_absent, c)
                log_odds[d, c] = log(_total(one, two, last, of_present, c)) - log(absent)
                if_absent[d, c] = log(absent) + scale
    return log_odds, if_absent


@njit(nogil=True, cache=True, error_model="numpy")
def support_likelihoods(votes: LabelVotes, probs: Array, prior: GridPrior, given: GridEvidence) -> Array:
    """Likelihoods (documents, classes, points) of the answers about each label, the largest of a label 1."""
    n_classes = len(prior.present)
    n_docs = (len(votes.starts) - 1) // n_classes
    result = np.ones((n_docs * n_classes, _N_POINTS))
    starts, rows = votes.starts, votes.rows
    table, first = probs.reshape(-1, _N_POINTS), np.ones((n_classes, _N_POINTS))
    more = len(given.precision) > 0 or len(given.answers) > 0
    narrow = _sharpness_factors(given.sharpness, prior.points)
    scales, told = np.zeros(n_classes), np.zeros(n_classes, dtype=np.bool_)
    for d in range(n_docs):
        if more:
            _fill_given(prior, given, narrow, d, first, scales, told)
        for c in range(n_classes):
            label = d * n_classes + c
            begin, end, scale = starts[label], starts[label + 1], scales[c]
            answered = end > begin or told[c]
            if answered:
                one, two, last, scale = _with_votes(rows, begin, end, table, first, c, scale)
                lanes.store(result, label, 0, one)
                lanes.store(result, label, lanes.WIDTH, two)
                result[label, _N_POINTS - 1] = last
    for label in range(len(result)):
        largest = 0.0
        for j in range(_N_POINTS):
            largest = max(largest, result[label, j])
        for j in range(_N_POINTS):
            result[label, j] /= largest
    return result.reshape((n_docs, n_classes, _N_POINTS))


@njit(nogil=True, cache=True, error_model="numpy")
def support_counts(
    votes: LabelVotes, probs: Array, prior: GridPrior, given: GridEvidence, label_probs: Array
) -> tuple[Array, Array]:
    """Expected votes (cells, 2, points) by value and support, and labels (classes, points) by support.

    Labels without votes are left out. ``label_probs`` (documents, classes) are given.
    """
    n_docs, n_classes = label_probs.shape
    counts, sums = np.zeros((2 * len(probs), _N_POINTS)), np.zeros(prior.present.shape)
    starts, rows, of_present, of_absent = votes.starts, votes.rows, prior.present, prior.absent
    table, first = probs.reshape(-1, _N_POINTS), np.ones((n_classes, _N_POINTS))
    more = len(given.precision) > 0 or len(given.answers) > 0
    narrow = _sharpness_factors(given.sharpness, prior.points)
    scales, told = np.zeros(n_classes), np.zeros(n_classes, dtype=np.bool_)
    for d in range(n_docs):
        if more:
            _fill_given(prior, given, narrow, d, first, scales, told)
        for c in range(n_classes):
            label = d * n_classes + c
            begin, end, scale = starts[label], starts[label + 1], scales[c]
            answered = end > begin or told[c]
            if answered:
                one, two, last, scale = _with_votes(rows, begin, end, table, first, c, scale)
                present = label_probs[d, c] / _total(one, two, last, of_present, c)
                absent = (1.0 - label_probs[d, c]) / _total(one, two, last, of_absent, c)
                one, two, last = _mixed(one, two, last, of_present, of_absent, c, present, absent)
                _add(sums, c, one, two, last)
                for vote in range(begin, end):
                    _add(counts, np.uint32(rows[vote]), one, two, last)
    return counts.reshape(probs.shape), sums


@njit(nogil=True, cache=True, error_model="numpy")
def support_step(
    votes: LabelVotes,
    probs: Array,
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
    n_docs, n_classes = known.shape
    label_probs = np.empty((n_docs, n_classes))
    counts, sums = np.zeros((2 * len(probs), _N_POINTS)), np.zeros(prior.present.shape)
    starts, rows, of_present, of_absent = votes.starts, votes.rows, prior.present, prior.absent
    table, first = probs.reshape(-1, _N_POINTS), np.ones((n_classes, _N_POINTS))
    more = len(given.precision) > 0 or len(given.answers) > 0
    narrow = _sharpness_factors(given.sharpness, prior.points)
    scales, told = np.zeros(n_classes), np.zeros(n_classes, dtype=np.bool_)
    # The likelihoods of all labels are multiplied as mantissa and exponent, so that one logarithm is enough.
    product, exponents, log_likelihood = 1.0, 0.0, 0.0
    for d in range(n_docs):
        if more:
            _fill_given(prior, given, narrow, d, first, scales, told)
        for c in range(n_classes):
            label, present, absent = d * n_classes + c, 1.0, 1.0
            one = two = lanes.splat(1.0)
            last = 1.0
            begin, end, scale = starts[label], starts[label + 1], scales[c]
            answered = end > begin or told[c]
            if answered:
                one, two, last, scale = _with_votes(rows, begin, end, table, first, c, scale)
                present = _total(one, two, last, of_present, c)
                absent = _total(one, two, last, of_absent, c)
                log_likelihood += scale
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
            if answered:
                present, absent = share / present, (1.0 - share) / absent
                one, two, last = _mixed(one, two, last, of_present, of_absent, c, present, absent)
                _add(sums, c, one, two, last)
                for vote in range(begin, end):
                    _add(counts, np.uint32(rows[vote]), one, two, last)
    log_likelihood += np.log(product) + exponents * _LN2
    return label_probs, log_likelihood, counts.reshape(probs.shape), sums


@helper(forceinline=True)
def _with_votes(
    rows: NDArray[np.int32], begin: int, end: int, table: Array, first: Array, c: int, scale: float
) -> tuple[Lanes, Lanes, float, float]:
    """Likelihoods of the answers about a label, and their log scale."""
    one, two, last = lanes.load(first, c, 0), lanes.load(first, c, lanes.WIDTH), first[c, _N_POINTS - 1]
    n_votes = 0
    for vote in range(begin, end):
        row = np.uint32(rows[vote])
        one = lanes.multiply(one, lanes.load(table, row, 0))
        two = lanes.multiply(two, lanes.load(table, row, lanes.WIDTH))
        last *= table[row, _N_POINTS - 1]
        n_votes += 1
        if n_votes == _VOTES_PER_SCALE:
            n_votes = 0
            largest = lanes.total(lanes.add(one, two)) + last  # or up to 17 times as much
            inverse = lanes.splat(1.0 / largest)
            one, two, last = lanes.multiply(one, inverse), lanes.multiply(two, inverse), last / largest
            scale += log(largest)
    return one, two, last, scale


@helper(forceinline=True)
def _total(one: Lanes, two: Lanes, last: float, weights: Array, c: int) -> float:
    """Likelihood of a label, the support summed out."""
    sums = lanes.multiply(one, lanes.load(weights, c, 0))
    sums = lanes.multiply_add(two, lanes.load(weights, c, lanes.WIDTH), sums)
    total: float = lanes.total(sums) + last * weights[c, _N_POINTS - 1]
    return total


@helper(forceinline=True)
def _mixed(
    one: Lanes, two: Lanes, last: float, of_present: Array, of_absent: Array, c: int, present: float, absent: float
) -> tuple[Lanes, Lanes, float]:
    """Distribution of the support of a label, from its likelihoods."""
    both, other = lanes.splat(present), lanes.splat(absent)
    mixed = lanes.multiply(both, lanes.load(of_present, c, 0))
    one = lanes.multiply(one, lanes.multiply_add(other, lanes.load(of_absent, c, 0), mixed))
    mixed = lanes.multiply(both, lanes.load(of_present, c, lanes.WIDTH))
    two = lanes.multiply(two, lanes.multiply_add(other, lanes.load(of_absent, c, lanes.WIDTH), mixed))
    last *= present * of_present[c, _N_POINTS - 1] + absent * of_absent[c, _N_POINTS - 1]
    return one, two, last


@helper(forceinline=True)
def _add(table: Array, row: np.integer[Any] | int, one: Lanes, two: Lanes, last: float) -> None:
    lanes.store(table, row, 0, lanes.add(lanes.load(table, row, 0), one))
    lanes.store(table, row, lanes.WIDTH, lanes.add(lanes.load(table, row, lanes.WIDTH), two))
    table[row, _N_POINTS - 1] += last


@helper()
def _sharpness_factors(sharpness: Array, points: Array) -> Array:
    """(classes, points): what the sharpness of answers adds to the likelihoods."""
    factors = np.empty((len(sharpness), _N_POINTS))
    for c in range(len(sharpness)):
        for j in range(_N_POINTS):
            factors[c, j] = exp(-0.5 * sharpness[c] * points[j] * points[j])
    return factors


@helper()
def _fill_given(
    prior: GridPrior,
    given: GridEvidence,
    narrow: Array,
    d: int,
    first: Array,
    scales: Array,
    told: NDArray[np.bool_],
) -> None:
    """Fill likelihoods (classes, points) of what is known besides votes, log scales, and whether anything is known.

    Where something else is known of the support, that distribution stands in place of the one of the class, of which
    the sums over the grid hold the weights: so it is divided by them here. One call per document, and none per class:
    Numba would count references to each array in each call.
    """
    points, weights = prior.points, prior.weights
    mean, precision, answers, sharpness, doubt = given
    spacing = points[_MIDDLE + 1] - points[_MIDDLE]
    for c in range(len(told)):
        told[c], scales[c] = False, 0.0
        for j in range(_N_POINTS):
            first[c, j] = 1.0
        if len(precision) > 0 and precision[d, c] > 0.0:
            _start_from_panel(points, weights, mean[d, c], precision[d, c], doubt, first, c)
            told[c] = True
        answer = answers[d, c] if len(answers) > 0 else 0.0
        if answer != 0.0:
            told[c] = True
            if abs(answer) < _MAX_ANSWER and sharpness[c] < _MAX_SHARPNESS:
                up, down, above, below = exp(spacing * answer), exp(-spacing * answer), 1.0, 1.0
                for j in range(1, _MIDDLE + 1):  # exp(answer · s), from point to point
                    above *= up
                    below *= down
                    first[c, _MIDDLE + j] *= above * narrow[c, _MIDDLE + j]
                    first[c, _MIDDLE - j] *= below * narrow[c, _MIDDLE - j]
            else:  # without the largest log-likelihood, that of the point nearest to answer / sharpness
                best = points[_N_POINTS - 1] if answer > 0.0 else points[0]
                if sharpness[c] > 0.0:
                    best = min(max(answer / sharpness[c], points[0]), points[_N_POINTS - 1])
                best = points[int((best - points[0]) / spacing + 0.5)]
                scales[c] = (answer - 0.5 * sharpness[c] * best) * best
                for j in range(_N_POINTS):
                    tilt = (answer - 0.5 * sharpness[c] * points[j]) * points[j] - scales[c]
                    first[c, j] *= exp(max(tilt, LOWEST_ANSWER))


@helper(forceinline=True)
def _start_from_panel(
    points: Array, weights: Array, mean: float, precision: float, doubt: float, first: Array, c: int
) -> None:
    """Fill likelihoods of a label with the ratio of a normal distribution and that of the class."""
    nearest, total = np.inf, 0.0
    for j in range(_N_POINTS):
        nearest = min(nearest, (points[j] - mean) ** 2)
    for j in range(_N_POINTS):  # relative to the nearest point: a mean may be far from all of them
        first[c, j] = exp(-0.5 * precision * ((points[j] - mean) ** 2 - nearest))
        total += first[c, j]
    for j in range(_N_POINTS):
        first[c, j] = (1.0 - doubt) / total * (first[c, j] / weights[c, j]) + doubt
