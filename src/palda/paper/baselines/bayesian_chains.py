"""BCC: Bayesian classifier chains along a tree of dependent classes (Zaragoza and others, 2011)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csgraph
from scipy.special import expit, xlogy

from palda.engine import Threads, resolve_n_jobs
from palda.paper.baselines.linear import LinearFeatures, choose_strengths, fit_with_labels
from palda.paper.baselines.rival import Rival

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.paper.baselines.rival import Array, Labels

__all__ = ["BayesianChains", "dependence_tree", "mutual_information"]

_NO_PARENT = -9999  # scipy's mark for the root


class BayesianChains(Rival):
    """Bayesian classifier chains: each class depends on the features and on one other class, its parent.

    Parents form the tree that keeps most of the classes' mutual information (maximum spanning tree, Chow and Liu). Its
    root is the class that shares most information with the others. Every class has a logistic regression on
    the features (tf-idf of counts, or standardised values) and its parent's label; the inventors use naive Bayes. A
    class's probability sums over both values of its parent, from the root down, which is exact in a tree.

    Parameters
    ----------
    n_jobs
        Threads; all cores by default. The result is the same.
    random_state
        Seed of the folds on which penalties are chosen.

    Attributes
    ----------
    parents_
        Parent of each class, as a column of Y; -1 for the root and for classes with nothing to learn.
    """

    def __init__(self, *, n_jobs: int | None = None, random_state: Any = None) -> None:
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        engine = Threads(resolve_n_jobs(self.n_jobs))
        self._features = LinearFeatures.learn(features)
        read = self._features.apply(features)
        self.strengths_ = choose_strengths(read, labels, int(rng.integers(2**31)), engine)
        self._order, self._parents = dependence_tree(mutual_information(labels))

        def fit_class(i: int) -> tuple[Array, float, Array]:
            above = [self._parents[i]] if self._parents[i] >= 0 else []
            return fit_with_labels(read, labels, i, above, float(self.strengths_[i]))

        models = list(engine.map(fit_class, range(labels.shape[1])))
        self._coef = np.column_stack([coef for coef, _, _ in models])
        self._intercept = np.array([intercept for _, intercept, _ in models])
        self._parent_coef = np.array([from_parent.sum() for _, _, from_parent in models])

    @property
    def parents_(self) -> NDArray[np.int64]:
        """Parent of each column of Y, -1 for none."""
        parents = np.full(len(self.classes_), -1)
        if len(self.learned_):
            parents[self.learned_] = np.where(self._parents >= 0, self.learned_[self._parents], -1)
        return parents

    def _probs(self, features: Any) -> Array:
        scores = self._features.apply(features) @ self._coef + self._intercept
        probs: Array = expit(scores)
        for i in self._order[1:]:
            above = probs[:, self._parents[i]]
            probs[:, i] = (1.0 - above) * probs[:, i] + above * expit(scores[:, i] + self._parent_coef[i])
        return probs


def mutual_information(labels: Labels) -> Array:
    """(classes, classes): nats that knowing one class tells about another; 0 on the diagonal."""
    present = labels.astype(np.float64)
    absent = 1.0 - present
    total = np.zeros((labels.shape[1],) * 2)
    for rows in (present, absent):
        for columns in (present, absent):
            together = rows.T @ columns / len(labels)
            alone = np.outer(rows.mean(axis=0), columns.mean(axis=0))
            total += xlogy(together, together) - xlogy(together, alone)
    np.fill_diagonal(total, 0.0)
    return np.maximum(total, 0.0)


def dependence_tree(information: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Classes from the root down, and the parent of each (-1 for the root), in the maximum spanning tree."""
    lengths = 1.0 + information.max() - information  # scipy takes 0 for "no edge"
    np.fill_diagonal(lengths, 0.0)
    root = int(information.sum(axis=1).argmax())
    order, parents = csgraph.breadth_first_order(csgraph.minimum_spanning_tree(lengths), root, directed=False)
    return order.astype(np.int64), np.where(parents == _NO_PARENT, -1, parents).astype(np.int64)
