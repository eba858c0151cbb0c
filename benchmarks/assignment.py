"""Time of ``assign`` and ``update`` on 100,000 documents with 20 classes, and their ratios to a full fit.

Targets: ``assign`` for 50 annotators below 1 s, ``update`` with 10 votes below 50 ms, both in CPU time of one process.
The fit has base rates and few rounds, so that real fits take longer and the ratios are smaller.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from palda import CrowdPALDA, simulate

if TYPE_CHECKING:
    from collections.abc import Callable

N_DOCS, N_CLASSES, VOTES_PER_DOC, N_WORDS = 100_000, 20, 3, 50
REPEATS = 5


def seconds(action: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Median CPU time, after a first call that compiles and fills caches."""
    action()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return float(np.median(times))


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    rng = np.random.default_rng(0)
    truth = (rng.random((N_DOCS, N_CLASSES)) < 0.1).astype(np.int8)
    people = simulate.annotators("paper", n_classes=N_CLASSES, seed=0)
    ids = [f"doc-{number}" for number in range(N_DOCS)]
    votes = simulate.votes(truth, people, votes_per_doc=VOTES_PER_DOC, seed=0, doc_ids=ids)
    words = rng.integers(N_WORDS, size=5 * N_DOCS), np.repeat(np.arange(N_DOCS), 5)
    counts = sparse.csr_array((np.ones(5 * N_DOCS), words[::-1]), shape=(N_DOCS, N_WORDS))
    model = CrowdPALDA(2, label_prior="base_rate", max_iter=3, tol=1.0, random_state=0, n_jobs=1, copies=False)
    start = time.process_time()
    model.fit(counts, votes)
    fit = time.process_time() - start
    print(f"fit (base rates, 3 rounds): {fit:.1f} s", flush=True)
    numbers = iter(rng.permutation(N_DOCS).tolist())

    def ten_votes() -> None:
        rows = {
            "doc": [ids[next(numbers)] for _ in range(10)],
            "annotator": votes.annotators[:10],
            "label": votes.classes[:10],
            "value": 1,
        }
        model.update(pd.DataFrame(rows))

    for name, action in {
        "assign, one document for each of 50 annotators": model.assign,
        "assign, 1000 pairs": lambda: model.assign(n=1000),
        "assign, one annotator": lambda: model.assign([str(votes.annotators[0])]),
        "assign, 50 pairs, single classes": lambda: model.assign(n=50, ask="labels"),
        "update, 10 votes on 10 documents": ten_votes,
    }.items():
        taken = seconds(action)
        print(f"{name}: {1000 * taken:.0f} ms, {taken / fit:.4f} of the fit", flush=True)


if __name__ == "__main__":
    main()
