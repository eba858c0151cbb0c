"""One EM iteration on Reuters against scikit-learn's batch LDA and the published updates in NumPy: C=10, T=40.

Gold labels, one absence prior for all classes, including the bound; passes over a document as in every fit: until
counts change by less than 1e-3 of their total, at most 30, extrapolated; early and later iterations. Targets: at most
1/25 of scikit-learn's iteration, at most 1/40 of ten passes in NumPy.
Needs the public data sets in $PALDA_DATA, and about five minutes.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.lda_peers import flat_batches, numpy_mean_field, padded_batches, sklearn_iterations
from palda.engine import Threads
from palda.errors import PaldaError
from palda.io import catalog
from palda.kernels import Topics
from palda.models.topics import EMSettings, bags_of, cut_shards, estimate_base_rates, first_params, run_em

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from benchmarks.lda_peers import Flat, Padded
    from palda.data import Dataset
    from palda.models.topics import Params

    Array = NDArray[np.float64]

N_TOPICS, N_ITERATIONS, N_REPEATS = 40, 16, 3
EARLY, LATE = slice(0, 5), slice(10, None)  # of the intervals between the ends of iterations
SKLEARN_TARGET, NUMPY_TARGET = 25, 40


def first(train: Dataset) -> Params:
    labels = train.Y.astype(np.float64)
    prior = estimate_base_rates(labels.sum(axis=0), len(labels))
    return first_params(
        train.X, prior, N_TOPICS, np.random.default_rng(0), smoothing=True, guess=labels, shared_absence=True
    )


def palda_iterations(train: Dataset, start: Params) -> Array:
    """Seconds from the end of one E-step to the end of the next: M-step, E-step and bound."""
    settings = EMSettings(shared_absence=True, max_iter=N_ITERATIONS, tol=0.0, engine=Threads(2))
    times: list[float] = []
    run_em(cut_shards(train.X, train.Y), start, settings, lambda _: times.append(time.perf_counter()))
    return np.diff(times)


def numpy_jobs_of(train: Dataset, start: Params) -> dict[str, Callable[[], object]]:
    """E-steps alone, in two layouts and batches of several sizes."""
    bags = bags_of(train.X)
    topics = Topics(start.topic_prior, start.word_weights)
    layouts: dict[str, Sequence[Padded | Flat]] = {}
    for size in (8, 32, 128):
        layouts[f"padded, {size} documents per batch"] = padded_batches(bags, size)
    for size in (8, 32):
        layouts[f"flat, {size} documents per batch"] = flat_batches(bags, size)
    return {name: partial(numpy_mean_field, batches, train.Y, topics, n_passes=10) for name, batches in layouts.items()}


def seconds(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def main() -> None:
    try:
        train = catalog.load("reuters").train
    except PaldaError as missing:
        print(f"skipped: {missing}")
        return
    start = first(train)
    numpy_jobs = numpy_jobs_of(train, start)
    palda_iterations(train, start)  # compile, or load the cache
    ours: list[Array] = []
    sklearn: dict[str, list[Array]] = {}
    by_numpy: dict[str, list[float]] = {}
    for _ in range(N_REPEATS):  # alternating
        for n_jobs in (1, 2):
            ours.append(palda_iterations(train, start))
            sklearn.setdefault(f"n_jobs={n_jobs}", []).append(
                sklearn_iterations(train.X, N_TOPICS, N_ITERATIONS, n_jobs)
            )
        for name, job in numpy_jobs.items():
            by_numpy.setdefault(name, []).append(seconds(job))
    report(ours, sklearn, by_numpy)


def report(ours: list[Array], sklearn: dict[str, list[Array]], by_numpy: dict[str, list[float]]) -> None:
    for title, part in (("early", EARLY), ("later", LATE)):
        mine = typical(ours, part)
        print(f"{title} iterations, 2 threads: {mine:.3f} s")
        for name, rounds in sklearn.items():
            print(f"  1/{typical(rounds, part) / mine:.1f} of scikit-learn, {name} ({typical(rounds, part):.2f} s)")
        for name, times in by_numpy.items():
            print(f"  1/{min(times) / mine:.1f} of NumPy, {name} ({min(times):.2f} s)")
        theirs = min(typical(rounds, part) for rounds in sklearn.values())
        numpy_best = min(min(times) for times in by_numpy.values())
        print(
            f"  against the fastest: 1/{theirs / mine:.1f} of scikit-learn (target 1/{SKLEARN_TARGET}), "
            f"1/{numpy_best / mine:.1f} of NumPy (target 1/{NUMPY_TARGET})"
        )


def typical(runs: list[Array], part: slice) -> float:
    """Mean over some iterations in the fastest run."""
    return float(min(rounds[part].mean() for rounds in runs))


if __name__ == "__main__":
    main()
