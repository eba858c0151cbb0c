"""Topic models sampled by tomotopy: supervised LDA and labelled LDA.

One worker samples, because with several workers the result would not be reproducible.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse
from scipy.special import expit

from palda.data import validation
from palda.errors import DataError, MissingDependencyError
from palda.models.classifier import assign_folds, fit_platt
from palda.paper.baselines.base import N_FOLDS, BaselineClassifier

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from palda.data import Array
    from palda.paper.baselines.base import Labels

_MIN_SHARE = 1e-4  # topic share of a class that got no words


def as_words(features: Any) -> list[list[str]]:
    """Every document as a list of words (column numbers as text), each repeated as often as it occurs."""
    counts = sparse.csr_array(features)
    repeats = counts.data.astype(np.int64)
    if (repeats != counts.data).any() or (repeats < 0).any():
        raise DataError("topic models read word counts, which are whole numbers; turn values into words first")
    names = np.arange(counts.shape[1]).astype(str)
    words = np.repeat(counts.indices, repeats)
    bounds = np.concatenate([[0], np.cumsum(repeats)])[counts.indptr]
    return [names[words[start:stop]].tolist() for start, stop in pairwise(bounds)]


def _import_tomotopy(feature: str) -> ModuleType:
    try:
        import tomotopy
    except ImportError:
        raise MissingDependencyError(feature, "baselines") from None
    module: ModuleType = tomotopy
    return module


def _infer(model: Any, words: Sequence[list[str]], n_sweeps: int) -> tuple[NDArray[np.intp], list[Any]]:
    """Rows of the documents that have words known to the model, and those documents with sampled topics."""
    vocabulary = frozenset(model.used_vocabs)
    rows = [row for row, text in enumerate(words) if not vocabulary.isdisjoint(text)]
    documents = [model.make_doc(words[row]) for row in rows]
    if documents:
        model.infer(documents, iterations=n_sweeps, workers=1)
    return np.array(rows, dtype=np.intp), documents


class SupervisedLDA(BaselineClassifier):
    """Supervised LDA: a logistic response on a document's topic shares for every class (Blei and McAuliffe, 2007).

    Documents without words get base rates.

    Parameters
    ----------
    n_topics : int
        Number of topics of each model.
    responses : "together" or "one_vs_all"
        ``"together"``: one model whose topics serve all classes. ``"one_vs_all"``: one model per class, since the
        original has a single response.
    n_sweeps : int
        Gibbs sweeps over the training documents.
    n_infer_sweeps : int
        Gibbs sweeps over each new document.
    random_state : int, RandomState or None
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
        tomotopy = _import_tomotopy("supervised LDA")
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
        binary = "b" * targets.shape[1]
        model = tomotopy.SLDAModel(k=self.n_topics, vars=binary, seed=seed)
        for text, response in zip(words, targets.tolist(), strict=True):
            if text:
                model.add_doc(text, y=response)
        model.train(self.n_sweeps, workers=1)
        return model

    def _probs(self, features: Any) -> Array:
        words = as_words(features)
        probs = np.tile(self.base_rates_[self.learned_], (len(words), 1))
        for columns, model in zip(self._columns, self._models, strict=True):
            rows, documents = _infer(model, words, self.n_infer_sweeps)
            if documents:
                probs[np.ix_(rows, columns)] = np.clip(model.estimate(documents), 0.0, 1.0)
        return probs


class LabelledLDA(BaselineClassifier):
    """Labelled LDA: one topic per class plus background topics (Ramage et al., 2009).

    In training, words come from the topics of the document's classes and from the background, which also explains
    documents without any class. In a new document every class may claim words; the log-odds of its share become a
    probability by Platt's calibration on held-out documents (3 folds).

    Parameters
    ----------
    n_background : int
        Number of topics that every document may use.
    n_sweeps : int
        Gibbs sweeps over the training documents.
    n_infer_sweeps : int
        Gibbs sweeps over each new document.
    random_state : int, RandomState or None
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
        tomotopy = _import_tomotopy("labelled LDA")
        for name in ("n_background", "n_sweeps", "n_infer_sweeps"):
            validation.require_count(getattr(self, name), name)
        words, targets = as_words(features), labels.astype(np.float64)
        folds = assign_folds(targets, min(N_FOLDS, len(targets)), int(rng.integers(2**31)))
        scores = np.empty_like(targets)
        for fold in np.unique(folds):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            model = self._train(tomotopy, [words[row] for row in train], labels[train], int(rng.integers(2**31)))
            scores[test] = self._scores(model, [words[row] for row in test])
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
        """Log-odds of each class's topic share in each document; the minimum where there are no words."""
        shares = np.full((len(words), len(self.learned_)), _MIN_SHARE)
        rows, documents = _infer(model, words, self.n_infer_sweeps)
        if documents:
            classes = np.array([int(name) for name in model.topic_label_dict], dtype=np.intp)
            sampled = np.array([document.get_topic_dist() for document in documents])[:, : len(classes)]
            shares[np.ix_(rows, classes)] = np.clip(sampled, _MIN_SHARE, 1.0 - _MIN_SHARE)
        log_odds: Array = np.log(shares) - np.log1p(-shares)
        return log_odds

    def _probs(self, features: Any) -> Array:
        probs: Array = expit(self._platt.apply(self._scores(self._model, as_words(features))))
        return probs
