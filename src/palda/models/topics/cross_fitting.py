"""Topic models fitted to fixed label probabilities, and their evidence on documents they were not fitted to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from palda.data import take_counts
from palda.models.topics.em import EMResult, EMSettings, run_em
from palda.models.topics.parameters import Params, estimate_base_rates
from palda.models.topics.prediction import (
    Temperature,
    WordEvidenceModel,
    evidence_of_shards,
    fit_temperature,
    temperature_sample,
    word_evidence_model,
)
from palda.models.topics.shards import labelled_shards, unlabelled_shards
from palda.models.topics.start import first_params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from palda.data import Array, CountRows
    from palda.models.topics.parameters import StepInfo
    from palda.models.topics.shards import DocumentShard

    Indices = NDArray[np.int64]

_MIN_PROB = 0.02  # distance from 0 and 1 of the labels that the temperature is chosen beside


@dataclass(frozen=True)
class TopicPlan:
    """How topic models are fitted."""

    n_topics: int
    smoothing: bool
    settings: EMSettings
    seeds: Sequence[int]  # one start per seed for the model of all documents; fold models use the first seed
    watch: Callable[[], Callable[[StepInfo], object]] = field(default=lambda: lambda _: None)
    """Makes a function that is called after every iteration of a run."""


@dataclass(frozen=True, eq=False)
class CrossFittedTopics:
    """A topic model of all documents, and the out-of-fold evidence of models that have not seen a document."""

    model: EMResult
    evidence_model: WordEvidenceModel  # for new documents: the mean of the fold models
    evidence: Array  # (docs, classes), in nats


def start_params(counts: CountRows, guess: Array, plan: TopicPlan, seed: int) -> Params:
    """Parameters before the first iteration, from initial label probabilities ``guess`` (docs, classes)."""
    class_prior = estimate_base_rates(guess.sum(axis=0), len(guess))
    rng = np.random.default_rng(seed)
    return first_params(
        counts,
        class_prior,
        plan.n_topics,
        rng,
        smoothing=plan.smoothing,
        guess=guess,
        shared_absence=plan.settings.shared_absence,
    )


def fit_topics(shards: Sequence[DocumentShard], starts: Iterable[Params], plan: TopicPlan) -> EMResult:
    """EM from each start; the run with the highest bound. Ctrl-C ends the fit and keeps the best parameters so far."""
    runs: list[EMResult] = []
    try:
        for start in starts:
            runs.append(EMResult())
            run_em(shards, start, plan.settings, plan.watch(), result=runs[-1])
    except KeyboardInterrupt:
        if not runs or runs[0].params is None:
            raise
        runs[-1].interrupted = True
    best = max(runs, key=lambda run: run.bound)
    best.interrupted = runs[-1].interrupted
    return best


def fit_labelled_topics(counts: CountRows, label_probs: Array, plan: TopicPlan) -> EMResult:
    """A topic model of documents whose labels have fixed probabilities."""
    starts = (start_params(counts, label_probs, plan, seed) for seed in plan.seeds)
    return fit_topics(labelled_shards(counts, label_probs), starts, plan)


def no_topics(label_probs: Array) -> EMResult:
    """A result without topics, for documents without words: base rates only."""
    class_prior = estimate_base_rates(label_probs.sum(axis=0), len(label_probs))
    params = Params(np.empty((len(class_prior), 2, 0)), np.empty((0, 0)), class_prior)
    return EMResult(params, bound=0.0, converged=True)


def cross_fit_topics(
    counts: CountRows, label_probs: Array, folds: Indices, plan: TopicPlan, earlier: CrossFittedTopics | None = None
) -> CrossFittedTopics:
    """Topic models of all documents and of all but each fold; the temperature of an ``earlier`` result is reused.

    New documents get their evidence from the fold models, as the training documents do, not from the model of all
    documents: that one has seen more, so its evidence is larger than the evidence a classifier has learned to weigh.
    """
    settings, n_classes = plan.settings, label_probs.shape[1]
    whole = fit_labelled_topics(counts, label_probs, plan)
    if whole.interrupted:
        params = start_params(counts, label_probs, plan, plan.seeds[0]) if whole.params is None else whole.params
        return CrossFittedTopics(whole, word_evidence_model(params, Temperature()), np.zeros_like(label_probs))

    fold_params: list[Params] = []
    for fold in range(int(folds.max()) + 1):
        rows = np.flatnonzero(folds != fold)
        fold_counts, fold_probs = take_counts(counts, rows), label_probs[rows]
        start = start_params(fold_counts, fold_probs, plan, plan.seeds[0])
        fold_params.append(run_em(labelled_shards(fold_counts, fold_probs), start, settings).params or start)

    if earlier is not None:
        temperature = earlier.evidence_model.temperature
    else:
        rows = temperature_sample(np.flatnonzero(folds == 0), n_classes)
        probs = np.clip(label_probs[rows], _MIN_PROB, 1.0 - _MIN_PROB)
        temperature = fit_temperature(counts, rows, fold_params[0], np.log(probs), np.log1p(-probs), settings)

    models = [word_evidence_model(params, temperature) for params in fold_params]
    evidence = np.zeros_like(label_probs)
    for fold, model in enumerate(models):
        rows = np.flatnonzero(folds == fold)
        evidence[rows] = evidence_of_shards(
            unlabelled_shards(take_counts(counts, rows), n_classes), model, settings
        ).evidence
    return CrossFittedTopics(whole, WordEvidenceModel.mean(models), evidence)
