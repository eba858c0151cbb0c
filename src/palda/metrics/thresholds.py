"""Thresholds of probabilities that maximise a measure.

Targets may be probabilities, such as a crowd's consensus; the measures are then those of expected counts. A threshold
chosen from few positives would overfit. The expected target of a calibrated probability is the probability itself, so
each target is averaged with it: the targets of a class with n expected positives have weight n / (n +
``PRIOR_POSITIVES``). Without positives, the best threshold for micro-F1 is then half of the F1 for every class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from palda.errors import DataError
from palda.metrics.inputs import check_cells, mean_of_known, probability_table, ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from palda.metrics.inputs import Floats

Measure: TypeAlias = Literal["micro_f1", "macro_f1", "jaccard"]

PRIOR_POSITIVES = 30.0
"""Number of expected positives at which targets and probabilities have equal weight."""

_HALF = 0.5
_MAX_ITER = 50
_MAX_SWEEPS = 10
_MIN_SWEEP_GAIN = 1e-6
_COMMON_GRID = np.linspace(0.05, 0.95, 19)


def choose_thresholds(targets: Any, probs: Any, measure: Measure = "micro_f1") -> Floats:
    """Thresholds that maximise a measure, exactly for F1 and approximately for Jaccard.

    Use out-of-fold probabilities. On the given data the result is never worse than ½ for every class.

    Parameters
    ----------
    targets : array of shape (documents, classes)
        Labels or probabilities of presence; -1 or NaN where unknown.
    probs : array of shape (documents, classes)
        Predicted probabilities.
    measure : "micro_f1", "macro_f1" or "jaccard", default "micro_f1"
        ``"jaccard"`` is the mean over documents of ``|both| / |either|``.

    Returns
    -------
    array of shape (classes,)
        Predict a class where its probability is at least the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from palda import metrics
    >>> probs = np.linspace(0.01, 0.99, 99)[:, None]
    >>> metrics.choose_thresholds(probs > 0.3, probs).round(3)
    array([0.305])
    """
    soft, table = _tables(targets, probs, measure)
    n_positive = np.nansum(soft, axis=0)
    weight = n_positive / (n_positive + PRIOR_POSITIVES)
    mixed = weight * soft  # NaN where unknown
    for i, share in enumerate(1.0 - weight):
        mixed[:, i] += share * table[:, i]
    chosen, common = _CHOOSERS[measure](mixed, table)
    del mixed
    candidates = (chosen, np.full(len(chosen), common), np.full(len(chosen), _HALF))
    reached = [_measure(soft, table, cuts, measure) for cuts in candidates]
    if np.isnan(reached[0]) or reached[0] >= reached[2]:
        return chosen
    return candidates[int(np.argmax(reached))]


def expected_measure(targets: Any, probs: Any, thresholds: Any, measure: Measure = "micro_f1") -> float:
    """Measure of the predictions at some thresholds, for targets that may be probabilities.

    For targets 0 and 1 it equals the measure of that name. Otherwise F1 is that of expected counts, and
    ``|both| / |either|`` of a document is the ratio of expected sizes, or the probability that no class is present if
    none is predicted.

    Parameters
    ----------
    targets, probs, measure
        As in :func:`choose_thresholds`.
    thresholds : float or array of shape (classes,)
        The thresholds.

    Returns
    -------
    float
        The measure.

    Examples
    --------
    >>> from palda import metrics
    >>> metrics.expected_measure([[1.0, 0.5]], [[0.9, 0.8]], 0.5)
    0.8571428571428571
    """
    return _measure(*_tables(targets, probs, measure), np.asarray(thresholds, dtype=np.float64), measure)


def _tables(targets: Any, probs: Any, measure: Measure) -> tuple[Floats, Floats]:
    """Targets with NaN for unknown, and probabilities; all arguments are checked."""
    if measure not in _CHOOSERS:
        raise DataError(f"measure is {measure!r}; choose from {', '.join(map(repr, _CHOOSERS))}")
    table = probability_table(probs)
    soft = np.asarray(targets.toarray() if hasattr(targets, "toarray") else targets, dtype=np.float64)
    soft = soft[:, np.newaxis] if soft.ndim == 1 else soft
    if soft.shape != table.shape:
        raise DataError(f"targets have shape {soft.shape}, probs {table.shape}; they must be equal")
    if (unknown := soft == -1.0).any():
        soft = np.where(unknown, np.nan, soft)
    inside = ~((soft < 0.0) | (soft > 1.0))
    check_cells(soft, inside, "targets", "give labels or probabilities, -1 or NaN where unknown")
    return soft, table


def _measure(soft: Floats, probs: Floats, thresholds: Floats, measure: Measure) -> float:
    known = ~np.isnan(soft)
    present = np.where(known, soft, 0.0)
    flags = (probs >= thresholds) & known
    if measure == "jaccard":
        return mean_of_known(_SetSizes.of(present, flags).values()[known.any(axis=1)])
    hits, sizes = (present * flags).sum(axis=0), present.sum(axis=0) + flags.sum(axis=0)
    if measure == "micro_f1":
        return float(ratio(2.0 * hits.sum(keepdims=True), sizes.sum(keepdims=True), empty=0.0)[0])
    return mean_of_known(np.where(known.any(axis=0), ratio(2.0 * hits, sizes, empty=0.0), np.nan))


@dataclass(frozen=True, eq=False)
class _Ranking:
    """Documents of one class by descending probability, and the possible cuts between distinct probabilities.

    Cut j predicts the class for the first ``n_flagged[j]`` documents; the first cut for none, the last one for all.
    """

    order: NDArray[np.intp]
    probs: Floats
    n_flagged: NDArray[np.intp]

    @classmethod
    def of(cls, probs: Floats, known: NDArray[np.bool_]) -> _Ranking:
        rows = np.flatnonzero(known)
        order = rows[np.argsort(-probs[rows], kind="stable")]
        ranked = probs[order]
        steps = np.flatnonzero(ranked[1:] < ranked[:-1]) + 1
        n_flagged = np.concatenate(([0], steps, [len(order)])) if len(order) else np.zeros(1, np.intp)
        return cls(order, ranked, n_flagged)

    def sums_at_cuts(self, values: Floats) -> Floats:
        """Sum of values over the flagged documents of each cut."""
        return np.concatenate(([0.0], np.cumsum(values[self.order])))[self.n_flagged]

    def threshold(self, cut: int, preferred: float) -> float:
        """Threshold of a cut: the preferred one if possible, else halfway between the neighbouring probabilities."""
        n_flagged = int(self.n_flagged[cut])
        above = float(self.probs[n_flagged - 1]) if n_flagged else float(np.nextafter(1.0, 2.0))
        below = float(self.probs[n_flagged]) if n_flagged < len(self.probs) else -1.0
        if below < preferred <= above:
            return preferred
        halfway = (max(below, 0.0) + above) / 2.0
        return halfway if below < halfway <= above else above


def _rankings(soft: Floats, probs: Floats) -> list[_Ranking]:
    return [_Ranking.of(column, ~np.isnan(target)) for column, target in zip(probs.T, soft.T, strict=True)]


def _for_micro_f1(soft: Floats, probs: Floats) -> tuple[Floats, float]:
    """Exact maximum by Dinkelbach's method: iterate the cuts that maximise 2 hits - F flags, and F."""
    rankings, hits, total, best = [], [], 0.0, 0.0
    for column, target in zip(probs.T, soft.T, strict=True):
        present, ranking = np.nan_to_num(target), _Ranking.of(column, ~np.isnan(target))
        hits.append(ranking.sums_at_cuts(present))
        rankings.append(replace(ranking, order=np.empty(0, np.intp)))  # not needed any more
        total += float(present.sum())
    cuts = [0] * len(rankings)
    for _ in range(_MAX_ITER):
        cuts = [int(np.argmax(2.0 * hit - best * rank.n_flagged)) for rank, hit in zip(rankings, hits, strict=True)]
        n_hits = sum(hit[cut] for hit, cut in zip(hits, cuts, strict=True))
        n_flagged = sum(int(rank.n_flagged[cut]) for rank, cut in zip(rankings, cuts, strict=True))
        reached = 2.0 * n_hits / (total + n_flagged) if total + n_flagged else 0.0
        if reached <= best:
            break
        best = float(reached)
    common = best / 2.0 or _HALF
    return np.array([rank.threshold(cut, common) for rank, cut in zip(rankings, cuts, strict=True)]), common


