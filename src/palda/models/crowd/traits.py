"""Traits of annotators in the support model: P(yes | s) = expit(slope · s + offset + offset of the class)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import logit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.models.crowd.panel import PanelBelief

POINTS = np.linspace(-4.0, 4.0, 17)
"""Points of the grid, in log-odds of a typical annotator; 25 points from -6 to 6 gave the same labels."""

SLOPE_SPREAD, OFFSET_SPREAD, CLASS_SPREAD = 0.5, 0.7, 0.4
"""Standard deviations of slopes around 1, and of offsets and offsets per class around 0, over annotators."""

_BASE_SPREAD = 2.5  # of the support around twice the logit of the share of yes votes, before any vote is read
_MAX_SLOPE_STEP, _MAX_OFFSET_STEP = 0.5, 0.7


class Traits(NamedTuple):
    """How annotators answer: P(yes | s) = expit(slope · s + offset + offset of the class)."""

    slopes: Array  # a, (annotators,)
    offsets: Array  # e, (annotators,)
    by_class: Array  # f, (annotators, classes)

    @classmethod
    def typical(cls, n_annotators: int, n_classes: int) -> Traits:
        """Traits of annotators of whom nothing is known."""
        return cls(np.ones(n_annotators), np.zeros(n_annotators), np.zeros((n_annotators, n_classes)))

    def moved(self, after: Traits, before: Traits) -> Traits:
        """These traits, moved as far as others are from where they were."""
        return Traits(*(own + new - old for own, new, old in zip(self, after, before, strict=True)))

    def where_model(self, panel: PanelBelief | None, others: Traits) -> Traits:
        """These traits for the models of a panel, others for people."""
        if panel is None:
            return others
        after = Traits(*(part.copy() for part in others))
        for own, part in zip(self, after, strict=True):
            part[panel.is_model] = own[panel.is_model]
        return after

    def take(self, rows: NDArray[np.int64]) -> Traits:
        """Traits of other annotators, or in another order."""
        return Traits(*(trait[rows] for trait in self))


def base_weights(share_yes: Array) -> Array:
    """(classes, points): weights of the grid before any vote is read, from the share of yes votes per class."""
    distance = (POINTS - 2.0 * logit(share_yes)[:, None]) / _BASE_SPREAD
    weights: Array = np.exp(-0.5 * distance**2)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def solve_pair(one: Array, two: Array, both: Array, gradient: Array, other: Array) -> tuple[Array, Array]:
    """Newton steps of two parameters with the precision matrix [[one, both], [both, two]]."""
    determinant = one * two - both**2
    return (two * gradient - both * other) / determinant, (one * other - both * gradient) / determinant


def limited(step: Traits) -> Traits:
    """The step, no longer than a Newton step can be trusted."""
    return Traits(
        np.clip(step.slopes, -_MAX_SLOPE_STEP, _MAX_SLOPE_STEP),
        np.clip(step.offsets, -_MAX_OFFSET_STEP, _MAX_OFFSET_STEP),
        np.clip(step.by_class, -_MAX_OFFSET_STEP, _MAX_OFFSET_STEP),
    )
