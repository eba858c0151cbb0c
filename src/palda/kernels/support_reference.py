"""The kernels of support.py in plain NumPy; reference.py has them too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logsumexp

from palda.kernels.arrays import LOWEST_ANSWER, LabelVotes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.kernels.arrays import GridEvidence, GridPrior, VoteArrays


def votes_by_label(votes: VoteArrays, cell_of: NDArray[np.int32], n_classes: int) -> LabelVotes:
    """The votes in the order of labels, (document, class); ``cell_of`` is (annotators · classes,)."""
    n_docs = len(votes.starts) - 1
    label = np.repeat(np.arange(n_docs), np.diff(votes.starts)) * n_classes + votes.classes
    rows = 2 * cell_of[votes.annotators.astype(np.int64) * n_classes + votes.classes] + votes.values
    starts = np.concatenate(([0], np.cumsum(np.bincount(label, minlength=n_docs * n_classes))))
    return LabelVotes(starts, rows[np.argsort(label, kind="stable")])


def support_evidence(votes: LabelVotes, probs: Array, prior: GridPrior, given: GridEvidence) -> tuple[Array, Array]:
    """Log-odds (documents, classes) of "present" from the votes, and their log-likelihoods if the class is absent.

    The support given the state of a label is summed out (maths, eq. 65).
    """
    log_likelihoods, has_answers = _log_likelihoods(votes, probs, prior, given)
    with np.errstate(divide="ignore"):  # a state that excludes a point
        present, absent = (
            logsumexp(log_likelihoods + np.log(table), axis=2) for table in (prior.present, prior.absent)
        )
    return np.where(has_answers, present - absent, 0.0), np.where(has_answers, absent, 0.0)


def support_likelihoods(votes: LabelVotes, probs: Array, prior: GridPrior, given: GridEvidence) -> Array:
    """Likelihoods (documents, classes, points) of the answers about each label, the largest of a label 1."""
    log_likelihoods, _ = _log_likelihoods(votes, probs, prior, given)
    likelihoods: Array = np.exp(log_likelihoods - log_likelihoods.max(axis=2, keepdims=True))
    return likelihoods


def support_counts(
    votes: LabelVotes, probs: Array, prior: GridPrior, given: GridEvidence, label_probs: Array
) -> tuple[Array, Array]:
    """Expected votes (cells, 2, points) by value and support, and labels (classes, points) by support.

    Labels without votes are left out. ``label_probs`` (documents, classes) are given (maths, eq. 66).
    """
    log_likelihoods, has_answers = _log_likelihoods(votes, probs, prior, given)
    likelihoods = np.exp(log_likelihoods - log_likelihoods.max(axis=2, keepdims=True))
    support = np.zeros(likelihoods.shape)
    for table, weight in ((prior.absent, 1.0 - label_probs), (prior.present, label_probs)):
        joint = likelihoods * table
        support += joint / joint.sum(axis=2, keepdims=True) * weight[:, :, None]
    table, flat = np.zeros(probs.shape), support.reshape(-1, probs.shape[2])
    np.add.at(table.reshape(-1, probs.shape[2]), votes.rows, flat.repeat(np.diff(votes.starts), axis=0))
    return table, (support * has_answers[:, :, None]).sum(axis=0)


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

    ``rates`` (classes,) are base rates; ``extra`` (documents, classes) is other evidence in nats, empty if there is
    none.
    """
    log_odds, if_absent = support_evidence(votes, probs, prior, given)
    if len(extra):
        log_odds = log_odds + extra
    states = np.where(known == 1, -np.inf, np.log1p(-rates)), np.where(known == 0, -np.inf, np.log(rates) + log_odds)
    label_probs = np.where(known >= 0, known, expit(np.log(rates) - np.log1p(-rates) + log_odds))
    log_likelihood = float(np.logaddexp(*states).sum() + if_absent.sum())
    return label_probs, log_likelihood, *support_counts(votes, probs, prior, given, label_probs)


