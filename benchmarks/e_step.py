"""The compiled mean-field E-step against the NumPy reference on Reuters: T=40, gold labels, ten passes per document.

Needs the public data sets in $PALDA_DATA. Target: at least 10 times faster.
"""

from __future__ import annotations

import time

import numpy as np

from palda.engine import Threads, resolve_n_jobs
from palda.errors import PaldaError
from palda.io import catalog
from palda.kernels import Labels, PassLimits, Topics, compiled, reference
from palda.models.topics import (
    DocumentShard,
    base_rate_log_odds,
    cut_shards,
    estimate_base_rates,
    first_params,
    no_beliefs,
)

N_TOPICS = 40


def main() -> None:
    try:
        train = catalog.load("reuters").train
    except PaldaError as missing:
        print(f"skipped: {missing}")
        return
    labels = train.Y.astype(np.float64)
    prior = estimate_base_rates(labels.sum(axis=0), len(labels))
    params = first_params(train.X, prior, N_TOPICS, np.random.default_rng(0), smoothing=False)
    topics = Topics(params.topic_prior, params.word_weights)
    log_odds = np.tile(base_rate_log_odds(prior), (len(labels), 1))

    def run(kernel: object, n_jobs: int) -> float:
        def work(shard: DocumentShard) -> None:
            known = Labels(shard.known, log_odds[: len(shard.known)])
            nothing = no_beliefs(len(prior), N_TOPICS, "mean_field")
            kernel.mean_field(shard.bags, known, topics, PassLimits(10, 0.0), nothing)  # type: ignore[attr-defined]

        start = time.perf_counter()
        list(Threads(n_jobs).map(work, shards))
        return time.perf_counter() - start

    shards = cut_shards(train.X, train.Y)
    n_jobs = resolve_n_jobs(None)
    run(compiled, n_jobs)  # compile, or load the cache
    slow = run(reference, 1)
    for threads in sorted({1, n_jobs}):
        fast = run(compiled, threads)
        print(f"{threads} thread(s): {slow / fast:.1f} times faster ({fast:.2f} s against {slow:.2f} s)")


if __name__ == "__main__":
    main()
