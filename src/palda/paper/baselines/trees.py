"""Baselines made of decision trees: RAkEL, and a multi-output random forest."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from palda.data import validation
from palda.engine import Threads, resolve_n_jobs
from palda.paper.baselines.base import HALF, BaselineClassifier, are_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.paper.baselines.base import Labels

_MAX_LABELSETS = 100
_ROOT_DOCS = 2.0  # pseudo-documents with the root's class shares, added to every leaf


class Forest(BaselineClassifier):
    """scikit-learn's random forest with one output per class, on word counts or values as they are.

    Parameters
    ----------
    n_trees : int
        Number of trees.
    n_jobs : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the trees.
    """

    def __init__(self, n_trees: int = 200, *, n_jobs: int | None = None, random_state: Any = None) -> None:
        self.n_trees = n_trees
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        from sklearn.ensemble import RandomForestClassifier

        seed, n_jobs = int(rng.integers(2**31)), resolve_n_jobs(self.n_jobs)
        self._forest = RandomForestClassifier(self.n_trees, n_jobs=n_jobs, random_state=seed)
        self._forest.fit(features, labels if labels.shape[1] > 1 else labels[:, 0])

    def _probs(self, features: Any) -> Array:
        tables = self._forest.predict_proba(features)
        return np.column_stack([table[:, 1] for table in (tables if isinstance(tables, list) else [tables])])


@dataclass(frozen=True, eq=False)
class _LabelsetTree:
    """A tree that predicts the combination of a few classes.

    ``node_probs`` (2, nodes, classes) holds the share of each class in every node: as it is, and shrunk towards the
    share at the root.
    """

    classes: NDArray[np.int64]
    tree: Any
    node_probs: Array

    def probs(self, features: Any) -> Array:
        """Both kinds of shares, shape (2, documents, classes of this tree)."""
        return self.node_probs[:, self.tree.apply(features)]


class Rakel(BaselineClassifier):
    """RAkEL, random k-labelsets that may overlap (Tsoumakas, Katakis and Vlahavas, 2011).

    Classes are drawn into sets so that each is in about equally many. One decision tree per set predicts which
    combination of its classes a document has. The probability of a class is the mean over its trees of the share of
    training documents with the class in the document's leaf, shrunk a little towards the base rate, because leaves are
    small. Shrinkage never changes a prediction: where the unshrunk mean is at least ½, the probability is too.

    Parameters
    ----------
    labelset_size : int
        Number of classes per set, k.
    n_labelsets : int or "auto"
        Number of sets; ``"auto"`` is twice the number of classes but at most 100, as in MULAN.
    min_samples_leaf : int
        Minimum number of training documents per leaf; 2 as in C4.5.
    n_jobs : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    random_state : int, RandomState or None
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
        number = min(2 * n_classes, _MAX_LABELSETS) if self.n_labelsets == "auto" else self.n_labelsets
        validation.require_count(number, "n_labelsets")
        labelsets = draw_labelsets(n_classes, size, min(number, comb(n_classes, size)), rng)
        seeds = rng.integers(2**31, size=len(labelsets)).tolist()
        table = _tree_input(features)
        tasks = list(zip(labelsets, seeds, strict=True))
        engine = Threads(resolve_n_jobs(self.n_jobs))
        self._trees = list(engine.map(lambda task: self._fit_tree(table, labels, *task), tasks))

    def _fit_tree(self, features: Any, labels: Labels, classes: NDArray[np.int64], seed: int) -> _LabelsetTree:
        from sklearn.tree import DecisionTreeClassifier

        combinations, codes = np.unique(labels[:, classes], axis=0, return_inverse=True)
        tree = DecisionTreeClassifier(
            criterion="entropy", min_samples_leaf=self.min_samples_leaf, random_state=seed
        ).fit(features, codes.ravel())
        return _LabelsetTree(classes, tree, _node_probs(tree.tree_, combinations))

    def _probs(self, features: Any) -> Array:
        sums = np.zeros((2, features.shape[0], len(self.learned_)))
        n_trees = np.zeros(len(self.learned_))
        table = features.astype(np.float32)
        for tree in self._trees:
            sums[..., tree.classes] += tree.probs(table)
            n_trees[tree.classes] += 1
        known = n_trees > 0
        sums[..., known] /= n_trees[known]
        sums[..., ~known] = self.base_rates_[self.learned_][~known]
        shares, shrunk = sums
        probs: Array = np.where(shares >= HALF, np.maximum(shrunk, HALF), shrunk)
        return probs


def _node_probs(nodes: Any, combinations: Labels) -> Array:
    """Share of each class in every node, as it is and shrunk towards the root's, shape (2, nodes, classes)."""
    shares = nodes.value[:, 0] @ combinations
    n_docs = nodes.n_node_samples[:, np.newaxis]
    return np.stack([shares, (n_docs * shares + _ROOT_DOCS * shares[0]) / (n_docs + _ROOT_DOCS)])


def _tree_input(features: Any) -> Any:
    """Features in the layout and precision of scikit-learn's trees, converted once for all trees."""
    if are_counts(features):
        return features.tocsc().astype(np.float32)
    return np.asfortranarray(features, dtype=np.float32)


def draw_labelsets(n_classes: int, size: int, number: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Distinct random sets of classes; classes that are in the fewest sets so far are preferred."""
    n_uses = np.zeros(n_classes, dtype=np.int64)
    distinct: set[tuple[int, ...]] = set()
    labelsets: list[NDArray[np.int64]] = []
    while len(labelsets) < number:
        labelset = np.sort(np.lexsort((rng.random(n_classes), n_uses))[:size])
        if tuple(labelset) in distinct:
            labelset = np.sort(rng.choice(n_classes, size, replace=False))
        if tuple(labelset) not in distinct:
            distinct.add(tuple(labelset))
            labelsets.append(labelset)
            n_uses[labelset] += 1
    return labelsets
