"""Positions of any number of documents by their ids, in memory that their names do not fit into."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import validation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from palda.data import SourceLocation, Strings

__all__ = ["DocIndex", "digests_of"]

_DIGEST = 16


def digests_of(ids: Iterable[str]) -> NDArray[np.bytes_]:
    """128 bits an id; no two ids have the same ones."""
    digests = [blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest() for name in ids]
    return np.array(digests, dtype=f"S{_DIGEST}")


class DocIndex:
    """Where each document stands, found by its id; 24 bytes a document, however long the ids are."""

    def __init__(self, digests: NDArray[np.bytes_], first_ids: list[str]) -> None:
        self._order = np.argsort(digests, kind="stable")
        self._sorted = digests[self._order]
        self._hints = first_ids  # that an error may suggest

    def __len__(self) -> int:
        return len(self._sorted)

    def duplicate(self) -> tuple[int, int] | None:
        """Positions of the first id that stands twice."""
        equal = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if not len(equal):
            return None
        again = equal[np.argmin(self._order[equal + 1])]
        return int(self._order[again]), int(self._order[again + 1])

    def positions(self, ids: Strings) -> NDArray[np.int64]:
        """Position of each id; -1 for one that is not there."""
        digests = digests_of(ids)
        places = np.minimum(np.searchsorted(self._sorted, digests), max(len(self) - 1, 0))
        if not len(self):
            return np.full(len(ids), -1)
        return np.where(self._sorted[places] == digests, self._order[places], -1)

    def joined(self, ids: Strings, doc: NDArray[np.integer[Any]], where: SourceLocation) -> NDArray[np.int64]:
        """Positions of records whose ``doc`` points into ``ids``; an id that is not there is an error."""
        found: NDArray[np.int64] = self.positions(ids)[doc]
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            problem = validation.unknown_name(ids[doc[unknown[0]]], self._hints, "document", len(self))
            where.fail(problem, int(unknown[0]))
        return found
