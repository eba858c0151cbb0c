"""The thread that follows Label Studio while the server runs: webhooks at once, everything from time to time."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from palda.errors import PaldaError, reason_of
from palda.live.errors import NotFoundError
from palda.live.labelstudio import connections
from palda.live.labelstudio.errors import UnreachableError
from palda.live.labelstudio.registration import register
from palda.live.labelstudio.steering import Steering
from palda.live.labelstudio.sync import Sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from palda.live.labelstudio.client import Client
    from palda.live.store import Store

RECONCILE_SECONDS = 600.0
"""Between two comparisons of everything."""

_WITHOUT_WEBHOOKS = 20.0  # seconds between comparisons while Label Studio cannot reach this server
_PAUSE = 0.2  # seconds between two looks at what waits
_STEER_SECONDS = 2.0
_SOON = 2.0  # seconds between comparisons that webhooks ask for
_REGISTER_AGAIN = 60.0
_FIRST_PAUSE, _MAX_PAUSE = 2.0, 60.0  # after failures

log = logging.getLogger("palda.labelstudio")


class Connector:
    """Follows one project.

    Parameters
    ----------
    store : Store
        The store.
    client : Client
        Of Label Studio.
    project_id : int
        Project of the store.
    secret : str
        What Label Studio must send.
    say : callable
        Told in one line what happens.
    seconds : float, default=600
        Time between two comparisons of everything.
    """

    def __init__(
        self,
        store: Store,
        client: Client,
        project_id: int,
        secret: str,
        say: Callable[[str], None],
        seconds: float = RECONCILE_SECONDS,
    ) -> None:
        self._store, self._client, self._project_id = store, client, project_id
        self._secret, self._say, self._seconds = secret, say, seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="label studio", daemon=True)
        self._backend_url = ""
        self._ready: Callable[[], None] | None = None
        self._sync: Sync | None = None
        self._steering: Steering | None = None
        self._is_registered = False
        self._register_at = self._reconcile_at = self._steer_at = 0.0
        self._n_failures = 0

    def start(self, backend_url: str, ready: Callable[[], None] = lambda: None) -> None:
        """Begin; ``backend_url`` is the address under which Label Studio reaches the routes of this connection.

        ``ready`` is called once, when all tasks have been read: fits of a part of them would only delay the others.
        """
        self._backend_url, self._ready = backend_url, ready
        self._thread.start()

    def stop(self) -> None:
        """End and wait."""
        self._stop.set()
        self._client.close()
        if self._thread.ident is not None:
            self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                was_busy = self.step()
                if self._n_failures:
                    self._n_failures = 0
                    self._tell("Label Studio answers again")
            except PaldaError as error:
                self._fail(error)
            except Exception as error:
                if self._stop.is_set():  # the connection was closed in the middle of a request
                    return
                log.exception("the connection to Label Studio failed")  # a fault of ours must not end labelling
                self._fail(error)
            else:
                self._stop.wait(0.0 if was_busy else _PAUSE)

    def _tell_ready(self) -> None:
        if self._ready is not None:
            self._ready()
            self._ready = None

    def _fail(self, error: Exception) -> None:
        self._n_failures += 1
        if self._sync is not None and self._sync.connection.synced_at is not None:
            self._tell_ready()  # what is there already can be learned from
        if isinstance(error, UnreachableError) or self._n_failures > 1:
            self._reconcile_at = 0.0  # something may have been missed
        if self._n_failures == 1:
            self._tell(reason_of(error))
        self._stop.wait(min(_FIRST_PAUSE * 2.0 ** (self._n_failures - 1), _MAX_PAUSE))

    def step(self) -> bool:
        """Do what is due; whether there may be more at once."""
        if self._sync is None:
            self._sync = Sync(self._store, self._client, self._project_id, self._take_waiting)
            self._steering = Steering(self._store, self._client, self._sync, self._take_waiting)
        now = time.monotonic()
        if now >= self._reconcile_at:
            self._reconcile(self._sync)
        if not self._is_registered and now >= self._register_at:
            self._register(self._sync)
        was_busy = self._take_waiting()
        if self._steering is not None and time.monotonic() >= self._steer_at:
            self._steer_at = time.monotonic() + _STEER_SECONDS
            n_done = self._steering.step()
            if n_done:
                log.info("changed %d tasks", n_done)
                self._steer_at = 0.0
        return was_busy

    def _take_waiting(self) -> bool:
        if self._sync is None or self._stop.is_set():
            return False
        n_events, needs_all = self._sync.take_events()
        if needs_all:
            self._reconcile_at = min(self._reconcile_at, time.monotonic() + _SOON)
        return n_events > 0

    def _reconcile(self, sync: Sync) -> None:
        start, is_first = time.monotonic(), sync.connection.synced_at is None
        n_changed = sync.reconcile()
        seconds = time.monotonic() - start
        wait = self._seconds if self._is_registered else min(self._seconds, _WITHOUT_WEBHOOKS)
        self._reconcile_at = time.monotonic() + max(wait, 5 * seconds)
        self._tell_ready()
        if is_first or n_changed:
            self._tell(f"compared all tasks in {seconds:.1f} s: {n_changed:,} were new or changed")
        if sync.n_ignored:
            self._tell(f"{sync.n_ignored:,} annotations or classes cannot be read and are left out")
            sync.n_ignored = 0
        sync.refresh_project()

    def _register(self, sync: Sync) -> None:
        try:
            register(self._store, self._client, sync, self._backend_url, self._secret)
        except UnreachableError:
            raise
        except PaldaError as error:
            if not self._register_at:
                self._tell(f"{error}. Until then annotations arrive every {_WITHOUT_WEBHOOKS:.0f} s")
            self._register_at = time.monotonic() + _REGISTER_AGAIN
            self._reconcile_at = min(self._reconcile_at, time.monotonic() + _WITHOUT_WEBHOOKS)
            return
        self._is_registered = True
        self._reconcile_at = min(self._reconcile_at, time.monotonic() + _SOON)  # what came before the webhook
        self._tell(f"registered {self._backend_url}; label as usual")

    def _tell(self, message: str) -> None:
        log.info("%s", message)
        self._say(message)
        with suppress(NotFoundError):  # the project was deleted
            connections.change(self._store, self._project_id, message=message[:500])
