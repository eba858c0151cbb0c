"""The link from support to truth: P(present | s) = expit(κ s + δ), learned from gold labels (maths, eq. 98).

Votes do not say what the truth is, so without gold labels κ and δ are constants. A few dozen random gold labels are
enough for one κ and one δ; with more, each class gets an offset of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from palda.models.crowd.support import KAPPA
from palda.models.crowd.traits import POINTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array

LOG_KAPPA_SPREAD, DELTA_SPREAD, CLASS_DELTA_SPREAD = 0.4, 1.0, 0.5
"""Standard deviations of log κ around that of ``KAPPA``, of the mean offset, and of classes around it."""

_MIN_PROB = 1e-9


def unlearned_link(n_classes: int) -> Array:
    """κ and δ (classes, 2) without gold labels."""
    return np.tile((KAPPA, 0.0), (n_classes, 1))


def learned_link(supports: Array, known: NDArray[np.int8], link: Array, offsets: Array | None = None) -> Array:
    """κ and δ (classes, 2), most probable given labels (documents, classes; -1 unknown) and supports without them.

    ``supports`` (documents, classes, points) are distributions without the labels; ``link`` holds without labels.
    ``offsets`` (documents, classes) are log-odds that something else adds to what a support says about its label.
    """
    doc, label = np.nonzero(known >= 0)
    if not len(doc):
        return link
    support, is_present = supports[doc, label], known[doc, label] == 1
    odds = np.ones(len(doc)) if offsets is None else np.exp(offsets[doc, label])
    n_classes = known.shape[1]

    def loss(parameters: Array) -> tuple[float, Array]:
        """Minus the log posterior density, and its gradient."""
        log_kappa, delta, own = parameters[0], parameters[1], parameters[2:]
        kappa = np.exp(log_kappa)
        probs = expit(kappa * POINTS + (delta + own[label])[:, None])
        by_support = np.clip(np.sum(support * probs, axis=1), _MIN_PROB, 1.0 - _MIN_PROB)
        total = odds * by_support + 1.0 - by_support
        likelihood = np.where(is_present, odds * by_support, 1.0 - by_support) / total
        change = np.where(is_present, 1.0 / by_support, -1.0 / (1.0 - by_support)) - (odds - 1.0) / total
        slopes = support * probs * (1.0 - probs) * change[:, None]
        by_delta = slopes.sum(axis=1)
        gradient = np.concatenate(([kappa * np.sum(slopes @ POINTS), by_delta.sum()], np.zeros(n_classes)))
        np.add.at(gradient, 2 + label, by_delta)
        centred = parameters - start_point
        return float(0.5 * np.sum(centred**2 * precision) - np.log(likelihood).sum()), centred * precision - gradient

    start_point = np.zeros(2 + n_classes)
    start_point[0] = np.log(KAPPA)
    precision = np.concatenate(([LOG_KAPPA_SPREAD**-2, DELTA_SPREAD**-2], np.full(n_classes, CLASS_DELTA_SPREAD**-2)))
    found = minimize(loss, start_point, jac=True, method="L-BFGS-B").x
    return np.column_stack((np.full(n_classes, np.exp(found[0])), found[1] + found[2:]))


def link_log_prior(link: Array) -> float:
    """Log-density of a link under the prior, up to a constant."""
    delta = link[:, 1].mean()
    own = np.sum((link[:, 1] - delta) ** 2) / CLASS_DELTA_SPREAD**2
    kappa = (np.log(link[:, 0].mean()) - np.log(KAPPA)) / LOG_KAPPA_SPREAD
    return -0.5 * float(kappa**2 + (delta / DELTA_SPREAD) ** 2 + own)
