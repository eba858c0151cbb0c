"""Overview of a report: sizes and certainty of the labels, and the course of the fit."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betaincinv

from palda import metrics
from palda.estimators import PARAMETERS
from palda.io import package_version
from palda.report.values import rounded, shortened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.report.inputs import ReportInputs

_MAX_UNCERTAINTY = 0.05
"""A label is certain if its probability is at most this far from 0 or 1."""

_MAX_PAIRS = 20_000_000  # pairs of label sets that alpha compares
_MAX_SETTING_LENGTH = 300
_PACKAGES = ("palda", "numpy", "scipy", "scikit-learn", "numba")


def overview(inputs: ReportInputs) -> dict[str, Any]:
    """Sizes, agreement of the annotators, and certainty of the labels; None for what is unknown.

    ``histogram`` holds the number of labels in each of 20 equal bins of probability.
    """
    model, probs, votes = inputs.model, inputs.probs, inputs.votes
    n_votes = int(model.annotator_quality_["n_votes"].sum()) if inputs.has_crowd else None
    certain = None if probs is None else (probs < _MAX_UNCERTAINTY) | (probs > 1 - _MAX_UNCERTAINTY)
    return {
        "n_docs": None if probs is None else len(probs),
        "n_classes": len(inputs.classes),
        "n_annotators": len(model.annotators_) if inputs.has_crowd else None,
        "n_votes": n_votes if votes is None else len(votes),
        "n_words": len(inputs.words),
        "n_features": 0 if model.feature_names_ is None else len(model.feature_names_),
        "n_topics": int(model.n_topics_),
        "agreement": None if votes is None else rounded(metrics.label_set_alpha(votes, max_pairs=_MAX_PAIRS).alpha),
        "certain_share": None if certain is None else rounded(np.mean(certain)),
        "labels_per_doc": None if probs is None else rounded(probs.sum(axis=1).mean()),
        "histogram": None if probs is None else np.histogram(probs, bins=20, range=(0.0, 1.0))[0].tolist(),
    }


def notes(inputs: ReportInputs) -> list[str]:
    """Sentences to read before everything else: gold labels that contradict the consensus, labels of models alone."""
    model = inputs.model
    if not inputs.has_crowd:
        return []
    found = []
    panel = model.panel_
    if panel is not None:
        found.append(f"Models: {panel.text}.")
    if getattr(model, "gold_check_", None) is not None and model.known_labels_ is not None:
        contradiction = model.stopping_report().contradiction
        found += [f"Warning: {contradiction}."] if contradiction else []
    return found


def gold_check(inputs: ReportInputs) -> dict[str, Any] | None:
    """The consensus against gold labels that were held back; None if there were too few."""
    check = getattr(inputs.model, "gold_check_", None)
    if check is None:
        return None
    return {
        "n_labels": check.n_labels,
        "n_docs": check.n_docs,
        "micro_f1": rounded(check.micro_f1),
        "error": rounded(check.calibration_error),
        "points": [
            [rounded(prob), rounded(share), *(rounded(end) for end in _share_interval(share, number)), int(number)]
            for prob, share, number in zip(check.mean_prob, check.share_present, check.count, strict=True)
            if number
        ],
    }


def _share_interval(share: float, number: int) -> NDArray[np.float64]:
    """95% interval of a share of ``number`` labels (Jeffreys)."""
    present = share * number
    interval: NDArray[np.float64] = betaincinv(present + 0.5, number - present + 0.5, np.array([0.025, 0.975]))
    return interval


def fit_course(inputs: ReportInputs) -> dict[str, Any]:
    """The lower bound per iteration, convergence, settings and versions."""
    model = inputs.model
    settings = [
        (name, shortened(repr(value), _MAX_SETTING_LENGTH))
        for name, value in sorted(model.get_params(deep=False).items())
        if PARAMETERS[name].in_files  # not how the work was done, which is not part of the result
    ]
    return {
        "bounds": _finite(model.lower_bounds_),
        "vote_log_likelihoods": _finite(getattr(model, "vote_log_likelihoods_", np.empty(0))),
        "converged": bool(model.converged_),
        "n_iter": int(model.n_iter_),
        "worst_fall": float(model.worst_fall_),
        "settings": [("estimator", type(model).__name__), *settings],
        "versions": [("python", platform.python_version()), *((name, package_version(name)) for name in _PACKAGES)],
    }


def _finite(values: NDArray[np.float64]) -> list[float]:
    return [float(f"{value:.8g}") for value in values[np.isfinite(values)]]
