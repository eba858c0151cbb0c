"""Fits with base rates as the label prior, as published: one EM over words and votes.

What soft votes are worth is learned from the votes alone, before, and stays fixed in this EM. With too few documents
to see how far words predict votes, the labels are those of the votes alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.special import expit

from palda.data import take_counts
from palda.models.classifier import assign_folds
from palda.models.crowd import CrowdSettings, SupportModel, count_votes, cut_votes, first_state, fit_crowd, start_state
from palda.models.topics import (
    Temperature,
    base_rate_log_odds,
    evidence_of_shards,
    fit_labelled_topics,
    fit_temperature,
    fit_topics,
    for_prediction,
    label_likelihoods,
    label_probs,
    no_topics,
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
    from palda.models.crowd.em import CrowdFit
    from palda.models.topics import EMResult, EMSettings, Params, TopicPlan, TrainingData

    Indices = NDArray[np.int64]

_N_FOLDS = 5
_MIN_DOCS = 50  # to hold some out
_VOTE_ROUNDS = 500  # of EM on the votes alone, which the annotators of the support model start from
_LEVEL_ROUNDS = 100  # of EM on the votes alone, which the levels of soft votes come from


@dataclass(frozen=True, eq=False)
class BaseRateFit:
    """A topic model, and probabilities of held-out documents by a model that was fitted without them."""

    topics: EMResult
    temperature: Temperature
    label_probs: Array  # Δ
    held_out: Indices  # rows of the held-out documents; empty if there are too few, or none are needed
    held_out_probs: Array


def fit_votes_alone(data: TrainingData, plan: TopicPlan, model: SupportModel) -> BaseRateFit:
    """Labels of votes alone, and a topic model that has learned from them.

    A few dozen documents do not show how far words predict votes. The topic model takes words as independent, and was
    certain of labels of which one in ten was wrong.
    """
    votes, belief = cast("VoteRows", data.votes), cast("AnnotatorBelief", data.belief)
    crowd = _fit_votes(belief, votes, data, model)
    has_words = data.counts.shape[1] > 0
    topics = fit_labelled_topics(data.counts, crowd.label_probs, plan) if has_words else no_topics(crowd.label_probs)
    topics = replace(topics, params=replace(cast("Params", topics.params), annotators=crowd.state.belief))
    no_rows = np.empty(0, dtype=np.int64)
    return BaseRateFit(topics, Temperature(), crowd.label_probs, no_rows, np.empty((0, crowd.label_probs.shape[1])))


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
    if isinstance(settings.annotators, SupportModel):
        # how labels are supported is not learned together with words
        return _fit_votes(data.belief, data.votes, data, settings.annotators).state.belief
    belief = settings.annotators.update(count_votes(settings.annotators, data.votes, data.guess), data.belief)
    return belief if belief.levels is None else _with_fixed_levels(belief, data, settings.annotators)


def _fit_votes(belief: AnnotatorBelief, votes: VoteRows, data: TrainingData, model: SupportModel) -> CrowdFit:
    """EM over the votes alone."""
    settings = CrowdSettings(model, _VOTE_ROUNDS)
    start = first_state(votes, data.known, data.guess, belief, settings)
    return fit_crowd(cut_votes(votes, data.known), start, settings)


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
