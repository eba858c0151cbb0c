"""Thresholds: from which probability on a class is predicted, so that a measure is highest.

Targets may be soft, a crowd's consensus say; the measures are then those of expected counts. A threshold chosen from
few positives would fit their luck. Where probabilities are calibrated, the expected target *is* the probability, so
each target is mixed with it: a class with n expected positives weighs its own targets n / (n + ``PRIOR``). With no
evidence at all the best threshold under micro-F1 is then half of the F1 reached, the same for every class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from palda.errors import DataError
from palda.metrics.tables import mean_of_known, probability_table, ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from palda.metrics.tables import Floats

__all__ = ["PRIOR", "Measure", "choose_thresholds", "expected_measure"]

Measure: TypeAlias = Literal["micro_f1", "macro_f1", "jaccard"]

PRIOR = 30.0
"""Expected positives at which a class's own targets and its probabilities weigh the same."""

_HALF = 0.5
_MAX_ROUNDS = 50
_MAX_SWEEPS = 10
_WORTH_A_SWEEP = 1e-6
_COMMON = np.linspace(0.05, 0.95, 19)


def choose_thresholds(targets: Any, probs: Any, measure: Measure = "micro_f1") -> Floats:
    """Threshold of each class; predicting where ``probs`` reach it gives the highest measure, or nearly.

    Choose on probabilities that have not seen the targets (out of fold). On the data it was chosen on, the result is
    never worse than ½ for every class.

    Parameters
    ----------
    targets
        Labels or probabilities of presence (documents, classes); -1 or NaN where unknown.
    probs
        Predicted probabilities (documents, classes).
    measure
        ``"micro_f1"``, ``"macro_f1"``, or ``"jaccard"``: the mean over documents of ``|both| / |either|``.
    """
    if measure not in _CHOOSERS:
        raise DataError(f"measure is {measure!r}; choose from {', '.join(map(repr, _CHOOSERS))}")
    soft, given = _tables(targets, probs)
    known = ~np.isnan(soft)
    n_positive = np.where(known, soft, 0.0).sum(axis=0)
    trust = n_positive / (n_positive + PRIOR)
    mixed = np.where(known, trust * soft + (1.0 - trust) * given, np.nan)
    chosen, common = _CHOOSERS[measure](np.asfortranarray(mixed), np.asfortranarray(given))  # read class by class
    candidates = (chosen, np.full(len(chosen), common), np.full(len(chosen), _HALF))
    reached = [_measure(soft, given, cuts, measure) for cuts in candidates]
    if np.isnan(reached[0]) or reached[0] >= reached[2]:
        return chosen
    return candidates[int(np.argmax(reached))]


def expected_measure(targets: Any, probs: Any, thresholds: Any, measure: Measure = "micro_f1") -> float:
    """What predictions at the thresholds reach; equal to the measure of that name when targets are 1 and 0.

    For soft targets, F1 is that of expected counts, and a document's ``|both| / |either|`` is the ratio of expected
    sizes; where nothing is predicted it is the probability that nothing is present.
    """
    if measure not in _CHOOSERS:
        raise DataError(f"measure is {measure!r}; choose from {', '.join(map(repr, _CHOOSERS))}")
    return _measure(*_tables(targets, probs), np.asarray(thresholds, dtype=np.float64), measure)


def _tables(targets: Any, probs: Any) -> tuple[Floats, Floats]:
    """Targets with NaN for unknown, and probabilities."""
    given = probability_table(probs)
    soft = np.array(targets.toarray() if hasattr(targets, "toarray") else targets, dtype=np.float64)
    soft = soft[:, np.newaxis] if soft.ndim == 1 else soft
    if soft.shape != given.shape:
        raise DataError(f"targets have shape {soft.shape}, probs {given.shape}; they must be equal")
    soft[soft == -1.0] = np.nan
    unsound = np.argwhere((soft < 0.0) | (soft > 1.0))
    if len(unsound):
        row, column = (int(place) for place in unsound[0])
        raise DataError(
            f"target {soft[row, column]} of document {row}, class {column} is not a probability; "
            "give labels or probabilities, -1 or NaN where unknown"
        )
    return soft, given


