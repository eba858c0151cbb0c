"""Features beside words: quality against rivals, memory and time.

``python -m benchmarks features [part ...] [--seeds N] [--folder FOLDER]`` runs the named parts, or all:

- ``simulated``: half of the classes show only in features and half only in words. palda from five votes per document
  against one logistic regression per class on both, taught by the truth: tf-idf and standardised features, with the
  penalty and the scale of the features chosen per class by cross-validation. Required: within .01 of micro-F1.
- ``memory``: 100,000 documents with 60 distinct words and 384 float32 features, 20 classes. Required: at most one copy
  of the features beside the array that was passed, and 1.5 times the fit time of words alone. With ``--labels gold``
  fits to true labels instead of three votes per document; ``--memmap`` passes a memory map. Linux only.
- ``real``: yeast and scene from five votes per document. palda with and without the values as features against a random
  forest on the values, trained on labels of Dawid and Skene and on the true ones. Required: ahead of the forests.
  ``--sets NAME ...`` adds others of words alone, which must not change.

Micro-F1 at ½ and with one threshold per class, chosen on out-of-fold probabilities of the training documents in the
same way for all. Nothing is chosen on test documents. Results of ``simulated`` and ``real`` are stored in FOLDER
(``features-cells``), one JSON object per line, and are not computed again. Needs palda[baselines], and for ``real`` the
public data sets in $PALDA_DATA.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks.gold import VOTES_PER_DOC, verdict
from palda import CrowdPALDA, ValueWords, __version__, metrics, simulate
from palda.data import Values
from palda.errors import PaldaError, PaldaWarning
from palda.io import catalog
from palda.models.classifier import assign_folds, inverse_document_frequencies, tf_idf
from palda.paper.baselines import Forest, aggregate_labels, out_of_fold_probs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

HALF = 0.5
N_FOLDS = 3
N_TRAIN, N_TEST = 2_000, 4_000
N_TREES = (100, 500)  # as in the tables of `palda reproduce --quick`, and more
PENALTIES = np.geomspace(0.01, 100.0, 9)  # C of scikit-learn
SCALES = (0.03, 0.1, 0.3, 1.0)  # of standardised features beside tf-idf of unit length
MAX_LOSS, MAX_COPIES, MAX_RATIO = 0.01, 1.0, 1.5
N_DOCS, N_FEATURES, N_CLASSES = 100_000, 384, 20


class Data(NamedTuple):
    """Words and features (None: words alone) of training and test documents, with their true labels."""

    words: Any
    features: Any
    labels: NDArray[np.int8]
    test_words: Any
    test_features: Any
    test_labels: NDArray[np.int8]


class Fit(NamedTuple):
    """Labels of the training documents, and probabilities of the classes: out of fold, and of test documents."""

    labels: Array
    out_of_fold: Array
    test: Array


def votes_on(data: Data, seed: int) -> Any:
    """The same crowds as in ``benchmarks gold``."""
    return simulate.crowd(data.labels, "paper", votes_per_doc=VOTES_PER_DOC, seed=seed)[0]


def palda(data: Data, seed: int) -> Fit:
    return _palda(data, seed, data.features, data.test_features)


def palda_on_words(data: Data, seed: int) -> Fit:
    return _palda(data, seed, None, None)


def _palda(data: Data, seed: int, features: Any, test_features: Any) -> Fit:
    given = {} if features is None else {"features": features}
    later = {} if features is None else {"features": test_features}
    model = CrowdPALDA(random_state=seed, n_jobs=1).fit(data.words, votes_on(data, seed), **given)
    return Fit(model.consensus_, model.out_of_fold_probs_, model.predict_proba(data.test_words, **later))


def forest_on_dawid_skene(n_trees: int, data: Data, seed: int) -> Fit:
    labels, targets = aggregate_labels(votes_on(data, seed), "dawid_skene")
    return _forest(n_trees, data, seed, labels)._replace(labels=targets)


def forest_on_gold(n_trees: int, data: Data, seed: int) -> Fit:
    return _forest(n_trees, data, seed, data.labels)


def _forest(n_trees: int, data: Data, seed: int, labels: Any) -> Fit:
    model = Forest(n_trees, n_jobs=1, random_state=seed)
    held_out = out_of_fold_probs(model, data.features, labels, N_FOLDS, seed)
    return Fit(labels, held_out, model.fit(data.features, labels).predict_proba(data.test_features))


def regression_on_gold(data: Data, seed: int) -> Fit:
    """Logistic regression on tf-idf and standardised features; both choices are made per class by log-loss."""
    frequencies, scaler = inverse_document_frequencies(data.words), StandardScaler().fit(data.features)
    tables = [
        [
            sparse.csr_matrix(sparse.hstack((tf_idf(words, frequencies), scale * scaler.transform(features))))
            for words, features in ((data.words, data.features), (data.test_words, data.test_features))
        ]
        for scale in SCALES
    ]
    folds = assign_folds(data.labels.astype(np.float64), N_FOLDS, seed)
    held_out, test = np.empty(data.labels.shape), np.empty(data.test_labels.shape)
    for i, labels in enumerate(data.labels.T):
        tried = []
        for train_table, test_table in tables:
            for penalty in PENALTIES:
                probs = np.empty(len(labels))
                for fold in range(N_FOLDS):
                    inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
                    fitted = _regression(train_table[inside], labels[inside], penalty)
                    probs[outside] = fitted.predict_proba(train_table[outside])[:, 1]
                loss = -np.mean(np.log(np.clip(np.where(labels == 1, probs, 1.0 - probs), 1e-12, 1.0)))
                tried.append((loss, len(tried), probs, penalty, train_table, test_table))
        _, _, held_out[:, i], penalty, train_table, test_table = min(tried, key=lambda case: case[:2])
        test[:, i] = _regression(train_table, labels, penalty).predict_proba(test_table)[:, 1]
    return Fit(data.labels, held_out, test)


def _regression(table: Any, labels: Any, penalty: float) -> Any:
    return LogisticRegression(C=penalty, max_iter=1_000).fit(table, labels)


def scores_of(data: Data, fit: Fit) -> dict[str, float]:
    thresholds = metrics.choose_thresholds(fit.labels, fit.out_of_fold)
    return {
        "at_half": float(metrics.micro_f1(data.test_labels, fit.test >= HALF)),
        "chosen": float(metrics.micro_f1(data.test_labels, fit.test >= thresholds)),
        "consensus": float(metrics.micro_f1(data.labels, np.asarray(fit.labels) >= HALF)),
    }


def simulated_data(seed: int) -> Data:
    world = simulate.featured_documents(N_TRAIN + N_TEST, seed=seed)
    train, test = world.take(slice(N_TRAIN)), world.take(slice(N_TRAIN, None))
    return Data(train.corpus.counts, train.features, train.labels, test.corpus.counts, test.features, test.labels)


def real_data(name: str) -> Data:
    train, test = catalog.load(name)
    if not isinstance(train.corpus, Values):
        return Data(train.X, None, train.Y, test.X, None, test.Y)
    words = ValueWords().fit(train.X)
    return Data(words.transform(train.X), train.X, train.Y, words.transform(test.X), test.X, test.Y)


SIMULATED: dict[str, Any] = {
    "palda, words and features": palda,
    "palda, words alone": palda_on_words,
    "logistic regression, true labels": regression_on_gold,
}
REAL: dict[str, Any] = {
    "palda, words and features": palda,
    "palda, words alone": palda_on_words,
    **{
        name.format(n_trees): partial(method, n_trees)
        for n_trees in N_TREES
        for name, method in (
            ("forest of {} trees, Dawid-Skene labels", forest_on_dawid_skene),
            ("forest of {} trees, true labels", forest_on_gold),
        )
    },
}


def cells_of(case: str, methods: dict[str, Any], data_of: Any, options: Any) -> dict[str, dict[str, float]]:
    """Means over the seeds for each method, from the stored cells and those that are still missing."""
    path = options.folder / "cells.jsonl"
    stored = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {(cell["case"], cell["method"], cell["seed"]): cell for cell in stored}
    rows: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
    for seed in range(options.seeds):
        data = None
        for method, fit in methods.items():
            key = (case, method, seed)
            if key not in known:
                data = data_of(seed) if data is None else data
                start = time.process_time()
                scores = scores_of(data, fit(data, seed)) | {"cpu_seconds": time.process_time() - start}
                known[key] = {"case": case, "method": method, "seed": seed, **scores, "palda": __version__}
                with path.open("a") as file:
                    file.write(json.dumps(known[key]) + "\n")
            rows[method].append(known[key])
    measures = ("at_half", "chosen", "consensus", "cpu_seconds")
    means = {method: {m: float(np.mean([row[m] for row in found])) for m in measures} for method, found in rows.items()}
    print(f"{case}, mean of {options.seeds} crowds\n| method | at ½ / chosen | consensus | CPU s |\n|---|---|---|---|")
    for method, mean in means.items():
        print(
            f"| {method} | {mean['at_half']:.4f} / {mean['chosen']:.4f} | {mean['consensus']:.4f} | "
            f"{mean['cpu_seconds']:.0f} |",
            flush=True,
        )
    return means


def simulated(options: Any) -> None:
    """Half of the classes in words, half in features."""
    means = cells_of("simulated", SIMULATED, simulated_data, options)
    ours, theirs = means["palda, words and features"], means["logistic regression, true labels"]
    for measure in ("at_half", "chosen"):
        loss = theirs[measure] - ours[measure]
        print(f"  {measure}: regression ahead by {loss:+.4f}: {verdict(loss <= MAX_LOSS)} ({MAX_LOSS})", flush=True)


def real(options: Any) -> None:
    """yeast and scene from votes, against random forests."""
    for name in options.sets:
        try:
            data = real_data(name)
        except PaldaError as missing:
            print(f"skipped: {missing}")
            continue
        methods = REAL if data.features is not None else {"palda, words alone": palda_on_words}
        means = cells_of(name, methods, lambda _, data=data: data, options)
        if data.features is None:
            continue
        for rival in (method for method in methods if method.startswith("forest")):
            for measure in ("at_half", "chosen"):
                lead = means["palda, words and features"][measure] - means[rival][measure]
                print(f"  {measure}: ahead of the {rival} by {lead:+.4f}: {verdict(lead > 0.0)}", flush=True)


_WRITE = """
import sys
import numpy as np
from scipy import sparse
from benchmarks.growth import sixty_words
folder, n_docs, n_classes, n_features = sys.argv[1], *map(int, sys.argv[2:5])
counts, labels = sixty_words(n_docs, n_classes)
sparse.save_npz(folder + "/counts.npz", counts, compressed=False)
np.save(folder + "/labels.npy", labels)
rng = np.random.default_rng(1)
directions = rng.normal(size=(n_classes, n_features)).astype(np.float32) / 8
features = np.lib.format.open_memmap(folder + "/features.npy", "w+", np.float32, (n_docs, n_features))
for start in range(0, n_docs, 10_000):
    some = labels[start : start + 10_000]
    features[start : start + 10_000] = rng.standard_normal((len(some), n_features), np.float32) + some @ directions
