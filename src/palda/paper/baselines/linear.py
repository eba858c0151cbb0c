"""Logistic regressions as several rivals use them: features they like, penalties chosen out of fold, plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from palda.models.classifier import (
    Scale,
    assign_folds,
    base_log_odds,
    inverse_document_frequencies,
    learn_scale,
    log_likelihoods,
    tf_idf,
)
from palda.paper.baselines.rival import are_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.engine import Threads
    from palda.paper.baselines.rival import Array, Labels

__all__ = ["WORD_STRENGTHS", "Linear", "LinearFeatures", "choose_strengths", "fit_linear", "fit_with_labels"]

WORD_STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Inverse penalties tried on tf-idf, from the strongest penalty to the weakest."""

VALUE_STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Inverse penalties tried on standardised values, whose coefficients are far smaller."""

_N_FOLDS = 3
_MAX_ITER = 2000


@dataclass(frozen=True, eq=False)
class LinearFeatures:
    """What a linear model reads: tf-idf of counts (sparse), or values with mean 0 and spread 1 (dense)."""

    idf: Array | None
    scale: Scale | None

    @classmethod
    def learn(cls, X: Any) -> LinearFeatures:
        """Weights of words, or mean and spread of values, from the training documents."""
        if are_counts(X):
            return cls(inverse_document_frequencies(X), None)
        return cls(None, learn_scale(X))

    def apply(self, X: Any) -> Any:
        """Features of any documents; both forms are accepted, as long as the words are the same."""
        if self.idf is not None:
            return tf_idf(sparse.csr_array(X), self.idf)
        values = X.toarray() if are_counts(X) else X
        return self.scale.apply(values) if self.scale is not None else values


@dataclass(frozen=True, eq=False)
class Linear:
    """One linear model a class: ``coef`` (features, classes) and ``intercept`` (classes,)."""

    coef: Array
    intercept: Array

    def log_odds(self, features: Any) -> Array:
        """Log-odds (documents, classes)."""
        scores: Array = features @ self.coef + self.intercept
        return scores

    def probs(self, features: Any) -> Array:
        """Probabilities (documents, classes)."""
        probs: Array = expit(self.log_odds(features))
        return probs


def fit_linear(features: Any, labels: Labels, strengths: Array, engine: Threads) -> Linear:
    """Logistic regression of each class, with an inverse penalty of its own."""

    def fit_class(i: int) -> tuple[Array, float]:
        return _fit_column(features, labels[:, i], float(strengths[i]))

    columns = list(engine.map(fit_class, range(labels.shape[1])))
    return Linear(np.column_stack([coef for coef, _ in columns]), np.array([intercept for _, intercept in columns]))


def _fit_column(features: Any, column: Labels, strength: float) -> tuple[Array, float]:
    """Coefficients and intercept; a column of one value gets the log-odds of its base rate."""
    from sklearn.linear_model import LogisticRegression

    if column.min() == column.max():
        table = column[:, np.newaxis].astype(np.float64)
        return np.zeros(features.shape[1]), float(base_log_odds(table, np.ones_like(table))[0])
    model = LogisticRegression(C=strength, max_iter=_MAX_ITER).fit(features, column)
    return model.coef_[0], float(model.intercept_[0])


def choose_strengths(features: Any, labels: Labels, seed: int, engine: Threads) -> Array:
    """Inverse penalty of each class under which labels held back are likeliest (3 folds).

    Penalties become weaker until that makes a class worse.
    """
    grid = WORD_STRENGTHS if are_counts(features) else VALUE_STRENGTHS
    if len(labels) < _N_FOLDS:
        return np.full(labels.shape[1], grid[len(grid) // 2])
    folds = assign_folds(labels.astype(np.float64), _N_FOLDS, seed)
    best, strengths = np.full(labels.shape[1], -np.inf), np.full(labels.shape[1], grid[0])
    open_classes = np.arange(labels.shape[1])
    for strength in grid:
        reached = _held_back_likelihood(features, labels[:, open_classes], strength, folds, engine)
        better = reached > best[open_classes]
        open_classes = open_classes[better]
        if not len(open_classes):
            break
        best[open_classes], strengths[open_classes] = reached[better], strength
    return strengths


def _held_back_likelihood(
    features: Any, labels: Labels, strength: float, folds: NDArray[np.int64], engine: Threads
) -> Array:
    total = np.zeros(labels.shape[1])
    for fold in np.unique(folds):
        inside = folds == fold
        model = fit_linear(features[~inside], labels[~inside], np.full(labels.shape[1], strength), engine)
        targets = labels[inside].astype(np.float64)
        total += log_likelihoods(model.log_odds(features[inside]), targets, np.ones_like(targets))
    return total


def fit_with_labels(
    features: Any, labels: Labels, target: int, others: Sequence[int] | NDArray[Any], strength: float
) -> tuple[Array, float, Array]:
    """Logistic regression of one class on features and on some other classes' labels.

    Returns coefficients of the features, the intercept, and coefficients of the labels as 0 and 1. Beside standardised
    values labels are standardised too, so that one penalty suits both; tf-idf and 0/1 go together as they are.
    """
    given = labels[:, others].astype(np.float64)
    if are_counts(features):
        scale = np.ones(given.shape[1])
        table = sparse.hstack([features, sparse.csr_array(given)], format="csr") if given.shape[1] else features
    else:
        scale = 1.0 / given.std(axis=0)
        table = np.hstack([features, given * scale])
    coef, intercept = _fit_column(table, labels[:, target], strength)
    n_features = features.shape[1]
    return coef[:n_features], intercept, coef[n_features:] * scale
