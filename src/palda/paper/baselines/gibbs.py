"""What the rivals made of tomotopy's Gibbs samplers share."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from palda.errors import DataError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from numpy.typing import NDArray

__all__ = ["as_words", "inferred", "tomotopy_for"]


def tomotopy_for(what: str) -> ModuleType:
    """tomotopy, or one line that says how to get it."""
    try:
        import tomotopy
    except ImportError:
        raise MissingDependencyError(what, "baselines") from None
    module: ModuleType = tomotopy
    return module


def as_words(features: Any) -> list[list[str]]:
    """Every document as a list of words (their columns, as text), each as often as it occurs."""
    counts = sparse.csr_array(features)
    times = counts.data.astype(np.int64)
    if (times != counts.data).any() or (times < 0).any():
        raise DataError("topic models read counts of words, which are whole numbers; turn values into words first")
    names = np.arange(counts.shape[1]).astype(str)
    words = np.repeat(counts.indices, times)
    lengths = np.concatenate([[0], np.cumsum(times)])[counts.indptr]
    return [names[words[start:stop]].tolist() for start, stop in pairwise(lengths)]


def inferred(model: Any, words: Sequence[list[str]], n_sweeps: int) -> tuple[NDArray[np.intp], list[Any]]:
    """Rows of the documents that have words the model knows, and those documents with their topics sampled.

    One worker samples, so the result is always the same.
    """
    vocabulary = frozenset(model.used_vocabs)
    rows = [row for row, text in enumerate(words) if not vocabulary.isdisjoint(text)]
    documents = [model.make_doc(words[row]) for row in rows]
    if documents:
        model.infer(documents, iterations=n_sweeps, workers=1)
    return np.array(rows, dtype=np.intp), documents
