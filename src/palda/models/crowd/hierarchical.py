"""The default annotator model: rates per class that are partially pooled over annotators, families and classes.

The logit of an annotator's mean rate in a class is a sum of effects: a centre, the annotator's family if there is one,
the annotator, and the class. The rate itself is Beta around that mean, with a strength in votes. Spreads of the effects
and both strengths are learned (empirical Bayes), so that the votes decide how much rates differ by class: with few
votes, or where classes do not matter, all classes share the annotator's rates, as in ``TwoCoinModel``; with many votes
they become those of ``PerClassModel``. Sensitivity and specificity have effects of their own (maths, eqs. 64-68).

Effects and how they are learned are in rate_effects.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from palda.models.crowd.annotator_model import AnnotatorBelief, PerClassModel
from palda.models.crowd.pool import beta_divergence
from palda.models.crowd.rate_effects import RateEffects, VoteCells, effects_objective, improved_effects

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.models.crowd.annotator_history import AnnotatorHistory

_START_ROUNDS = 20  # of the effects, if annotators have a history


@dataclass(frozen=True)
class HierarchicalBelief(AnnotatorBelief):
    """Beta beliefs about rates per class, with the effects that their priors come from.

    ``pool`` is the prior of an annotator without votes.
    """

    effects: RateEffects = field(kw_only=True)

    @property
    def prior(self) -> Array:
        """(annotators, classes, states, 2): each annotator's prior."""
        return self.effects.prior()

    @property
    def history(self) -> Array:
        """(annotators, states, 2): earlier correct and wrong votes, the same in all classes; NaN without a history."""
        return self.own[:, 0]

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Beliefs about other annotators, or in another order; each has that of the annotator at a position."""
        return replace(super().take(rows), effects=self.effects.take(rows))

    def with_new_annotators(self, n_new: int) -> HierarchicalBelief:
        """The same beliefs plus ``n_new`` annotators who start with the pool's prior."""
        plain = super().with_new_annotators(n_new)
        effects = self.effects.with_new_annotators(n_new)
        return HierarchicalBelief(plain.posterior, plain.pool, plain.own, plain.levels, effects=effects)

    def with_families(self, family_of: NDArray[np.int64]) -> HierarchicalBelief:
        """Beliefs before the first vote, with annotators in families that share a prior; -1 for no family."""
        families = np.zeros((int(family_of.max(initial=-1)) + 1, self.effects.centre.size))
        return replace(self, effects=replace(self.effects, families=families, family_of=family_of))

    def rates_of_classes(self) -> Array:
        """(annotators, classes, states, 2): beliefs with the uncertainty of the effects, for reports."""
        counts = np.maximum(self.posterior - self.prior, 0.0)
        return self.effects.uncertain_prior(VoteCells.from_counts(counts, self.history)) + counts

    def rates_over_classes(self) -> Array:
        """(annotators, states, 2): all votes of an annotator, and the prior or the history of an annotator once."""
        votes = np.maximum(np.sum(self.posterior - self.prior, axis=1), 0.0)
        rates: Array = votes + np.where(np.isnan(self.history), self.effects.annotator_prior(), self.history)
        return rates


class HierarchicalModel(PerClassModel):
    """Sensitivity and specificity of each annotator for each class, partially pooled (maths, eqs. 64-68)."""

    def start(self, n_annotators: int, n_classes: int, prior: AnnotatorHistory | None = None) -> HierarchicalBelief:
        """The same prior for everybody, a little better than chance, except those with a history.

        A history counts as earlier votes on one more class.
        """
        own = np.full((n_annotators, n_classes, 2, 2), np.nan)
        if prior is not None:
            own[:] = prior.betas((2,))[:, None]
        effects = RateEffects.start(n_annotators, n_classes)
        start = HierarchicalBelief(effects.prior(), effects.pool(), own, effects=effects)
        for _ in range(_START_ROUNDS if prior is not None else 0):
            start = self.update(np.zeros_like(own), start)
        return start

    def update(self, counts: Array, belief: AnnotatorBelief) -> HierarchicalBelief:
        """Effects, spreads and strengths, one step each, then all posteriors (maths, eqs. 66 and 67)."""
        if not isinstance(belief, HierarchicalBelief):
            raise TypeError("beliefs of another annotator model")
        effects = improved_effects(belief.effects, VoteCells.from_counts(counts, belief.history))
        return replace(belief, posterior=effects.prior() + counts, pool=effects.pool(), effects=effects)

    def divergence(self, belief: AnnotatorBelief) -> float:
        """KL divergence of all rates from their priors, minus the log prior of the effects (maths, eq. 65).

        Earlier work is a part of that prior.
        """
        if not isinstance(belief, HierarchicalBelief):
            raise TypeError("beliefs of another annotator model")
        history = VoteCells.from_counts(np.zeros_like(belief.posterior), belief.history)
        earlier = effects_objective(belief.effects, history)  # the log prior of the effects included
        return beta_divergence(belief.posterior, belief.prior) - earlier
