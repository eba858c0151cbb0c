"""The inputs of a report: a fitted model joined with its votes, word counts and texts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from palda.data import Corpus, Documents, FeatureTable, names_array, shown
from palda.errors import DataError, PaldaError
from palda.estimators import PALDA, CrowdPALDA, known_votes
from palda.report.topics import display_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Counts, Strings, Votes


@dataclass(frozen=True)
class ReportInputs:
    """A fitted model and its documents; rows of all arrays are the documents in the same order."""

    model: PALDA | CrowdPALDA
    classes: list[str]
    words: Strings
    doc_ids: list[str]
    probs: NDArray[np.float64] | None
    """(documents, classes): the consensus, or predictions of a model without annotators; None if unknown."""
    votes: Votes | None = None
    counts: Counts | None = None
    texts: list[str | None] | None = None
    features: FeatureTable | None = None

    def explained(self, rows: list[int], label: int) -> pd.DataFrame:
        """The table of ``explain`` for some documents and a class; ``doc`` is the position in ``rows``."""
        model = self.model
        counts = self.counts[rows] if model.n_features_in_ and self.counts is not None else None
        given = {} if self.features is None else {"features": self.features.take(np.asarray(rows))}
        with ignore_feature_names():
            return model.explain(counts, model.classes_[label], **given)

    @property
    def has_crowd(self) -> bool:
        """Whether the model was fitted to votes."""
        return isinstance(self.model, CrowdPALDA)


def report_inputs(
    model: Any, texts: Any, votes: Any, X: Any, words: Iterable[object] | None, features: Any = None
) -> ReportInputs:
    """Validated inputs, in the order of the model's documents and classes."""
    if not isinstance(model, (PALDA, CrowdPALDA)):
        raise PaldaError(f"a report needs a fitted PALDA or CrowdPALDA, not {type(model).__name__}")
    check_is_fitted(model)
    is_crowd = isinstance(model, CrowdPALDA)
    if votes is not None and not is_crowd:
        raise DataError("votes need a CrowdPALDA; this PALDA was fitted to known labels: leave out votes")
    if features is not None and model.feature_names_ is None:
        raise DataError("the model was fitted without features: leave out features")
    table = None if features is None else FeatureTable.of(features)
    doc_ids = model.doc_ids_ if is_crowd else _doc_ids(X, table, getattr(model, "out_of_fold_probs_", None))
    table = None if table is None else table.on_documents(doc_ids, len(doc_ids))
    counts = None if X is None else _counts(X, doc_ids, model.n_features_in_)
    if votes is not None:
        votes = known_votes(votes, doc_ids, len(doc_ids), model.classes_, model.annotators_)
    if isinstance(X, Corpus) and texts is None and X.texts is not None:
        texts = Documents(X.doc_ids, X.texts)
    return ReportInputs(
        model=model,
        classes=[str(name) for name in model.classes_],
        words=_words(model, words, X),
        doc_ids=doc_ids.tolist(),
        probs=model.consensus_ if is_crowd else _predictions(model, counts, table),
        votes=votes,
        counts=counts,
        texts=_texts(texts, doc_ids),
        features=table,
    )


@contextmanager
def ignore_feature_names() -> Iterator[None]:
    """Suppress scikit-learn's warning: the columns are those of the model, with or without names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


def _doc_ids(X: Any, features: FeatureTable | None, out_of_fold: Any) -> Any:
    """Document ids for a model that does not store them: those of a ``Corpus`` or of features, else positions."""
    if isinstance(X, Corpus):
        return X.doc_ids
    if X is None and features is not None and features.doc_ids is not None:
        return features.doc_ids
    known = X if X is not None else out_of_fold
    n_docs = known.shape[0] if known is not None else 0 if features is None else len(features)
    return names_array(range(n_docs))


def _predictions(model: PALDA, counts: Counts | None, features: FeatureTable | None) -> Any:
    """Out-of-fold predictions of the training documents if they are stored, else predictions of the model."""
    out_of_fold = getattr(model, "out_of_fold_probs_", None)
    n_docs = counts.shape[0] if counts is not None else None if features is None else len(features)
    lacks_input = (counts is None and model.n_features_in_) or (features is None and model.feature_names_ is not None)
    if n_docs is None or lacks_input or (out_of_fold is not None and len(out_of_fold) == n_docs):
        return out_of_fold
    given = {} if features is None else {"features": features}
    with ignore_feature_names():
        return model.predict_proba(counts, **given)


def _counts(X: Any, doc_ids: Any, n_words: int) -> Counts:
    """(documents, words): rows in the order of the model's documents."""
    if isinstance(X, Corpus):
        row = {name: position for position, name in enumerate(X.doc_ids)}
        missing = [name for name in doc_ids if name not in row]
        if missing:
            raise DataError(f"X lacks the document {shown(missing[0])}, to which the model was fitted")
        X = X.counts[[row[name] for name in doc_ids]]
    counts: Counts = sparse.csr_array(X)
    if counts.shape != (len(doc_ids), n_words):
        raise DataError(
            f"X has shape {counts.shape}, but the model was fitted to {len(doc_ids)} documents and {n_words} words"
        )
    return counts


def _words(model: Any, words: Iterable[object] | None, X: Any) -> Any:
    if words is None:
        words = display_words(model)
        if words.dtype != object:  # the columns had no names in training
            numbered = (f"word {position}" for position in range(model.n_features_in_))
            words = X.vocabulary if isinstance(X, Corpus) else numbered
    names = names_array(words)
    if len(names) != model.n_features_in_:
        raise DataError(f"words has {len(names)} names for the {model.n_features_in_} words of the model")
    return names


def _texts(texts: Any, doc_ids: Any) -> list[str | None] | None:
    """One text per document; None where it is missing."""
    if texts is None:
        return None
    if isinstance(texts, Documents):
        texts = dict(zip(texts.doc_ids, texts.texts, strict=True))
    if isinstance(texts, Mapping):
        by_id = dict(zip(names_array(texts), texts.values(), strict=True))
        return [by_id.get(name) for name in doc_ids]
    listed = [None if text is None else str(text) for text in np.asarray(texts, dtype=object).tolist()]
    if len(listed) != len(doc_ids):
        raise DataError(f"texts has {len(listed)} texts for {len(doc_ids)} documents; pass a mapping from id to text")
    return listed
