"""Soft votes: what the probability that an annotator states is worth, beyond the vote itself.

A soft vote is a hard vote and a strength: how probable the annotator holds the value they vote for. The strengths of a
source (an annotator, or whatever else holds rates) are ranked within its votes of each value and cut into a few levels
of about equal size, so that overconfident and underconfident sources need no other treatment than calibrated ones. A
vote of value v has level s with probability P(s | v, state of the label), which is learned for each source and pooled
over all (maths, eqs. 69 to 74). Votes without a probability of a source that states some have a level of their own.
Sources that state none have no levels, and their votes count as they always did.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, logit

from palda.data import ArraySpec, Votes, vote_blocks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Array, VoteRows

N_LEVELS = 8
"""Levels of strength per source and value.

Consensus from calibrated confidences in full, two votes per document, 1500 simulated news, five seeds: micro-F1 .883
with 4 levels, .889 with 6, .891 with 8 and with 10; hard votes .785.
"""

SHARED_WEIGHT = 0.5
"""What all strengths on a label together count beside the support model, as a share of one of them.

People who are certain are certain of the same labels, and of the same wrong ones. On headlines with scores of people
(``python -m benchmarks soft_votes real``) the log-likelihood per label is -.238 to -.339, that of hard votes -.230 to
-.336; with strengths that counted in full, and were learned together with the labels, it was .04 to .27 below hard
votes. On simulated news, whose strengths are independent, micro-F1 is .855 (hard votes .837, in full .93).
"""

_LEARNING_STEPS, _LEARNING_TOL = 30, 1e-3  # of levels from labels, and nats by which tilts may still change
_MIN_PROB = 1e-6  # probabilities closer to 0 and 1 are equally strong
_FINEST, _BINS_PER_UNIT = 0.05, 25  # bins of strength: 0.002 nats wide near 0, 4% of the strength elsewhere
_N_BINS = 330  # around 0
_ROWS_AT_ONCE = 1000  # sources whose levels are cut at a time
_SHARED_VOTES = 10.0  # weight in votes of all sources together in the cuts of one source
_MIN_PARAMETER = 0.5  # below ½, E[log P] would punish one vote by dozens of nats
_STRENGTHS = tuple(2.0**power for power in range(1, 11))  # that the prior of a source may have, in votes
_START_STRENGTH = 16.0
_SLOPE_DEVIATION, _BEND_DEVIATION = 1.0, 0.1  # nats: how steep tilts may be, and how far from a straight line
_MAX_HALVINGS = 20


@dataclass(frozen=True)
class LevelBelief:
    """Dirichlet beliefs about the levels of each source that states probabilities (maths, eqs. 70 to 72).

    The last row of all tables is a typical source, for sources that were not there when the levels were made. The last
    level is that of votes without a probability.
    """

    row: NDArray[np.int64]  # (sources,): row of each source in the other tables, -1 for sources without soft votes
    cuts: NDArray[np.int64]  # (rows, 2, levels - 2): last bin of strengths of each level but the highest, by value
    shares: Array  # (rows, 2, levels): share of each level among the votes of each value
    tilt: Array  # (2, 2, levels): pooled log-ratio of each level to its share, by value and state
    strength: float  # votes that the pooled prior of a source is worth
    posterior: Array  # (rows, 2, 2, levels): Dirichlet parameters, by value and state; 0 for levels that do not occur

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tables of counts: (rows, values, states, levels)."""
        return self.posterior.shape

    @cached_property
    def log_probs(self) -> Array:
        """(rows, 2, 2, levels): E[log P(level | value, state)]; 0 for levels that do not occur."""
        used = self.posterior > 0
        safe = np.where(used, self.posterior, 1.0)
        totals = np.maximum(self.posterior.sum(axis=-1, keepdims=True), _MIN_PARAMETER)
        return np.where(used, digamma(safe) - digamma(totals), 0.0)

    @cached_property
    def log_ratios(self) -> Array:
        """(rows, 2, levels): what a vote adds to the log-odds of its label besides its value (maths, eq. 73)."""
        ratios: Array = self.log_probs[:, :, 1] - self.log_probs[:, :, 0]
        return ratios

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone; cached properties can be computed again."""
        return {spec.name: getattr(self, spec.name) for spec in fields(self)}

    def take(self, sources: NDArray[np.int64]) -> LevelBelief:
        """Beliefs about other sources, or in another order; each has that of the source at a position."""
        return replace(self, row=self.row[sources])

    def with_new_sources(self, n_new: int) -> LevelBelief:
        """The same beliefs plus ``n_new`` typical sources."""
        return replace(self, row=np.append(self.row, np.full(n_new, len(self.posterior) - 1, dtype=np.int64)))


_N_ROWS = "sources with levels"
LEVEL_ARRAYS = {
    "posterior": ArraySpec((_N_ROWS, 2, 2, N_LEVELS + 1), low=0.0, group="levels"),
    "row": ArraySpec(("annotators",), "int64", low=-1, below=_N_ROWS, group="levels"),
    "cuts": ArraySpec((_N_ROWS, 2, N_LEVELS - 1), "int64", low=0, high=_N_BINS, group="levels"),
    "shares": ArraySpec((_N_ROWS, 2, N_LEVELS + 1), low=0.0, high=1.0 + 1e-9, group="levels"),
    "tilt": ArraySpec((2, 2, N_LEVELS + 1), low=-100.0, high=100.0, group="levels"),
    "strength": ArraySpec((), above=0.0, high=1e6, group="levels"),
}
"""Schema of a ``LevelBelief`` in a file; files without soft votes have none."""


def levels_to_arrays(levels: LevelBelief) -> dict[str, NDArray[Any]]:
    """The beliefs as named arrays of a file."""
    return {name: np.asarray(getattr(levels, name)) for name in LEVEL_ARRAYS}


def levels_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> LevelBelief | None:
    """The beliefs from the arrays of a file, which match ``LEVEL_ARRAYS``; None without arrays."""
    if not arrays:
        return None
    return LevelBelief(**{**arrays, "strength": float(arrays["strength"])})  # type: ignore[arg-type]


class SoftVotes(NamedTuple):
    """Votes of sources with levels: cell of each in a flat table (rows, values, levels), and its (document, class)."""

    cell: NDArray[np.int32]
    pair: NDArray[np.int64]


def start_levels(votes: VoteRows) -> LevelBelief | None:
    """Levels before the first vote is weighed: no level says anything yet; None if all votes are hard.

    Two passes over the votes: sources that state any probability, and their histograms of strengths.
    """
    if isinstance(votes, Votes) and not len(votes.probability):
        return None
    is_soft = reduce(np.logical_or, (_states_any(some) for _, some in vote_blocks(votes)))
    if not is_soft.any():
        return None
    n_rows = int(np.count_nonzero(is_soft))
    row = np.full(votes.n_annotators, -1, dtype=np.int64)
    row[is_soft] = np.arange(n_rows)
    histogram = np.zeros((n_rows, 2, _N_BINS + 1), dtype=np.int32)
    for _, some in vote_blocks(votes):
        histogram += _histogram(some, row, n_rows)
    return _belief_of_histogram(histogram, row)


def _states_any(votes: Votes) -> NDArray[np.bool_]:
    """(sources,): whether a source states a probability."""
    states = np.zeros(votes.n_annotators, dtype=bool)
    if len(votes.probability):
        states[votes.annotator[~np.isnan(votes.probability)]] = True
    return states


def _bins(votes: Votes, mine: NDArray[np.int64]) -> NDArray[np.int64]:
    """(votes of ``mine``,): bin of the strength of each vote (maths, eq. 69); the last one is "not stated"."""
    if not len(votes.probability):
        return np.full(len(mine), _N_BINS, dtype=np.int64)
    log_odds = logit(np.clip(votes.probability[mine].astype(np.float64), _MIN_PROB, 1.0 - _MIN_PROB))
    strengths = np.where(votes.value[mine] == 1, log_odds, -log_odds)
    bins = np.floor(_BINS_PER_UNIT * np.arcsinh(strengths / _FINEST)) + _N_BINS // 2
    bins = np.clip(bins, 0, _N_BINS - 1)
    return np.where(np.isnan(bins), _N_BINS, bins).astype(np.int64)


def _histogram(votes: Votes, row: NDArray[np.int64], n_rows: int) -> NDArray[np.int32]:
    """(rows, 2, bins + 1): number of votes per source, value and bin of strength."""
    mine = np.flatnonzero(row[votes.annotator] >= 0)
    cell = (row[votes.annotator[mine]] * 2 + votes.value[mine]) * (_N_BINS + 1) + _bins(votes, mine)
    counts = np.bincount(cell, minlength=n_rows * 2 * (_N_BINS + 1))
    return counts.reshape(n_rows, 2, _N_BINS + 1).astype(np.int32)


def _belief_of_histogram(histogram: NDArray[np.int32], row: NDArray[np.int64]) -> LevelBelief:
    shared = histogram.sum(axis=0, dtype=np.float64)[None, :, :-1]
    shared /= np.maximum(shared.sum(axis=-1, keepdims=True), 1.0)
    parts = [
        _cut(histogram[start : start + _ROWS_AT_ONCE].astype(np.float64), shared)
        for start in range(0, len(histogram), _ROWS_AT_ONCE)
    ]
    parts.append(_cut(np.append(shared, np.zeros((1, 2, 1)), axis=-1), shared))  # a typical source
    cuts, shares = (np.concatenate(tables) for tables in zip(*parts, strict=True))
    tilt = np.zeros((2, 2, N_LEVELS + 1))
    return LevelBelief(row, cuts, shares, tilt, _START_STRENGTH, _prior(shares, tilt, _START_STRENGTH))


def _cut(histogram: Array, shared: Array) -> tuple[NDArray[np.int64], Array]:
    """Cuts (rows, 2, levels - 1) at quantiles of the strengths, and the share (rows, 2, levels + 1) of each level."""
    cumulative = np.cumsum(histogram[..., :-1] + _SHARED_VOTES * shared, axis=-1)
    cumulative /= np.maximum(cumulative[..., -1:], np.finfo(float).tiny)
    wanted = np.arange(1, N_LEVELS) / N_LEVELS
    cuts = np.stack([(cumulative < share).sum(axis=-1) for share in wanted], axis=-1)
    level = (np.arange(_N_BINS) > cuts[..., None]).sum(axis=-2)  # (rows, 2, bins)
    counts = [np.where(level == one, histogram[..., :-1], 0.0).sum(axis=-1) for one in range(N_LEVELS)]
    table = np.stack([*counts, histogram[..., -1]], axis=-1)
    return cuts, table / np.maximum(table.sum(axis=-1, keepdims=True), np.finfo(float).tiny)


def soft_votes(votes: Votes, levels: LevelBelief) -> SoftVotes:
    """Cells of the votes of sources with levels."""
    mine = np.flatnonzero(levels.row[votes.annotator] >= 0)
    row, value = levels.row[votes.annotator[mine]], votes.value[mine].astype(np.int64)
    bins = _bins(votes, mine)
    level = np.zeros(len(mine), dtype=np.int64)
    for cut in range(levels.cuts.shape[-1]):
        level += bins > levels.cuts[row, value, cut]
    level[bins == _N_BINS] = levels.shape[-1] - 1
    cell = (row * 2 + value) * levels.shape[-1] + level
    return SoftVotes(cell.astype(np.int32), votes.pair[mine])


def level_evidence(soft: SoftVotes, table: Array, shape: tuple[int, int]) -> Array:
    """(documents, classes): Σ over the soft votes on each label of a table (rows, values, levels)."""
    sums = np.bincount(soft.pair, table.ravel()[soft.cell], minlength=shape[0] * shape[1])
    return sums.reshape(shape).astype(np.float64, copy=False)


def shared_level_evidence(soft: SoftVotes, table: Array, shape: tuple[int, int]) -> Array:
    """(documents, classes): mean over the soft votes on each label of a table, times ``SHARED_WEIGHT``."""
    n_soft = np.bincount(soft.pair, minlength=shape[0] * shape[1]).reshape(shape)
    mean: Array = SHARED_WEIGHT * level_evidence(soft, table, shape) / np.maximum(n_soft, 1)
    return mean


def learned_levels(soft: Sequence[SoftVotes], label_probs: Sequence[Array], levels: LevelBelief) -> LevelBelief:
    """Beliefs that follow from labels, of some shards, which the levels have not taken part in."""
    n_votes = reduce(np.add, (votes_per_level(own, levels) for own in soft))
    present = reduce(np.add, (present_per_level(*both, levels) for both in zip(soft, label_probs, strict=True)))
    for _ in range(_LEARNING_STEPS):
        before, levels = levels.tilt, update_levels(n_votes, present, levels)
        if np.abs(levels.tilt - before).max() < _LEARNING_TOL:
            break
    return levels


def votes_per_level(soft: SoftVotes, levels: LevelBelief) -> Array:
    """(rows, 2, levels): number of votes."""
    rows, values, _, n_levels = levels.shape
    counts = np.bincount(soft.cell, minlength=rows * values * n_levels)
    return counts.reshape(rows, values, n_levels).astype(np.float64)


def present_per_level(soft: SoftVotes, label_probs: Array, levels: LevelBelief) -> Array:
    """(rows, 2, levels): expected number of votes on labels that are present."""
    rows, values, _, n_levels = levels.shape
    present = np.bincount(soft.cell, label_probs.ravel()[soft.pair], minlength=rows * values * n_levels)
    return present.reshape(rows, values, n_levels).astype(np.float64, copy=False)


def update_levels(n_votes: Array, present_votes: Array, levels: LevelBelief) -> LevelBelief:
    """Beliefs that increase the bound, given the expected counts (maths, eqs. 72 and 74).

    First the pooled prior, by its marginal likelihood with a line search; then every source's posterior.
    """
    absent = np.maximum(n_votes - present_votes, 0.0)  # a difference of sums may fall below 0 by rounding
    counts = np.stack((absent, present_votes), axis=2)
    tilt = np.stack(
        [
            np.stack(
                [
                    _better_tilt(counts[:, value, state], levels.shares[:, value], levels.tilt[value, state], levels)
                    for state in (0, 1)
                ]
            )
            for value in (0, 1)
        ]
    )
    tilted = replace(levels, tilt=tilt)
    place = _STRENGTHS.index(levels.strength) if levels.strength in _STRENGTHS else 0
    near = _STRENGTHS[max(place - 1, 0) : place + 2]
    strength = max(near, key=lambda one: (_marginal_likelihood(counts, tilted, one), one == levels.strength))
    prior = _prior(levels.shares, tilt, strength)
    return replace(levels, tilt=tilt, strength=strength, posterior=np.where(prior > 0, prior + counts, 0.0))


def level_divergence(levels: LevelBelief) -> float:
    """Cost of the beliefs in the bound: divergence of all posteriors, and of the tilts from 0 (maths, eq. 74)."""
    prior = _prior(levels.shares, levels.tilt, levels.strength)
    normalisers = _log_beta(prior) - _log_beta(levels.posterior)
    divergence = float(np.sum(normalisers) + np.sum((levels.posterior - prior) * levels.log_probs))
    return divergence + _tilt_cost(levels.tilt)


def _tilt_precision(n_levels: int) -> Array:
    """(levels, levels): precision of the prior of the tilts, a straight line over the levels with small deviations.

    Noise in many levels then changes little, while confidences that are worth something mostly are so monotonically.
    """
    line = np.append(np.linspace(-1.0, 1.0, n_levels - 1), 0.0)
    deviations = np.append(np.full(n_levels - 1, _BEND_DEVIATION), _SLOPE_DEVIATION)  # the last level is on no line
    covariance = _SLOPE_DEVIATION**2 * np.outer(line, line) + np.diag(deviations**2)
    return np.asarray(np.linalg.inv(covariance), dtype=np.float64)


def _tilt_cost(tilt: Array) -> float:
    return 0.5 * float(np.sum((tilt @ _tilt_precision(tilt.shape[-1])) * tilt))


def _log_beta(parameters: Array) -> Array:
    """Logarithms of the normalisers of Dirichlet distributions along the last axis, over parameters above 0."""
    used = parameters > 0
    totals = np.maximum(parameters.sum(axis=-1), _MIN_PARAMETER)
    result: Array = np.where(used, gammaln(np.where(used, parameters, 1.0)), 0.0).sum(axis=-1) - gammaln(totals)
    return np.where(used.any(axis=-1), result, 0.0)


def _means(shares: Array, tilt: Array) -> Array:
    """(..., levels): shares times exp(tilt), normalised; 0 where a share is 0."""
    weights: Array = shares * np.exp(tilt)
    means: Array = weights / np.maximum(weights.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
    return means


def _prior(shares: Array, tilt: Array, strength: float) -> Array:
    """(rows, 2, 2, levels): Dirichlet parameters of the pooled prior of each source (maths, eq. 71)."""
    shares = shares[:, :, None]
    return np.where(shares > 0, _MIN_PARAMETER + strength * _means(shares, tilt), 0.0)


def _marginal_likelihood(counts: Array, levels: LevelBelief, strength: float) -> float:
    prior = _prior(levels.shares, levels.tilt, strength)
    return float(np.sum(_log_beta(np.where(prior > 0, prior + counts, 0.0)) - _log_beta(prior)))


def _better_tilt(counts: Array, shares: Array, tilt: Array, levels: LevelBelief) -> Array:
    """Tilts (levels,) of one value and state after a step that increases the bound; counts and shares (rows, levels).

    The step multiplies the pooled means by effective counts over those expected from the means, as fixed points of
    Dirichlet-multinomial distributions do. It is halved until the bound grows.
    """
    used = shares > 0

    def objective(candidate: Array) -> float:
        prior = np.where(used, _MIN_PARAMETER + levels.strength * _means(shares, candidate), 0.0)
        gain = np.sum(_log_beta(np.where(used, prior + counts, 0.0)) - _log_beta(prior))
        return float(gain) - _tilt_cost(candidate)

    means = _means(shares, tilt)
    prior = np.where(used, _MIN_PARAMETER + levels.strength * means, 1.0)
    slopes = np.where(used, digamma(prior + np.where(used, counts, 0.0)) - digamma(prior), 0.0)
    effective = levels.strength * means * slopes
    expected = means * effective.sum(axis=-1, keepdims=True)
    precision = _tilt_precision(len(tilt))
    gradient = (effective - expected).sum(axis=0) - precision @ tilt
    step = np.linalg.solve(precision + np.diag(expected.sum(axis=0)), gradient)
    before = objective(tilt)
    for _ in range(_MAX_HALVINGS):
        if objective(tilt + step) >= before:
            return np.asarray(tilt + step)
        step = step / 2.0
    return tilt


def calibration_curves(votes: VoteRows, label_probs: Array, levels: LevelBelief | None) -> pd.DataFrame:
    """Stated probabilities against the consensus, per annotator and level of strength.

    Of a calibrated annotator, the labels of the votes of a level are present with the probability that was stated, on
    average. The consensus contains the votes themselves; where a label has one vote only, a curve shows little else.

    Parameters
    ----------
    votes : Votes or stored votes
        The votes; those without a probability are left out.
    label_probs : array of shape (documents, classes)
        Consensus: probability of each label.
    levels : LevelBelief or None
        Levels of the votes; None for hard votes, which have no curve.

    Returns
    -------
    DataFrame
        One row per annotator, value of the vote and level that occurs, by ascending stated probability. Columns:
        ``annotator``; ``value`` (1 or 0); ``level`` (0 is the weakest); ``n_votes``; ``stated``, the mean stated
        probability of "present"; ``consensus``, the mean probability of the labels that these votes are about.
    """
    import pandas as pd

    shape = (votes.n_annotators, 2, N_LEVELS)
    sums = np.zeros((3, *shape))
    for rows, some in vote_blocks(votes) if levels is not None else ():
        if levels is None or not len(some.probability):
            continue
        level = soft_votes(some, levels).cell % levels.shape[-1]
        mine = np.flatnonzero(levels.row[some.annotator] >= 0)
        stated = level < N_LEVELS
        chosen = mine[stated]
        cell = (some.annotator[chosen].astype(np.int64) * 2 + some.value[chosen]) * N_LEVELS + level[stated]
        weights = (None, some.probability[chosen], label_probs[rows].ravel()[some.pair[chosen]])
        sums += [np.bincount(cell, weight, minlength=int(np.prod(shape))).reshape(shape) for weight in weights]
    annotator, value, strength = np.nonzero(sums[0])
    n_votes, stated_sums, consensus = sums[:, annotator, value, strength]
    frame = pd.DataFrame(
        {
            "annotator": votes.annotators[annotator],
            "value": value,
            "level": strength,
            "n_votes": n_votes.astype(np.int64),
            "stated": stated_sums / n_votes,
            "consensus": consensus / n_votes,
        }
    )
    order = np.lexsort((frame["stated"], annotator))
    return frame.iloc[order].reset_index(drop=True)
