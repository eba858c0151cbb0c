"""Share of yes that a typical annotator would give: the support with a link of κ = 1 (maths, eq. 98)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from palda.models.crowd.quality import TypicalRates
from palda.models.crowd.support import people_and_panel, with_answers
from palda.models.crowd.support_em import support_posterior
from palda.models.crowd.traits import POINTS

if TYPE_CHECKING:
    from palda.data import Array, Votes
    from palda.models.crowd.support import SupportBelief

_MAX_CELLS = 4_000_000  # (document, class, point) cells that are computed at a time


def typical_shares(
    votes: Votes, belief: SupportBelief, answers: Array | None = None, label_probs: Array | None = None
) -> Array:
    """(documents, classes): expected share of yes among typical annotators, E[expit(s)].

    Parameters
    ----------
    votes : Votes
        Votes of the sources of the belief. Those of models speak through what their panel says about people.
    belief : SupportBelief
        Traits, weights and link.
    answers : array of shape (documents, classes), optional
        Answers of a classifier about the support; not used if the belief takes other evidence in nats.
    label_probs : array of shape (documents, classes), optional
        Labels given everything, which the support is in line with: profiles and known labels tell of it, too.
    """
    size = max(1, _MAX_CELLS // (belief.weights.size or 1))
    shares = np.zeros((votes.n_docs, votes.n_classes))
    for first in range(0, votes.n_docs, size):
        rows = np.arange(first, min(first + size, votes.n_docs))
        people, given = people_and_panel(votes.take(rows), belief)
        given, _ = with_answers(given, belief, None if answers is None else answers[rows])
        known = None if label_probs is None else label_probs[rows]
        shares[rows] = support_posterior(people, belief, given, known) @ expit(POINTS)
    return shares


def rates_given_votes(votes: Votes, belief: SupportBelief, answers: Array | None) -> TypicalRates:
    """P(vote 1 | present) and P(vote 0 | absent) of one more typical vote, (documents, classes), given those there are.

    Where votes show that people disagree, one more of them tells little about the truth.
    """
    shape = votes.n_docs, votes.n_classes
    present, absent = (typical_shares(votes, belief, answers, np.full(shape, state)) for state in (1.0, 0.0))
    return TypicalRates(present, 1.0 - absent)


def shares_of_answers(answers: Array, belief: SupportBelief) -> Array:
    """(documents, classes): the same without votes, from the answers of a classifier about the support."""
    sharpness = np.zeros(len(belief.weights)) if belief.sharpness is None else belief.sharpness
    shares = np.empty_like(answers)
    for label, weights in enumerate(belief.weights):
        given = answers[:, label, None]
        tilt = np.where(given != 0.0, given * POINTS - 0.5 * sharpness[label] * POINTS**2, 0.0)
        support = weights * np.exp(tilt - tilt.max(axis=1, keepdims=True))
        shares[:, label] = support @ expit(POINTS) / support.sum(axis=1)
    return shares


def shares_of_labels(label_probs: Array, belief: SupportBelief) -> Array:
    """(documents, classes): the same for labels of which only probabilities are known."""
    present, absent = (table @ expit(POINTS) for table in (belief.grid.present, belief.grid.absent))
    shares: Array = label_probs * present + (1.0 - label_probs) * absent
    return shares
