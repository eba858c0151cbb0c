"""Memory and CPU time of the processes of a server, by role, read from /proc."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SECONDS = 0.5
_ROLES = {"palda.live.learner.fitting": "fit", "palda.live.learner": "learner"}


def n_bytes(pages: int) -> int:
    """Bytes of pages."""
    return pages * _PAGE


def children(process: int) -> Iterator[int]:
    """Ids of all descendants of a process."""
    parent_of = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parent_of[int(entry.name)] = int(fields[1])
    found = {process}
    while True:
        more = {child for child, parent in parent_of.items() if parent in found} - found
        if not more:
            break
        found |= more
    yield from found - {process}


def role_of(process: int) -> str:
    """What a child of a server does."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "other"
    return next((_ROLES[word] for word in words if word in _ROLES), "other")


class Watch:
    """Samples memory and CPU time of a server and its children."""

    def __init__(self, server: int, database: int | None = None) -> None:
        self._roots = {"server": server} | ({} if database is None else {"database": database})
        self._server = server
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._cpu: dict[tuple[str, int], float] = {}
        self._first: dict[tuple[str, int], float] = {}
        self._seen: list[tuple[float, str]] = []
        self._start = time.monotonic()
        self.peak: dict[str, int] = {}

    def start(self) -> None:
        """Sample in a thread."""
        self._start = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def cpu_seconds(self) -> dict[str, float]:
        """CPU time per role since the start."""
        found: dict[str, float] = {}
        for key, seconds in self._cpu.items():
            found[key[0]] = found.get(key[0], 0.0) + seconds - self._first[key]
        return found

    def share_with(self, role: str, start: float, end: float) -> float:
        """Share of the samples between two times in which a process had a role."""
        times = {round(at, 3) for at, _ in self._seen if start <= at < end}
        seen = {round(at, 3) for at, one in self._seen if one == role and start <= at < end}
        return len(seen) / max(len(times), 1)

    def _run(self) -> None:
        while not self._end.wait(_SECONDS):
            at = time.monotonic() - self._start
            processes = {process: name for name, process in self._roots.items()}
            processes |= {child: role_of(child) for child in children(self._server)}
            if (database := self._roots.get("database")) is not None:
                processes |= dict.fromkeys(children(database), "database")
            for process, role in processes.items():
                self._sample(process, role, at)

    def _sample(self, process: int, role: str, at: float) -> None:
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return
        seconds = (int(fields[11]) + int(fields[12])) / _TICK
        self._first.setdefault((role, process), seconds if at < 2 * _SECONDS else 0.0)
        self._cpu[role, process] = seconds
        self.peak[role] = max(self.peak.get(role, 0), int(fields[21]))
        self._seen.append((at, role))
