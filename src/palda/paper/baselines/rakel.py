"""RAkEL: random k-labelsets (Tsoumakas, Katakis and Vlahavas, 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from palda.data import validation
from palda.engine import Threads, resolve_n_jobs
from palda.paper.baselines.rival import HALF, Rival, are_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.paper.baselines.rival import Array, Labels

__all__ = ["Rakel"]

_MOST_LABELSETS = 100
_ROOT_DOCS = 2.0  # documents that the root's shares count for in a leaf


@dataclass(frozen=True, eq=False)
class _Powerset:
    """A tree for the combinations of a few classes.

    ``node_probs`` (2, nodes, classes) are the shares of each class in the tree's nodes: as they are, and drawn towards
    those at the root.
    """

    classes: NDArray[np.int64]
    tree: Any
    node_probs: Array

    def probs(self, features: Any) -> Array:
        """Both kinds of shares (2, documents, its classes)."""
        return self.node_probs[:, self.tree.apply(features)]


class Rakel(Rival):
    """Random k-labelsets, overlapping: a decision tree for the combinations of every few classes.

    Classes are dealt into sets so that each is in about as many. A tree tells apart the combinations of its classes
    that occur in training. The probability of a class is the mean over the trees that know it of the share of
    training documents that have it, in the leaf a document falls into, drawn a little towards its base rate: two
    documents make nothing certain. That never overrules the trees: where at least half speak for a class, it has ½.

    Parameters
    ----------
    labelset_size
        Classes in a set, k.
    n_labelsets
        Number of sets; ``"auto"`` is twice the number of classes but at most 100, as in MULAN.
    min_samples_leaf
        Training documents in a leaf, at least; 2 as in C4.5.
    n_jobs
        Threads; all cores by default. The result is the same.
    random_state
        Seed of the sets, and of ties between splits.
    """

    def __init__(
        self,
        labelset_size: int = 3,
        n_labelsets: int | Literal["auto"] = "auto",
        *,
        min_samples_leaf: int = 2,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.labelset_size = labelset_size
        self.n_labelsets = n_labelsets
        self.min_samples_leaf = min_samples_leaf
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        validation.require_count(self.labelset_size, "labelset_size")
        n_classes = labels.shape[1]
        size = min(self.labelset_size, n_classes)
        number = min(2 * n_classes, _MOST_LABELSETS) if self.n_labelsets == "auto" else self.n_labelsets
        validation.require_count(number, "n_labelsets")
        labelsets = _deal(n_classes, size, min(number, comb(n_classes, size)), rng)
        seeds = rng.integers(2**31, size=len(labelsets)).tolist()
        read = _as_trees_read(features)
        tasks = list(zip(labelsets, seeds, strict=True))
        engine = Threads(resolve_n_jobs(self.n_jobs))
        self._trees = list(engine.map(lambda task: self._fit_tree(read, labels, *task), tasks))

    def _fit_tree(self, features: Any, labels: Labels, classes: NDArray[np.int64], seed: int) -> _Powerset:
        from sklearn.tree import DecisionTreeClassifier

        combinations, codes = np.unique(labels[:, classes], axis=0, return_inverse=True)
        tree = DecisionTreeClassifier(
            criterion="entropy", min_samples_leaf=self.min_samples_leaf, random_state=seed
        ).fit(features, codes.ravel())
        return _Powerset(classes, tree, _node_probs(tree.tree_, combinations))

    def _probs(self, features: Any) -> Array:
        sums = np.zeros((2, features.shape[0], len(self.learned_)))
        n_trees = np.zeros(len(self.learned_))
        read = features.astype(np.float32)
        for powerset in self._trees:
            sums[..., powerset.classes] += powerset.probs(read)
            n_trees[powerset.classes] += 1
        known = n_trees > 0
        sums[..., known] /= n_trees[known]
        sums[..., ~known] = self.base_rates_[self.learned_][~known]
        votes, probs = sums
        never_overruled: Array = np.where(votes >= HALF, np.maximum(probs, HALF), probs)
        return never_overruled


def _node_probs(nodes: Any, combinations: Labels) -> Array:
    """(2, nodes, classes): shares of classes, summed over combinations, and the same with the root's mixed in."""
    shares = nodes.value[:, 0] @ combinations
    n_docs = nodes.n_node_samples[:, np.newaxis]
    return np.stack([shares, (n_docs * shares + _ROOT_DOCS * shares[0]) / (n_docs + _ROOT_DOCS)])


def _as_trees_read(features: Any) -> Any:
    """Columns one after the other, in the precision that scikit-learn's trees work with: converted once for all."""
    if are_counts(features):
        return features.tocsc().astype(np.float32)
    return np.asfortranarray(features, dtype=np.float32)


def _deal(n_classes: int, size: int, number: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Different sets of classes; those in fewest sets come first, and chance decides among equals."""
    used = np.zeros(n_classes, dtype=np.int64)
    chosen: set[tuple[int, ...]] = set()
    hands: list[NDArray[np.int64]] = []
    while len(hands) < number:
        hand = np.sort(np.lexsort((rng.random(n_classes), used))[:size])
        if tuple(hand) in chosen:
            hand = np.sort(rng.choice(n_classes, size, replace=False))
        if tuple(hand) not in chosen:
            chosen.add(tuple(hand))
            hands.append(hand)
            used[hand] += 1
    return hands
