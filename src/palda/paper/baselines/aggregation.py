"""Labels from votes, for classifiers that know nothing of annotators: majority vote, and Dawid and Skene's model."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from palda.data import validation
from palda.errors import MissingDependencyError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, Votes

_HALF = 0.5


class AggregatedLabels(NamedTuple):
    """Labels made from votes, both of shape (documents, classes).

    ``targets`` is the best estimate of the truth, used to choose thresholds: the labels themselves for a majority vote,
    probabilities for Dawid and Skene.
    """

    labels: NDArray[np.int8]
    targets: Array


def aggregate_labels(votes: Votes, rule: Literal["majority", "dawid_skene"]) -> AggregatedLabels:
    """Labels by one of the two rules; a tie and a class that nobody judged count as absent."""
    validation.require_choice(rule, ("majority", "dawid_skene"), "rule")
    shares = vote_shares(votes) if rule == "majority" else dawid_skene(votes)
    labels = (shares > _HALF).astype(np.int8)
    return AggregatedLabels(labels, labels.astype(np.float64) if rule == "majority" else shares)


def vote_shares(votes: Votes) -> Array:
    """Share of "present" among the votes on each label, shape (documents, classes); 0 where nobody voted."""
    shares: Array = votes.yes_per_pair() / np.maximum(votes.per_pair(), 1)
    return shares


def dawid_skene(votes: Votes, max_iter: int = 100, *, one_coin: bool = False) -> Array:
    """Probability of presence under one Dawid-Skene model per class, shape (documents, classes); 0 where nobody voted.

    crowd-kit's ``BinaryRelevance`` returns no probabilities and treats a class that was not judged as judged absent, so
    its ``DawidSkene`` is fitted here to the votes on each class, or its ``OneCoinDawidSkene``.
    """
    validation.require_count(max_iter, "max_iter")
    try:
        from crowdkit.aggregation import DawidSkene, OneCoinDawidSkene
    except ImportError:
        raise MissingDependencyError("Dawid-Skene aggregation", "baselines") from None
    probs = np.zeros((votes.n_docs, votes.n_classes))
    model = OneCoinDawidSkene if one_coin else DawidSkene
    for i in range(votes.n_classes):
        docs, present = _present_probs(model(n_iter=max_iter), votes, votes.label == i)
        probs[docs, i] = present
    return probs


def _present_probs(model: Any, votes: Votes, of_class: NDArray[np.bool_]) -> tuple[NDArray[np.int64], Array]:
    """Documents with votes on a class, and their probability of having it."""
    import pandas as pd

    values = votes.value[of_class]
    docs = np.unique(votes.doc[of_class]).astype(np.int64)
    if not len(values) or values.min() == values.max():
        return docs, np.full(len(docs), float(values[0]) if len(values) else 0.0)
    frame = pd.DataFrame({"task": votes.doc[of_class], "worker": votes.annotator[of_class], "label": values})
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning):  # raised by crowd-kit's use of pandas
            warnings.simplefilter("ignore", kind)
        probs = model.fit(frame).probas_
    return probs.index.to_numpy(np.int64), probs[1].to_numpy(np.float64)
