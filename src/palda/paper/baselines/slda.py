"""Supervised LDA with binary responses (Blei and McAuliffe, 2007), sampled by tomotopy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from palda.data import validation
from palda.paper.baselines.gibbs import as_words, inferred, tomotopy_for
from palda.paper.baselines.rival import Rival

if TYPE_CHECKING:
    from types import ModuleType

    from palda.paper.baselines.rival import Array, Labels

__all__ = ["SupervisedLDA"]

_BINARY = "b"


class SupervisedLDA(Rival):
    """Topics that predict labels: a logistic response on a document's shares of topics for every class.

    Documents without words get base rates. One worker samples, since with more the result would depend on chance.

    Parameters
    ----------
    n_topics
        Topics of each model.
    responses
        ``"together"``: one model whose topics serve all classes. ``"one_vs_all"``: a model for each class, as the
        original takes one response only.
    n_sweeps
        Gibbs sweeps over the training documents.
    n_infer_sweeps
        Gibbs sweeps over each new document.
    random_state
        Seed of the sampler.
    """

    def __init__(
        self,
        n_topics: int = 20,
        responses: Literal["together", "one_vs_all"] = "together",
        *,
        n_sweeps: int = 200,
        n_infer_sweeps: int = 100,
        random_state: Any = None,
    ) -> None:
        self.n_topics = n_topics
        self.responses = responses
        self.n_sweeps = n_sweeps
        self.n_infer_sweeps = n_infer_sweeps
        self.random_state = random_state

    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        tomotopy = tomotopy_for("supervised LDA")
        validation.require_choice(self.responses, ("together", "one_vs_all"), "responses")
        for name in ("n_topics", "n_sweeps", "n_infer_sweeps"):
            validation.require_count(getattr(self, name), name)
        words, targets = as_words(features), labels.astype(np.float64)
        n_models = 1 if self.responses == "together" else targets.shape[1]
        self._columns = np.array_split(np.arange(targets.shape[1]), n_models)
        seeds = rng.integers(2**31, size=n_models).tolist()
        self._models = [
            self._train(tomotopy, words, targets[:, columns], seed)
            for columns, seed in zip(self._columns, seeds, strict=True)
        ]

    def _train(self, tomotopy: ModuleType, words: list[list[str]], targets: Array, seed: int) -> Any:
        model = tomotopy.SLDAModel(k=self.n_topics, vars=_BINARY * targets.shape[1], seed=seed)
        for text, response in zip(words, targets.tolist(), strict=True):
            if text:
                model.add_doc(text, y=response)
        model.train(self.n_sweeps, workers=1)
        return model

    def _probs(self, features: Any) -> Array:
        words = as_words(features)
        probs = np.tile(self.base_rates_[self.learned_], (len(words), 1))
        for columns, model in zip(self._columns, self._models, strict=True):
            rows, documents = inferred(model, words, self.n_infer_sweeps)
            if documents:
                probs[np.ix_(rows, columns)] = np.clip(model.estimate(documents), 0.0, 1.0)
        return probs
