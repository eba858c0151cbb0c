"""Growth of the cost of a default crowd fit, and of an EM iteration, with documents, classes and topics.

Simulated documents with 60 distinct words each. Whole fits from three votes per document: at most documents to the
power 1.05 and classes to the power .8. Iterations with gold labels: linear in documents, no worse than linear in
classes and topics. About six minutes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from palda import CrowdPALDA, simulate
from palda.engine import Threads
from palda.kernels import PassLimits
from palda.models.topics import EMSettings, cut_shards, estimate_base_rates, first_params, run_em

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from palda.data import Counts
    from palda.models.topics import StepInfo

SIZES, CLASSES, TOPICS = (1_000, 10_000, 100_000), (5, 10, 20, 40), (10, 20, 40, 80, 160)
FIT_CLASSES, FIT_SIZE, FIT_USUAL_CLASSES, N_VOTES = (10, 40, 160), 10_000, 20, 3
USUAL_SIZE, USUAL_CLASSES, USUAL_TOPICS = 10_000, 10, 40
N_DISTINCT, N_CHOICES = 60, 50
N_ROUNDS = 4


def sixty_words(n_docs: int, n_classes: int, seed: int = 0) -> tuple[Counts, NDArray[np.int8]]:
    """Counts (32-bit) and labels: each document has 60 of 3,000 words, one out of each group of 50.

    Every word is chosen by a present class. Every class prefers certain words in every group, the same for all seeds.
    """
    rng = np.random.default_rng(seed)
    labels = (rng.random((n_docs, n_classes)) < 1.5 / n_classes).astype(np.int8)
    labels[np.arange(n_docs), rng.integers(n_classes, size=n_docs)] = 1  # every document has a class
    preferred = np.random.default_rng(0).integers(N_CHOICES, size=(n_classes, N_DISTINCT), dtype=np.int32)
    words = np.empty((n_docs, N_DISTINCT), dtype=np.int32)
    for group in range(N_DISTINCT):  # one column at a time keeps temporary arrays small
        owner = np.argmax(labels * rng.random((n_docs, n_classes), dtype=np.float32), axis=1)
        offset = rng.geometric(0.2, n_docs) - 1
        words[:, group] = group * N_CHOICES + (preferred[owner, group] + offset) % N_CHOICES
    counts = rng.geometric(0.7, n_docs * N_DISTINCT).astype(np.int32)
    starts = np.arange(0, n_docs * N_DISTINCT + 1, N_DISTINCT, dtype=np.int32)
    return sparse.csr_array((counts, words.ravel(), starts), shape=(n_docs, N_DISTINCT * N_CHOICES)), labels


def cost(n_docs: int, n_classes: int, n_topics: int) -> tuple[float, float]:
    """Microseconds per document in the fastest iteration, and passes per document in that iteration."""
    counts, labels = sixty_words(n_docs, n_classes)
    guess = labels.astype(np.float64)
    prior = estimate_base_rates(guess.sum(axis=0), n_docs)
    start = first_params(
        counts, prior, n_topics, np.random.default_rng(0), smoothing=True, guess=guess, shared_absence=True
    )
    settings = EMSettings(
        shared_absence=True, max_iter=N_ROUNDS + 1, tol=0.0, pass_limits=PassLimits(30, 1e-3), engine=Threads(2)
    )
    times, passes = [], []

    def watch(step: StepInfo) -> None:
        times.append(time.perf_counter())
        passes.append(step.n_passes / n_docs)

    run_em(cut_shards(counts, labels), start, settings, watch)
    rounds = np.diff(times)
    fastest = int(rounds.argmin())
    return 1e6 * float(rounds[fastest]) / n_docs, passes[fastest + 1]


def exponent(sizes: Sequence[int], costs: ArrayLike) -> float:
    """Slope of log cost over log size."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def main() -> None:
    fit_seconds(200, 5)  # compile, or load the cache
    whole_fits()
    print("microseconds per document and iteration, 2 threads (passes per document)")
    in_documents()
    in_classes_and_topics()


def fit_seconds(n_docs: int, n_classes: int) -> float:
    """Seconds of a default crowd fit."""
    counts, labels = sixty_words(n_docs, n_classes)
    votes, _ = simulate.crowd(labels, "paper", votes_per_doc=N_VOTES, seed=0)
    start = time.perf_counter()
    CrowdPALDA(random_state=0, n_jobs=2).fit(counts, votes)
    return time.perf_counter() - start


def whole_fits() -> None:
    """Table of default crowd fits, and the exponents of their growth."""
    print(f"seconds of a default crowd fit, {N_VOTES} votes per document, 2 threads")
    for title, values, sizes, target in (
        (f"documents, C={FIT_USUAL_CLASSES}", SIZES, [(n_docs, FIT_USUAL_CLASSES) for n_docs in SIZES], 1.05),
        (f"classes, {FIT_SIZE:,} documents", FIT_CLASSES, [(FIT_SIZE, n_classes) for n_classes in FIT_CLASSES], 0.8),
    ):
        taken = [fit_seconds(*size) for size in sizes]
        print("  " + ", ".join(f"{value:,}: {each:.1f}" for value, each in zip(values, taken, strict=True)), flush=True)
        print(f"  to the power {exponent(values, taken):.2f} of the {title} (target: at most {target})", flush=True)


def in_documents() -> None:
    totals = []
    for n_docs in SIZES:
        each, passes = cost(n_docs, USUAL_CLASSES, USUAL_TOPICS)
        totals.append(each * n_docs)
        print(f"  {n_docs:>7,} documents, C={USUAL_CLASSES}, T={USUAL_TOPICS}: {each:8.1f} ({passes:.1f})", flush=True)
    print(f"  an iteration costs documents to the power {exponent(SIZES, totals):.2f} (target 1)")


def in_classes_and_topics() -> None:
    """Cost table and exponents, per iteration and per pass; the number of passes until convergence also varies."""
    print(
        f"{USUAL_SIZE:,} documents"
        + "".join(f"{f'T={n_topics}':>16}" for n_topics in TOPICS)
        + "   power of T, per pass"
    )
    costs = np.zeros((len(CLASSES), len(TOPICS)))
    passes = np.zeros_like(costs)
    for row, n_classes in enumerate(CLASSES):
        for column, n_topics in enumerate(TOPICS):
            costs[row, column], passes[row, column] = cost(USUAL_SIZE, n_classes, n_topics)
        cells = "".join(f"{each:9.1f} {f'({n:.1f})':>6}" for each, n in zip(costs[row], passes[row], strict=True))
        powers = exponent(TOPICS, costs[row]), exponent(TOPICS, costs[row] / passes[row])
        print(f"  C={n_classes:<12}{cells}{powers[0]:12.2f}{powers[1]:8.2f}", flush=True)
    for title, table in (("power of C", costs), ("per pass", costs / passes)):
        print(f"  {title:14}" + "".join(f"{exponent(CLASSES, column):16.2f}" for column in table.T))
    print("  (targets: at most 1)")


if __name__ == "__main__":
    main()
