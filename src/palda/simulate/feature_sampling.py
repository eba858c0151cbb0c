"""Documents with words and features, in which every class shows in only one of the two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palda.data import Corpus, Dataset, FeatureTable, Frozen, freeze_fields, names_array, selection, validation
from palda.simulate.document_sampling import documents, numbered_names, random_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Rows, Strings, Votes


@dataclass(frozen=True, eq=False)
class FeaturedDocuments(Frozen):
    """Simulated documents with word counts and features.

    Attributes
    ----------
    corpus : Corpus
        Word counts and ids.
    features : float32 array of shape (documents, features)
        Features.
    labels : array of shape (documents, classes)
        True labels, 0 or 1.
    classes : array of str
        Names of the classes: ``words-01``, ... show in words, ``features-01``, ... in features.
    in_words : bool array of shape (classes,)
        Whether a class shows in words; if not, it shows in features.
    """

    corpus: Corpus
    features: NDArray[np.float32]
    labels: NDArray[np.int8]
    classes: Strings
    in_words: NDArray[np.bool_]

    def __post_init__(self) -> None:
        freeze_fields(self)

    def __len__(self) -> int:
        return len(self.corpus)

    @property
    def doc_ids(self) -> Strings:
        """Ids of the documents."""
        return self.corpus.doc_ids

    @property
    def feature_table(self) -> FeatureTable:
        """The features with the ids of the documents."""
        return FeatureTable.of(self.features, self.doc_ids)

    def dataset(self, votes: Votes | None = None) -> Dataset:
        """Word counts, votes and true labels as one ``Dataset``."""
        return Dataset.of(self.corpus, votes, self.labels, self.classes)

    def take(self, rows: Rows) -> FeaturedDocuments:
        """Some of the documents, in the given order, for example to hold out a test set."""
        rows = selection(rows)
        return FeaturedDocuments(
            self.corpus.take(rows), self.features[rows], self.labels[rows], self.classes, self.in_words
        )


def featured_documents(
    n_docs: int,
    n_classes: int = 8,
    n_features: int = 32,
    *,
    seed: int = 0,
    separation: float = 3.5,
    class_prior: float = 0.25,
    n_topics: int = 12,
    n_words: int = 400,
    doc_length: int = 80,
) -> FeaturedDocuments:
    """Documents with half of the classes in words and half in features.

    Words are drawn as by :func:`documents` with the first half of the classes. Features are normal with unit variance
    in all directions, around a mean that is the sum of one random direction per present class of the second half.
    Classes are independent, so words say nothing about the second half and features nothing about the first.

    Parameters
    ----------
    n_docs : int
        Number of documents.
    n_classes : int, default 8
        Number of classes, at least 2; the first half, rounded up, shows in words.
    n_features : int, default 32
        Number of features.
    seed : int, default 0
        Random seed.
    separation : float, default 3.5
        Distance between the means of the features with and without a class.
    class_prior : float, default 0.25
        Probability of each class.
    n_topics, n_words, doc_length : int
        As in :func:`documents`; 12, 400 and 80 by default.

    Returns
    -------
    FeaturedDocuments
        Word counts, features and true labels.

    Examples
    --------
    >>> from palda import simulate
    >>> simulated = simulate.featured_documents(100, n_classes=4, n_features=16, seed=0)
    >>> simulated.corpus.counts.shape, simulated.features.shape, simulated.features.dtype
    ((100, 400), (100, 16), dtype('float32'))
    >>> simulated.classes.tolist()
    ['words-01', 'words-02', 'features-01', 'features-02']
    """
    validation.require_count(n_classes, "n_classes", minimum=2)
    validation.require_count(n_features, "n_features")
    validation.require_number(separation, 0.0, 1e6, "separation")
    validation.require_number(class_prior, 0.0, 1.0, "class_prior")
    n_in_words = (n_classes + 1) // 2
    worded = documents(n_docs, n_in_words, n_topics, n_words, seed=seed, doc_length=doc_length, class_prior=class_prior)
    rng = random_stream(seed, "features")
    directions = rng.normal(size=(n_classes - n_in_words, n_features))
    directions *= separation / np.linalg.norm(directions, axis=1, keepdims=True)
    labels = (rng.random((n_docs, n_classes - n_in_words)) < class_prior).astype(np.int8)
    features = rng.standard_normal((n_docs, n_features), dtype=np.float32)
    features += (labels @ directions).astype(np.float32)
    names = numbered_names("words", n_in_words, 2) + numbered_names("features", n_classes - n_in_words, 2)
    return FeaturedDocuments(
        worded.corpus,
        features,
        np.hstack((worded.labels, labels)),
        names_array(names),
        np.arange(n_classes) < n_in_words,
    )
