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
from palda.models.classifier.kernel_features import KERNEL_ARRAYS, KernelFeatures
from palda.models.classifier.penalty_search import SEARCH_ARRAYS, PenaltySearch
from palda.models.classifier.training_set import ClassifierSettings, TrainingSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from palda.data import Array, EncodedFeatures
    from palda.models.classifier.features import Features

    Indices: TypeAlias = NDArray[np.int64]

_FILE_ARRAYS = (
    "coef", "intercept", "slope", "offset", "limit", "base_rates", "penalties", "idf", "dense_mean", "dense_spread",
)  # fmt: skip
"""Fields that are arrays of a model file, under these names."""

_COEFFICIENTS = ("word features", "dense features", "fourier features", "feature columns", "kernel features")
"""Kinds of features in the order of their coefficients."""

CLASSIFIER_ARRAYS: Schema = {
    "idf": ArraySpec(("words",), low=0.0, also="word features", group="words"),
    "dense_mean": ArraySpec(("dense columns",), also="dense features", group="dense"),
    "dense_spread": ArraySpec(("dense columns",), above=0.0, group="dense"),
    **FOURIER_ARRAYS,
    **PLATT_ARRAYS,
    **KERNEL_ARRAYS,
    "coef": ArraySpec((_COEFFICIENTS, "classes")),
    "intercept": ArraySpec(("classes",)),
    "base_rates": ArraySpec(("classes",), low=0.0, high=1.0),
    "penalties": ArraySpec((3, "classes"), low=0.0),
    "feature_penalties": ArraySpec((2, "classes"), low=0.0, group="columns"),
}
"""Schema of a classifier in a file."""

_CROSS_FIT_ARRAYS: Schema = {
    "log_odds": ArraySpec(("documents", "classes")),
    "folds": ArraySpec(("documents",), "integer", low=0, below="folds"),
    "fold_coef": ArraySpec(("coefficients", "folds", "classes")),
    "penalties": ArraySpec(("kinds of features", "classes"), low=0.0),
    "base_rates": ArraySpec(("classes",), low=0.0, high=1.0),
    **prefixed("platt", PLATT_ARRAYS),
}
"""Schema of a ``CrossFit`` in a checkpoint."""


