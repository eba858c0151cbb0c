"""Input checks, the base class of all baselines, those that ignore the documents, and out-of-fold probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from palda.data import Votes
from palda.errors import DataError
from palda.estimators import label_table
from palda.models.classifier import assign_folds, compact
from palda.models.crowd import mean_where_unknown
from palda.paper.baselines.aggregation import vote_shares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array

    Labels = NDArray[np.int8]

HALF = 0.5
N_FOLDS = 3


def are_counts(X: Any) -> bool:
    """Whether X holds word counts (sparse) rather than real values (dense)."""
    return bool(sparse.issparse(X))


def generator(random_state: Any) -> np.random.Generator:
    """Random generator for a seed of any form that scikit-learn accepts; NumPy's global state is not used."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(np.iinfo(np.int32).max)
    return np.random.default_rng(random_state)


def check_features(X: Any, n_features: int | None = None) -> Any:
    """Word counts as a CSR array of floats, or real values as a dense array; X itself is not changed."""
    features = _checked_counts(X) if are_counts(X) else _checked_values(X)
    if n_features is not None and features.shape[1] != n_features:
        raise DataError(f"X has {features.shape[1]} features, but training had {n_features}")
    return features


def _checked_counts(X: Any) -> Any:
    counts = compact(sparse.csr_array(X).astype(np.float64))
    if not np.isfinite(counts.data).all() or (counts.data < 0).any():
        raise DataError("a sparse X must hold word counts, finite and not negative; pass real values as a dense array")
    return counts


def _checked_values(X: Any) -> Array:
    try:
        values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("X must be numbers: sparse word counts, or dense real values") from None
    if values.ndim != 2:
        raise DataError(f"X has shape {values.shape}, not (documents, features)")
    if not np.isfinite(values).all():
        raise DataError("X holds NaN or infinity; baselines need finite numbers")
    return values


class BaselineClassifier(ABC, BaseEstimator):
    """A multi-label classifier that learns from X and 0/1 labels Y (documents, classes).

    A sparse X holds word counts, a dense X real values. Subclasses implement ``_fit`` and ``_probs``, which see only
    the classes that have both values in training. The other classes keep the one value they have.

    Attributes
    ----------
    classes_ : array of shape (classes,)
        Names of the columns of Y.
    base_rates_ : array of shape (classes,)
        Share of training documents that have each class.
    learned_ : array of int
        Columns of Y that have both values.
    """

    random_state: Any = None

    def fit(self, X: Any, Y: Any) -> Self:
        """Learn from word counts or values X and labels Y; neither is changed."""
        features = check_features(X)
        labels, self.classes_ = label_table(Y)
        if len(labels) != features.shape[0]:
            raise DataError(f"X has {features.shape[0]} documents, but Y has labels for {len(labels)}")
        if (labels < 0).any():
            raise DataError("baselines need 0 or 1 for every label; leave out documents with unknown labels")
        self.n_features_in_ = features.shape[1]
        self.base_rates_: Array = labels.mean(axis=0)
        self.learned_ = np.flatnonzero((self.base_rates_ > 0.0) & (self.base_rates_ < 1.0))
        if len(self.learned_):
            self._fit(features, np.ascontiguousarray(labels[:, self.learned_]), generator(self.random_state))
        return self

    def predict_proba(self, X: Any) -> Array:
        """Probability that each class is present, shape (documents, classes)."""
        check_is_fitted(self, "base_rates_")
        features = check_features(X, self.n_features_in_)
        probs = np.tile(self.base_rates_, (features.shape[0], 1))
        if len(self.learned_) and len(probs):
            probs[:, self.learned_] = self._probs(features)
        return probs

    def predict(self, X: Any) -> Labels:
        """1 where the probability is at least ½, else 0; shape (documents, classes)."""
        return (self.predict_proba(X) >= HALF).astype(np.int8)

    @abstractmethod
    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        """Learn from checked features and labels; every class has both values."""

    @abstractmethod
    def _probs(self, features: Any) -> Array:
        """Probabilities of shape (documents, learned classes)."""


class MajorityLabels(BaselineClassifier):
    """Predicts the more frequent value of each class in training, 0 for a tie; probabilities are base rates."""

    def predict(self, X: Any) -> Labels:
        """1 for the classes that more than half of the training documents have; shape (documents, classes)."""
        return (self.predict_proba(X) > HALF).astype(np.int8)

    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        """Nothing to learn besides the base rates."""

    def _probs(self, features: Any) -> Array:
        return np.tile(self.base_rates_[self.learned_], (features.shape[0], 1))


class NoLabels(MajorityLabels):
    """Predicts no class; every probability is 0, also for a class that every training document has."""

    def predict_proba(self, X: Any) -> Array:
        """Zeros of shape (documents, classes)."""
        return np.zeros_like(super().predict_proba(X))


def out_of_fold_probs(estimator: Any, X: Any, Y: Any, n_folds: int = N_FOLDS, random_state: Any = None) -> Array:
    """Cross-validated probabilities of shape (documents, classes), each from a clone that has not seen the document.

    Y holds labels, or ``Votes`` for an estimator that learns from votes; votes on held-out documents are held out too.
    Folds are stratified by class.
    """
    features = check_features(X)
    labels = None if isinstance(Y, Votes) else label_table(Y)[0]
    targets = vote_shares(Y) if labels is None else mean_where_unknown(labels)
    if len(targets) != features.shape[0]:
        raise DataError(f"X has {features.shape[0]} documents, but Y has {len(targets)}")
    folds = assign_folds(targets, n_folds, int(generator(random_state).integers(2**31)))
    probs = np.empty(targets.shape)
    for fold in range(n_folds):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        train_labels = Y.take(train) if labels is None else labels[train]
        probs[test] = clone(estimator).fit(features[train], train_labels).predict_proba(features[test])
    return probs