def _log_likelihoods(
    votes: LabelVotes, probs: Array, prior: GridPrior, given: GridEvidence
) -> tuple[Array, NDArray[np.bool_]]:
    """(documents, classes, points), and whether anybody has answered (documents, classes)."""
    n_classes, n_points = prior.present.shape
    n_votes = np.diff(votes.starts).reshape(-1, n_classes)
    n_docs = len(n_votes)
    logs = np.zeros((n_docs, n_classes, n_points))
    has_answers = np.zeros((n_docs, n_classes), dtype=bool)
    if len(given.precision):
        density = -0.5 * given.precision[:, :, None] * (prior.points - given.mean[:, :, None]) ** 2
        ratios = np.exp(density - logsumexp(density, axis=2, keepdims=True)) / prior.weights
        has_answers = given.precision > 0.0
        with np.errstate(divide="ignore"):
            logs = np.where(has_answers[:, :, None], np.log((1.0 - given.doubt) * ratios + given.doubt), 0.0)
    if len(given.answers):
        answered = given.answers != 0.0
        tilt = given.answers[:, :, None] * prior.points - 0.5 * given.sharpness[:, None] * prior.points**2
        tilt = np.maximum(tilt, tilt.max(axis=2, keepdims=True) + LOWEST_ANSWER)
        logs += np.where(answered[:, :, None], tilt, 0.0)
        has_answers |= answered
    label = np.repeat(np.arange(n_votes.size), n_votes.ravel())
    np.add.at(logs.reshape(-1, n_points), label, np.log(probs.reshape(-1, n_points)[votes.rows]))
    return logs, has_answers | (n_votes > 0)


def answer_sums(
    points: Array,
    prior: Array,
    rows: NDArray[np.int64],
    by_votes: Array,
    scores: Array,
    label: NDArray[np.int64],
    parameters: Array,
) -> tuple[float, Array, Array]:
    """Log-likelihood of votes given answers of a classifier, with gradient (classes, 3) and Hessian (classes, 3, 3).

    Label n has the likelihoods ``by_votes[n]`` of its votes, and the distribution ``prior[rows[n]]`` of its support
    before any answer. ``parameters`` (classes, 3) are log gain, shift and log sharpness (maths, eq. 108).
    """
    gain, shift, sharpness = np.exp(parameters[label, 0]), parameters[label, 1], np.exp(parameters[label, 2])
    tilt = (gain * scores - shift)[:, None] * points - 0.5 * sharpness[:, None] * points**2
    before = prior[rows] * np.exp(np.maximum(tilt - tilt.max(axis=1, keepdims=True), LOWEST_ANSWER))
    before /= before.sum(axis=1, keepdims=True)
    after = before * by_votes
    likelihoods = after.sum(axis=1)
    after /= likelihoods[:, None]
    # Derivatives of the tilt: three factors times the features s, s and s².
    factors = np.stack((gain * scores, -np.ones(len(label)), -0.5 * sharpness), axis=1)
    features = np.stack((points, points, points**2))
    means = [table @ features.T for table in (after, before)]
    change = (means[0] - means[1]) * factors
    squares = [
        np.einsum("nj,aj,bj->nab", table, features, features) - mean[:, :, None] * mean[:, None, :]
        for table, mean in zip((after, before), means, strict=True)
    ]
    curvature = (squares[0] - squares[1]) * factors[:, :, None] * factors[:, None, :]
    for own in (0, 2):  # logarithms
        curvature[:, own, own] += change[:, own]
    gradient, hessian = np.zeros(parameters.shape), np.zeros((*parameters.shape, 3))
    np.add.at(gradient, label, change)
    np.add.at(hessian, label, curvature)
    return float(np.log(likelihoods).sum()), gradient, hessian


def robust_centres(values: Array, weights: Array, width: float, max_rounds: int, tolerance: float) -> Array:
    """(columns,): Tukey's biweight of each column, from its weighted median; 0 without weight."""
    order = np.argsort(values, axis=0, kind="stable")
    cumulative = np.cumsum(np.take_along_axis(weights, order, axis=0), axis=0)
    total = weights.sum(axis=0)
    middle = np.argmax(cumulative >= total / 2.0, axis=0)[None]
    centre = np.take_along_axis(np.take_along_axis(values, order, axis=0), middle, axis=0)[0]
    moving = total > 0.0
    for _ in range(max_rounds):
        own = weights * (1.0 - np.clip((values - centre) / width, -1.0, 1.0) ** 2) ** 2
        before, after = centre, np.sum(own * values, axis=0) / np.maximum(own.sum(axis=0), 1e-300)
        centre = np.where(moving, after, centre)
        moving &= np.abs(centre - before) >= tolerance
        if not moving.any():
            break
    return np.where(total > 0.0, centre, 0.0)


def trait_sums(points: Array, votes: Array, slopes: Array, offsets: Array) -> Array:
    """(cells, 5): sums over the support of residuals and curvatures of expected votes (cells, 2, points).

    Residuals, the same times the support; curvatures, the same times the support and its square. P(yes) of a cell is
    expit(slope · support + offset) (maths, eq. 68).
    """
    probs, total = expit(slopes[:, None] * points + offsets[:, None]), votes.sum(axis=1)
    residual, curvature = votes[:, 1] - total * probs, total * probs * (1.0 - probs)
    residuals = residual.sum(axis=1), residual @ points
    return np.stack((*residuals, curvature.sum(axis=1), curvature @ points, curvature @ points**2), axis=1)
