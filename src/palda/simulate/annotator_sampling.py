"""Simulated annotators: how well each of them sees each class, from quality profiles or from given rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from scipy.special import expit, logit

from palda.data import Frozen, freeze_fields, names_array, validation
from palda.errors import DataError
from palda.simulate.document_sampling import numbered_names, stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from palda.data import Strings
    from palda.simulate.document_sampling import Floats

__all__ = ["PROFILES", "Behaviour", "SimulatedAnnotators", "SpammerAnswer", "annotators"]

Behaviour = Literal["one_coin", "two_coin", "per_class"]
SpammerAnswer = Literal["no", "yes", "mixed"]

PROFILES: dict[str, tuple[tuple[int, float, float], ...]] = {
    "paper": ((10, 0.51, 0.65), (20, 0.66, 0.85), (20, 0.86, 0.9999)),
    "adversarial": ((10, 0.0001, 0.1), (15, 0.51, 0.65), (20, 0.66, 0.85), (5, 0.86, 0.9999)),
}
"""Named crowds: how many annotators draw their quality uniformly from which range (both as published)."""


@dataclass(frozen=True, eq=False)
class SimulatedAnnotators(Frozen):
    """A crowd: how well each annotator sees each class.

    ``quality`` is nominal: both rates of a one-coin annotator, the middle around which other behaviours spread, and
    one half for a spammer, who sees nothing. ``kinds`` says "honest", "adversary" or "spammer".
    """

    sensitivity: Floats  # (annotators, classes): P(vote 1 | present)
    specificity: Floats  # (annotators, classes): P(vote 0 | absent)
    quality: Floats  # ρ (annotators,)
    kinds: Strings
    names: Strings

    def __post_init__(self) -> None:
        freeze_fields(self)
        _check_rate_tables(self.sensitivity, self.specificity)
        validation.require_shape(self.quality, self.sensitivity.shape[:1], "quality")
        if not len(self.names) == len(self.kinds) == len(self.sensitivity):
            raise DataError(f"{len(self.sensitivity)} annotators need as many names and kinds, not {len(self.names)}")

    @classmethod
    def from_rates(
        cls,
        sensitivity: ArrayLike,
        specificity: ArrayLike,
        *,
        n_classes: int = 1,
        names: Iterable[object] | None = None,
    ) -> SimulatedAnnotators:
        """Annotators with known rates, (annotators, classes) or (annotators,) for the same rates in ``n_classes``.

        Nominal quality is the mean of both rates; below one half is an adversary; a constant answer is a spammer.
        """
        rates = [
            validation.as_floats(given, name)
            for given, name in ((sensitivity, "sensitivity"), (specificity, "specificity"))
        ]
        seen, rejected = (np.tile(rate[:, None], n_classes) if rate.ndim == 1 else rate for rate in rates)
        _check_rate_tables(seen, rejected)
        quality = (seen + rejected).mean(axis=1) / 2
        constant = ((seen == 0) & (rejected == 1)).all(axis=1) | ((seen == 1) & (rejected == 0)).all(axis=1)
        kinds = np.where(constant, "spammer", np.where(quality < 0.5, "adversary", "honest"))
        named = numbered_names("annotator", len(seen), 2) if names is None else names
        return cls(seen, rejected, quality, names_array(kinds), names_array(named))

    def __len__(self) -> int:
        return len(self.quality)

    @property
    def n_classes(self) -> int:
        """Classes these annotators can judge."""
        return int(self.sensitivity.shape[1])

    def expected_quality(self, class_prior: ArrayLike) -> Floats:
        """Expected share of correct votes when classes occur at these rates; a one-coin annotator's own quality."""
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
    """Annotators with the qualities of a named profile, or with the user's own.

    Parameters
    ----------
    profile
        A name in ``PROFILES``, or a list of qualities.
    n_classes
        How many classes they judge.
    seed
        Everything follows from it.
    behaviour
        ``"one_coin"``: the same chance of a correct vote everywhere. ``"two_coin"``: people overlook labels more
        often than they invent them, so sensitivity lies below the quality and specificity above. ``"per_class"``:
        both rates also vary by class.
    n_spammers
        How many join the crowd, after everybody else, who answer without looking.
    spammer_answer
        What a spammer says every time; ``"mixed"`` alternates spammers who say no with spammers who say yes.
        Somebody who guesses by tossing a coin is not a spammer here but has a quality of .5.
    reluctance
        Mean log-odds by which two-coin annotators shy away from "yes"; each has between half and one and a half of it.
    class_spread
        Standard deviation, in log-odds, of per-class rates around an annotator's own.
    """
    validation.require_count(n_classes, "n_classes")
    validation.require_count(n_spammers, "n_spammers", least=0)
    validation.require_choice(behaviour, get_args(Behaviour), "behaviour")
    validation.require_choice(spammer_answer, get_args(SpammerAnswer), "spammer_answer")
    validation.require_number(reluctance, -10, 10, "reluctance")
    validation.require_number(class_spread, 0, 10, "class_spread")
    rng = stream(seed, "annotators")
    quality = _qualities(profile, rng)
    sensitivity, specificity = _rates(quality, n_classes, behaviour, reluctance, class_spread, rng)
    says_yes = _spammer_says_yes(spammer_answer, n_spammers)
    kinds = np.where(quality < 0.5, "adversary", "honest").tolist() + ["spammer"] * n_spammers
    return SimulatedAnnotators(
        np.vstack((sensitivity, np.tile(says_yes[:, None], n_classes))),
        np.vstack((specificity, np.tile(1 - says_yes[:, None], n_classes))),
        np.append(quality, np.full(n_spammers, 0.5)),
        names_array(kinds),
        names_array(numbered_names("annotator", len(kinds), 2)),
    )


