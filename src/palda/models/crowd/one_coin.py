"""One coin an annotator: a vote is right with probability ρ, whatever the class and the truth."""

from __future__ import annotations

from palda.models.crowd.coins import CoinModel

__all__ = ["OneCoinModel"]


class OneCoinModel(CoinModel):
    """The published coin with a belief about ρ in place of an estimate.

    It cannot see somebody who always says "no" where classes are rare: most of such votes are right.
    """

    by_class = False
    by_state = False
