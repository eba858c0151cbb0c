"""A fit with default settings to the gold labels of Reuters against tomotopy's supervised LDA: time and micro-F1.

tomotopy: T=40, one binary response per class, 200 sweeps, 2 workers in the faster parallel scheme; labels are estimates
of at least ½. Needs the public data sets in $PALDA_DATA, ``pip install 'palda[baselines]'``, and some minutes.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from palda import PALDA, metrics
from palda.errors import PaldaError
from palda.io import catalog

if TYPE_CHECKING:
    from types import ModuleType

    from palda.data import Counts, Dataset

N_TOPICS, N_SWEEPS, PROBE_SWEEPS = 40, 200, 10
N_REPEATS = 2


def as_words(counts: Counts) -> list[list[str]]:
    """Every document as a list of words, each repeated as often as it occurs."""
    return [
        [str(word) for word in np.repeat(counts.indices[start:stop], counts.data[start:stop])]
        for start, stop in zip(counts.indptr[:-1], counts.indptr[1:], strict=True)
    ]


def new_model(tomotopy: ModuleType, train: Dataset, seed: int) -> Any:
    model = tomotopy.SLDAModel(k=N_TOPICS, vars="b" * train.Y.shape[1], seed=seed)
    for words, labels in zip(as_words(train.X), train.Y.astype(float).tolist(), strict=True):
        model.add_doc(words, y=labels)
    return model


def fastest_scheme(tomotopy: ModuleType, train: Dataset) -> Any:
    """The parallel scheme with the fastest first sweeps, of those that the model supports."""
    times = {}
    for scheme in (tomotopy.ParallelScheme.COPY_MERGE, tomotopy.ParallelScheme.PARTITION):
        model = new_model(tomotopy, train, 0)
        try:
            times[scheme] = train_seconds(model, PROBE_SWEEPS, scheme)
        except RuntimeError:
            continue
    return min(times, key=lambda scheme: times[scheme])


def train_seconds(model: Any, n_sweeps: int, scheme: Any) -> float:
    start = time.perf_counter()
    model.train(n_sweeps, workers=2, parallel=scheme)
    return time.perf_counter() - start


def slda_f1(model: Any, test: Dataset) -> float:
    documents = [model.make_doc(words) for words in as_words(test.X)]
    model.infer(documents)
    return float(metrics.micro_f1(test.Y, np.array(model.estimate(documents)) >= 0.5))


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", "The training result may differ", RuntimeWarning)  # expected with 2 workers
    try:
        import tomotopy
    except ImportError:
        print("skipped: tomotopy is not installed; pip install 'palda[baselines]'")
        return
    try:
        train, test = catalog.load("reuters")
    except PaldaError as missing:
        print(f"skipped: {missing}")
        return
    PALDA(max_iter=1, random_state=0).fit(train.X[:200], train.Y[:200])  # compile, or load the cache
    scheme = fastest_scheme(tomotopy, train)
    ours, theirs = [], []
    for seed in range(N_REPEATS):  # alternating
        model = PALDA(random_state=seed)
        start = time.perf_counter()
        model.fit(train.X, train.Y)
        ours.append((time.perf_counter() - start, model.score(test.X, test.Y)))
        slda = new_model(tomotopy, train, seed + 1)
        theirs.append((train_seconds(slda, N_SWEEPS, scheme), slda_f1(slda, test)))
    (seconds, _), (their_seconds, _) = np.min(ours, axis=0), np.min(theirs, axis=0)
    (_, f1), (_, their_score) = np.mean(ours, axis=0), np.mean(theirs, axis=0)
    print(
        f"PALDA with default settings: 1/{their_seconds / seconds:.1f} of the time of tomotopy's SLDA "
        f"({seconds:.1f} s against {their_seconds:.1f} s, {scheme.name.lower()}); "
        f"test micro-F1 {f1:.3f} against {their_score:.3f} (shortest time and mean score of {N_REPEATS})"
    )


if __name__ == "__main__":
    main()
