"""Updates a fitted model with later documents and votes, without the documents it was trained on.

The labels of the new documents come first: from their votes, the annotator beliefs, and a classifier that has not seen
them. Then annotators, classifier and topics are updated. Little is kept of earlier documents: vote counts per
annotator, and the parameters of topics and classifier with the number of documents behind them. A batch counts in
proportion to its documents, so the order of the batches matters little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from palda.data import ArraySpec, word_totals
from palda.models.classifier import ClassifierSummary, LogisticClassifier, summarize_classifier, update_classifier
from palda.models.crowd import CrowdState, ProfilePrior, label_posterior, profile_e_step
from palda.models.crowd.support import as_support
from palda.models.crowd.support_em import single_profile
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

    from palda.data import Array, CountRows, Counts, EncodedFeatures, Votes
    from palda.models.classifier import LabelPrior
    from palda.models.crowd import AnnotatorBelief, CrowdSettings, Profiles
    from palda.models.topics import DocumentShard, EMSettings, Params, SufficientStats
    from palda.training.alternating import TrainingResult

_MAX_VOTE_ROUNDS, _VOTE_TOL = 50, 1e-4  # updates of labels and annotators, until no label changes by more
_MAX_TOPIC_ROUNDS, _TOPIC_TOL = 10, 1e-3  # of EM on a batch


PAST_ARRAYS = {
    "sizes": ArraySpec((2,), low=0.0, high=1e18, group="sizes"),
    "head_positives": ArraySpec(("classes",), low=0.0, group="sizes/classifier"),
    "head_n_spoken": ArraySpec(("classes",), low=0.0, group="sizes/classifier"),
    "head_n_docs": ArraySpec((), "integer", low=0, group="sizes/classifier"),
}
"""Schema of a ``PastSummary`` in a model file; files of the first versions have none."""


@dataclass(frozen=True, eq=False)
class PastSummary:
    """What a model keeps of its training documents besides its parameters."""

    n_docs: int
    n_tokens: float
    classifier: ClassifierSummary | None = None  # None for base rates

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The summary as arrays of a file."""
        arrays = {"sizes": np.array([self.n_docs, self.n_tokens])}
        if self.classifier is not None:
            arrays |= {
                "head_positives": self.classifier.positives,
                "head_n_spoken": self.classifier.n_labelled,
                "head_n_docs": np.asarray(self.classifier.n_docs),
            }
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> PastSummary | None:
        """The summary whose ``arrays`` these are; None for a model that was saved without one."""
        if "sizes" not in arrays:
            return None
        n_docs, n_tokens = (float(number) for number in arrays["sizes"])
        if "head_n_docs" not in arrays:
            return cls(int(n_docs), n_tokens)
        classifier = ClassifierSummary(arrays["head_positives"], arrays["head_n_spoken"], int(arrays["head_n_docs"]))
        return cls(int(n_docs), n_tokens, classifier)


@dataclass(frozen=True, eq=False)
class Batch:
    """New documents with known labels (-1 unknown) and votes."""

    counts: Counts
    known: NDArray[np.int8]
    votes: Votes | None = None
    features: EncodedFeatures | None = None


@dataclass(frozen=True, eq=False)
class ModelState:
    """Everything of a model that later documents change."""

    params: Params
    prior: LabelPrior | None
    past: PastSummary
    vote_counts: Array  # of length 0 without votes


@dataclass(frozen=True, eq=False)
class UpdateResult:
    """The updated model, and the labels of the documents of the batch."""

    state: ModelState
    label_probs: Array  # Δ of the new documents
    predicted_log_odds: Array | None  # of the new documents, before they were learned from; None for base rates
    evidence: Array | None  # that joins the votes on the new documents, in nats; None for base rates


def summarize_past(counts: CountRows, result: TrainingResult | None = None) -> PastSummary:
    """Summary of the training documents of a complete fit."""
    tokens = float(word_totals(counts).sum())
    if result is None or result.prior is None or not isinstance(result.prior.classifier, LogisticClassifier):
        return PastSummary(counts.shape[0], tokens)
    weights = None if result.weights.all() else result.weights
    return PastSummary(counts.shape[0], tokens, summarize_classifier(result.label_probs, weights))


def update_model(
    state: ModelState, batch: Batch, settings: EMSettings, crowd: CrowdSettings, *, words_join_votes: bool
) -> UpdateResult:
    """Update a model with a batch: labels of its documents, then annotators, label prior and topics.

    Unless ``words_join_votes``, the labels are those of the votes alone, and words only learn from them.
    """
    if state.prior is None and not words_join_votes:
        return _update_votes_alone(state, batch, settings, crowd)
    if state.prior is None:
        return _update_base_rates(state, batch, replace(settings, annotators=crowd.annotators), crowd)
    return _update_classifier_model(state, state.prior, batch, settings, crowd)


