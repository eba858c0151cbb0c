"""What most people really do: TF-IDF and one logistic regression a class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palda.engine import Threads, resolve_n_jobs
from palda.paper.baselines.linear import LinearFeatures, choose_strengths, fit_linear
from palda.paper.baselines.rival import Rival

if TYPE_CHECKING:
    import numpy as np

    from palda.paper.baselines.rival import Array, Labels

__all__ = ["OneVsRest"]


class OneVsRest(Rival):
    """One L2-penalised logistic regression a class, each with the penalty that labels held back ask for.

    Counts are read as tf-idf, values standardised.

    Parameters
    ----------
    n_jobs
        Threads; all cores by default. The result is the same.
    random_state
        Seed of the folds on which penalties are chosen.
    """

    def __init__(self, *, n_jobs: int | None = None, random_state: Any = None) -> None:
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        engine = Threads(resolve_n_jobs(self.n_jobs))
        self._features = LinearFeatures.learn(features)
        read = self._features.apply(features)
        self.strengths_ = choose_strengths(read, labels, int(rng.integers(2**31)), engine)
        self._model = fit_linear(read, labels, self.strengths_, engine)

    def _probs(self, features: Any) -> Array:
        return self._model.probs(self._features.apply(features))
