"""The training documents of the classifier in blocks, and fits of many problems to them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from palda.engine import Threads
from palda.errors import DataError
from palda.models.classifier.calibration import (
    MIN_TO_LEARN,
    base_log_odds,
    fit_platt,
    minority_counts,
)
from palda.models.classifier.features import cut_blocks
from palda.models.classifier.folds import NO_FOLD, Problems
from palda.models.classifier.lbfgs import LbfgsLimits, StepHistory
from palda.models.classifier.logistic_loss import fit_columns, scores_without_fold

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.engine import Engine
    from palda.models.classifier.calibration import Platt
    from palda.models.classifier.features import Features
    from palda.models.classifier.logistic_loss import Blocks

    Indices: TypeAlias = NDArray[np.int64]

_MAX_COEF_WITH_HISTORY = 1 << 21  # each takes 80 bytes


@dataclass(frozen=True)
class ClassifierSettings:
    """How a classifier is fitted. Penalties are tried from the strongest to the weakest."""

    n_folds: int = 5
    seed: int = 0
    word_penalties: tuple[float, ...] = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
    dense_penalties: tuple[float, ...] = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
    fourier_penalties: tuple[float, ...] = (3000.0, 1000.0, 300.0, 100.0, 30.0)
    column_penalties: tuple[float, ...] = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
    kernel_penalties: tuple[float, ...] = (3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0)
    limits: LbfgsLimits = field(default_factory=LbfgsLimits)
    engine: Engine = field(default_factory=Threads)

    @property
    def penalty_grids(self) -> tuple[tuple[float, ...], ...]:
        """Penalties of each kind of feature, in the order of ``Features.sizes``."""
        return (
            self.word_penalties,
            self.dense_penalties,
            self.fourier_penalties,
            self.column_penalties,
            self.kernel_penalties,
        )

    @property
    def search_limits(self) -> LbfgsLimits:
        """Limits of fits whose penalties are compared.

        With 10 times the tolerance of other fits, out-of-fold log-likelihoods of the true training labels were .0002
        (Reuters) to .0007 nats (yeast) lower; with 3 times as high as with 1.
        """
        return replace(self.limits, tolerance=3.0 * self.limits.tolerance)


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """The training documents, cut into blocks."""

    blocks: Blocks
    order: Indices
    targets: Array
    weights: Array | None  # None if all are 1
    folds: Indices
    sizes: tuple[int, ...]  # numbers of features of each kind, as in ``Features.sizes``
    settings: ClassifierSettings

    @classmethod
    def build(
        cls, features: Features, targets: Array, weights: Array | None, folds: Indices, settings: ClassifierSettings
    ) -> TrainingSet:
        """Cut the documents into blocks, and place them on the engine."""
        for table in (features.words, features.dense, None if features.columns is None else features.columns.values):
            if table is not None and table.shape[0] != len(targets):
                raise DataError(f"features have {table.shape[0]} documents, but targets have {len(targets)}")
        if len(folds) != len(targets):
            raise DataError(f"folds have {len(folds)} documents, but targets have {len(targets)}")
        if len(np.unique(folds)) < 2 or folds.min() < 0:
            raise DataError("folds must be numbered from 0, and there must be at least 2")
        blocks, order = cut_blocks(features, targets, weights, folds)
        return cls(
            settings.engine.place(cast("Blocks", blocks)),
            order,
            targets,
            weights,
            folds,
            sizes=features.sizes,
            settings=settings,
        )

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return int(self.folds.max()) + 1

    @property
    def learned(self) -> Indices:
        """Classes with enough positives and negatives to be learned."""
        return np.flatnonzero(minority_counts(self.targets, self.weights) >= MIN_TO_LEARN)

    @property
    def base_rates(self) -> Array:
        """(classes,): share of documents with the class."""
        rates: Array = 1.0 / (1.0 + np.exp(-base_log_odds(self.targets, self.weights)))
        return rates

    def base_rate_models(self) -> Array:
        """Coefficients (features + 1, folds, classes) of models that predict the base rates outside each fold."""
        coef = np.zeros((sum(self.sizes) + 1, self.n_folds, self.targets.shape[1]))
        for fold in range(self.n_folds):
            others = self.order[self.folds[self.order] != fold]
            weights = None if self.weights is None else self.weights[others]
            coef[-1, fold] = base_log_odds(self.targets[others], weights)
        return coef

    def fit_folds(
        self, coef: Array, penalties: Array, classes: Indices, limits: LbfgsLimits, history: StepHistory | None = None
    ) -> Array:
        """Coefficients (features + 1, folds, classes) of some classes, each fitted without its fold.

        ``history`` is from ``new_history``.
        """
        folds = np.repeat(np.arange(self.n_folds), len(classes))
        problems = Problems(np.tile(classes, self.n_folds), folds)
        places = folds * self.targets.shape[1] + problems.classes
        flat = coef.reshape(len(coef), -1)
        return self._fit(problems, np.tile(penalties, self.n_folds), flat, limits, history, places).reshape(coef.shape)

    def new_history(self) -> StepHistory | None:
        """An empty history of models of all folds and classes; None if it would take too much memory."""
        n_problems, n_coef = self.n_folds * self.targets.shape[1], sum(self.sizes) + 1
        too_large = n_problems * n_coef > _MAX_COEF_WITH_HISTORY
        return None if too_large else StepHistory(n_problems, n_coef, self.settings.limits.dtype)

    def fit_all(self, coef: Array, penalties: Array) -> Array:
        """Coefficients (features + 1, classes) fitted to all documents."""
        fitted, classes = coef.copy(), self.learned
        problems = Problems(classes, np.full(len(classes), NO_FOLD))
        fitted[:, classes] = self._fit(problems, penalties[:, classes], coef[:, classes], self.settings.limits)
        return fitted

    def _fit(
        self,
        problems: Problems,
        penalties: Array,
        start: Array,
        limits: LbfgsLimits,
        history: StepHistory | None = None,
        places: Indices | None = None,
    ) -> Array:
        ridge = np.repeat(np.vstack([penalties, np.zeros(penalties.shape[1])]), (*self.sizes, 1), axis=0)
        engine = self.settings.engine
        return fit_columns(self.blocks, problems, ridge, start, engine, limits, history=history, places=places)

    def out_of_fold(self, coef: Array) -> Array:
        """Scores (documents, classes), each by the model without the document's fold."""
        scores, first = np.empty((len(self.targets), coef.shape[2])), 0
        for part in self.settings.engine.each(scores_without_fold, self.blocks, coef):
            scores[self.order[first : first + len(part)]] = part
            first += len(part)
        return scores

    def out_of_fold_likelihoods(self, coef: Array, classes: Indices, start: Platt | None) -> tuple[Array, Platt]:
        """Log-likelihoods (classes,) of recalibrated out-of-fold scores of some classes, and the recalibration."""
        scores, targets, weights = self.out_of_fold(coef), self.targets, self.weights
        if len(classes) < targets.shape[1]:
            targets = targets.take(classes, axis=1)
            weights = None if weights is None else weights.take(classes, axis=1)
        platt = fit_platt(scores, targets, weights, start)
        return platt.log_likelihoods(scores, targets, weights), platt
