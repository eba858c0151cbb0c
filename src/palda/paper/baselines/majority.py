"""The rival that does not look at documents: each class's more frequent value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda.paper.baselines.rival import HALF, Rival

if TYPE_CHECKING:
    from palda.paper.baselines.rival import Array, Labels

__all__ = ["Majority"]


class Majority(Rival):
    """Predicts each class's more frequent value in training; probabilities are base rates. A tie is absent."""

    def predict(self, X: Any) -> Labels:
        """(documents, classes): 1 for the classes that more than half of the training documents have."""
        return (self.predict_proba(X) > HALF).astype(np.int8)

    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        """Base rates are all there is to learn."""

    def _probs(self, features: Any) -> Array:
        return np.tile(self.base_rates_[self.learned_], (features.shape[0], 1))
