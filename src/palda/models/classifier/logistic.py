"""The built-in classifier: logistic regression on soft labels of all classes at once, calibrated out of fold."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from palda.data import ArraySpec, Schema, prefixed
from palda.engine import RecordSchema, Stage, StageRecord, add_prefix, strip_prefix
from palda.errors import DataError
from palda.models.classifier.calibration import PLATT_ARRAYS, Platt, cross_calibrate
from palda.models.classifier.features import Scale, learn_features, tf_idf
from palda.models.classifier.folds import assign_folds, checked_targets
from palda.models.classifier.fourier import FOURIER_ARRAYS, FourierFeatures
from palda.models.classifier.penalty_search import SEARCH_ARRAYS, PenaltySearch
from palda.models.classifier.training_set import ClassifierSettings, TrainingSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.data import Array
    from palda.models.classifier.features import Features

    Indices: TypeAlias = NDArray[np.int64]

_FILE_ARRAYS = (
    "coef", "intercept", "slope", "offset", "limit", "base_rates", "penalties", "idf", "dense_mean", "dense_spread",
)  # fmt: skip
"""Fields that are arrays of a model file, under these names."""

CLASSIFIER_ARRAYS: Schema = {
    "idf": ArraySpec(("words",), low=0.0, also="word features", group="words"),
    "dense_mean": ArraySpec(("dense columns",), also="dense features", group="dense"),
    "dense_spread": ArraySpec(("dense columns",), above=0.0, group="dense"),
    **FOURIER_ARRAYS,
    **PLATT_ARRAYS,
    "coef": ArraySpec((("word features", "dense features", "fourier features"), "classes")),
    "intercept": ArraySpec(("classes",)),
    "base_rates": ArraySpec(("classes",), low=0.0, high=1.0),
    "penalties": ArraySpec((3, "classes"), low=0.0),
}
"""Schema of a classifier in a file."""

_CROSS_FIT_ARRAYS: Schema = {
    "log_odds": ArraySpec(("documents", "classes")),
    "folds": ArraySpec(("documents",), "integer", low=0, below="folds"),
    "fold_coef": ArraySpec(("coefficients", "folds", "classes")),
    "penalties": ArraySpec((3, "classes"), low=0.0),
    "base_rates": ArraySpec(("classes",), low=0.0, high=1.0),
    **prefixed("platt", PLATT_ARRAYS),
}
"""Schema of a ``CrossFit`` in a checkpoint."""


@dataclass(frozen=True, eq=False)
class LogisticClassifier:
    """Calibrated log-odds of all classes from a document's words, dense columns, or both.

    ``coef`` (features, classes) are of words, then dense columns, then Fourier features. ``idf``, ``dense_mean``,
    ``dense_spread`` and ``fourier`` turn a document into these features. ``slope``, ``offset`` and ``limit`` are the
    recalibration. ``penalties`` (3, classes) are those that were chosen, with one row per kind of feature. A class with
    too few labels has zeros for ``coef`` and ``slope``, and its base rate as ``offset``.
    """

    coef: Array
    intercept: Array
    slope: Array
    offset: Array
    limit: float
    base_rates: Array
    penalties: Array
    idf: Array | None = None
    dense_mean: Array | None = None
    dense_spread: Array | None = None
    fourier: FourierFeatures | None = None

    @property
    def n_words(self) -> int:
        """Number of words in the vocabulary; 0 if words are not used."""
        return 0 if self.idf is None else len(self.idf)

    @property
    def n_dense(self) -> int:
        """Number of dense columns."""
        return 0 if self.dense_mean is None else len(self.dense_mean)

    def log_odds(self, counts: Any = None, dense: Any = None) -> Array:
        """Log-odds (documents, classes) of documents that the classifier was not trained on."""
        scores, n_linear = self.intercept, self.n_words + self.n_dense
        if self.idf is not None:
            words = tf_idf(_required(counts, "word counts"), self.idf)
            scores = scores + words @ self.coef[: self.n_words]
            if self.fourier is not None:
                scores = scores + self.fourier.apply(words) @ self.coef[n_linear:]
        if self.dense_mean is not None and self.dense_spread is not None:
            columns = np.asarray(_required(dense, "dense features"), dtype=np.float64)
            columns = Scale(self.dense_mean, self.dense_spread).apply(columns)
            scores = scores + columns @ self.coef[self.n_words : n_linear]
        return Platt(self.slope, self.offset, self.limit).apply(scores)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All fields as arrays of a file."""
        values = ((name, getattr(self, name)) for name in _FILE_ARRAYS)
        own = {name: np.asarray(value) for name, value in values if value is not None}
        return own if self.fourier is None else own | self.fourier.arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The classifier whose ``arrays`` these are."""
        fourier, own = FourierFeatures.split_from(arrays)
        known: dict[str, Any] = {name: own[name] for name in _FILE_ARRAYS if name in own}
        return cls(**known | {"limit": float(own["limit"])}, fourier=fourier)


def _required(features: Any, name: str) -> Any:
    if features is None:
        raise DataError(f"the label prior was trained on {name}; pass them for new documents too")
    return features


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Models of the folds, and the log-odds of the training documents by models that did not see their fold.

    ``fold_coef`` (features + 1, folds, classes) are the models; a later fit can start from them. ``penalties`` (3,
    classes) and ``base_rates`` (classes,) are those of ``LogisticClassifier``; ``platt`` is the recalibration.
    """

    log_odds: Array
    folds: Indices
    fold_coef: Array
    penalties: Array
    base_rates: Array
    platt: Platt

    def record(self) -> StageRecord:
        """The fit as a record of a checkpoint."""
        names = (spec.name for spec in fields(CrossFit) if spec.name != "platt")
        own = {name: getattr(self, name) for name in names}
        return StageRecord(own | add_prefix("platt", self.platt.arrays()), {})


