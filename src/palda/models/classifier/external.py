"""Any scikit-learn classifier or pipeline with ``predict_proba`` as the label prior.

One clone of the classifier is fitted per class. Soft targets become sample weights: a document whose label is present
with probability .3 is used twice, as a positive of weight .3 and a negative of weight .7. A classifier without
``sample_weight`` gets each document once, with the more likely label. So does a multi-label classifier, which is fitted
once for all classes unless some labels are unknown. In all cases the probabilities are recalibrated out of fold on the
soft targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from palda.data import ArraySpec, Schema, prefixed
from palda.engine import RecordSchema, Stage, StageRecord, Threads, add_prefix, restore_classifiers, strip_prefix
from palda.errors import DataError, PaldaError, reason_of
from palda.models.classifier.calibration import (
    MIN_TO_LEARN,
    PLATT_ARRAYS,
    Platt,
    base_log_odds,
    cross_calibrate,
    minority_counts,
)
from palda.models.classifier.features import compact
from palda.models.classifier.folds import checked_targets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from palda.data import Array

    Indices = NDArray[np.int64]


EXTERNAL_ARRAYS: Schema = {
    "together": ArraySpec((), "bool"),
    "base_rates": ArraySpec(("classes",), low=0.0, high=1.0),
    **PLATT_ARRAYS,
}
"""Schema of all but the classifiers themselves in a file."""

_FIT_ARRAYS: Schema = {
    **prefixed("head", EXTERNAL_ARRAYS),
    "log_odds": ArraySpec(("documents", "classes")),
    "folds": ArraySpec(("documents",), "integer", low=0, high=1000),
    "models": ArraySpec(("bytes of the models",), "uint8"),
}
_SCORES_ARRAYS: Schema = {"scores": ArraySpec(("documents", "classes"))}
"""Schemas of a finished fit, and of the scores of some folds, in a checkpoint."""


@dataclass(frozen=True, eq=False)
class ExternalClassifier:
    """Fitted classifiers and their recalibration.

    ``models`` holds one classifier per class, None for a class with too few labels; or, if ``together``, a single one
    for all classes.
    """

    models: tuple[Any, ...]
    together: bool
    base_rates: Array
    platt: Platt

    def log_odds(self, X: Any) -> Array:
        """Calibrated log-odds (documents, classes) of documents that the classifiers were not trained on."""
        return self.platt.apply(_scores(self.models, self.together, _indexable(X), self.base_rates, self.platt.limit))

    def check(self, document: Any) -> None:
        """Raise ``DataError`` unless the classifiers, which may be from a file, can predict one document."""
        try:
            log_odds = self.log_odds(document)
        except Exception as error:  # noqa: BLE001 - whatever a damaged classifier raises
            reason = reason_of(error)
            raise DataError(f"the classifier cannot predict ({reason})") from None
        if log_odds.shape != (1, len(self.base_rates)) or not np.isfinite(log_odds).all():
            raise DataError("the classifier does not predict a probability per class")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All but the classifiers themselves, as arrays of a file."""
        return {
            "together": np.array(self.together),
            "base_rates": self.base_rates,
            **self.platt.arrays(),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], models: Sequence[Any]) -> Self:
        """The classifier whose ``arrays`` these are, with its fitted models."""
        return cls(tuple(models), bool(arrays["together"]), arrays["base_rates"], Platt.from_arrays(arrays))


@dataclass(frozen=True, eq=False)
class ExternalFit:
    """A classifier, and the log-odds of its training documents by models that did not see their fold."""

    classifier: ExternalClassifier
    log_odds: Array
    folds: Indices

    @property
    def base_rates(self) -> Array:
        """(classes,): share of documents with the class."""
        return self.classifier.base_rates

    def record(self) -> StageRecord | None:
        """The fit as a record of a checkpoint; None if some models are not scikit-learn's own types."""
        from skops import io as skops_io

        try:
            models = skops_io.dumps(list(self.classifier.models))
            if skops_io.get_untrusted_types(data=models):
                return None
        except Exception:  # noqa: BLE001 - skops cannot write this model, for whatever reason
            return None
        arrays = add_prefix("head", self.classifier.arrays())
        arrays |= {"log_odds": self.log_odds, "folds": self.folds, "models": np.frombuffer(models, dtype=np.uint8)}
        return StageRecord(arrays, {})


