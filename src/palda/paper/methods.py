"""Who takes part: palda by default and as published, and its rivals; and how each learns from which labels.

Importing this costs nothing; estimators are imported when one is built.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from palda.errors import PaldaError
from palda.io import package_version
from palda.paper.baselines import BASELINES, CROWD_BASELINES
from palda.paper.cells import Cell, Setting, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from palda.paper.baselines import Baseline
    from palda.paper.tasks import Features, Task

    Array = NDArray[np.float64]

__all__ = ["METHODS", "REFERENCES", "Fitted", "Method", "new_cell"]

REFERENCES = ("nothing", "majority")
"""Rows that learn nothing from a document: what they reach is what a measure gives away."""

_LEFT_OUT = ("random_state", "n_jobs", "engine", "verbose")  # the seed is the cell's own; the others change no result


class Fitted(NamedTuple):
    """A fitted model and what was learned beside it."""

    model: Any
    thresholds: Array | None  # None where none were chosen
    labels: NDArray[Any] | None  # what it took for the labels of the training documents, if not the truth
    quality: Array | None
    fit_seconds: float
    choose_seconds: float  # NaN where that is a part of the fit, or not done


@dataclass(frozen=True)
class Method:
    """A method: which labels it can learn from, which features it wants, how it is built and fitted."""

    name: str
    title: str
    sources: tuple[Source, ...]
    features: Features
    build: Callable[..., Any]  # (source, seed, n_jobs, quick, **options) -> estimator
    fit: Callable[[Any, Any, Task, Cell], Fitted]  # (estimator, features, task, cell)
    package: str | None = None


def new_cell(
    data: str,
    method: str,
    source: Source,
    seed: int,
    *,
    quick: bool = False,
    fraction: float = 1.0,
    crowd: str = "paper",
    votes_per_doc: int = 5,
    options: Mapping[str, Setting] | None = None,
) -> Cell:
    """A cell with all parameters of its method spelled out, so that its key knows them."""
    asked = tuple(sorted((options or {}).items()))
    return Cell(
        data,
        method,
        source,
        seed,
        fraction,
        "" if source == "gold" else crowd,
        0 if source == "gold" else votes_per_doc,
        asked,
        _settings(method, source, asked, quick),
        quick,
    )


@lru_cache(maxsize=1024)
def _settings(
    name: str, source: Source, options: tuple[tuple[str, Setting], ...], quick: bool
) -> tuple[tuple[str, Setting], ...]:
    """Every parameter of the estimator that may change its results, and the versions of packages it takes."""
    method = METHODS[name]
    try:
        parameters = method.build(source, 0, 1, quick, **dict(options)).get_params(deep=True)
    except (PaldaError, ImportError):
        return ()  # it cannot be built here: the cell will say why when it is run
    found = {key: _plain(value) for key, value in parameters.items() if key.split("__")[-1] not in _LEFT_OUT}
    for package in filter(None, (method.package, "crowd-kit" if source == "dawid_skene" else None)):
        found[f"{package} version"] = package_version(package)
    return tuple(sorted(found.items()))


def _plain(value: Any) -> Setting:
    """What JSON can hold; an estimator's own parameters are listed beside it, so its class will do."""
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    return type(value).__name__ if hasattr(value, "get_params") else repr(value)


def _build_default(source: Source, seed: int, n_jobs: int, quick: bool, **options: Any) -> Any:
    del quick
    from palda.estimators import PALDA, CrowdPALDA

    kind = PALDA if source == "gold" else CrowdPALDA
    return kind(random_state=seed, n_jobs=n_jobs, **options)


def _build_published(source: Source, seed: int, n_jobs: int, quick: bool, **options: Any) -> Any:
    """As published; thresholds are chosen beside the fit, which stays what it is, and ½ is measured as well."""
    del quick
    from palda.estimators import PALDA, CrowdPALDA

    kind = PALDA if source == "gold" else CrowdPALDA
    return kind.as_published(random_state=seed, n_jobs=n_jobs, thresholds="micro_f1", **options)


def _fit_ours(model: Any, words: Any, task: Task, cell: Cell) -> Fitted:
    """Our estimators choose thresholds on documents they hold back, as a part of every fit."""
    start = time.perf_counter()
    model.fit(words, task.train.Y if cell.source == "gold" else task.votes)
    seconds = time.perf_counter() - start
    if cell.source == "gold":
        return Fitted(model, model.thresholds_, None, None, seconds, math.nan)
    quality = model.annotator_quality_["quality"].to_numpy()
    return Fitted(model, model.thresholds_, model.consensus_, quality, seconds, math.nan)


def _build_rival(name: str, source: Source, seed: int, n_jobs: int, quick: bool, *, choose: bool = True) -> Any:
    del choose  # thresholds are chosen beside the fit
    rivals = CROWD_BASELINES if source == "votes" else BASELINES
    return rivals[name].make(seed, n_jobs, quick)


def _fit_rival(model: Any, features: Any, task: Task, cell: Cell) -> Fitted:
    """A rival, and unless the cell has ``choose=False``, which saves three fits, its thresholds."""
    from palda.paper.tasks import aggregated

    source = cell.source
    taught: Any = task.train.Y if source == "gold" else task.votes
    labels, seconds_before = None, 0.0
    if source == "majority" or source == "dawid_skene":
        taught, labels, seconds_before = aggregated(task, source)
    start = time.perf_counter()
    model.fit(features, taught)
    fit_seconds = seconds_before + time.perf_counter() - start
    if source == "votes":
        labels = model.targets_
    if cell.option("choose") is False:
        return Fitted(model, None, labels, None, fit_seconds, math.nan)
    start = time.perf_counter()
    thresholds = _thresholds(model, features, taught, task.train.Y if labels is None else labels, task.seed)
    return Fitted(model, thresholds, labels, None, fit_seconds, time.perf_counter() - start)


def _thresholds(model: Any, features: Any, taught: Any, targets: Any, seed: int) -> Array:
    """Chosen with what clones of a rival say about documents that they have not seen."""
    from palda.metrics import choose_thresholds
    from palda.paper.baselines.thresholded import out_of_fold_probs

    return choose_thresholds(targets, out_of_fold_probs(model, features, taught, random_state=seed), "micro_f1")


def _fit_reference(model: Any, features: Any, task: Task, cell: Cell) -> Fitted:
    """Rows that predict the same for every document have nothing to choose."""
    del cell
    start = time.perf_counter()
    model.fit(features, task.train.Y)
    return Fitted(model, None, None, None, time.perf_counter() - start, math.nan)


def _rival(baseline: Baseline) -> Method:
    sources: tuple[Source, ...] = ("gold", "majority", "dawid_skene")
    if baseline.name in REFERENCES:
        sources = ("gold",)
    elif baseline.name in CROWD_BASELINES:
        sources = ("votes",)
    return Method(
        baseline.name,
        baseline.title,
        sources,
        "values" if baseline.kind == "values" else "words",
        partial(_build_rival, baseline.name),
        _fit_reference if baseline.name in REFERENCES else _fit_rival,
        baseline.extra,
    )


METHODS: Mapping[str, Method] = {
    "palda": Method("palda", "palda, default", ("gold", "votes"), "words", _build_default, _fit_ours),
    "published": Method(
        "published", "ML-PA-LDA, as published", ("gold", "votes"), "pooled", _build_published, _fit_ours
    ),
    **{baseline.name: _rival(baseline) for baseline in (CROWD_BASELINES["raykar"], *BASELINES.values())},
}
"""Every method by the name it has on the command line."""
