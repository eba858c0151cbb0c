"""Threads over shards: kernels release the interpreter lock, and nothing is copied."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from palda.engine.base import tree_sum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

S = TypeVar("S")
B = TypeVar("B")
R = TypeVar("R")


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
