"""Thresholds for any rival, chosen as palda chooses its own: on documents that the model has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from palda.data import Votes
from palda.errors import DataError
from palda.estimators import label_table
from palda.metrics import choose_thresholds
from palda.models.classifier import assign_folds
from palda.models.crowd import mean_where_unknown
from palda.paper.baselines.on_labels import vote_shares
from palda.paper.baselines.rival import checked_features, generator

if TYPE_CHECKING:
    from palda.metrics import Measure
    from palda.paper.baselines.rival import Array, Labels

__all__ = ["Thresholded", "out_of_fold_probs"]


def out_of_fold_probs(estimator: Any, X: Any, Y: Any, n_folds: int = 3, random_state: Any = None) -> Array:
    """(documents, classes): what clones of the estimator say about documents of the fold that they have not seen.

    Y is a table of labels, or ``Votes`` for estimators that learn from a crowd; the votes on a fold are held back with
    its documents. Each class is spread evenly over the folds.
    """
    features = checked_features(X)
    labels = None if isinstance(Y, Votes) else label_table(Y)[0]
    targets = vote_shares(Y) if labels is None else mean_where_unknown(labels)
    if len(targets) != features.shape[0]:
        raise DataError(f"X has {features.shape[0]} documents, but Y speaks of {len(targets)}")
    folds = assign_folds(targets, n_folds, int(generator(random_state).integers(2**31)))
    probs = np.empty(targets.shape)
    for fold in range(n_folds):
        seen, held_back = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        taught = Y.take(seen) if labels is None else labels[seen]
        probs[held_back] = clone(estimator).fit(features[seen], taught).predict_proba(features[held_back])
    return probs


class Thresholded(BaseEstimator):
    """A rival that says yes from a threshold of each class on, chosen out of fold to be best by some measure.

    Parameters
    ----------
    base
        Estimator with ``fit(X, Y)`` or ``fit(X, votes)``, and ``predict_proba(X)``; a clone of it is fitted. One
        that learns from votes says in ``targets_`` what it takes for the truth.
    measure
        ``"micro_f1"``, ``"macro_f1"`` or ``"jaccard"``.
    n_folds
        Folds, so also how often the estimator is fitted besides.
    random_state
        Seed of the folds.

    Attributes
    ----------
    thresholds_
        (classes,): from which probability on a class is predicted.
    base_
        The estimator, fitted to everything.
    """

    def __init__(self, base: Any, measure: Measure = "micro_f1", n_folds: int = 3, random_state: Any = None) -> None:
        self.base = base
        self.measure = measure
        self.n_folds = n_folds
        self.random_state = random_state

    def fit(self, X: Any, Y: Any) -> Self:
        """Fit the estimator to everything, and choose thresholds with clones that saw a part."""
        probs = out_of_fold_probs(self.base, X, Y, self.n_folds, self.random_state)
        self.base_ = clone(self.base).fit(X, Y)
        targets = self.base_.targets_ if isinstance(Y, Votes) else Y
        self.thresholds_ = choose_thresholds(targets, probs, self.measure)
        self.classes_ = self.base_.classes_
        return self

    def predict_proba(self, X: Any) -> Array:
        """(documents, classes): what the estimator says."""
        check_is_fitted(self, "thresholds_")
        probs: Array = self.base_.predict_proba(X)
        return probs

    def predict(self, X: Any) -> Labels:
        """(documents, classes): 1 where the probability reaches the class's threshold."""
        return (self.predict_proba(X) >= self.thresholds_).astype(np.int8)