def _for_macro_f1(soft: Floats, probs: Floats) -> tuple[Floats, float]:
    """Best cut of each class on its own."""
    thresholds = []
    for ranking, column in zip(_rankings(soft, probs), np.nan_to_num(soft).T, strict=True):
        hits = ranking.sums_at_cuts(column)
        f1 = ratio(2.0 * hits, column.sum() + ranking.n_flagged, empty=0.0)
        cut = int(np.argmax(f1))
        thresholds.append(ranking.threshold(cut, float(f1[cut]) / 2.0 or _HALF))
    return np.array(thresholds), float(np.median(thresholds)) if thresholds else _HALF


@dataclass(eq=False)
class _SetSizes:
    """Expected sizes of the label sets of each document: present, flagged, and both."""

    present: Floats
    flagged: Floats
    both: Floats
    nothing_present: Floats

    @classmethod
    def of(cls, present: Floats, flags: NDArray[np.bool_]) -> _SetSizes:
        return cls(
            present.sum(axis=1),
            flags.sum(axis=1).astype(np.float64),
            (present * flags).sum(axis=1),
            np.prod(1.0 - present, axis=1),
        )

    def values(self) -> Floats:
        """|both| / |either|, or the probability that no class is present where none is flagged."""
        either = self.present + self.flagged - self.both
        return np.where(self.flagged > 0, ratio(self.both, either), self.nothing_present)

    def flag(self, column: Floats, by: Floats) -> None:
        """Change the flags of a class with targets ``column`` by 1, 0 or -1 per document."""
        self.flagged += by
        self.both += by * column


