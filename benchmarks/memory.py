"""Peak memory of fits to 100,000 documents of 60 distinct words: C=20, T=50, three iterations.

With base rates, which fit only a topic model, and with the default label prior. Target: in addition to the interpreter
and imports, at most 3 times the counts plus 200 MB. Linux only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

N_DOCS, N_CLASSES, N_TOPICS, N_ROUNDS = 100_000, 20, 50, 3
MEGABYTE = 1e6
_STATUS = Path("/proc/self/status")
_WRITE = """
import sys
import numpy as np
from scipy import sparse
from benchmarks.growth import sixty_words
counts, labels = sixty_words(int(sys.argv[2]), int(sys.argv[3]))
sparse.save_npz(sys.argv[1] + "/counts.npz", counts, compressed=False)
np.save(sys.argv[1] + "/labels.npy", labels)
"""
# VmHWM, because getrusage's ru_maxrss includes the peak of the parent process.
_FIT = """
import sys, warnings
from pathlib import Path
import numpy as np
from scipy import sparse
from palda import PALDA, kernels
def kilobytes(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))
warnings.simplefilter("ignore")
model = PALDA(int(sys.argv[2]), max_iter=int(sys.argv[3]), label_prior=sys.argv[4], random_state=0)
kernels.active()  # imports Numba
imported = kilobytes("VmRSS")
counts = sparse.load_npz(sys.argv[1] + "/counts.npz")
labels = np.load(sys.argv[1] + "/labels.npy")
loaded = kilobytes("VmRSS")
model.fit(counts, labels)
size = counts.data.nbytes + counts.indices.nbytes + counts.indptr.nbytes
print(imported * 1024, loaded * 1024, kilobytes("VmHWM") * 1024, size)
"""


def run(program: str, *arguments: object) -> str:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    if not _STATUS.exists():
        print("skipped: this system has no /proc, which reports the peak memory of a process")
        return
    with tempfile.TemporaryDirectory() as folder:
        run(_WRITE, folder, 300, N_CLASSES)
        run(_FIT, folder, 5, 1, "stacked")  # compile before the measured runs
        run(_WRITE, folder, N_DOCS, N_CLASSES)
        for label_prior in ("base_rate", "stacked"):
            report(label_prior, run(_FIT, folder, N_TOPICS, N_ROUNDS, label_prior))


def report(label_prior: str, measured: str) -> None:
    imported, loaded, peak, size = (float(number) / MEGABYTE for number in measured.split())
    allowed = 3 * size + 200
    print(
        f"{label_prior}: counts {size:.0f} MB; "
        f"after imports {imported:.0f} MB, with the data {loaded:.0f} MB, peak {peak:.0f} MB: "
        f"{peak - imported:.0f} MB after imports, {(peak - imported) / allowed:.2f} of the {allowed:.0f} MB allowed, "
        f"{peak - loaded:.0f} MB of them on top of the data"
    )


if __name__ == "__main__":
    main()
