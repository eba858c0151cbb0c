"""Classifier chains: a class may depend on the labels of other classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csgraph
from scipy.special import expit, xlogy

from palda.data import validation
from palda.engine import Threads, resolve_n_jobs
from palda.paper.baselines.base import BaselineClassifier
from palda.paper.baselines.linear import LinearFeatures, choose_strengths, fit_with_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.paper.baselines.base import Labels

_NO_PARENT = -9999  # scipy's value for the root
_MAX_SAMPLED_LABELS = 1 << 22  # sampled labels held in memory at a time


class BayesianChains(BaselineClassifier):
    """Bayesian classifier chains: each class depends on the features and on its parent class (Zaragoza et al., 2011).

    Parents form the maximum spanning tree of the classes' mutual information (Chow and Liu). The root is the class with
    the largest total mutual information. Every class has a logistic regression on the features (tf-idf of word counts,
    or standardised values) and its parent's label; the original uses naive Bayes. The probability of a class sums over
    both values of its parent, from the root down, which is exact in a tree.

    Parameters
    ----------
    n_jobs : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the folds used to choose penalties.

    Attributes
    ----------
    parents_ : array of shape (classes,)
        Column of Y of each class's parent; -1 for the root and for constant classes.
    """

    def __init__(self, *, n_jobs: int | None = None, random_state: Any = None) -> None:
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        engine = Threads(resolve_n_jobs(self.n_jobs))
        self._features = LinearFeatures.learn(features)
        table = self._features.apply(features)
        self.strengths_ = choose_strengths(table, labels, int(rng.integers(2**31)), engine)
        self._order, self._parents = dependence_tree(mutual_information(labels))

        def fit_class(i: int) -> tuple[Array, float, Array]:
            parent = [self._parents[i]] if self._parents[i] >= 0 else []
            return fit_with_labels(table, labels, i, parent, float(self.strengths_[i]))

        models = list(engine.map(fit_class, range(labels.shape[1])))
        self._coef = np.column_stack([coef for coef, _, _ in models])
        self._intercept = np.array([intercept for _, intercept, _ in models])
        self._parent_coef = np.array([parent_coef.sum() for _, _, parent_coef in models])

    @property
    def parents_(self) -> NDArray[np.int64]:
        """Column of Y of each class's parent, -1 for none."""
        parents = np.full(len(self.classes_), -1)
        if len(self.learned_):
            parents[self.learned_] = np.where(self._parents >= 0, self.learned_[self._parents], -1)
        return parents

    def _probs(self, features: Any) -> Array:
        scores = self._features.apply(features) @ self._coef + self._intercept
        probs: Array = expit(scores)
        for i in self._order[1:]:
            parent = probs[:, self._parents[i]]
            probs[:, i] = (1.0 - parent) * probs[:, i] + parent * expit(scores[:, i] + self._parent_coef[i])
        return probs


def mutual_information(labels: Labels) -> Array:
    """Mutual information of every two classes in nats, shape (classes, classes); 0 on the diagonal."""
    present = labels.astype(np.float64)
    absent = 1.0 - present
    total = np.zeros((labels.shape[1],) * 2)
    for rows in (present, absent):
        for columns in (present, absent):
            joint = rows.T @ columns / len(labels)
            independent = np.outer(rows.mean(axis=0), columns.mean(axis=0))
            total += xlogy(joint, joint) - xlogy(joint, independent)
    np.fill_diagonal(total, 0.0)
    return np.maximum(total, 0.0)


