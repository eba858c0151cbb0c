"""MCC: classifier chains in random orders, answered by sampling (Read, Martino and Luengo, 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from palda.data import validation
from palda.engine import Threads, resolve_n_jobs
from palda.paper.baselines.linear import LinearFeatures, choose_strengths, fit_with_labels
from palda.paper.baselines.rival import Rival

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.paper.baselines.rival import Array, Labels

__all__ = ["MonteCarloChains"]

_CELLS_AT_ONCE = 1 << 22  # sampled labels that are held in memory


@dataclass(frozen=True, eq=False)
class _Chain:
    """Classes in an order, each with a logistic regression on the features and on the classes before it."""

    order: NDArray[np.int64]
    coef: Array  # (features, places)
    intercept: Array  # (places,)
    label_coef: Array  # (places, places): of the row's label, for the column's class
    uniforms: Array  # (samples, places)

    def probs(self, features: Any) -> Array:
        """Probabilities (documents, classes in the chain's order): means of conditionals over sampled predecessors."""
        scores = features @ self.coef + self.intercept
        docs_at_once = max(1, _CELLS_AT_ONCE // self.uniforms.size)
        blocks = range(0, len(scores), docs_at_once)
        return np.concatenate([self._sample(scores[first : first + docs_at_once]) for first in blocks])

    def _sample(self, scores: Array) -> Array:
        n_docs, n_places = scores.shape
        labels = np.zeros((n_places, n_docs * len(self.uniforms)), dtype=np.float32)
        probs = np.empty_like(scores)
        for place in range(n_places):
            from_labels = self.label_coef[:place, place].astype(np.float32) @ labels[:place]
            given = expit(scores[:, place, np.newaxis] + from_labels.reshape(n_docs, -1))
            probs[:, place] = given.mean(axis=1)
            labels[place] = (self.uniforms[:, place] < given).ravel()
        return probs


class MonteCarloChains(Rival):
    """Monte Carlo classifier chains: labels are sampled along chains, and chains in several orders are averaged.

    In a chain every class has a logistic regression on the features (tf-idf of counts, or standardised values) and on
    the labels of the classes before it. Exact inference would sum over all label sets. Here labels are sampled class by
    class; the probability of a class is the mean of its conditional probabilities. The same random numbers
    serve all documents, so what is said of one does not depend on those asked about with it. The inventors search for a
    single good order; averaging over random orders needs no search and is steadier.

    Parameters
    ----------
    n_orders
        Random orders of the classes.
    n_samples
        Samples a document and order.
    n_jobs
        Threads; all cores by default. The result is the same.
    random_state
        Seed of orders, samples, and the folds on which penalties are chosen.
    """

    def __init__(
        self, n_orders: int = 10, n_samples: int = 50, *, n_jobs: int | None = None, random_state: Any = None
    ) -> None:
        self.n_orders = n_orders
        self.n_samples = n_samples
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        validation.require_count(self.n_orders, "n_orders")
        validation.require_count(self.n_samples, "n_samples")
        engine = Threads(resolve_n_jobs(self.n_jobs))
        self._features = LinearFeatures.learn(features)
        read = self._features.apply(features)
        self.strengths_ = choose_strengths(read, labels, int(rng.integers(2**31)), engine)
        orders = [rng.permutation(labels.shape[1]) for _ in range(self.n_orders)]
        self._chains = [self._fit_chain(read, labels, order, rng, engine) for order in orders]

    def _fit_chain(
        self, features: Any, labels: Labels, order: NDArray[np.int64], rng: np.random.Generator, engine: Threads
    ) -> _Chain:
        def fit_place(place: int) -> tuple[Array, float, Array]:
            strength = float(self.strengths_[order[place]])
            return fit_with_labels(features, labels, order[place], order[:place], strength)

        n_places = len(order)
        label_coef = np.zeros((n_places, n_places))
        coefs, intercepts = [], []
        for place, (coef, intercept, from_labels) in enumerate(engine.map(fit_place, range(n_places))):
            coefs.append(coef)
            intercepts.append(intercept)
            label_coef[:place, place] = from_labels
        uniforms = _spread_uniforms(self.n_samples, n_places, rng)
        return _Chain(order, np.column_stack(coefs), np.array(intercepts), label_coef, uniforms)

    def _probs(self, features: Any) -> Array:
        read = self._features.apply(features)
        probs = np.zeros((features.shape[0], len(self.learned_)))
        for chain in self._chains:
            probs[:, chain.order] += chain.probs(read)
        return probs / len(self._chains)


def _spread_uniforms(n_samples: int, n_columns: int, rng: np.random.Generator) -> Array:
    """Random numbers (samples, columns), one in each of ``n_samples`` equal parts of every column: less noise."""
    parts = rng.permuted(np.tile(np.arange(n_samples), (n_columns, 1)), axis=1).T
    return (parts + rng.random((n_samples, n_columns))) / n_samples
