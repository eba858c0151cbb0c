"""Runs the learner of a server as a child process, and starts it again when it ends unexpectedly."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from sqlalchemy import select

from palda.errors import PaldaError, reason_of
from palda.live import schema
from palda.live.learner.writes import upsert
from palda.live.records import LearnerState
from palda.live.store import open_store, store_url

if TYPE_CHECKING:
    import os

    from sqlalchemy import Connection

    from palda.live.learner.options import FitOptions

_FIRST_PAUSE, _MAX_PAUSE = 1.0, 60.0  # seconds before a restart
_HEALTHY_SECONDS = 60.0  # after which a failure counts as the first one again
_END_SECONDS = 5.0

log = logging.getLogger("palda.learner")


class LearnerSupervisor:
    """Starts the learner, restarts it with growing pauses, and notes failures where the dashboard shows them."""

    def __init__(self, location: str | os.PathLike[str], options: FitOptions) -> None:
        self._url = store_url(location).render_as_string(hide_password=False)
        self._options = options
        self._stop = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="learner supervisor", daemon=True)

    @property
    def process_id(self) -> int | None:
        """Id of the learner's process, None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the learner."""
        self._thread.start()

    def stop(self) -> None:
        """End the learner and wait for it."""
        self._stop.set()
        _close_input(self._process)
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        n_failures = 0
        while not self._stop.is_set():
            started = time.monotonic()
            reason = self._run_once()
            if self._stop.is_set():
                return
            n_failures = 1 if time.monotonic() - started > _HEALTHY_SECONDS else n_failures + 1
            log.error("%s; it is started again", reason)
            self._note(reason, n_failures)
            self._stop.wait(min(_FIRST_PAUSE * 2 ** (n_failures - 1), _MAX_PAUSE))

    def _run_once(self) -> str:
        """Run the learner until it ends; returns why it did."""
        order = {"url": self._url, "options": asdict(self._options)}
        try:
            process = self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "palda.live.learner"],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            return f"the learner cannot be started: {reason_of(error)}"
        if process.stdin is None or process.stderr is None:
            raise AssertionError("no pipes")
        with suppress(OSError, ValueError):  # it has ended, and its last line says why; or it is to end
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        if self._stop.is_set():
            _close_input(process)
        last = ""
        for line in process.stderr:
            last = line.decode(errors="replace").strip() or last
            log.info("learner: %s", last)
        code = _wait(process)
        _close_input(process)
        process.stderr.close()
        self._process = None
        return f"the learner ended by signal {-code}" if code < 0 else f"the learner ended: {last or f'code {code}'}"

    def _note(self, reason: str, n_failures: int) -> None:
        """Write the failure to the state of every project."""

        def write(connection: Connection) -> None:
            ids = connection.execute(select(schema.project.c.id)).scalars().all()
            state = asdict(LearnerState("failed", reason[:500], 0, n_failures, time.time()))
            upsert(connection, schema.learner_state, [{"project_id": number, **state} for number in ids])

        try:
            with closing(open_store(self._url, as_learner=True)) as store:
                store.write(write)
        except PaldaError as error:
            log.error("%s", error)  # noqa: TRY400 - one line


def _close_input(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None and process.stdin is not None:
        with suppress(OSError):  # it has ended
            process.stdin.close()


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Exit code; a process that has closed its output and does not end is killed."""
    try:
        return process.wait(timeout=_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