def _qualities(profile: str | ArrayLike, rng: np.random.Generator) -> Floats:
    if isinstance(profile, str):
        if profile not in PROFILES:
            raise DataError(
                f"there is no profile {profile!r}; choose from {validation.listed(PROFILES)} or list qualities"
            )
        return np.concatenate([rng.uniform(low, high, size) for size, low, high in PROFILES[profile]])
    quality = validation.as_floats(profile, "qualities")
    if quality.ndim != 1 or not len(quality):
        raise DataError(f"qualities must be a list of numbers, one an annotator, not of shape {quality.shape}")
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
    """Sensitivity and specificity; shifts are in log-odds, so every rate stays a rate."""
    if behaviour == "one_coin":
        rate = np.tile(quality[:, None], n_classes)
        return rate, rate
    skill = np.tile(logit(quality)[:, None], n_classes)
    shyness = reluctance * rng.uniform(0.5, 1.5, (len(quality), 1))
    noise = class_spread * rng.standard_normal((2, *skill.shape)) if behaviour == "per_class" else (0.0, 0.0)
    sensitivity: Floats = np.asarray(expit(skill - shyness + noise[0]), dtype=np.float64)
    specificity: Floats = np.asarray(expit(skill + shyness + noise[1]), dtype=np.float64)
    return sensitivity, specificity


def _check_rate_tables(sensitivity: Floats, specificity: Floats) -> None:
    if sensitivity.ndim != 2 or not sensitivity.size:
        raise DataError(f"sensitivity needs shape (annotators, classes), not {sensitivity.shape}")
    validation.require_shape(specificity, sensitivity.shape, "specificity")
    validation.require_rates(sensitivity, "sensitivity")
    validation.require_rates(specificity, "specificity")


def _spammer_says_yes(answer: SpammerAnswer, n_spammers: int) -> Floats:
    if answer == "mixed":
        return np.arange(n_spammers, dtype=np.float64) % 2
    return np.full(n_spammers, float(answer == "yes"))
