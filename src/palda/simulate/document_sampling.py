"""The generative story of a document, and the drawing of documents from it.

Each class is present or absent; each (class, state) draws a mix of topics; every token asks one class at random, takes
a topic from that class's mix and a word from the topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from scipy import sparse

from palda.data import Corpus, Dataset, Documents, Frozen, Votes, freeze_fields, names_array, validation
from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from palda.data import Strings

    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.integer[Any]]

__all__ = ["DocumentModel", "Lengths", "SimulatedDocuments", "blocks", "dirichlet", "numbered_names", "stream"]

Lengths = Literal["fixed", "poisson"]

_CELLS_AT_ONCE = 1 << 20
"""Size of the temporary arrays, whatever the number of documents. Results depend on it, so it is no option."""


@dataclass(frozen=True, eq=False)
class DocumentModel(Frozen):
    """Parameters of the generative story, with the names of its axes.

    Classes come in sets: profile m is drawn with ``profile_weights[m]``, then class i is present with
    ``profile_probs[m, i]``. A single profile is the published model, with independent classes.
    """

    profile_weights: Floats  # (profiles,)
    profile_probs: Floats  # (profiles, classes); its weighted mean is ξ
    topic_prior: Floats  # α (classes, 2, topics): [i, 1] when class i is present, [i, 0] when absent
    topic_words: Floats  # β (topics, words)
    classes: Strings
    topics: Strings
    vocabulary: Strings

    def __post_init__(self) -> None:
        freeze_fields(self)
        n_classes, n_topics, n_words = len(self.classes), len(self.topics), len(self.vocabulary)
        n_profiles = len(self.profile_weights)
        validation.require_shape(self.profile_weights, (n_profiles,), "profile_weights")
        validation.require_shape(self.profile_probs, (n_profiles, n_classes), "class_prior")
        validation.require_shape(self.topic_prior, (n_classes, 2, n_topics), "topic_prior")
        validation.require_shape(self.topic_words, (n_topics, n_words), "topic_words")
        validation.require_rates(self.profile_probs, "class_prior")
        validation.require_distributions(self.profile_weights, "profile_weights")
        validation.require_distributions(self.topic_words, "every row of topic_words")
        if not (np.isfinite(self.topic_prior).all() and (self.topic_prior > 0).all()):
            raise DataError("topic_prior must hold positive numbers only: they are Dirichlet parameters")

    @property
    def class_prior(self) -> Floats:
        """How often each class is present, ξ."""
        return self.profile_weights @ self.profile_probs

    def documents(
        self,
        n_docs: int,
        *,
        seed: int = 0,
        doc_length: ArrayLike = 80,
        lengths: Lengths = "fixed",
        texts: bool = False,
        doc_ids: Iterable[object] | None = None,
    ) -> SimulatedDocuments:
        """Documents from this story; another seed gives other documents, say a test set, from the same parameters.

        ``doc_length`` is a number of tokens for all documents, or one for each; with ``lengths="poisson"`` it is
        the mean. ``texts=True`` also keeps the words in the order drawn. Ids are positions unless given.
        """
        validation.require_count(n_docs, "n_docs")
        validation.require_choice(lengths, get_args(Lengths), "lengths")
        means = _doc_lengths(doc_length, n_docs, lengths)
        rng = stream(seed, "documents")
        word_ladder = _ladder(self.topic_words)
        labels = np.empty((n_docs, len(self.classes)), dtype=np.int8)
        per_topic = np.empty((n_docs, len(self.topics)), dtype=np.int32)
        counts: list[Any] = []
        written: list[str] = []
        for rows in blocks(n_docs, max(self.topic_prior[:, 0].size, int(means.max()))):
            n_rows = rows.stop - rows.start
            labels[rows] = self._draw_labels(n_rows, rng)
            sizes = rng.poisson(means[rows]) if lengths == "poisson" else means[rows].astype(np.int64)
            doc = np.repeat(np.arange(n_rows), sizes)
            topic = self._draw_topics(doc, labels[rows], rng)
            word = _climb(word_ladder, topic, rng)  # w
            per_topic[rows] = _table(doc, topic, (n_rows, len(self.topics))).toarray()
            counts.append(_table(doc, word, (n_rows, len(self.vocabulary))))
            if texts:
                written.extend(_texts(self.vocabulary[word], sizes))
        corpus = Corpus.from_counts(
            sparse.vstack(counts, format="csr"), self.vocabulary, doc_ids, names_array(written) if texts else None
        )
        return SimulatedDocuments(corpus, labels, per_topic, self)

    def _draw_labels(self, n_docs: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        profile = _climb(_ladder(self.profile_weights[None]), np.zeros(n_docs, dtype=np.int64), rng)
        return rng.random((n_docs, len(self.classes))) < self.profile_probs[profile]  # λ

    def _draw_topics(self, doc: Ints, labels: NDArray[np.int8], rng: np.random.Generator) -> Ints:
        """Topic of each token; mixes are drawn only for the (document, class) pairs that some token asks."""
        asked = rng.integers(labels.shape[1], size=len(doc))  # u
        used = np.zeros(labels.shape, dtype=bool)
        used[doc, asked] = True
        row = np.cumsum(used).reshape(used.shape) - 1
        which_doc, which_class = np.nonzero(used)
        topic_probs = dirichlet(self.topic_prior[which_class, labels[which_doc, which_class]], rng)  # θ
        return _climb(_ladder(topic_probs), row[doc, asked], rng)  # z


@dataclass(frozen=True, eq=False)
class SimulatedDocuments(Frozen):
    """Documents with everything the story knows about them: the truth and the parameters behind it."""

    corpus: Corpus
    labels: NDArray[np.int8]  # λ (documents, classes)
    tokens_per_topic: NDArray[np.int32]  # (documents, topics): how many tokens each topic gave
    story: DocumentModel

    def __post_init__(self) -> None:
        freeze_fields(self)

    def __len__(self) -> int:
        return len(self.corpus)

    @property
    def doc_ids(self) -> Strings:
        """Names of the documents."""
        return self.corpus.doc_ids

    @property
    def classes(self) -> Strings:
        """Names of the classes."""
        return self.story.classes

    @property
    def class_prior(self) -> Floats:
        """How often each class is present, ξ."""
        return self.story.class_prior

    @property
    def topic_prior(self) -> Floats:
        """Dirichlet parameters α, (classes, 2, topics)."""
        return self.story.topic_prior

    @property
    def topic_words(self) -> Floats:
        """Word distributions β, (topics, words)."""
        return self.story.topic_words

    @property
    def documents(self) -> Documents:
        """The texts, for those who start from text."""
        if self.corpus.texts is None:
            raise DataError("these documents kept counts only; simulate them with texts=True")
        return Documents(self.doc_ids, self.corpus.texts)

    def dataset(self, votes: Votes | None = None) -> Dataset:
        """Counts, votes and the truth as one ``Dataset``."""
        return Dataset.of(self.corpus, votes, self.labels, self.classes)


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Random numbers for one purpose: the same seed elsewhere must not give the same numbers."""
    validation.require_count(seed, "seed", least=0)
    return np.random.default_rng([int(seed), *purpose.encode()])


