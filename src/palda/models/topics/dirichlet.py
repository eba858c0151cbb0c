"""Maximum-likelihood Dirichlet parameters from expected logarithms, by Newton's method inside a box.

The box is part of the problem, not a repair of its answer: parameters of classes with little evidence would otherwise
run off to the hundreds, and a parameter near zero makes E[log θ] meaningless. Inside it the objective is concave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, polygamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["LARGEST", "SMALLEST", "Fitted", "fit_dirichlet", "fit_symmetric_dirichlet"]

SMALLEST, LARGEST = 5e-3, 100.0
_MAX_STEPS = 100
_ENOUGH = 1e-12  # nats a document still to be gained
_SUFFICIENT = 1e-4  # share of the promised gain that a step must keep


class Fitted(NamedTuple):
    """Parameters, and whether Newton's method came to rest."""

    value: Array
    converged: bool


def fit_dirichlet(start: Array, log_theta: Array, n_docs: Array) -> Fitted:
    """Rows α that maximise n [ln Γ(Σα) - Σ ln Γ(α)] + Σ_t α_t Σ_d E[log θ_t] within the box (maths, eq. 16).

    ``start`` and ``log_theta`` are (rows, topics), ``n_docs`` is (rows,). A row without documents keeps its start. All
    rows step together; the Hessian, a diagonal plus a constant, is inverted in closed form over the free coordinates.
    """
    alpha = np.clip(start, SMALLEST, LARGEST)
    active = np.flatnonzero(n_docs > 0)
    if not len(active) or alpha.shape[1] == 1:  # one topic: θ is 1 whatever α is
        return Fitted(alpha, converged=True)
    mean_log = log_theta[active] / n_docs[active, None]
    rows = alpha[active]
    resting = np.zeros(len(rows), dtype=bool)
    for _ in range(_MAX_STEPS):
        moving = np.flatnonzero(~resting)
        step, promise = _newton_step(rows[moving], mean_log[moving])
        found, gained = _line_search(rows[moving], mean_log[moving], step)
        last = promise <= _ENOUGH
        # a gain that small drowns in the objective's rounding, but the gradient still sees it: step without a search
        found[last] = np.clip(rows[moving][last] + step[last], SMALLEST, LARGEST)
        rows[moving] = found
        resting[moving] = last | ~gained
        if resting.all():
            break
    alpha[active] = rows
    return Fitted(alpha, converged=bool(resting.all()))


def _objective(alpha: Array, mean_log: Array) -> Array:
    result: Array = gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1) + np.sum(alpha * mean_log, axis=1)
    return result


def _gradient(alpha: Array, mean_log: Array) -> Array:
    result: Array = digamma(alpha.sum(axis=1))[:, None] - digamma(alpha) + mean_log
    return result


def _newton_step(alpha: Array, mean_log: Array) -> tuple[Array, Array]:
    """Newton direction of each row, and the gain it promises to first order."""
    slope = _gradient(alpha, mean_log)
    held = ((alpha <= SMALLEST) & (slope < 0)) | ((alpha >= LARGEST) & (slope > 0))
    slope = np.where(held, 0.0, slope)
    inverse = np.where(held, 0.0, -1.0 / polygamma(1, alpha))  # of the Hessian's diagonal
    common = polygamma(1, alpha.sum(axis=1))
    shift = np.sum(slope * inverse, axis=1) / (1.0 / common + inverse.sum(axis=1))
    step = -(slope - shift[:, None]) * inverse
    return step, np.sum(slope * step, axis=1)


def _line_search(alpha: Array, mean_log: Array, step: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Longest of the steps 1, ½, ¼, ... along the box's edge that keeps its promise; rows that found none stay."""
    before = _objective(alpha, mean_log)
    slope = _gradient(alpha, mean_log)
    result = alpha.copy()
    gained = np.zeros(len(alpha), dtype=bool)
    length = 1.0
    while length > 1e-12 and not gained.all():
        rows = np.flatnonzero(~gained)
        tried = np.clip(alpha[rows] + length * step[rows], SMALLEST, LARGEST)
        promised = np.sum(slope[rows] * (tried - alpha[rows]), axis=1)
        kept = (promised > 0) & (_objective(tried, mean_log[rows]) >= before[rows] + _SUFFICIENT * promised)
        result[rows[kept]] = tried[kept]
        gained[rows[kept]] = True
        length /= 2
    return result, gained


def fit_symmetric_dirichlet(start: float, log_sum: float, n_rows: int, n_columns: int) -> tuple[float, bool]:
    """One η shared by all topics and words that maximises T [ln Γ(Vη) - V ln Γ(η)] + η Σ E[log β] (maths, eq. 17).

    One row of its own for each topic would be fitted to itself: see the corrections in docs/maths.md.
    """
    low, high = SMALLEST, LARGEST
    eta = min(max(start, low), high)

    def slope(value: float) -> float:
        return float(n_rows * n_columns * (digamma(n_columns * value) - digamma(value)) + log_sum)

    if n_columns == 1:
        return eta, True
    if slope(low) <= 0:
        return low, True
    if slope(high) >= 0:
        return high, True
    for _ in range(_MAX_STEPS):
        at = slope(eta)
        low, high = (eta, high) if at > 0 else (low, eta)
        bend = n_rows * n_columns * (n_columns * polygamma(1, n_columns * eta) - polygamma(1, eta))
        tried = eta - at / float(bend)
        following = tried if low < tried < high else (low + high) / 2
        if abs(following - eta) <= 1e-12 * eta:
            return following, True
        eta = following
    return eta, False
