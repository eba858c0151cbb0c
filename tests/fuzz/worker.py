"""Runs cases in a process with limits of time and memory.

``python -m tests.fuzz.worker SEEDS STATUS`` reads requests ``[target, seed, start, stop]`` from standard input, one
JSON list per line, and answers each with one line of JSON. Before a case it writes its number to the file STATUS, so
that a crash can be attributed.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fuzz.seeds import read_seeds
from tests.fuzz.targets import Target, all_targets

import palda
from palda.errors import PaldaError, PaldaWarning

if TYPE_CHECKING:
    from types import FrameType

MAX_CPU_SECONDS = 10.0
MAX_SECONDS = 300.0
"""After so many seconds of a case the process ends itself; it hangs in compiled code."""
MAX_GROWTH = 700 << 20
"""Bytes by which a case may enlarge the memory of the process; its files have a few kilobytes."""
MAX_ADDRESS_SPACE = 3 << 30
"""Bytes of address space that cases may take beyond what the process has at the start."""
MAX_MESSAGE_LENGTH = 1500
_PACKAGE = Path(palda.__file__).parent
_OUT_OF_MEMORY = re.compile("out of memory|fit into memory|[mr]alloc|bad_alloc|[Uu]nable to allocate")


class TimeLimitError(BaseException):
    """The case took too much processor time."""


def make_case(
    name: str, target: Target, seeds: list[dict[str, bytes]], seed: int, case: int
) -> tuple[dict[str, bytes], int]:
    """Files of a case, and the number of the call that reads them."""
    numbers = random.Random(f"{seed}:{name}:{case}")  # noqa: S311 - it has to be reproducible
    files = target.change(numbers, numbers.choice(seeds), numbers.choice(seeds))
    return files, numbers.randrange(len(target.calls))


def run_case(target: Target, files: dict[str, bytes], call: int, folder: Path) -> str | None:
    """None if the files are read or refused in one line; otherwise what went wrong."""
    place = folder / "case"
    shutil.rmtree(place, ignore_errors=True)
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    start = _reset_peak_memory()
    signal.setitimer(signal.ITIMER_PROF, MAX_CPU_SECONDS)
    faulthandler.dump_traceback_later(MAX_SECONDS, exit=True)
    try:
        problem = _problem(target, call, place / target.file if target.file else place)
    except TimeLimitError:
        problem = f"more than {MAX_CPU_SECONDS:g} s of processor time"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
    growth = _memory("VmHWM") - start
    if problem is None and growth > MAX_GROWTH:
        problem = f"takes {growth >> 20} MiB of memory"
    return problem


def _problem(target: Target, call: int, path: Path) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PaldaWarning)
        try:
            target.calls[call](path)
        except PaldaError as refused:
            message = str(refused)
            if "\n" in message or "\r" in message or not 5 < len(message) <= MAX_MESSAGE_LENGTH:
                return f"the message is not one line of usual length: {message[:300]!r}"
            if _OUT_OF_MEMORY.search(message):
                return f"takes too much memory: {message}"
        except Exception as error:  # noqa: BLE001 - this is what the fuzzer looks for
            return f"{type(error).__name__} at {place_in_package(error)}: {str(error)[:200]}"
    return None


def place_in_package(error: BaseException, package: Path = _PACKAGE) -> str:
    """File and line of the innermost frame inside the package's folder; ``?`` if the error comes from elsewhere.

    The folder of the clone may itself be called palda, so the name alone does not tell.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if package in Path(frame.filename).parents]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"


def _memory(field: str) -> int:
    """A field of this process's status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) << 10
    return 0


def _reset_peak_memory() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def limit_resources() -> None:
    """Limit the address space, and raise an error at the limit of processor time."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeLimitError

    signal.signal(signal.SIGPROF, stop)
    space = _memory("VmSize") + MAX_ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (space, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Answer requests until standard input ends."""
    seeds, targets = read_seeds(Path(sys.argv[1])), all_targets()
    status = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)
    limit_resources()
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a folder with a random name in it
    with tempfile.TemporaryDirectory(dir=place, prefix="palda-fuzz-") as folder:
        for line in sys.stdin:
            name, seed, first, stop = json.loads(line)
            started = time.process_time()
            findings: list[tuple[int, str]] = []
            for case in range(first, stop):
                os.pwrite(status, f"{case:<20d}".encode(), 0)
                target: Any = targets[name]
                files, call = make_case(name, target, seeds[name], seed, case)
                problem = run_case(target, files, call, Path(folder))
                if problem is not None:
                    findings.append((case, problem))
            print(json.dumps({"seconds": time.process_time() - started, "findings": findings}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
