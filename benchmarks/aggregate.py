"""Aggregation without texts: comparison with crowd-kit, ten million votes, and the effect of label-set profiles.

1. 2,000 documents x 5 votes of 50 annotators x 10 classes against crowd-kit's ``BinaryRelevance(OneCoinDawidSkene)``,
   both from a data frame. Target: 100 times faster, no less accurate. crowd-kit learns one skill per annotator and
   class, palda one skill per annotator. Needs ``palda[baselines]``.
2. 10 million votes with the default annotator model and with two coins. Targets: a peak below 1 GB for the whole
   process, which also simulates them, and at most twice the time of two coins.
3. Consensus micro-F1 on real label sets, ``n_profiles="auto"`` against 1, mean of five crowds with the paper's quality
   profile. Needs the data sets (``PALDA_DATA``). Targets: with 2 and 5 votes per document yeast +.012, scene +.02,
   enron +.005; with 1 and 2 votes never worse by more than .005.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from palda import metrics, simulate
from palda.errors import PaldaError
from palda.estimators import aggregate
from palda.io import catalog

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from palda.data import Votes

N_REPEATS = 5
ANNOTATORS = ("one_coin", "two_coin")
DATA_SETS = ("yeast", "scene", "enron", "reuters", "bibtex")
VOTES_PER_DOC = (1, 2, 5)
N_CROWDS = 5

_PEAK = """
import resource
import time
import numpy as np
from palda import aggregate, simulate
rng = np.random.default_rng(0)
sets = rng.beta(0.3, 0.7, (6, 10))
truth = (rng.random((200_000, 10)) < sets[rng.integers(0, 6, 200_000)]).astype(np.int8)
votes, _ = simulate.crowd(truth, "paper", seed=0, votes_per_doc=5)
aggregate(votes.take(slice(0, 1000)))  # loads the compiled kernels
start = time.process_time()
found = aggregate(votes)
seconds = time.process_time() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
start = time.process_time()
aggregate(votes, "two_coin", copies=False)
print(len(votes), peak, seconds, seconds / (time.process_time() - start), len(found.profiles.weights))
"""  # Linux counts kilobytes here


def timed(job: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = job()
    return time.perf_counter() - start, result


def compare_crowd_kit() -> None:
    from crowdkit.aggregation import BinaryRelevance, OneCoinDawidSkene

    rng = np.random.default_rng(0)
    truth = (rng.random((2000, 10)) < rng.uniform(0.1, 0.5, 10)).astype(np.int8)
    votes, _ = simulate.crowd(truth, "paper", seed=0, votes_per_doc=5)
    ours = votes.to_frame().astype({"doc": str, "annotator": str, "label": str})
    theirs = as_sets(votes)
    like_crowd_kit = {"annotators": "one_coin", "n_profiles": 1, "copies": False}  # which searches no copies
    aggregate(ours, n_profiles=1)  # loads the compiled kernels
    pairs, default_pairs = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas' deprecations
        for _ in range(N_REPEATS):  # alternating, so that other load on the machine slows both
            our_seconds, found = timed(lambda: aggregate(ours, **like_crowd_kit))
            default_seconds, _ = timed(lambda: aggregate(ours, n_profiles=1))
            their_seconds, sets = timed(lambda: BinaryRelevance(OneCoinDawidSkene(n_iter=100)).fit_predict(theirs))
            pairs.append(their_seconds / our_seconds)
            default_pairs.append(their_seconds / default_seconds)
    their_labels = np.zeros_like(truth)
    for doc, classes in sets.items():
        their_labels[int(doc), [int(name) for name in classes]] = 1
    rows = [int(name) for name in found.doc_ids]
    our_f1, their_f1 = (
        metrics.micro_f1(true, labels) for true, labels in ((truth[rows], found.consensus > 0.5), (truth, their_labels))
    )
    print(
        f"{len(votes):,} votes: {statistics.median(pairs):.0f} times as fast as crowd-kit "
        f"({min(pairs):.0f} to {max(pairs):.0f}), {statistics.median(default_pairs):.0f} times with the default "
        f"annotator model and a search for copies; micro-F1 {our_f1:.4f}, crowd-kit {their_f1:.4f}",
        flush=True,
    )


def as_sets(votes: Votes) -> pd.DataFrame:
    """One row per (document, annotator) with the list of classes, the input of crowd-kit."""
    frame = votes.to_frame().astype({"doc": str, "annotator": str, "label": str, "value": int})
    frame["label"] = frame["label"].where(frame["value"] == 1)
    sets = frame.groupby(["doc", "annotator"], sort=False)["label"].agg(lambda names: names.dropna().tolist())
    return sets.reset_index().rename(columns={"doc": "task", "annotator": "worker"})


def ten_million_votes() -> None:
    done = subprocess.run([sys.executable, "-c", _PEAK], check=True, capture_output=True, text=True)
    n_votes, gigabytes, seconds, ratio, n_profiles = map(float, done.stdout.split())
    print(
        f"{n_votes:,.0f} votes: peak {gigabytes:.2f} GB, {seconds:.0f} s of processor time, {ratio:.2f} times that of "
        f"two coins without a search for copies, {n_profiles:.0f} profiles",
        flush=True,
    )


def compare_profiles() -> None:
    print("consensus micro-F1, 1 profile -> auto (profiles chosen)")
    for name in DATA_SETS:
        try:
            truth = catalog.load(name).train.Y
        except PaldaError as missing:
            print(f"  {name}: skipped ({missing})")
            continue
        for votes_per_doc in VOTES_PER_DOC:
            for annotators in ANNOTATORS:
                print(
                    f"  {name}, {votes_per_doc} votes, {annotators}: {gains(truth, votes_per_doc, annotators)}",
                    flush=True,
                )


def gains(truth: np.ndarray, votes_per_doc: int, annotators: str) -> str:
    rows = []
    for seed in range(N_CROWDS):
        votes, _ = simulate.crowd(truth, "paper", seed=seed, votes_per_doc=votes_per_doc)
        single, multiple = (aggregate(votes, annotators, n) for n in (1, "auto"))
        scores = [metrics.micro_f1(truth, found.consensus > 0.5) for found in (single, multiple)]
        rows.append((*scores, len(multiple.profiles.weights)))
    before, after, chosen = np.array(rows).T
    numbers = ", ".join(f"{number:.0f}" for number in chosen)
    return f"{before.mean():.3f} -> {after.mean():.3f}, {(after - before).mean():+.4f} ({numbers})"


def main() -> None:
    compare_crowd_kit()
    ten_million_votes()
    compare_profiles()


if __name__ == "__main__":
    main()
