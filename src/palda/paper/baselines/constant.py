"""Baselines that ignore the documents: they show what a measure awards for no knowledge at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda.paper.baselines.base import HALF, BaselineClassifier

if TYPE_CHECKING:
    from palda.data import Array
    from palda.paper.baselines.base import Labels


class MajorityLabels(BaselineClassifier):
    """Predicts the more frequent value of each class in training, 0 for a tie; probabilities are base rates."""

    def predict(self, X: Any) -> Labels:
        """1 for the classes that more than half of the training documents have; shape (documents, classes)."""
        return (self.predict_proba(X) > HALF).astype(np.int8)

    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        """Nothing to learn besides the base rates."""

    def _probs(self, features: Any) -> Array:
        return np.tile(self.base_rates_[self.learned_], (features.shape[0], 1))


class NoLabels(MajorityLabels):
    """Predicts no class; every probability is 0, also for a class that every training document has."""

    def predict_proba(self, X: Any) -> Array:
        """Zeros of shape (documents, classes)."""
        return np.zeros_like(super().predict_proba(X))
