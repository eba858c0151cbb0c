"""The interface of engines, and threads: kernels release the interpreter lock, and nothing is copied.

An engine applies a function to shards, and returns the results in order or their sum. A function gets a shard and an
object that all shards share, such as parameters. Both may be sent to another machine: functions are defined at module
level, never closures, and shards and shared objects can be pickled.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

S = TypeVar("S")
B = TypeVar("B")
R = TypeVar("R")

FAN_IN = 8
"""Number of results that are added at a time. Sums are equal to the last bit on every engine."""


class Engine(Protocol):
    """Results come in shard order, so that sums do not depend on which shard finishes first."""

    def place(self, shards: Sequence[S]) -> Sequence[S]:
        """The shards in the memory of the workers, for repeated use."""

    def each(self, function: Callable[[S, B], R], shards: Sequence[S], shared: B) -> Iterator[R]:
        """Result of each shard."""

    def total(self, function: Callable[[S, B], R], shards: Sequence[S], shared: B) -> R:
        """Sum of the results of at least one shard, added as in ``tree_sum``."""


def tree_sum(parts: Iterable[R]) -> R:
    """Sum of ``FAN_IN`` neighbours at a time, then of ``FAN_IN`` of these sums, and so on."""
    levels: list[tuple[Any, int]] = []
    for part in parts:
        _add_part(levels, part, 0)
    level = 0
    while level < len(levels):
        subtotal, n_added = levels[level]
        if level == len(levels) - 1 and n_added:
            total: R = subtotal
            return total
        if n_added:
            levels[level] = None, 0
            _add_part(levels, subtotal, level + 1)
        level += 1
    raise ValueError("there is nothing to add")


def _add_part(levels: list[tuple[Any, int]], part: Any, level: int) -> None:
    """Add a part to the subtotal of a level; a complete subtotal becomes a part of the next level."""
    if level == len(levels):
        levels.append((None, 0))
    subtotal, n_added = levels[level]
    total, n_added = (part if n_added == 0 else subtotal + part), n_added + 1
    if n_added < FAN_IN:
        levels[level] = total, n_added
        return
    levels[level] = None, 0
    _add_part(levels, total, level + 1)


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Number of threads: all usable cores by default, one inside a worker of another pool.

    Negative numbers count from the number of cores, as in scikit-learn: -1 is all, -2 all but one.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return 1 if _in_pool() else cores
    if n_jobs == 0:
        raise ValueError("n_jobs is 0; use a positive number, or -1 for all cores")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def _in_pool() -> bool:
    if multiprocessing.parent_process() is not None:
        return True
    from joblib.parallel import get_active_backend

    return bool(get_active_backend()[0].nesting_level)


class _BlasLimit:
    """The limit of BLAS to one thread, which is one setting of the whole process: the last user removes it."""

    def __init__(self) -> None:
        self.lock, self.n_users = threading.Lock(), 0
        self.limit: Any = None

    def add_user(self) -> None:
        with self.lock:
            if self.n_users == 0:
                self.limit = _blas().limit(limits=1, user_api="blas")
            self.n_users += 1

    def remove_user(self) -> None:
        with self.lock:
            self.n_users -= 1
            if self.n_users == 0:
                self.limit.restore_original_limits()


_blas_limit = _BlasLimit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, so that sums do not depend on the number of cores."""
    _blas_limit.add_user()
    try:
        yield
    finally:
        _blas_limit.remove_user()


@lru_cache(maxsize=1)
def _blas() -> Any:
    import scipy.linalg  # noqa: F401 - loads the last BLAS library that must be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_worker = threading.local()  # has the attribute ``busy`` in threads of a pool


def _start_worker() -> None:
    _worker.busy = True


class Threads:
    """One thread pool, started when it is first used and kept until the engine is closed or no longer referenced.

    At most two shards per thread are in progress, so that memory stays bounded.
    """

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs
        self._pool: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """End the threads of the pool; another call starts new ones."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def place(self, shards: Sequence[S]) -> Sequence[S]:
        """The shards themselves: threads share memory."""
        return shards

    def each(self, function: Callable[[S, B], R], shards: Sequence[S], shared: B) -> Iterator[R]:
        """Result of each shard, in shard order."""
        return self.map(lambda shard: function(shard, shared), shards)

    def total(self, function: Callable[[S, B], R], shards: Sequence[S], shared: B) -> R:
        """Sum of the results."""
        return tree_sum(self.each(function, shards, shared))

    def map(self, function: Callable[[S], R], items: Sequence[S]) -> Iterator[R]:
        """Apply any function to each item; results in the order of the items.

        A call inside of a thread of a pool runs there: waiting for other threads of the same pool could take forever.
        """
        if self.n_jobs == 1 or len(items) <= 1 or hasattr(_worker, "busy"):
            with one_blas_thread():
                yield from map(function, items)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_jobs, "palda", _start_worker)
        with one_blas_thread():
            waiting: deque[Future[R]] = deque()
            try:
                for item in items:
                    waiting.append(self._pool.submit(function, item))
                    if len(waiting) >= 2 * self.n_jobs:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                wait([future for future in waiting if not future.cancel()])
