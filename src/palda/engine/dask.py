"""Dask: shards stay on the workers, shared objects are sent to all of them, and sums are computed there.

Only shards are kept between calls, and a shard can always be read or computed again. If a worker is lost, the scheduler
repeats its work on another one; a call that fails all the same is repeated.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from palda.engine.base import FAN_IN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from distributed import Client, Future

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
