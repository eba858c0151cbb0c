"""The built-in label prior: a calibrated soft-label logistic regression of all classes at once.

A *problem* is one class on all documents, or on all but one fold. Problems are columns of one coefficient matrix, so a
pass over a block's words serves every class and every fold. Loss and gradient are sums over blocks of documents, added
in their order; the optimiser stands outside: L-BFGS in which each column has its own step length and its own end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, cast

import numpy as np

from palda.engine import Stage, StageRecord, Threads, add_prefix, strip_prefix
from palda.errors import DataError
from palda.models.classifier.calibration import (
    NONE,
    Platt,
    base_log_odds,
    cross_calibrate,
    fit_platt,
    log_likelihoods,
    minority_counts,
)
from palda.models.classifier.features import Block, Features, Scale, StoredBlock, cut_blocks, learn_features, tf_idf
from palda.models.classifier.folds import NO_FOLD, Problems, assign_folds, checked_targets
from palda.models.classifier.fourier import FourierFeatures
from palda.models.classifier.lbfgs import LbfgsLimits, dots, minimise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from palda.engine import Engine

    Array: TypeAlias = NDArray[np.float64]
    Indices: TypeAlias = NDArray[np.int64]
    Seen: TypeAlias = slice | NDArray[np.bool_]
    Blocks: TypeAlias = Sequence[Block | StoredBlock]

__all__ = [
    "ClassifierFit",
    "ClassifierSettings",
    "Coefficients",
    "LbfgsLimits",
    "LogisticClassifier",
    "fit_classifier",
    "fit_columns",
    "loss_and_gradient",
]

_COEF_PER_GROUP = 1 << 18  # coefficients that are optimised together: L-BFGS holds fifteen copies, best kept in cache


def fit_columns(
    blocks: Blocks,
    problems: Problems,
    penalties: Array,
    start: Array,
    engine: Engine,
    limits: LbfgsLimits,
    centre: Array | None = None,
) -> Array:
    """Coefficients (features + 1, problems) that minimise weighted cross-entropy + ½ Σ penalty · coefficient².

    Every coefficient has a penalty of its own; that of the last row, the intercepts, should be 0 (maths, eq. 48).
    With a ``centre``, penalties are on the distance from it.
    """
    centre = np.zeros_like(start) if centre is None else centre
    width = max(1, _COEF_PER_GROUP // len(start))
    groups = [np.arange(first, min(first + width, start.shape[1])) for first in range(0, start.shape[1], width)]
    fitted = [
        _fit_group(blocks, problems.take(g), penalties[:, g], start[:, g], centre[:, g], engine, limits) for g in groups
    ]
    return np.concatenate(fitted, axis=1) if fitted else start.copy()


def _fit_group(
    blocks: Blocks,
    problems: Problems,
    penalties: Array,
    start: Array,
    centre: Array,
    engine: Engine,
    limits: LbfgsLimits,
) -> Array:
    def objective(coef: Array, columns: Indices) -> tuple[Array, Array]:
        distance = coef - centre[:, columns]
        ridge = penalties[:, columns] * distance
        found = engine.total(loss_and_gradient, blocks, Coefficients(coef, problems.take(columns)))
        return 0.5 * dots(ridge, distance) + found[-1], ridge + found[:-1]

    curvature = penalties + engine.total(_curvature, blocks, Coefficients(start, problems))
    return minimise(objective, start, np.maximum(curvature, _LEAST_CURVATURE), limits)


_LEAST_CURVATURE = 1e-6  # an intercept is not penalised, and where a class is certain nothing bends its loss


class Coefficients(NamedTuple):
    """Coefficients (features + 1, problems) that every block is asked about."""

    coef: Array
    problems: Problems

    def seen_by(self, block: Block | StoredBlock) -> Seen:
        """Columns whose problem has the block's documents; a slice, which copies nothing, if all have."""
        seen = self.problems.left_out != block.fold
        return slice(None) if seen.all() else seen


def _spread(table: Array, seen: Seen, n_columns: int) -> Array:
    """The same table with zeros in the columns that do not see a block."""
    if isinstance(seen, slice):
        return table
    wide = np.zeros((len(table), n_columns))
    wide[:, seen] = table
    return wide


def loss_and_gradient(block: Block | StoredBlock, trial: Coefficients) -> Array:
    """Gradient of a block's cross-entropy (features + 1, problems), and the cross-entropy itself in the last row."""
    block, seen = block.loaded(), trial.seen_by(block)
    coef, classes = trial.coef[:, seen], trial.problems.classes[seen]
    targets = block.targets[:, classes]
    scores = block.scores(coef)
    surer = 1.0 / (1.0 + np.exp(-np.abs(scores)))  # σ(|s|)
    losses = np.maximum(scores, 0.0) - np.log(surer) - targets * scores
    residuals = np.where(scores >= 0.0, surer, 1.0 - surer) - targets
    if block.weights is not None:
        weights = block.weights[:, classes]
        losses, residuals = weights * losses, weights * residuals
    found = np.concatenate((block.pull_back(residuals), losses.sum(axis=0, keepdims=True)))
    return _spread(found, seen, len(trial.problems.classes))


