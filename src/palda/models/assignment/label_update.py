"""Labels and rates after some votes changed, without a fit: only documents and annotators that the change touches.

The labels of a touched document are its posterior under the current rates, from all of its votes and the evidence that
the model keeps of it. Counts behind the rates lose what the document contributed before, and gain what it contributes
now. So a vote that is withdrawn leaves no trace, and nothing adds up over many updates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palda.models.crowd import (
    CrowdSettings,
    CrowdState,
    ProfilePrior,
    count_votes,
    cut_votes,
    fit_crowd,
    label_posterior,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, VoteRows, Votes
    from palda.models.crowd import AnnotatorBelief, AnnotatorModel, Profiles

_MAX_ROUNDS, _TOL = 5, 1e-3  # of labels and rates in turn, until no label changes by more


@dataclass(frozen=True, eq=False)
class LabelState:
    """Labels of some documents, and the beliefs about annotators that they come from."""

    belief: AnnotatorBelief
    vote_counts: Array  # expected votes behind each rate, over all documents
    label_probs: Array  # Δ of the touched documents


@dataclass(frozen=True, eq=False)
class TouchedDocuments:
    """Documents whose votes or known labels changed; votes are those of the sources that hold rates."""

    before: Votes
    after: Votes
    label_probs: Array  # Δ before
    known: NDArray[np.int8]
    evidence: Array


def update_labels(
    touched: TouchedDocuments, belief: AnnotatorBelief, vote_counts: Array, profiles: Profiles, settings: CrowdSettings
) -> LabelState:
    """Labels of the touched documents and rates in turn, from where they were (maths, eq. 90)."""
    model = settings.annotators
    others = np.maximum(vote_counts - count_votes(model, touched.before, touched.label_probs), 0.0)

    def labels() -> Array:
        state = CrowdState(belief, profiles, ProfilePrior.vague(touched.known.shape[1]))
        return label_posterior(touched.after, touched.known, state, settings, touched.evidence)

    probs = labels()
    for _ in range(_MAX_ROUNDS):
        belief = model.update(others + count_votes(model, touched.after, probs), belief)
        before, probs = probs, labels()
        if np.abs(probs - before).max(initial=0.0) < _TOL:
            break
    return LabelState(belief, others + count_votes(model, touched.after, probs), probs)


def update_all_labels(
    votes: VoteRows,
    known: NDArray[np.int8],
    evidence: Array,
    belief: AnnotatorBelief,
    profiles: Profiles,
    settings: CrowdSettings,
) -> LabelState:
    """Labels of all documents and rates by EM, while profiles and the evidence of the words stay."""
    state = CrowdState(belief, profiles, ProfilePrior.vague(known.shape[1]))
    fit = fit_crowd(cut_votes(votes, known, evidence), state, settings)
    return LabelState(fit.state.belief, count_votes(settings.annotators, votes, fit.label_probs), fit.label_probs)


def evidence_besides_votes(
    votes: Votes, label_probs: Array, belief: AnnotatorBelief, model: AnnotatorModel, min_prob: float = 1e-6
) -> Array:
    """What labels say beyond the votes, in nats: the log-odds of the labels minus the evidence of the votes."""
    clipped = np.clip(label_probs, min_prob, 1.0 - min_prob)
    rest: Array = np.log(clipped) - np.log1p(-clipped) - model.evidence(votes, belief).log_odds
    return rest
