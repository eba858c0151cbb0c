"""Documents and votes that arrive later: a fitted model goes on from what it knows, without the documents it has seen.

Labels of the new documents come first: from their votes, from what is believed of annotators, and from a head that has
not seen them. Then annotators, head and topics learn from them. What is kept of the past is small: of annotators their
counts of votes, of topics and head the parameters and how many documents stand behind them. A batch counts as much as
its documents are many, so the order in which batches arrive matters little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import logit

from palda.data import word_totals
from palda.models.classifier import ClassifierSummary, LogisticClassifier, summarize_classifier, update_classifier
from palda.models.crowd import CrowdState, ProfilePrior, Profiles, label_posterior, label_sets
from palda.models.topics import (
    cut_shards,
    evidence_of_shards,
    implied_stats,
    label_probs,
    labelled_shards,
    lower_bound,
    total_statistics,
    unlabelled_shards,
    update_params,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from palda.data import CountRows, Counts, Votes
    from palda.models.classifier import LabelPrior
    from palda.models.crowd import AnnotatorBelief, CrowdSettings
    from palda.models.topics import DocumentShard, EMSettings, Params, SufficientStats
    from palda.training.alternating import TrainingResult

    Array = NDArray[np.float64]

__all__ = ["Batch", "ModelState", "PastSummary", "RevisitedDocuments", "UpdateResult", "summarize_past", "update_model"]

_LEAST_PROB = 1e-6  # probabilities are this far from 0 and 1
_VOTE_ROUNDS, _SETTLED = 50, 1e-4  # of labels and annotators in turn, until no label moves by more
_TOPIC_ROUNDS, _TOPIC_TOL = 10, 1e-3  # of EM on a batch


@dataclass(frozen=True, eq=False)
class PastSummary:
    """What a model keeps of the documents that it has seen, beside its parameters."""

    n_docs: int
    n_tokens: float
    classifier: ClassifierSummary | None = None  # None for base rates

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything it is made of, ready for an npz file."""
        arrays = {"sizes": np.array([self.n_docs, self.n_tokens])}
        if self.classifier is not None:
            arrays |= {
                "head_positives": self.classifier.positives,
                "head_n_spoken": self.classifier.n_spoken,
                "head_n_docs": np.asarray(self.classifier.n_docs),
            }
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> PastSummary | None:
        """What ``arrays`` was taken from; None of a model that was saved without."""
        if "sizes" not in arrays:
            return None
        n_docs, n_tokens = (float(number) for number in arrays["sizes"])
        if "head_n_docs" not in arrays:
            return cls(int(n_docs), n_tokens)
        head = ClassifierSummary(arrays["head_positives"], arrays["head_n_spoken"], int(arrays["head_n_docs"]))
        return cls(int(n_docs), n_tokens, head)


@dataclass(frozen=True, eq=False)
class Batch:
    """New documents, and what is known of their labels."""

    counts: Counts
    known: NDArray[np.int8]
    votes: Votes | None = None


@dataclass(frozen=True, eq=False)
class RevisitedDocuments:
    """New votes on documents that the model has seen, and what it believed of their labels."""

    votes: Votes
    label_probs: Array
    known: NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class ModelState:
    """Where a model stands: everything that documents to come will change."""

    params: Params
    prior: LabelPrior | None
    memory: PastSummary
    vote_counts: Array  # of length 0 without votes


@dataclass(frozen=True, eq=False)
class UpdateResult:
    """Where the model stands now, and what was found about the documents of the batch."""

    state: ModelState
    label_probs: Array  # Δ of the new documents
    revisited_probs: Array  # Δ of those seen before
    predicted_log_odds: Array | None  # of the new documents, before they were learned from; None for base rates


