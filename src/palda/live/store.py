"""The store: reads from snapshots, and writes that threads of their own group into transactions.

A write is acknowledged after its commit. Writes that wait at the same time share a transaction, so that a busy server
needs one disk synchronisation for many votes. If one of them is refused, they are done again with a savepoint each, so
that refused requests do not slow down others. After other failures each has a transaction of its own.
Writers of the log take turns: SQLite has one writer, and on PostgreSQL every transaction of theirs locks the row of
``log_head`` first, so that positions of the log become visible in their order. Writes that do not touch the log have a
second thread on PostgreSQL; if one of them meets another transaction, it is done again in its turn.
"""

from __future__ import annotations

import os
import queue
import re
import sqlite3
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import bindparam, create_engine, event, insert, select, update
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    NoResultFound,
    NoSuchModuleError,
    SQLAlchemyError,
)
from sqlalchemy.pool import QueuePool

from palda.errors import PaldaError, reason_of
from palda.io import FileLock
from palda.live import schema
from palda.live.errors import ConflictError, ServiceError, StoreError
from palda.live.migrations import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine import URL

Result = TypeVar("Result")

_MAX_GROUP = 200  # writes per transaction
_BUSY_SECONDS = 30
_POLL_SECONDS = 0.001, 0.005  # of servers and learners that wait for their turn to write: SQLite would wait far longer
_CHECKPOINT_SECONDS = 0.5
_TRUNCATE_SECONDS = 60.0  # until what was erased has left the write-ahead log too
_head = schema.log_head
_RAISE_HEAD = update(_head).values(position=_head.c.position + bindparam("n")).returning(_head.c.position)
_LOCK_HEAD = select(_head.c.position).with_for_update()
_ADDRESS = re.compile(r"connection to server (?:at|on) .+? failed: ")  # in messages of PostgreSQL
_PROBLEMS = {  # parts of messages of the databases -> what to do
    "disk is full": "the disk is full; free some space",
    "no space left": "the disk is full; free some space",
    "readonly database": "the file or its folder is read-only; change its permissions",
    "unable to open database": "it cannot be opened; check the folder and its permissions",
    "not a database": "it is not a palda store",
    "database is locked": "another program keeps it locked; end that program",
    "disk i/o error": "the disk reports an error, or is full",
    "disk image is malformed": "it is damaged; restore a backup",
    "connection refused": "no database server answers there; start it or correct the address",
    "password authentication failed": "the database server refuses the user or the password",
    "resolve host": "the name of the database server is unknown; correct the address",
    "connection timeout": "the database server does not answer; try again",
}


