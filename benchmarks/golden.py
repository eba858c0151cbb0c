"""Compare fitted numbers of this code with those of an earlier commit, bit by bit, on this machine.

The commit is unpacked into a temporary folder, which is removed at the end. The same fits run with its source and with
that of the working tree, each in its own process and with the interpreter that runs this file. Both sides therefore
use the same libraries, and a difference can only come from palda. ``PYTHONPATH`` puts a side's source before the
installed package, and each process checks that it imported that source. Compared are the public attributes of fitted
models, the results of their methods, and every array of the files they save. A commit whose dependencies are no longer
installed cannot be compared.

Two precautions make the comparison exact:

- Each side has its own cache of compiled code, filled by an earlier process. Numba does not notice that a function
  which a cached kernel calls has changed, and a process that compiles a kernel may round differently from one that
  reads it from the cache.
- Arrays that kernels allocate are aligned to 64 KiB. In version 0.1 the last bits of a sum depended on how close two
  small arrays lay in memory: SIMD code ran if they were far apart, scalar code if they were near. Now they are far
  apart on both sides. The allocator gets such blocks from the system one by one (``MALLOC_MMAP_THRESHOLD_``).

``python -m benchmarks golden [--base COMMIT] [FIT ...]``; the exit status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import golden_fits
from benchmarks.golden_fits import FITS, SPACING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

ROOT = Path(__file__).resolve().parents[1]
BASE = "c7ea588"


def run_side(source: Path, folder: Path, names: list[str]) -> float:
    """Run the fits in new processes until one compiles nothing; returns the seconds this took."""
    cache = folder / "cache"
    cache.mkdir(parents=True)
    command = [sys.executable, "-P", golden_fits.__file__, str(source), str(folder)]
    environment = os.environ | {"PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache)}
    environment["MALLOC_MMAP_THRESHOLD_"] = str(2 * SPACING)
    start = time.perf_counter()
    subprocess.run(command, env=environment, cwd=folder, check=True)
    for _ in range(3):
        before = set(cache.rglob("*.nbc"))
        subprocess.run([*command, *names], env=environment, cwd=folder, check=True)
        if set(cache.rglob("*.nbc")) == before:
            return time.perf_counter() - start
    sys.exit(f"every process compiles the kernels in {source} again; Numba's cache does not work")


def unpack(commit: str, folder: Path) -> None:
    """Write the source of a commit to a folder."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "src"]
    packed = subprocess.run(command, capture_output=True, check=False)
    if packed.returncode:
        sys.exit(f"commit {commit!r} cannot be unpacked: {packed.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")


def same_bits(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def difference(one: NDArray[Any], other: NDArray[Any]) -> str:
    """How two arrays differ, in words."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{one.dtype} {one.shape} in the base, {other.dtype} {other.shape} here"
    text = f"{np.count_nonzero(one != other)} of {one.size} entries differ"
    if one.dtype.kind not in "fiub":
        return text
    return f"{text}, by at most {np.nanmax(np.abs(one.astype(float) - other.astype(float)), initial=0.0):.3g}"


def compare(name: str, there: Arrays, here: Arrays) -> list[str]:
    """Print one line for a fit; returns one line per difference."""
    wrong = [f"{name}, {key}: is missing here" for key in there if key not in here]
    added = [key for key in here if key not in there]
    wrong += [f"{name}, {key}: is missing in the base" for key in added if "file " in key]
    common = [key for key in there if key in here]
    apart = [key for key in common if not same_bits(there[key], here[key])]
    wrong += [f"{name}, {key}: {difference(there[key], here[key])}" for key in apart]
    new = [key for key in added if "file " not in key]
    line = f"{name}: {len(common) - len(apart)} arrays equal"
    line += f", {len(wrong)} differ or are missing" if wrong else ""
    print(line + (f"; new here, not compared: {', '.join(new)}" if new else ""), flush=True)
    return wrong


def golden(base: str, names: list[str]) -> bool:
    """Whether all arrays are equal."""
    with tempfile.TemporaryDirectory(prefix="palda-golden-") as name:
        folder = Path(name)
        unpack(base, folder / "base")
        before = run_side(folder / "base" / "src", folder / "there", names)
        after = run_side(ROOT / "src", folder / "here", names)
        wrong: list[str] = []
        n_arrays = 0
        for fit in names:
            with np.load(folder / "there" / f"{fit}.npz") as there, np.load(folder / "here" / f"{fit}.npz") as here:
                n_arrays += len(there)
                wrong += compare(fit, dict(there), dict(here))
    print(f"{n_arrays} arrays of {len(names)} fits; {base} took {before:.0f} s, this code {after:.0f} s")
    print("\n".join(["DIFFERENT:", *wrong]) if wrong else f"equal to {base}, bit by bit")
    return not wrong


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks golden", description="Compare fits with those of a commit.")
    parser.add_argument("--base", default=BASE, metavar="COMMIT", help=f"what to compare with; default {BASE}")
    parser.add_argument("fits", nargs="*", metavar="FIT", help=f"all, or some of: {', '.join(FITS)}")
    chosen = parser.parse_args(sys.argv[2:] if arguments is None else arguments)
    strange = [name for name in chosen.fits if name not in FITS]
    if strange:
        parser.error(f"there is no fit {strange[0]!r}; choose from {', '.join(FITS)}")
    if not golden(chosen.base, chosen.fits or list(FITS)):
        sys.exit(1)
