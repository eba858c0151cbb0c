"""Measures of probabilities: log-likelihood and calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from palda.errors import DataError
from palda.metrics.inputs import mean_of_known, probability_table, ratio, truth_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.metrics.inputs import Floats, Labels

Binning: TypeAlias = Literal["uniform", "quantile"]

EPS = 1e-6
"""Probabilities are clipped to [EPS, 1 - EPS] before a logarithm is taken."""

N_BINS = 10
"""Default number of bins of a calibration curve."""


def class_log_likelihood(Y_true: Any, probs: Any, eps: float = EPS) -> float:
    """Average class log-likelihood of the paper: mean of log p(truth) over the known cells, in nats; 0 is best.

    Parameters
    ----------
    Y_true : array of shape (documents, classes)
        True labels: 1, 0, or -1 or NaN for unknown.
    probs : array of shape (documents, classes)
        Probabilities of presence.
    eps : float, default 1e-6
        Probabilities are clipped to [``eps``, 1 - ``eps``], so a mistake costs at most log ``eps`` (-13.8 nats by
        default). Values with different ``eps`` are not comparable.

    Returns
    -------
    float
        Mean log-likelihood per cell; NaN if no cell is known.

    Examples
    --------
    >>> from palda import metrics
    >>> round(metrics.class_log_likelihood([[1, 0]], [[0.8, 0.1]]), 4)
    -0.1643
    """
    truth = truth_table(Y_true)
    return mean_of_known(cell_log_likelihoods(truth, probability_table(probs, truth.shape), eps))


def cell_log_likelihoods(truth: Labels, probs: Floats, eps: float = EPS) -> Floats:
    """Log-likelihood of each cell of checked tables; NaN where the truth is unknown."""
    if not 0 < eps < 0.5:
        raise DataError(f"eps is {eps}; it must lie between 0 and 0.5")
    prob_of_truth = np.where(truth == 1, probs, 1 - probs)
    return np.where(truth >= 0, np.log(np.clip(prob_of_truth, eps, 1 - eps)), np.nan)


@dataclass(frozen=True, eq=False)
class CalibrationCurve:
    """Data of a reliability diagram, with NaN for empty bins.

    Bin b holds the probabilities p with ``edges[b] < p <= edges[b + 1]``; the first bin includes its lower edge.

    Attributes
    ----------
    edges : array of shape (bins + 1,)
        Edges of the bins.
    mean_prob, share_true : array of shape (bins,)
        Mean probability and share of present labels.
    count : array of shape (bins,)
        Number of cells.
    """

    edges: Floats
    mean_prob: Floats
    share_true: Floats
    count: NDArray[np.int64]

    @property
    def expected_error(self) -> float:
        """Mean over cells of ``|mean_prob - share_true|`` of their bin; NaN without cells."""
        filled = self.count > 0
        if not filled.any():
            return float("nan")
        gaps = np.abs(self.mean_prob - self.share_true)[filled]
        return float(np.average(gaps, weights=self.count[filled]))


def calibration_curve(Y_true: Any, probs: Any, n_bins: int = N_BINS, strategy: Binning = "uniform") -> CalibrationCurve:
    """Mean probability and share of present labels in each bin, over all known cells.

    Parameters
    ----------
    Y_true, probs : array of shape (documents, classes)
        As in :func:`class_log_likelihood`; pass one column for the curve of one class.
    n_bins : int, default 10
        Number of bins.
    strategy : "uniform" or "quantile", default "uniform"
        Bins of equal width on [0, 1], or with equally many cells as far as ties allow.

    Returns
    -------
    CalibrationCurve
        Edges, means, shares and counts of the bins.

    Examples
    --------
    >>> from palda import metrics
    >>> curve = metrics.calibration_curve([0, 1, 1], [0.2, 0.7, 0.9], n_bins=2)
    >>> curve.mean_prob, curve.share_true, curve.count
    (array([0.2, 0.8]), array([0., 1.]), array([1, 2]))
    """
    truth = truth_table(Y_true)
    return curve_of(truth, probability_table(probs, truth.shape), n_bins, strategy)


def expected_calibration_error(Y_true: Any, probs: Any, n_bins: int = N_BINS, strategy: Binning = "uniform") -> float:
    """Gap between mean probability and share of present labels, averaged over all known cells; 0 is best.

    Parameters
    ----------
    Y_true, probs, n_bins, strategy
        As in :func:`calibration_curve`.

    Returns
    -------
    float
        Expected calibration error; NaN if no cell is known.

    Examples
    --------
    >>> from palda import metrics
    >>> round(metrics.expected_calibration_error([0, 1, 1], [0.2, 0.7, 0.9], n_bins=2), 3)
    0.2
    """
    return calibration_curve(Y_true, probs, n_bins, strategy).expected_error


def curve_of(truth: Labels, probs: Floats, n_bins: int = N_BINS, strategy: Binning = "uniform") -> CalibrationCurve:
    """Calibration curve of checked tables."""
    known = truth >= 0
    known_probs, present = probs[known], truth[known]
    edges = _bin_edges(known_probs, n_bins, strategy)
    bins = np.searchsorted(edges[1:-1], known_probs, side="left")
    count = np.bincount(bins, minlength=n_bins)
    return CalibrationCurve(
        edges,
        ratio(np.bincount(bins, weights=known_probs, minlength=n_bins), count),
        ratio(np.bincount(bins, weights=present, minlength=n_bins), count),
        count,
    )


def _bin_edges(probs: Floats, n_bins: int, strategy: Binning) -> Floats:
    if n_bins < 1:
        raise DataError(f"n_bins is {n_bins}; it must be at least 1")
    if strategy not in ("uniform", "quantile"):
        raise DataError(f"strategy is {strategy!r}; choose 'uniform' or 'quantile'")
    shares = np.linspace(0.0, 1.0, n_bins + 1)
    return np.quantile(probs, shares) if strategy == "quantile" and len(probs) else shares
