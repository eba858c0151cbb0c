"""A fitted label prior: a classifier and its combinations with profiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import count_blocks, take_counts
from palda.models.classifier.logistic import LogisticClassifier
from palda.models.topics import bags_of, shard_ranges, word_evidence_of

if TYPE_CHECKING:
    from palda.data import Array, CountRows
    from palda.engine import Engine
    from palda.models.classifier.combination import Combination
    from palda.models.classifier.external import ExternalClassifier
    from palda.models.topics import WordEvidenceModel


@dataclass(frozen=True, eq=False)
class LabelPrior:
    """Probabilities of a document's labels from its words, before votes; for documents in memory or stored."""

    classifier: LogisticClassifier | ExternalClassifier
    for_votes: Combination  # evidence to join votes
    for_words: Combination  # predictions without votes
    evidence_model: WordEvidenceModel | None = None  # of topics, if the classifier uses them

    def classifier_log_odds(self, counts: Any, topic_evidence: Array | None) -> Array:
        """Log-odds (documents, classes) of new documents by the classifier."""
        if not isinstance(self.classifier, LogisticClassifier):
            return self.classifier.log_odds(counts)
        return self.classifier.log_odds(counts if self.classifier.idf is not None else None, topic_evidence)

    def log_odds(self, counts: CountRows, base: Array, engine: Engine) -> Array:
        """Log-odds (documents, classes) of documents without votes; ``base`` for documents without a known word."""
        return _scores(counts, (self, False, base), engine)

    def evidence(self, counts: CountRows, engine: Engine) -> Array:
        """Evidence (documents, classes) that words add to votes, in nats; 0 for documents without a known word."""
        return _scores(counts, (self, True, np.zeros(len(self.for_votes.base))), engine)


def _scores(counts: CountRows, shared: tuple[LabelPrior, bool, Array], engine: Engine) -> Array:
    if not isinstance(shared[0].classifier, LogisticClassifier):  # may need many documents at a time
        return np.concatenate([_shard_scores(some, shared) for _, some in count_blocks(counts)])
    shards = [take_counts(counts, np.arange(start, stop)) for start, stop in shard_ranges(counts)]
    return np.concatenate(list(engine.each(_shard_scores, shards, shared)))


def _shard_scores(rows: CountRows, shared: tuple[LabelPrior, bool, Array]) -> Array:
    """Log-odds, or evidence to join votes, (documents, classes); the last of ``shared`` without a known word."""
    prior, joins_votes, without_words = shared
    counts, model, idf = rows[slice(None)], prior.evidence_model, getattr(prior.classifier, "idf", None)
    topic_evidence = None if model is None else word_evidence_of(bags_of(counts), model).evidence
    log_odds = prior.classifier_log_odds(counts, topic_evidence)
    scores = prior.for_votes.evidence(log_odds) if joins_votes else prior.for_words.log_odds(log_odds)
    n_known = counts.sum(axis=1) if idf is None else counts @ (idf > 0).astype(np.float64)
    return np.where(np.asarray(n_known).reshape(-1, 1) == 0, without_words, scores)
