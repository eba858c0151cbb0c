"""Figures of the run, printed at its end."""

from __future__ import annotations

from collections.abc import Generator

import pytest

_figures: dict[str, object] = {}


@pytest.fixture(scope="session")
def figures() -> dict[str, object]:
    """What the tests measure, by name."""
    return _figures


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test of this folder that is skipped has failed: whoever asks for it wants it to run."""
    report = yield
    if report.skipped:
        report.outcome, report.longrepr = "failed", f"must not be skipped: {call.excinfo.value if call.excinfo else ''}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures, whatever is captured."""
    if _figures:
        terminalreporter.section("figures beside the real Label Studio")
    for name, value in _figures.items():
        terminalreporter.write_line(f"{name}: {f'{value:.2f}' if isinstance(value, float) else value}")
