"""Engines by name: threads, or Dask on this machine or on a cluster.

On Dask, shards stay on the workers, shared objects are sent to all of them, and sums are computed there. Only shards
are kept between calls, and a shard can always be read or computed again. If a worker is lost, the scheduler repeats its
work on another one; a call that fails all the same is repeated.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from multiprocessing import resource_tracker
from operator import add
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from palda.engine.threads import FAN_IN, Threads, one_blas_thread, resolve_n_jobs
from palda.errors import PaldaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from distributed import Client, Future

    from palda.engine.threads import Engine

S = TypeVar("S")
B = TypeVar("B")
R = TypeVar("R")

_ATTEMPTS, _PAUSE = 5, 1.0


class Dask:
    """Runs on the cluster of a ``distributed.Client``; the caller closes the client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def place(self, shards: Sequence[S]) -> Sequence[S]:
        """The shards in the memory of the workers, in bundles of ``FAN_IN`` neighbours."""
        bundles = [list(shards[first : first + FAN_IN]) for first in range(0, len(shards), FAN_IN)]
        futures = self.client.map(_load, bundles, pure=False)
        return _PlacedShards(futures, len(shards))

    def each(self, function: Callable[[S, B], R], shards: Sequence[S], shared: B) -> Iterator[R]:
        """Result of each shard, in shard order; workers drop the results of a bundle once they are received."""
        bundles = self._bundles(shards)
        futures = deque(_with_retries(lambda: self._submit(_results, function, bundles, shared)))
        for bundle in bundles:
            yield from self._result(futures.popleft(), function, bundle, shared)

    def total(self, function: Callable[[S, B], R], shards: Sequence[S], shared: B) -> R:
        """Sum of the results, computed on the workers."""
        bundles = self._bundles(shards)

        def total() -> R:
            level = self._submit(_sum_of_results, function, bundles, shared)
            while len(level) > 1:
                groups = [level[first : first + FAN_IN] for first in range(0, len(level), FAN_IN)]
                level = [self.client.submit(_sum, group, pure=False) for group in groups]
            result: R = level[0].result()
            return result

        return _with_retries(total)

    def _result(self, future: Future, function: Callable[..., Any], bundle: Future, shared: Any) -> Any:
        """Results of a bundle; they are computed again if they were lost."""

        def recompute() -> Any:
            return self._submit(_results, function, [bundle], shared)[0].result()

        try:
            return future.result()
        except _loss_errors():
            return _with_retries(recompute)

    def _bundles(self, shards: Sequence[Any]) -> list[Future]:
        placed = shards if isinstance(shards, _PlacedShards) else self.place(shards)
        return cast("_PlacedShards", placed).bundles

    def _submit(
        self, work: Callable[..., Any], function: Callable[..., Any], bundles: list[Future], shared: Any
    ) -> list[Future]:
        sent = self.client.scatter(shared, broadcast=True, hash=False)
        return [self.client.submit(work, function, bundle, sent, pure=False) for bundle in bundles]


def _loss_errors() -> tuple[type[Exception], ...]:
    """Exceptions after the loss of a worker, which may also lose the shared object or the connection."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    return CancelledError, KilledWorker, OSError, TimeoutError


def _with_retries(attempt: Callable[[], R]) -> R:
    """Result of the first attempt without a lost worker."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except _loss_errors():
            time.sleep(_PAUSE)  # until a new worker has started
    return attempt()


class _PlacedShards(Sequence[Any]):
    """Shards on the workers, in bundles; they stay there as long as this object exists."""

    def __init__(self, bundles: list[Future], n_shards: int) -> None:
        self.bundles, self._n_shards = bundles, n_shards

    def __len__(self) -> int:
        return self._n_shards

    @overload
    def __getitem__(self, position: int) -> Any: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Any]: ...
    def __getitem__(self, position: int | slice) -> Any:
        """Shards are not sent back."""
        raise TypeError("shards on Dask workers cannot be accessed one by one; use each or total")


def _load(bundle: list[Any]) -> list[Any]:
    """Shards in the memory of the worker that will keep them; those with a method ``loaded`` read their files now."""
    return [shard.loaded() if hasattr(shard, "loaded") else shard for shard in bundle]


def _results(function: Callable[..., Any], bundle: list[Any], shared: Any) -> list[Any]:
    return [function(shard, shared) for shard in bundle]


def _sum_of_results(function: Callable[..., Any], bundle: list[Any], shared: Any) -> Any:
    return reduce(add, (function(shard, shared) for shard in bundle))


def _sum(parts: list[Any]) -> Any:
    return reduce(add, parts)


def check_engine(engine: Any) -> None:
    """Raise ``ValueError`` for an engine that cannot be opened."""
    is_address = isinstance(engine, str) and "://" in engine
    if engine is None or engine in ("threads", "dask") or is_address or hasattr(engine, "scatter"):
        return
    raise ValueError(
        f'engine={engine!r} is not known; choose None or "threads", "dask", the address of a scheduler '
        "(tcp://host:8786), or a dask.distributed.Client"
    )


@contextmanager
def open_engine(engine: Any, n_jobs: int | None) -> Iterator[Engine]:
    """Context manager with an engine: threads, or Dask. BLAS uses one thread in this process until it ends."""
    with one_blas_thread(), open_client(engine, n_jobs) as client:
        if client is not None:
            yield Dask(client)
            return
        threads = Threads(resolve_n_jobs(n_jobs))
        try:
            yield threads
        finally:
            threads.close()


@contextmanager
def open_client(engine: Any, n_jobs: int | None) -> Iterator[Any]:
    """Context manager with the client of a Dask cluster; None for threads.

    ``"dask"`` is the cluster of the current client, or else processes on this machine that end with the context.
    """
    check_engine(engine)
    if engine is None or engine == "threads":
        yield None
        return
    try:
        from distributed import Client, LocalCluster, default_client
    except ImportError:
        raise PaldaError("engine=\"dask\" needs Dask: pip install 'palda[dask]'") from None
    if not isinstance(engine, str):
        yield engine
        return
    if engine != "dask":
        try:
            client = Client(engine)
        except OSError:
            raise PaldaError(f"no Dask scheduler at {engine}; start one with: dask scheduler") from None
        with client:
            yield client
        return
    try:
        current = default_client()
    except ValueError:
        n_workers = resolve_n_jobs(n_jobs)
        with ExitStack() as stack:
            with _interrupts_deferred():
                cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0")
                client = stack.enter_context(Client(stack.enter_context(cluster), set_as_default=False))
            yield client
        return
    yield current


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Ctrl-C takes effect after the block, and never in processes that are started in it: the client ends them."""
    resource_tracker.ensure_running()  # when it starts, it clears the mask that is set below
    arrived: list[tuple[int, Any]] = []
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, lambda number, frame: arrived.append((number, frame))) if is_main else None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if sys.platform != "win32" else set()
    try:
        yield
    finally:
        if sys.platform != "win32":
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if is_main:
            signal.signal(signal.SIGINT, handler)
    if arrived and callable(handler):
        handler(*arrived[0])
