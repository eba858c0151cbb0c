"""Logistic regressions shared by several baselines: features, penalties chosen by cross-validation, plain arrays."""

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
from palda.paper.baselines.base import N_FOLDS, are_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Array
    from palda.engine import Threads
    from palda.paper.baselines.base import Labels

WORD_STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Inverse penalties tried on tf-idf, from strong to weak regularisation."""

VALUE_STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Inverse penalties tried on standardised values, whose coefficients are far smaller."""

_MAX_ITER = 2000


@dataclass(frozen=True, eq=False)
class LinearFeatures:
    """Input of a linear model: tf-idf of word counts (sparse), or values with mean 0 and unit variance (dense)."""

    idf: Array | None
    scale: Scale | None

    @classmethod
    def learn(cls, X: Any) -> LinearFeatures:
        """Inverse document frequencies, or means and standard deviations, of the training documents."""
        if are_counts(X):
            return cls(inverse_document_frequencies(X), None)
        return cls(None, learn_scale(X))

    def apply(self, X: Any) -> Any:
        """Features of any documents; word counts may also be dense, and values sparse."""
        if self.idf is not None:
            return tf_idf(sparse.csr_array(X), self.idf)
        values = X.toarray() if are_counts(X) else X
        return self.scale.apply(values) if self.scale is not None else values


@dataclass(frozen=True, eq=False)
class LinearModel:
    """One linear model per class: ``coef`` (features, classes) and ``intercept`` (classes,)."""

    coef: Array
    intercept: Array

    def log_odds(self, features: Any) -> Array:
        """Log-odds of shape (documents, classes)."""
        scores: Array = features @ self.coef + self.intercept
        return scores

    def probs(self, features: Any) -> Array:
        """Probabilities of shape (documents, classes)."""
        probs: Array = expit(self.log_odds(features))
        return probs


def fit_linear(features: Any, labels: Labels, strengths: Array, engine: Threads) -> LinearModel:
    """Logistic regression of each class, each with its own inverse penalty."""

    def fit_class(i: int) -> tuple[Array, float]:
        return _fit_column(features, labels[:, i], float(strengths[i]))

    columns = list(engine.map(fit_class, range(labels.shape[1])))
    return LinearModel(
        np.column_stack([coef for coef, _ in columns]), np.array([intercept for _, intercept in columns])
    )


def _fit_column(features: Any, column: Labels, strength: float) -> tuple[Array, float]:
    """Coefficients and intercept; a constant column gets the log-odds of its base rate and no coefficients."""
    from sklearn.linear_model import LogisticRegression

    if column.min() == column.max():
        table = column[:, np.newaxis].astype(np.float64)
        return np.zeros(features.shape[1]), float(base_log_odds(table, np.ones_like(table))[0])
    model = LogisticRegression(C=strength, max_iter=_MAX_ITER).fit(features, column)
    return model.coef_[0], float(model.intercept_[0])


def choose_strengths(features: Any, labels: Labels, seed: int, engine: Threads) -> Array:
    """Inverse penalty of each class that maximises the held-out log-likelihood (3 folds).

    Tries weaker and weaker penalties until the likelihood of a class falls.
    """
    grid = WORD_STRENGTHS if are_counts(features) else VALUE_STRENGTHS
    if len(labels) < N_FOLDS:
        return np.full(labels.shape[1], grid[len(grid) // 2])
    folds = assign_folds(labels.astype(np.float64), N_FOLDS, seed)
    best, strengths = np.full(labels.shape[1], -np.inf), np.full(labels.shape[1], grid[0])
    active = np.arange(labels.shape[1])
    for strength in grid:
        reached = _held_out_likelihood(features, labels[:, active], strength, folds, engine)
        better = reached > best[active]
        active = active[better]
        if not len(active):
            break
        best[active], strengths[active] = reached[better], strength
    return strengths


def _held_out_likelihood(
    features: Any, labels: Labels, strength: float, folds: NDArray[np.int64], engine: Threads
) -> Array:
    total = np.zeros(labels.shape[1])
    for fold in np.unique(folds):
        held_out = folds == fold
        model = fit_linear(features[~held_out], labels[~held_out], np.full(labels.shape[1], strength), engine)
        targets = labels[held_out].astype(np.float64)
        total += log_likelihoods(model.log_odds(features[held_out]), targets, np.ones_like(targets))
    return total


def fit_with_labels(
    features: Any, labels: Labels, target: int, others: Sequence[int] | NDArray[Any], strength: float
) -> tuple[Array, float, Array]:
    """Logistic regression of one class on the features and on the labels of some other classes.

    Returns coefficients of the features, the intercept, and coefficients of the 0/1 labels. Next to standardised values
    the labels are standardised too, so that one penalty suits both; next to tf-idf they stay 0 and 1.
    """
    other_labels = labels[:, others].astype(np.float64)
    if are_counts(features):
        scale = np.ones(other_labels.shape[1])
        table = (
            sparse.hstack([features, sparse.csr_array(other_labels)], format="csr")
            if other_labels.shape[1]
            else features
        )
    else:
        scale = 1.0 / other_labels.std(axis=0)
        table = np.hstack([features, other_labels * scale])
    coef, intercept = _fit_column(table, labels[:, target], strength)
    n_features = features.shape[1]
    return coef[:n_features], intercept, coef[n_features:] * scale
