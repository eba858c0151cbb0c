"""Where tests find the public data sets, and a loud word when they do not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterable

_BESIDE_THE_CHECKOUT = Path(__file__).resolve().parents[2] / "shared" / "data"

if "PALDA_DATA" not in os.environ and _BESIDE_THE_CHECKOUT.is_dir():
    os.environ["PALDA_DATA"] = str(_BESIDE_THE_CHECKOUT)


settings.register_profile("steady", derandomize=True, database=None)
if os.environ.get("CI"):
    settings.load_profile("steady")  # the same examples every time; elsewhere each run looks at new ones


def _data_folder() -> Path | None:
    folder = os.environ.get("PALDA_DATA")
    return Path(folder) if folder and Path(folder).is_dir() else None


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the public data sets; tests that use it carry the ``data`` mark."""
    folder = _data_folder()
    assert folder is not None, "mark tests that need the public data sets with @pytest.mark.data"
    return folder


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    if _data_folder() is not None:
        return
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason="public data sets not found: set PALDA_DATA"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_out = [
        report.nodeid for report in terminalreporter.stats.get("skipped", []) if "PALDA_DATA" in str(report.longrepr)
    ]
    if left_out:
        terminalreporter.section("LEFT OUT: NO PUBLIC DATA SETS", sep="!", red=True, bold=True)
        terminalreporter.line(f"{len(left_out)} tests on real data did not run; set PALDA_DATA to the data folder:")
        for nodeid in left_out:
            terminalreporter.line(f"  {nodeid}")
