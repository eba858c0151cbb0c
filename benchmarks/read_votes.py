"""Time and peak memory of ``read_votes`` for a million votes, relative to ``pandas.read_csv`` and to the file size.

Target: at most 2.5 times the time of ``pandas.read_csv``. pandas with pyarrow reads strings about 1.6 times as
fast as without it, so ratios of environments with and without pyarrow are not comparable.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from palda import read_votes

if TYPE_CHECKING:
    from collections.abc import Callable

_PEAK = """
import sys
from pathlib import Path
from palda import read_votes
status = Path("/proc/self/status")
def kilobytes(field):
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(field))
small, large = sys.argv[1:]
read_votes(small)
Path("/proc/self/clear_refs").write_text("5")  # reset the peak
before = kilobytes("VmRSS")
read_votes(large)
print((kilobytes("VmHWM") - before) * 1024)
"""  # Linux only: other systems cannot reset the peak


def write_votes(path: Path, n_docs: int, *, shuffled: bool) -> None:
    """Write a long file: n_docs documents x 5 of 200 annotators x 10 classes."""
    rng = np.random.default_rng(0)
    rows = [
        f"d{doc:06d},w{annotator:04d},class{label},{value}\n"
        for doc in range(n_docs)
        for annotator in rng.choice(200, 5, replace=False)
        for label, value in enumerate(rng.integers(2, size=10))
    ]
    if shuffled:
        rng.shuffle(rows)
    path.write_text("doc,annotator,label,value\n" + "".join(rows))


def seconds(job: Callable[[], Any]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small.csv"), Path(folder, "large.csv")
        write_votes(small, 10, shuffled=False)
        for shuffled in (False, True):
            write_votes(large, 20_000, shuffled=shuffled)
            pairs = [
                (
                    seconds(lambda: read_votes(large)),
                    seconds(lambda: pd.read_csv(large)),
                )  # alternating, under equal conditions
                for _ in range(9)
            ]
            ratio = statistics.median(ours / theirs for ours, theirs in pairs)
            command = [sys.executable, "-c", _PEAK, str(small), str(large)]
            peak = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            order = "shuffled rows" if shuffled else "rows in document order"
            print(
                f"1,000,000 votes, {order}: {ratio:.2f} times pandas.read_csv; "
                f"peak memory {peak / large.stat().st_size:.2f} times the file"
            )


if __name__ == "__main__":
    main()
