"""Documents as estimators accept them: word counts, and a feature table beside or instead of them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from palda.data import Corpus, EncodedFeatures, FeatureColumns, FeatureTable, learn_feature_columns, row_ids
from palda.errors import DataError, PaldaWarning
from palda.estimators.persistence import PersistentEstimator
from palda.io import ShardFolder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palda.data import CountRows, Counts, Strings


def ids_of(X: Any, doc_ids: Iterable[object] | None, features: Any = None) -> Iterable[object] | None:
    """Ids of the documents: those given, else those of X, else those of features that come without X."""
    if doc_ids is not None:
        return doc_ids
    if isinstance(X, (Corpus, ShardFolder)):
        return X.doc_ids
    return None if X is not None or features is None else row_ids(features)


class DocumentEstimator(PersistentEstimator):
    """Validation of word counts and features."""

    _feature_columns: FeatureColumns | None = None  # of the feature table of the fit

    def _is_base_rate(self) -> bool:
        raise NotImplementedError

    @property
    def feature_names_(self) -> Strings | None:
        """Names of the columns of ``features`` in ``fit``; None if there were none."""
        return None if self._feature_columns is None else self._feature_columns.names

    @property
    def feature_categories_(self) -> dict[str, Strings]:
        """Categories of each column of ``features`` that holds categories, by the name of the column."""
        columns = self._feature_columns
        pairs = () if columns is None else zip(columns.names, columns.categories, strict=True)
        return {name: own for name, own in pairs if own is not None}

    def _counts(self, X: Any, *, reset: bool, features: Any = None) -> CountRows:
        """Counts as a canonical CSR matrix, or as rows of a shard folder; X itself is never changed.

        Without X, documents have no words: there are as many as rows of ``features``.
        """
        if reset:
            self.words_ = self.texts_ = self.votes_ = None
        if X is None and features is not None:
            return self._no_counts(_n_rows(features), reset=reset)
        if X is None:
            raise ValueError("X is None; pass word counts, features, or both")
        if not reset and not self.n_features_in_ and X is not None:
            raise ValueError("the model was fitted to features alone, without words; pass X=None")
        if isinstance(X, ShardFolder):  # its counts were checked when it was written
            if reset:
                self.n_features_in_, self.words_, self.vocabulary_ = X.counts.shape[1], X.words, X.vocabulary
            elif X.counts.shape[1] != self.n_features_in_:
                n_words = X.counts.shape[1]
                raise ValueError(f"{X} has {n_words} words, but the model was fitted on {self.n_features_in_}")
            return X.counts
        checked = validate_data(
            self, X.counts if isinstance(X, Corpus) else X, reset=reset, accept_sparse="csr",
            dtype=(np.float64, np.float32, np.int64, np.int32), ensure_non_negative=True,
        )  # fmt: skip
        if reset:
            default = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
            self.vocabulary_ = X.vocabulary if isinstance(X, Corpus) else default
        counts: Counts = sparse.csr_array(checked)
        if not counts.has_canonical_format:
            counts = counts.copy()
            counts.sum_duplicates()
        return counts

    def _no_counts(self, n_docs: int, *, reset: bool) -> Counts:
        if reset:
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_, self.vocabulary_ = 0, np.arange(0)
            warnings.warn("X is None: the model has no words and no topics", PaldaWarning, stacklevel=4)
        elif self.n_features_in_:
            raise ValueError(f"X is None, but the model was fitted on the counts of {self.n_features_in_} words")
        return sparse.csr_array((n_docs, 0))

    def _learn_features(
        self, features: Any, X: Any, doc_ids: Iterable[object] | None, n_docs: int
    ) -> EncodedFeatures | None:
        """Features of the training documents, and their standardisation; None if there are none.

        Those of a shard folder are left out if the label prior reads none.
        """
        table = None if features is None and self._is_base_rate() else _table_of(features, X)
        if table is None:
            self._feature_columns = None
            return None
        table = table.on_documents(_ids_of_rows(X, doc_ids), n_docs)
        columns, notes = learn_feature_columns(table)
        for note in notes:
            warnings.warn(note, PaldaWarning, stacklevel=3)
        self._feature_columns = columns
        return EncodedFeatures(table.values, columns)

    def _features(self, features: Any, X: Any, doc_ids: Iterable[object] | None, n_docs: int) -> EncodedFeatures | None:
        """Features of new documents, as the model was fitted to; None for a model without features."""
        table, columns = _table_of(features, X), self._feature_columns
        if columns is None:
            if features is not None:
                raise DataError("the model was fitted without features; leave them out, or fit it with features")
            return None
        if table is None:
            raise DataError(
                f"the model was fitted with features ({_described(columns)}), which are missing; pass features="
            )
        table = table.on_documents(_ids_of_rows(X, doc_ids), n_docs)
        table.check_finite()
        return EncodedFeatures(columns.rows_of(table), columns)


def _ids_of_rows(X: Any, doc_ids: Iterable[object] | None) -> Iterable[object] | None:
    """Ids that features are matched with: those given, else the index of X if it is a data frame."""
    return row_ids(X) if doc_ids is None else doc_ids


def _n_rows(features: Any) -> int:
    shape = getattr(features, "shape", None)
    return int(shape[0]) if shape else len(FeatureTable.of(features))


def _table_of(features: Any, X: Any) -> FeatureTable | None:
    if features is None:
        return X.features if isinstance(X, ShardFolder) else None
    return FeatureTable.of(features)


def _described(columns: FeatureColumns) -> str:
    """Number of columns, and the names of the first groups of them."""
    groups = list(dict.fromkeys(columns.groups))
    listed = ", ".join(groups[:3]) + (", ..." if len(groups) > 3 else "")
    return f"{len(columns.names)} columns: {listed}"
