"""Fits from a folder of shards and on Dask: memory, and time per document and iteration.

Simulated documents of 60 distinct words, 20 classes, 3 annotators per document who judge every class. Targets for a
million documents: less than 3 GB at the peak, and at most 1.3 times the time of a fit in memory; for Dask with 2
workers and 200,000 documents: at most 1.3 times the time of 2 threads. Arguments: ``folder``, ``dask`` and numbers of
documents, for example ``python -m benchmarks scale folder 10000 1000000``. Linux only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.growth import sixty_words
from palda import simulate
from palda.data import Corpus, Dataset
from palda.io.shards import Manifest, write_names, write_part

SIZES, DASK_DOCS = (10_000, 100_000, 1_000_000), 200_000
N_CLASSES, N_TOPICS, VOTES_PER_DOC = 20, 25, 3
DOCS_PER_SHARD = 20_000
N_ITERATIONS, MANY_DOCS, FEW_ITERATIONS = 3, 500_000, 1  # of EM; an iteration over many documents takes minutes

# EM iterations on words and votes, from a folder or from memory.
_ITERATIONS = """
import sys, time
from pathlib import Path
import numpy as np
from dataclasses import replace
from palda import open_shards
from palda.engine import Dask, Threads
from palda.models.crowd import TwoCoinModel, count_votes, initial_label_probs
from palda.models.topics import EMSettings, cut_shards, estimate_base_rates, first_params, run_em

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e6

def main():
    path, where, n_topics, n_iter = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    folder = open_shards(path)
    counts, votes = folder.counts, folder.votes
    if where == "memory":
        counts, votes = counts[slice(None)], votes.take(slice(None))
    known = np.full((votes.n_docs, votes.n_classes), -1, dtype=np.int8)
    guess = initial_label_probs(votes, known)
    model = TwoCoinModel()
    belief = model.start(votes.n_annotators, votes.n_classes)
    belief = model.update(count_votes(model, votes, guess), belief)
    prior = estimate_base_rates(guess.sum(axis=0), len(guess))
    start = first_params(counts, prior, n_topics, np.random.default_rng(0), smoothing=True, guess=guess)
    start = replace(start, annotators=belief)
    shards = cut_shards(counts, known, votes)
    if where.startswith("dask"):
        from distributed import Client, LocalCluster
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
        engine = Dask(Client(cluster))
    else:
        engine = Threads(2)
    times = []
    settings = EMSettings(engine=engine, annotators=model, max_iter=n_iter + 1, tol=0.0)
    result = run_em(shards, start, settings, lambda step: times.append(time.perf_counter()))
    print(float(np.median(np.diff(times))), peak(), result.bounds[-1])

if __name__ == "__main__":
    main()
"""
_FIT = """
import sys, time, warnings
from pathlib import Path
from palda import CrowdPALDA
from palda import open_shards
warnings.simplefilter("ignore")
start = time.perf_counter()
CrowdPALDA(int(sys.argv[2]), label_prior=sys.argv[4], max_iter=int(sys.argv[3]), n_jobs=2, random_state=0).fit(
    open_shards(sys.argv[1])
)
lines = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e6
print(time.perf_counter() - start, peak)
"""


def run(program: str, *arguments: object) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "run.py"  # workers of a cluster import it too
        script.write_text(program)
        command = [sys.executable, str(script), *map(str, arguments)]
        return [
            float(number)
            for number in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        ]


def write_folder(path: Path, n_docs: int) -> None:
    """Write a folder of simulated documents, one shard at a time."""
    path.mkdir()
    annotators = simulate.annotators("paper", n_classes=N_CLASSES, seed=0)
    classes = [f"class {number}" for number in range(N_CLASSES)]
    entries = []
    for number, first in enumerate(range(0, n_docs, DOCS_PER_SHARD)):
        size = min(DOCS_PER_SHARD, n_docs - first)
        counts, labels = sixty_words(size, N_CLASSES, seed=number)
        ids = [f"document {position}" for position in range(first, first + size)]
        votes = simulate.votes(
            labels, annotators, seed=number, votes_per_doc=VOTES_PER_DOC, doc_ids=ids, classes=classes
        )
        corpus = Corpus.from_counts(counts.astype(np.float64), doc_ids=ids)
        entries.append(write_part(path, number, Dataset.of(corpus, votes)))
    names = {"vocabulary": corpus.vocabulary, "classes": votes.classes, "annotators": votes.annotators}
    files = write_names(path, names)
    Manifest(n_docs, corpus.n_words, N_CLASSES, len(annotators), False, tuple(entries), files).write(path)


def from_folders(sizes: list[int]) -> None:
    for n_docs in sizes:
        n_iter = N_ITERATIONS if n_docs < MANY_DOCS else FEW_ITERATIONS
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "corpus"
            start = time.perf_counter()
            write_folder(path, n_docs)
            size = sum(file.stat().st_size for file in path.iterdir()) / 1e9
            print(f"{n_docs:,} documents: {size:.2f} GB on disk, simulated in {time.perf_counter() - start:.0f} s")
            results = {where: run(_ITERATIONS, path, where, N_TOPICS, n_iter) for where in ("memory", "folder")}
            for where, (seconds, peak, _) in results.items():
                print(f"  {where}: {1e6 * seconds / n_docs:.0f} us per document and iteration, peak {peak:.2f} GB")
            ratio = results["folder"][0] / results["memory"][0]
            gap = abs(results["folder"][2] - results["memory"][2])
            print(f"  folder / memory {ratio:.2f} (target 1.3); bounds differ by {gap:g}", flush=True)
            seconds, peak = run(_FIT, path, N_TOPICS, n_iter, "base_rate")
            print(f"  CrowdPALDA, base rates, {n_iter} EM iterations: {seconds:.0f} s, peak {peak:.2f} GB", flush=True)


def on_dask(n_docs: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "corpus"
        write_folder(path, n_docs)
        threads = run(_ITERATIONS, path, "folder", N_TOPICS, N_ITERATIONS)
        dask = run(_ITERATIONS, path, "dask", N_TOPICS, N_ITERATIONS)
        print(
            f"{n_docs:,} documents, an iteration: 2 threads {threads[0]:.2f} s, Dask with 2 workers {dask[0]:.2f} s: "
            f"{dask[0] / threads[0]:.2f} times (target 1.3); bounds differ by {abs(dask[2] - threads[2]):g}"
        )


def main() -> None:
    asked = sys.argv[2:]
    sizes = [int(word) for word in asked if word.isdigit()]
    if not asked or "folder" in asked:
        from_folders(sizes or list(SIZES))
    if not asked or "dask" in asked:
        on_dask(sizes[0] if sizes and "folder" not in asked else DASK_DOCS)


if __name__ == "__main__":
    main()
