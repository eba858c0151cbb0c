"""Fits with base rates as the label prior, as published: one EM over words and votes.

What soft votes are worth is learned from the votes alone, before, and stays fixed in this EM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.special import expit

from palda.data import take_counts
from palda.models.classifier import assign_folds
from palda.models.crowd import CrowdSettings, count_votes, cut_votes, fit_crowd, start_state
from palda.models.topics import (
    Temperature,
    base_rate_log_odds,
    evidence_of_shards,
    fit_temperature,
    fit_topics,
    for_prediction,
    label_likelihoods,
    label_probs,
    run_em,
    start_params,
    temperature_sample,
    unlabelled_shards,
    word_evidence_model,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, CountRows, VoteRows
    from palda.models.crowd import AnnotatorBelief, AnnotatorModel
    from palda.models.topics import EMResult, EMSettings, Params, TopicPlan, TrainingData

    Indices = NDArray[np.int64]

_N_FOLDS = 5
_MIN_DOCS = 50  # to hold some out
_LEVEL_ROUNDS = 100  # of EM on the votes alone, which the levels of soft votes come from


@dataclass(frozen=True, eq=False)
class BaseRateFit:
    """A topic model, and probabilities of held-out documents by a model that was fitted without them."""

    topics: EMResult
    temperature: Temperature
    label_probs: Array  # Δ
    held_out: Indices  # rows of the held-out documents; empty if there are too few, or none are needed
    held_out_probs: Array


def fit_base_rates(data: TrainingData, plan: TopicPlan, seed: int, *, hold_out: bool) -> BaseRateFit:
    """EM on all documents and, if ``hold_out``, on four fifths of them to choose settings on the others."""

    def start_of(some: TrainingData, seed: int) -> Params:
        return replace(start_params(some.counts, some.guess, plan, seed), annotators=_first_belief(some, plan.settings))

    shards = data.shards()
    topics = fit_topics(shards, (start_of(data, start_seed) for start_seed in plan.seeds), plan)
    params = cast("Params", topics.params)
    probs = label_probs(shards, params, plan.settings)
    no_rows = np.empty(0, dtype=np.int64)
    if topics.interrupted or not hold_out or len(data.known) < _MIN_DOCS:
        return BaseRateFit(topics, Temperature(), probs, no_rows, np.empty((0, probs.shape[1])))

    folds = assign_folds(data.guess, _N_FOLDS, seed)
    others, rows = data.take(np.flatnonzero(folds != 0)), np.flatnonzero(folds == 0)
    start = start_of(others, plan.seeds[0])
    fold_params = run_em(others.shards(), start, plan.settings).params or start
    temperature = Temperature()
    if plan.settings.inference == "joint":
        sample = temperature_sample(rows, data.known.shape[1])
        present, absent = _likelihoods(sample, fold_params, data, plan.settings)
        temperature = fit_temperature(data.counts, sample, fold_params, present, absent, plan.settings)
    held_out_probs = word_probs(take_counts(data.counts, rows), fold_params, temperature, plan.settings)
    return BaseRateFit(topics, temperature, probs, rows, held_out_probs)


def word_probs(counts: CountRows, params: Params, temperature: Temperature, settings: EMSettings) -> Array:
    """Probabilities (documents, classes) of new documents, from their words alone."""
    shards = unlabelled_shards(counts, len(params.class_prior))
    if settings.inference == "mean_field":
        return label_probs(shards, for_prediction(params), settings)
    evidence = evidence_of_shards(shards, word_evidence_model(params, temperature), settings).evidence
    probs: Array = expit(base_rate_log_odds(params.class_prior) + evidence)
    return probs


def _first_belief(data: TrainingData, settings: EMSettings) -> AnnotatorBelief | None:
    if data.votes is None or settings.annotators is None or data.belief is None:
        return None
    belief = settings.annotators.update(count_votes(settings.annotators, data.votes, data.guess), data.belief)
    return belief if belief.levels is None else _with_fixed_levels(belief, data, settings.annotators)


def _with_fixed_levels(belief: AnnotatorBelief, data: TrainingData, model: AnnotatorModel) -> AnnotatorBelief:
    """The belief with the levels of soft votes of a fit to the votes alone; EM over words and votes keeps them."""
    shards = cut_votes(cast("VoteRows", data.votes), data.known)
    votes_alone = fit_crowd(shards, start_state(belief, data.guess), CrowdSettings(model, _LEVEL_ROUNDS))
    return replace(belief, levels=votes_alone.state.belief.levels)


def _likelihoods(rows: Indices, params: Params, data: TrainingData, settings: EMSettings) -> tuple[Array, Array]:
    if data.votes is None or settings.annotators is None or params.annotators is None:
        return label_likelihoods(data.known[rows], None)
    evidence = settings.annotators.evidence(data.votes.take(rows), params.annotators)
    return label_likelihoods(data.known[rows], evidence)
