"""What a prediction rests on: weights of words and features per document, and shares of evidence per class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logit
from sklearn.utils.validation import check_is_fitted

from palda.data import Corpus, EncodedFeatures, names_array
from palda.estimators.document_inputs import DocumentEstimator, ids_of
from palda.estimators.explanation import REST, classifier_weights, topic_weights
from palda.models.classifier import EVIDENCE_SOURCES
from palda.models.topics import unlabelled_shards, word_evidence_model

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pandas as pd

    from palda.data import Array, CountRows, Counts
    from palda.estimators.explanation import WordTable
    from palda.models.classifier import LabelPrior
    from palda.models.topics import EMSettings, Params, Temperature


class ExplainedEstimator(DocumentEstimator):
    """``explain`` and ``evidence_shares_``."""

    _prior: LabelPrior | None
    _params: Params
    temper_: Temperature

    def _em_settings(self) -> AbstractContextManager[EMSettings]:
        raise NotImplementedError

    def _prior_log_odds(self, counts: CountRows, features: EncodedFeatures | None, settings: EMSettings) -> Array:
        raise NotImplementedError

    @property
    def evidence_shares_(self) -> pd.DataFrame:
        """DataFrame of shape (n_classes, 3): share of words, topics and features in what the classifier says.

        Shares of the standard deviations of their scores in training documents; a row sums to 1, or to 0 for a class
        with too few labels to learn. Words and topics that say the same divide it between them.
        """
        import pandas as pd

        check_is_fitted(self)
        shares = None if self._prior is None else self._prior.evidence_shares
        if shares is None:
            raise AttributeError("the model has no built-in classifier whose evidence could be divided")
        return pd.DataFrame(shares.T, index=pd.Index(self.classes_, name="label"), columns=list(EVIDENCE_SOURCES))

    def explain(self, X: Any, label: Any = None, *, features: Any = None) -> pd.DataFrame:
        """Weight of each word and feature for and against each class, per document.

        The weights of a document and class sum to the log-odds of ``predict_proba`` minus those of ``class_prior_``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_words), Corpus or ShardFolder
            Word counts.
        label : str or int, default=None
            One of ``classes_``; all classes by default.
        features : array-like of shape (n_documents, n_columns), DataFrame or FeatureTable, default=None
            Features as in ``predict_proba``.

        Returns
        -------
        DataFrame
            One row per class, document and word or feature of it, strongest first, with columns ``doc``, ``label``,
            ``word`` and ``weight`` (in nats; positive for, negative against), and ``kind``: ``"word"``, ``"feature"``
            or ``"rest"``. Columns of an array or of a list of numbers are one row together, with the name of the list,
            ``"features"`` for an array. The row with the word ``"(rest)"`` holds what belongs to no single word: the
            offset against the base rate, and the influence of other classes through the label-set profiles.

        Raises
        ------
        ValueError
            If the model is mean field or its label prior is an external classifier, neither of which weighs single
            words.
        """
        import pandas as pd

        check_is_fitted(self)
        columns = list(range(len(self.classes_))) if label is None else [self._class_column(label)]
        counts = self._counts(X, reset=False, features=features)[slice(None)]
        encoded = self._features(features, X, ids_of(X, None), counts.shape[0])
        groups = [] if encoded is None else list(dict.fromkeys(encoded.columns.groups))
        words = np.append(self.vocabulary_.astype(object), [*groups, REST])  # REST is at -1
        kinds = np.repeat(np.array(["word", "feature", "rest"], dtype=object), [len(self.vocabulary_), len(groups), 1])
        ids = names_array(X.doc_ids) if isinstance(X, Corpus) else np.arange(counts.shape[0])
        frames = []
        for column, table in zip(columns, self._word_tables(counts, encoded, columns), strict=True):
            frame = pd.DataFrame(
                {
                    "doc": ids[table.doc],
                    "label": self.classes_[column],
                    "word": words[table.word],
                    "weight": table.weight,
                    "kind": kinds[table.word],
                }
            )
            frames.append(frame.iloc[np.lexsort((-np.abs(table.weight), table.doc))])
        return pd.concat(frames, ignore_index=True)

    def _word_tables(self, counts: Counts, features: EncodedFeatures | None, columns: list[int]) -> list[WordTable]:
        shards = unlabelled_shards(counts, len(self.classes_))
        with self._em_settings() as settings:
            if self._prior is None:
                if self.inference == "mean_field":
                    raise ValueError('explain needs inference="joint": mean field does not weigh single words')
                return topic_weights(shards, word_evidence_model(self._params, self.temper_), settings, columns)
            log_odds = self._prior_log_odds(counts, features, settings) - logit(self._params.class_prior)
            topics = None if self._prior.evidence_model is None else (shards, self._prior.evidence_model, settings)
            return classifier_weights(counts, features, self._prior, log_odds, topics, columns)

    def _class_column(self, label: Any) -> int:
        columns = np.flatnonzero(self.classes_ == label)
        if len(columns) != 1:
            raise ValueError(f"label={label!r} is not one of the classes {', '.join(map(str, self.classes_[:20]))}")
        return int(columns[0])
