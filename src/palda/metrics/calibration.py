"""Measures of probabilities: how much they give to the truth, and whether they mean what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from palda.errors import DataError
from palda.metrics.tables import mean_of_known, probability_table, ratio, truth_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.metrics.tables import Floats, Labels

__all__ = [
    "EPS",
    "N_BINS",
    "Binning",
    "CalibrationCurve",
    "calibration_curve",
    "cell_log_likelihoods",
    "class_log_likelihood",
    "curve_of",
    "expected_calibration_error",
]

Binning: TypeAlias = Literal["uniform", "quantile"]

EPS = 1e-6
"""Probabilities are clipped to [EPS, 1 - EPS] before a logarithm is taken."""

N_BINS = 10
"""Bins of a calibration curve."""


def class_log_likelihood(Y_true: Any, probs: Any, eps: float = EPS) -> float:
    """Average class log-likelihood of the paper: mean of log p(truth) over the known cells, in nats; 0 is best.

    Probabilities are clipped to [``eps``, 1 - ``eps``] first, so one sure mistake costs log ``eps`` (-13.8 nats by
    default) and not infinity. Figures made with different ``eps`` do not compare.
    """
    truth = truth_table(Y_true)
    return mean_of_known(cell_log_likelihoods(truth, probability_table(probs, truth.shape), eps))


def cell_log_likelihoods(truth: Labels, probs: Floats, eps: float = EPS) -> Floats:
    """Log-likelihood of each cell, NaN where the truth is unknown, for tables that have been checked."""
    if not 0 < eps < 0.5:
        raise DataError(f"eps is {eps}; it must lie between 0 and 0.5")
    given_to_truth = np.where(truth == 1, probs, 1 - probs)
    return np.where(truth >= 0, np.log(np.clip(given_to_truth, eps, 1 - eps)), np.nan)


@dataclass(frozen=True, eq=False)
class CalibrationCurve:
    """What a reliability diagram draws: one entry a bin, NaN for a bin that holds no cell.

    Bin b holds the probabilities p with ``edges[b] < p <= edges[b + 1]``, the first bin also its lower edge.
    """

    edges: Floats
    mean_prob: Floats
    share_true: Floats
    count: NDArray[np.int64]

    @property
    def expected_error(self) -> float:
        """Mean over cells of their bin's ``|mean probability - share true|``; NaN without cells."""
        filled = self.count > 0
        if not filled.any():
            return float("nan")
        gaps = np.abs(self.mean_prob - self.share_true)[filled]
        return float(np.average(gaps, weights=self.count[filled]))


def calibration_curve(Y_true: Any, probs: Any, n_bins: int = N_BINS, strategy: Binning = "uniform") -> CalibrationCurve:
    """Mean probability and share of true labels, bin by bin, over all known cells.

    ``"uniform"`` bins have equal width on [0, 1]; ``"quantile"`` bins hold equally many cells, as far as ties
    allow. For the curve of one class, pass that class's columns.
    """
    truth = truth_table(Y_true)
    return curve_of(truth, probability_table(probs, truth.shape), n_bins, strategy)


def expected_calibration_error(Y_true: Any, probs: Any, n_bins: int = N_BINS, strategy: Binning = "uniform") -> float:
    """Gap between probability and share of true labels, averaged over all known cells; 0 is best.

    Binary: only the probability of "present" is judged. The bins are those of ``calibration_curve``.
    """
    return calibration_curve(Y_true, probs, n_bins, strategy).expected_error


def curve_of(truth: Labels, probs: Floats, n_bins: int = N_BINS, strategy: Binning = "uniform") -> CalibrationCurve:
    """Calibration curve of tables that have been checked."""
    known = truth >= 0
    given, present = probs[known], truth[known]
    edges = _bin_edges(given, n_bins, strategy)
    bins = np.searchsorted(edges[1:-1], given, side="left")
    count = np.bincount(bins, minlength=n_bins)
    return CalibrationCurve(
        edges,
        ratio(np.bincount(bins, weights=given, minlength=n_bins), count),
        ratio(np.bincount(bins, weights=present, minlength=n_bins), count),
        count,
    )


def _bin_edges(given: Floats, n_bins: int, strategy: Binning) -> Floats:
    if n_bins < 1:
        raise DataError(f"n_bins is {n_bins}; a calibration curve needs at least one bin")
    if strategy not in ("uniform", "quantile"):
        raise DataError(f"strategy is {strategy!r}; choose 'uniform' or 'quantile'")
    shares = np.linspace(0.0, 1.0, n_bins + 1)
    return np.quantile(given, shares) if strategy == "quantile" and len(given) else shares
