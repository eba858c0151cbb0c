"""Annotators whose rates change over time: quality over time, and points of change.

A change is searched among the documents that an annotator judged, in the order of time. The statistic is the score test
of "the rates after document j are others than before" (maths, eq. 77), maximised over j. It is sensitive to
changes of specificity and sensitivity in the same direction, and to large ones in opposite directions: an annotator may
start to answer "no" to everything. Its distribution without a change is that of the same judged documents in random
order, so that documents of unequal difficulty, votes that go together and small numbers are accounted for. The periods
before and after a change are searched in the same way; a gradual change is found as one or more steps.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from palda import kernels
from palda.models.crowd.judged_documents import judged_documents, local_rates
from palda.models.crowd.quality import beta_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Array, Strings, Votes
    from palda.models.crowd.annotator_model import AnnotatorBelief
    from palda.models.crowd.judged_documents import JudgedDocuments, LocalRates, Series

MAX_P_VALUE = 0.005
"""A change is reported at or below this p-value; of honest annotators that is at most one in 200."""

MIN_DIFFERENCE = 0.1
"""Minimum change of informedness: .05 of quality where classes are present half the time. Smaller ones are no use."""

MIN_PERIOD_DOCS = 10
"""Minimum number of judged documents before and after a change."""

MAX_CHANGES = 3
"""Maximum number of changes per annotator."""

N_ORDERS = 1999
"""Number of random orders behind a p-value."""

_ORDERS_PER_BATCH = 25
_MAX_BLOCKS = 1000  # an annotator with more judged documents is searched in this many blocks
_MIN_STATE_VOTES = 20.0  # with fewer votes in a state, only changes of both rates together are searched
_OPPOSITE_COST = (
    3.0  # of the statistic of opposite changes: difference of the χ² quantiles with 2 and 1 degrees of freedom
)
_MIN_DEVIATION = 1e-9
_MAX_POINTS = 50  # of a curve
_MAX_CURVE_BLOCKS = 400
_MIN_CURVE_DOCS = 20
_MIN_BANDWIDTH, _BANDWIDTH_SHARE = 15.0, 0.07  # standard deviation of the kernel, in judged documents or as a share


@dataclass(frozen=True)
class Changes:
    """Changes of annotators' rates, sorted by annotator and time; arrays (changes,).

    Rates are those of the whole period between two changes; ``low`` and ``high`` bound 95% intervals.
    """

    annotator: NDArray[np.int64]
    """Position of the annotator."""
    time: Array
    """Time of the first judged document after the change."""
    kind: NDArray[np.object_]
    """``"worse"`` or ``"better"``: whether informedness, sensitivity + specificity - 1, decreased or increased."""
    p_value: Array
    n_before: NDArray[np.int64]
    """Number of judged documents in the period before the change."""
    n_after: NDArray[np.int64]
    quality_before: Array
    """Share of correct votes."""
    quality_before_low: Array
    quality_before_high: Array
    quality_after: Array
    quality_after_low: Array
    quality_after_high: Array
    informedness_before: Array
    informedness_after: Array

    def __len__(self) -> int:
        return len(self.annotator)

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[float | str, ...]]) -> Changes:
        """Changes from one tuple each, in the order of the fields."""
        columns = [np.array(column) for column in zip(*rows, strict=True)] or [np.empty(0)] * len(fields(cls))
        types = {"annotator": np.int64, "kind": object, "n_before": np.int64, "n_after": np.int64}
        named = zip(fields(cls), columns, strict=True)
        return cls(*(column.astype(types.get(spec.name, np.float64)) for spec, column in named))

    def to_frame(self, annotators: Strings) -> pd.DataFrame:
        """The changes as a data frame, with names of annotators."""
        import pandas as pd

        columns = {spec.name: getattr(self, spec.name) for spec in fields(self)}
        return pd.DataFrame({**columns, "annotator": annotators[self.annotator]})


@dataclass(frozen=True)
class QualityCurves:
    """Quality over time, with up to 50 points per annotator; arrays (points,), sorted by annotator and time."""

    annotator: NDArray[np.int64]
    time: Array
    n_docs: NDArray[np.int64]
    """Number of documents that the annotator had judged before."""
    quality: Array
    """Share of correct votes among those judged around that time."""
    low: Array
    """Lower bound of the 95% band."""
    high: Array
    informedness: Array
    """Sensitivity + specificity - 1."""


def find_changes(
    votes: Votes,
    label_probs: Array,
    belief: AnnotatorBelief,
    *,
    own: Array | None = None,
    max_p_value: float = MAX_P_VALUE,
    max_changes: int = MAX_CHANGES,
    max_orders: int = N_ORDERS,
    seed: int = 0,
) -> Changes:
    """Changes of annotators' rates over time, given the consensus and constant rates (maths, eq. 77).

    ``own`` (votes,) is what each vote added to the log-odds of the consensus, by default that under ``belief``. Votes
    without a time are left out. Documents with equal times stay on one side of a change. P-values are
    those among ``max_orders`` random orders.
    """
    documents = judged_documents(votes, label_probs, belief, own)
    rows: list[tuple[float | str, ...]] = []
    for annotator in np.flatnonzero(documents.n_docs >= 2 * MIN_PERIOD_DOCS):
        rng = np.random.default_rng((seed, int(annotator)))
        found = _changes_of(documents.of(int(annotator)), max_p_value, max_changes, max_orders, rng)
        rows += _described(found, documents, int(annotator))
    return Changes.from_rows(rows)


def _changes_of(
    series: Series, max_p_value: float, max_changes: int, max_orders: int, rng: np.random.Generator
) -> list[tuple[int, float]]:
    """First judged document after each change, and its p-value, in the order of time."""
    found: list[tuple[int, float]] = []
    periods = [(0, len(series.time))]
    while periods and len(found) < max_changes:
        first, stop = periods.pop(0)
        blocks, doc_of_block = series.rows(first, stop).blocks(_MAX_BLOCKS)
        split, p_value = _scan(blocks, max_p_value, max_orders, rng)
        if p_value <= max_p_value:
            middle = first + int(doc_of_block[split])
            found.append((middle, p_value))
            periods += [(first, middle), (middle, stop)]
    return sorted(found)


def _scan(series: Series, max_p_value: float, max_orders: int, rng: np.random.Generator) -> tuple[int, float]:
    """The most likely first document after a change, and the p-value of the maximal statistic."""
    n_docs = len(series.time)
    splits = np.arange(MIN_PERIOD_DOCS, n_docs - MIN_PERIOD_DOCS + 1)  # numbers of documents before the change
    splits = splits[series.time[splits] > series.time[splits - 1]] if len(splits) else splits
    scores = _standardised(series)
    if not len(splits) or not scores.any():
        return 0, 1.0
    factor = n_docs / (splits * (n_docs - splits))
    common, opposite = (np.cumsum(scores, axis=0)[splits - 1] ** 2 * factor[:, None]).T
    observed = common + np.maximum(opposite - _OPPOSITE_COST, 0.0)  # maths, eq. 77
    split, maximum = int(splits[np.argmax(observed)]), float(observed.max())
    max_larger = int(max_p_value * (max_orders + 1))
    n_larger = n_orders = 0
    while n_orders < max_orders and n_larger < max_larger:
        size = min(_ORDERS_PER_BATCH, max_orders - n_orders)
        draws = rng.integers(2**32, size=(size, n_docs), dtype=np.uint32)
        n_larger += kernels.active().n_orders_above(scores, draws, splits, factor, _OPPOSITE_COST, maximum)
        n_orders += size
    return split, (n_larger + 1) / (n_orders + 1)


def _standardised(series: Series) -> Array:
    """Scores (judged documents, 2) of both rates together, and of one rate against the other; 0 if they do not vary.

    Both have mean 0, variance 1 and no correlation.
    """
    centred = series.scores - series.scores.mean(axis=0)
    common = _unit_variance(centred.sum(axis=1))
    opposite = centred[:, 1] - common * np.mean(common * centred[:, 1])
    if np.diagonal(series.slopes.sum(axis=0)).min() < _MIN_STATE_VOTES:
        opposite = np.zeros_like(common)
    return np.column_stack((common, _unit_variance(opposite)))


def _unit_variance(values: Array) -> Array:
    deviation = float(np.sqrt(np.mean(np.square(values))))
    return values / deviation if deviation > _MIN_DEVIATION else np.zeros_like(values)


def _described(
    found: list[tuple[int, float]], documents: JudgedDocuments, annotator: int
) -> list[tuple[float | str, ...]]:
    """Rows of ``Changes`` of one annotator; changes too small to be reported are left out, smallest first."""
    series = documents.of(annotator)
    while found:
        edges = np.array([0, *(middle for middle, _ in found), len(series.time)])
        place = np.arange(len(series.time))
        weights = ((place >= edges[:-1, None]) & (place < edges[1:, None])).astype(np.float64)
        local = local_rates(series, weights, documents.rates[annotator])
        informedness = local.rates.sum(axis=1) - 1.0
        differences = np.diff(informedness)
        smallest = int(np.argmin(np.abs(differences)))
        if abs(differences[smallest]) >= MIN_DIFFERENCE:
            break
        del found[smallest]
    else:
        return []
    quality = np.column_stack(_quality(local, documents.present_share[annotator]))
    return [
        (
            annotator,
            series.time[middle],
            "worse" if differences[at] < 0 else "better",
            p_value,
            *np.diff(edges)[at : at + 2],
            *quality[at],
            *quality[at + 1],
            *informedness[at : at + 2],
        )
        for at, (middle, p_value) in enumerate(found)
    ]


def _quality(local: LocalRates, present_share: float) -> tuple[Array, Array, Array]:
    """Share of correct votes in each period, with its 95% interval."""
    shares = np.array([1.0 - present_share, present_share])
    mean = local.rates @ shares
    variance = np.einsum("i,pij,j->p", shares, local.covariance, shares)
    return beta_interval(mean, np.minimum(variance, 0.9 * mean * (1.0 - mean)))


def quality_over_time(
    votes: Votes, label_probs: Array, belief: AnnotatorBelief, *, max_points: int = _MAX_POINTS
) -> QualityCurves:
    """Quality along time of each annotator with at least 20 judged documents, with a 95% band (maths, eqs. 78 and 79).

    Each point is a mean over the judged documents around it, with normal weights in their number: about a seventh of
    them counts. The mix of present and absent labels is that of all votes of the annotator.
    """
    documents = judged_documents(votes, label_probs, belief)
    parts = [
        _curve(documents, int(annotator), max_points)
        for annotator in np.flatnonzero(documents.n_docs >= _MIN_CURVE_DOCS)
    ]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] or [np.empty(0)] * 7
    annotator, at_time, n_docs, *rest = columns
    return QualityCurves(annotator.astype(np.int64), at_time, n_docs.astype(np.int64), *rest)


def _curve(documents: JudgedDocuments, annotator: int, max_points: int) -> tuple[Array, ...]:
    """The fields of ``QualityCurves`` for one annotator."""
    series = documents.of(annotator)
    n_docs = len(series.time)
    points = np.linspace(0, n_docs - 1, min(max_points, n_docs)).astype(np.int64)
    blocks, first = series.blocks(_MAX_CURVE_BLOCKS)
    centres = (first + np.append(first[1:], n_docs) - 1) / 2.0
    bandwidth = max(_MIN_BANDWIDTH, _BANDWIDTH_SHARE * n_docs)
    weights = np.exp(-0.5 * np.square((points[:, None] - centres) / bandwidth))
    local = local_rates(blocks, weights, documents.rates[annotator])
    quality = _quality(local, float(documents.present_share[annotator]))
    numbers = np.full(len(points), float(annotator)), series.time[points], points.astype(np.float64)
    return *numbers, *quality, local.rates.sum(axis=1) - 1.0
