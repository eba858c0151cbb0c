"""Server-sent events: the status of a project whenever it changes.

However many listen, the store is read once per second and project. A listener is a coroutine and holds no thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import TypeAdapter
from sqlalchemy import func, select
from starlette.concurrency import run_in_threadpool

from palda.live.errors import ServiceError, TooManyRequestsError
from palda.live.records import ProjectStatus
from palda.live.schema import event, learner_state, progress, vote
from palda.live.service.results import status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable

    from palda.live.store import Store

_LOG = logging.getLogger("palda.live")

SECONDS_BETWEEN_READS = 1.0
SECONDS_BETWEEN_SIGNS = 15.0  # a comment that keeps proxies from closing a quiet connection
_SIGN_OF_LIFE = b": \n\n"
status_json = TypeAdapter(ProjectStatus).dump_json
"""Status as JSON without line breaks."""


class _Latest:
    """Latest event of a project."""

    def __init__(self) -> None:
        self.event = b""
        self.marker: object = None
        self.read_at = -SECONDS_BETWEEN_SIGNS
        self.lock = asyncio.Lock()


class EventHub:
    """Events of all projects, for at most ``max_listeners`` open streams per credential."""

    def __init__(self, store: Store, max_listeners: int) -> None:
        self._store, self._max_listeners = store, max_listeners
        self._latest: dict[int, _Latest] = defaultdict(_Latest)
        self._listeners: Counter[Hashable] = Counter()
        self._closed = asyncio.Event()

    def close(self) -> None:
        """End all streams."""
        self._closed.set()

    def check(self, credential: Hashable) -> None:
        """Refuse one stream too many of a credential."""
        if self._closed.is_set() or self._listeners[credential] >= self._max_listeners:
            raise TooManyRequestsError(f"at most {self._max_listeners} streams of events per credential: close one")

    async def listen(self, project_id: int, credential: Hashable, check: Callable[[], object]) -> AsyncIterator[bytes]:
        """Parts of a stream of events; ``check`` raises when the listener may no longer see them."""
        self._listeners[credential] += 1
        try:
            if self._listeners[credential] > self._max_listeners:
                return  # others have begun since ``check``
            async for part in self._parts(project_id, check):
                yield part
        finally:
            self._listeners[credential] -= 1
            self._listeners += Counter()  # forgets those without streams

    async def _parts(self, project_id: int, check: Callable[[], object]) -> AsyncIterator[bytes]:
        sent, checked_at = b"", time.monotonic()
        yield _SIGN_OF_LIFE
        while not self._closed.is_set():
            if (latest := await self._event(project_id)) != sent:
                sent = latest
                yield latest
            if time.monotonic() >= checked_at + SECONDS_BETWEEN_SIGNS:
                try:
                    await run_in_threadpool(check)
                except ServiceError:
                    return
                checked_at = time.monotonic()
                yield _SIGN_OF_LIFE
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), SECONDS_BETWEEN_READS)

    async def _event(self, project_id: int) -> bytes:
        """The latest event, read again if it is old; a store that cannot be read now is tried again later."""
        latest = self._latest[project_id]
        async with latest.lock:
            if time.monotonic() >= latest.read_at + SECONDS_BETWEEN_READS:
                try:
                    marker = await run_in_threadpool(status_marker, self._store, project_id)
                    if marker != latest.marker:
                        data = status_json(await run_in_threadpool(status, self._store, project_id))
                        latest.event, latest.marker = b"event: status\ndata: " + data + b"\n\n", marker
                except ServiceError:
                    pass
                except Exception:  # noqa: BLE001 - a bug must not end the stream of everybody
                    _LOG.exception("events of project %s", project_id)
                latest.read_at = time.monotonic()
        return latest.event


def status_marker(store: Store, project_id: int) -> object:
    """A value that changes when the status of a project does; four look-ups in indexes."""
    last = [
        select(func.max(table.c.position)).where(table.c.project_id == project_id) for table in (vote, event, progress)
    ]
    state = (learner_state.c[name] for name in ("activity", "message", "position", "n_failures"))
    learner = select(*state).where(learner_state.c.project_id == project_id)

    return store.read(
        lambda connection: (
            *(connection.execute(query).scalar() for query in last),
            *(connection.execute(learner).one_or_none() or ()),
        )
    )
