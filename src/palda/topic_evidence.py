"""Topic models fitted to labels that are settled already, and what they say about documents they have not seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logit

from palda.data.stretches import take_counts
from palda.fit import Best, Settings, cut_shards, reader_of, run_em
from palda.held_out import FoldModel, fit_folds, held_out_evidence, temper_of
from palda.model.predict import Reader, Temper
from palda.model.start import first_params
from palda.priors import base_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from palda.data.stretches import CountRows
    from palda.fit import Shard
    from palda.model.state import Params, StepInfo

    Array = NDArray[np.float64]
    Rows = NDArray[np.int64]

__all__ = ["TopicPlan", "TopicReading", "fit_topics", "labelled_shards", "read_topics", "start_params"]

_CERTAIN = 0.02  # a label this near to 0 or 1 counts as known: a block that all but is not costs as much as one that is


@dataclass(frozen=True)
class TopicPlan:
    """How topic models are fitted."""

    n_topics: int
    smoothing: bool
    settings: Settings
    seeds: Sequence[int]  # of the starts of the model for new documents; the first serves models of folds too
    watch: Callable[[], Callable[[StepInfo], object]] = field(default=lambda: lambda _: None)


@dataclass(frozen=True, eq=False)
class TopicReading:
    """A topic model for new documents, and what models that have not seen them say about the training documents."""

    model: Best
    reader: Reader  # of new documents: the mean of the models that have not seen some of the others
    evidence: Array  # (docs, classes), in nats


def start_params(counts: CountRows, guess: Array, plan: TopicPlan, seed: int) -> Params:
    """Parameters before the first round: ξ and topics from a first guess at the labels."""
    class_prior = base_rate.update(guess.sum(axis=0), len(guess))
    rng = np.random.default_rng(seed)
    return first_params(counts, class_prior, plan.n_topics, rng, smoothing=plan.smoothing, guess=guess)


def fit_topics(shards: Sequence[Shard], start: Callable[[int], Params], plan: TopicPlan) -> Best:
    """EM from each of the plan's seeds; the run with the best bound, whatever interrupts it."""
    runs: list[Best] = []
    try:
        for seed in plan.seeds:
            runs.append(Best())
            run_em(shards, start(seed), plan.settings, plan.watch(), into=runs[-1])
    except KeyboardInterrupt:
        if not runs or runs[0].params is None:
            raise
        runs[-1].interrupted = True
    best = max(runs, key=lambda run: run.bound)
    best.interrupted = runs[-1].interrupted
    return best


def labelled_shards(counts: CountRows, label_probs: Array) -> list[Shard]:
    """Shards whose labels are settled: those that are nearly certain count as known."""
    certain = (label_probs < _CERTAIN) | (label_probs > 1.0 - _CERTAIN)
    known = np.where(certain, label_probs > 0.5, -1).astype(np.int8)
    given = logit(np.clip(label_probs, _CERTAIN, 1.0 - _CERTAIN))
    return cut_shards(counts, known, given=given)


def read_topics(
    counts: CountRows, label_probs: Array, folds: Rows, plan: TopicPlan, earlier: TopicReading | None = None
) -> TopicReading:
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
        return TopicReading(whole, reader_of(found, Temper()), np.zeros_like(label_probs))
    models = fit_folds(folds, fit_rows, range(int(folds.max()) + 1))
    temper = earlier.reader.temper if earlier is not None else temper_of(models[:1], counts, likelihoods, plan.settings)
    evidence = np.zeros_like(label_probs)
    for model, said in zip(models, held_out_evidence(models, counts, temper, plan.settings), strict=True):
        evidence[model.rows] = said
    return TopicReading(whole, Reader.mean([reader_of(model.params, temper) for model in models]), evidence)
