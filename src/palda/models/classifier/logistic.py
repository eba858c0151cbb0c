"""The built-in classifier: logistic regression on soft labels of all classes at once, calibrated out of fold."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import numpy as np

from palda.engine import Stage, StageRecord, Threads, add_prefix, strip_prefix
from palda.errors import DataError
from palda.models.classifier.calibration import (
    MIN_TO_LEARN,
    Platt,
    base_log_odds,
    cross_calibrate,
    fit_platt,
    log_likelihoods,
    minority_counts,
)
from palda.models.classifier.features import Features, Scale, cut_blocks, learn_features, tf_idf
from palda.models.classifier.folds import NO_FOLD, Problems, assign_folds, checked_targets
from palda.models.classifier.fourier import FourierFeatures
from palda.models.classifier.lbfgs import LbfgsLimits
from palda.models.classifier.logistic_loss import fit_columns, scores_without_fold

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from palda.data import Array
    from palda.engine import Engine
    from palda.models.classifier.logistic_loss import Blocks

    Indices: TypeAlias = NDArray[np.int64]

_INFINITE_PENALTY = 1e9  # leaves nothing of a coefficient
_FILE_ARRAYS = (
    "coef", "intercept", "slope", "offset", "limit", "base_rates", "penalties", "idf", "dense_mean", "dense_spread",
)  # fmt: skip
"""Fields that are arrays of a model file, under these names."""


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


@dataclass(frozen=True)
class ClassifierSettings:
    """How a classifier is fitted. Penalties are tried from the strongest to the weakest."""

    n_folds: int = 5
    seed: int = 0
    word_penalties: tuple[float, ...] = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
    dense_penalties: tuple[float, ...] = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
    fourier_penalties: tuple[float, ...] = (3000.0, 1000.0, 300.0, 100.0, 30.0)
    limits: LbfgsLimits = field(default_factory=LbfgsLimits)
    engine: Engine = field(default_factory=Threads)


@dataclass(frozen=True, eq=False)
class ClassifierFit:
    """A classifier, and the log-odds of its training documents by models that did not see their fold.

    ``fold_coef`` (features + 1, folds, classes) are those models; a later fit can start from them.
    """

    classifier: LogisticClassifier
    log_odds: Array
    folds: Indices
    fold_coef: Array

    def record(self) -> StageRecord:
        """The fit as a record of a checkpoint."""
        own = {name: getattr(self, name) for name in ("log_odds", "folds", "fold_coef")}
        return StageRecord(own | add_prefix("head", self.classifier.arrays()), {})


def fit_classifier(
    targets: Any,
    *,
    counts: Any = None,
    dense: Any = None,
    weights: Any = None,
    folds: Indices | None = None,
    settings: ClassifierSettings | None = None,
    start: ClassifierFit | None = None,
    stage: Stage | None = None,
) -> ClassifierFit:
    """Fit a classifier for new documents, and out-of-fold log-odds of the training documents.

    Each class has the penalty with the largest out-of-fold likelihood after recalibration. On held-out documents that
    beat one penalty for all classes on scene, enron and bibtex, and was equal on yeast and reuters. A second stage on
    the out-of-fold scores of all classes gained at most .0006 nats per label there (scene, yeast, reuters) and lost up
    to .0014 (enron, bibtex), so there is none; classes inform each other through ``dense``.

    Models of a fold are fitted without its documents, and so is the recalibration that is applied to it. The labels of
    a document still influence the choice of the penalties and, through models of the other folds, two numbers per
    class.

    ``targets`` are probabilities of presence and ``weights`` their weights, 0 for unknown ones, both (documents,
    classes). ``counts`` is (documents, words). ``dense`` are more columns, such as log-odds of a topic model that did
    not see the document's fold. ``folds`` are from ``assign_folds`` by default. ``start`` is an earlier fit on the same
    documents and features: its folds and penalties are kept, and its coefficients are the start.
    """
    settings, stage = settings or ClassifierSettings(), stage or Stage()
    stored = stage.recall(_restore)
    if isinstance(stored, ClassifierFit):
        return stored
    labels, known = checked_targets(targets, weights)
    features = learn_features(counts, dense, settings.seed)
    if start is not None:
        folds = start.folds
    elif folds is None:
        folds = assign_folds(labels, min(settings.n_folds, len(labels)), settings.seed)
    data = _TrainingSet.build(features, labels, known, folds, settings)
    if start is None:
        fold_coef, penalties = _fit_folds_and_penalties(data, settings, stored, stage)
    else:
        fold_coef, penalties = _fit_folds_from(data, start)
    platt, log_odds = cross_calibrate(data.out_of_fold(fold_coef), labels, data.weights, folds)
    coef = data.fit_all(fold_coef.mean(axis=1), penalties)
    classifier = LogisticClassifier(
        coef=coef[:-1],
        intercept=coef[-1],
        slope=platt.slope,
        offset=platt.offset,
        limit=platt.limit,
        base_rates=1.0 / (1.0 + np.exp(-base_log_odds(labels, data.weights))),
        penalties=penalties,
        idf=features.idf,
        dense_mean=None if features.scale is None else features.scale.mean,
        dense_spread=None if features.scale is None else features.scale.spread,
        fourier=features.fourier,
    )
    fit = ClassifierFit(classifier, log_odds, folds, fold_coef)
    stage.keep(fit.record)
    return fit


@dataclass(frozen=True, eq=False)
class _TrainingSet:
    """The training documents, cut into blocks."""

    blocks: Blocks
    order: Indices
    targets: Array
    weights: Array
    folds: Indices
    sizes: tuple[int, int, int]  # numbers of words, dense columns and Fourier features
    settings: ClassifierSettings

    @classmethod
    def build(
        cls, features: Features, targets: Array, weights: Array | None, folds: Indices, settings: ClassifierSettings
    ) -> _TrainingSet:
        words, dense = features.words, features.dense
        for table in (words, dense):
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
            np.ones_like(targets) if weights is None else weights,
            folds,
            sizes=(
                0 if words is None else words.shape[1],
                0 if dense is None else dense.shape[1],
                0 if features.fourier is None else len(features.fourier.offset),
            ),
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

    def base_rate_models(self) -> Array:
        """Coefficients (features + 1, folds, classes) of models that predict the base rates outside each fold."""
        coef = np.zeros((sum(self.sizes) + 1, self.n_folds, self.targets.shape[1]))
        for fold in range(self.n_folds):
            others = self.order[self.folds[self.order] != fold]
            coef[-1, fold] = base_log_odds(self.targets[others], self.weights[others])
        return coef

    def fit_folds(self, coef: Array, penalties: Array, classes: Indices) -> Array:
        """Coefficients (features + 1, folds, classes) of some classes, each fitted without its fold."""
        problems = Problems(np.tile(classes, self.n_folds), np.repeat(np.arange(self.n_folds), len(classes)))
        flat = self._fit(problems, np.tile(penalties, self.n_folds), coef.reshape(len(coef), -1))
        return flat.reshape(coef.shape)

    def fit_all(self, coef: Array, penalties: Array) -> Array:
        """Coefficients (features + 1, classes) fitted to all documents."""
        fitted, classes = coef.copy(), self.learned
        problems = Problems(classes, np.full(len(classes), NO_FOLD))
        fitted[:, classes] = self._fit(problems, penalties[:, classes], coef[:, classes])
        return fitted

    def _fit(self, problems: Problems, penalties: Array, start: Array) -> Array:
        ridge = np.repeat(np.vstack([penalties, np.zeros(penalties.shape[1])]), (*self.sizes, 1), axis=0)
        return fit_columns(self.blocks, problems, ridge, start, self.settings.engine, self.settings.limits)

    def out_of_fold(self, coef: Array) -> Array:
        """Scores (documents, classes), each by the model without the document's fold."""
        parts = self.settings.engine.each(scores_without_fold, self.blocks, coef)
        scores = np.empty((len(self.targets), coef.shape[2]))
        scores[self.order] = np.concatenate(list(parts))
        return scores