def dependence_tree(information: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Classes in breadth-first order from the root of the maximum spanning tree, and their parents (root: -1)."""
    lengths = 1.0 + information.max() - information  # scipy reads 0 as "no edge"
    np.fill_diagonal(lengths, 0.0)
    root = int(information.sum(axis=1).argmax())
    order, parents = csgraph.breadth_first_order(csgraph.minimum_spanning_tree(lengths), root, directed=False)
    return order.astype(np.int64), np.where(parents == _NO_PARENT, -1, parents).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Chain:
    """Classes in an order, each with a logistic regression on the features and on the labels of earlier classes."""

    order: NDArray[np.int64]
    coef: Array  # (features, positions)
    intercept: Array  # (positions,)
    label_coef: Array  # (positions, positions): of the row's label, for the column's class
    uniforms: Array  # (samples, positions)

    def probs(self, features: Any) -> Array:
        """Probabilities of shape (documents, positions): mean conditional probability over sampled earlier labels."""
        scores = features @ self.coef + self.intercept
        block_size = max(1, _MAX_SAMPLED_LABELS // self.uniforms.size)
        blocks = range(0, len(scores), block_size)
        return np.concatenate([self._sample(scores[first : first + block_size]) for first in blocks])

    def _sample(self, scores: Array) -> Array:
        n_docs, n_positions = scores.shape
        labels = np.zeros((n_positions, n_docs * len(self.uniforms)), dtype=np.float32)
        probs = np.empty_like(scores)
        for position in range(n_positions):
            from_labels = self.label_coef[:position, position].astype(np.float32) @ labels[:position]
            conditional = expit(scores[:, position, np.newaxis] + from_labels.reshape(n_docs, -1))
            probs[:, position] = conditional.mean(axis=1)
            labels[position] = (self.uniforms[:, position] < conditional).ravel()
        return probs


class MonteCarloChains(BaselineClassifier):
    """Monte Carlo classifier chains, averaged over random orders of the classes (Read, Martino and Luengo, 2013).

    In a chain, every class has a logistic regression on the features (tf-idf of word counts, or standardised values)
    and on the labels of the classes before it. Exact inference would sum over all label sets. Here labels are sampled
    class by class, and the probability of a class is the mean of its conditional probabilities. All documents share the
    same random numbers, so the result for a document does not depend on the others. The original searches for one good
    order; averaging over random orders needs no search and varies less.

    Parameters
    ----------
    n_orders : int
        Number of random orders of the classes.
    n_samples : int
        Samples per document and order.
    n_jobs : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the orders, the samples, and the folds used to choose penalties.
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
        table = self._features.apply(features)
        self.strengths_ = choose_strengths(table, labels, int(rng.integers(2**31)), engine)
        orders = [rng.permutation(labels.shape[1]) for _ in range(self.n_orders)]
        self._chains = [self._fit_chain(table, labels, order, rng, engine) for order in orders]

    def _fit_chain(
        self, features: Any, labels: Labels, order: NDArray[np.int64], rng: np.random.Generator, engine: Threads
    ) -> _Chain:
        def fit_position(position: int) -> tuple[Array, float, Array]:
            strength = float(self.strengths_[order[position]])
            return fit_with_labels(features, labels, order[position], order[:position], strength)

        n_positions = len(order)
        label_coef = np.zeros((n_positions, n_positions))
        coefs, intercepts = [], []
        for position, (coef, intercept, from_labels) in enumerate(engine.map(fit_position, range(n_positions))):
            coefs.append(coef)
            intercepts.append(intercept)
            label_coef[:position, position] = from_labels
        uniforms = _stratified_uniforms(self.n_samples, n_positions, rng)
        return _Chain(order, np.column_stack(coefs), np.array(intercepts), label_coef, uniforms)

    def _probs(self, features: Any) -> Array:
        table = self._features.apply(features)
        probs = np.zeros((features.shape[0], len(self.learned_)))
        for chain in self._chains:
            probs[:, chain.order] += chain.probs(table)
        return probs / len(self._chains)


def _stratified_uniforms(n_samples: int, n_columns: int, rng: np.random.Generator) -> Array:
    """Random numbers of shape (samples, columns), one in each of ``n_samples`` equal strata of every column."""
    strata = rng.permuted(np.tile(np.arange(n_samples), (n_columns, 1)), axis=1).T
    return (strata + rng.random((n_samples, n_columns))) / n_samples
