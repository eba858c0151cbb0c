"""The public data sets, a Dask cluster, and a summary that names what was left out."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings

_DATA_BESIDE_CHECKOUT = Path(__file__).resolve().parents[2] / "shared" / "data"

if "PALDA_DATA" not in os.environ and _DATA_BESIDE_CHECKOUT.is_dir():
    os.environ["PALDA_DATA"] = str(_DATA_BESIDE_CHECKOUT)


settings.register_profile("local", deadline=None)  # a busy machine is no failure
settings.register_profile("reproducible", deadline=None, derandomize=True, database=None)
settings.load_profile("reproducible" if os.environ.get("CI") else "local")  # locally each run draws new examples


def _data_folder() -> Path | None:
    folder = os.environ.get("PALDA_DATA")
    return Path(folder) if folder and Path(folder).is_dir() else None


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the public data sets; tests that use it carry the ``data`` mark."""
    folder = _data_folder()
    assert folder is not None, "mark tests that need the public data sets with @pytest.mark.data"
    return folder


@pytest.fixture(scope="session")
def dask_client() -> Iterator[Any]:
    """A client of a Dask cluster with two worker processes; tests that use it carry the ``cluster`` mark."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'palda[dask]'")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
    client = distributed.Client(cluster, set_as_default=False)
    yield client
    with suppress(RuntimeError):  # Dask's event loop may have ended before; the workers end with this process
        client.close()
        cluster.close()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Any]:
    """A PostgreSQL server; tests that use it are skipped where it is not installed."""
    from tests import postgresql

    if postgresql.program("initdb") is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with postgresql.running_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def store_location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new store of ``palda serve`` can be made: an SQLite file, and a database of PostgreSQL."""
    if request.param == "sqlite":
        return str(tmp_path / "project.db")
    location: str = request.getfixturevalue("postgresql").new_database()
    return location


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    if _data_folder() is not None:
        return
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason="public data sets not found: set PALDA_DATA"))


class _DeselectedCount:
    """Tells the main process of pytest-xdist how many tests its workers deselected: it collects none itself."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.told = False

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output["deselected"] = [*output.get("deselected", ()), *(item.nodeid for item in items)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        deselected = getattr(node, "workeroutput", {}).get("deselected", [])
        if deselected and not self.told:  # every worker deselects the same tests
            self.told = True
            self.config.hook.pytest_deselected(items=[SimpleNamespace(nodeid=nodeid) for nodeid in deselected])


def pytest_collection_finish() -> None:
    gc.freeze()  # a collection during a test need not look at all modules


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_DeselectedCount(config))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [
        report.nodeid for report in terminalreporter.stats.get("skipped", []) if "PALDA_DATA" in str(report.longrepr)
    ]
    if skipped:
        terminalreporter.section("SKIPPED: NO PUBLIC DATA SETS", sep="!", red=True, bold=True)
        terminalreporter.line(f"{len(skipped)} tests on real data did not run; set PALDA_DATA to the data folder:")
        for nodeid in skipped:
            terminalreporter.line(f"  {nodeid}")
