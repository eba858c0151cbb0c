"""Run one cell: load the data, fit, predict, measure. Called in worker processes."""

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

    from palda.paper.methods import MethodFit
    from palda.paper.tasks import Task

_LABEL_MEASURES = ("hamming_accuracy", "jaccard_accuracy", "micro_f1", "macro_f1", "subset_accuracy")
_MAX_WARNING_CHARS = 200


def run_cell(cell: Cell, n_threads: int = 1) -> CellRecord:
    """Measures of a cell, with the warnings that were raised and the time it took."""
    method = METHODS[cell.method]
    if cell.method in ("palda", "published"):
        _compile()
    start = time.perf_counter()
    task = load_task(cell)
    features, test_features = task.features(method.features)
    model = method.build(cell.source, cell.seed, n_threads, cell.quick, **dict(cell.options))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = method.fit(model, features, task, cell)
        predict_start = time.perf_counter()
        given = {"features": task.values()[1]} if method.reads_values else {}
        probs = np.asarray(fit.model.predict_proba(test_features, **given))
        predict_seconds = time.perf_counter() - predict_start
        predictions = fit.model.predict(test_features) if cell.method in REFERENCES else None
    measures = _measures(task, fit, probs, predictions) | {"predict_seconds": predict_seconds}
    return CellRecord(
        cell,
        measures,
        _details(task, fit),
        tuple(dict.fromkeys(str(warning.message)[:_MAX_WARNING_CHARS] for warning in caught)),
        time.perf_counter() - start,
        n_threads,
        datetime.now(UTC).isoformat(timespec="seconds"),
        versions(),
    )


def _measures(task: Task, fit: MethodFit, probs: NDArray[np.float64], predictions: Any) -> dict[str, float]:
    """Measures on the test documents at ½ and at chosen thresholds; with votes, also of consensus and annotators.

    ``predictions``, if not None, replace the probabilities thresholded at ½.
    """
    values = metrics.scores(task.test.Y, probs, predictions).as_dict()
    if fit.thresholds is not None:
        chosen = metrics.scores(task.test.Y, probs, thresholds=fit.thresholds).as_dict()
        values |= {f"{name}_chosen": chosen[name] for name in _LABEL_MEASURES}
    values |= {"fit_seconds": fit.fit_seconds, "choose_seconds": fit.choose_seconds}
    if fit.labels is not None:
        values["consensus_micro_f1"] = metrics.micro_f1(task.train.Y, np.asarray(fit.labels) >= 0.5)
    if fit.quality is not None and task.votes is not None:
        values["annotator_rmse"] = metrics.annotator_rmse(fit.quality, task.true_quality)
        values["oracle_rmse"] = metrics.oracle_rmse(task.votes, task.train.Y, task.true_quality)
    return {name: float(value) for name, value in values.items()}


def _details(task: Task, fit: MethodFit) -> dict[str, list[float]]:
    if fit.quality is None or task.true_quality is None:
        return {}
    pairs = {"quality": fit.quality, "true_quality": task.true_quality}
    return {name: [round(float(value), 6) for value in values] for name, values in pairs.items()}


@lru_cache
def _compile() -> None:
    """Fit a toy data set once per process, so that no cell's time includes compilation."""
    toy = simulate.documents(80, 3, 4, 40, seed=0, doc_length=20)
    votes, _ = simulate.crowd(toy, "paper", votes_per_doc=3, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("palda", "published"):
            for source, labels in (("gold", toy.labels), ("votes", votes)):
                model = METHODS[name].build(source, 0, 1, True, n_topics=4, max_iter=2)
                model.fit(toy.corpus, labels).predict_proba(toy.corpus)
