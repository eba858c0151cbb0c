"""Seconds until a fit is under way, in new processes, against a bare ``import numba, scipy, sklearn``.

Once with an empty cache for compiled code and once with a full one, each up to the end of EM's first round, and for a
whole process that fits ``PALDA`` for one iteration. Targets: cold at most 8 times the bare imports, warm at most as
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
_FIRST_ROUND = (
    _CORPUS
    + """
import time
from palda import PALDA
from palda.fit import Settings, cut_shards, em
from palda.model.start import first_params
start = first_params(counts, labels.mean(axis=0), 5, rng, smoothing=True, guess=labels.astype(float))
next(em(cut_shards(counts, labels), start, Settings()))
print(time.time())
"""
)  # ends with when the first round did: how long a process takes to go is not ours
_WHOLE_FIT = (
    _CORPUS
    + """
from palda import PALDA
PALDA(max_iter=1, random_state=0).fit(counts, labels)
"""
)


def seconds(program: str, cache: str) -> float:
    """From the start of a new process to the time it prints, or else to its end."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    start = time.time()
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return float(ended.stdout or time.time()) - start


def main() -> None:
    times: dict[str, list[float]] = {}
    for _ in range(N_REPEATS):  # side by side, in turn
        times.setdefault("bare imports", []).append(seconds(_BARE, ""))
        for name, program in (("first round", _FIRST_ROUND), ("whole fit", _WHOLE_FIT)):
            with tempfile.TemporaryDirectory() as cache:
                times.setdefault(f"{name}, cold", []).append(seconds(program, cache))
                times.setdefault(f"{name}, warm", []).append(seconds(program, cache))
    typical = {name: statistics.median(taken) for name, taken in times.items()}
    bare = typical["bare imports"]
    print("medians: " + "; ".join(f"{name} {taken:.2f} s" for name, taken in typical.items()))
    for name in ("first round", "whole fit"):
        print(
            f"{name}: cold {typical[f'{name}, cold'] / bare:.1f} times the bare imports (target 8), "
            f"warm {typical[f'{name}, warm'] / bare - 1:.2f} times as much again (target 1)"
        )


if __name__ == "__main__":
    main()
