"""Data in memory: read-only arrays and the names of their axes.

``Documents`` are texts, a ``Corpus`` is word counts, ``Values`` are real features; a ``Dataset`` is one of the three
with votes and gold labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import sparse

from palda.data import validation
from palda.data.feature_table import FeatureTable
from palda.data.frozen_arrays import Frozen, check_unique, freeze_fields, names_array, selection
from palda.data.votes import Votes
from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import ArrayLike, NDArray

    from palda.data.frozen_arrays import Rows, Strings


Counts: TypeAlias = "sparse.csr_array[Any, tuple[int, int]]"


@dataclass(frozen=True, eq=False)
class Documents(Frozen):
    """Texts with their ids and the other columns of their file.

    Iteration yields the texts, so any text vectoriser accepts ``Documents``.

    Attributes
    ----------
    doc_ids : array of str, shape (n_docs,)
        Ids, without duplicates.
    texts : array of str, shape (n_docs,)
        Texts.
    fields : mapping of str to array of shape (n_docs,)
        Other columns by name.

    Examples
    --------
    >>> from palda.data import Documents, names_array
    >>> documents = Documents(names_array(["d1", "d2"]), names_array(["ships carry wheat", "wheat prices"]))
    >>> len(documents), documents[1], documents.take([1]).doc_ids.tolist()
    (2, 'wheat prices', ['d2'])
    """

    doc_ids: Strings
    texts: Strings
    fields: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze_fields(self)
        for name, column in (("texts", self.texts), *self.fields.items()):
            if len(column) != len(self):
                raise DataError(f"{len(self)} documents need as many entries in {name!r}, not {len(column)}")
        check_unique(self.doc_ids, "document id")

    def __len__(self) -> int:
        return len(self.doc_ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __getitem__(self, position: int) -> str:
        text: str = self.texts[position]
        return text

    @property
    def X(self) -> Strings:  # noqa: N802 - scikit-learn's name
        """The texts, as vectorisers take them."""
        return self.texts

    def take(self, rows: Rows) -> Documents:
        """Some of the documents, in the given order."""
        rows = selection(rows)
        kept = {name: column[rows] for name, column in self.fields.items()}
        return Documents(self.doc_ids[rows], self.texts[rows], kept)

    def gold(self, classes: Iterable[str], prefix: str = "gold_") -> NDArray[np.int8]:
        """Gold labels (documents, classes) from the columns ``<prefix><class>``; -1 if unknown."""
        labels = [str(name) for name in classes]
        known = np.full((len(self), len(labels)), validation.BLANK, dtype=np.int8)
        for position, name in enumerate(labels):
            column = self.fields.get(prefix + name)
            if column is None:
                continue
            for record, cell in enumerate(column):
                parsed = validation.parse_value(cell)
                if parsed is None:
                    raise DataError(
                        f"document {validation.shown(self.doc_ids[record])}: {validation.value_problem(cell, None)}",
                        column=prefix + name,
                    )
                known[record, position] = parsed
        return known


@dataclass(frozen=True, eq=False)
class Corpus(Frozen):
    """Word counts, with the names of words and documents.

    Attributes
    ----------
    counts : sparse array of shape (n_docs, n_words)
        Count of each word in each document; fractions are allowed.
    vocabulary : array of str, shape (n_words,)
        Words.
    doc_ids : array of str, shape (n_docs,)
        Ids, without duplicates.
    texts : array of str, shape (n_docs,), optional
        Texts of the documents.

    Examples
    --------
    >>> from palda.data import Corpus
    >>> corpus = Corpus.from_counts([[1, 0], [2, 1]], vocabulary=["ship", "wheat"])
    >>> corpus.n_words, corpus.doc_ids.tolist(), corpus.take([1]).counts.toarray().tolist()
    (2, ['0', '1'], [[2, 1]])
    """

    counts: Counts
    vocabulary: Strings
    doc_ids: Strings
    texts: Strings | None = None

    def __post_init__(self) -> None:
        freeze_fields(self)
        n_docs, n_words = self.counts.shape
        if len(self.doc_ids) != n_docs or len(self.vocabulary) != n_words:
            raise DataError(
                f"counts of shape {n_docs} x {n_words} need {n_docs} document ids and {n_words} words, "
                f"not {len(self.doc_ids)} and {len(self.vocabulary)}"
            )
        if self.texts is not None and len(self.texts) != n_docs:
            raise DataError(f"{n_docs} documents need as many texts, not {len(self.texts)}")
        check_unique(self.doc_ids, "document id")

    @classmethod
    def from_counts(
        cls,
        counts: Any,
        vocabulary: Iterable[object] | None = None,
        doc_ids: Iterable[object] | None = None,
        texts: Strings | None = None,
    ) -> Corpus:
        """Corpus from any matrix of counts; names default to positions."""
        matrix: Counts = sparse.csr_array(counts)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        n_docs, n_words = matrix.shape
        return cls(
            matrix,
            names_array(range(n_words) if vocabulary is None else vocabulary),
            names_array(range(n_docs) if doc_ids is None else doc_ids),
            texts,
        )

    def __len__(self) -> int:
        return len(self.doc_ids)

    @property
    def X(self) -> Counts:  # noqa: N802 - scikit-learn's name
        """The counts, as estimators take them."""
        return self.counts

    @property
    def n_words(self) -> int:
        """Size of the vocabulary."""
        return len(self.vocabulary)

    def take(self, rows: Rows) -> Corpus:
        """Some of the documents, in the given order, with the same vocabulary."""
        rows = selection(rows)
        texts = None if self.texts is None else self.texts[rows]
        return Corpus(sparse.csr_array(self.counts[rows]), self.vocabulary, self.doc_ids[rows], texts)


@dataclass(frozen=True, eq=False)
class Values(Frozen):
    """Real-valued features, which ``ValueWords`` turns into words.

    Attributes
    ----------
    values : array of shape (n_docs, n_features)
        Values, NaN if missing.
    features : array of str, shape (n_features,)
        Names of the features.
    doc_ids : array of str, shape (n_docs,)
        Ids, without duplicates.
    """

    values: NDArray[np.float64]
    features: Strings
    doc_ids: Strings

    def __post_init__(self) -> None:
        freeze_fields(self)
        if self.values.shape != (len(self.doc_ids), len(self.features)):
            raise DataError(
                f"values of shape {self.values.shape} do not fit {len(self.doc_ids)} document ids "
                f"and {len(self.features)} feature names"
            )
        check_unique(self.doc_ids, "document id")

    def __len__(self) -> int:
        return len(self.doc_ids)

    @property
    def X(self) -> NDArray[np.float64]:  # noqa: N802 - scikit-learn's name
        """The values, as transformers take them."""
        return self.values

    def feature_table(self) -> FeatureTable:
        """The values as features beside words, as estimators take them."""
        return FeatureTable(self.values, self.features, (None,) * len(self.features), self.doc_ids)

    def take(self, rows: Rows) -> Values:
        """Some of the rows, in the given order."""
        rows = selection(rows)
        return Values(self.values[rows], self.features, self.doc_ids[rows])


Items: TypeAlias = Documents | Corpus | Values


@dataclass(frozen=True, eq=False)
class Dataset(Frozen):
    """Documents, the votes on them, and the gold labels, over the same documents in the same order.

    Attributes
    ----------
    corpus : Documents, Corpus or Values
        The documents.
    votes : Votes
        Votes on them.
    gold : int8 array of shape (n_docs, n_classes)
        Gold labels: 1, 0, and -1 for unknown.

    Examples
    --------
    >>> from palda import Votes
    >>> from palda.data import Corpus, Dataset
    >>> votes = Votes.from_records([("d1", "ann", "trade", 1), ("d2", "bob", "trade", 0)])
    >>> dataset = Dataset.of(Corpus.from_counts([[1, 0], [2, 1]], doc_ids=["d1", "d2"]), votes)
    >>> len(dataset), dataset.classes.tolist(), dataset.gold.tolist()
    (2, ['trade'], [[-1], [-1]])
    """

    corpus: Items
    votes: Votes
    gold: NDArray[np.int8]

    def __post_init__(self) -> None:
        freeze_fields(self)
        if not np.array_equal(self.corpus.doc_ids, self.votes.doc_ids):
            raise DataError(
                f"the votes are about other documents ({len(self.votes.doc_ids)} ids) than the corpus has "
                f"({len(self.corpus)} ids), or in another order; match them by id with read_votes(..., documents)"
            )
        if self.gold.shape != (len(self.corpus), len(self.classes)):
            raise DataError(
                f"gold labels of shape {self.gold.shape} do not fit {len(self.corpus)} documents "
                f"and {len(self.classes)} classes"
            )

    @classmethod
    def of(
        cls,
        corpus: Items,
        votes: Votes | None = None,
        gold: NDArray[Any] | None = None,
        classes: Iterable[object] | None = None,
    ) -> Dataset:
        """Dataset with defaults: no votes, and unknown gold labels."""
        if votes is None:
            votes = Votes.empty(corpus.doc_ids, () if classes is None else classes)
        if gold is None:
            gold = np.full((len(corpus), votes.n_classes), validation.BLANK)
        return cls(corpus, votes, _gold_table(gold))

    def __len__(self) -> int:
        return len(self.corpus)

    @property
    def doc_ids(self) -> Strings:
        """Ids of the documents, in the order of all arrays."""
        return self.corpus.doc_ids

    @property
    def classes(self) -> Strings:
        """Names of the classes."""
        return self.votes.classes

    @property
    def X(self) -> Any:  # noqa: N802 - scikit-learn's name
        """Texts, counts or values, whichever the corpus holds."""
        return self.corpus.X

    @property
    def Y(self) -> NDArray[np.int8]:  # noqa: N802 - scikit-learn's name
        """Gold labels, -1 if unknown."""
        return self.gold

    def take(self, rows: Rows) -> Dataset:
        """Some of the documents, with their votes and gold labels."""
        rows = selection(rows)
        return Dataset(self.corpus.take(rows), self.votes.take(rows), self.gold[rows])

    def with_corpus(self, corpus: Items) -> Dataset:
        """Dataset with the same votes and gold labels over another form of the same documents."""
        return replace(self, corpus=corpus)

    def folds(self, n_folds: int, random_state: int = 0) -> Iterator[tuple[Dataset, Dataset]]:
        """Pairs (rest, fold) over random folds of documents, with their votes."""
        validation.require_count(n_folds, "n_folds", minimum=2)
        if n_folds > len(self):
            raise DataError(
                f"{len(self)} documents are too few for {n_folds} folds; n_folds can be at most {len(self)}"
            )
        order = np.random.default_rng(random_state).permutation(len(self))
        for fold in np.array_split(order, n_folds):
            inside = np.zeros(len(self), dtype=bool)
            inside[fold] = True
            yield self.take(np.flatnonzero(~inside)), self.take(np.flatnonzero(inside))


def _gold_table(gold: ArrayLike) -> NDArray[np.int8]:
    """Gold labels as 1, 0 and -1; NaN is unknown too."""
    cells = validation.as_floats(gold, "gold labels")
    cells[np.isnan(cells)] = validation.BLANK
    wrong = ~np.isin(cells, (0, 1, validation.BLANK))
    if wrong.any():
        raise DataError(f"gold label {cells[wrong][0]:g} is not 1, 0, or -1 or NaN for unknown")
    return cells.astype(np.int8)