@dataclass(frozen=True, eq=False)
class LogisticClassifier:
    """Calibrated log-odds of all classes from a document's words, dense columns, and columns of a feature table.

    ``coef`` (features, classes) are of words, dense columns, Fourier features, ``n_columns`` standardised columns of
    the table, and kernel features. ``idf``, ``dense_mean``, ``dense_spread``, ``fourier`` and ``kernel`` turn a
    document into these features. ``slope``, ``offset`` and ``limit`` are the recalibration. ``penalties`` (kinds of
    features, classes) are those that were chosen. A class with too few labels has zeros for ``coef`` and ``slope``, and
    its base rate as ``offset``.
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
    kernel: KernelFeatures | None = None

    @property
    def n_words(self) -> int:
        """Number of words in the vocabulary; 0 if words are not used."""
        return 0 if self.idf is None else len(self.idf)

    @property
    def n_dense(self) -> int:
        """Number of dense columns."""
        return 0 if self.dense_mean is None else len(self.dense_mean)

    @property
    def n_fourier(self) -> int:
        """Number of Fourier features."""
        return 0 if self.fourier is None else len(self.fourier.offset)

    @property
    def n_kernel(self) -> int:
        """Number of kernel features."""
        return 0 if self.kernel is None else len(self.kernel.offset)

    @property
    def n_columns(self) -> int:
        """Number of standardised columns of a feature table."""
        return len(self.coef) - self.n_words - self.n_dense - self.n_fourier - self.n_kernel

    def part(self, kind: str) -> Array:
        """Coefficients (features, classes) of "words", "dense", "fourier", "columns" or "kernel"."""
        sizes = {
            "words": self.n_words,
            "dense": self.n_dense,
            "fourier": self.n_fourier,
            "columns": self.n_columns,
            "kernel": self.n_kernel,
        }
        first = sum(list(sizes.values())[: list(sizes).index(kind)])
        return self.coef[first : first + sizes[kind]]

    def scores(self, counts: Any = None, dense: Any = None, columns: Any = None) -> Iterator[tuple[str, Array]]:
        """Scores (documents, classes) of each kind of feature, and where they come from: words, topics or features."""
        if self.idf is not None:
            words = tf_idf(_required(counts, "word counts"), self.idf)
            yield "words", words @ self.part("words")
            if self.fourier is not None:
                yield "words", self.fourier.apply(words) @ self.part("fourier")
        if self.dense_mean is not None and self.dense_spread is not None:
            evidence = np.asarray(_required(dense, "dense features"), dtype=np.float64)
            yield "topics", Scale(self.dense_mean, self.dense_spread).apply(evidence) @ self.part("dense")
        if self.n_columns:
            table = _required(columns, "features")
            yield "features", table @ self.part("columns")
            if self.kernel is not None:
                yield "features", self.kernel.apply(table) @ self.part("kernel")

    def log_odds(self, counts: Any = None, dense: Any = None, columns: Any = None) -> Array:
        """Log-odds (documents, classes) of documents that the classifier was not trained on.

        ``columns`` are the standardised columns of a feature table.
        """
        total = self.intercept
        for _, scores in self.scores(counts, dense, columns):
            total = total + scores
        return Platt(self.slope, self.offset, self.limit).apply(total)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All fields as arrays of a file."""
        values = ((name, getattr(self, name)) for name in _FILE_ARRAYS)
        own = {name: np.asarray(value) for name, value in values if value is not None}
        own["penalties"] = self.penalties[:3]
        if self.n_columns:
            own["feature_penalties"] = self.penalties[3:]
        own |= {} if self.fourier is None else self.fourier.arrays()
        return own | ({} if self.kernel is None else self.kernel.arrays())

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The classifier whose ``arrays`` these are."""
        fourier, own = FourierFeatures.split_from(arrays)
        known: dict[str, Any] = {name: own[name] for name in _FILE_ARRAYS if name in own}
        if "feature_penalties" in own:
            known["penalties"] = np.concatenate((own["penalties"], own["feature_penalties"]))
        limit, kernel = float(own["limit"]), KernelFeatures.from_arrays(own)
        classifier = cls(**known | {"limit": limit}, fourier=fourier, kernel=kernel)
        if classifier.n_columns and "feature_penalties" not in own:
            raise ValueError("the penalties of the features are missing")
        return classifier


EVIDENCE_SOURCES = ("words", "topics", "features")


def evidence_shares(classifier: LogisticClassifier, counts: Any, dense: Any, columns: Any) -> Array:
    """Shares (3, classes) of words, topics and features in the standard deviation of scores; 0 for unlearned classes.

    Parameters are those of ``LogisticClassifier.log_odds``, for documents that are typical.
    """
    scores = {name: np.zeros((counts.shape[0], len(classifier.intercept))) for name in EVIDENCE_SOURCES}
    for name, part in classifier.scores(counts, dense, columns):
        scores[name] += part
    spreads = np.array([scores[name].std(axis=0) for name in EVIDENCE_SOURCES])
    total = spreads.sum(axis=0)
    shares: Array = np.divide(spreads, total, out=np.zeros_like(spreads), where=total > 0)
    return shares


def _required(features: Any, name: str) -> Any:
    if features is None:
        raise DataError(f"the label prior was trained on {name}; pass them for new documents too")
    return features


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Models of the folds, and the log-odds of the training documents by models that did not see their fold.

    ``fold_coef`` (features + 1, folds, classes) are the models; a later fit can start from them. ``penalties`` (kinds
    of features, classes) and ``base_rates`` (classes,) are those of ``LogisticClassifier``, ``platt`` is the
    recalibration.
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
    sizes = {"documents": len(labels), "classes": labels.shape[1], "folds": int(folds.max()) + 1}
    names = ("words", "dense columns", "fourier features", "feature columns", "kernel features")
    parts = dict(zip(names, features.sizes, strict=False))
    return sizes | parts | {"coefficients": sum(features.sizes) + 1, "kinds of features": len(features.sizes)}


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
    columns: EncodedFeatures | None = None,
    weights: Any = None,
    folds: Indices | None = None,
    settings: ClassifierSettings | None = None,
    start: CrossFit | None = None,
) -> ClassifierFit:
    """Fit a classifier for new documents, and out-of-fold log-odds of the training documents.

    ``counts`` is (documents, words). ``dense`` are more columns, such as log-odds of a topic model that did not see the
    document's fold. ``columns`` are those of a feature table. The other parameters are those of
    ``cross_fit_classifier``.
    """
    settings = settings or ClassifierSettings()
    features = learn_features(counts, dense, settings.seed, settings.limits.dtype, columns)
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
    has_both = features.columns is not None and sum(features.sizes[:3]) > 0
    if start is None and has_both and (stored is None or stored.needs_columns):
        alone = TrainingSet.build(features.columns_alone(), labels, known, folds, settings)
        stored = stored or PenaltySearch.start(alone, features.sizes)
        stored.run(alone, stage)  # words take part later
        del alone  # one copy of the columns at a time
    data = TrainingSet.build(features, labels, known, folds, settings)
    if start is None:
        search = stored or PenaltySearch.start(data, features.sizes)
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
            kernel=features.kernel,
        )

    return stage.remember(
        compute,
        lambda classifier: StageRecord(classifier.arrays(), {}),
        lambda record: LogisticClassifier.from_arrays(record.arrays),
        RecordSchema(_sizes(features, labels, fit.folds), (CLASSIFIER_ARRAYS,)),
    )