def _curvature(block: Block | StoredBlock, trial: Coefficients) -> Array:
    """Diagonal of the Hessian."""
    block, seen = block.loaded(), trial.seen_by(block)
    odds = np.exp(-np.abs(block.scores(trial.coef[:, seen])))
    spread = odds / np.square(1.0 + odds)  # p (1 - p)
    if block.weights is not None:
        spread *= block.weights[:, trial.problems.classes[seen]]
    return _spread(block.pull_back(spread, power=2), seen, len(trial.problems.classes))


def _own_scores(block: Block | StoredBlock, coef: Array) -> Array:
    """Scores of the model of the block's fold; ``coef`` is (features + 1, folds, classes)."""
    return block.loaded().scores(coef[:, block.fold])


# The head


@dataclass(frozen=True, eq=False)
class LogisticClassifier:
    """Calibrated log-odds of every class from a document's words, dense columns, or both.

    Plain arrays: ``coef`` (features, classes) of words, dense and Fourier columns, what those are made with (``idf``;
    ``dense_mean`` and ``dense_spread``; ``fourier``), the recalibration, and the penalties that were chosen (a row for
    each of the three). A class without evidence has zeros for ``coef`` and ``slope``, and its base rate for
    ``offset``.
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
        """Words that it reads."""
        return 0 if self.idf is None else len(self.idf)

    @property
    def n_dense(self) -> int:
        """Dense columns that it reads."""
        return 0 if self.dense_mean is None else len(self.dense_mean)

    def log_odds(self, counts: Any = None, dense: Any = None) -> Array:
        """Log-odds (documents, classes) of documents that the head was not trained on."""
        scores, fourier_values = self.intercept, self.n_words + self.n_dense
        if self.idf is not None:
            words = tf_idf(_given(counts, "counts of words"), self.idf)
            scores = scores + words @ self.coef[: self.n_words]
            if self.fourier is not None:
                scores = scores + self.fourier.apply(words) @ self.coef[fourier_values:]
        if self.dense_mean is not None and self.dense_spread is not None:
            columns = np.asarray(_given(dense, "dense features"), dtype=np.float64)
            columns = Scale(self.dense_mean, self.dense_spread).apply(columns)
            scores = scores + columns @ self.coef[self.n_words : fourier_values]
        return Platt(self.slope, self.offset, self.limit).apply(scores)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything the head is made of, ready for an npz file."""
        values = {
            "coef": self.coef,
            "intercept": self.intercept,
            "slope": self.slope,
            "offset": self.offset,
            "limit": self.limit,
            "base_rates": self.base_rates,
            "penalties": self.penalties,
            "idf": self.idf,
            "dense_mean": self.dense_mean,
            "dense_spread": self.dense_spread,
        }
        own = {name: np.asarray(value) for name, value in values.items() if value is not None}
        return own if self.fourier is None else own | self.fourier.arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The head that ``arrays`` was taken from."""
        fourier, own = FourierFeatures.split_from(arrays)
        return cls(
            coef=own["coef"],
            intercept=own["intercept"],
            slope=own["slope"],
            offset=own["offset"],
            limit=float(own["limit"]),
            base_rates=own["base_rates"],
            penalties=own["penalties"],
            idf=own.get("idf"),
            dense_mean=own.get("dense_mean"),
            dense_spread=own.get("dense_spread"),
            fourier=fourier,
        )


def _given(features: Any, what: str) -> Any:
    if features is None:
        raise DataError(f"the label prior was trained on {what} and needs them for new documents too")
    return features


@dataclass(frozen=True)
class ClassifierSettings:
    """How a head is fitted. Penalties are tried from the strongest to the weakest."""

    n_folds: int = 5
    seed: int = 0
    word_penalties: tuple[float, ...] = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
    dense_penalties: tuple[float, ...] = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
    fourier_penalties: tuple[float, ...] = (3000.0, 1000.0, 300.0, 100.0, 30.0)
    limits: LbfgsLimits = field(default_factory=LbfgsLimits)
    engine: Engine = field(default_factory=Threads)


@dataclass(frozen=True, eq=False)
class ClassifierFit:
    """A head, and the log-odds of its training documents from models that did not see their fold.

    ``fold_coef`` (features + 1, folds, classes) are those models: where the next round starts.
    """

    classifier: LogisticClassifier
    log_odds: Array
    folds: Indices
    fold_coef: Array

    def record(self) -> StageRecord:
        """Everything the fit is made of."""
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
    """Head for new documents, and out-of-fold log-odds for those it is trained on.

    Each class has the penalty under which its out-of-fold scores, recalibrated, are likeliest. On held-out documents
    that beat one penalty for all classes on scene, enron and bibtex and was even on yeast and reuters. A second stage
    on all classes' out-of-fold scores gained at most .0006 nats a label there (scene, yeast, reuters) and lost up to
    .0014 (enron, bibtex), so there is none; classes inform each other through ``dense``.

    Models of a fold are fitted without its documents, and so is the recalibration that is applied to it.
    What the labels of a document can still influence are the choice of the penalties and, through models of
    the other folds, two numbers a class.

    Parameters
    ----------
    targets
        Probability of presence (documents, classes): labels or a consensus.
    counts
        Counts of words (documents, words), sparse.
    dense
        A few more columns, such as log-odds of a topic model that did not see the document's fold.
    weights
        How much each target counts (documents, classes); 0 = unknown, left out.
    folds
        Fold of each document, 0, 1, ...; by default ``assign_folds`` deals them out.
    settings
        How to fit.
    start
        An earlier fit on the same documents and features: its folds and penalties are kept, and its coefficients are
        where this one starts.
    stage
        Where a journal remembers the fit, if one does.
    """
    settings, stage = settings or ClassifierSettings(), stage or Stage()
    begun = stage.recall(_restored)
    if isinstance(begun, ClassifierFit):
        return begun
    labels, known = checked_targets(targets, weights)
    features = learn_features(counts, dense, settings.seed)
    if start is not None:
        folds = start.folds
    elif folds is None:
        folds = assign_folds(labels, min(settings.n_folds, len(labels)), settings.seed)
    data = _Training.of(features, labels, known, folds, settings)
    if start is None:
        fold_coef, penalties = _fold_models(data, settings, begun, stage)
    else:
        fold_coef, penalties = _from_earlier(data, start)
    platt, log_odds = cross_calibrate(data.out_of_fold(fold_coef), labels, data.weights, folds)
    coef = data.fit_all(fold_coef.mean(axis=1), penalties)
    head = LogisticClassifier(
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
    fit = ClassifierFit(head, log_odds, folds, fold_coef)
    stage.keep(fit.record)
    return fit


@dataclass(frozen=True, eq=False)
class _Training:
    """The documents a head is fitted on, cut into blocks."""

    blocks: Blocks
    order: Indices
    targets: Array
    weights: Array
    folds: Indices
    sizes: tuple[int, int, int]  # how many features are words, dense columns, fourier_values ones
    settings: ClassifierSettings

    @classmethod
    def of(
        cls, features: Features, targets: Array, weights: Array | None, folds: Indices, settings: ClassifierSettings
    ) -> _Training:
        words, dense = features.words, features.dense
        for table in (words, dense):
            if table is not None and table.shape[0] != len(targets):
                raise DataError(f"there are features of {table.shape[0]} documents, but targets of {len(targets)}")
        if len(folds) != len(targets):
            raise DataError(f"there are folds of {len(folds)} documents, but targets of {len(targets)}")
        if len(np.unique(folds)) < 2 or folds.min() < 0:
            raise DataError("folds must be numbered from 0, and there must be at least 2 of them")
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
        """How many folds there are."""
        return int(self.folds.max()) + 1

    @property
    def learned(self) -> Indices:
        """Classes with enough evidence to learn anything about."""
        return np.flatnonzero(minority_counts(self.targets, self.weights) >= NONE)

    def base_rate_models(self) -> Array:
        """Coefficients (features + 1, folds, classes) that say nothing but base rates, of the other folds."""
        coef = np.zeros((sum(self.sizes) + 1, self.n_folds, self.targets.shape[1]))
        for fold in range(self.n_folds):
            others = self.order[self.folds[self.order] != fold]
            coef[-1, fold] = base_log_odds(self.targets[others], self.weights[others])
        return coef

    def fit_folds(self, coef: Array, penalties: Array, classes: Indices) -> Array:
        """Models (features + 1, folds, classes) of some classes, each without its fold."""
        problems = Problems(np.tile(classes, self.n_folds), np.repeat(np.arange(self.n_folds), len(classes)))
        flat = self._fit(problems, np.tile(penalties, self.n_folds), coef.reshape(len(coef), -1))
        return flat.reshape(coef.shape)

    def fit_all(self, coef: Array, penalties: Array) -> Array:
        """Models (features + 1, classes) on all documents."""
        fitted, classes = coef.copy(), self.learned
        problems = Problems(classes, np.full(len(classes), NO_FOLD))
        fitted[:, classes] = self._fit(problems, penalties[:, classes], coef[:, classes])
        return fitted

    def _fit(self, problems: Problems, penalties: Array, start: Array) -> Array:
        ridge = np.repeat(np.vstack([penalties, np.zeros(penalties.shape[1])]), (*self.sizes, 1), axis=0)
        return fit_columns(self.blocks, problems, ridge, start, self.settings.engine, self.settings.limits)

    def out_of_fold(self, coef: Array) -> Array:
        """Scores of all documents, each from the model of its fold."""
        parts = self.settings.engine.each(_own_scores, self.blocks, coef)
        scores = np.empty((len(self.targets), coef.shape[2]))
        scores[self.order] = np.concatenate(list(parts))
        return scores


@dataclass(eq=False)
class _Path:
    """How far the choice of penalties has come: models and penalties so far, and what is tried on which classes."""

    coef: Array
    penalties: Array  # (3, classes): of words, dense and fourier_values columns
    best: Array  # (classes,): likelihoods
    row: int  # of the penalties
    n_tried: int
    classes: Indices
    current: Array

    @classmethod
    def of(cls, data: _Training) -> _Path:
        n_classes = data.targets.shape[1]
        coef = data.base_rate_models()
        penalties, best = np.full((len(data.sizes), n_classes), _OUT_OF_REACH), np.full(n_classes, -np.inf)
        return cls(coef, penalties, best, -1, 0, data.learned, coef[:, :, :0])

    def begin(self, row: int, data: _Training, grid: Sequence[float]) -> None:
        """Turn to the penalties of one kind of features."""
        self.penalties[row] = np.median(grid)  # for classes that only a later round may learn
        self.penalties[row, data.learned] = _OUT_OF_REACH
        self.row, self.n_tried, self.classes = row, 0, data.learned
        self.current = self.coef[:, :, self.classes]

    def record(self) -> StageRecord:
        """Where things stand now."""
        numbers = {"row": self.row, "n_tried": self.n_tried}
        names = (spec.name for spec in fields(self) if spec.name not in numbers)
        return StageRecord({name: getattr(self, name) for name in names}, {"path": numbers})


def _restored(record: StageRecord) -> ClassifierFit | _Path:
    """What one of the records was made of."""
    if "path" in record.state:
        return _Path(**{**record.arrays, **record.state["path"]})
    own = (record.arrays[name] for name in ("log_odds", "folds", "fold_coef"))
    return ClassifierFit(LogisticClassifier.from_arrays(strip_prefix("head", record.arrays)), *own)


def _fold_models(
    data: _Training, settings: ClassifierSettings, begun: _Path | None, stage: Stage
) -> tuple[Array, Array]:
    """Models of the folds and the penalties (3, classes) they were fitted with."""
    path = begun or _Path.of(data)
    grids = (settings.word_penalties, settings.dense_penalties, settings.fourier_penalties)
    for row, n_features in enumerate(data.sizes):  # each kind of features only where it adds to those before
        if n_features and row >= path.row:
            if row > path.row:
                path.begin(row, data, grids[row])
            _along_path(data, grids[row], path, stage)
    return path.coef, path.penalties


def _from_earlier(data: _Training, start: ClassifierFit) -> tuple[Array, Array]:
    """Models with the penalties of an earlier fit, from where it ended."""
    shape = (sum(data.sizes) + 1, data.n_folds, data.targets.shape[1])
    if start.fold_coef.shape != shape:
        raise DataError(
            f"start was fitted with (features + 1, folds, classes) = {start.fold_coef.shape}, not {shape}; "
            "start from a fit with the same features and classes"
        )
    coef, penalties, classes = start.fold_coef.copy(), start.classifier.penalties.copy(), data.learned
    coef[:, :, classes] = data.fit_folds(coef[:, :, classes], penalties[:, classes], classes)
    return coef, penalties


_OUT_OF_REACH = 1e9  # a penalty that leaves nothing of a coefficient


def _along_path(data: _Training, grid: Sequence[float], path: _Path, stage: Stage) -> None:
    """Improve each class in place, from strong penalties to weak ones, until one makes it worse."""
    for value in grid[path.n_tried :]:
        classes = path.classes
        tried = path.penalties[:, classes]
        tried[path.row] = value
        current = data.fit_folds(path.current, tried, classes)
        likelihood = _calibrated_likelihood(data, current, classes)
        better = likelihood > path.best[classes]
        path.classes, path.current = classes[better], current[:, :, better]
        path.n_tried += 1
        if not better.any():
            break
        path.best[path.classes], path.penalties[path.row, path.classes] = likelihood[better], value
        path.coef[:, :, path.classes] = path.current
        stage.keep_now(path.record)


def _calibrated_likelihood(data: _Training, coef: Array, classes: Indices) -> Array:
    scores, targets, weights = data.out_of_fold(coef), data.targets[:, classes], data.weights[:, classes]
    return log_likelihoods(fit_platt(scores, targets, weights).apply(scores), targets, weights)
