"""Aggregate the votes first, then learn: what is done where a classifier knows nothing of annotators."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from palda.data import validation
from palda.errors import DataError, MissingDependencyError
from palda.estimators import as_votes
from palda.paper.baselines.rival import HALF, checked_features

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.paper.baselines.rival import Array, Labels

__all__ = ["OnLabels", "dawid_skene", "vote_shares"]


class OnLabels(BaseEstimator):
    """A classifier taught with labels that the votes were aggregated into.

    Documents that nobody voted on are left out of training. In the others a class that nobody judged is absent, and so
    is one with as many votes for as against.

    Parameters
    ----------
    base
        Classifier with ``fit(X, Y)`` and ``predict_proba(X)``; a clone of it is fitted.
    aggregation
        ``"majority"``: the value with more votes. ``"dawid_skene"``: the likelier value under Dawid and Skene's model
        of annotators, one model a class, by crowd-kit.
    max_iter
        Rounds of Dawid and Skene's EM at most.

    Attributes
    ----------
    labels_
        (documents, classes): labels that the classifier was taught with, -1 for documents without votes.
    targets_
        The same as the best guess at the truth, NaN for documents without votes: labels by majority, else
        probabilities. What thresholds are chosen with.
    base_
        The fitted classifier.
    """

    def __init__(
        self, base: Any, aggregation: Literal["majority", "dawid_skene"] = "majority", *, max_iter: int = 100
    ) -> None:
        self.base = base
        self.aggregation = aggregation
        self.max_iter = max_iter

    def fit(self, X: Any, votes: Any) -> Self:
        """Aggregate votes, whose documents are the rows of X in that order, and learn from the labels."""
        validation.require_choice(self.aggregation, ("majority", "dawid_skene"), "aggregation")
        features = checked_features(X)
        given = as_votes(votes, None, features.shape[0])
        voted = np.flatnonzero(np.diff(given.doc_starts) > 0)
        if not len(voted):
            raise DataError("there is no vote at all to learn from")
        shares = vote_shares(given) if self.aggregation == "majority" else dawid_skene(given, self.max_iter)
        labels = shares > HALF
        self.classes_ = given.classes
        self.labels_, self.targets_ = np.full(labels.shape, -1, dtype=np.int8), np.full(labels.shape, np.nan)
        self.labels_[voted] = labels[voted]
        self.targets_[voted] = (labels if self.aggregation == "majority" else shares)[voted]
        self.base_ = clone(self.base).fit(features[voted], self.labels_[voted])
        return self

    def predict_proba(self, X: Any) -> Array:
        """(documents, classes): what the classifier says."""
        check_is_fitted(self, "base_")
        probs: Array = self.base_.predict_proba(X)
        return probs

    def predict(self, X: Any) -> Labels:
        """(documents, classes): what the classifier predicts."""
        check_is_fitted(self, "base_")
        labels: Labels = self.base_.predict(X)
        return labels


def vote_shares(votes: Votes) -> Array:
    """(documents, classes): share of votes for "present", 0 where nobody voted."""
    shares: Array = votes.yes_per_pair() / np.maximum(votes.per_pair(), 1)
    return shares


def dawid_skene(votes: Votes, max_iter: int = 100) -> Array:
    """(documents, classes): probability of presence under a Dawid-Skene model of each class, 0 where nobody voted.

    crowd-kit's ``BinaryRelevance`` gives no probabilities and takes a class that was not judged for one that was judged
    absent, so its ``DawidSkene`` is fitted here to the votes on each class.
    """
    validation.require_count(max_iter, "max_iter")
    try:
        from crowdkit.aggregation import DawidSkene
    except ImportError:
        raise MissingDependencyError("Dawid-Skene aggregation", "baselines") from None
    probs = np.zeros((votes.n_docs, votes.n_classes))
    for i in range(votes.n_classes):
        own = votes.label == i
        docs, present = _present_probs(DawidSkene(n_iter=max_iter), votes, own)
        probs[docs, i] = present
    return probs


def _present_probs(model: Any, votes: Votes, own: NDArray[np.bool_]) -> tuple[NDArray[np.int64], Array]:
    """Documents with votes on a class, and the probability that they have it."""
    import pandas as pd

    values = votes.value[own]
    docs = np.unique(votes.doc[own]).astype(np.int64)
    if not len(values) or values.min() == values.max():
        return docs, np.full(len(docs), float(values[0]) if len(values) else 0.0)
    frame = pd.DataFrame({"task": votes.doc[own], "worker": votes.annotator[own], "label": values})
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning):  # crowd-kit's use of pandas, nothing the user can change
            warnings.simplefilter("ignore", kind)
        found = model.fit(frame).probas_
    return found.index.to_numpy(np.int64), found[1].to_numpy(np.float64)
