"""A random forest whose trees split for all classes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda.engine import resolve_n_jobs
from palda.paper.baselines.rival import Rival

if TYPE_CHECKING:
    from palda.paper.baselines.rival import Array, Labels

__all__ = ["Forest"]


class Forest(Rival):
    """scikit-learn's multi-output random forest on counts or values as they are.

    Parameters
    ----------
    n_trees
        Number of trees.
    n_jobs
        Threads; all cores by default. The result is the same.
    random_state
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
