"""Curves of quality against votes, and what can be read from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


MIN_ERROR = 1e-4
"""Share of wrong labels that stands for none at all on a logarithmic scale."""


class CurvePoint(NamedTuple):
    """The consensus at one budget."""

    votes_per_doc: float
    """Judgements per document and class: votes on all classes of a document."""
    n_looks: int
    """Pairs of an annotator and a document."""
    n_judgements: int
    """Votes on single classes."""
    micro_f1: float
    error: float
    """Share of wrong labels."""
    expected_error: float
    """The same as the model expects it: the mean of min(p, 1 - p)."""
    updated_f1: float
    """Micro-F1 just before the model was fitted again, after updates alone."""


@dataclass(frozen=True)
class Curve:
    """Points of one policy, in ascending order of votes."""

    policy: str
    points: tuple[CurvePoint, ...]

    def column(self, name: str) -> NDArray[np.float64]:
        """One measure of all points."""
        return np.array([getattr(point, name) for point in self.points], dtype=np.float64)


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """Means of several runs of a policy, point by point, up to the shortest run.

    Examples
    --------
    >>> from palda.planning import Curve, CurvePoint, mean_curve
    >>> runs = [Curve("random", (CurvePoint(1.0, 5, 10, f1, 0.1, 0.1, f1),)) for f1 in (0.8, 0.9)]
    >>> mean_curve(runs).column("micro_f1").round(2).tolist()
    [0.85]
    """
    n_points = min(len(curve.points) for curve in curves)
    means = [np.mean([curve.points[k] for curve in curves], axis=0) for k in range(n_points)]
    return Curve(curves[0].policy, tuple(CurvePoint(*mean.tolist()) for mean in means))


def votes_needed(curve: Curve, target: float, measure: str = "micro_f1") -> float:
    """Votes per document at which a curve first reaches a target; NaN if it never does.

    ``measure`` is ``"micro_f1"``, which rises to the target and is interpolated linearly, or ``"error"``, which falls
    to it and is interpolated on a logarithmic scale, as in pictures.

    Examples
    --------
    >>> from palda.planning import Curve, CurvePoint, votes_needed
    >>> points = [CurvePoint(v, 0, 0, f1, 0.0, 0.0, f1) for v, f1 in ((1.0, 0.8), (2.0, 0.9), (3.0, 0.92))]
    >>> round(votes_needed(Curve("random", tuple(points)), 0.85), 2)
    1.5
    """
    votes, values = curve.column("votes_per_doc"), curve.column(measure)
    if measure == "error":
        values, target = -np.log(np.maximum(values, MIN_ERROR)), -math.log(max(target, MIN_ERROR))
    reached = np.flatnonzero(values >= target)
    if not len(reached):
        return float("nan")
    k = int(reached[0])
    if k == 0:
        return float(votes[0])
    share = (target - values[k - 1]) / (values[k] - values[k - 1])
    return float(votes[k - 1] + share * (votes[k] - votes[k - 1]))
