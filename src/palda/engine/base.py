"""The interface of engines: apply a function to shards; return the results in order, or their sum.

A function gets a shard and an object that all shards share, such as parameters. Both may be sent to another machine:
functions are defined at module level, never closures, and shards and shared objects can be pickled.
"""

from __future__ import annotations

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
