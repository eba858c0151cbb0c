"""Start-up time of a fit in a new process, against a bare ``import numba, scipy, sklearn``.

With an empty and with a full cache of compiled code: up to the end of the first EM iteration, and for a whole process
that fits ``PALDA`` for one iteration. Targets: cold at most 6 times the bare imports, warm at most as
much again as the bare imports.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

N_REPEATS = 3
_BARE = "import numba, scipy, sklearn"
_CORPUS = """
import numpy as np
from scipy import sparse
rng = np.random.default_rng(0)
counts = sparse.csr_array(rng.poisson(0.5, (60, 50)))
labels = (rng.random((60, 3)) < 0.4).astype(np.int8)
"""
_FIRST_ITERATION = (
    _CORPUS
    + """
import time
from palda import PALDA
from palda.engine import Threads
from palda.models.topics import EMSettings, cut_shards, first_params, run_em
start = first_params(counts, labels.mean(axis=0), 5, rng, smoothing=True, guess=labels.astype(float))
run_em(cut_shards(counts, labels), start, EMSettings(engine=Threads(), max_iter=1))
print(time.time())
"""
)  # prints the time, so that the end of the process is not measured
_WHOLE_FIT = (
    _CORPUS
    + """
from palda import PALDA
PALDA(max_iter=1, random_state=0).fit(counts, labels)
"""
)


def seconds(program: str, cache: str) -> float:
    """Time from the start of a new process to the time it prints, or to its end."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    start = time.time()
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return float(ended.stdout or time.time()) - start


def main() -> None:
    times: dict[str, list[float]] = {}
    for _ in range(N_REPEATS):  # alternating
        times.setdefault("bare imports", []).append(seconds(_BARE, ""))
        for name, program in (("first iteration", _FIRST_ITERATION), ("whole fit", _WHOLE_FIT)):
            with tempfile.TemporaryDirectory() as cache:
                times.setdefault(f"{name}, cold", []).append(seconds(program, cache))
                times.setdefault(f"{name}, warm", []).append(seconds(program, cache))
    typical = {name: statistics.median(taken) for name, taken in times.items()}
    bare = typical["bare imports"]
    print("medians: " + "; ".join(f"{name} {taken:.2f} s" for name, taken in typical.items()))
    for name in ("first iteration", "whole fit"):
        print(
            f"{name}: cold {typical[f'{name}, cold'] / bare:.1f} times the bare imports (target 6), "
            f"warm {typical[f'{name}, warm'] / bare - 1:.2f} times as much again (target 1)"
        )


if __name__ == "__main__":
    main()