@dataclass(frozen=True, eq=False)
class ClassifierFit(CrossFit):
    """The same with a classifier for new documents."""

    classifier: LogisticClassifier


def _sizes(features: Features, labels: Array, folds: Indices) -> dict[str, int]:
    """Sizes in the records of a fit with these inputs."""
    words, dense, fourier = features.words, features.dense, features.fourier
    sizes = {"documents": len(labels), "classes": labels.shape[1], "folds": int(folds.max()) + 1}
    parts = {"words": 0 if words is None else words.shape[1], "dense columns": 0 if dense is None else dense.shape[1]}
    n_fourier = 0 if fourier is None else len(fourier.offset)
    return sizes | parts | {"coefficients": sum(parts.values()) + n_fourier + 1}


def _restore(record: StageRecord) -> CrossFit | PenaltySearch:
    """The fit, or the unfinished search, that a record was made from."""
    if "path" in record.state:
        return PenaltySearch.from_record(record)
    own = {name: array for name, array in record.arrays.items() if not name.startswith("platt.")}
    return CrossFit(**own, platt=Platt.from_arrays(strip_prefix("platt", record.arrays)))


def fit_classifier(
    targets: Any,
    *,
    counts: Any = None,
    dense: Any = None,
    weights: Any = None,
    folds: Indices | None = None,
    settings: ClassifierSettings | None = None,
    start: CrossFit | None = None,
) -> ClassifierFit:
    """Fit a classifier for new documents, and out-of-fold log-odds of the training documents.

    ``counts`` is (documents, words). ``dense`` are more columns, such as log-odds of a topic model that did not see the
    document's fold. The other parameters are those of ``cross_fit_classifier``.
    """
    settings = settings or ClassifierSettings()
    features = learn_features(counts, dense, settings.seed, settings.limits.dtype)
    fit = cross_fit_classifier(features, targets, weights=weights, folds=folds, settings=settings, start=start)
    classifier = fit_final_classifier(features, targets, fit, weights=weights, settings=settings)
    return ClassifierFit(**{spec.name: getattr(fit, spec.name) for spec in fields(CrossFit)}, classifier=classifier)


