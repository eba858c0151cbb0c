"""Two coins for every class: somebody may be good at one class and blind to another."""

from __future__ import annotations

from palda.models.crowd.coins import CoinModel

__all__ = ["PerClassModel"]


class PerClassModel(CoinModel):
    """Sensitivity and specificity of every annotator in every class, with a pool for each class and state."""

    by_class = True
    by_state = True
