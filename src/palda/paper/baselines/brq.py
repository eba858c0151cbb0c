"""BRq: an ensemble of quick binary relevance models (Read, Pfahringer, Holmes and Frank, 2011)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.data import validation
from palda.engine import Threads, resolve_n_jobs
from palda.paper.baselines.linear import LinearFeatures, choose_strengths, fit_linear
from palda.paper.baselines.rival import Rival

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.paper.baselines.linear import Linear
    from palda.paper.baselines.rival import Array, Labels

__all__ = ["BRq"]


class _Member(NamedTuple):
    columns: NDArray[np.int64]
    model: Linear


class BRq(Rival):
    """Binary relevance, several times: the mean of models that each see a part of the data.

    A member draws a share of the documents, and of the features if asked to, without replacement. It fits a logistic
    regression a class to them (tf-idf of counts, or standardised values); probabilities are averaged. MEKA's BRq, for
    all that it is called "random subspace", draws documents only (75% of them), which is the default here too; its
    ensemble of binary relevance, EBR, can draw both.

    Parameters
    ----------
    n_members
        Models in the ensemble.
    doc_share, feature_share
        Share of documents and of features that a member sees.
    n_jobs
        Threads; all cores by default. The result is the same.
    random_state
        Seed of the draws, and of the folds on which penalties are chosen.
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
        read = self._features.apply(features)
        subspace = _draw(read.shape[1], self.feature_share, "feature_share", rng)  # penalties must suit its size
        self.strengths_ = choose_strengths(read[:, subspace], labels, int(rng.integers(2**31)), engine)
        self._members = []
        for _ in range(self.n_members):
            rows = _draw(read.shape[0], self.doc_share, "doc_share", rng)
            columns = _draw(read.shape[1], self.feature_share, "feature_share", rng)
            model = fit_linear(read[rows][:, columns], labels[rows], self.strengths_, engine)
            self._members.append(_Member(columns, model))

    def _probs(self, features: Any) -> Array:
        read = self._features.apply(features)
        each = [model.probs(read[:, columns]) for columns, model in self._members]
        mean: Array = np.mean(each, axis=0)
        return mean


def _draw(size: int, share: float, name: str, rng: np.random.Generator) -> NDArray[np.int64]:
    """Positions of a random share, one at least, in their order."""
    validation.require_number(share, 0, 1, name)
    return np.sort(rng.choice(size, max(1, round(share * size)), replace=False))
