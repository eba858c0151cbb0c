"""Classes: prevalence, agreement, thresholds, calibration, and correlations between classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda import metrics
from palda.report.values import MAX_HEATMAP_NAMES, heatmap, rounded, shortened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.report.inputs import ReportInputs

_MAX_CLASSES = 300
_N_BINS = 10
_MIN_SCALE = 1e-12


def class_rows(inputs: ReportInputs) -> list[dict[str, Any]]:
    """The most frequent classes in descending order of prevalence; ``number`` is the position in the model."""
    model, votes = inputs.model, inputs.votes
    prevalence = model.class_prior_ if inputs.probs is None else inputs.probs.mean(axis=0)
    yes_share = agreement = np.full(len(prevalence), np.nan)
    n_votes = None
    if votes is not None:
        n_votes = votes.per_pair()
        yes_share = votes.yes_per_pair().sum(axis=0) / np.maximum(n_votes.sum(axis=0), 1)
        agreement = metrics.krippendorff_alpha(votes)
    return [
        {
            "number": int(i),
            "name": shortened(inputs.classes[i]),
            "prevalence": round(float(prevalence[i]), 4),
            "yes_share": rounded(yes_share[i]),
            "agreement": rounded(agreement[i]),
            "threshold": round(float(model.thresholds_[i]), 4),
            "curve": _calibration(inputs, int(i), n_votes),
        }
        for i in np.argsort(-prevalence, kind="stable")[:_MAX_CLASSES]
    ]


def _calibration(inputs: ReportInputs, label: int, n_votes: NDArray[np.int64] | None) -> dict[str, Any] | None:
    """Calibration on documents with votes on the class; None if there are no out-of-fold predictions.

    Per bin of out-of-fold predictions: their mean, that of the consensus, and the number of labels; and the mean
    absolute difference of the two.
    """
    out_of_fold = getattr(inputs.model, "out_of_fold_probs_", None)
    if out_of_fold is None or not inputs.has_crowd or inputs.probs is None:
        return None
    rows = slice(None) if n_votes is None else n_votes[:, label] > 0
    # single precision, as in model files: a report is the same before and after saving
    predicted = out_of_fold[rows, label].astype(np.float32).astype(np.float64)
    observed = inputs.probs[rows, label]
    bins = np.minimum((predicted * _N_BINS).astype(np.int64), _N_BINS - 1)
    count = np.bincount(bins, minlength=_N_BINS)
    size = np.maximum(count, 1)
    mean_predicted, mean_observed = (
        np.bincount(bins, part, minlength=_N_BINS) / size for part in (predicted, observed)
    )
    gaps = np.abs(mean_predicted - mean_observed)
    return {
        "predicted": [rounded(mean) if n else None for mean, n in zip(mean_predicted, count, strict=True)],
        "observed": [rounded(mean) if n else None for mean, n in zip(mean_observed, count, strict=True)],
        "count": count.tolist(),
        "error": rounded(np.average(gaps, weights=count)) if count.sum() else None,
    }


def correlation_heatmap(inputs: ReportInputs, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Correlations between classes over documents, the most frequent classes first."""
    if inputs.probs is None or len(rows) < 2 or len(inputs.probs) < 2:
        return None
    chosen = [row["number"] for row in rows[:MAX_HEATMAP_NAMES]]
    centred = inputs.probs[:, chosen] - inputs.probs[:, chosen].mean(axis=0)
    norms = np.sqrt((centred**2).sum(axis=0))
    scale = np.outer(norms, norms)
    correlation = np.where(scale > _MIN_SCALE, centred.T @ centred / np.maximum(scale, _MIN_SCALE), np.nan)
    np.fill_diagonal(correlation, np.nan)
    return heatmap([row["name"] for row in rows[:MAX_HEATMAP_NAMES]], correlation, len(inputs.classes))