@dataclass(eq=False)
class _PenaltySearch:
    """State of the choice of penalties, from strong to weak, for one kind of feature after the other."""

    coef: Array  # (features + 1, folds, classes): the best models so far
    penalties: Array  # (3, classes): of words, dense columns and Fourier features
    best: Array  # (classes,): out-of-fold log-likelihoods of the best models
    row: int  # kind of feature whose penalties are tried
    n_tried: int
    classes: Indices  # classes that improved with the last penalty
    current: Array  # models of these classes

    @classmethod
    def start(cls, data: _TrainingSet) -> _PenaltySearch:
        """Base rates only: all penalties are infinite."""
        n_classes = data.targets.shape[1]
        coef = data.base_rate_models()
        penalties, best = np.full((len(data.sizes), n_classes), _INFINITE_PENALTY), np.full(n_classes, -np.inf)
        return cls(coef, penalties, best, -1, 0, data.learned, coef[:, :, :0])

    def begin_row(self, row: int, data: _TrainingSet, grid: Sequence[float]) -> None:
        """Go on to the penalties of the next kind of feature."""
        self.penalties[row] = np.median(grid)  # for classes that only a later fit may learn
        self.penalties[row, data.learned] = _INFINITE_PENALTY
        self.row, self.n_tried, self.classes = row, 0, data.learned
        self.current = self.coef[:, :, self.classes]

    def record(self) -> StageRecord:
        """The state as a record of a checkpoint."""
        numbers = {"row": self.row, "n_tried": self.n_tried}
        names = (spec.name for spec in fields(self) if spec.name not in numbers)
        return StageRecord({name: getattr(self, name) for name in names}, {"path": numbers})


