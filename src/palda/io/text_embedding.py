"""``TextEmbedding``: a transformer from texts to dense vectors."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from palda.data import Corpus, Dataset, checked_texts, names_array, shown, validation
from palda.errors import DataError
from palda.io.embedding_cache import EmbeddingCache, text_keys
from palda.io.embedding_models import (
    Signature,
    folder_digest,
    folder_signature,
    load_encoder,
    model_folder,
    object_encoder,
)
from palda.io.messages import duration, note

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from palda.data import Documents, Strings
    from palda.io.embedding_models import Encoder

    Vectors = NDArray[np.float32]

_BATCHES_PER_CALL = 16
"""Batches per call of the library, which sorts the texts of a call by length. After each call vectors are stored."""
_SECONDS_BETWEEN_NOTES = 5.0


class TextEmbedding(TransformerMixin, BaseEstimator):
    """Embeddings of texts by a model of model2vec or sentence-transformers, to be passed as ``features``.

    The model is loaded when it is first needed, on the device that its library chooses. Its library follows from the
    files in its folder. model2vec needs ``palda[embeddings]``; sentence-transformers, which needs PyTorch,
    ``palda[sentence-transformers]``. No code that comes with a model is executed, and weights are read from safetensors
    files only. Texts longer than the model's limit are cut by its library.

    Parameters
    ----------
    model : str, path, or object with a method ``encode``
        Path of a model folder, or name of a model of the Hugging Face hub: ``"owner/name"`` or
        ``"owner/name@revision"``. Only a hub name downloads anything, into the cache of the hub's client. An object is
        called with a list of texts and returns an array (texts, width), so any other source of embeddings can be used.
    batch_size : int, default 64
        Number of texts that the model embeds at a time.
    cache : str, path or None, default None
        Folder in which embeddings are stored, to be read instead of computed when the same text is embedded by the same
        model again. A model is known by the content of its folder; an object, by its attribute ``cache_key``, a
        string. Stored embeddings are kept when the computation is interrupted.
    normalize : bool, default False
        Scale every vector to unit length.
    verbose : int, default 0
        Write progress to standard error.

    Attributes
    ----------
    width_ : int
        Number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from palda import TextEmbedding
    >>> class Lengths:
    ...     def encode(self, texts):
    ...         return np.array([[len(text), text.count(" ")] for text in texts])
    >>> embedding = TextEmbedding(Lengths())
    >>> embedding.fit_transform(["wheat", "ships carry wheat"])
    array([[ 5.,  0.],
           [17.,  2.]], dtype=float32)
    >>> embedding.get_feature_names_out().tolist()
    ['embedding[0]', 'embedding[1]']
    """

    def __init__(
        self,
        model: Any,
        *,
        batch_size: int = 64,
        cache: str | os.PathLike[str] | None = None,
        normalize: bool = False,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.batch_size = batch_size
        self.cache = cache
        self.normalize = normalize
        self.verbose = verbose

    def fit(self, X: Iterable[str] | Documents | Corpus | Dataset, y: object = None) -> TextEmbedding:  # noqa: ARG002
        """Learn the number of columns, from the embedding of the first text."""
        first = next(iter(_texts(X)), "")
        self.width_ = int(self._embedded([first], None).shape[1])
        return self

    def fit_transform(self, X: Iterable[str] | Documents | Corpus | Dataset, y: object = None) -> Vectors:  # noqa: ARG002
        """Embeddings of texts, and the number of columns."""
        texts = list(_texts(X))
        vectors = self._embedded(texts or [""], None)[: len(texts)]
        self.width_ = int(vectors.shape[1])
        return vectors

    def transform(self, X: Iterable[str] | Documents | Corpus | Dataset) -> Vectors:
        """Embeddings of texts: a list, an array, a column of a table, ``Documents``, or a ``Corpus`` with texts.

        Returns
        -------
        array of float32, shape (n_docs, width_)
            One row per text.
        """
        check_is_fitted(self, "width_")
        texts = list(_texts(X))
        return self._embedded(texts, self.width_) if texts else np.zeros((0, self.width_), dtype=np.float32)

    def get_feature_names_out(self, input_features: object = None) -> Strings:  # noqa: ARG002 - scikit-learn's contract
        """Names of the columns: ``embedding[0]``, ``embedding[1]``, ..."""
        check_is_fitted(self, "width_")
        return names_array(f"embedding[{column}]" for column in range(self.width_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags

    def __getstate__(self) -> Any:
        """Parameters and width; a loaded model is left out, and loaded again when it is needed."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_source"}

    def _embedded(self, texts: list[str], width: int | None) -> Vectors:
        validation.require_count(self.batch_size, "batch_size")
        source = self._opened()
        task = _Embedding(texts, width, source.name)
        with ExitStack() as stack:
            cache = None
            if self.cache is not None:
                cache = EmbeddingCache(Path(self.cache).expanduser() / source.identity())
                task.read(cache)
                stack.callback(cache.merge)
                stack.callback(cache.write)  # also if the computation is interrupted
            progress = _Progress(len(texts), len(texts) - len(task.missing)) if self.verbose else None
            per_call = _BATCHES_PER_CALL * self.batch_size
            for start in range(0, len(task.missing), per_call):
                rows = task.missing[start : start + per_call]
                task.put(rows, source.encode([texts[row] for row in rows], self.batch_size))
                if cache is not None:
                    cache.add(task.keys[rows], task.vectors[rows])
                if progress is not None:
                    progress.step(len(rows))
        vectors = task.completed()
        return _unit_length(vectors) if self.normalize else vectors

    def _opened(self) -> _Source:
        """The model, kept between calls while the parameter and the files are the same."""
        source: _Source | None = getattr(self, "_source", None)
        if source is None or source.model is not self.model or not source.is_current():
            source = self._source = _Source(self.model, self.verbose)
        return source


