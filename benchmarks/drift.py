"""Annotators who change over time: false flags, delay until a change is found, and consensus with rates per period.

1. 20 crowds of 50 annotators who do not change. Target: at most 5% of the annotators of a crowd are flagged.
2. 5 of 50 annotators of the paper's profile change from quality .85 to .55 half-way. The search runs each time that
   they have judged five more documents, on the votes until then. Target: found within 100 judged documents on average.
3. Consensus micro-F1 with constant rates and with rates per period, if a tenth or a third of the annotators change, on
   simulated label sets and on those of public data sets (in $PALDA_DATA). Both are ``aggregate`` with one label-set
   profile; rates per period are used only where they predict hidden votes better.
4. CPU time and memory of the search on 10 million votes of 700 annotators.

``python -m benchmarks drift``; about ten minutes.
"""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING

import numpy as np

from palda import metrics, simulate
from palda.engine import Threads
from palda.errors import PaldaError
from palda.estimators import ANNOTATOR_MODELS, aggregate
from palda.io import catalog
from palda.models.crowd import (
    CrowdSettings,
    confirmed_changes,
    count_votes,
    cut_votes,
    fit_crowd,
    initial_label_probs,
    start_belief,
    start_label_probs,
    start_state,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.models.crowd import Changes
    from palda.models.crowd.em import CrowdFit

    Labels = NDArray[np.int8]

N_ANNOTATORS, N_CHANGED = 50, 5
FRESH, WORSE = 0.85, 0.55
N_CROWDS = 20
N_DOCS = 2000
DATA_SETS = ("enron", "yeast", "reuters")
SETTINGS = CrowdSettings(ANNOTATOR_MODELS["auto"](), engine=Threads(2))


def unknown(votes: Votes) -> Labels:
    return np.full((votes.n_docs, votes.n_classes), -1, dtype=np.int8)


def fitted(votes: Votes) -> CrowdFit:
    known, model = unknown(votes), SETTINGS.annotators
    probs = start_label_probs(votes, known, initial_label_probs(votes, known), SETTINGS)
    belief = model.update(count_votes(model, votes, probs), start_belief(model, votes))
    return fit_crowd(cut_votes(votes, known), start_state(belief, probs), SETTINGS)


def changes_in(votes: Votes, fit: CrowdFit | None = None) -> Changes:
    return confirmed_changes(votes, unknown(votes), fit or fitted(votes), SETTINGS)


def newsroom(seed: int, n_classes: int = 10, n_docs: int = N_DOCS) -> Labels:
    return simulate.newsroom(n_docs, seed=seed).labels[:, :n_classes]


def votes_with_changes(
    truth: Labels, seed: int, votes_per_doc: int, n_changed: int, last: float = WORSE, **options: object
) -> Votes:
    """Votes of the paper's crowd, in which the first annotators of a random order change."""
    n_classes = truth.shape[1]
    quality = np.random.default_rng(seed).permutation(
        simulate.annotators("paper", n_classes=n_classes, seed=seed).quality
    )
    before, after = quality.copy(), quality.copy()
    if n_changed:
        before[:n_changed], after[:n_changed] = FRESH, last
    crowds = [simulate.annotators(rates, n_classes=n_classes, seed=seed) for rates in (before, after)]
    return simulate.drifting_votes(truth, *crowds, votes_per_doc=votes_per_doc, seed=seed, **options)


def false_flags() -> None:
    print(f"{N_CROWDS} crowds of {N_ANNOTATORS} annotators who do not change, share of them flagged: mean (maximum)")
    for behaviour in ("one_coin", "two_coin", "per_class"):
        for n_classes, votes_per_doc in ((10, 5), (10, 2), (1, 5)):
            shares = []
            for seed in range(N_CROWDS):
                annotators = simulate.annotators("paper", n_classes=n_classes, seed=seed, behaviour=behaviour)
                options = {"votes_per_doc": votes_per_doc, "seed": seed}
                truth = newsroom(seed, n_classes)
                found = changes_in(simulate.drifting_votes(truth, annotators, annotators, **options))
                shares.append(len(set(found.annotator.tolist())) / N_ANNOTATORS)
            print(
                f"  {behaviour:10} {n_classes:2} classes, {votes_per_doc} votes per document: "
                f"{np.mean(shares):.3f} ({np.max(shares):.2f})",
                flush=True,
            )


def delays(n_classes: int, votes_per_doc: int, shape: str, seeds: Sequence[int]) -> None:
    """Judged documents from the change, or from the start of a gradual one, until it is found.

    A change that is not found by the end counts with all documents judged after it.
    """
    step = 5 * N_ANNOTATORS // votes_per_doc  # documents, so that everybody judges about five more
    until_found, n_false, n_missed = [], 0, 0
    for seed in seeds:
        votes = votes_with_changes(newsroom(seed, n_classes, 3000), seed, votes_per_doc, N_CHANGED, shape=shape, at=0.5)
        judged = [np.unique(votes.doc[votes.annotator == annotator]) for annotator in range(N_CHANGED)]
        changed_at = [docs[len(docs) // 2] for docs in judged]
        waiting, false = set(range(N_CHANGED)), set()
        for n_docs in range(min(changed_at) - step, votes.n_docs + 1, step):
            found = changes_in(votes.take(slice(0, n_docs))).annotator.tolist()
            false |= {annotator for annotator in found if annotator >= N_CHANGED}
            for annotator in waiting & set(found):
                docs = judged[annotator]
                until_found.append(int(np.sum((docs >= changed_at[annotator]) & (docs < n_docs))))
            waiting -= set(found)
            if not waiting:
                break
        until_found += [int(np.sum(judged[annotator] >= changed_at[annotator])) for annotator in waiting]
        n_false += len(false)
        n_missed += len(waiting)
    print(
        f"  {shape:8} {n_classes:2} classes, {votes_per_doc} votes per document: mean {np.mean(until_found):5.1f}, "
        f"median {np.median(until_found):5.1f}, nine tenths within {np.quantile(until_found, 0.9):.0f} "
        f"judged documents; {n_missed} of {len(seeds) * N_CHANGED} not found by the end; "
        f"{n_false} of {len(seeds) * (N_ANNOTATORS - N_CHANGED)} others flagged in any search",
        flush=True,
    )


def consensus(name: str, truths: Sequence[Labels]) -> None:
    for votes_per_doc in (2, 3, 5):
        for n_changed in (0, N_ANNOTATORS // 10, N_ANNOTATORS // 3):
            rows = []
            for seed, truth in enumerate(truths):
                votes = votes_with_changes(truth, seed, votes_per_doc, n_changed)
                options = {"n_profiles": 1, "copies": False}
                found = [aggregate(votes, drift=drift, **options) for drift in (False, True)]
                scores = [metrics.micro_f1(truth, one.consensus > 0.5) for one in found]
                is_found = np.isin(votes.annotators[:n_changed], found[1].changes["annotator"])
                rows.append((*scores, is_found.sum()))
            constant, by_period, n_found = np.mean(rows, axis=0)
            print(
                f"  {name:9} {votes_per_doc} votes per document, {n_changed:2} change: constant {constant:.4f}, "
                f"with drift {by_period:.4f} ({n_found:.1f} of {n_changed} found)",
                flush=True,
            )


def scale() -> None:
    rng = np.random.default_rng(0)
    sets = rng.beta(0.3, 0.7, (6, 10))
    truth = (rng.random((200_000, 10)) < sets[rng.integers(0, 6, 200_000)]).astype(np.int8)
    annotators = simulate.annotators(rng.uniform(0.6, 0.95, 700), n_classes=10)
    votes = simulate.drifting_votes(truth, annotators, annotators, votes_per_doc=5)
    fit = fitted(votes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    start = time.process_time()
    changes = changes_in(votes, fit)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{len(votes):,} votes: {time.process_time() - start:.1f} s of CPU time, {len(changes)} of 700 annotators "
        f"flagged, peak {after:.2f} GB (before the search {before:.2f})",
        flush=True,
    )


def main() -> None:
    false_flags()
    print(f"quality {FRESH} to {WORSE} half-way; judged documents until it is found")
    for n_classes, votes_per_doc in ((10, 5), (10, 3), (10, 2), (3, 5), (1, 5)):
        delays(n_classes, votes_per_doc, "sudden", range(4))
    delays(10, 5, "gradual", range(4))
    print("consensus micro-F1, means over crowds")
    consensus("newsroom", [newsroom(seed) for seed in range(5)])
    for name in DATA_SETS:
        try:
            train, _ = catalog.load(name)
        except PaldaError as missing:
            print(f"  skipped: {missing}")
            continue
        consensus(name, [train.Y] * 3)
    scale()


if __name__ == "__main__":
    main()
