"""The default annotator model of version 0.2 before its release: rates of its files, which are updated but not fitted.

Each rate had a Beta prior of its own, learned from all annotators and classes. The priors stay as they are in the file;
new votes join the counts behind the rates. A new fit has the support model.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import expit

from palda.data import ArraySpec
from palda.models.crowd.annotator_model import AnnotatorBelief, PerClassModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.data import Array
    from palda.models.crowd.annotator_history import AnnotatorHistory

_MARGIN = 1e-4  # mean rates lie between this and 1 - this

EFFECT_ARRAYS = {
    "centre": ArraySpec((2,), low=-100.0, high=100.0),
    "families": ArraySpec(("families", 2), low=-100.0, high=100.0),
    "annotators": ArraySpec(("annotators", 2), low=-100.0, high=100.0),
    "classes": ArraySpec(("classes", 2), low=-100.0, high=100.0),
    "strength": ArraySpec((2,), low=1.0, high=1e6),
    "spreads": ArraySpec((3, 2), above=0.0, high=1e6),
    "family_of": ArraySpec(("annotators",), "integer", low=-1, below="families"),
}
"""Schema of the effects on rates, from which the priors in such a file follow."""

KEPT_ARRAYS = {"prior": ArraySpec(("annotators", "classes", 2, 2), above=0.0)}
"""Schema of the priors in a file that is written again."""


@dataclass(frozen=True)
class KeptPriorBelief(AnnotatorBelief):
    """Rates per class whose priors are kept."""

    kept: Array = field(kw_only=True)  # (annotators, classes, states, 2)

    @property
    def prior(self) -> Array:
        """(annotators, classes, states, 2): each annotator's prior."""
        return self.kept

    @classmethod
    def with_effects(cls, plain: AnnotatorBelief, effects: Mapping[str, NDArray[Any]]) -> KeptPriorBelief:
        """The belief of a file with ``EFFECT_ARRAYS``."""
        own = effects["centre"] + effects["annotators"]
        family_of = effects["family_of"].astype(np.int64)
        own[family_of >= 0] += effects["families"][family_of[family_of >= 0]]
        logits = own[:, None] + effects["classes"]
        rates = (_MARGIN + (1.0 - 2.0 * _MARGIN) * expit(sign * logits) for sign in (1.0, -1.0))
        return cls.with_prior(plain, np.stack([effects["strength"] * rate for rate in rates], axis=-1))

    @classmethod
    def with_prior(cls, plain: AnnotatorBelief, prior: Array) -> KeptPriorBelief:
        """The plain belief, with the prior behind it."""
        return cls(plain.posterior, plain.pool, plain.own, plain.levels, kept=prior)

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Beliefs about other annotators, or in another order; each has that of the annotator at a position."""
        return replace(super().take(rows), kept=self.kept[rows])

    def with_new_annotators(self, families: NDArray[np.int64]) -> KeptPriorBelief:
        """The same beliefs plus annotators with the pool's prior."""
        pool = np.broadcast_to(self.pool, (len(families), *self.pool.shape))
        return self.with_prior(super().with_new_annotators(families), np.concatenate((self.kept, pool)))

    def rates_of_classes(self) -> Array:
        """(annotators, classes, states, 2): a prior is no more certain than what is known of the annotator."""
        overall = self.rates_over_classes().sum(axis=-1, keepdims=True)[:, None]
        strength = self.kept.sum(axis=-1, keepdims=True)
        both = np.maximum(1.0 / (1.0 / (strength + 1.0) + 1.0 / (overall + 1.0)) - 1.0, 1.0)
        rates: Array = self.kept * (both / strength) + self._votes
        return rates

    def rates_over_classes(self) -> Array:
        """(annotators, states, 2): all votes of an annotator, and the pool's prior or the history once."""
        history = self.own[:, 0]
        rates: Array = self._votes.sum(axis=1) + np.where(np.isnan(history), self.pool.mean(axis=0), history)
        return rates

    @property
    def _votes(self) -> Array:
        votes: Array = np.maximum(self.posterior - self.kept, 0.0)
        return votes


class KeptPriorModel(PerClassModel):
    """Counts of votes change, priors do not."""

    def start(self, n_annotators: int, n_classes: int, prior: AnnotatorHistory | None = None) -> AnnotatorBelief:
        """Nothing is fitted with this model."""
        raise NotImplementedError

    def update(self, counts: Array, belief: AnnotatorBelief) -> AnnotatorBelief:
        """Beta posteriors of the counts."""
        return replace(belief, posterior=belief.prior + counts)
