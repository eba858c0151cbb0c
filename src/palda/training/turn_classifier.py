"""The classifier of alternating training: fitted to the labels of every turn, with features that are computed once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from palda.models.classifier import (
    ClassifierSettings,
    CrossFit,
    ExternalFit,
    Features,
    LbfgsLimits,
    check_column_names,
    cross_fit_classifier,
    external_input,
    fit_external,
    fit_final_classifier,
    learn_features,
    takes_named_columns,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from palda.data import Array, Strings
    from palda.engine import Stage
    from palda.models.classifier import ExternalClassifier, LogisticClassifier
    from palda.models.topics import TrainingData
    from palda.training.alternating import TrainingPlan

    Indices = NDArray[np.int64]

_EARLY_TOLERANCE = 3e-4  # of fits to labels that are not stable yet


@dataclass(frozen=True, eq=False)
class TurnClassifier:
    """Fits classifiers to the soft labels of a turn (maths, eqs. 48 and 49)."""

    data: TrainingData
    plan: TrainingPlan
    weights: Array  # (docs, classes): 0 where a label is unknown
    folds: Indices

    def cross_fit(
        self, label_probs: Array, evidence: Array | None, start: CrossFit | ExternalFit | None, *, stable: bool
    ) -> CrossFit | ExternalFit:
        """Models of the folds; from ``start`` its penalties are kept. ``evidence`` (docs, classes) is of topics.

        Until labels are stable, the built-in classifier has no Fourier or kernel features and is fitted less closely.
        """
        stage = self._stage("head", label_probs, evidence)
        if not isinstance(self.plan.label_prior, str):
            return fit_external(
                self.plan.label_prior,
                self._external_input,
                label_probs,
                weights=self._known_weights,
                folds=self.folds,
                seed=self.plan.seed,
                engine=self.plan.crowd.engine,
                stage=stage,
            )
        features = self._features_with(kernels=stable)
        limits = LbfgsLimits() if stable else LbfgsLimits(tolerance=_EARLY_TOLERANCE)
        return cross_fit_classifier(
            features.with_dense(evidence),
            label_probs,
            weights=self._known_weights,
            folds=self.folds,
            settings=replace(self._settings, limits=limits),
            start=start if isinstance(start, CrossFit) else None,
            stage=stage,
        )

    def final(
        self, fit: CrossFit | ExternalFit, label_probs: Array, evidence: Array | None, *, kernels: bool
    ) -> LogisticClassifier | ExternalClassifier:
        """The classifier for new documents, fitted to all documents with the penalties of ``fit``.

        ``kernels`` is whether ``fit`` has Fourier and kernel features; that of an interrupted training may have none.
        """
        if isinstance(fit, ExternalFit):
            return fit.classifier
        return fit_final_classifier(
            self._features_with(kernels=kernels).with_dense(evidence),
            label_probs,
            fit,
            weights=self._known_weights,
            settings=self._settings,
            stage=self._stage("final_head", label_probs, evidence),
        )

    @property
    def word_names(self) -> Strings | None:
        """Names of the words, if an external classifier selects columns by name."""
        if isinstance(self.plan.label_prior, str) or not takes_named_columns(self.plan.label_prior):
            return None
        return self.plan.word_names

    @cached_property
    def _external_input(self) -> Any:
        check_column_names(self.data.features, self.word_names)
        counts = self.data.counts[slice(None)]  # a plugged-in classifier needs a matrix in memory
        return external_input(counts, self.data.features, self.word_names)

    def _features_with(self, *, kernels: bool) -> Features:
        return self._features if kernels else self._features.without_kernels()

    @cached_property
    def _features(self) -> Features:
        """Features besides topic evidence."""
        dtype, columns = self._settings.limits.dtype, self.data.features
        has_words = self.plan.label_prior != "topics" and self.data.counts.shape[1] > 0
        if not has_words and columns is None:
            return Features(None, None, None, None, dtype=dtype)
        counts = self.data.counts if has_words else None
        return learn_features(counts, seed=self.plan.seed, dtype=dtype, columns=columns)

    @cached_property
    def _known_weights(self) -> Array | None:
        return None if self.weights.all() else self.weights

    @property
    def _settings(self) -> ClassifierSettings:
        return ClassifierSettings(seed=self.plan.seed, engine=self.plan.topics.settings.engine)

    def _stage(self, kind: str, label_probs: Array, evidence: Array | None) -> Stage:
        return self.plan.topics.settings.stages.stage(kind, label_probs, evidence)
