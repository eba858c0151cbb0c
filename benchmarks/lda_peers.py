"""Peers of the topic model: the paper's mean-field updates in NumPy, and timed iterations of scikit-learn's LDA."""

from __future__ import annotations

import contextlib
import io
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.kernels import Bags, Topics

    Array = NDArray[np.float64]

__all__ = ["Flat", "Padded", "Sums", "flat_batches", "numpy_mean_field", "padded_batches", "sklearn_iterations"]


class Padded(NamedTuple):
    """Documents of similar length as rectangles, padded with a word that occurs 0 times.

    Arrays are (docs, max words, ...), so that sums over classes, topics and words are stacked matrix products.
    """

    docs: NDArray[np.intp]
    words: NDArray[np.int32]
    counts: Array

    def spread(self, rows: Array) -> Array:
        """Rows of documents, repeated for each of their words."""
        return rows

    def over_classes(self, delta: Array, expected: Array) -> Array:
        """Σ_i δ_ni A_it."""
        return delta @ expected

    def over_topics(self, phi: Array, expected: Array) -> Array:
        """Σ_t φ_nt A_it."""
        return phi @ expected.transpose(0, 2, 1)

    def pair_counts(self, delta: Array, phi: Array) -> Array:
        """S_it = Σ_n c_n δ_ni φ_nt (maths, eq. 10)."""
        return (delta * self.counts[:, :, None]).transpose(0, 2, 1) @ phi

    def per_doc(self, values: Array) -> Array:
        """Σ_n c_n values_n of each document."""
        result: Array = np.einsum("dn,dn->d", self.counts, values)
        return result


class Flat(NamedTuple):
    """Concatenated documents, one row per word, each with a copy of its document's values. None may be empty."""

    docs: NDArray[np.intp]
    words: NDArray[np.int32]
    counts: Array
    owner: NDArray[np.intp]  # position in the batch of the document a row belongs to
    starts: NDArray[np.intp]  # first row of each document

    def spread(self, rows: Array) -> Array:
        """Rows of documents, repeated for each of their words."""
        return rows[self.owner]

    def over_classes(self, delta: Array, expected: Array) -> Array:
        """Σ_i δ_ni A_it."""
        return (delta[:, None, :] @ expected)[:, 0]

    def over_topics(self, phi: Array, expected: Array) -> Array:
        """Σ_t φ_nt A_it."""
        return (expected @ phi[:, :, None])[:, :, 0]

    def pair_counts(self, delta: Array, phi: Array) -> Array:
        """S_it = Σ_n c_n δ_ni φ_nt (maths, eq. 10)."""
        result: Array = np.add.reduceat((self.counts[:, None] * delta)[:, :, None] * phi[:, None, :], self.starts)
        return result

    def per_doc(self, values: Array) -> Array:
        """Σ_n c_n values_n of each document."""
        result: Array = np.add.reduceat(self.counts * values, self.starts)
        return result


class Sums(NamedTuple):
    """Result of the E-step, named and shaped as in ``palda.kernels.ShardResult``."""

    word_counts: Array
    log_theta: Array
    n_blocks: Array
    bounds: Array


def padded_batches(bags: Bags, docs_per_batch: int) -> list[Padded]:
    """Documents sorted by length and cut into batches, which minimises padding."""
    lengths = np.diff(bags.starts)
    order = np.argsort(lengths, kind="stable")
    batches = []
    for first in range(0, len(order), docs_per_batch):
        docs = order[first : first + docs_per_batch]
        place = np.arange(max(int(lengths[docs].max()), 1))
        real = place < lengths[docs, None]
        entries = np.where(real, bags.starts[docs, None] + place, 0)
        batches.append(Padded(docs, np.where(real, bags.words[entries], 0), np.where(real, bags.counts[entries], 0.0)))
    return batches


def flat_batches(bags: Bags, docs_per_batch: int) -> list[Flat]:
    """Documents in their order, cut into batches."""
    lengths = np.diff(bags.starts)
    batches = []
    for first in range(0, len(lengths), docs_per_batch):
        docs = np.arange(first, min(first + docs_per_batch, len(lengths)))
        begin, end = bags.starts[docs[0]], bags.starts[docs[-1] + 1]
        owner = np.repeat(docs - first, lengths[docs])
        batches.append(Flat(docs, bags.words[begin:end], bags.counts[begin:end], owner, bags.starts[docs] - begin))
    return batches


