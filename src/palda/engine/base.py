"""What every engine does: apply a function to shards and give results in their order, or the results' sum.

A function gets a shard and what all shards share: parameters, or coefficients. Both may travel to another machine, so a
function is a module's own, never a closure, and shards and what they share can be pickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["FAN_IN", "Engine", "tree_sum"]

S = TypeVar("S")
B = TypeVar("B")
R = TypeVar("R")

FAN_IN = 8
"""Results that are added at a time. Wherever they are added, sums are the same to the last bit."""


class Engine(Protocol):
    """Results come in shard order, so that sums over them do not depend on who finished first."""

    def place(self, shards: Sequence[S]) -> Sequence[S]:
        """The shards where work on them will be done, for several rounds of it."""

    def each(self, function: Callable[[S, B], R], shards: Sequence[S], shared: B) -> Iterator[R]:
        """Result of each shard."""

    def total(self, function: Callable[[S, B], R], shards: Sequence[S], shared: B) -> R:
        """Sum of the results, added as ``tree_sum`` does; there is one shard at least."""


def tree_sum(parts: Iterable[R]) -> R:
    """Sum in which ``FAN_IN`` neighbours at a time are added, then as many of their sums, and so on."""
    levels: list[tuple[Any, int]] = []

    def add(part: Any, level: int) -> None:
        if level == len(levels):
            levels.append((None, 0))
        held, n_held = levels[level]
        total, n_held = (part if n_held == 0 else held + part), n_held + 1
        if n_held < FAN_IN:
            levels[level] = total, n_held
            return
        levels[level] = None, 0
        add(total, level + 1)

    for part in parts:
        add(part, 0)
    level = 0
    while level < len(levels):
        held, n_held = levels[level]
        if level == len(levels) - 1 and n_held:
            total: R = held
            return total
        if n_held:
            levels[level] = None, 0
            add(held, level + 1)
        level += 1
    raise ValueError("there is nothing to add")