def _restore(record: StageRecord) -> ClassifierFit | _PenaltySearch:
    """The fit, or the unfinished search, that a record was made from."""
    if "path" in record.state:
        return _PenaltySearch(**{**record.arrays, **record.state["path"]})
    own = (record.arrays[name] for name in ("log_odds", "folds", "fold_coef"))
    return ClassifierFit(LogisticClassifier.from_arrays(strip_prefix("head", record.arrays)), *own)


def _fit_folds_and_penalties(
    data: _TrainingSet, settings: ClassifierSettings, stored: _PenaltySearch | None, stage: Stage
) -> tuple[Array, Array]:
    """Models of the folds, and the penalties (3, classes) with which they predict best out of fold.

    Per class, penalties are tried from strong to weak until one is worse.
    """
    search = stored or _PenaltySearch.start(data)
    grids = (settings.word_penalties, settings.dense_penalties, settings.fourier_penalties)
    for row, (n_features, grid) in enumerate(zip(data.sizes, grids, strict=True)):
        if not n_features or row < search.row:
            continue
        if row > search.row:
            search.begin_row(row, data, grid)
        for value in grid[search.n_tried :]:
            classes = search.classes
            penalties = search.penalties[:, classes]
            penalties[row] = value
            current = data.fit_folds(search.current, penalties, classes)
            scores, targets, weights = data.out_of_fold(current), data.targets[:, classes], data.weights[:, classes]
            likelihood = log_likelihoods(fit_platt(scores, targets, weights).apply(scores), targets, weights)
            better = likelihood > search.best[classes]
            search.classes, search.current = classes[better], current[:, :, better]
            search.n_tried += 1
            if not better.any():
                break
            search.best[search.classes], search.penalties[row, search.classes] = likelihood[better], value
            search.coef[:, :, search.classes] = search.current
            stage.keep_now(search.record)
    return search.coef, search.penalties


def _fit_folds_from(data: _TrainingSet, start: ClassifierFit) -> tuple[Array, Array]:
    """Models of the folds with the penalties of an earlier fit, started from its coefficients."""
    shape = (sum(data.sizes) + 1, data.n_folds, data.targets.shape[1])
    if start.fold_coef.shape != shape:
        raise DataError(
            f"start was fitted with (features + 1, folds, classes) = {start.fold_coef.shape}, not {shape}; "
            "start from a fit with the same features and classes"
        )
    coef, penalties, classes = start.fold_coef.copy(), start.classifier.penalties.copy(), data.learned
    coef[:, :, classes] = data.fit_folds(coef[:, :, classes], penalties[:, classes], classes)
    return coef, penalties
