"""What every annotator model can do; its learned rates are a plain array, an entry an annotator."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from palda.data.votes import Votes

    Array = NDArray[np.float64]

__all__ = ["AnnotatorModel", "VoteEvidence"]


class VoteEvidence(NamedTuple):
    """Log-likelihood of the votes on each (document, class) if the class is present, and if it is absent."""

    present: Array
    absent: Array

    @property
    def log_odds(self) -> Array:
        """What the votes say for "present", in nats; 0 where nobody voted: silence is not a "no"."""
        return self.present - self.absent


class AnnotatorModel(Protocol):
    """Pure functions of votes, rates and label probabilities."""

    def evidence(self, votes: Votes, rates: Array) -> VoteEvidence:
        """What the votes say about each label."""

    def count(self, votes: Votes, label_probs: Array) -> Array:
        """Additive statistics of the annotators, given what is believed of the labels."""

    def update(self, counts: Array, rates: Array) -> Array:
        """Rates that maximise the bound, given the statistics; annotators without votes keep theirs."""

    def start(self, n_annotators: int) -> Array:
        """Rates before anything is known."""
