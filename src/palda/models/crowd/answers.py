"""A classifier beside a crowd: its log-odds are one more answer about the support of labels.

    P(s = x_j | l) ∝ w_ij exp(g x_j - h_i x_j² / 2),    g = c_i (l - b_i) - d_i

l are log-odds of a classifier that has not seen the document's votes, b_i those of the base rate. Gain c, shift d and
sharpness h of each class are those with which l predicts the votes best (maths, eq. 108): an overconfident classifier
is discounted, and one that has learned from its own answers cannot become certain, since the votes do not change.
Classes share what few votes cannot tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palda import kernels
from palda.models.crowd.support import given_weights, people_and_panel
from palda.models.crowd.support_em import support_posterior
from palda.models.crowd.traits import POINTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, Votes
    from palda.models.crowd.support import SupportBelief

_GAIN, _SHARPNESS = 0.5, 0.1  # of all classes before any vote
_COMMON_SPREAD, _CLASS_SPREAD, _SHIFT_SPREAD = 1.0, 0.3, 0.5  # of their logarithms; of shifts, in log-odds
_BESIDE_PANEL_SPREAD = 0.2  # of what few labels of people tell beside a panel, around what both tell together
_BESIDE_PANEL_WEIGHT = 0.5
"""What answers are worth beside a panel: the classifier has learned from labels that hold the panel's mistakes.

On premo with people on 60 and 180 documents the log-likelihood per label is -.288 and -.281 (with weight 1 -.300 and
-.292, without texts -.295 and -.292); with people on all, who agreed on the reference, F1 at 1/2 is .917 (.899, .924).
"""

_MAX_STEPS, _MAX_STEP = 50, 2.0  # of Newton's method
_MIN_GAIN = 1e-6  # nats that a step has to promise
_MIN_SHARE = 1e-4  # of the promised gain, for a step that is taken


class Answers(NamedTuple):
    """How log-odds of a classifier speak about the support: "gain · l - shift" per unit of s, and sharpness."""

    gain: Array  # c, (classes,)
    shift: Array  # c b + d
    sharpness: Array  # h

    def mixed(self, other: Answers, share: float) -> Answers:
        """Means of both, geometric ones of gain and sharpness, with a ``share`` of this one."""
        gain, sharpness = (
            np.exp(share * np.log(own) + (1.0 - share) * np.log(others))
            for own, others in ((self.gain, other.gain), (self.sharpness, other.sharpness))
        )
        return Answers(gain, share * self.shift + (1.0 - share) * other.shift, sharpness)


def learned_answers(votes: Votes, belief: SupportBelief, log_odds: Array, base: Array) -> Answers:
    """Answers that predict the votes best, given traits and weights of a fit to votes alone (maths, eq. 108).

    Beside a panel of models, who have read the same texts, what counts is what the classifier adds to the panel. Few
    labels of people do not tell: then the answers are those that predict people and panel together.
    """
    people, given = people_and_panel(votes, belief)
    doc, label = np.nonzero(people.per_pair() > 0)
    weights, scores, n_classes = belief.weights[label], log_odds[doc, label] - base[label], len(base)
    posterior = support_posterior(people, belief, given)[doc, label]
    start = np.concatenate(([np.log(_GAIN), np.log(_SHARPNESS)], np.zeros(3 * n_classes)))
    spreads = np.repeat([_COMMON_SPREAD, _CLASS_SPREAD, _SHIFT_SPREAD, _CLASS_SPREAD], [2, *(n_classes,) * 3])
    found = _most_probable(belief.weights, label, posterior / weights, scores, label, start, spreads)
    if len(given.precision):
        with_panel = given_weights(given.mean[doc, label], given.precision[doc, label], weights, given.doubt)
        spreads = np.where(np.arange(len(spreads)) < 2, _BESIDE_PANEL_SPREAD, spreads)
        each = np.arange(len(label))
        found = _most_probable(with_panel, each, posterior / with_panel, scores, label, found, spreads)
    gain, shift, sharpness = _unpacked(found, n_classes)
    weight = _BESIDE_PANEL_WEIGHT if len(given.precision) else 1.0
    return Answers(weight * gain, weight * (gain * base + shift), weight * sharpness)


def _unpacked(parameters: Array, n_classes: int) -> tuple[Array, Array, Array]:
    gain, shift, sharpness = _by_class(parameters, n_classes).T
    return np.exp(gain), shift, np.exp(sharpness)


def _by_class(parameters: Array, n_classes: int) -> Array:
    """(classes, 3): log gain, shift and log sharpness."""
    own = parameters[2:].reshape(3, n_classes).T
    by_class: Array = own + np.array([parameters[0], 0.0, parameters[1]])
    return by_class


def _most_probable(
    prior: Array,
    rows: NDArray[np.int64],
    by_votes: Array,
    scores: Array,
    label: NDArray[np.int64],
    start: Array,
    spreads: Array,
) -> Array:
    """Parameters of answers that are most probable given votes, with a normal prior around ``start``.

    ``prior[rows]`` (labels, points) are distributions of the support without the classifier; ``by_votes`` the
    likelihoods. Newton's method with backtracking.
    """
    n_classes, precision = (len(start) - 2) // 3, spreads**-2.0

    def objective(parameters: Array) -> tuple[float, Array, Array]:
        """Log-likelihood of the votes given the log-odds, and the log prior; with gradient and Hessian by class."""
        own = _by_class(parameters, n_classes)
        log_likelihood, by_class, hessian = kernels.active().answer_sums(
            POINTS, prior, rows, by_votes, scores, label, own
        )
        centred = parameters - start
        gradient = np.concatenate((by_class.sum(axis=0)[[0, 2]], by_class.T.ravel())) - precision * centred
        return float(log_likelihood - 0.5 * np.sum(precision * centred**2)), gradient, hessian

    parameters = start
    value, gradient, hessian = objective(parameters)
    for _ in range(_MAX_STEPS):
        step = _newton_step(gradient, hessian, precision)
        gain = float(gradient @ step)
        if gain < _MIN_GAIN:
            break
        share = min(1.0, _MAX_STEP / float(np.abs(step).max()))
        found = objective(parameters + share * step)
        while found[0] < value + _MIN_SHARE * share * gain and share * gain > _MIN_GAIN:
            share /= 2.0
            found = objective(parameters + share * step)
        if found[0] < value:
            break
        parameters = parameters + share * step
        value, gradient, hessian = found
    return parameters


def _newton_step(gradient: Array, hessian: Array, precision: Array) -> Array:
    """Newton step of the two common parameters and three of each class, on which no other class depends.

    Directions in which the log-likelihood is not concave count as flat.
    """
    n_classes = len(hessian)
    values, vectors = np.linalg.eigh(-hessian)
    information = np.einsum("cij,cj,ckj->cik", vectors, np.maximum(values, 0.0), vectors)
    of_common = information[:, :, [0, 2]]  # (classes, 3, 2)
    inverse = np.linalg.inv(information + np.eye(3) * precision[2:].reshape(3, n_classes).T[:, None, :])
    own = gradient[2:].reshape(3, n_classes).T
    by_own, by_common = np.einsum("cij,cj->ci", inverse, own), inverse @ of_common
    known = np.diag(precision[:2]) + of_common[:, [0, 2]].sum(axis=0)
    known -= np.einsum("cia,cib->ab", of_common, by_common)
    common = np.linalg.solve(known, gradient[:2] - np.einsum("cia,ci->a", of_common, by_own))
    return np.concatenate((common, (by_own - by_common @ common).T.ravel()))