def cross_fit_classifier(
    features: Features,
    targets: Any,
    *,
    weights: Any = None,
    folds: Indices | None = None,
    settings: ClassifierSettings | None = None,
    start: CrossFit | None = None,
    stage: Stage | None = None,
) -> CrossFit:
    """Fit models without each fold, and choose their penalties.

    Each class has the penalty with the largest out-of-fold likelihood after recalibration. On held-out documents that
    beat one penalty for all classes on scene, enron and bibtex, and was equal on yeast and reuters. A second stage on
    the out-of-fold scores of all classes gained at most .0006 nats per label there (scene, yeast, reuters) and lost up
    to .0014 (enron, bibtex), so there is none; classes inform each other through dense columns.

    Models of a fold are fitted without its documents, and so is the recalibration that is applied to it. The labels of
    a document still influence the choice of the penalties and, through models of the other folds, two numbers per
    class.

    ``targets`` are probabilities of presence and ``weights`` their weights, 0 for unknown ones, both (documents,
    classes). ``folds`` are from ``assign_folds`` by default. ``start`` is an earlier fit on the same documents and
    features: its folds and penalties are kept, and its coefficients are the start.
    """
    settings, stage = settings or ClassifierSettings(), stage or Stage()
    labels, known = checked_targets(targets, weights)
    if start is not None:
        folds = start.folds
    elif folds is None:
        folds = assign_folds(labels, min(settings.n_folds, len(labels)), settings.seed)
    expected = RecordSchema(_sizes(features, labels, folds), (_CROSS_FIT_ARRAYS, SEARCH_ARRAYS))
    stored = stage.recall(_restore, expected)
    if isinstance(stored, CrossFit):
        return stored
    data = TrainingSet.build(features, labels, known, folds, settings)
    if start is None:
        search = stored or PenaltySearch.start(data)
        search.run(data, stage)
        fold_coef, penalties = search.coef, search.penalties
    else:
        fold_coef, penalties = _checked_start(data, start), start.penalties
    classes = data.learned
    fold_coef[:, :, classes] = data.fit_folds(fold_coef[:, :, classes], penalties[:, classes], classes, settings.limits)
    platt, log_odds = cross_calibrate(data.out_of_fold(fold_coef), labels, data.weights, folds)
    fit = CrossFit(log_odds, folds, fold_coef, penalties, data.base_rates, platt)
    stage.keep(fit.record)
    return fit


def _checked_start(data: TrainingSet, start: CrossFit) -> Array:
    """A copy of the coefficients of an earlier fit."""
    shape = (sum(data.sizes) + 1, data.n_folds, data.targets.shape[1])
    if start.fold_coef.shape != shape:
        raise DataError(
            f"start was fitted with (features + 1, folds, classes) = {start.fold_coef.shape}, not {shape}; "
            "start from a fit with the same features and classes"
        )
    return start.fold_coef.copy()


def fit_final_classifier(
    features: Features,
    targets: Any,
    fit: CrossFit,
    *,
    weights: Any = None,
    settings: ClassifierSettings | None = None,
    stage: Stage | None = None,
) -> LogisticClassifier:
    """The classifier for new documents: fitted to all documents, with penalties and recalibration of ``fit``."""
    settings, stage = settings or ClassifierSettings(), stage or Stage()

    labels, known = checked_targets(targets, weights)

    def compute() -> LogisticClassifier:
        data = TrainingSet.build(features, labels, known, fit.folds, settings)
        coef = data.fit_all(fit.fold_coef.mean(axis=1), fit.penalties)
        return LogisticClassifier(
            coef=coef[:-1],
            intercept=coef[-1],
            slope=fit.platt.slope,
            offset=fit.platt.offset,
            limit=fit.platt.limit,
            base_rates=fit.base_rates,
            penalties=fit.penalties,
            idf=features.idf,
            dense_mean=None if features.scale is None else features.scale.mean,
            dense_spread=None if features.scale is None else features.scale.spread,
            fourier=features.fourier,
        )

    return stage.remember(
        compute,
        lambda classifier: StageRecord(classifier.arrays(), {}),
        lambda record: LogisticClassifier.from_arrays(record.arrays),
        RecordSchema(_sizes(features, labels, fit.folds), (CLASSIFIER_ARRAYS,)),
    )
