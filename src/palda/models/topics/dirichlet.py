"""Maximum-likelihood Dirichlet parameters from expected logarithms, by Newton's method within limits.

The limits are part of the problem: without them the parameters of classes with few documents would grow to hundreds,
and a parameter near zero makes E[log θ] meaningless. Within the limits the objective is concave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, zeta

from palda.models.line_search import line_search
from palda.models.trigamma import trigamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array

MIN_CONCENTRATION, MAX_CONCENTRATION = 5e-3, 100.0
_MAX_STEPS = 100
_GAIN_TOLERANCE = 1e-12  # nats per document that a Newton step is expected to gain
_MIN_STEP_LENGTH = 1e-12


class DirichletFit(NamedTuple):
    """Parameters (rows, topics), and whether Newton's method converged."""

    value: Array
    converged: bool


def fit_dirichlet(start: Array, log_theta: Array, n_docs: Array) -> DirichletFit:
    """Rows α that maximise n [ln Γ(Σα) - Σ ln Γ(α)] + Σ_t α_t Σ_d E[log θ_t] within the limits (maths, eq. 16).

    ``start`` and ``log_theta`` are (rows, topics), ``n_docs`` is (rows,). A row without documents keeps its start. All
    rows step together; the Hessian, a diagonal plus a constant, is inverted in closed form over the free coordinates.
    """
    alpha = np.clip(start, MIN_CONCENTRATION, MAX_CONCENTRATION)
    active = np.flatnonzero(n_docs > 0)
    if not len(active) or alpha.shape[1] == 1:  # with one topic θ is 1 for any α
        return DirichletFit(alpha, converged=True)
    mean_log = log_theta[active] / n_docs[active, None]
    rows = alpha[active]
    converged = np.zeros(len(rows), dtype=bool)
    for _ in range(_MAX_STEPS):
        open_rows = np.flatnonzero(~converged)
        gradient = _gradient(rows[open_rows], mean_log[open_rows])
        step, expected_gain = _newton_step(rows[open_rows], gradient)
        updated, gained = _line_search(rows[open_rows], mean_log[open_rows], gradient, step)
        last = expected_gain <= _GAIN_TOLERANCE
        # such a gain is below the rounding error of the objective, but not of the gradient: step without a search
        updated[last] = np.clip(rows[open_rows][last] + step[last], MIN_CONCENTRATION, MAX_CONCENTRATION)
        rows[open_rows] = updated
        converged[open_rows] = last | ~gained
        if converged.all():
            break
    alpha[active] = rows
    return DirichletFit(alpha, converged=bool(converged.all()))


def _objective(alpha: Array, mean_log: Array) -> Array:
    result: Array = gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1) + np.sum(alpha * mean_log, axis=1)
    return result


def _gradient(alpha: Array, mean_log: Array) -> Array:
    result: Array = digamma(alpha.sum(axis=1))[:, None] - digamma(alpha) + mean_log
    return result


def _newton_step(alpha: Array, gradient: Array) -> tuple[Array, Array]:
    """Newton direction of each row, and its expected gain to first order; coordinates at a limit may stay there."""
    at_limit = ((alpha <= MIN_CONCENTRATION) & (gradient < 0)) | ((alpha >= MAX_CONCENTRATION) & (gradient > 0))
    slope = np.where(at_limit, 0.0, gradient)
    inverse = np.where(at_limit, 0.0, -1.0 / trigamma(alpha))  # of the Hessian's diagonal
    common = trigamma(alpha.sum(axis=1))
    shift = np.sum(slope * inverse, axis=1) / (1.0 / common + inverse.sum(axis=1))
    step = -(slope - shift[:, None]) * inverse
    return step, np.sum(slope * step, axis=1)


def _line_search(alpha: Array, mean_log: Array, gradient: Array, step: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Rows after a line search along ``step``, within the limits, and which rows improved."""

    def objective(points: Array, rows: NDArray[np.int64]) -> Array:
        return _objective(points, mean_log[rows])

    def points_at(length: float, rows: NDArray[np.int64]) -> tuple[Array, Array]:
        points = np.clip(alpha[rows] + length * step[rows], MIN_CONCENTRATION, MAX_CONCENTRATION)
        return points, points - alpha[rows]

    return line_search(alpha, _objective(alpha, mean_log), gradient, objective, points_at, _MIN_STEP_LENGTH)


def fit_symmetric_dirichlet(start: float, log_sum: float, n_rows: int, n_columns: int) -> tuple[float, bool]:
    """One η shared by all topics and words that maximises T [ln Γ(Vη) - V ln Γ(η)] + η Σ E[log β] (maths, eq. 17).

    Returns η and whether Newton's method converged. A separate η per topic would be fitted to that topic alone: see the
    corrections in docs/maths.md.
    """
    low, high = MIN_CONCENTRATION, MAX_CONCENTRATION
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
        derivative = slope(eta)
        low, high = (eta, high) if derivative > 0 else (low, eta)
        curvature = n_rows * n_columns * (n_columns * zeta(2.0, n_columns * eta) - zeta(2.0, eta))
        newton = eta - derivative / float(curvature)
        updated = newton if low < newton < high else (low + high) / 2
        if abs(updated - eta) <= 1e-12 * eta:
            return updated, True
        eta = updated
    return eta, False