def numbered_names(stem: str, size: int, least_digits: int) -> list[str]:
    """Names that sort in the order of their numbers."""
    digits = max(least_digits, len(str(size)))
    return [f"{stem}-{number:0{digits}d}" for number in range(1, size + 1)]


def blocks(n_docs: int, cells_per_doc: int) -> Iterator[slice]:
    """Cut documents so that a temporary array of ``cells_per_doc`` for each stays small."""
    step = max(1, _CELLS_AT_ONCE // max(cells_per_doc, 64))
    for start in range(0, n_docs, step):
        yield slice(start, min(start + step, n_docs))


def dirichlet(prior: Floats, rng: np.random.Generator) -> Floats:
    """Draw from a Dirichlet for each row; in logs, because gammas of tiny parameters all round to 0."""
    logs = np.log(rng.standard_gamma(prior + 1.0))
    logs -= rng.standard_exponential(prior.shape) / prior  # gamma(a) = gamma(a + 1) * uniform ** (1 / a)
    logs -= logs.max(axis=1, keepdims=True)
    probs = np.exp(logs, out=logs)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs


def _ladder(probs: Floats) -> Floats:
    """Cumulative probabilities of all rows in one ascending array: row r climbs from r to r + 1."""
    steps = np.cumsum(probs, axis=1)
    steps /= steps[:, -1:]
    steps += np.arange(len(probs))[:, None]
    return steps


def _climb(ladder: Floats, row: Ints, rng: np.random.Generator) -> Ints:
    """Draw a column for each entry of ``row`` by one binary search over all rows."""
    height = np.minimum(row + rng.random(len(row)), np.nextafter(row + 1.0, 0.0))  # rounding must not leave the row
    place: Ints = np.searchsorted(ladder.ravel(), height, side="right") - row * ladder.shape[1]
    return place


def _table(row: Ints, column: Ints, shape: tuple[int, int]) -> Any:
    """Sparse counts of (row, column) pairs."""
    return sparse.csr_array((np.ones(len(row), dtype=np.int32), (row, column)), shape=shape)


def _texts(words: Strings, sizes: Ints) -> Iterator[str]:
    stops = np.cumsum(sizes)
    for start, stop in zip(stops - sizes, stops, strict=True):
        yield " ".join(words[start:stop])


def _doc_lengths(doc_length: ArrayLike, n_docs: int, lengths: Lengths) -> Floats:
    given = validation.as_floats(doc_length, "doc_length")
    if given.shape not in {(), (n_docs,)}:
        raise DataError(f"doc_length must be one number or one for each of {n_docs} documents, not {given.shape}")
    whole = lengths == "poisson" or bool((given == np.floor(given)).all())
    if not (np.isfinite(given).all() and (given >= 0).all() and whole):
        raise DataError("doc_length must be a whole number of tokens from 0 (any positive mean with lengths='poisson')")
    return np.broadcast_to(given, (n_docs,))
