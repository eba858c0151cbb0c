from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from palda.engine import resolve_n_jobs
from palda.errors import PaldaError
from palda.paper import Cell, CellRecord, CellTimes, Outcome, Store, run

HERE = Path(__file__).parent


class Listener:
    """Keeps every call; raises ``KeyboardInterrupt`` after ``stop_after`` finished cells."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.begun: tuple[int, int] | None = None
        self.done: list[Cell] = []
        self.failures: list[tuple[Cell, str]] = []
        self.left: list[float] = []
        self._stop_after = stop_after

    def begin(self, n_cells: int, n_done: int, left: float) -> None:
        self.begun = n_cells, n_done
        self.left.append(left)

    def finished(self, record: CellRecord, left: float) -> None:
        self.done.append(record.cell)
        self.left.append(left)
        if len(self.done) == self._stop_after:
            raise KeyboardInterrupt

    def failed(self, cell: Cell, why: str, left: float) -> None:
        self.failures.append((cell, why))
        self.left.append(left)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The replacements for ``run_cell``, importable in worker processes too."""
    monkeypatch.syspath_prepend(HERE)
    import fake_cells

    yield fake_cells
    sys.modules.pop("fake_cells")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv("FAKE_CELLS_LOG", str(path))
    return path


def run_fakes(cells: list[Cell], folder: Path, listener: Listener | None = None, **options: object) -> Outcome:
    return run(cells, Store(folder), listener or Listener(), **{"jobs": 1, "execute": "fake_cells:run", **options})  # type: ignore[arg-type]


def test_finished_cells_are_not_run_again(fakes: ModuleType, log: Path, tmp_path: Path) -> None:
    cells = [fakes.make_cell(seed) for seed in range(3)]
    first = run_fakes(cells[:2], tmp_path)
    assert (first.n_run, first.n_skipped) == (2, 0)
    again = run_fakes(cells[:2], tmp_path)
    assert (again.n_run, again.n_skipped) == (0, 2)
    listener = Listener()
    longer = run_fakes(cells, tmp_path, listener)
    assert (longer.n_run, longer.n_skipped) == (1, 2)
    assert listener.begun == (3, 2)
    assert log.read_text().split() == ["good-0", "good-1", "good-2"]


def test_an_interrupt_keeps_finished_cells(fakes: ModuleType, log: Path, tmp_path: Path) -> None:
    cells = [fakes.make_cell(seed) for seed in range(4)]
    with pytest.raises(KeyboardInterrupt):
        run_fakes(cells, tmp_path, Listener(stop_after=2))
    store = Store(tmp_path)
    assert [record.cell.seed for record in store.load_all(cells)] == [0, 1]
    assert run_fakes(cells, tmp_path).n_run == 2


KILLED = """
import sys
sys.path.insert(0, sys.argv[1])
import fake_cells
sys.path.insert(0, sys.argv[2])
from palda.paper import Store, run

class Silent:
    def begin(self, *values): pass
    finished = failed = begin

if __name__ == "__main__":
    cells = [fake_cells.make_cell(seed, "slow") for seed in range(40)]
    run(cells, Store(sys.argv[3]), Silent(), jobs=1, execute="fake_cells:run")
"""