def _for_jaccard(soft: Floats, probs: Floats) -> tuple[Floats, float]:
    """Coordinate ascent from the best common threshold: best cut of one class at a time, given the other classes."""
    known = ~np.isnan(soft)
    present = np.nan_to_num(soft)
    common = float(max(_COMMON_GRID, key=lambda cut: _measure(soft, probs, np.full(probs.shape[1], cut), "jaccard")))
    thresholds = np.full(probs.shape[1], common)
    flags = (probs >= thresholds) & known
    sets, rankings = _SetSizes.of(present, flags), _rankings(soft, probs)
    before = -np.inf
    for _ in range(_MAX_SWEEPS):
        for i, ranking in enumerate(rankings):
            sets.flag(present[:, i], -flags[:, i].astype(np.float64))
            without = sets.values()
            sets.flag(present[:, i], np.ones(len(probs)))
            gains = sets.values() - without
            thresholds[i] = ranking.threshold(int(np.argmax(ranking.sums_at_cuts(gains))), common)
            flags[:, i] = (probs[:, i] >= thresholds[i]) & known[:, i]
            sets.flag(present[:, i], flags[:, i].astype(np.float64) - 1.0)
        reached = float(sets.values().mean()) if len(probs) else 0.0
        if reached < before + _MIN_SWEEP_GAIN:
            break
        before = reached
    return thresholds, common


_CHOOSERS: dict[Measure, Callable[[Floats, Floats], tuple[Floats, float]]] = {
    "micro_f1": _for_micro_f1,
    "macro_f1": _for_macro_f1,
    "jaccard": _for_jaccard,
}
