"""Dask: shards stay on the workers, what they share is sent to all of them, and sums are made there too.

Nothing but the shards outlives a round, and a shard can always be read or made again: whoever is lost, the scheduler
has somebody else repeat the work, and a round that fails nevertheless is asked for once more.
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

__all__ = ["Dask"]

S = TypeVar("S")
B = TypeVar("B")
R = TypeVar("R")

_ATTEMPTS, _PAUSE = 5, 1.0


class Dask:
    """Work on the cluster of a ``distributed.Client``, which stays the caller's own."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def place(self, shards: Sequence[S]) -> Sequence[S]:
        """The shards in the workers' memory, several neighbours together."""
        bundles = [list(shards[first : first + FAN_IN]) for first in range(0, len(shards), FAN_IN)]
        futures = self.client.map(_loaded, bundles, pure=False)
        return _Placed(futures, len(shards))

    def each(self, function: Callable[[S, B], R], shards: Sequence[S], shared: B) -> Iterator[R]:
        """Result of each shard, in shard order; a bundle's are dropped by the workers once they are here."""
        bundles = self._bundles(shards)
        futures = deque(_persistent(lambda: self._submit(_results, function, bundles, shared)))
        for bundle in bundles:
            yield from self._result(futures.popleft(), function, bundle, shared)

    def total(self, function: Callable[[S, B], R], shards: Sequence[S], shared: B) -> R:
        """Sum of the results, made on the workers."""
        bundles = self._bundles(shards)

        def total() -> R:
            level = self._submit(_sum_of_results, function, bundles, shared)
            while len(level) > 1:
                groups = [level[first : first + FAN_IN] for first in range(0, len(level), FAN_IN)]
                level = [self.client.submit(_sum, group, pure=False) for group in groups]
            found: R = level[0].result()
            return found

        return _persistent(total)

    def _result(self, future: Future, function: Callable[..., Any], bundle: Future, shared: Any) -> Any:
        """What was computed for a bundle, or what it is when asked for once more."""

        def once_more() -> Any:
            return self._submit(_results, function, [bundle], shared)[0].result()

        try:
            return future.result()
        except _lost():
            return _persistent(once_more)

    def _bundles(self, shards: Sequence[Any]) -> list[Future]:
        placed = shards if isinstance(shards, _Placed) else self.place(shards)
        return cast("_Placed", placed).bundles

    def _submit(
        self, work: Callable[..., Any], function: Callable[..., Any], bundles: list[Future], shared: Any
    ) -> list[Future]:
        sent = self.client.scatter(shared, broadcast=True, hash=False)
        return [self.client.submit(work, function, bundle, sent, pure=False) for bundle in bundles]


def _lost() -> tuple[type[Exception], ...]:
    """What is raised where workers were lost: they may take along what all share, or the connection itself."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    return CancelledError, KilledWorker, OSError, TimeoutError


def _persistent(attempt: Callable[[], R]) -> R:
    """Result of the first attempt in which nobody was lost."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except _lost():
            time.sleep(_PAUSE)  # time for a new worker to come up
    return attempt()


class _Placed(Sequence[Any]):
    """Shards on the workers, in bundles; they stay there as long as this lives."""

    def __init__(self, bundles: list[Future], n_shards: int) -> None:
        self.bundles, self._n_shards = bundles, n_shards

    def __len__(self) -> int:
        return self._n_shards

    @overload
    def __getitem__(self, position: int) -> Any: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Any]: ...
    def __getitem__(self, position: int | slice) -> Any:
        """Shards are not brought back: ask for results."""
        raise TypeError("shards on workers cannot be picked")


def _loaded(bundle: list[Any]) -> list[Any]:
    """Shards with everything in memory, read by the worker that will hold them."""
    return [shard.loaded() for shard in bundle]


def _results(function: Callable[..., Any], bundle: list[Any], shared: Any) -> list[Any]:
    return [function(shard, shared) for shard in bundle]


def _sum_of_results(function: Callable[..., Any], bundle: list[Any], shared: Any) -> Any:
    return reduce(add, (function(shard, shared) for shard in bundle))


def _sum(parts: list[Any]) -> Any:
    return reduce(add, parts)
