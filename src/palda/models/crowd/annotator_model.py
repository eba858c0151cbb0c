"""What every annotator model can do, and what it believes of its annotators: plain arrays, a row an annotator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.models.crowd.annotator_history import AnnotatorHistory

    Array = NDArray[np.float64]

__all__ = ["AnnotatorBelief", "AnnotatorModel", "VoteEvidence", "by_class_and_state"]


class VoteEvidence(NamedTuple):
    """Log-likelihood of the votes on each (document, class) if the class is present, and if it is absent.

    Where rates are not known but believed, the expected log-likelihood.
    """

    present: Array
    absent: Array

    @property
    def log_odds(self) -> Array:
        """What the votes say for "present", in nats; 0 where nobody voted: silence is not a "no"."""
        return self.present - self.absent


@dataclass(frozen=True)
class AnnotatorBelief:
    """Beta beliefs about rates: the last axis holds (right, wrong) pseudo-votes.

    What lies between the first axis and the last says which votes share a rate: nothing when all of them do, the
    state of the class (absent, present) for two coins, class and state for rates of every class.
    """

    posterior: Array  # (annotators, ..., 2): q(rate)
    pool: Array  # (..., 2): the prior that annotators without a history share
    own: Array  # (annotators, ..., 2): the prior of those with a history, NaN for the others

    @property
    def has_history(self) -> NDArray[np.bool_]:
        """(annotators,): who has a prior of their own and takes no part in the pool's."""
        return ~np.isnan(self.own.reshape(len(self.own), -1)[:, 0])

    @property
    def prior(self) -> Array:
        """(annotators, ..., 2): what was believed before any vote."""
        return np.where(np.isnan(self.own), self.pool, self.own)

    def with_new_annotators(self, n_strangers: int) -> AnnotatorBelief:
        """The same, and so many more annotators of whom nothing is known but their pool."""
        pool = np.broadcast_to(self.pool, (n_strangers, *self.pool.shape))
        return AnnotatorBelief(
            np.concatenate((self.posterior, pool)),
            self.pool,
            np.concatenate((self.own, np.full(pool.shape, np.nan))),
        )


class AnnotatorModel(Protocol):
    """Pure functions of votes, beliefs about annotators and label probabilities.

    The bound of the labels under ``evidence``, less ``divergence``, never falls when labels and ``update`` take turns.
    """

    def start(self, n_annotators: int, n_classes: int, prior: AnnotatorHistory | None = None) -> AnnotatorBelief:
        """Beliefs before any vote: a little better than chance, or what earlier work taught."""

    def evidence(self, votes: Votes, belief: AnnotatorBelief) -> VoteEvidence:
        """What the votes say about each label."""

    def count(self, votes: Votes, label_probs: Array) -> Array:
        """Expected (right, wrong) votes behind every rate; counts of two shards add up to those of both."""

    def update(self, counts: Array, belief: AnnotatorBelief) -> AnnotatorBelief:
        """Beliefs that maximise the bound, given the counts."""

    def divergence(self, belief: AnnotatorBelief) -> float:
        """What the beliefs cost in the bound, in nats."""


def by_class_and_state(table: Array) -> Array:
    """The same table as (annotators, classes or 1, states or 1, 2); an axis that votes share has length 1."""
    n_annotators, *between, last = table.shape
    return table.reshape(n_annotators, *(1,) * (2 - len(between)), *between, last)
