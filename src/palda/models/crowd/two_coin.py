"""Two coins an annotator: one for classes that are there, one for classes that are not."""

from __future__ import annotations

from palda.models.crowd.coins import CoinModel

__all__ = ["TwoCoinModel"]


class TwoCoinModel(CoinModel):
    """Sensitivity P(vote 1 | present) and specificity P(vote 0 | absent), the same for all classes.

    People overlook labels far more often than they invent them; one coin would have to call both the same.
    """

    by_class = False
    by_state = True
