"""The rival that never says yes: how far a measure can be had by silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda.paper.baselines.rival import Rival

if TYPE_CHECKING:
    from palda.paper.baselines.rival import Array, Labels

__all__ = ["Nothing"]


class Nothing(Rival):
    """Predicts no class, ever; every probability is 0."""

    def predict_proba(self, X: Any) -> Array:
        """(documents, classes): nothing is ever present, not even what was always there."""
        return np.zeros_like(super().predict_proba(X))

    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        """There is nothing to learn."""

    def _probs(self, features: Any) -> Array:
        return np.zeros((features.shape[0], len(self.learned_)))
