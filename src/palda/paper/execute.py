"""Run one cell: load, fit, predict, measure. The workers' job."""

from __future__ import annotations

import time
import warnings
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from palda import metrics, simulate
from palda.paper.cells import Cell, CellRecord, versions
from palda.paper.methods import METHODS, REFERENCES
from palda.paper.tasks import load_task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.paper.methods import Fitted
    from palda.paper.tasks import Task

    Array = NDArray[np.float64]

__all__ = ["measure", "run_cell"]

_OF_LABELS = ("hamming_accuracy", "jaccard_accuracy", "micro_f1", "macro_f1", "subset_accuracy")
_LONGEST_WARNING = 200


def run_cell(cell: Cell, n_threads: int = 1) -> CellRecord:
    """Measures of a cell, with what was warned of and how long everything took."""
    method = METHODS[cell.method]
    if cell.method in ("palda", "published"):
        _compile()
    start = time.perf_counter()
    task = load_task(cell)
    features, test_features = task.features(method.features)
    model = method.build(cell.source, cell.seed, n_threads, cell.quick, **dict(cell.options))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = method.fit(model, features, task, cell)
        predicting = time.perf_counter()
        probs = np.asarray(fitted.model.predict_proba(test_features))
        predict_seconds = time.perf_counter() - predicting
        predictions = fitted.model.predict(test_features) if cell.method in REFERENCES else None
    measures = measure(task, fitted, probs, predictions) | {"predict_seconds": predict_seconds}
    return CellRecord(
        cell,
        measures,
        _details(task, fitted),
        tuple(dict.fromkeys(str(warning.message)[:_LONGEST_WARNING] for warning in caught)),
        time.perf_counter() - start,
        n_threads,
        datetime.now(UTC).isoformat(timespec="seconds"),
        versions(),
    )


def measure(task: Task, fitted: Fitted, probs: Array, predictions: Any = None) -> dict[str, float]:
    """Every measure on the test documents, at ½ and at the thresholds chosen; of consensus and annotators with votes.

    With ``predictions``, those are judged in place of probabilities at ½.
    """
    found = metrics.scores(task.test.Y, probs, predictions).as_dict()
    if fitted.thresholds is not None:
        chosen = metrics.scores(task.test.Y, probs, thresholds=fitted.thresholds).as_dict()
        found |= {f"{name}_chosen": chosen[name] for name in _OF_LABELS}
    found |= {"fit_seconds": fitted.fit_seconds, "choose_seconds": fitted.choose_seconds}
    if fitted.labels is not None:
        found["consensus_micro_f1"] = metrics.micro_f1(task.train.Y, np.asarray(fitted.labels) >= 0.5)
    if fitted.quality is not None and task.votes is not None:
        found["annotator_rmse"] = metrics.annotator_rmse(fitted.quality, task.true_quality)
        found["oracle_rmse"] = metrics.oracle_rmse(task.votes, task.train.Y, task.true_quality)
    return {name: float(value) for name, value in found.items()}


def _details(task: Task, fitted: Fitted) -> dict[str, list[float]]:
    if fitted.quality is None or task.true_quality is None:
        return {}
    pairs = {"quality": fitted.quality, "true_quality": task.true_quality}
    return {name: [round(float(value), 6) for value in values] for name, values in pairs.items()}


@lru_cache
def _compile() -> None:
    """Fit a toy once a process, so that no cell's time holds the compiler's."""
    toy = simulate.documents(80, 3, 4, 40, seed=0, doc_length=20)
    votes, _ = simulate.crowd(toy, "paper", votes_per_doc=3, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("palda", "published"):
            for source, said in (("gold", toy.labels), ("votes", votes)):
                model = METHODS[name].build(source, 0, 1, True, n_topics=4, max_iter=2)
                model.fit(toy.corpus, said).predict_proba(toy.corpus)