def summarize_past(counts: CountRows, found: TrainingResult | None = None) -> PastSummary:
    """Memory of the documents of a whole fit."""
    tokens = float(word_totals(counts).sum())
    if found is None or found.prior is None or not isinstance(found.prior.classifier, LogisticClassifier):
        return PastSummary(counts.shape[0], tokens)
    weights = None if found.weights.all() else found.weights
    return PastSummary(counts.shape[0], tokens, summarize_classifier(found.label_probs, weights))


def update_model(
    standing: ModelState,
    batch: Batch,
    settings: EMSettings,
    crowd: CrowdSettings,
    seen: RevisitedDocuments | None = None,
) -> UpdateResult:
    """The model after a batch: labels of its documents, then annotators, label prior and topics."""
    if not len(batch.known):
        return _votes_alone(standing, crowd, seen, batch.known.shape[1])
    if standing.prior is None:
        return _with_base_rates(standing, batch, replace(settings, annotators=crowd.annotators), crowd, seen)
    return _with_a_head(standing, standing.prior, batch, settings, crowd, seen)


def _votes_alone(
    standing: ModelState, crowd: CrowdSettings, seen: RevisitedDocuments | None, n_classes: int
) -> UpdateResult:
    """No new documents, but votes on some that were seen before."""
    belief, counts, probs = standing.params.annotators, standing.vote_counts, np.empty((0, n_classes))
    if seen is not None and belief is not None:
        for _ in range(_VOTE_ROUNDS):
            before, probs = probs, _once_more(seen, belief, crowd, n_classes)
            counts = standing.vote_counts + crowd.annotators.count(seen.votes, probs)
            belief = crowd.annotators.update(counts, belief)
            if len(before) and np.abs(probs - before).max() < _SETTLED:
                break
    params = replace(standing.params, annotators=belief)
    return UpdateResult(replace(standing, params=params, vote_counts=counts), np.empty((0, n_classes)), probs, None)


def _with_a_head(
    standing: ModelState,
    prior: LabelPrior,
    batch: Batch,
    settings: EMSettings,
    crowd: CrowdSettings,
    seen: RevisitedDocuments | None,
) -> UpdateResult:
    evidence = None
    if prior.evidence_model is not None:
        shards = unlabelled_shards(batch.counts, batch.known.shape[1])
        evidence = evidence_of_shards(shards, prior.evidence_model, settings).evidence
    predicted_log_odds = prior.classifier_log_odds(batch.counts, evidence)
    labels = _labels(standing, prior, batch, predicted_log_odds, crowd, seen)
    votes = batch.votes
    spoken_of = (batch.known >= 0) if votes is None else (batch.known >= 0) | (votes.per_pair() > 0)
    classifier, remembered = update_classifier(
        cast("LogisticClassifier", prior.classifier),
        cast("ClassifierSummary", standing.memory.classifier),
        batch.counts,
        evidence,
        labels.new,
        None if spoken_of.all() else spoken_of.astype(np.float64),
        settings.engine,
    )
    shards = labelled_shards(batch.counts, labels.new)
    params = _continued_topics(
        shards, standing.params, _past(standing, np.zeros(0)), replace(settings, annotators=None)
    )
    return UpdateResult(
        ModelState(
            replace(params, annotators=labels.belief),
            replace(prior, classifier=classifier),
            _grown(standing.memory, batch.counts, remembered),
            labels.vote_counts,
        ),
        labels.new,
        labels.seen,
        prior.for_words.log_odds(predicted_log_odds),
    )


@dataclass(frozen=True, eq=False)
class _Labels:
    new: Array
    seen: Array
    belief: AnnotatorBelief | None
    vote_counts: Array


