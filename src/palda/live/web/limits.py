"""Limits on sizes and rates."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException

from palda.live.errors import TooManyRequestsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Message, Receive

Result = TypeVar("Result")

_SECONDS_BETWEEN_PARTS = 30.0  # a client that sends nothing for so long in the middle of a body is given up


@dataclass(frozen=True)
class Limits:
    """What one client may ask for; every rate is per process."""

    body_bytes: int = 2_000_000
    upload_bytes: int = 300_000_000
    requests_per_second: float = 50.0  # per credential
    request_burst: int = 200
    failures_per_second: float = 0.2  # failed sign-ins per address
    failure_burst: int = 20
    listeners_per_credential: int = 6  # open streams of events
    slow_requests: int = 4  # exports and uploads at work at once
    waiting_slow_requests: int = 16  # and those that wait for them
    slow_requests_per_person: int = 3  # at work or waiting


class TokenBuckets:
    """Token bucket per key, which gets ``rate`` tokens per second; the least recently used keys are forgotten first.

    Examples
    --------
    >>> from palda.live.web.limits import TokenBuckets
    >>> buckets = TokenBuckets(rate=0.0, size=2)
    >>> [buckets.take("a"), buckets.take("a"), buckets.take("a"), buckets.take("b")]
    [True, True, False, True]
    """

    def __init__(self, rate: float, size: int, max_keys: int = 50_000) -> None:
        self._rate, self._size, self._max_keys = rate, float(size), max_keys
        self._buckets: OrderedDict[object, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted
        self._lock = Lock()

    def __contains__(self, key: object) -> bool:
        return key in self._buckets

    def _tokens(self, key: object, now: float) -> float:
        tokens, counted_at = self._buckets.get(key, (self._size, now))
        return min(self._size, tokens + (now - counted_at) * self._rate)

    def is_empty(self, key: object) -> bool:
        """Whether the next token would be refused."""
        with self._lock:
            return self._tokens(key, time.monotonic()) < 1.0

    def take(self, key: object) -> bool:
        """Take a token; False if there is none."""
        now = time.monotonic()
        with self._lock:
            tokens = self._tokens(key, now)
            is_granted = tokens >= 1.0
            self._buckets[key] = (tokens - is_granted, now)
            self._buckets.move_to_end(key)
            if len(self._buckets) > self._max_keys:
                self._buckets.popitem(last=False)
        return is_granted


class SlowRequests:
    """Threads for work that takes seconds, apart from those that answer annotators."""

    def __init__(self, limits: Limits) -> None:
        self._threads = CapacityLimiter(limits.slow_requests)
        self._max_requests = limits.slow_requests + limits.waiting_slow_requests
        self._max_per_person = limits.slow_requests_per_person
        self._n_requests: Counter[int] = Counter()  # per person; counted in the event loop alone

    async def run(self, person_id: int, work: Callable[[], Result]) -> Result:
        """Result of ``work`` for a person, which is refused when too many others wait."""
        if self._n_requests.total() >= self._max_requests or self._n_requests[person_id] >= self._max_per_person:
            raise TooManyRequestsError("too many exports and uploads at once: wait a minute")
        self._n_requests[person_id] += 1
        try:
            return await to_thread.run_sync(work, limiter=self._threads)
        finally:
            self._n_requests[person_id] -= 1
            self._n_requests += Counter()  # forgets those without requests


class BodyLimit:
    """Receives a request's body and stops at ``max_bytes``, whatever the headers say.

    An endpoint for uploads raises ``max_bytes`` before it reads.
    """

    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._receive = receive
        self._n_bytes = 0
        self._is_complete = False

    async def __call__(self) -> Message:
        """Next message of the connection."""
        if self._is_complete:  # what follows is the end of the connection, which may take as long as the answer
            return await self._receive()
        try:
            async with asyncio.timeout(_SECONDS_BETWEEN_PARTS):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, "the request's body stopped arriving", {"connection": "close"}) from None
        self._n_bytes += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        if self._n_bytes > self.max_bytes:
            detail = f"the request's body is larger than {self.max_bytes:,} bytes"
            raise HTTPException(413, detail, {"connection": "close"})
        return message
