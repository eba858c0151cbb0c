"""Labelled LDA: a topic for every class (Ramage and others, 2009), sampled by tomotopy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from palda.data import validation
from palda.models.classifier import assign_folds, fit_platt
from palda.paper.baselines.gibbs import as_words, inferred, tomotopy_for
from palda.paper.baselines.rival import Rival

if TYPE_CHECKING:
    from types import ModuleType

    from palda.paper.baselines.rival import Array, Labels

__all__ = ["LabelledLDA"]

_N_FOLDS = 3
_LEAST_SHARE = 1e-4  # what a class that no word was given to is taken to have


class LabelledLDA(Rival):
    """Words of a document come from the topics of its classes, one topic a class, and from background topics.

    The background keeps documents without any class in training. In a new document every class may claim words; the
    share of each class, as log-odds, becomes a probability by Platt's recalibration on documents held back
    (3 folds).

    Parameters
    ----------
    n_background
        Topics that every document may use.
    n_sweeps
        Gibbs sweeps over the training documents.
    n_infer_sweeps
        Gibbs sweeps over each new document.
    random_state
        Seed of the sampler and the folds.
    """

    def __init__(
        self, n_background: int = 1, *, n_sweeps: int = 200, n_infer_sweeps: int = 100, random_state: Any = None
    ) -> None:
        self.n_background = n_background
        self.n_sweeps = n_sweeps
        self.n_infer_sweeps = n_infer_sweeps
        self.random_state = random_state

    def _fit(self, features: Any, labels: Labels, rng: np.random.Generator) -> None:
        tomotopy = tomotopy_for("labelled LDA")
        for name in ("n_background", "n_sweeps", "n_infer_sweeps"):
            validation.require_count(getattr(self, name), name)
        words, targets = as_words(features), labels.astype(np.float64)
        folds = assign_folds(targets, min(_N_FOLDS, len(targets)), int(rng.integers(2**31)))
        scores = np.empty_like(targets)
        for fold in np.unique(folds):
            seen, held_back = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            model = self._train(tomotopy, [words[row] for row in seen], labels[seen], int(rng.integers(2**31)))
            scores[held_back] = self._scores(model, [words[row] for row in held_back])
        self._platt = fit_platt(scores, targets, np.ones_like(targets))
        self._model = self._train(tomotopy, words, labels, int(rng.integers(2**31)))

    def _train(self, tomotopy: ModuleType, words: list[list[str]], labels: Labels, seed: int) -> Any:
        model = tomotopy.PLDAModel(latent_topics=self.n_background, topics_per_label=1, seed=seed)
        for text, row in zip(words, labels, strict=True):
            if text:
                model.add_doc(text, labels=[str(i) for i in np.flatnonzero(row)])
        model.train(self.n_sweeps, workers=1)
        return model

    def _scores(self, model: Any, words: list[list[str]]) -> Array:
        """Log-odds of the shares that classes have in documents; the least for a class or document without words."""
        shares = np.full((len(words), len(self.learned_)), _LEAST_SHARE)
        rows, documents = inferred(model, words, self.n_infer_sweeps)
        if documents:
            classes = np.array([int(name) for name in model.topic_label_dict], dtype=np.intp)
            found = np.array([document.get_topic_dist() for document in documents])[:, : len(classes)]
            shares[np.ix_(rows, classes)] = np.clip(found, _LEAST_SHARE, 1.0 - _LEAST_SHARE)
        log_odds: Array = np.log(shares) - np.log1p(-shares)
        return log_odds

    def _probs(self, features: Any) -> Array:
        probs: Array = expit(self._platt.apply(self._scores(self._model, as_words(features))))
        return probs
