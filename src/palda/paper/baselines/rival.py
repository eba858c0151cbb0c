"""What all rivals share: checks of their input, classes with nothing to learn, and prediction at ½."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from palda.errors import DataError
from palda.estimators import label_table
from palda.models.classifier import compact

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Labels = NDArray[np.int8]

__all__ = ["HALF", "Rival", "are_counts", "checked_features", "checked_labels", "generator"]

HALF = 0.5


def are_counts(X: Any) -> bool:
    """Whether X is taken for counts of words, which are sparse, or else for real values."""
    return bool(sparse.issparse(X))


def generator(random_state: Any) -> np.random.Generator:
    """Random numbers of one's own, whichever form the seed has; the global state is left alone."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(np.iinfo(np.int32).max)
    return np.random.default_rng(random_state)


def checked_features(X: Any) -> Any:
    """Counts of words as a CSR array of floats, or real values as a dense table; the caller's X is not changed."""
    if are_counts(X):
        counts = compact(sparse.csr_array(X).astype(np.float64))
        if not np.isfinite(counts.data).all() or (counts.data < 0).any():
            raise DataError("a sparse X holds counts of words, which are finite and not negative; give values as dense")
        return counts
    try:
        values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("X must be numbers: sparse counts of words, or dense real values") from None
    if values.ndim != 2:
        raise DataError(f"X has shape {values.shape}, not (documents, features)")
    if not np.isfinite(values).all():
        raise DataError("X holds NaN or infinity; rivals need finite numbers")
    return values


def checked_labels(Y: Any, n_docs: int) -> tuple[Labels, NDArray[Any]]:
    """Labels as 0 and 1, and the names of the classes."""
    labels, names = label_table(Y)
    if len(labels) != n_docs:
        raise DataError(f"X has {n_docs} documents, but Y has labels for {len(labels)}")
    if (labels < 0).any():
        raise DataError("rivals need every label: Y must be 0 or 1 throughout; leave out documents with unknown labels")
    return labels, names


class Rival(ABC, BaseEstimator):
    """A multi-label classifier that learns from X and 0/1 labels Y (documents, classes).

    A sparse X is taken for counts of words, a dense one for real values. Subclasses learn in ``_fit`` and answer in
    ``_probs``; both see only the classes that have both values in training. The others keep the value they have.

    Attributes
    ----------
    classes_
        Names of the columns of Y.
    base_rates_
        Share of each class in training.
    learned_
        Columns of the classes that have both values.
    """

    random_state: Any = None

    def fit(self, X: Any, Y: Any) -> Self:
        """Learn from counts or values X and labels Y; neither is changed."""
        features = checked_features(X)
        labels, self.classes_ = checked_labels(Y, features.shape[0])
        self.n_features_in_ = features.shape[1]
        self.base_rates_: Array = labels.mean(axis=0)
        self.learned_ = np.flatnonzero((self.base_rates_ > 0.0) & (self.base_rates_ < 1.0))
        if len(self.learned_):
            self._fit(features, np.ascontiguousarray(labels[:, self.learned_]), generator(self.random_state))
        return self

    def predict_proba(self, X: Any) -> Array:
        """(documents, classes): probability that each class is present."""
        check_is_fitted(self, "base_rates_")
        features = checked_features(X)
        if features.shape[1] != self.n_features_in_:
            raise DataError(f"X has {features.shape[1]} features, but training had {self.n_features_in_}")
        probs = np.tile(self.base_rates_, (features.shape[0], 1))
        if len(self.learned_) and len(probs):
            probs[:, self.learned_] = self._probs(features)
        return probs

    def predict(self, X: Any) -> Labels:
        """(documents, classes): 1 where the probability is at least ½."""
        return (self.predict_proba(X) >= HALF).astype(np.int8)

    @abstractmethod
    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        """Learn from checked features and labels; every class has both values."""

    @abstractmethod
    def _probs(self, features: Any) -> Array:
        """Probabilities (documents, learned classes)."""
