"""``python -m palda.live.learner``: the learner of a store, until standard input is closed.

The first line of standard input is a JSON object with the address of the store and the options of fits. It is not an
argument because arguments of a process can be read by everybody on the machine, and an address may hold a password.
Standard input is watched before large packages are imported: a server that is stopped while its learner starts need not
wait for it.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from palda.errors import PaldaError
from palda.io import FileLock
from palda.live.learner.options import FitOptions
from palda.live.store import open_store

if TYPE_CHECKING:
    from palda.live.store import Store

_LOCK_KEY = 0x70616C65  # advisory lock of PostgreSQL
_LOCK_PAUSE = 2.0  # seconds between attempts
_GRACE_SECONDS = 3.0  # to end after standard input was closed


def lock_of(store: Store, stop: threading.Event) -> object:
    """Lock that lets one learner of a store work at a time; waits for it, and is None if ``stop`` was set first."""
    lock = None
    while lock is None and not stop.is_set():
        lock = _file_lock(store) if store.is_sqlite else _postgresql_lock(store)
        if lock is None:
            stop.wait(_LOCK_PAUSE)
    return lock


def _file_lock(store: Store) -> object:
    path = Path(store.url.database or "")
    try:
        return FileLock(path.with_name(f"{path.name}.learner.lock"))
    except BlockingIOError:
        return None


def _postgresql_lock(store: Store) -> object:
    """Connection that holds an advisory lock; if it is lost, the process ends."""
    from sqlalchemy import create_engine, text
    from sqlalchemy.pool import NullPool

    connection = create_engine(store.url, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect()
    if not connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _LOCK_KEY}).scalar():
        connection.close()
        return None

    def watch() -> None:
        while True:
            time.sleep(_LOCK_PAUSE)
            try:
                connection.execute(text("SELECT 1"))
            except Exception:  # noqa: BLE001 - whatever happened, another learner may have the lock now
                sys.stderr.write("the connection to the database was lost\n")
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    return connection


def main() -> None:
    """Run the learner; see the module."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the server, which closes standard input
    order = json.loads(sys.stdin.buffer.readline())
    stop, is_loaded = threading.Event(), threading.Event()
    threading.Thread(target=_end_with_parent, args=(stop, is_loaded), daemon=True).start()
    from palda.live.learner.loop import Learner

    is_loaded.set()
    try:
        store = open_store(order["url"], as_learner=True)
        lock = lock_of(store, stop)  # held until the end
        if lock is not None:
            gc.collect()
            gc.freeze()  # a long collection while the store is locked would let requests wait
            Learner(store, FitOptions(**order["options"])).run(stop)
    except PaldaError as error:
        sys.exit(str(error))
    store.close()


def _end_with_parent(stop: threading.Event, is_loaded: threading.Event) -> None:
    """Stop the loop when standard input is closed; end the process at once if it has not begun, or does not stop soon.

    ``is_loaded`` is set before the store is opened.
    """
    while os.read(0, 1):
        pass
    stop.set()
    if is_loaded.is_set():
        time.sleep(_GRACE_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    main()
