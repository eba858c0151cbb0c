"""The generative model of documents.

Each class of a document is present or absent. Each class draws topic shares from a Dirichlet that depends on its state.
Every token picks a class uniformly, a topic from that class's shares, and a word from the topic.
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

Lengths = Literal["fixed", "poisson"]

_BLOCK_CELLS = 1 << 20
"""Size of temporary arrays. The random draws depend on it, so it is fixed."""


@dataclass(frozen=True, eq=False)
class DocumentModel(Frozen):
    """Parameters of the generative model, with the names of classes, topics and words.

    Labels are drawn from label-set profiles: profile m with probability ``profile_weights[m]``, then class i with
    probability ``profile_probs[m, i]``. With a single profile, classes are independent, as in the published model.

    Parameters
    ----------
    profile_weights : array of shape (profiles,)
        Probability of each profile.
    profile_probs : array of shape (profiles, classes)
        Probability of each class in each profile; the weighted mean is ξ.
    topic_prior : array of shape (classes, 2, topics)
        Dirichlet parameters α: [i, 1] when class i is present, [i, 0] when absent.
    topic_words : array of shape (topics, words)
        Word distributions β.
    classes, topics, vocabulary : array of str
        Names.
    """

    profile_weights: Floats
    profile_probs: Floats
    topic_prior: Floats
    topic_words: Floats
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
            raise DataError("topic_prior must hold positive numbers only; they are Dirichlet parameters")

    @property
    def class_prior(self) -> Floats:
        """Probability of each class, ξ, shape (classes,)."""
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
        """Documents drawn from this model; use another seed to draw, for example, a test set.

        Parameters
        ----------
        n_docs : int
            Number of documents.
        seed : int, default 0
            Random seed.
        doc_length : int or array of shape (documents,), default 80
            Number of tokens per document; the mean with ``lengths="poisson"``.
        lengths : "fixed" or "poisson", default "fixed"
            Distribution of document lengths.
        texts : bool, default False
            Also keep the texts: the words in the order drawn.
        doc_ids : iterable, optional
            Ids of the documents; positions by default.

        Returns
        -------
        SimulatedDocuments
            Word counts, true labels and the parameters.
        """
        validation.require_count(n_docs, "n_docs")
        validation.require_choice(lengths, get_args(Lengths), "lengths")
        means = _doc_lengths(doc_length, n_docs, lengths)
        rng = random_stream(seed, "documents")
        cumulative_words = _cumulative_rows(self.topic_words)
        labels = np.empty((n_docs, len(self.classes)), dtype=np.int8)
        per_topic = np.empty((n_docs, len(self.topics)), dtype=np.int32)
        counts: list[Any] = []
        all_texts: list[str] = []
        for rows in doc_blocks(n_docs, max(self.topic_prior[:, 0].size, int(means.max()))):
            n_rows = rows.stop - rows.start
            labels[rows] = self._draw_labels(n_rows, rng)
            sizes = rng.poisson(means[rows]) if lengths == "poisson" else means[rows].astype(np.int64)
            doc = np.repeat(np.arange(n_rows), sizes)
            topic = self._draw_topics(doc, labels[rows], rng)
            word = _draw_columns(cumulative_words, topic, rng)  # w
            per_topic[rows] = _count_pairs(doc, topic, (n_rows, len(self.topics))).toarray()
            counts.append(_count_pairs(doc, word, (n_rows, len(self.vocabulary))))
            if texts:
                all_texts.extend(_texts(self.vocabulary[word], sizes))
        corpus = Corpus.from_counts(
            sparse.vstack(counts, format="csr"), self.vocabulary, doc_ids, names_array(all_texts) if texts else None
        )
        return SimulatedDocuments(corpus, labels, per_topic, self)

    def _draw_labels(self, n_docs: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        profile = _draw_columns(_cumulative_rows(self.profile_weights[None]), np.zeros(n_docs, dtype=np.int64), rng)
        return rng.random((n_docs, len(self.classes))) < self.profile_probs[profile]  # λ

    def _draw_topics(self, doc: Ints, labels: NDArray[np.int8], rng: np.random.Generator) -> Ints:
        """Topic of each token; topic shares are drawn only for (document, class) pairs that have tokens."""
        token_class = rng.integers(labels.shape[1], size=len(doc))  # u
        used = np.zeros(labels.shape, dtype=bool)
        used[doc, token_class] = True
        row = np.cumsum(used).reshape(used.shape) - 1
        which_doc, which_class = np.nonzero(used)
        topic_shares = _dirichlet(self.topic_prior[which_class, labels[which_doc, which_class]], rng)  # θ
        return _draw_columns(_cumulative_rows(topic_shares), row[doc, token_class], rng)  # z


@dataclass(frozen=True, eq=False)
class SimulatedDocuments(Frozen):
    """Simulated documents with their true labels and the model they were drawn from.

    Attributes
    ----------
    corpus : Corpus
        Word counts, ids and optionally texts.
    labels : array of shape (documents, classes)
        True labels λ, 0 or 1.
    tokens_per_topic : array of shape (documents, topics)
        Number of tokens of each topic.
    model : DocumentModel
        The parameters.
    """

    corpus: Corpus
    labels: NDArray[np.int8]
    tokens_per_topic: NDArray[np.int32]
    model: DocumentModel

    def __post_init__(self) -> None:
        freeze_fields(self)

    def __len__(self) -> int:
        return len(self.corpus)

    @property
    def doc_ids(self) -> Strings:
        """Ids of the documents."""
        return self.corpus.doc_ids

    @property
    def classes(self) -> Strings:
        """Names of the classes."""
        return self.model.classes

    @property
    def class_prior(self) -> Floats:
        """Probability of each class, ξ, shape (classes,)."""
        return self.model.class_prior

    @property
    def topic_prior(self) -> Floats:
        """Dirichlet parameters α, shape (classes, 2, topics)."""
        return self.model.topic_prior

    @property
    def topic_words(self) -> Floats:
        """Word distributions β, shape (topics, words)."""
        return self.model.topic_words

    @property
    def documents(self) -> Documents:
        """The texts; requires ``texts=True`` in the simulation."""
        if self.corpus.texts is None:
            raise DataError("these documents have word counts only; simulate them with texts=True")
        return Documents(self.doc_ids, self.corpus.texts)

    def dataset(self, votes: Votes | None = None) -> Dataset:
        """Word counts, votes and true labels as one ``Dataset``."""
        return Dataset.of(self.corpus, votes, self.labels, self.classes)


def documents(
    n_docs: int,
    n_classes: int,
    n_topics: int,
    n_words: int,
    *,
    seed: int = 0,
    doc_length: ArrayLike = 80,
    lengths: Lengths = "fixed",
    texts: bool = False,
    class_prior: ArrayLike | None = None,
    profile_weights: ArrayLike | None = None,
    topic_prior: ArrayLike | None = None,
    topic_words: ArrayLike | None = None,
    topics_per_class: int = 2,
    emphasis: float = 0.9,
    topic_concentration: float = 10.0,
    word_concentration: float = 0.1,
) -> SimulatedDocuments:
    """Documents from the generative model; parameters that are not given are drawn at random.

    Parameters
    ----------
    n_docs, n_classes, n_topics, n_words : int
        Sizes; the shapes of given parameters must match them.
    seed : int, default 0
        Random seed.
    doc_length, lengths, texts
        As in :meth:`DocumentModel.documents`.
    class_prior : float or array of shape (classes,) or (profiles, classes), optional
        Probability of each class (ξ). An array with one row per label-set profile needs ``profile_weights``. Drawn
        between .15 and .45 by default.
    profile_weights : array of shape (profiles,), optional
        Probability of each profile.
    topic_prior : array of shape (classes, 2, topics), optional
        Dirichlet parameters (α) for each class when absent, [:, 0], and present, [:, 1]. By default a present class
        uses mainly ``topics_per_class`` topics of its own, as long as there are enough, and an absent class some of the
        last third of the topics.
    topic_words : array of shape (topics, words), optional
        Word distributions (β). Drawn from a symmetric Dirichlet with parameter ``word_concentration`` by default.
    topics_per_class : int, default 2
        Number of main topics per class.
    emphasis : float, default 0.9
        Share of the main topics in a drawn ``topic_prior``.
    topic_concentration : float, default 10
        Sum of each row of a drawn ``topic_prior``; the higher, the more similar the documents of a class.
    word_concentration : float, default 0.1
        The lower, the less the words of topics overlap.

    Returns
    -------
    SimulatedDocuments
        Word counts, true labels and all parameters.

    Examples
    --------
    >>> from palda import simulate
    >>> simulated = simulate.documents(100, n_classes=3, n_topics=6, n_words=50, seed=0)
    >>> simulated.corpus.counts.shape, simulated.labels.shape, simulated.topic_prior.shape
    ((100, 50), (100, 3), (3, 2, 6))
    """
    for size, name in ((n_classes, "n_classes"), (n_topics, "n_topics"), (n_words, "n_words")):
        validation.require_count(size, name)
    validation.require_count(topics_per_class, "topics_per_class")
    validation.require_number(topic_concentration, 1e-6, 1e6, "topic_concentration")
    validation.require_number(word_concentration, 1e-6, 1e6, "word_concentration")
    validation.require_number(emphasis, 0, 0.999, "emphasis")
    rng = random_stream(seed, "parameters")
    # rates and topic shares are drawn even if given, so that giving one parameter does not change the others
    drawn_rates = rng.uniform(0.15, 0.45, n_classes)
    drawn_shares = _draw_topic_shares(n_classes, n_topics, topics_per_class, emphasis, rng)
    if topic_words is None:
        topic_words = _dirichlet(np.full((n_topics, n_words), word_concentration), rng)
    profile_probs, weights = _profiles(drawn_rates if class_prior is None else class_prior, profile_weights, n_classes)
    model = DocumentModel(
        weights,
        profile_probs,
        validation.as_floats(topic_concentration * drawn_shares if topic_prior is None else topic_prior, "topic_prior"),
        validation.as_floats(topic_words, "topic_words"),
        names_array(range(n_classes)),
        names_array(range(n_topics)),
        names_array(f"w{position}" for position in range(n_words)),
    )
    return model.documents(n_docs, seed=seed, doc_length=doc_length, lengths=lengths, texts=texts)


def _draw_topic_shares(
    n_classes: int, n_topics: int, topics_per_class: int, emphasis: float, rng: np.random.Generator
) -> Floats:
    """Mean topic shares of shape (classes, 2, topics); classes share as few main topics as possible."""
    n_own = max(1, n_topics - max(1, n_topics // 3))
    shares = np.full((n_classes, 2, n_topics), (1.0 - emphasis) / n_topics)
    for state, pool in ((0, np.arange(min(n_own, n_topics - 1), n_topics)), (1, np.arange(n_own))):
        n_main = min(topics_per_class, len(pool))
        n_permutations = -(-n_classes * n_main // len(pool))
        topics = np.concatenate([rng.permutation(pool) for _ in range(n_permutations)])
        for i in range(n_classes):
            main = topics[i * n_main : (i + 1) * n_main]
            np.add.at(shares[i, state], main, emphasis * rng.dirichlet(np.full(n_main, 5.0)))
    return shares


def _profiles(class_prior: ArrayLike, weights: ArrayLike | None, n_classes: int) -> tuple[Floats, Floats]:
    """Class probabilities of shape (profiles, classes), and the weights of the profiles."""
    probs = validation.as_floats(class_prior, "class_prior")
    if probs.ndim == 0:
        probs = np.full(n_classes, probs)
    if (probs.ndim == 2) != (weights is not None):
        raise DataError("give a class_prior of shape (profiles, classes) and profile_weights together")
    return np.atleast_2d(probs), np.atleast_1d(
        validation.as_floats(1.0 if weights is None else weights, "profile_weights")
    )


def random_stream(seed: int, purpose: str) -> np.random.Generator:
    """Random generator for one purpose; the same seed gives independent numbers for another purpose."""
    validation.require_count(seed, "seed", minimum=0)
    return np.random.default_rng([int(seed), *purpose.encode()])


def numbered_names(stem: str, size: int, min_digits: int) -> list[str]:
    """Numbered names, padded so that they sort by number."""
    digits = max(min_digits, len(str(size)))
    return [f"{stem}-{number:0{digits}d}" for number in range(1, size + 1)]


def doc_blocks(n_docs: int, cells_per_doc: int) -> Iterator[slice]:
    """Slices of documents, small enough for temporary arrays with ``cells_per_doc`` cells per document."""
    step = max(1, _BLOCK_CELLS // max(cells_per_doc, 64))
    for start in range(0, n_docs, step):
        yield slice(start, min(start + step, n_docs))


def _dirichlet(prior: Floats, rng: np.random.Generator) -> Floats:
    """One Dirichlet draw per row of parameters, computed in logs because gammas of tiny parameters underflow."""
    logs = np.log(rng.standard_gamma(prior + 1.0))
    logs -= rng.standard_exponential(prior.shape) / prior  # gamma(a) = gamma(a + 1) * uniform ** (1 / a)
    logs -= logs.max(axis=1, keepdims=True)
    probs = np.exp(logs, out=logs)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs


def _cumulative_rows(probs: Floats) -> Floats:
    """Cumulative probabilities of each row, with the row number added, so that the flattened array is ascending."""
    sums = np.cumsum(probs, axis=1)
    sums /= sums[:, -1:]
    sums += np.arange(len(probs))[:, None]
    return sums


def _draw_columns(cumulative: Floats, row: Ints, rng: np.random.Generator) -> Ints:
    """Random column for each entry of ``row``, by one binary search over ``_cumulative_rows``."""
    target = np.minimum(row + rng.random(len(row)), np.nextafter(row + 1.0, 0.0))  # rounding must not leave the row
    column: Ints = np.searchsorted(cumulative.ravel(), target, side="right") - row * cumulative.shape[1]
    return column


def _count_pairs(row: Ints, column: Ints, shape: tuple[int, int]) -> Any:
    """Sparse counts of (row, column) pairs."""
    return sparse.csr_array((np.ones(len(row), dtype=np.int32), (row, column)), shape=shape)


def _texts(words: Strings, sizes: Ints) -> Iterator[str]:
    stops = np.cumsum(sizes)
    for start, stop in zip(stops - sizes, stops, strict=True):
        yield " ".join(words[start:stop])


def _doc_lengths(doc_length: ArrayLike, n_docs: int, lengths: Lengths) -> Floats:
    means = validation.as_floats(doc_length, "doc_length")
    if means.shape not in {(), (n_docs,)}:
        raise DataError(
            f"doc_length must be one number or one for each of {n_docs} documents, not of shape {means.shape}"
        )
    whole = lengths == "poisson" or bool((means == np.floor(means)).all())
    if not (np.isfinite(means).all() and (means >= 0).all() and whole):
        raise DataError("doc_length must be a whole number of tokens from 0 (any positive mean with lengths='poisson')")
    return np.broadcast_to(means, (n_docs,))
