"""Topic models fitted to labels that are settled already, and what they say about documents they have not seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logit

from palda.data import take_counts
from palda.models.topics import base_rate
from palda.models.topics.em import EMResult, EMSettings, cut_shards, run_em, word_evidence_model
from palda.models.topics.held_out import FoldModel, choose_temperature, fit_folds, held_out_evidence
from palda.models.topics.prediction import Temperature, WordEvidenceModel
from palda.models.topics.start import first_params

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from palda.data import CountRows
    from palda.models.topics.em import DocumentShard
    from palda.models.topics.parameters import Params, StepInfo

    Array = NDArray[np.float64]
    Rows = NDArray[np.int64]

__all__ = ["CrossFittedTopics", "TopicPlan", "cross_fit_topics", "fit_topics", "labelled_shards", "start_params"]

_CERTAIN = 0.02  # a label this near to 0 or 1 counts as known: a block that all but is not costs as much as one that is


@dataclass(frozen=True)
class TopicPlan:
    """How topic models are fitted."""

    n_topics: int
    smoothing: bool
    settings: EMSettings
    seeds: Sequence[int]  # of the starts of the model for new documents; the first serves models of folds too
    watch: Callable[[], Callable[[StepInfo], object]] = field(default=lambda: lambda _: None)


@dataclass(frozen=True, eq=False)
class CrossFittedTopics:
    """A topic model for new documents, and what models that have not seen them say about the training documents."""

    model: EMResult
    reader: WordEvidenceModel  # of new documents: the mean of the models that have not seen some of the others
    evidence: Array  # (docs, classes), in nats


def start_params(counts: CountRows, guess: Array, plan: TopicPlan, seed: int) -> Params:
    """Parameters before the first round: ξ and topics from a first guess at the labels."""
    class_prior = base_rate.update(guess.sum(axis=0), len(guess))
    rng = np.random.default_rng(seed)
    return first_params(counts, class_prior, plan.n_topics, rng, smoothing=plan.smoothing, guess=guess)


def fit_topics(shards: Sequence[DocumentShard], start: Callable[[int], Params], plan: TopicPlan) -> EMResult:
    """EM from each of the plan's seeds; the run with the best bound, whatever interrupts it."""
    runs: list[EMResult] = []
    try:
        for seed in plan.seeds:
            runs.append(EMResult())
            run_em(shards, start(seed), plan.settings, plan.watch(), into=runs[-1])
    except KeyboardInterrupt:
        if not runs or runs[0].params is None:
            raise
        runs[-1].interrupted = True
    best = max(runs, key=lambda run: run.bound)
    best.interrupted = runs[-1].interrupted
    return best


def labelled_shards(counts: CountRows, label_probs: Array) -> list[DocumentShard]:
    """Shards whose labels are settled: those that are nearly certain count as known."""
    certain = (label_probs < _CERTAIN) | (label_probs > 1.0 - _CERTAIN)
    known = np.where(certain, label_probs > 0.5, -1).astype(np.int8)
    given = logit(np.clip(label_probs, _CERTAIN, 1.0 - _CERTAIN))
    return cut_shards(counts, known, given=given)


def cross_fit_topics(
    counts: CountRows, label_probs: Array, folds: Rows, plan: TopicPlan, earlier: CrossFittedTopics | None = None
) -> CrossFittedTopics:
    """Topic models of all documents and of all but each fold, fitted to soft labels; an earlier temper is kept.

    New documents are read by the models of the folds, as the training documents are, not by the model of all of them:
    that one has seen more, so its evidence is larger than the evidence a head has learned to weigh.
    """

    def fit_rows(rows: Rows) -> Params:
        inside, guess = take_counts(counts, rows), label_probs[rows]
        start = start_params(inside, guess, plan, plan.seeds[0])
        found = run_em(labelled_shards(inside, guess), start, plan.settings).params
        return found if found is not None else start

    def likelihoods(model: FoldModel) -> tuple[Array, Array]:
        probs = np.clip(label_probs[model.rows], _CERTAIN, 1.0 - _CERTAIN)
        return np.log(probs), np.log1p(-probs)

    whole = fit_topics(
        labelled_shards(counts, label_probs), lambda seed: start_params(counts, label_probs, plan, seed), plan
    )
    if whole.interrupted:
        found = start_params(counts, label_probs, plan, plan.seeds[0]) if whole.params is None else whole.params
        return CrossFittedTopics(whole, word_evidence_model(found, Temperature()), np.zeros_like(label_probs))
    models = fit_folds(folds, fit_rows, range(int(folds.max()) + 1))
    temper = (
        earlier.reader.temper
        if earlier is not None
        else choose_temperature(models[:1], counts, likelihoods, plan.settings)
    )
    evidence = np.zeros_like(label_probs)
    for model, said in zip(models, held_out_evidence(models, counts, temper, plan.settings), strict=True):
        evidence[model.rows] = said
    return CrossFittedTopics(
        whole, WordEvidenceModel.mean([word_evidence_model(model.params, temper) for model in models]), evidence
    )
