"""Simulated annotators: their rates in each class, drawn from quality profiles or given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from scipy.special import expit, logit

from palda.data import Frozen, freeze_fields, names_array, validation
from palda.errors import DataError
from palda.simulate.document_sampling import numbered_names, random_stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from palda.data import Strings
    from palda.simulate.document_sampling import Floats

Behaviour = Literal["one_coin", "two_coin", "per_class"]
SpammerAnswer = Literal["no", "yes", "mixed"]

PROFILES: dict[str, tuple[tuple[int, float, float], ...]] = {
    "paper": ((10, 0.51, 0.65), (20, 0.66, 0.85), (20, 0.86, 0.9999)),
    "adversarial": ((10, 0.0001, 0.1), (15, 0.51, 0.65), (20, 0.66, 0.85), (5, 0.86, 0.9999)),
}
"""Named crowds: number of annotators whose quality is uniform in each range, as published."""


@dataclass(frozen=True, eq=False)
class SimulatedAnnotators(Frozen):
    """Annotators with known rates.

    Attributes
    ----------
    sensitivity, specificity : array of shape (annotators, classes)
        P(vote 1 | present) and P(vote 0 | absent).
    quality : array of shape (annotators,)
        Nominal quality ρ: both rates of a one-coin annotator, the centre of the rates otherwise, .5 for a spammer.
    kinds : array of str
        ``"honest"``, ``"adversary"`` or ``"spammer"``.
    names : array of str
        Names of the annotators.
    """

    sensitivity: Floats
    specificity: Floats
    quality: Floats
    kinds: Strings
    names: Strings

    def __post_init__(self) -> None:
        freeze_fields(self)
        _check_rate_tables(self.sensitivity, self.specificity)
        validation.require_shape(self.quality, self.sensitivity.shape[:1], "quality")
        if not len(self.names) == len(self.kinds) == len(self.sensitivity):
            raise DataError(f"{len(self.sensitivity)} annotators need as many names and kinds")

    @classmethod
    def from_rates(
        cls,
        sensitivity: ArrayLike,
        specificity: ArrayLike,
        *,
        n_classes: int = 1,
        names: Iterable[object] | None = None,
    ) -> SimulatedAnnotators:
        """Annotators with given rates.

        The quality is the mean of both rates. An annotator with a quality below .5 is an adversary; one who always
        gives the same answer is a spammer.

        Parameters
        ----------
        sensitivity, specificity : array of shape (annotators, classes) or (annotators,)
            The rates; one per annotator is used for all ``n_classes`` classes.
        n_classes : int, default 1
            Number of classes if the rates have one dimension.
        names : iterable, optional
            Names of the annotators; numbered by default.
        """
        rates = [
            validation.as_floats(values, name)
            for values, name in ((sensitivity, "sensitivity"), (specificity, "specificity"))
        ]
        sensitivities, specificities = (np.tile(rate[:, None], n_classes) if rate.ndim == 1 else rate for rate in rates)
        _check_rate_tables(sensitivities, specificities)
        quality = (sensitivities + specificities).mean(axis=1) / 2
        always_no = ((sensitivities == 0) & (specificities == 1)).all(axis=1)
        always_yes = ((sensitivities == 1) & (specificities == 0)).all(axis=1)
        kinds = np.where(always_no | always_yes, "spammer", np.where(quality < 0.5, "adversary", "honest"))
        named = numbered_names("annotator", len(quality), 2) if names is None else names
        return cls(sensitivities, specificities, quality, names_array(kinds), names_array(named))

    def __len__(self) -> int:
        return len(self.quality)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.sensitivity.shape[1])

    def expected_quality(self, class_prior: ArrayLike) -> Floats:
        """Expected share of correct votes, shape (annotators,), given the probability of each class."""
        present = validation.as_floats(class_prior, "class_prior")
        if present.ndim:
            validation.require_shape(present, (self.n_classes,), "class_prior")
        correct: Floats = (present * self.sensitivity + (1 - present) * self.specificity).mean(axis=1)
        return correct


def annotators(
    profile: str | ArrayLike = "paper",
    *,
    n_classes: int,
    seed: int = 0,
    behaviour: Behaviour = "one_coin",
    n_spammers: int = 0,
    spammer_answer: SpammerAnswer = "no",
    reluctance: float = 0.75,
    class_spread: float = 0.5,
) -> SimulatedAnnotators:
    """Annotators with the qualities of a named profile, or with given qualities.

    Parameters
    ----------
    profile : str or array of shape (annotators,), default "paper"
        A name in ``PROFILES``, or the qualities.
    n_classes : int
        Number of classes.
    seed : int, default 0
        Random seed.
    behaviour : "one_coin", "two_coin" or "per_class", default "one_coin"
        ``"one_coin"``: one probability of a correct vote. ``"two_coin"``: annotators miss labels more often than they
        invent them, so sensitivity is below the quality and specificity above. ``"per_class"``: both rates also vary by
        class.
    n_spammers : int, default 0
        Number of additional annotators who always give the same answer, placed last.
    spammer_answer : "no", "yes" or "mixed", default "no"
        Answer of the spammers; ``"mixed"`` alternates no and yes. (An annotator who guesses at random has quality .5.)
    reluctance : float, default 0.75
        Mean shift of two-coin annotators away from "yes", in log-odds; each has between half and 1.5 times of it.
    class_spread : float, default 0.5
        Standard deviation of per-class rates around an annotator's mean rates, in log-odds.

    Returns
    -------
    SimulatedAnnotators
        The annotators with their rates.

    Examples
    --------
    >>> from palda import simulate
    >>> annotators = simulate.annotators([0.9, 0.2], n_classes=3, n_spammers=1)
    >>> annotators.kinds.tolist()
    ['honest', 'adversary', 'spammer']
    >>> annotators.sensitivity[:, 0].tolist()
    [0.9, 0.2, 0.0]
    """
    validation.require_count(n_classes, "n_classes")
    validation.require_count(n_spammers, "n_spammers", minimum=0)
    validation.require_choice(behaviour, get_args(Behaviour), "behaviour")
    validation.require_choice(spammer_answer, get_args(SpammerAnswer), "spammer_answer")
    validation.require_number(reluctance, -10, 10, "reluctance")
    validation.require_number(class_spread, 0, 10, "class_spread")
    rng = random_stream(seed, "annotators")
    quality = _qualities(profile, rng)
    sensitivity, specificity = _rates(quality, n_classes, behaviour, reluctance, class_spread, rng)
    spammer_rate = _spammer_sensitivity(spammer_answer, n_spammers)
    kinds = np.where(quality < 0.5, "adversary", "honest").tolist() + ["spammer"] * n_spammers
    return SimulatedAnnotators(
        np.vstack((sensitivity, np.tile(spammer_rate[:, None], n_classes))),
        np.vstack((specificity, np.tile(1 - spammer_rate[:, None], n_classes))),
        np.append(quality, np.full(n_spammers, 0.5)),
        names_array(kinds),
        names_array(numbered_names("annotator", len(kinds), 2)),
    )


def _qualities(profile: str | ArrayLike, rng: np.random.Generator) -> Floats:
    if isinstance(profile, str):
        if profile not in PROFILES:
            raise DataError(
                f"there is no profile {profile!r}; choose from {validation.listed(PROFILES)} or give qualities"
            )
        return np.concatenate([rng.uniform(low, high, size) for size, low, high in PROFILES[profile]])
    quality = validation.as_floats(profile, "qualities")
    if quality.ndim != 1 or not len(quality):
        raise DataError(f"qualities must be a list with one number per annotator, not of shape {quality.shape}")
    validation.require_rates(quality, "qualities")
    return quality


def _rates(
    quality: Floats,
    n_classes: int,
    behaviour: Behaviour,
    reluctance: float,
    class_spread: float,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Sensitivity and specificity of shape (annotators, classes); shifts in log-odds keep them between 0 and 1."""
    if behaviour == "one_coin":
        rate = np.tile(quality[:, None], n_classes)
        return rate, rate
    skill = np.tile(logit(quality)[:, None], n_classes)
    shift = reluctance * rng.uniform(0.5, 1.5, (len(quality), 1))
    noise = class_spread * rng.standard_normal((2, *skill.shape)) if behaviour == "per_class" else (0.0, 0.0)
    sensitivity: Floats = np.asarray(expit(skill - shift + noise[0]), dtype=np.float64)
    specificity: Floats = np.asarray(expit(skill + shift + noise[1]), dtype=np.float64)
    return sensitivity, specificity


def _check_rate_tables(sensitivity: Floats, specificity: Floats) -> None:
    if sensitivity.ndim != 2 or not sensitivity.size:
        raise DataError(f"sensitivity needs shape (annotators, classes), not {sensitivity.shape}")
    validation.require_shape(specificity, sensitivity.shape, "specificity")
    validation.require_rates(sensitivity, "sensitivity")
    validation.require_rates(specificity, "specificity")


def _spammer_sensitivity(answer: SpammerAnswer, n_spammers: int) -> Floats:
    if answer == "mixed":
        return np.arange(n_spammers, dtype=np.float64) % 2
    return np.full(n_spammers, float(answer == "yes"))
