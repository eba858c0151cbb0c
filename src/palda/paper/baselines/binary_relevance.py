"""Binary relevance: logistic regressions that treat every class on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.data import validation
from palda.engine import Threads, resolve_n_jobs
from palda.paper.baselines.base import BaselineClassifier
from palda.paper.baselines.linear import LinearFeatures, choose_strengths, fit_linear

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.paper.baselines.base import Labels
    from palda.paper.baselines.linear import LinearModel


class OneVsRest(BaselineClassifier):
    """One logistic regression per class, with an L2 penalty chosen by cross-validation.

    Reads tf-idf of word counts, or standardised values.

    Parameters
    ----------
    n_jobs : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the folds used to choose penalties.
    """

    def __init__(self, *, n_jobs: int | None = None, random_state: Any = None) -> None:
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        engine = Threads(resolve_n_jobs(self.n_jobs))
        self._features = LinearFeatures.learn(features)
        table = self._features.apply(features)
        self.strengths_ = choose_strengths(table, labels, int(rng.integers(2**31)), engine)
        self._model = fit_linear(table, labels, self.strengths_, engine)

    def _probs(self, features: Any) -> Array:
        return self._model.probs(self._features.apply(features))


class _Member(NamedTuple):
    columns: NDArray[np.int64]
    model: LinearModel


class BRq(BaselineClassifier):
    """Ensemble of binary relevance models (Read, Pfahringer, Holmes and Frank, 2011).

    Each member draws a share of the documents, and optionally of the features, without replacement, and fits one
    logistic regression per class (tf-idf of word counts, or standardised values). Probabilities are averaged. MEKA's
    BRq is called "random subspace" but draws only documents (75% of them), which is the default here too; MEKA's EBR
    can draw both.

    Parameters
    ----------
    n_members : int
        Number of models in the ensemble.
    doc_share, feature_share : float
        Share of documents and of features that a member sees.
    n_jobs : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the samples and of the folds used to choose penalties.
    """

    def __init__(
        self,
        n_members: int = 10,
        *,
        doc_share: float = 0.75,
        feature_share: float = 1.0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_members = n_members
        self.doc_share = doc_share
        self.feature_share = feature_share
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        validation.require_count(self.n_members, "n_members")
        engine = Threads(resolve_n_jobs(self.n_jobs))
        self._features = LinearFeatures.learn(features)
        table = self._features.apply(features)
        subspace = _sample(table.shape[1], self.feature_share, "feature_share", rng)  # penalties must suit its size
        self.strengths_ = choose_strengths(table[:, subspace], labels, int(rng.integers(2**31)), engine)
        self._members = []
        for _ in range(self.n_members):
            rows = _sample(table.shape[0], self.doc_share, "doc_share", rng)
            columns = _sample(table.shape[1], self.feature_share, "feature_share", rng)
            model = fit_linear(table[rows][:, columns], labels[rows], self.strengths_, engine)
            self._members.append(_Member(columns, model))

    def _probs(self, features: Any) -> Array:
        table = self._features.apply(features)
        mean: Array = np.mean([model.probs(table[:, columns]) for columns, model in self._members], axis=0)
        return mean


def _sample(size: int, share: float, name: str, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sorted positions of a random share, at least one."""
    validation.require_number(share, 0, 1, name)
    return np.sort(rng.choice(size, max(1, round(share * size)), replace=False))