def _measure(soft: Floats, probs: Floats, thresholds: Floats, measure: Measure) -> float:
    known = ~np.isnan(soft)
    present = np.where(known, soft, 0.0)
    flags = (probs >= thresholds) & known
    if measure == "jaccard":
        return mean_of_known(_Sets.of(present, flags).values()[known.any(axis=1)])
    hits, sizes = (present * flags).sum(axis=0), present.sum(axis=0) + flags.sum(axis=0)
    if measure == "micro_f1":
        return float(ratio(2.0 * hits.sum(keepdims=True), sizes.sum(keepdims=True), empty=0.0)[0])
    return mean_of_known(np.where(known.any(axis=0), ratio(2.0 * hits, sizes, empty=0.0), np.nan))


@dataclass(frozen=True, eq=False)
class _Ranking:
    """Documents of one class from its highest probability down, and where equal probabilities allow a cut.

    Cut j flags the first ``n_flagged[j]`` documents; the first cut flags none and the last one all.
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
        return cls(order, ranked, np.concatenate(([0], steps, [len(order)])) if len(order) else np.zeros(1, np.intp))

    def sums_at_cuts(self, values: Floats) -> Floats:
        """Sum of values over the documents that each cut flags."""
        return np.concatenate(([0.0], np.cumsum(values[self.order])))[self.n_flagged]

    def threshold(self, cut: int, preferred: float) -> float:
        """Threshold that makes the cut: the preferred one if it does, else halfway between its neighbours."""
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
    """Exact maximum by Dinkelbach's method: at the best F, no cut gains more than 2 hits - F flags elsewhere."""
    rankings = _rankings(soft, probs)
    present = np.nan_to_num(soft)
    hits = [ranking.sums_at_cuts(column) for ranking, column in zip(rankings, present.T, strict=True)]
    total, best = present.sum(), 0.0
    cuts = [0] * len(rankings)
    for _ in range(_MAX_ROUNDS):
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
    """Best cut of each class by itself."""
    thresholds = []
    for ranking, column in zip(_rankings(soft, probs), np.nan_to_num(soft).T, strict=True):
        hits = ranking.sums_at_cuts(column)
        f1 = ratio(2.0 * hits, column.sum() + ranking.n_flagged, empty=0.0)
        cut = int(np.argmax(f1))
        thresholds.append(ranking.threshold(cut, float(f1[cut]) / 2.0 or _HALF))
    return np.array(thresholds), float(np.median(thresholds)) if thresholds else _HALF


@dataclass(eq=False)
class _Sets:
    """Expected sizes of each document's label sets: what is present, flagged, and both."""

    present: Floats
    flagged: Floats
    both: Floats
    nothing_present: Floats

    @classmethod
    def of(cls, present: Floats, flags: NDArray[np.bool_]) -> _Sets:
        return cls(
            present.sum(axis=1),
            flags.sum(axis=1).astype(np.float64),
            (present * flags).sum(axis=1),
            np.prod(1.0 - present, axis=1),
        )

    def values(self) -> Floats:
        """|both| / |either|; the probability that nothing is present where nothing is flagged."""
        either = self.present + self.flagged - self.both
        return np.where(self.flagged > 0, ratio(self.both, either), self.nothing_present)

    def flag(self, column: Floats, by: Floats) -> None:
        """Add ``by`` (1, 0 or -1) flags of a class with the given targets."""
        self.flagged += by
        self.both += by * column


def _for_jaccard(soft: Floats, probs: Floats) -> tuple[Floats, float]:
    """Coordinate ascent from the best common threshold: each class in turn is cut best, given the others' flags."""
    known = ~np.isnan(soft)
    present = np.nan_to_num(soft)
    common = float(max(_COMMON, key=lambda cut: _measure(soft, probs, np.full(probs.shape[1], cut), "jaccard")))
    thresholds = np.full(probs.shape[1], common)
    flags = (probs >= thresholds) & known
    sets, rankings = _Sets.of(present, flags), _rankings(soft, probs)
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
        if reached < before + _WORTH_A_SWEEP:
            break
        before = reached
    return thresholds, common


_CHOOSERS: dict[Measure, Callable[[Floats, Floats], tuple[Floats, float]]] = {
    "micro_f1": _for_micro_f1,
    "macro_f1": _for_macro_f1,
    "jaccard": _for_jaccard,
}
