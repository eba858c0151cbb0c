"""Votes that were hidden, and how well they are predicted from probabilities of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from palda.data import Array, Votes
    from palda.models.crowd.annotator_model import AnnotatorBelief


class HeldOutVotes(NamedTuple):
    """Hidden votes, to be predicted under several label probabilities (maths, eq. 46)."""

    votes: Votes
    if_absent: Array  # (votes,): P(vote | absent)
    if_present: Array

    @classmethod
    def independent(cls, votes: Votes, belief: AnnotatorBelief) -> HeldOutVotes:
        """Votes that are independent of the visible ones given the labels, from mean rates."""
        from palda.models.crowd.annotator_model import mean_rates

        rates = mean_rates(belief)
        column = votes.label if rates.shape[1] > 1 else np.zeros_like(votes.label)
        specificity, sensitivity = (rates[votes.annotator, column, state] for state in (0, -1))
        is_yes = votes.value == 1
        return cls(
            votes, np.where(is_yes, 1.0 - specificity, specificity), np.where(is_yes, sensitivity, 1.0 - sensitivity)
        )

    def log_likelihoods(self, label_probs: Array) -> Array:
        """(documents,): log-likelihood of the votes under label probabilities (documents, classes)."""
        present = label_probs.ravel()[self.votes.pair]
        log_probs = np.log(self.if_absent + present * (self.if_present - self.if_absent))
        return np.bincount(self.votes.doc, log_probs, minlength=self.votes.n_docs).astype(np.float64, copy=False)