class _FoldScores(NamedTuple):
    """Scores of the documents of the folds that are done."""

    scores: Array
    n_done: int

    def record(self) -> StageRecord:
        return StageRecord({"scores": self.scores}, {"n_done": self.n_done})


def _restore(document: Any, record: StageRecord) -> ExternalFit | _FoldScores:
    """The fit, or the unfinished folds, of a record; only scikit-learn's own types are loaded."""
    if "n_done" in record.state:
        return _FoldScores(record.arrays["scores"], record.integer("n_done", 0, 1000))
    models = restore_classifiers(record.arrays["models"].tobytes())
    if not isinstance(models, list):
        raise TypeError("it holds no list of models")
    external = ExternalClassifier.from_arrays(strip_prefix("head", record.arrays), models)
    external.check(document)
    return ExternalFit(external, record.arrays["log_odds"], record.arrays["folds"])


def check_classifier(classifier: Any) -> None:
    """Raise ``PaldaError`` if a classifier cannot be a label prior."""
    name = getattr(classifier, "__name__", type(classifier).__name__)
    if isinstance(classifier, type):
        raise PaldaError(f"label_prior={name} is a class; pass an instance, {name}()")
    if not hasattr(classifier, "fit") or not hasattr(classifier, "get_params"):
        raise PaldaError(f"label_prior={classifier!r} is neither a known name nor a scikit-learn classifier")
    if not hasattr(classifier, "predict_proba"):
        raise PaldaError(
            f"label_prior={name} has no predict_proba; wrap it in sklearn.calibration.CalibratedClassifierCV"
        )


def fit_external(
    classifier: Any,
    X: Any,
    targets: Any,
    *,
    weights: Array | None,
    folds: Indices,
    seed: int,
    engine: Threads,
    stage: Stage,
) -> ExternalFit:
    """Fit an external classifier, and out-of-fold log-odds of the training documents.

    ``classifier`` has ``predict_proba``, or is a pipeline that ends in such a classifier. It is cloned, not changed.
    Random states that are None are set to ``seed``. ``X`` is a matrix, table or list with one row per document;
    ``targets`` are probabilities of presence and ``weights`` their weights, 0 for unknown ones, both (documents,
    classes); ``folds`` is the fold of each document.
    """
    check_classifier(classifier)
    labels, known = checked_targets(targets, weights)
    sizes = {"documents": len(labels), "classes": labels.shape[1]}
    X = _indexable(X)
    n_docs = X.shape[0] if hasattr(X, "shape") else len(X)
    if n_docs != len(labels):
        raise DataError(f"X has {n_docs} documents, but targets have {len(labels)}")
    restore = partial(_restore, _rows(X, np.arange(1)))
    stored = stage.recall(restore, RecordSchema(sizes, (_FIT_ARRAYS, _SCORES_ARRAYS)))
    if isinstance(stored, ExternalFit):
        return stored
    together = known is None and _is_multi_label(classifier)
    label_weights = np.ones_like(labels) if known is None else known
    trainer = _Trainer(_with_seed(classifier, seed), X, labels, label_weights, together)
    base_rates = 1.0 / (1.0 + np.exp(-base_log_odds(labels, label_weights)))
    limit = float(np.log(2.0 * len(labels) + 1.0))
    scores, n_done = stored or _FoldScores(np.zeros_like(labels), 0)
    for fold in np.unique(folds)[n_done:]:
        inside = np.flatnonzero(folds == fold)
        models = trainer.train(np.flatnonzero(folds != fold), engine)
        scores[inside] = _scores(models, together, _rows(X, inside), base_rates, limit)
        n_done += 1
        stage.keep_now(_FoldScores(scores, n_done).record)
    platt, log_odds = cross_calibrate(scores, labels, label_weights, folds)
    external = ExternalClassifier(trainer.train(np.arange(n_docs), engine), together, base_rates, platt)
    fit = ExternalFit(external, log_odds, folds)
    stage.keep(fit.record)
    return fit