def _labels(
    standing: ModelState,
    prior: LabelPrior,
    batch: Batch,
    predicted_log_odds: Array,
    crowd: CrowdSettings,
    seen: RevisitedDocuments | None,
) -> _Labels:
    """Labels and annotators in turn: votes of the batch add to those counted before (maths, eq. 61)."""
    joined, belief, counts = prior.for_votes, standing.params.annotators, standing.vote_counts
    silent = np.asarray(batch.counts.sum(axis=1)).reshape(-1, 1) == 0
    extra = np.where(silent, 0.0, joined.evidence(predicted_log_odds))
    if batch.votes is None or belief is None:
        probs = label_sets.profile_e_step(extra, batch.known, joined.profiles).label_probs
        return _Labels(probs, np.empty((0, probs.shape[1])), belief, counts)
    vague = ProfilePrior.vague(batch.known.shape[1])
    before = np.full(batch.known.shape, 0.5)
    for _ in range(_VOTE_ROUNDS):
        state = CrowdState(belief, joined.profiles, vague)
        probs = label_posterior(batch.votes, batch.known, state, crowd, extra)
        revisited_probs = _once_more(seen, belief, crowd, probs.shape[1])
        counts = standing.vote_counts + crowd.annotators.count(batch.votes, probs)
        if seen is not None:
            counts = counts + crowd.annotators.count(seen.votes, revisited_probs)
        belief = crowd.annotators.update(counts, belief)
        if np.abs(probs - before).max(initial=0.0) < _SETTLED:
            break
        before = probs
    return _Labels(probs, revisited_probs, belief, counts)


def _once_more(seen: RevisitedDocuments | None, belief: AnnotatorBelief, crowd: CrowdSettings, n_classes: int) -> Array:
    """Labels of documents seen before: what was believed of them is the prior for the new votes."""
    if seen is None:
        return np.empty((0, n_classes))
    flat = Profiles(np.ones(1), np.full((1, n_classes), 0.5))
    extra = logit(np.clip(seen.label_probs, _LEAST_PROB, 1.0 - _LEAST_PROB))
    return label_posterior(
        seen.votes, seen.known, CrowdState(belief, flat, ProfilePrior.vague(n_classes)), crowd, extra
    )


def _with_base_rates(
    standing: ModelState, batch: Batch, settings: EMSettings, crowd: CrowdSettings, seen: RevisitedDocuments | None
) -> UpdateResult:
    """As published: words and votes give the labels together."""
    shards = cut_shards(batch.counts, batch.known, batch.votes)
    n_classes = batch.known.shape[1]
    params, revisited_probs, counted = standing.params, np.empty((0, n_classes)), standing.vote_counts
    if seen is not None and params.annotators is not None:
        revisited_probs = _once_more(seen, params.annotators, crowd, n_classes)
        counted = counted + crowd.annotators.count(seen.votes, revisited_probs)
    params = _continued_topics(shards, params, _past(standing, counted), settings)
    probs = label_probs(shards, params, settings)
    if batch.votes is not None:
        counted = counted + crowd.annotators.count(batch.votes, probs)
    return UpdateResult(
        ModelState(params, None, _grown(standing.memory, batch.counts, None), counted), probs, revisited_probs, None
    )


def _past(standing: ModelState, vote_counts: Array) -> SufficientStats:
    return implied_stats(standing.params, standing.memory.n_docs, standing.memory.n_tokens, vote_counts)


def _grown(memory: PastSummary, counts: Counts, head: ClassifierSummary | None) -> PastSummary:
    return PastSummary(memory.n_docs + counts.shape[0], memory.n_tokens + float(counts.sum()), head)


def _continued_topics(
    shards: Sequence[DocumentShard], start: Params, past: SufficientStats, settings: EMSettings
) -> Params:
    """EM on a batch, with the statistics of the past added to its own in every M-step.

    That is a natural-gradient step whose size is the batch's share of all documents so far, taken again until the
    batch's own statistics settle (maths, eq. 59).
    """
    params, before, work = start, -np.inf, settings.engine.place(shards)
    for _ in range(_TOPIC_ROUNDS):
        stats = total_statistics(work, params, settings)
        bound = lower_bound(stats, params, settings.annotators)
        params, _ = update_params(params, past + stats, settings.annotators)
        if abs(bound - before) < _TOPIC_TOL * abs(bound):
            break
        before = bound
    return params
