"""Online EM against batch EM, and five successive batches against one fit, on Reuters.

The bound of the test documents must be within 1% of batch EM's after at most five passes. Needs the public data sets in
$PALDA_DATA, and some minutes: ``python -m benchmarks online``.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from palda import CrowdPALDA, metrics, simulate
from palda.engine import Threads
from palda.errors import PaldaError
from palda.io import catalog
from palda.models.topics import (
    EMSettings,
    TopicPlan,
    default_n_topics,
    labelled_shards,
    run_em,
    start_params,
    total_statistics,
)

if TYPE_CHECKING:
    from palda.data import Dataset
    from palda.models.topics import Params, StepInfo

N_BATCHES, MAX_PASSES, TARGET = 5, 5, 0.01
TOLERANCES = (2e-3, 1e-4)


def compare_em(train: Dataset, test: Dataset) -> None:
    labels, held_out = train.Y.astype(float), labelled_shards(test.X, test.Y.astype(float))
    settings = EMSettings(engine=Threads(), max_iter=200)
    plan = TopicPlan(default_n_topics(train.X, labels.shape[1]), True, settings, [0])
    start, shards = start_params(train.X, labels, plan, 0), labelled_shards(train.X, labels)

    def held_out_bound(params: Params) -> float:
        found = total_statistics(held_out, params, settings)
        return found.bound / found.n_docs + float(np.log1p(-params.class_prior).sum())

    batch: dict[float, tuple[float, float]] = {}
    for tol in TOLERANCES:
        start_time = time.process_time()
        result = run_em(shards, start, replace(settings, tol=tol))
        cost = time.process_time() - start_time
        batch[tol] = held_out_bound(cast("Params", result.params)), cost
        print(
            f"batch EM, tol {tol:g}: {len(result.bounds)} iterations, held-out bound {batch[tol][0]:.3f} per document",
            flush=True,
        )
    ends, passes = [time.process_time()], []

    def watch(step: StepInfo) -> None:
        ends.append(time.process_time())
        passes.append(step)

    run_em(shards, start, replace(settings, max_iter=MAX_PASSES, tol=0.0, online_seed=0), watch)
    for number, step in enumerate(passes, 1):
        taken = ends[number] - ends[0]
        bound = held_out_bound(cast("Params", step.params))
        comparison = ", ".join(
            f"{100 * (bound / other - 1):+.2f}% and {taken / cost:.2f} of the cost (tol {tol:g})"
            for tol, (other, cost) in batch.items()
        )
        print(f"online EM, pass {number}: {bound:.3f}, against batch EM {comparison}", flush=True)
    worst = max(bound / other - 1 for other, _ in batch.values())
    print(f"after {MAX_PASSES} passes {'within' if worst < TARGET else 'NOT WITHIN'} {TARGET:.0%} (+: further from 0)")


def compare_batches(train: Dataset, test: Dataset) -> None:
    votes, annotators = simulate.crowd(train.Y, "paper", votes_per_doc=5, seed=0, doc_ids=train.doc_ids)

    def report(title: str, model: CrowdPALDA, taken: float) -> None:
        scores = metrics.scores(test.Y, model.predict_proba(test.X))
        known = model.annotator_quality_.set_index("annotator")["quality"].reindex(votes.annotators)
        print(
            f"{title}: micro-F1 {model.score(test.X, test.Y):.4f}, log-likelihood {scores.log_likelihood:.4f}, "
            f"annotator RMSE {metrics.annotator_rmse(known.to_numpy(), annotators.quality):.4f} ({taken:.0f} s)",
            flush=True,
        )

    start_time = time.process_time()
    report("one fit", CrowdPALDA(random_state=0).fit(train.corpus, votes), time.process_time() - start_time)
    model = CrowdPALDA(random_state=0)
    for number, rows in enumerate(np.array_split(np.arange(len(train.Y)), N_BATCHES), start=1):
        start_time = time.process_time()
        model.partial_fit(train.corpus.take(rows), votes.take(rows))
        report(f"after batch {number}", model, time.process_time() - start_time)


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    try:
        train, test = catalog.load("reuters")
    except PaldaError as missing:
        print(f"skipped: {missing}")
        return
    compare_em(train, test)
    compare_batches(train, test)


if __name__ == "__main__":
    main()
