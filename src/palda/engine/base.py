"""What every engine does: map a function over shards, results in the order of the shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Engine"]

S = TypeVar("S")
R = TypeVar("R")


class Engine(Protocol):
    """Results come in shard order, so that sums over them do not depend on who finished first."""

    def map(self, function: Callable[[S], R], shards: Sequence[S]) -> Iterator[R]:
        """Apply the function to each shard."""
