"""Profiles are tried only where classes go together between annotators, not where answers do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit

from palda import simulate
from palda.data import Votes
from palda.engine import Threads
from palda.models.crowd import (
    CrowdSettings,
    SupportModel,
    choose_n_profiles,
    cut_votes,
    first_state,
    fit_crowd,
    initial_label_probs,
    start_belief,
)
from palda.models.crowd.model_selection import between_annotators

SETS = np.array([[0.9, 0.8, 0.1, 0.05], [0.05, 0.1, 0.9, 0.85], [0.1, 0.7, 0.1, 0.1]])
RATES = [0.9, 0.8, 0.85, 0.7, 0.75, 0.9]


def label_sets_with_independent_errors(rng: np.random.Generator) -> Votes:
    labels = (rng.random((400, 4)) < SETS[rng.choice(3, 400)]).astype(np.int8)
    return simulate.crowd(labels, RATES, seed=0, votes_per_doc=4)[0]


def one_label_per_answer(rng: np.random.Generator) -> Votes:
    """Everybody ticks the one class that seems most fitting."""
    seems = rng.normal(size=(400, 1, 4)) + rng.normal(size=(400, 6, 4))
    return Votes.from_array((seems == seems.max(axis=2, keepdims=True)).astype(int))


def answers_with_moods(rng: np.random.Generator) -> Votes:
    """Labels are independent; an annotator says yes to many classes of a document, or to few."""
    support = rng.normal(-0.3, 1.0, (400, 1, 4)) + rng.normal(0.0, 1.5, (400, 6, 1))
    return Votes.from_array((rng.random(support.shape) < expit(2.0 * support)).astype(int))


@pytest.mark.parametrize(
    ("crowd", "low", "high", "has_profiles"),
    [
        (label_sets_with_independent_errors, 0.85, 1.2, True),
        (one_label_per_answer, 0.0, 0.5, False),
        (answers_with_moods, -0.2, 0.2, False),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_profiles_need_classes_that_go_together_between_annotators(
    crowd: Callable[[np.random.Generator], Votes], low: float, high: float, has_profiles: bool, seed: int
) -> None:
    votes = crowd(np.random.default_rng(seed))
    settings, known = CrowdSettings(SupportModel(), engine=Threads(1)), np.full((400, 4), -1, dtype=np.int8)
    start = first_state(
        votes, known, initial_label_probs(votes, known), start_belief(settings.annotators, votes), settings
    )
    found = fit_crowd(cut_votes(votes, known), start, settings)
    assert low < between_annotators(votes, found.state.belief) < high
    assert (choose_n_profiles(votes, known, found, settings) > 1) == has_profiles