def numpy_mean_field(batches: Sequence[Padded | Flat], known: NDArray[np.int8], topics: Topics, n_passes: int) -> Sums:
    """E-step of the published model for known labels (maths, eqs. 7-12), no loop over documents.

    Equal words of a document share a row, and blocks of states that are known to be false are not computed, as in the
    compiled kernel. Every word must have a positive weight in some topic.
    """
    n_docs, n_classes = known.shape
    word_counts = np.zeros_like(topics.word_weights)
    log_theta = np.zeros_like(topics.prior)
    bounds = np.zeros(n_docs)
    for batch in batches:
        labels = known[batch.docs]
        prior = topics.prior[np.arange(n_classes), labels]
        phi, expected, bounds[batch.docs] = _converge(batch, topics.word_weights[batch.words], prior, n_passes)
        for state in (0, 1):
            log_theta[:, state] += np.einsum("di,dit->it", labels == state, expected)
        phi *= batch.counts[..., None]
        np.add.at(word_counts, batch.words.ravel(), phi.reshape(-1, phi.shape[-1]))
    n_present = (known == 1).sum(axis=0)
    n_blocks = np.stack((n_docs - n_present, n_present), axis=1).astype(np.float64)
    return Sums(word_counts, log_theta, n_blocks, bounds)


def _converge(batch: Padded | Flat, weights: Array, prior: Array, n_passes: int) -> tuple[Array, Array, Array]:
    """φ of every word, E[log θ] (docs, classes, topics) and the bounds (docs,) after ``n_passes`` passes."""
    n_classes = prior.shape[1]
    mean = prior / prior.sum(axis=2, keepdims=True)
    delta = batch.over_topics(weights, batch.spread(mean))
    delta /= delta.sum(axis=-1, keepdims=True)
    gamma = prior + batch.per_doc(np.ones_like(batch.counts))[:, None, None] / n_classes * mean
    for _ in range(n_passes):
        expected = batch.spread(_expected_log(gamma))
        scores = batch.over_classes(delta, expected)
        phi, log_norm_z = _normalised(scores, weights)  # eq. 8
        class_scores = batch.over_topics(phi, expected)
        delta, log_norm_u = _normalised(class_scores, None)  # eq. 9
        gamma = prior + batch.pair_counts(delta, phi)  # eq. 10
    entropy = log_norm_z - np.einsum("...t,...t->...", phi, scores) + log_norm_u - np.log(n_classes)
    entropy -= np.einsum("...i,...i->...", delta, class_scores)
    # eq. 12: of a counted block of a known label, Σ S·A - KL is ln B(α + S) - ln B(α)
    blocks = _log_beta(gamma) - _log_beta(prior)
    return phi, _expected_log(gamma), batch.per_doc(entropy) + blocks.sum(axis=1)


def _expected_log(gamma: Array) -> Array:
    expected: Array = digamma(gamma)
    expected -= digamma(gamma.sum(axis=-1, keepdims=True))
    return expected


def _normalised(scores: Array, weights: Array | None) -> tuple[Array, Array]:
    """Rows proportional to exp(scores) · weights, and the logs of their normalisers."""
    highest = scores.max(axis=-1, keepdims=True)
    raw = scores - highest
    np.exp(raw, out=raw)
    if weights is not None:
        raw *= weights
    total = raw.sum(axis=-1, keepdims=True)
    raw /= total
    return raw, (np.log(total) + highest)[..., 0]


def _log_beta(rows: Array) -> Array:
    result: Array = gammaln(rows).sum(axis=-1) - gammaln(rows.sum(axis=-1))
    return result


def sklearn_iterations(counts: Any, n_topics: int, n_iter: int, n_jobs: int) -> Array:
    """Seconds of each iteration but the first of scikit-learn's batch LDA, with its default document settings.

    It reports the end of an iteration only by printing; standard output is redirected to record the times.
    """
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(
        n_topics, learning_method="batch", max_iter=n_iter, evaluate_every=0, n_jobs=n_jobs, random_state=0, verbose=1
    )
    timer = _PrintTimer("iteration")
    with contextlib.redirect_stdout(timer):
        model.fit(counts)
    return np.diff(timer.times)


class _PrintTimer(io.TextIOBase):
    """Replacement for standard output that records when a line with a given beginning is printed."""

    def __init__(self, beginning: str) -> None:
        self.beginning = beginning
        self.times: list[float] = []

    def write(self, text: str) -> int:
        if text.startswith(self.beginning):
            self.times.append(time.perf_counter())
        return len(text)