class _Source:
    """A model that is loaded when it is first needed."""

    def __init__(self, model: Any, verbose: int) -> None:
        self.model = model
        self.folder: Path | None = None
        self._encode: Encoder | None = None
        self._identity: str | None = None
        self._signature: Signature | None = None
        if isinstance(model, (str, os.PathLike)):
            self.folder = model_folder(model, verbose=verbose)
            self._signature = folder_signature(self.folder)
        elif not callable(getattr(model, "encode", None)):
            raise DataError(
                f"model must be the path of a folder, a hub name, or an object with a method encode, not {shown(model)}"
            )

    @property
    def name(self) -> str:
        """Name for messages."""
        return str(self.model) if self.folder is not None else type(self.model).__name__

    def is_current(self) -> bool:
        """Whether the files of the model are those that were found."""
        return self.folder is None or folder_signature(self.folder) == self._signature

    def encode(self, texts: list[str], batch_size: int) -> Any:
        """Vectors of texts."""
        if self._encode is None:
            self._encode = object_encoder(self.model) if self.folder is None else load_encoder(self.folder)
        return self._encode(texts, batch_size)

    def identity(self) -> str:
        """Name of the folder of the model within a cache."""
        if self._identity is None:
            if self.folder is not None:
                self._identity = folder_digest(self.folder)
            else:
                key = getattr(self.model, "cache_key", None)
                if not isinstance(key, str) or not key:
                    raise DataError(
                        f"cache needs to know the model: set the attribute cache_key of the {self.name} to a string "
                        "that changes when its embeddings do"
                    )
                self._identity = blake2b(
                    f"cache_key {key}".encode("utf-8", "surrogatepass"), digest_size=16
                ).hexdigest()
        return self._identity