features.flush()
"""
# The peak of anonymous memory is sampled: pages of a mapped file are not counted, and the kernel's own peak is of both.
_FIT = """
import json, sys, threading, time, warnings
from pathlib import Path
import numpy as np
from scipy import sparse
from palda import PALDA, CrowdPALDA, kernels, simulate
folder, given, source, n_jobs = sys.argv[1:5]
def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
warnings.simplefilter("ignore")
counts = sparse.load_npz(folder + "/counts.npz")
labels = np.load(folder + "/labels.npy")
features = None
if given != "words":
    features = np.load(folder + "/features.npy", mmap_mode="r" if given == "memmap" else None)
if source == "gold":
    model, target = PALDA(random_state=0, n_jobs=int(n_jobs)), labels
else:
    model = CrowdPALDA(random_state=0, n_jobs=int(n_jobs))
    target = simulate.crowd(labels, "paper", votes_per_doc=3, seed=0)[0]
kernels.active()  # imports Numba
loaded, peak, running = anonymous(), [0], [True]
def sample():
    while running[0]:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.01)
watch = threading.Thread(target=sample)
watch.start()
cpu, wall = time.process_time(), time.perf_counter()
model.fit(counts, target, **({} if features is None else {"features": features}))
cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
running[0] = False
watch.join()
print(json.dumps({"loaded": loaded, "peak": peak[0], "cpu": cpu, "wall": wall}))
"""


def run(program: str, *arguments: object) -> str:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def memory(options: Any) -> None:
    """Memory and time of a fit with features beside one of words alone."""
    if not Path("/proc/self/status").exists():
        print("skipped: this system has no /proc, which reports the memory of a process")
        return
    given = "memmap" if options.memmap else "array"
    with tempfile.TemporaryDirectory() as folder:
        run(_WRITE, folder, 300, N_CLASSES, 8)
        run(_FIT, folder, given, options.labels, options.jobs)  # compile before the measured runs
        run(_WRITE, folder, options.docs, N_CLASSES, N_FEATURES)
        found = {}
        for kind in ("words", given):
            found[kind] = json.loads(run(_FIT, folder, kind, options.labels, options.jobs))
            numbers = found[kind]
            print(
                f"{kind}: {numbers['loaded'] / 1e6:.0f} MB with the data, peak {numbers['peak'] / 1e6:.0f} MB; "
                f"{numbers['cpu']:.0f} s of CPU, {numbers['wall']:.0f} s",
                flush=True,
            )
    copy = options.docs * N_FEATURES * 4
    above = {kind: numbers["peak"] - numbers["loaded"] for kind, numbers in found.items()}
    copies, ratio = (above[given] - above["words"]) / copy, found[given]["cpu"] / found["words"]["cpu"]
    print(
        f"beside the {given} of {copy / 1e6:.0f} MB: {above[given] / 1e6:.0f} MB in all, {above['words'] / 1e6:.0f} MB "
        f"with words alone: {copies:.2f} copies more: {verdict(copies <= MAX_COPIES)} ({MAX_COPIES:g}); "
        f"{ratio:.2f} times the CPU time, {found[given]['wall'] / found['words']['wall']:.2f} times the time: "
        f"{verdict(ratio <= MAX_RATIO)} ({MAX_RATIO})",
        flush=True,
    )


PARTS = {part.__name__: part for part in (simulated, memory, real)}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks features")
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--seeds", type=int, default=5, help="number of simulated crowds")
    parser.add_argument("--folder", type=Path, default=Path("features-cells"))
    parser.add_argument("--sets", nargs="+", default=["yeast", "scene"], help="data sets of the part real")
    parser.add_argument("--labels", choices=("votes", "gold"), default="votes")
    parser.add_argument("--docs", type=int, default=N_DOCS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--memmap", action="store_true")
    options = parser.parse_args(sys.argv[2:] if arguments is None else arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", PaldaWarning)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.parts or PARTS:
        print(f"-- {PARTS[name].__doc__}", flush=True)
        PARTS[name](options)


if __name__ == "__main__":
    main(sys.argv[1:])
