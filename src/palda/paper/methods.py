"""Methods of the experiments: palda with default settings, palda as published, and the baselines.

Importing this module is cheap; estimators are imported when one is built.
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

    from numpy.typing import NDArray

    from palda.data import Array
    from palda.paper.baselines import Baseline
    from palda.paper.tasks import FeatureKind, Task

REFERENCES = ("nothing", "majority")
"""Baselines that ignore the documents: they show what a measure awards for no knowledge."""

REAL_VALUED = ("scene", "yeast")
"""Data sets of real values."""

_IGNORED_PARAMETERS = ("random_state", "n_jobs", "engine", "verbose")  # the cell has the seed; others change no result


class MethodFit(NamedTuple):
    """A fitted model with its thresholds, consensus, annotator qualities and times."""

    model: Any
    thresholds: Array | None  # (classes,); None if not chosen
    labels: NDArray[Any] | None  # (documents, classes): estimated training labels; None if the truth was used
    quality: Array | None  # (annotators,)
    fit_seconds: float
    choose_seconds: float  # time to choose thresholds; NaN if it is part of the fit or not done


@dataclass(frozen=True)
class Method:
    """A method: the labels it can learn from, its features, and how it is built and fitted."""

    name: str
    title: str
    sources: tuple[Source, ...]
    features: FeatureKind
    build: Callable[..., Any]  # (source, seed, n_jobs, quick, **options) -> estimator
    fit: Callable[[Any, Any, Task, Cell], MethodFit]  # (estimator, features, task, cell)
    package: str | None = None
    reads_values: bool = False
    """Whether the method reads real values beside words, where a data set has them."""


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
    """A cell that includes all parameters of its method, so that its key depends on them."""
    given = tuple(sorted((options or {}).items()))
    settings = _settings(method, source, given, quick)
    if METHODS[method].reads_values and data in REAL_VALUED:
        settings = tuple(sorted((*settings, ("features", "values"))))
    return Cell(
        data,
        method,
        source,
        seed,
        fraction,
        "" if source == "gold" else crowd,
        0 if source == "gold" else votes_per_doc,
        given,
        settings,
        quick,
    )


@lru_cache(maxsize=1024)
def _settings(
    name: str, source: Source, options: tuple[tuple[str, Setting], ...], quick: bool
) -> tuple[tuple[str, Setting], ...]:
    """Every parameter of the estimator that may change its results, and the versions of the packages it uses."""
    method = METHODS[name]
    try:
        parameters = method.build(source, 0, 1, quick, **dict(options)).get_params(deep=True)
    except (PaldaError, ImportError):
        return ()  # it cannot be built here; running the cell reports why
    settings = {
        key: _json_value(value) for key, value in parameters.items() if key.split("__")[-1] not in _IGNORED_PARAMETERS
    }
    for package in filter(None, (method.package, "crowd-kit" if source == "dawid_skene" else None)):
        settings[f"{package} version"] = package_version(package)
    return tuple(sorted(settings.items()))


def _json_value(value: Any) -> Setting:
    """A value that JSON can hold; the name of the class for an estimator, whose parameters are listed separately."""
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    return type(value).__name__ if hasattr(value, "get_params") else repr(value)


def _build_palda(name: str, source: Source, seed: int, n_jobs: int, quick: bool, **options: Any) -> Any:
    """The default or the published model; the latter chooses its thresholds after the fit, which they do not change."""
    del quick
    from palda.estimators import PALDA, CrowdPALDA

    kind = PALDA if source == "gold" else CrowdPALDA
    if name == "published":
        return kind.as_published(random_state=seed, n_jobs=n_jobs, thresholds="micro_f1", **options)
    return kind(random_state=seed, n_jobs=n_jobs, **options)


def _fit_palda(model: Any, words: Any, task: Task, cell: Cell) -> MethodFit:
    """Fit an estimator of palda, which chooses thresholds on held-out documents itself."""
    start = time.perf_counter()
    values, _ = task.values() if METHODS[cell.method].reads_values else (None, None)
    model.fit(words, task.train.Y if cell.source == "gold" else task.votes, features=values)
    seconds = time.perf_counter() - start
    if cell.source == "gold":
        return MethodFit(model, model.thresholds_, None, None, seconds, math.nan)
    quality = model.annotator_quality_["quality"].to_numpy()
    return MethodFit(model, model.thresholds_, model.consensus_, quality, seconds, math.nan)


def _build_baseline(name: str, source: Source, seed: int, n_jobs: int, quick: bool, *, choose: bool = True) -> Any:
    del choose  # read by _fit_baseline
    baselines = CROWD_BASELINES if source == "votes" else BASELINES
    return baselines[name].make(seed, n_jobs, quick)


def _fit_baseline(model: Any, features: Any, task: Task, cell: Cell) -> MethodFit:
    """Fit a baseline and choose its thresholds, which takes three more fits.

    Baselines that ignore the documents, and cells with ``choose=False``, have no thresholds.
    """
    from palda.metrics import choose_thresholds
    from palda.paper.baselines import out_of_fold_probs
    from palda.paper.tasks import task_labels

    training_labels: Any = task.train.Y if cell.source == "gold" else task.votes
    estimated, seconds_before = None, 0.0
    if cell.source == "majority" or cell.source == "dawid_skene":
        (training_labels, estimated), seconds_before = task_labels(task, cell.source)
    start = time.perf_counter()
    model.fit(features, training_labels)
    fit_seconds = seconds_before + time.perf_counter() - start
    if cell.source == "votes":
        estimated = model.targets_
    if cell.method in REFERENCES or cell.option("choose") is False:
        return MethodFit(model, None, estimated, None, fit_seconds, math.nan)
    start = time.perf_counter()
    probs = out_of_fold_probs(model, features, training_labels, random_state=task.seed)
    thresholds = choose_thresholds(task.train.Y if estimated is None else estimated, probs, "micro_f1")
    return MethodFit(model, thresholds, estimated, None, fit_seconds, time.perf_counter() - start)


def _baseline_method(baseline: Baseline) -> Method:
    sources: tuple[Source, ...] = ("gold", "majority", "dawid_skene")
    if baseline.name in REFERENCES:
        sources = ("gold",)
    elif baseline.name in CROWD_BASELINES:
        sources = ("votes",)
    return Method(
        baseline.name,
        baseline.title,
        sources,
        baseline.features,
        partial(_build_baseline, baseline.name),
        _fit_baseline,
        baseline.package,
    )


METHODS: Mapping[str, Method] = {
    "palda": Method(
        "palda",
        "palda, default",
        ("gold", "votes"),
        "words",
        partial(_build_palda, "palda"),
        _fit_palda,
        reads_values=True,
    ),
    "published": Method(
        "published",
        "ML-PA-LDA, as published",
        ("gold", "votes"),
        "pooled",
        partial(_build_palda, "published"),
        _fit_palda,
    ),
    **{baseline.name: _baseline_method(baseline) for baseline in (CROWD_BASELINES["raykar"], *BASELINES.values())},
}
"""Every method by its name on the command line."""