class Store:
    """A store of labelling projects; see ``open_store``."""

    def __init__(self, url: URL, lock: FileLock | None) -> None:
        self.url = url
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.name = Path(url.database or "").name if self.is_sqlite else url.render_as_string(hide_password=True)
        self._lock = lock
        self._writer = _engine(url, writes=True, checkpoints=lock is None)
        self._reader = _engine(url, writes=False)
        self._writers = [_Writer(self._writer, self._problem, locks_head=not self.is_sqlite)]
        if not self.is_sqlite:
            self._writers.append(_Writer(_engine(url, writes=True), self._problem, locks_head=False))
        self._is_closed, self._closing = False, threading.Lock()
        self._ending = threading.Event()
        self._checkpoints = threading.Thread(target=self._checkpoint, name="store checkpoints", daemon=True)

    def open(self) -> Store:
        """Create or migrate the tables, and start the writer."""
        try:
            with self._writer.begin() as connection:
                prepare(connection, self.name)
        except BaseException as error:
            self.close()
            if isinstance(error, SQLAlchemyError):
                raise self._problem(error) from error
            raise
        for writer in self._writers:
            writer.thread.start()
        if self._lock is not None:
            self._checkpoints.start()
        return self

    @cached_property
    def secret(self) -> str:
        """Random text that is made with the store and never changes."""
        query = select(schema.store_info.c.value).where(schema.store_info.c.name == "secret")
        return self.read(lambda connection: str(connection.execute(query).scalar_one()))

    def read(self, action: Callable[[Connection], Result]) -> Result:
        """Result of an action on a snapshot of the store."""
        try:
            with self._reader.connect() as connection:
                return action(connection)
        except SQLAlchemyError as error:
            raise self._problem(error) from error

    def write(self, action: Callable[[Connection], Result], *, is_logged: bool = True) -> Result:
        """Result of an action, after its commit. It may run more than once: it changes nothing but the store."""
        return self.write_soon(action, is_logged=is_logged).result()

    def write_soon(self, action: Callable[[Connection], Result], *, is_logged: bool = True) -> Future[Result]:
        """Future result of an action: likewise, without waiting for it.

        Actions that are not logged take no position of the log, and bear that others write at the same time.
        """
        waiting = _Write(action, Future())
        with self._closing:  # nothing is put behind the last entry, where nobody would take it
            if self._is_closed:
                raise StoreError("the server is shutting down; send it again")
            self._writers[0 if is_logged else -1].waiting.put(waiting)
        return waiting.outcome

    def close(self) -> None:
        """Finish the writes that wait, and release the store."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            for writer in self._writers:
                writer.waiting.put(None)
        self._ending.set()
        for thread in (*(writer.thread for writer in self._writers), self._checkpoints):
            if thread.ident is not None:
                thread.join()
        self._reader.dispose()
        for writer in self._writers:
            writer.engine.dispose()
        if self._lock is not None:
            self._lock.release()

    def _checkpoint(self) -> None:
        """Move the write-ahead log of SQLite to the file now and then; writers need not wait for it.

        The log is written from its start again after that, and would keep older pages behind its end.
        """
        connection = sqlite3.connect(self.url.database or "", timeout=0.0)
        truncate_at = time.monotonic() + _TRUNCATE_SECONDS
        try:
            while not self._ending.wait(_CHECKPOINT_SECONDS):
                with suppress(sqlite3.Error):  # it is busy, or the disk is full: later
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                    if time.monotonic() >= truncate_at:
                        is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                        truncate_at += 0.0 if is_busy else _TRUNCATE_SECONDS
        finally:
            connection.close()

    def _problem(self, error: SQLAlchemyError) -> ServiceError:
        if isinstance(error, IntegrityError):
            return ConflictError("somebody changed the same thing at the same time; try again")
        reason = reason_of(error.orig if isinstance(error, DBAPIError) and error.orig is not None else error)
        found = (advice for part, advice in _PROBLEMS.items() if part in reason.lower())
        database = Path(self.url.database or "").name  # strangers see it: no address
        return StoreError(f"{database}: {next(found, _ADDRESS.sub('', reason))}")


class _Writer:
    """A thread that groups writes into transactions on a connection of its own."""

    def __init__(self, engine: Engine, problem: Callable[[SQLAlchemyError], ServiceError], *, locks_head: bool) -> None:
        self.engine, self._problem, self._locks_head = engine, problem, locks_head
        self.waiting: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="store writer", daemon=True)

    def _run(self) -> None:
        while (first := self.waiting.get()) is not None:
            group = [first]
            while len(group) < _MAX_GROUP and not self.waiting.empty():
                following = self.waiting.get()
                if following is None:
                    self.waiting.put(None)
                    break
                group.append(following)
            wanted = [write for write in group if write.outcome.set_running_or_notify_cancel()]
            if wanted:
                self._commit(wanted, locks_head=self._locks_head)

    def _commit(self, group: list[_Write], *, locks_head: bool, is_repeated: bool = False) -> None:
        act, is_begun = _outcome if is_repeated and len(group) > 1 else _result, False
        try:
            with self.engine.begin() as connection:
                is_begun = True
                if locks_head:
                    connection.execute(_LOCK_HEAD)
                outcomes = [act(connection, write.action) for write in group]
        except BaseException as error:  # noqa: BLE001 - given to those who wait
            is_shared = self.engine.dialect.name != "sqlite"
            is_lost = isinstance(error, DBAPIError) and error.connection_invalidated  # the commit may have come through
            may_repeat = is_begun and not is_lost  # others would wait as long for a database that does not answer
            if len(group) > 1 and not is_repeated and isinstance(error, ServiceError):
                self._commit(group, locks_head=is_shared, is_repeated=True)
            elif may_repeat and (len(group) > 1 or (is_shared and not is_repeated and _is_collision(error))):
                for write in group:  # in its turn; finds the one that fails
                    self._commit([write], locks_head=is_shared, is_repeated=True)
            else:
                problem = self._problem(error) if isinstance(error, SQLAlchemyError) else error
                for write in group:
                    write.outcome.set_exception(problem)
            return
        for write, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, ServiceError):
                write.outcome.set_exception(outcome)
            else:
                write.outcome.set_result(outcome)


def _result(connection: Connection, action: Callable[[Connection], Any]) -> Any:
    return action(connection)


def _outcome(connection: Connection, action: Callable[[Connection], Any]) -> Any:
    """Result of an action, or why it was refused; then nothing of it is kept, and the transaction goes on."""
    try:
        with connection.begin_nested():
            return action(connection)
    except ServiceError as error:
        return error


def _is_collision(error: BaseException) -> bool:
    """Whether another transaction may be the cause."""
    if isinstance(error, (IntegrityError, NoResultFound)):
        return True
    state = getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None
    return (state or "").startswith("40")  # deadlocks


class Transaction(NamedTuple):
    """A transaction that is under way, for functions that read or write a store as a part of it."""

    connection: Connection

    def read(self, action: Callable[[Connection], Result]) -> Result:
        """Result of an action."""
        return action(self.connection)

    def write(self, action: Callable[[Connection], Result]) -> Result:
        """Result of an action, before its commit."""
        return action(self.connection)


class _Write(NamedTuple):
    """An action that waits for the writer."""

    action: Callable[[Connection], Any]
    outcome: Future[Any]


def open_store(location: str | os.PathLike[str], *, as_learner: bool = False, create: bool = True) -> Store:
    """Open a store: the path of an SQLite file, or a URL such as ``postgresql://user@host/database``.

    An SQLite file is created if it is missing, and locked against other servers until the store is closed;
    ``as_learner`` opens it beside a server.
    """
    url = store_url(location)
    lock, path = None, Path(url.database or "")
    is_sqlite = url.get_backend_name() == "sqlite"
    if is_sqlite and not path.is_file():
        if not create:
            raise PaldaError(f"{path}: there is no such file")
        with suppress(OSError):  # SQLite says why
            path.touch(0o600)  # texts and votes are for the user of the server alone
    if is_sqlite and not as_learner:
        try:
            lock = FileLock(path.with_name(f"{path.name}.lock"))
        except BlockingIOError:
            raise PaldaError(
                f"{path}: another palda server uses it; end that one, or give this one another file"
            ) from None
        except OSError as error:
            raise PaldaError(f"{path}: {error.strerror or error}") from None
    return Store(url, lock).open()


def store_url(location: str | os.PathLike[str]) -> URL:
    """URL of a store: a path is an SQLite file, without symbolic links: a file has one lock, whatever its names are."""
    from sqlalchemy.engine import URL, make_url

    text = os.fspath(location)
    if "://" not in text:
        return URL.create("sqlite", database=os.path.realpath(text))
    try:
        url = make_url(text)
    except ArgumentError:
        raise PaldaError("the address of the store is not a URL such as postgresql://user@host/database") from None
    if url.get_backend_name() == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "sqlite" and url.database:
        return url.set(database=os.path.realpath(url.database))
    raise PaldaError(f"stores of {url.get_backend_name()} are not supported; give a file or a postgresql:// address")


def next_positions(connection: Connection, n: int) -> int:
    """The first of ``n`` new positions in the log."""
    return int(connection.execute(_RAISE_HEAD, {"n": n}).scalar_one()) - n + 1


def log_event(connection: Connection, project_id: int, kind: str, **details: Any) -> int:
    """Append an event to the log; returns its position."""
    position = next_positions(connection, 1)
    values = {"position": position, "project_id": project_id, "kind": kind, "details": details}
    connection.execute(insert(schema.event).values(happened_at=time.time(), **values))
    return position


def _engine(url: URL, *, writes: bool, checkpoints: bool = True) -> Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url, writes=writes, checkpoints=checkpoints)
    try:
        pool = {"pool_size": 1, "max_overflow": 0} if writes else {"pool_size": 10, "max_overflow": 40}
        connect: dict[str, Any] = {"connect_timeout": 10}
        if not writes:
            connect["options"] = "-c default_transaction_read_only=on"
        level: Any = "READ COMMITTED" if writes else "REPEATABLE READ"
        return create_engine(url, isolation_level=level, pool_recycle=300, connect_args=connect, **pool)
    except (ModuleNotFoundError, NoSuchModuleError):
        raise PaldaError("PostgreSQL needs another package; install it with: pip install 'palda[postgres]'") from None


def _sqlite_engine(url: URL, *, writes: bool, checkpoints: bool) -> Engine:
    pool = {"pool_size": 1, "max_overflow": 0} if writes else {"pool_size": 10, "max_overflow": 40}
    connect = {"timeout": _BUSY_SECONDS, "check_same_thread": False}
    engine = create_engine(url, poolclass=QueuePool, connect_args=connect, **pool)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin below
        pragmas = ["trusted_schema = OFF", "foreign_keys = ON", "synchronous = FULL"]
        pragmas += ["secure_delete = ON", "journal_mode = WAL"] if writes else ["query_only = ON"]
        if writes:
            pragmas.append("busy_timeout = 0")
        if not checkpoints:
            pragmas.append("wal_autocheckpoint = 0")
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if writes:
            _wait_for_turn(connection, _POLL_SECONDS[checkpoints])
        else:
            connection.exec_driver_sql("BEGIN")

    return engine


def _wait_for_turn(connection: Connection, poll_seconds: float) -> None:
    """Begin a transaction that writes as soon as no other process has one."""
    raw: Any = connection.connection.dbapi_connection
    give_up_at = time.monotonic() + _BUSY_SECONDS
    while time.monotonic() < give_up_at:
        try:
            raw.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY"):
                break
            time.sleep(poll_seconds)
        else:
            return
    connection.exec_driver_sql("BEGIN IMMEDIATE")
