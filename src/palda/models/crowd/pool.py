"""The Beta prior that annotators share, learned from all of them together (empirical Bayes, partial pooling).

The pool always contains one pseudo-annotator with the fixed belief ``PSEUDO_ANNOTATOR``: a little better than chance,
and weak. Its divergence from the prior is part of the bound, like that of real annotators. It keeps the prior from
degenerating: with few annotators or few votes the prior stays near it, and however alike annotators are, the strength
of the prior stays finite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaln, digamma

from palda.models.line_search import line_search
from palda.models.trigamma import trigamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array

PSEUDO_ANNOTATOR = (3.5, 1.5)
"""Beta parameters of the pseudo-annotator: a mean of .7, worth five votes."""

MIN_PARAMETER, MAX_PARAMETER = 0.5, 1000.0
"""Bounds of both parameters of the prior; below ½, E[log rate] punishes one wrong vote by dozens of nats."""

_MAX_STEPS = 50
_MIN_GAIN = 1e-10  # nats; steps that promise less are not taken
_MAX_LOG_STEP = 2.0  # in the logarithm of a parameter
_MIN_CURVATURE = 1e-6  # relative to the largest curvature
_MIN_STEP_LENGTH = 1e-9


def expected_logs(betas: Array) -> Array:
    """E[log rate] and E[log(1 - rate)] of Beta distributions along the last axis."""
    logs: Array = digamma(betas) - digamma(betas.sum(axis=-1, keepdims=True))
    return logs


def beta_divergence(posterior: Array, prior: Array) -> float:
    """Σ KL(posterior || prior) of Beta distributions along the last axis."""
    normalisers = _log_beta(prior) - _log_beta(posterior)
    return float(np.sum(normalisers) + np.sum((posterior - prior) * expected_logs(posterior)))


def pool_divergence(pool: Array) -> float:
    """Cost of the pool's prior in the bound: the divergence of the pseudo-annotator for each rate."""
    return beta_divergence(np.broadcast_to(PSEUDO_ANNOTATOR, pool.shape), pool)


def fit_pool(counts: Array, start: Array, max_steps: int = _MAX_STEPS, min_gain: float = _MIN_GAIN) -> Array:
    """Beta parameters (rates, 2) that maximise Σ_k [ln B(prior + counts_k) - ln B(prior)] minus the pseudo KL.

    ``counts`` is (annotators, rates, 2). This is the bound with each q(rate) at its optimum for the prior: the marginal
    likelihood of correct and wrong votes (maths, eq. 39). Annotators without votes drop out of it. Newton steps in the
    logarithms with a line search, as long as they promise more than ``min_gain`` nats: the result is never worse than
    ``start``.
    """
    prior = np.clip(start, MIN_PARAMETER, MAX_PARAMETER)
    active = np.arange(len(prior))
    for _ in range(max_steps):
        gradient, hessian = _derivatives(prior[active], counts[:, active])
        step, expected_gain = _newton_step(prior[active], gradient, hessian)
        worthwhile = expected_gain > min_gain
        if not worthwhile.any():
            break
        active, expected_gain = active[worthwhile], expected_gain[worthwhile]
        prior[active], improved = _move(prior[active], counts[:, active], gradient[worthwhile], step[worthwhile])
        # The number of right digits doubles: after a step that promised less than √min_gain, no other is worthwhile.
        active = active[improved & (expected_gain > np.sqrt(min_gain))]
        if not len(active):
            break
    return prior


def _log_beta(betas: Array) -> Array:
    result: Array = betaln(betas[..., 0], betas[..., 1])
    return result


_PSEUDO_LOGS = expected_logs(np.array(PSEUDO_ANNOTATOR))


def _objective(prior: Array, counts: Array) -> Array:
    """(rates,): the maximised function, up to a constant."""
    votes = np.sum(_log_beta(prior + counts) - _log_beta(prior), axis=0)
    result: Array = votes - _log_beta(prior) + prior @ _PSEUDO_LOGS
    return result


def _derivatives(prior: Array, counts: Array) -> tuple[Array, Array]:
    """Gradient (rates, 2) and Hessian (rates, 2, 2) in the logarithms of the parameters."""
    weight = len(counts) + 1  # all annotators and the pseudo-annotator
    posterior = prior + counts
    strength, posterior_strength = prior.sum(axis=-1), posterior.sum(axis=-1)
    slopes = np.sum(digamma(posterior), axis=0) - np.sum(digamma(posterior_strength), axis=0)[:, None]
    slopes -= weight * (digamma(prior) - digamma(strength)[:, None])
    gradient = prior * (slopes + _PSEUDO_LOGS)
    own = np.sum(trigamma(posterior), axis=0) - weight * trigamma(prior)
    shared = weight * trigamma(strength) - np.sum(trigamma(posterior_strength), axis=0)
    hessian: Array = shared[:, None, None] * prior[:, :, None] * prior[:, None, :]
    diagonal = np.arange(2)
    hessian[:, diagonal, diagonal] += own * prior**2 + gradient
    return gradient, hessian


def _newton_step(prior: Array, gradient: Array, hessian: Array) -> tuple[Array, Array]:
    """Ascent step of each row in the logarithms, and its expected gain to first order."""
    at_bound = ((prior <= MIN_PARAMETER) & (gradient < 0)) | ((prior >= MAX_PARAMETER) & (gradient > 0))
    gradient = np.where(at_bound, 0.0, gradient)
    hessian = np.where(at_bound[:, :, None] | at_bound[:, None, :], 0.0, hessian)
    curvatures, directions = np.linalg.eigh(hessian)
    size = np.abs(curvatures)  # absolute values, so that a saddle point is left upwards
    size = np.maximum(size, np.maximum(_MIN_CURVATURE * size.max(axis=1, keepdims=True), _MIN_GAIN))
    step = np.einsum("rij,rj->ri", directions, np.einsum("rij,ri->rj", directions, gradient) / size)
    step *= np.minimum(1.0, _MAX_LOG_STEP / np.maximum(np.abs(step).max(axis=1, keepdims=True), _MAX_LOG_STEP))
    return step, np.sum(gradient * step, axis=1)


def _move(prior: Array, counts: Array, gradient: Array, step: Array) -> tuple[Array, NDArray[np.bool_]]:
    """The prior after a line search along ``step``, within the bounds, and which rows improved."""

    def objective(points: Array, rows: NDArray[np.int64]) -> Array:
        return _objective(points, counts[:, rows])

    def points_at(length: float, rows: NDArray[np.int64]) -> tuple[Array, Array]:
        points = np.clip(prior[rows] * np.exp(length * step[rows]), MIN_PARAMETER, MAX_PARAMETER)
        return points, np.log(points / prior[rows])

    return line_search(prior, _objective(prior, counts), gradient, objective, points_at, _MIN_STEP_LENGTH)
