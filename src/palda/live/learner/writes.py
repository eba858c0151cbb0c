"""Writes of the learner, in transactions that are short enough for requests to pass between them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.dialects import postgresql, sqlite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Table

    from palda.live.store import Store


Result = TypeVar("Result")


class Paced:
    """Writes in pieces, and leaves the store to others for as long as each piece took."""

    def __init__(self, store: Store, on_piece: Callable[[], None] = lambda: None) -> None:
        self._store, self._on_piece = store, on_piece

    def write(self, *pieces: Callable[[Connection], Result]) -> list[Result]:
        """Results of the pieces, each of which is a transaction of its own and writes nothing to the log."""
        results = []
        for piece in pieces:
            start = time.monotonic()
            results.append(self._store.write(piece, is_logged=False))
            self._on_piece()
            if len(pieces) > 1:
                time.sleep(min(time.monotonic() - start, 0.1))
        return results


def upsert(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows; those whose primary key is there are replaced."""
    if not rows:
        return
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table)
    keys = [column.name for column in table.primary_key]
    changed = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), list(rows))
