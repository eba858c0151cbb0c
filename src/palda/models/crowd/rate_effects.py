"""Effects of annotators, families and classes on rates, and how they are learned from votes (maths, eqs. 64-68).

Symbols in equations: k annotator, i class, s state (absent, present).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import betaln, digamma, expit, logit

from palda.data import ArraySpec
from palda.models.trigamma import trigamma

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.data import Array

_N_STATES = 2
_CENTRE, _CENTRE_SPREAD = float(logit(0.7)), 1.0  # prior of the centre: a little better than chance
_STRENGTH, _LOG_STRENGTH_SPREAD = 50.0, 2.0  # prior of the strength, in votes
_MIN_STRENGTH, _MAX_STRENGTH = 2.0, 1000.0
_MARGIN = 1e-4  # mean rates lie between this and 1 - this
_MAX_STEP = 2.0  # of an effect, in log-odds
_MIN_STEP_LENGTH = 1e-3
_SLOPE_STEP = 1e-3  # of the logarithm of a strength, for its second derivative

# Prior of the spreads: the typical value, and its weight in units (annotators or classes). Smaller spreads of classes
# cost nothing on crowds of people, and simulated crowds without class effects lose less than .0005 of micro-F1.
_TYPICAL_SPREADS = np.array([[1.0], [0.5], [0.1]])  # of annotators, of members around their family, of classes
_SPREAD_WEIGHT = 5.0


EFFECT_ARRAYS = {
    "centre": ArraySpec((_N_STATES,), low=-100.0, high=100.0),
    "families": ArraySpec(("families", _N_STATES), low=-100.0, high=100.0),
    "annotators": ArraySpec(("annotators", _N_STATES), low=-100.0, high=100.0),
    "classes": ArraySpec(("classes", _N_STATES), low=-100.0, high=100.0),
    "strength": ArraySpec((_N_STATES,), low=1.0, high=1e6),
    "spreads": ArraySpec((len(_TYPICAL_SPREADS), _N_STATES), above=0.0, high=1e6),
    "family_of": ArraySpec(("annotators",), "integer", low=-1, below="families"),
}
"""Schema of ``RateEffects`` in a file."""


class Spreads(NamedTuple):
    """Standard deviations of the effects per state, (states,)."""

    annotators: Array
    members: Array  # of annotators around their family
    classes: Array


@dataclass(frozen=True)
class RateEffects:
    """Effects on the logit of mean rates; the last axis is the state (absent, present)."""

    centre: Array  # (states,)
    families: Array  # (families, states)
    annotators: Array  # (annotators, states)
    classes: Array  # (classes, states)
    strength: Array  # ν, (states,): how close a rate is to its mean, in votes
    spreads: Spreads
    family_of: NDArray[np.int64]  # (annotators,): position in families, or -1

    @classmethod
    def start(cls, n_annotators: int, n_classes: int, family_of: NDArray[np.int64] | None = None) -> RateEffects:
        """Effects before the first vote."""
        family_of = np.full(n_annotators, -1) if family_of is None else family_of
        typical = np.repeat(_TYPICAL_SPREADS, _N_STATES, axis=1)
        return cls(
            np.full(_N_STATES, _CENTRE),
            np.zeros((int(family_of.max(initial=-1)) + 1, _N_STATES)),
            np.zeros((n_annotators, _N_STATES)),
            np.zeros((n_classes, _N_STATES)),
            np.full(_N_STATES, _STRENGTH),
            Spreads(*typical),
            family_of,
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The effects as arrays of a file."""
        return {name: np.asarray(getattr(self, name)) for name in EFFECT_ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> RateEffects:
        """The effects whose ``arrays`` these are."""
        fields: dict[str, Any] = {
            **{name: arrays[name] for name in EFFECT_ARRAYS},
            "spreads": Spreads(*arrays["spreads"]),
        }
        return cls(**fields)

    @property
    def annotator_logits(self) -> Array:
        """(annotators, states): logits of mean rates in a class without an effect."""
        logits: Array = self.centre + self.annotators + self._of_families()
        return logits

    def _of_families(self) -> Array:
        has_family = self.family_of >= 0
        effects = np.zeros_like(self.annotators)
        effects[has_family] = self.families[self.family_of[has_family]]
        return effects

    def prior(self) -> Array:
        """(annotators, classes, states, 2): Beta prior of each rate."""
        return rate_betas(self.annotator_logits[:, None] + self.classes, self.strength)

    def pool(self) -> Array:
        """(classes, states, 2): Beta prior of an annotator without votes or family."""
        return self._uncertain_betas(self.centre + self.classes, self.spreads.annotators**2)

    def annotator_prior(self) -> Array:
        """(annotators, states, 2): Beta prior of an annotator's mean rates, before the annotator's own votes."""
        logits = self.annotator_logits - self.annotators
        rates = mean_rates_of(logits)
        strength = 1.0 / (rates * (1.0 - rates) * self.annotator_spreads() ** 2) - 1.0
        return rate_betas(logits, np.clip(strength, 1.0, _STRENGTH))

    def take(self, rows: NDArray[np.int64]) -> RateEffects:
        """Effects with other annotators, or in another order."""
        return replace(self, annotators=self.annotators[rows], family_of=self.family_of[rows])

    def with_new_annotators(self, n_new: int) -> RateEffects:
        """The same effects plus ``n_new`` annotators without an effect of their own."""
        return replace(
            self,
            annotators=np.concatenate((self.annotators, np.zeros((n_new, _N_STATES)))),
            family_of=np.concatenate((self.family_of, np.full(n_new, -1))),
        )

    def annotator_spreads(self) -> Array:
        """(annotators, states): standard deviation of each annotator's effect under its prior."""
        return np.where(self.family_of[:, None] >= 0, self.spreads.members, self.spreads.annotators)

    def _uncertain_betas(self, logits: Array, variances: Array) -> Array:
        """Beta distributions with the variance of a rate around its mean plus that of the mean (maths, eq. 68)."""
        rates = mean_rates_of(logits)
        strength = 1.0 / (1.0 / (self.strength + 1.0) + rates * (1.0 - rates) * variances) - 1.0
        return rate_betas(logits, np.maximum(strength, 1.0))

    def uncertain_prior(self, cells: VoteCells) -> Array:
        """(annotators, classes, states, 2): prior of each rate that includes the uncertainty of the effects."""
        curvature = _derivatives(self, cells).curvature
        annotators = 1.0 / (cells.sum_annotators(curvature) + self.annotator_spreads() ** -2)
        classes = 1.0 / (cells.sum_classes(curvature) + self.spreads.classes**-2)
        return self._uncertain_betas(self.annotator_logits[:, None] + self.classes, annotators[:, None] + classes)


@dataclass(frozen=True)
class VoteCells:
    """Correct and wrong votes of the cells (annotator, class, state) that have any; others do not inform effects."""

    correct: Array
    wrong: Array
    annotator: NDArray[np.int64]
    label: NDArray[np.int64]
    state: NDArray[np.int64]
    shape: tuple[int, int, int]

    @classmethod
    def from_counts(cls, counts: Array, history: Array) -> VoteCells:
        """Cells of counts (annotators, classes, states, 2), and of earlier work.

        ``history`` (annotators, states, 2) counts as votes on one more class, which has no effect; NaN without one.
        """
        table = np.concatenate((counts, np.nan_to_num(history)[:, None]), axis=1)
        has_votes = table.sum(axis=-1) > 0
        annotator, label, state = np.nonzero(has_votes)
        correct, wrong = table[has_votes].T.copy()
        return cls(correct, wrong, annotator, label, state, counts.shape[:3])

    @property
    def has_history(self) -> bool:
        """Whether some cells are earlier work."""
        return bool((self.label == self.shape[1]).any())

    def sum_annotators(self, values: Array) -> Array:
        """(annotators, states): sums over the cells of each annotator."""
        return self._sums(values, self.annotator, self.shape[0])

    def sum_classes(self, values: Array) -> Array:
        """(classes, states): sums over the cells of each class."""
        return self._sums(values, self.label, self.shape[1] + 1)[:-1]

    def sum_all(self, values: Array) -> Array:
        """(states,): sums over all cells."""
        total: Array = self._sums(values, np.zeros_like(self.state), 1)[0]
        return total

    def _sums(self, values: Array, unit: NDArray[np.int64], n_units: int) -> Array:
        """(units, states): sums over the cells of each unit."""
        sums = np.bincount(unit * _N_STATES + self.state, values, minlength=n_units * _N_STATES)
        return sums.reshape(n_units, _N_STATES).astype(np.float64, copy=False)


class _Derivatives(NamedTuple):
    """Of the log-likelihood of the votes with respect to the logit of the mean rate, per cell."""

    slope: Array
    curvature: Array  # minus the second derivative, without the term that can be negative


def mean_rates_of(logits: Array) -> Array:
    """Mean rates from their logits."""
    rates: Array = _MARGIN + (1.0 - 2.0 * _MARGIN) * expit(logits)
    return rates


def rate_betas(logits: Array, strength: Array) -> Array:
    """Beta parameters (..., 2) with means from logits, and strengths in votes."""
    return np.stack((strength * mean_rates_of(logits), strength * mean_rates_of(-logits)), axis=-1)


def _cell_priors(effects: RateEffects, cells: VoteCells) -> tuple[Array, Array, Array]:
    """Logit of the mean rate, and both Beta parameters, per cell."""
    classes = np.append(effects.classes, np.zeros((1, _N_STATES)), axis=0)  # the last one is earlier work
    logits = effects.annotator_logits[cells.annotator, cells.state] + classes[cells.label, cells.state]
    strength = effects.strength[cells.state]
    return logits, strength * mean_rates_of(logits), strength * mean_rates_of(-logits)


def effects_objective(effects: RateEffects, cells: VoteCells) -> float:
    """Log-likelihood of the votes with the rates summed out, plus the log prior of the effects (maths, eq. 66)."""
    _, correct, wrong = _cell_priors(effects, cells)
    votes = betaln(correct + cells.correct, wrong + cells.wrong) - betaln(correct, wrong)
    return float(votes.sum()) + _log_prior(effects)


def _log_prior(effects: RateEffects) -> float:
    """Log prior of effects, spreads and strengths, up to a constant."""
    spreads = effects.spreads
    own = effects.annotators / effects.annotator_spreads()
    total = -np.sum(own**2) - np.sum((effects.families / spreads.annotators) ** 2)
    total -= np.sum((effects.classes / spreads.classes) ** 2)
    total -= np.sum(((effects.centre - _CENTRE) / _CENTRE_SPREAD) ** 2)
    total -= np.sum((np.log(effects.strength / _STRENGTH) / _LOG_STRENGTH_SPREAD) ** 2)
    for spread, typical, n_units in zip(spreads, _TYPICAL_SPREADS, _units(effects), strict=True):
        total -= np.sum(2.0 * (n_units + _SPREAD_WEIGHT) * np.log(spread) + _SPREAD_WEIGHT * (typical / spread) ** 2)
    return 0.5 * float(total)


def _units(effects: RateEffects) -> tuple[int, int, int]:
    """Numbers of effects behind each spread."""
    n_members = int(np.sum(effects.family_of >= 0))
    return len(effects.annotators) - n_members + len(effects.families), n_members, len(effects.classes)


def _derivatives(effects: RateEffects, cells: VoteCells) -> _Derivatives:
    logits, correct, wrong = _cell_priors(effects, cells)
    all_correct, all_wrong = correct + cells.correct, wrong + cells.wrong
    inner: Array = expit(logits)
    speed = (correct + wrong) * (1.0 - 2.0 * _MARGIN) * inner * (1.0 - inner)  # of both parameters along the logit
    slopes = digamma(all_correct) - digamma(correct) - digamma(all_wrong) + digamma(wrong)
    bends = trigamma(correct) - trigamma(all_correct) + trigamma(wrong) - trigamma(all_wrong)
    return _Derivatives(speed * slopes, speed**2 * bends)


def _strength_slope(effects: RateEffects, cells: VoteCells) -> Array:
    """(states,): derivative of the log-likelihood of the votes with respect to the logarithm of the strength."""
    _, correct, wrong = _cell_priors(effects, cells)
    all_correct, all_wrong = correct + cells.correct, wrong + cells.wrong
    slope = correct * (digamma(all_correct) - digamma(correct)) + wrong * (digamma(all_wrong) - digamma(wrong))
    slope -= (correct + wrong) * (digamma(all_correct + all_wrong) - digamma(correct + wrong))
    return cells.sum_all(slope)


def improved_effects(effects: RateEffects, cells: VoteCells) -> RateEffects:
    """Effects after a step of annotators, classes and strengths; the objective does not decrease.

    Centre and families move by what their annotators share (``_recentred``).
    """
    centred = _recentred(effects)
    if cells.has_history and effects_objective(centred, cells) < effects_objective(effects, cells):
        centred = effects  # earlier work has no effect of a class that could move with the others
    effects = _with_best_spreads(centred)
    value = effects_objective(effects, cells)
    for name, sums, spread in (
        ("annotators", cells.sum_annotators, effects.annotator_spreads()),
        ("classes", cells.sum_classes, effects.spreads.classes),
    ):
        at: Array = getattr(effects, name)
        derivatives = _derivatives(effects, cells)
        slope = sums(derivatives.slope) - at / spread**2
        step = np.clip(slope / (sums(derivatives.curvature) + spread**-2.0), -_MAX_STEP, _MAX_STEP)
        effects, value = _move(effects, cells, value, name, at, step)
    return _with_better_strength(effects, cells, value)


def _sum_members(values: Array, effects: RateEffects) -> Array:
    """(families, states): sums over the members of each family."""
    sums = np.zeros_like(effects.families)
    has_family = effects.family_of >= 0
    np.add.at(sums, effects.family_of[has_family], values[has_family])
    return sums


def _recentred(effects: RateEffects) -> RateEffects:
    """The same rates; what all effects of a group share moves to the family, or to the centre (maths, eq. 67)."""
    spreads, families, annotators = effects.spreads, effects.families, effects.annotators
    has_family = effects.family_of >= 0
    if len(families):
        n_members = np.bincount(effects.family_of[has_family], minlength=len(families))[:, None]
        pull = _sum_members(annotators, effects) / spreads.members**2 - families / spreads.annotators**2
        shift = pull / (n_members / spreads.members**2 + spreads.annotators**-2)
        annotators = np.where(has_family[:, None], annotators - shift[effects.family_of], annotators)
        families = families + shift
    centre, free = effects.centre, annotators[~has_family]
    for_free = _shared_part((free, families), spreads.annotators, centre)
    annotators, families = np.where(has_family[:, None], annotators, annotators - for_free), families - for_free
    centre = centre + for_free
    for_classes = _shared_part((effects.classes,), spreads.classes, centre)
    return replace(
        effects,
        centre=centre + for_classes,
        families=families,
        annotators=annotators,
        classes=effects.classes - for_classes,
    )


def _shared_part(groups: tuple[Array, ...], spread: Array, centre: Array) -> Array:
    """(states,): what to subtract from all effects and to add to the centre."""
    total, n_units = sum(group.sum(axis=0) for group in groups), sum(len(group) for group in groups)
    pull = total / spread**2 - (centre - _CENTRE) / _CENTRE_SPREAD**2
    part: Array = pull / (n_units / spread**2 + _CENTRE_SPREAD**-2)
    return part


def _with_best_spreads(effects: RateEffects) -> RateEffects:
    is_member = effects.family_of >= 0
    free = np.concatenate((effects.annotators[~is_member], effects.families))
    squares = (np.sum(group**2, axis=0) for group in (free, effects.annotators[is_member], effects.classes))
    spreads = (
        np.sqrt((square + _SPREAD_WEIGHT * typical**2) / (n_units + _SPREAD_WEIGHT))
        for square, typical, n_units in zip(squares, _TYPICAL_SPREADS, _units(effects), strict=True)
    )
    return replace(effects, spreads=Spreads(*spreads))


def _with_better_strength(effects: RateEffects, cells: VoteCells, value: float) -> RateEffects:
    """A Newton step in the logarithms of the strengths."""

    def slope(log_strength: Array) -> Array:
        there = replace(effects, strength=np.exp(log_strength))
        prior = (log_strength - np.log(_STRENGTH)) / _LOG_STRENGTH_SPREAD**2
        total: Array = _strength_slope(there, cells) - prior
        return total

    at = np.log(effects.strength)
    here = slope(at)
    curvature = (here - slope(at + _SLOPE_STEP)) / _SLOPE_STEP
    newton = here / np.where(curvature > 0, curvature, 1.0)
    step = np.where(curvature > 0, np.clip(newton, -1.0, 1.0), np.sign(here))
    return _move(effects, cells, value, "strength", at, step)[0]


def _move(
    effects: RateEffects, cells: VoteCells, value: float, name: str, at: Array, step: Array
) -> tuple[RateEffects, float]:
    """Effects with one group moved, by as much as does not decrease the objective, and the objective there.

    Strengths move in their logarithms, within their bounds.
    """
    length = 1.0
    while length > _MIN_STEP_LENGTH:
        moved = at + length * step
        if name == "strength":
            moved = np.clip(np.exp(moved), _MIN_STRENGTH, _MAX_STRENGTH)
        change: dict[str, Any] = {name: moved}
        there = replace(effects, **change)
        new_value = effects_objective(there, cells)
        if new_value >= value:
            return there, new_value
        length /= 2.0
    return effects, value
