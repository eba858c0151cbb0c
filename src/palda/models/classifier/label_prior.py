"""A fitted label prior: a classifier and its combinations with profiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.data import count_blocks, take_counts
from palda.models.classifier.external_input import external_input
from palda.models.classifier.logistic import LogisticClassifier
from palda.models.topics import bags_of, shard_ranges, word_evidence_of

if TYPE_CHECKING:
    from palda.data import Array, CountRows, EncodedFeatures, Strings
    from palda.engine import Engine
    from palda.models.classifier.combination import Combination
    from palda.models.classifier.external import ExternalClassifier
    from palda.models.topics import WordEvidenceModel

_VALUES_PER_SHARD = 1 << 20  # of features


@dataclass(frozen=True, eq=False)
class LabelPrior:
    """Probabilities of a document's labels from its words and features, before votes; in memory or stored.

    ``features`` are those that the classifier was trained on; None if there were none.
    """

    classifier: LogisticClassifier | ExternalClassifier
    for_votes: Combination  # evidence to join votes
    for_words: Combination  # predictions without votes
    evidence_model: WordEvidenceModel | None = None  # of topics, if the classifier uses them
    word_names: Strings | None = None  # if an external classifier selects columns by name
    evidence_shares: Array | None = None  # (3, classes): of words, topics and features; None if external

    def classifier_log_odds(
        self, counts: Any, topic_evidence: Array | None, features: EncodedFeatures | None = None
    ) -> Array:
        """Log-odds (documents, classes) of new documents by the classifier."""
        if not isinstance(self.classifier, LogisticClassifier):
            return self.classifier.log_odds(external_input(counts, features, self.word_names))
        columns = None if features is None else features.standardised()
        return self.classifier.log_odds(counts if self.classifier.idf is not None else None, topic_evidence, columns)

    def log_odds(
        self, counts: CountRows, base: Array, engine: Engine, features: EncodedFeatures | None = None
    ) -> Array:
        """Log-odds (documents, classes) of documents without votes; ``base`` for those of which nothing is known."""
        return _scores(counts, features, (self, False, base), engine)

    def evidence(self, counts: CountRows, engine: Engine, features: EncodedFeatures | None = None) -> Array:
        """Evidence (documents, classes) that words and features add to votes, in nats; 0 if nothing is known."""
        return _scores(counts, features, (self, True, np.zeros(len(self.for_votes.base))), engine)


class _Rows(NamedTuple):
    """Some documents: word counts, and rows of a feature table."""

    counts: CountRows
    features: EncodedFeatures | None


def _scores(
    counts: CountRows, features: EncodedFeatures | None, shared: tuple[LabelPrior, bool, Array], engine: Engine
) -> Array:
    def part(start: int, stop: int) -> _Rows:
        rows = np.arange(start, stop)
        return _Rows(take_counts(counts, rows), None if features is None else features.take(rows))

    if not isinstance(shared[0].classifier, LogisticClassifier):  # may need many documents at a time
        blocks = (part(rows.start, rows.stop) for rows, _ in count_blocks(counts))
        return np.concatenate([_shard_scores(some, shared) for some in blocks])
    n_shards = len(shard_ranges(counts))
    if features is not None:
        n_shards = max(n_shards, features.n_docs * len(features.columns) // _VALUES_PER_SHARD)
    shards = [part(start, stop) for start, stop in shard_ranges(counts, n_shards)]
    return np.concatenate(list(engine.each(_shard_scores, shards, shared)))


def _shard_scores(rows: _Rows, shared: tuple[LabelPrior, bool, Array]) -> Array:
    """Log-odds, or evidence to join votes, (documents, classes); the last of ``shared`` if nothing is known."""
    prior, joins_votes, without_words = shared
    counts, model, idf = rows.counts[slice(None)], prior.evidence_model, getattr(prior.classifier, "idf", None)
    topic_evidence = None if model is None else word_evidence_of(bags_of(counts), model).evidence
    log_odds = prior.classifier_log_odds(counts, topic_evidence, rows.features)
    scores = prior.for_votes.evidence(log_odds) if joins_votes else prior.for_words.log_odds(log_odds)
    n_known = counts.sum(axis=1) if idf is None else counts @ (idf > 0).astype(np.float64)
    unknown = np.asarray(n_known).ravel() == 0
    if rows.features is not None:
        unknown &= rows.features.is_empty()
    return np.where(unknown[:, None], without_words, scores)
