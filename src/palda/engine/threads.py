"""The interface of engines, and threads: kernels release the interpreter lock, and nothing is copied.

An engine applies a function to shards, and returns the results in order or their sum. A function gets a shard and an
object that all shards share, such as parameters. Both may be sent to another machine: functions are defined at module
level, never closures, and shards and shared objects can be pickled.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
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

    def add(part: Any, level: int) -> None:
        if level == len(levels):
            levels.append((None, 0))
        subtotal, n_added = levels[level]
        total, n_added = (part if n_added == 0 else subtotal + part), n_added + 1
        if n_added < FAN_IN:
            levels[level] = total, n_added
            return
        levels[level] = None, 0
        add(total, level + 1)

    for part in parts:
        add(part, 0)
    level = 0
    while level < len(levels):
        subtotal, n_added = levels[level]
        if level == len(levels) - 1 and n_added:
            total: R = subtotal
            return total
        if n_added:
            levels[level] = None, 0
            add(subtotal, level + 1)
        level += 1
    raise ValueError("there is nothing to add")


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


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, so that sums do not depend on the number of cores."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _blas() -> Any:
    import scipy.linalg  # noqa: F401 - loads the last BLAS library that must be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class Threads:
    """A thread pool per call; at most two shards per thread are in progress, so that memory stays bounded."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs

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
        """Apply any function to each item; results in the order of the items."""
        if self.n_jobs == 1 or len(items) <= 1:
            with one_blas_thread():
                yield from map(function, items)
            return
        with one_blas_thread(), ThreadPoolExecutor(min(self.n_jobs, len(items))) as pool:
            waiting: deque[Future[R]] = deque()
            try:
                for item in items:
                    waiting.append(pool.submit(function, item))
                    if len(waiting) >= 2 * self.n_jobs:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()
