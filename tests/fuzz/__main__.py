"""Run the fuzzer: ``python -m tests.fuzz --cases 200000 --jobs 2``.

Every case is determined by the seed, its target and its number. A case that ends in anything but a result or an error
of one line is stored in the folder of findings; ``--replay TARGET:CASE`` runs it again.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.fuzz.seeds import read_seeds, write_seeds

_CASES_PER_REQUEST = 100
_MAX_STORED = 20  # findings per target


class Request(NamedTuple):
    """Some cases of a target."""

    target: str
    start: int
    stop: int


@dataclass
class Result:
    """What the cases of a target gave."""

    n_cases: int = 0
    seconds: float = 0.0
    findings: dict[int, str] = field(default_factory=dict)


def run(targets: list[str], n_cases: int, seed: int, n_jobs: int, folder: Path) -> dict[str, Result]:
    """Run ``n_cases`` in total, equally many per target; ``folder`` holds the seeds."""
    pending: queue.SimpleQueue[Request] = queue.SimpleQueue()
    each = -(-n_cases // len(targets))
    for start in range(0, each, _CASES_PER_REQUEST):
        for target in targets:
            pending.put(Request(target, start, min(start + _CASES_PER_REQUEST, each)))
    results = {target: Result() for target in targets}
    threads = [
        threading.Thread(target=_work, args=(pending, seed, folder, job, results), daemon=True) for job in range(n_jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def _work(pending: queue.SimpleQueue[Request], seed: int, folder: Path, job: int, results: dict[str, Result]) -> None:
    """Hand requests to a worker; if it dies, its case is a finding and the next worker continues behind it."""
    worker: subprocess.Popen[str] | None = None
    status = folder / f"status-{job}"
    while True:
        try:
            request = pending.get_nowait()
        except queue.Empty:
            break
        if worker is None:
            worker = _start_worker(folder / "seeds", status)
        status.write_text(f"{request.start - 1}")
        answer = _ask(worker, [request.target, seed, request.start, request.stop])
        result = results[request.target]
        if answer is not None:
            result.n_cases += request.stop - request.start
            result.seconds += answer["seconds"]
            result.findings |= {int(case): problem for case, problem in answer["findings"]}
            continue
        code, worker, case = worker.wait(), None, int(status.read_text())
        if case < request.start:
            raise RuntimeError(f"a worker of the fuzzer does not start (status {code})")
        result.n_cases += 1
        result.findings[case] = f"the process ended with status {code}"
        for part in (Request(request.target, request.start, case), Request(request.target, case + 1, request.stop)):
            if part.start < part.stop:
                pending.put(part)
    if worker is not None:
        worker.communicate()


def _start_worker(seeds: Path, status: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.fuzz.worker", str(seeds), str(status)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603


def _ask(worker: subprocess.Popen[str], request: list[Any]) -> dict[str, Any] | None:
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(json.dumps(request) + "\n")
        worker.stdin.flush()
        line = worker.stdout.readline()
    except BrokenPipeError:
        return None
    return json.loads(line) if line.endswith("\n") else None


def store_findings(results: dict[str, Result], seed: int, seeds: Path, folder: Path) -> None:
    """Write the files of each finding, with what went wrong."""
    from tests.fuzz.targets import all_targets
    from tests.fuzz.worker import make_case

    known, targets = read_seeds(seeds), all_targets()
    for name, result in results.items():
        for case, problem in sorted(result.findings.items())[:_MAX_STORED]:
            place = folder / f"{name}-{seed}-{case}"
            files, call = make_case(name, targets[name], known[name], seed, case)
            for file, content in files.items():
                path = place / "files" / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            replay = f"python -m tests.fuzz --seed {seed} --replay {name}:{case}"
            (place / "finding.json").write_text(
                json.dumps({"problem": problem, "call": call, "replay": replay}, indent=1)
            )


def replay(name: str, case: int, seed: int, seeds: Path) -> str | None:
    """Run one case in this process; an unexpected exception is raised as it is."""
    from tests.fuzz.targets import all_targets
    from tests.fuzz.worker import make_case, run_case

    target = all_targets()[name]
    files, call = make_case(name, target, read_seeds(seeds)[name], seed, case)
    with tempfile.TemporaryDirectory() as folder:
        problem = run_case(target, files, call, Path(folder))
        path = Path(folder) / "case" / target.file
        if problem is not None:
            target.calls[call](path)
    return problem


def table(results: dict[str, Result]) -> str:
    """Cases, processor time and findings per target."""
    lines = [f"{'target':18s} {'cases':>9s} {'seconds':>9s} {'findings':>9s}"]
    total = Result(sum(r.n_cases for r in results.values()), sum(r.seconds for r in results.values()))
    n_findings = sum(len(result.findings) for result in results.values())
    for name, result in results.items():
        lines.append(f"{name:18s} {result.n_cases:9,d} {result.seconds:9.1f} {len(result.findings):9d}")
    lines.append(f"{'all':18s} {total.n_cases:9,d} {total.seconds:9.1f} {n_findings:9d}")
    return "\n".join(lines)


def main() -> int:
    """Command line of the fuzzer; returns 1 if there is a finding."""
    from tests.fuzz.targets import all_targets

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=200_000, help="cases of all targets together")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--seed", type=int, default=0, help="determines every case")
    parser.add_argument("--targets", default="", help="names, separated by commas; by default all")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="folder for failing cases")
    parser.add_argument("--replay", default="", metavar="TARGET:CASE", help="run one case again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="palda-fuzz-") as name:
        folder = Path(name)
        started = time.monotonic()
        if options.replay:
            target, _, case = options.replay.partition(":")
            write_seeds(folder / "seeds", [target])
            print(replay(target, int(case), options.seed, folder / "seeds") or "no finding")  # noqa: T201
            return 0
        targets = options.targets.split(",") if options.targets else list(all_targets())
        write_seeds(folder / "seeds", targets)
        results = run(targets, options.cases, options.seed, options.jobs, folder)
        store_findings(results, options.seed, folder / "seeds", options.findings)
        print(table(results))  # noqa: T201
        print(f"seed {options.seed}, {options.jobs} processes, {time.monotonic() - started:.0f} s")  # noqa: T201
        for target, result in results.items():
            for case, problem in sorted(result.findings.items())[:_MAX_STORED]:
                print(f"{target}:{case}  {problem}")  # noqa: T201
    return int(any(result.findings for result in results.values()))


if __name__ == "__main__":
    raise SystemExit(main())
