"""Server-sent events: the status of a project whenever it changes.

One task per watched project reads the store once per second for all its listeners. A listener is a coroutine and holds
no thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from sqlalchemy import func, select
from starlette.concurrency import run_in_threadpool

from palda.live.errors import ServiceError, TooManyRequestsError
from palda.live.schema import event, learner_state, progress, vote

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable

    from palda.live.store import Store

_LOG = logging.getLogger("palda.live")

SECONDS_BETWEEN_READS = 1.0
SECONDS_BETWEEN_SIGNS = 15.0  # a comment that keeps proxies from closing a quiet connection
_SIGN_OF_LIFE = b": \n\n"


class _Watch:
    """Latest event of a project, and who waits for the next."""

    def __init__(self) -> None:
        self.event = b""
        self.number = 0
        self.changed = asyncio.Event()
        self.n_listeners = 0
        self.task: asyncio.Task[None] | None = None

    def publish(self, event: bytes) -> None:
        self.event, self.number = event, self.number + 1
        self.changed.set()
        self.changed = asyncio.Event()


class EventHub:
    """Events of all projects, for at most ``max_listeners`` open streams per credential.

    ``marker`` of a project's id is a value that changes with the project's status and costs little; ``status`` is the
    status as JSON without line breaks.
    """

    def __init__(self, marker: Callable[[int], object], status: Callable[[int], bytes], max_listeners: int) -> None:
        self._marker, self._status, self._max_listeners = marker, status, max_listeners
        self._watches: dict[int, _Watch] = defaultdict(_Watch)
        self._listeners: Counter[Hashable] = Counter()
        self._is_closed = False

    def close(self) -> None:
        """End all streams."""
        self._is_closed = True
        for watch in self._watches.values():
            watch.changed.set()

    def check(self, credential: Hashable) -> None:
        """Refuse one stream too many of a credential."""
        if self._is_closed or self._listeners[credential] >= self._max_listeners:
            raise TooManyRequestsError(f"at most {self._max_listeners} streams of events per credential: close one")

    async def listen(self, project_id: int, credential: Hashable, check: Callable[[], object]) -> AsyncIterator[bytes]:
        """Parts of a stream of events; ``check`` raises when the listener may no longer see them."""
        watch = self._watches[project_id]
        watch.n_listeners += 1
        self._listeners[credential] += 1
        if watch.task is None:
            watch.task = asyncio.create_task(self._follow(project_id, watch))
        try:
            async for part in self._parts(watch, check):
                yield part
        finally:
            self._leave(project_id, watch, credential)

    def _leave(self, project_id: int, watch: _Watch, credential: Hashable) -> None:
        self._listeners[credential] -= 1
        if not self._listeners[credential]:
            del self._listeners[credential]
        watch.n_listeners -= 1
        if not watch.n_listeners:
            self._watches.pop(project_id, None)
            if watch.task is not None:
                watch.task.cancel()

    async def _parts(self, watch: _Watch, check: Callable[[], object]) -> AsyncIterator[bytes]:
        number = 0
        yield _SIGN_OF_LIFE
        checked_at = asyncio.get_running_loop().time()
        while not self._is_closed:
            if number != watch.number:
                number = watch.number
                yield watch.event
                continue
            left = checked_at + SECONDS_BETWEEN_SIGNS - asyncio.get_running_loop().time()
            try:
                await asyncio.wait_for(watch.changed.wait(), max(left, 0.0))
            except TimeoutError:
                checked_at = asyncio.get_running_loop().time()
                try:
                    await run_in_threadpool(check)
                except ServiceError:
                    return
                yield _SIGN_OF_LIFE

    async def _follow(self, project_id: int, watch: _Watch) -> None:
        """Publish the status whenever the marker changes; a store that cannot be read now is tried again."""
        last: object = None
        while True:
            try:
                marker = await run_in_threadpool(self._marker, project_id)
                if marker != last:
                    status = await run_in_threadpool(self._status, project_id)
                    watch.publish(b"event: status\ndata: " + status + b"\n\n")
                    last = marker
            except ServiceError:
                last = None
            except Exception:  # noqa: BLE001 - a bug must not end the stream of everybody
                _LOG.exception("events of project %s", project_id)
                last = None
            await asyncio.sleep(SECONDS_BETWEEN_READS)


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