class _Embedding:
    """Vectors of texts, row by row as they become known; equal texts are embedded once."""

    def __init__(self, texts: list[str], width: int | None, name: str) -> None:
        self.keys = text_keys(texts)
        self._distinct, self._first, self._inverse = np.unique(self.keys, return_index=True, return_inverse=True)
        self.missing: NDArray[np.int64] = np.sort(self._first)
        self._name = name
        self._expected = width
        self._vectors: Vectors | None = None

    @property
    def vectors(self) -> Vectors:
        """Vectors (texts, width); rows that are not known yet are undefined."""
        assert self._vectors is not None  # noqa: S101 - there is at least one text
        return self._vectors

    def read(self, cache: EmbeddingCache) -> None:
        """Take what the cache holds."""
        known = np.zeros(len(self._distinct), dtype=bool)
        for positions, vectors in cache.find(self._distinct):
            self._store(self._first[positions], vectors)
            known[positions] = True
        self.missing = np.sort(self._first[~known])

    def put(self, rows: NDArray[np.int64], vectors: Any) -> None:
        """Check and take the vectors of some texts."""
        found = np.asarray(vectors)
        if found.ndim != 2 or len(found) != len(rows) or found.dtype.kind not in "fiub" or not found.shape[1]:
            raise DataError(
                f"the model {self._name} returned an array of {found.dtype} and shape {found.shape} for {len(rows)} "
                "texts instead of numbers (texts, width)"
            )
        wrong = np.flatnonzero(~np.isfinite(found).all(axis=1))
        if len(wrong):
            row = int(rows[wrong[0]])
            raise DataError(f"the model {self._name} returned NaN or infinity for text {row} (counted from 0)")
        self._store(rows, found)

    def completed(self) -> Vectors:
        """All vectors, with those of equal texts filled in."""
        first = self._first[self._inverse]
        repeated = np.flatnonzero(first != np.arange(len(first)))
        self.vectors[repeated] = self.vectors[first[repeated]]
        return self.vectors

    def _store(self, rows: NDArray[np.int64], vectors: NDArray[Any]) -> None:
        if self._expected is None:
            self._expected = vectors.shape[1]
        if vectors.shape[1] != self._expected:
            raise DataError(
                f"the model {self._name} returned vectors of width {vectors.shape[1]} instead of {self._expected}; it "
                "is not the one that was fitted, or that the cache was filled with"
            )
        if self._vectors is None:
            self._vectors = np.empty((len(self.keys), self._expected), dtype=np.float32)
        self._vectors[rows] = vectors


class _Progress:
    """Lines about the texts that are embedded, every few seconds."""

    def __init__(self, n_texts: int, n_known: int) -> None:
        self._n_texts, self._n_known, self._n_done = n_texts, n_known, 0
        self._start = self._last = time.monotonic()
        if n_known:
            note(f"embeddings: {n_known:,} of {n_texts:,} texts are repeated or in the cache")

    def step(self, n_texts: int) -> None:
        """Count texts that were embedded."""
        self._n_done += n_texts
        done, now = self._n_known + self._n_done, time.monotonic()
        if done < self._n_texts and now - self._last < _SECONDS_BETWEEN_NOTES:
            return
        self._last = now
        taken = now - self._start
        left = f"  about {duration(max((self._n_texts - done) * taken / self._n_done, 1.0))} left"
        end = f"  done in {duration(taken)}"
        note(f"embeddings: {done:,} of {self._n_texts:,} texts{left if done < self._n_texts else end}")


def _texts(documents: Any) -> Iterable[str]:
    """Texts of documents in any form, checked one by one."""
    if isinstance(documents, Dataset):
        documents = documents.corpus
    if isinstance(documents, Corpus):
        if documents.texts is None:
            raise DataError("these documents have word counts only; embeddings need texts")
        documents = documents.texts
    return checked_texts(documents)


def _unit_length(vectors: Vectors) -> Vectors:
    """Vectors divided by their lengths, in place; a zero vector stays as it is."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    vectors /= np.where(lengths > 0, lengths, 1.0)[:, None].astype(np.float32)
    return vectors
