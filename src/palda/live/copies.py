"""Copies of a store, while it is in use: backups, and moves from SQLite to PostgreSQL and back."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Integer, delete, func, insert, select, text

from palda.errors import PaldaError
from palda.io import replacing
from palda.live import schema
from palda.live.store import open_store

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row, Table

    from palda.live.store import Store

_ROWS_PER_WRITE = 2000


def back_up(location: str | os.PathLike[str], path: str | os.PathLike[str], *, force: bool = False) -> int:
    """Copy a store to an SQLite file, which is written completely or not at all; returns the number of rows.

    A server may use the store at the same time: the copy is that of one moment.
    """
    target = Path(path)
    if target.exists() and not force:
        raise PaldaError(f"{target}: it exists; add --force to overwrite it")
    with closing(open_store(location, as_learner=True, create=False)) as source, replacing(target) as unfinished:
        if Path(f"{os.path.realpath(target)}-wal").exists():  # its newest part, which SQLite would add to another file
            raise PaldaError(f"{target}: a palda server uses it, or one was killed; give another file")
        unfinished.touch()
        unfinished.chmod(0o600)  # before it holds anything
        with closing(open_store(unfinished, as_learner=True)) as copy:
            return copy_rows(source, copy)


def restore(backup: str | os.PathLike[str], location: str | os.PathLike[str]) -> int:
    """Copy a backup to a new store; returns the number of rows."""
    with (
        closing(open_store(backup, as_learner=True, create=False)) as source,
        closing(open_store(location)) as target,
    ):
        used = target.read(lambda connection: connection.execute(select(schema.person.c.id).limit(1)).first())
        if used is not None:
            raise PaldaError(f"{target.name}: it has projects already; restore a backup to a new file or database")
        return copy_rows(source, target)


def copy_rows(source: Store, target: Store) -> int:
    """Copy all rows to a store that has none; returns their number."""
    last = schema.store_info  # without it nothing opens the store, so that half a copy is not taken for a whole one
    target.write(lambda writer: writer.execute(delete(last)).rowcount)
    tables = [table for table in schema.metadata.sorted_tables if table is not last]

    def read(connection: Connection) -> int:
        return sum(_copy_table(connection, table, target) for table in (*tables, last))

    n_rows = source.read(read)
    if not target.is_sqlite:
        target.write(_raise_sequences)
    return n_rows


def _copy_table(connection: Connection, table: Table, target: Store) -> int:
    target.write(lambda writer: writer.execute(delete(table)).rowcount)  # what a new store has from the start
    n_rows = 0
    result = connection.execution_options(yield_per=_ROWS_PER_WRITE).execute(select(table))
    for rows in result.partitions():
        target.write(lambda writer, rows=rows: _insert(writer, table, rows))  # type: ignore[misc]
        n_rows += len(rows)
    return n_rows


def _insert(connection: Connection, table: Table, rows: list[Row[*tuple[Any, ...]]]) -> None:
    connection.execute(insert(table), [dict(row._mapping) for row in rows])  # noqa: SLF001 - public in SQLAlchemy


def _raise_sequences(connection: Connection) -> None:
    """Let PostgreSQL number new rows after the copied ones."""
    for table in schema.metadata.sorted_tables:
        key = table.c.get("id")
        if key is not None and isinstance(key.type, Integer) and table is not schema.log_head:
            last = connection.execute(select(func.max(key))).scalar()
            if last is not None:
                call = text("SELECT setval(pg_get_serial_sequence(:table, 'id'), :last)")
                connection.execute(call, {"table": table.name, "last": last})