@dataclass(frozen=True, eq=False)
class _Trainer:
    """A classifier and its training data."""

    classifier: Any
    X: Any
    targets: Array
    weights: Array
    together: bool

    def train(self, rows: Indices, engine: Threads) -> tuple[Any, ...]:
        """Clones fitted to some documents: one per class, or one for all classes."""
        if self.together:
            from sklearn.base import clone

            labels = (self.targets[rows] >= 0.5).astype(np.int64)
            return (clone(self.classifier).fit(_rows(self.X, rows), labels),)
        learned = minority_counts(self.targets[rows], self.weights[rows]) >= MIN_TO_LEARN
        return tuple(engine.map(lambda i: self._train_class(i, rows) if learned[i] else None, range(len(learned))))

    def _train_class(self, i: int, rows: Indices) -> Any:
        from sklearn.base import clone

        parameter = _weight_parameter(self.classifier)
        positive = self.weights[rows, i] * self.targets[rows, i]
        negative = self.weights[rows, i] - positive
        if parameter is None:
            is_positive = (positive >= negative) & (positive > 0)
            positive, negative = is_positive * 1.0, (~is_positive & (negative > 0)) * 1.0
        as_positive, as_negative = np.flatnonzero(positive > 0), np.flatnonzero(negative > 0)
        if not len(as_positive) or not len(as_negative):
            return None
        documents = _rows(self.X, rows[np.concatenate([as_positive, as_negative])])
        labels = np.repeat([1, 0], [len(as_positive), len(as_negative)])
        weights = np.concatenate([positive[as_positive], negative[as_negative]])
        return clone(self.classifier).fit(documents, labels, **({} if parameter is None else {parameter: weights}))


def _scores(models: Sequence[Any], together: bool, X: Any, base_rates: Array, limit: float) -> Array:
    """Log-odds (documents, classes) within ±``limit``; those of the base rate for a class without a model."""
    if together:
        probs = _multi_label_probs(models[0], X)
    else:
        n_docs = X.shape[0] if hasattr(X, "shape") else len(X)
        constant = (np.full(n_docs, rate) for rate in base_rates)
        columns = [
            rate if model is None else _column_of_present(model.predict_proba(X), model.classes_)
            for model, rate in zip(models, constant, strict=True)
        ]
        probs = np.column_stack(columns)
    with np.errstate(divide="ignore"):
        log_odds: Array = np.log(probs) - np.log1p(-probs)
    return np.clip(log_odds, -limit, limit)


def _multi_label_probs(model: Any, X: Any) -> Array:
    """Probabilities (documents, classes) from either of scikit-learn's two multi-label forms."""
    probs = model.predict_proba(X)
    if isinstance(probs, list):
        return np.column_stack([_column_of_present(*pair) for pair in zip(probs, model.classes_, strict=True)])
    return np.clip(np.asarray(probs, dtype=np.float64), 0.0, 1.0)


def _column_of_present(probs: Any, classes: Any) -> Array:
    """Probability of the label 1; a model that saw only one label has one column."""
    column = np.flatnonzero(np.asarray(classes) == 1)
    table = np.asarray(probs, dtype=np.float64)
    return np.clip(table[:, column[0]], 0.0, 1.0) if len(column) else np.zeros(len(table))


def _is_multi_label(classifier: Any) -> bool:
    from sklearn.utils import get_tags

    tags = get_tags(classifier).classifier_tags
    return bool(tags is not None and tags.multi_label)


def _weight_parameter(classifier: Any) -> str | None:
    """Name of the weights in ``fit``, None if there is none; for a pipeline, that of its last step."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if isinstance(classifier, Pipeline):
        name, last = classifier.steps[-1]
        inner = _weight_parameter(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(classifier, "sample_weight") else None


def _with_seed(classifier: Any, seed: int) -> Any:
    """A clone whose random states are set, so that fits are reproducible."""
    from sklearn.base import clone

    copy = clone(classifier)
    unset = [
        name for name, value in copy.get_params().items() if name.split("__")[-1] == "random_state" and value is None
    ]
    return copy.set_params(**dict.fromkeys(unset, seed))


def _indexable(X: Any) -> Any:
    """``X`` with selectable rows; some classifiers refuse sparse matrices with 64-bit indices."""
    return compact(X.tocsr()) if hasattr(X, "tocsr") else X


def _rows(X: Any, rows: Indices) -> Any:
    from sklearn.utils import _safe_indexing

    return _safe_indexing(X, rows)