def test_a_killed_run_is_resumed_without_repeating_cells(fakes: ModuleType, log: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(KILLED)
    folder = tmp_path / "results"
    command = [sys.executable, str(script), str(HERE), str(tmp_path), str(folder)]
    process = subprocess.Popen(command)  # noqa: S603 - our own script
    cells = [fakes.make_cell(seed, "slow") for seed in range(40)]
    try:
        while len(Store(folder).load_all(cells)) < 3:
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = Store(folder).load_all(cells)
    assert 3 <= len(done) < 40
    log.write_text("")
    prefix = cells[: len(done) + 2]
    assert run_fakes(prefix, folder).n_run == 2
    assert log.read_text().split() == [f"slow-{cell.seed}" for cell in prefix[-2:]]


def test_a_cell_that_fails_or_kills_its_process_does_not_stop_the_others(fakes: ModuleType, tmp_path: Path) -> None:
    methods = ["good", "bad", "dead", "worse", "bad", "good"]
    cells = [fakes.make_cell(seed, method) for seed, method in enumerate(methods)]
    listener = Listener()
    outcome = run_fakes(cells, tmp_path, listener)
    assert [cell.seed for cell in listener.done] == [0, 5]
    assert outcome.n_run == 2
    assert dict(outcome.failures) == {
        "this method does not work": 2,
        f"the worker process died (exit code {-signal.SIGKILL})": 1,
        "KeyError: 'two\\nlines'": 1,
    }
    assert [cell.seed for cell, _ in listener.failures] == [1, 2, 3, 4]
    assert len(Store(tmp_path).load_everything()) == 2


def test_results_do_not_depend_on_the_number_of_jobs(fakes: ModuleType, tmp_path: Path) -> None:
    cells = [fakes.make_cell(seed, method) for seed in range(3) for method in ("good", "slow")]
    for jobs in (1, 3):
        run_fakes(cells, tmp_path / str(jobs), jobs=jobs)
    names = sorted(path.name for path in (tmp_path / "1" / "cells").iterdir())
    assert names == sorted(cell.file_name for cell in cells)
    for name in names:
        assert (tmp_path / "1" / "cells" / name).read_text() == (tmp_path / "3" / "cells" / name).read_text()


@pytest.mark.parametrize("jobs", [1, 1000])
def test_jobs_times_threads_never_exceed_the_cores(fakes: ModuleType, tmp_path: Path, jobs: int) -> None:
    cell, before = fakes.make_cell(), dict(os.environ)
    run([cell], Store(tmp_path), Listener(), jobs=jobs, execute="fake_cells:threads")
    found = Store(tmp_path).load(cell)
    assert found is not None
    expected = max(1, resolve_n_jobs(-1) // jobs)  # 1000 jobs are limited to the number of cores
    assert found.measures == {"given": expected, "blas": 1}
    assert dict(os.environ) == before  # the limit applies to workers only


def test_a_cell_planned_twice_is_run_once(fakes: ModuleType, log: Path, tmp_path: Path) -> None:
    cell = fakes.make_cell()
    outcome = run_fakes([cell, replace(cell, quick=True)], tmp_path)
    assert (outcome.n_run, outcome.n_skipped) == (1, 0)
    assert log.read_text().split() == ["good-0"]


def test_zero_jobs_are_refused(fakes: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(PaldaError, match="must be at least 1"):
        run_fakes([fakes.make_cell()], tmp_path, jobs=0)


def test_the_estimated_time_left_reaches_zero(fakes: ModuleType, tmp_path: Path) -> None:
    listener = Listener()
    run_fakes([fakes.make_cell(seed) for seed in range(3)], tmp_path, listener)
    assert listener.left[0] > 0
    assert listener.left[1:] == [2.0, 1.0, 0.0]  # every record says that it took a second


def test_the_expected_time_of_a_cell_is_the_mean_of_the_most_similar_cells(fakes: ModuleType) -> None:
    done = (("a", 1.0, 10.0), ("a", 1.0, 20.0), ("a", 0.5, 4.0), ("b", 1.0, 2.0))
    times = CellTimes(
        fakes.make_record(fakes.make_cell(0, method, fraction=fraction), seconds) for method, fraction, seconds in done
    )
    assert times.expected(fakes.make_cell(7, "a")) == 15.0
    assert times.expected(fakes.make_cell(7, "a", fraction=0.5)) == 4.0
    assert times.expected(fakes.make_cell(7, "a", fraction=0.1)) == pytest.approx(34 / 3)
    assert times.expected(fakes.make_cell(7, "c")) == 9.0
    assert CellTimes().expected(fakes.make_cell()) > 0
