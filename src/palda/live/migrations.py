"""Creates the tables of a new store, and brings those of an older version up to date."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sqlalchemy import func, insert, inspect, select, update

from palda.errors import PaldaError
from palda.live import schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

_LABELSTUDIO = ("connection", "user", "task", "annotation", "event")


def _add_labelstudio(connection: Connection) -> None:
    tables = [schema.metadata.tables[f"labelstudio_{name}"] for name in _LABELSTUDIO]
    schema.metadata.create_all(connection, tables, checkfirst=False)


def _add_predicted_classes(connection: Connection) -> None:
    """Columns of predicted classes, and several questions of one project of Label Studio: tables are written anew."""
    for name in ("connection", "task", "annotation"):
        table = schema.metadata.tables[f"labelstudio_{name}"]
        present = {column["name"] for column in inspect(connection).get_columns(table.name)}
        kept = connection.execute(select(*(column for column in table.c if column.name in present))).mappings().all()
        table.drop(connection)
        table.create(connection)
        if kept:
            connection.execute(insert(table), [dict(row) for row in kept])


STEPS: dict[int, Callable[[Connection], None]] = {1: _add_labelstudio, 2: _add_predicted_classes}
"""From each version to the next. A step changes tables inside of the transaction that raises the version."""

_LOCK = 0x70616C64  # of PostgreSQL, for servers that start at the same time


def prepare(connection: Connection, name: str) -> None:
    """Create or migrate the tables; raises ``PaldaError`` if the store is not ours or of a later version."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    tables = set(inspect(connection).get_table_names())
    if schema.store_info.name not in tables:
        _check_empty(connection, tables, name)
        _create(connection)
        return
    _check_plain(connection, name)
    _migrate(connection, name)


def _check_empty(connection: Connection, tables: set[str], name: str) -> None:
    if connection.dialect.name == "sqlite" and tables:
        raise PaldaError(f"{name}: it is a database of another program; give another file")
    taken = tables & set(schema.metadata.tables)
    if taken:
        raise PaldaError(f"{name}: the database has a table {min(taken)} of another program; give another database")


def _check_plain(connection: Connection, name: str) -> None:
    """A store has no triggers or views: a crafted file could run SQL with them."""
    if connection.dialect.name == "sqlite":
        found = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master WHERE type IN ('trigger', 'view')")
        if found.scalar_one():
            raise PaldaError(f"{name}: it has triggers or views, which a palda store never has")


def _create(connection: Connection) -> None:
    schema.metadata.create_all(connection, checkfirst=False)
    info = {"version": str(schema.VERSION), "secret": secrets.token_hex(32)}
    connection.execute(insert(schema.store_info), [{"name": key, "value": value} for key, value in info.items()])
    connection.execute(insert(schema.log_head).values(id=1, position=0))


def _migrate(connection: Connection, name: str) -> None:
    info = schema.store_info
    stored = connection.execute(select(info.c.value).where(info.c.name == "version")).scalar()
    if stored is None or not str(stored).isdigit():
        raise PaldaError(f"{name}: it is not a palda store")
    version = int(stored)
    if version > schema.VERSION:
        raise PaldaError(f"{name}: a later version of palda wrote it; install that version")
    for step in range(version, schema.VERSION):
        STEPS[step](connection)
    if version < schema.VERSION:
        connection.execute(update(info).where(info.c.name == "version").values(value=str(schema.VERSION)))
