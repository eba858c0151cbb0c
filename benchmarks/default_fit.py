"""A default crowd fit against tuned logistic regression and against version 0.1, in one run.

Five simulated votes per document; 2 threads. The rival is one logistic regression per class on tf-idf and the labels of
a majority vote: scikit-learn's ``LogisticRegressionCV`` with 6 penalties from .1 to 30, 3 folds and at most 1000
iterations, 2 jobs over classes, with the faster of lbfgs and liblinear. Version 0.1 (commit c7ea588) is unpacked into a
temporary folder and runs with the same interpreter and libraries. Every fit runs in its own process, after a small fit
that compiles or loads the kernels, or starts the jobs. Needs the public data sets in $PALDA_DATA, and about seven
minutes.

``python -m benchmarks default_fit [reuters] [bibtex] [--words]``; ``--words`` also times ``label_prior="words"``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.golden import BASE, ROOT, unpack
from palda import simulate
from palda.errors import PaldaError
from palda.io import catalog

TARGETS = {"reuters": 4.0, "bibtex": 1.2}  # times tuned logistic regression
VERSION_TARGET = 4.0  # times faster than version 0.1
N_REPEATS = 2

_LOAD = """
import sys, time, warnings
import numpy as np
from scipy import sparse
warnings.simplefilter("ignore")
counts = sparse.load_npz(sys.argv[1] + "/counts.npz")
votes = np.load(sys.argv[1] + "/votes.npy")  # (documents, annotators, classes)
"""
_PALDA = (
    _LOAD
    + """
from pathlib import Path
import palda
from palda import CrowdPALDA, Votes
assert str(Path(palda.__file__).parents[1]) == sys.argv[2], palda.__file__
CrowdPALDA(random_state=0, n_jobs=2).fit(counts[:300], votes[:300])
votes = Votes.from_array(votes)
start = time.perf_counter()
CrowdPALDA(random_state=0, n_jobs=2, label_prior=sys.argv[3]).fit(counts, votes)
print(time.perf_counter() - start)
"""
)
_REGRESSION = (
    _LOAD
    + """
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.multiclass import OneVsRestClassifier
majority = (2 * (votes == 1).sum(axis=1) > (votes >= 0).sum(axis=1)).astype(int)
majority = majority[:, (majority.sum(axis=0) >= 3) & (majority.sum(axis=0) <= len(majority) - 3)]  # 3 folds need 3
for solver in ("lbfgs", "liblinear"):
    tuned = LogisticRegressionCV(
        Cs=np.geomspace(0.1, 30, 6), cv=3, solver=solver, max_iter=1000, scoring="neg_log_loss", l1_ratios=(0,),
        use_legacy_attributes=False,
    )
    rival = OneVsRestClassifier(tuned, n_jobs=2)
    rival.fit(TfidfTransformer().fit_transform(counts[:200]), majority[:200, majority[:200].sum(axis=0) > 20])
    start = time.perf_counter()
    rival.fit(TfidfTransformer(sublinear_tf=True).fit_transform(counts), majority)
    print(time.perf_counter() - start)
"""
)


def seconds(program: str, *arguments: object, source: Path = ROOT / "src", cache: Path | None = None) -> list[float]:
    """Numbers that the program prints, run in a new process with the package of ``source``."""
    environment = os.environ | {"PYTHONPATH": str(source)}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    command = [sys.executable, "-P", "-c", program, *map(str, arguments)]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [float(line) for line in ended.stdout.split()]


def measure(name: str, folder: Path, base: Path, *, words: bool) -> None:
    train = catalog.load(name).train
    sparse.save_npz(folder / "counts.npz", sparse.csr_matrix(train.X), compressed=False)
    votes, annotators = simulate.crowd(train.Y, "paper", votes_per_doc=5, seed=0)
    judged = np.full((len(train.Y), len(annotators.quality), train.Y.shape[1]), -1, dtype=np.int8)
    judged[votes.doc, votes.annotator, votes.label] = votes.value
    np.save(folder / "votes.npy", judged)
    cache = base.parent / "cache"
    now, earlier, rival, only_words = [], [], [], []
    for _ in range(N_REPEATS):  # alternating
        now += seconds(_PALDA, folder, ROOT / "src", "stacked")
        rival.append(seconds(_REGRESSION, folder))
        if words:
            only_words += seconds(_PALDA, folder, ROOT / "src", "words")
        if len(earlier) < 1:
            earlier += seconds(_PALDA, folder, base, "stacked", source=base, cache=cache)
    lbfgs, liblinear = (min(times) for times in zip(*rival, strict=True))
    ours, theirs, before = min(now), min(lbfgs, liblinear), min(earlier)
    print(
        f"{name}: default fit {ours:.2f} s; logistic regression {lbfgs:.2f} s by lbfgs, {liblinear:.2f} s by liblinear"
    )
    print(f"  {ours / theirs:.2f} times tuned logistic regression (target: at most {TARGETS.get(name, np.nan)})")
    print(f"  version 0.1 {before:.2f} s: {before / ours:.2f} times as long (target: at least {VERSION_TARGET})")
    if words:
        print(
            f'  label_prior="words": {min(only_words):.2f} s, {min(only_words) / ours:.2f} of the default', flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks default_fit")
    parser.add_argument("sets", nargs="*", help="data sets; default: reuters and bibtex")
    parser.add_argument("--words", action="store_true", help='also time label_prior="words"')
    chosen = parser.parse_args(sys.argv[2:])
    with tempfile.TemporaryDirectory(prefix="palda-base-") as folder:
        base = Path(folder) / "base"
        unpack(BASE, base)
        (Path(folder) / "cache").mkdir()
        for name in chosen.sets or TARGETS:
            try:
                measure(name, Path(folder), base / "src", words=chosen.words)
            except PaldaError as missing:
                print(f"skipped: {missing}")


if __name__ == "__main__":
    main()
