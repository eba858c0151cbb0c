"""Measures of consensus labels against a reference, with standard errors by bootstrap over documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palda.models.assignment import Calibration, LabelHistogram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Votes

    Array = NDArray[np.float64]

FLOOR = 1e-4  # probabilities are clipped to [FLOOR, 1 - FLOOR] for log-likelihoods
N_BINS = 15
N_RESAMPLES = 200
BOOTSTRAPPED = ("auprc", "f1", "log_likelihood")  # columns of weighted_figures
MIN_REFERENCE_VOTES = 20
_HALF = 0.5
_NORMAL_95 = 1.959964


def evaluate(gold: Array, probs: Array) -> dict[str, float]:
    """Figures of one table of probabilities.

    Parameters
    ----------
    gold : array of shape (documents, classes)
        Reference: 1, 0, and NaN where unknown.
    probs : array of shape (documents, classes)
        Probabilities of presence.

    Returns
    -------
    dict
        ``auprc`` (average precision over all labels), ``f1`` of the labels above 1/2, ``best_f1`` at the best
        threshold, ``log_likelihood`` per label, ``ece`` (expected calibration error, 15 bins of equal width),
        ``wrong_ratio`` (expected number of labels that are wrong at 1/2 over their true number), ``n_wrong`` and
        ``n_labels``.
    """
    known = ~np.isnan(gold)
    truth, probs = gold[known] > _HALF, probs[known]
    auprc, f1, log_likelihood = weighted_figures(truth, probs, np.ones((1, len(probs))))[0]
    precision, recall = precision_recall(truth, probs)
    bins = np.clip((probs * N_BINS).astype(int), 0, N_BINS - 1)
    surplus = np.bincount(bins, truth - probs, minlength=N_BINS)
    n_wrong = int(((probs > _HALF) != truth).sum())
    return {
        "auprc": float(auprc),
        "f1": float(f1),
        "best_f1": float(np.max(2 * precision * recall / np.maximum(precision + recall, 1e-12))),
        "log_likelihood": float(log_likelihood),
        "ece": float(np.abs(surplus).sum() / len(probs)),
        "wrong_ratio": float(np.minimum(probs, 1.0 - probs).sum() / max(n_wrong, 1)),
        "n_wrong": n_wrong,
        "n_labels": len(probs),
    }


def precision_recall(truth: NDArray[np.bool_], probs: Array) -> tuple[Array, Array]:
    """Precision and recall at each distinct probability as a threshold, from the highest on."""
    order = np.argsort(-probs, kind="stable")
    last = np.append(np.flatnonzero(np.diff(probs[order])), len(order) - 1)  # labels of equal probability stay together
    n_right = np.cumsum(truth[order])[last]
    return n_right / (last + 1.0), n_right / max(truth.sum(), 1)


def weighted_figures(truth: NDArray[np.bool_], probs: Array, weights: Array) -> Array:
    """(resamples, 3): the figures of ``BOOTSTRAPPED`` with weights (resamples, labels) of the labels."""
    total = np.maximum(weights.sum(axis=1), 1e-12)
    # clipped for the logarithm alone: the order of probabilities below FLOOR counts for the average precision
    of_truth = np.clip(np.where(truth, probs, 1.0 - probs), FLOOR, 1.0 - FLOOR)
    log_likelihood = weights @ np.log(of_truth) / total
    is_named = probs > _HALF
    n_right = weights @ (truth & is_named)
    f1 = 2.0 * n_right / np.maximum(weights @ truth + weights @ is_named, 1e-12)
    order = np.argsort(-probs, kind="stable")
    last = np.append(np.flatnonzero(np.diff(probs[order])), len(order) - 1)
    ordered = weights[:, order]
    found = np.cumsum(ordered * truth[order], axis=1)[:, last]
    precision = found / np.maximum(np.cumsum(ordered, axis=1)[:, last], 1e-12)
    gained = np.diff(found, axis=1, prepend=0.0)
    auprc = (gained * precision).sum(axis=1) / np.maximum(found[:, -1], 1e-12)
    return np.column_stack((auprc, f1, log_likelihood))


def resampled_figures(gold: Array, probs: Array, seed: int = 0) -> Array:
    """(resamples, 3): the figures of ``BOOTSTRAPPED`` on documents drawn with replacement.

    The same seed draws the same documents for tables of the same length, so that differences of two methods, and means
    over draws of the same documents, are those of the same resample.
    """
    known = ~np.isnan(gold)
    weights = bootstrap_weights(len(gold), seed)[:, np.nonzero(known)[0]]
    return weighted_figures(gold[known] > _HALF, probs[known], weights)


def bootstrap_weights(n_docs: int, seed: int = 0) -> Array:
    """(resamples, documents): how often each document is drawn."""
    shares = np.full(n_docs, 1.0 / n_docs)
    return np.random.default_rng(seed).multinomial(n_docs, shares, size=N_RESAMPLES).astype(np.float64)


def bounds_held(
    gold: Array, probs: Array, slope_posterior: Array, factor: float, n_resamples: int, seed: int = 0
) -> int:
    """Number of bootstrap samples of documents in which no more labels are wrong than the 90% bound says.

    A bound is one of all labels of a crowd. A sample has other labels, of which a part has a reference, so the bound is
    computed for those labels of the sample that have one, from the same posterior of the slope, and multiplied by the
    same ``factor``: it states what the report would have said about them. Wrong labels vary by the sampling of
    documents alone, not by that of the votes, which only draws of people can show.
    """
    known = ~np.isnan(gold)
    row, _ = np.nonzero(known)
    wrong, calibration = (probs[known] > _HALF) != (gold[known] > _HALF), Calibration(1.0, 1.0, 1.0, 0, slope_posterior)
    n_held = 0
    for weights in bootstrap_weights(len(gold), seed)[:n_resamples, row]:
        drawn = np.repeat(probs[known], weights.astype(np.int64))[:, None]
        bound = calibration.upper_wrong(LabelHistogram.of(drawn, np.full(drawn.shape, -1, dtype=np.int8)))
        n_held += bool(weights @ wrong <= factor * bound)
    return n_held


def standard_errors(resampled: Sequence[Array]) -> Array:
    """(3,): bootstrap standard errors of means over draws, from the ``resampled_figures`` of each draw."""
    return np.mean(resampled, axis=0).std(axis=0, ddof=1)


def rate_coverage(votes: Votes, gold: Array, intervals: Array) -> tuple[int, int]:
    """How many intervals of annotators' rates agree with their rates on the reference, and of how many.

    An annotator's empirical sensitivity is the share of "present" among their votes on labels that the reference has as
    present, and counts if there are at least 20 such votes; specificity likewise. It has a binomial error itself:
    z sqrt(r (1 - r) / n), with r from one more vote of either kind, and z of 95%. The empirical rate agrees if its
    distance from the middle of the interval is at most sqrt(h² + error²), with h half the width of the interval: that
    is what a correct 95% interval does in 95 of 100 cases. Sensitivities and specificities are counted together.

    Parameters
    ----------
    votes : Votes
        Votes of the annotators.
    gold : array of shape (documents, classes)
        Reference, NaN where unknown.
    intervals : array of shape (annotators, 4)
        Lower and upper bound of sensitivity, then of specificity; NaN where there is none.
    """
    truth = gold[votes.doc, votes.label]
    n_inside = n_all = 0
    for state, low, high in ((1, *intervals[:, :2].T), (0, *intervals[:, 2:].T)):
        of_state = truth == state
        n_votes, n_right = (
            np.bincount(votes.annotator[chosen], minlength=votes.n_annotators).astype(np.float64)
            for chosen in (of_state, of_state & (votes.value == state))
        )
        rate = n_right / np.maximum(n_votes, 1.0)
        smooth = (n_right + 1.0) / (n_votes + 2.0)
        error = _NORMAL_95 * np.sqrt(smooth * (1.0 - smooth) / np.maximum(n_votes, 1.0))
        inside = np.abs(rate - (low + high) / 2.0) <= np.hypot((high - low) / 2.0, error)
        counted = (n_votes >= MIN_REFERENCE_VOTES) & ~np.isnan(low + high)
        n_inside, n_all = n_inside + int((inside & counted).sum()), n_all + int(counted.sum())
    return n_inside, n_all