def _update_classifier_model(
    state: ModelState,
    prior: LabelPrior,
    batch: Batch,
    settings: EMSettings,
    crowd: CrowdSettings,
) -> UpdateResult:
    evidence = None
    if prior.evidence_model is not None:
        shards = unlabelled_shards(batch.counts, batch.known.shape[1])
        evidence = evidence_of_shards(shards, prior.evidence_model, settings).evidence
    predicted_log_odds = prior.classifier_log_odds(batch.counts, evidence, batch.features)
    unknown = np.asarray(batch.counts.sum(axis=1)).ravel() == 0
    if batch.features is not None:
        unknown &= batch.features.is_empty()
    extra = np.where(unknown[:, None], 0.0, prior.for_votes.evidence(predicted_log_odds))
    labels = _labels(state, prior.for_votes.profiles, batch, extra, crowd)
    votes = batch.votes
    has_labels = (batch.known >= 0) if votes is None else (batch.known >= 0) | (votes.per_pair() > 0)
    classifier, classifier_summary = update_classifier(
        cast("LogisticClassifier", prior.classifier),
        cast("ClassifierSummary", state.past.classifier),
        batch.counts,
        evidence,
        labels.new,
        None if has_labels.all() else has_labels.astype(np.float64),
        settings.engine,
        batch.features,
    )
    params = _with_labelled_topics(state, batch, labels.new, settings)
    return UpdateResult(
        ModelState(
            replace(params, annotators=labels.belief),
            replace(prior, classifier=classifier),
            _add_documents(state.past, batch.counts, classifier_summary),
            labels.vote_counts,
        ),
        labels.new,
        prior.for_words.log_odds(predicted_log_odds),
        labels.evidence,
    )


@dataclass(frozen=True, eq=False)
class _BatchLabels:
    """Labels of the batch, with the evidence that joined the votes and the updated annotators."""

    new: Array
    evidence: Array
    belief: AnnotatorBelief | None
    vote_counts: Array


def _labels(state: ModelState, profiles: Profiles, batch: Batch, extra: Array, crowd: CrowdSettings) -> _BatchLabels:
    """Labels and annotators in turn; votes of the batch add to the earlier counts (maths, eq. 61)."""
    belief, counts = state.params.annotators, state.vote_counts
    if batch.votes is None or belief is None:
        probs = profile_e_step(extra, batch.known, profiles).label_probs
        return _BatchLabels(probs, extra, belief, counts)
    vague = ProfilePrior.vague(batch.known.shape[1])
    before = np.full(batch.known.shape, 0.5)
    for _ in range(_MAX_VOTE_ROUNDS):
        crowd_state = CrowdState(belief, profiles, vague)
        probs = label_posterior(batch.votes, batch.known, crowd_state, crowd, extra)
        counts = state.vote_counts + crowd.annotators.count(batch.votes, probs)
        belief = crowd.annotators.update(counts, belief)
        if np.abs(probs - before).max(initial=0.0) < _VOTE_TOL:
            break
        before = probs
    return _BatchLabels(probs, extra, belief, counts)


def _with_labelled_topics(state: ModelState, batch: Batch, labels: Array, settings: EMSettings) -> Params:
    """Topics that have learned from the labels of a batch."""
    if not batch.counts.shape[1]:
        return state.params
    shards, past = labelled_shards(batch.counts, labels), _past(state, np.zeros(0))
    return _update_topics(shards, state.params, past, replace(settings, annotators=None))


def _update_votes_alone(state: ModelState, batch: Batch, settings: EMSettings, crowd: CrowdSettings) -> UpdateResult:
    """Update of a model that was fitted to few documents: words do not take part in the labels."""
    profiles = single_profile(as_support(cast("AnnotatorBelief", state.params.annotators)))
    labels = _labels(state, profiles, batch, np.zeros(batch.known.shape), crowd)
    params = replace(_with_labelled_topics(state, batch, labels.new, settings), annotators=labels.belief)
    past = _add_documents(state.past, batch.counts, None)
    return UpdateResult(ModelState(params, None, past, labels.vote_counts), labels.new, None, None)


def _update_base_rates(state: ModelState, batch: Batch, settings: EMSettings, crowd: CrowdSettings) -> UpdateResult:
    """Update of a model with base rates: words and votes give the labels in one EM."""
    shards = cut_shards(batch.counts, batch.known, batch.votes)
    vote_counts = state.vote_counts
    params = _update_topics(shards, state.params, _past(state, vote_counts), settings)
    probs = label_probs(shards, params, settings)
    if batch.votes is not None:
        vote_counts = vote_counts + crowd.annotators.count(batch.votes, probs)
    past = _add_documents(state.past, batch.counts, None)
    return UpdateResult(ModelState(params, None, past, vote_counts), probs, None, None)


def _past(state: ModelState, vote_counts: Array) -> SufficientStats:
    return implied_stats(state.params, state.past.n_docs, state.past.n_tokens, vote_counts)


def _add_documents(past: PastSummary, counts: Counts, classifier: ClassifierSummary | None) -> PastSummary:
    return PastSummary(past.n_docs + counts.shape[0], past.n_tokens + float(counts.sum()), classifier)


def _update_topics(
    shards: Sequence[DocumentShard], start: Params, past: SufficientStats, settings: EMSettings
) -> Params:
    """EM on a batch, with the statistics of earlier documents added in each M-step.

    This is a natural-gradient step whose size is the batch's share of all documents so far, repeated until the bound
    of the batch converges (maths, eq. 59).
    """
    params, before, work = start, -np.inf, settings.engine.place(shards)
    for _ in range(_MAX_TOPIC_ROUNDS):
        stats = total_statistics(work, params, settings)
        bound = lower_bound(stats, params, settings.annotators)
        params, _ = update_params(params, past + stats, settings)
        if abs(bound - before) < _TOPIC_TOL * abs(bound):
            break
        before = bound
    return params
