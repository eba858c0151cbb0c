"""The Beta prior that annotators of a pool share, learned from all of them together (empirical Bayes).

The pool always has one imaginary member, of whom ``IMAGINARY`` is believed: a little better than chance, and vaguely.
Its divergence from the prior is part of the bound, as everybody's is. It keeps the prior from degenerating: with few
annotators or few votes the prior stays near it, and however alike annotators are, the prior's strength stays finite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaln, digamma, polygamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["IMAGINARY", "LEAST", "MOST", "beta_divergence", "expected_logs", "fit_pool", "pool_divergence"]

IMAGINARY = (3.5, 1.5)
"""Beta parameters of the belief about the imaginary member: a mean of .7, worth five votes."""

LEAST, MOST = 0.5, 1000.0
"""The prior is maximised with both parameters in this box; below ½, E[log rate] punishes one slip by dozens of nats."""

_MAX_STEPS = 50
_ENOUGH = 1e-10  # nats still to be gained
_SUFFICIENT = 1e-4  # share of the promised gain that a step must keep
_LONGEST = 2.0  # step in a parameter's logarithm
_CURVED = 1e-6  # least curvature a step is computed with, relative to the largest


def expected_logs(betas: Array) -> Array:
    """E[log rate] and E[log(1 - rate)] of Beta distributions along the last axis."""
    logs: Array = digamma(betas) - digamma(betas.sum(axis=-1, keepdims=True))
    return logs


def beta_divergence(posterior: Array, prior: Array) -> float:
    """Σ KL(posterior || prior) of Beta distributions along the last axis."""
    normalisers = _log_beta(prior) - _log_beta(posterior)
    return float(np.sum(normalisers) + np.sum((posterior - prior) * expected_logs(posterior)))


def pool_divergence(pool: Array) -> float:
    """What the pool's prior costs: the divergence of the imaginary member of every rate."""
    return beta_divergence(np.broadcast_to(IMAGINARY, pool.shape), pool)


def fit_pool(counts: Array, start: Array, max_steps: int = _MAX_STEPS) -> Array:
    """Beta parameters (rates, 2) that maximise Σ_k [ln B(prior + counts_k) - ln B(prior)] less the imaginary KL.

    ``counts`` is (annotators, rates, 2). This is the bound with every q(rate) at its best for the prior: the marginal
    likelihood of right and wrong votes (maths, eq. 39). Annotators without votes drop out of it. Newton steps in the
    logarithms, each taken only as far as it gains: the result is never worse than ``start``.
    """
    prior = np.clip(start, LEAST, MOST)
    moving = np.arange(len(prior))
    for _ in range(max_steps):
        step, promise = _newton_step(prior[moving], counts[:, moving])
        found, gained = _line_search(prior[moving], counts[:, moving], step)
        prior[moving] = found
        moving = moving[gained & (promise > _ENOUGH)]
        if not len(moving):
            break
    return prior


def _log_beta(betas: Array) -> Array:
    result: Array = betaln(betas[..., 0], betas[..., 1])
    return result


def _objective(prior: Array, counts: Array) -> Array:
    """(rates,): what is maximised, up to a constant."""
    votes = np.sum(_log_beta(prior + counts) - _log_beta(prior), axis=0)
    result: Array = votes - _log_beta(prior) + prior @ expected_logs(np.array(IMAGINARY))
    return result


def _slope(prior: Array, counts: Array) -> Array:
    """(rates, 2): gradient in the logarithms of the parameters."""
    votes = np.sum(expected_logs(prior + counts) - expected_logs(prior), axis=0)
    result: Array = prior * (votes + expected_logs(np.array(IMAGINARY)) - expected_logs(prior))
    return result


def _bend(prior: Array, counts: Array, slope: Array) -> Array:
    """(rates, 2, 2): Hessian in the logarithms of the parameters."""
    weight = len(counts) + 1  # everybody, and the imaginary member
    own = np.sum(polygamma(1, prior + counts), axis=0) - weight * polygamma(1, prior)
    shared = weight * polygamma(1, prior.sum(axis=-1)) - np.sum(polygamma(1, (prior + counts).sum(axis=-1)), axis=0)
    bend: Array = shared[:, None, None] * prior[:, :, None] * prior[:, None, :]
    diagonal = np.arange(2)
    bend[:, diagonal, diagonal] += own * prior**2 + slope
    return bend


def _newton_step(prior: Array, counts: Array) -> tuple[Array, Array]:
    """Uphill step of each row in the logarithms, and the gain it promises to first order."""
    slope = _slope(prior, counts)
    bend = _bend(prior, counts, slope)
    held = ((prior <= LEAST) & (slope < 0)) | ((prior >= MOST) & (slope > 0))
    slope = np.where(held, 0.0, slope)
    bend = np.where(held[:, :, None] | held[:, None, :], 0.0, bend)
    curvatures, directions = np.linalg.eigh(bend)
    size = np.abs(curvatures)  # a saddle is left uphill
    size = np.maximum(size, np.maximum(_CURVED * size.max(axis=1, keepdims=True), _ENOUGH))
    step = np.einsum("rij,rj->ri", directions, np.einsum("rij,ri->rj", directions, slope) / size)
    step *= np.minimum(1.0, _LONGEST / np.maximum(np.abs(step).max(axis=1, keepdims=True), _LONGEST))
    return step, np.sum(slope * step, axis=1)


def _line_search(prior: Array, counts: Array, step: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Longest of the steps 1, ½, ¼, ... inside the box that keeps its promise; rows that found none stay."""
    before = _objective(prior, counts)
    slope = _slope(prior, counts)
    result = prior.copy()
    gained = np.zeros(len(prior), dtype=bool)
    length = 1.0
    while length > 1e-9 and not gained.all():
        rows = np.flatnonzero(~gained)
        tried = np.clip(prior[rows] * np.exp(length * step[rows]), LEAST, MOST)
        promised = np.sum(slope[rows] * np.log(tried / prior[rows]), axis=1)
        kept = (promised > 0) & (_objective(tried, counts[:, rows]) >= before[rows] + _SUFFICIENT * promised)
        result[rows[kept]] = tried[kept]
        gained[rows[kept]] = True
        length /= 2
    return result, gained
