from __future__ import annotations

import queue
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import event, insert, select, update
from sqlalchemy.exc import OperationalError

from palda.errors import PaldaError
from palda.live import copies, migrations, schema
from palda.live.errors import ConflictError, StoreError
from palda.live.store import Store, log_event, next_positions, open_store


@pytest.fixture
def store(store_location: str):
    opened = open_store(store_location)
    yield opened
    opened.close()


def add_person(name: str):
    return lambda connection: connection.execute(insert(schema.person).values(name=name, created_at=0.0)).rowcount


def names(store: Store) -> set[str]:
    return set(store.read(lambda connection: connection.execute(select(schema.person.c.name)).scalars().all()))


def test_positions_of_concurrent_writers_are_dense_and_each_is_used_once(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        first = list(pool.map(lambda n: store.write(lambda connection: next_positions(connection, n)), [1, 2, 3] * 20))
    taken = sorted(
        position for start, n in zip(first, [1, 2, 3] * 20, strict=True) for position in range(start, start + n)
    )
    assert taken == list(range(1, 121))


def test_writes_that_cannot_begin_fail_together_and_name_no_address(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = 'connection to server at "10.0.0.5", port 5432 failed: FATAL:  the database system is starting up'
    release, began = threading.Event(), []
    writer = store._writers[0]

    def begin() -> None:
        began.append(1)
        raise OperationalError("SELECT 1", None, Exception(reason))

    with monkeypatch.context() as patched:
        first = store.write_soon(lambda _: release.wait(60))
        while not first.running():
            time.sleep(0.001)
        waiting = [store.write_soon(add_person(name)) for name in ("ann", "ben", "cat")]
        patched.setattr(type(writer.engine), "begin", lambda _: begin())
        release.set()
        for one in waiting:
            with pytest.raises(StoreError, match="the database system is starting up") as refused:
                one.result(60)
            assert "10.0.0.5" not in str(refused.value)
    assert len(began) == 1
    store.write(add_person("ann"))
    assert names(store) == {"ann"}


def test_an_error_undoes_only_its_own_write(store: Store) -> None:
    release = threading.Event()

    def wait(connection) -> None:
        release.wait(60)

    def fail(connection) -> None:
        add_person("lost")(connection)
        raise ConflictError("no")

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(store.write, wait)
        second = [pool.submit(store.write, action) for action in (add_person("kept"), fail)]
        release.set()
        first.result()
        second[0].result()
        with pytest.raises(ConflictError, match="no"):
            second[1].result()
    assert names(store) == {"kept"}


def test_a_write_that_is_refused_does_not_split_the_transaction_of_others(store: Store) -> None:
    (writer, *_), release, n_commits = store._writers, threading.Event(), Counter()
    event.listen(writer.engine, "commit", lambda _connection: n_commits.update(["all"]))

    def refuse(connection) -> None:
        add_person("lost")(connection)
        raise ConflictError("no")

    first = store.write_soon(lambda _connection: release.wait(60))
    waiting = [store.write_soon(refuse if n % 5 == 3 else add_person(f"person {n}")) for n in range(20)]
    release.set()
    first.result()
    assert [n for n, one in enumerate(waiting) if one.exception() is not None] == [3, 8, 13, 18]
    assert n_commits["all"] <= 2
    assert len(names(store)) == 16


def test_a_name_that_is_taken_is_a_conflict(store: Store) -> None:
    store.write(add_person("ann"))
    with pytest.raises(ConflictError):
        store.write(add_person("ann"))


def test_readers_cannot_write(store: Store) -> None:
    with pytest.raises(StoreError):
        store.read(add_person("ann"))
    assert names(store) == set()


def test_another_process_sees_what_was_committed(store: Store, store_location: str) -> None:
    store.write(add_person("ann"))
    other = open_store(store_location, as_learner=True)
    try:
        assert names(other) == {"ann"}
        other.write(add_person("bob"))
        assert names(store) == {"ann", "bob"}
    finally:
        other.close()


def test_a_write_after_the_end_is_refused(store: Store) -> None:
    store.close()
    with pytest.raises(StoreError, match="shutting down"):
        store.write(add_person("ann"))


def test_a_second_server_on_one_file_is_refused(tmp_path: Path) -> None:
    first = open_store(tmp_path / "project.db")
    with pytest.raises(PaldaError, match=r"another palda server uses it"):
        open_store(tmp_path / "project.db")
    first.close()
    open_store(tmp_path / "project.db").close()


def test_a_second_server_on_another_name_of_the_file_is_refused(tmp_path: Path) -> None:
    first = open_store(tmp_path / "project.db")
    (tmp_path / "link.db").symlink_to(tmp_path / "project.db")
    for name in (str(tmp_path / "link.db"), f"sqlite:///{tmp_path}/link.db"):
        with pytest.raises(PaldaError, match=r"another palda server uses it"):
            open_store(name)
    first.close()


def test_a_file_of_another_program_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE person (name)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(PaldaError, match="another program"):
        open_store(path)
    assert path.read_bytes()[100:] == before[100:]  # the header says that it was opened in WAL mode


def test_a_file_that_is_no_database_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("a table of votes, not a database\n" * 100)
    with pytest.raises(PaldaError, match="not a palda store"):
        open_store(path)
    assert path.read_text().startswith("a table of votes")


@pytest.mark.parametrize(
    "statement", ["CREATE VIEW v AS SELECT 1", "CREATE TRIGGER t AFTER INSERT ON vote BEGIN SELECT 1; END"]
)
def test_a_store_with_triggers_or_views_is_refused(tmp_path: Path, statement: str) -> None:
    open_store(tmp_path / "project.db").close()
    with sqlite3.connect(tmp_path / "project.db") as connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(PaldaError, match="triggers or views"):
        open_store(tmp_path / "project.db")


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PaldaError, match="No such file or directory"):
        open_store(tmp_path / "missing" / "project.db")


@pytest.mark.parametrize("address", ["mysql://host/db", "postgresql", "://", "http://example.org"])
def test_other_addresses_are_refused(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if "://" not in address:
        open_store(address).close()  # a plain name is a file
        assert (tmp_path / address).is_file()
        return
    with pytest.raises(PaldaError):
        open_store(address)


def test_the_password_of_an_address_is_not_in_messages() -> None:
    with pytest.raises(PaldaError) as error:
        open_store("postgresql://palda:hunter2@127.0.0.1:1/labels")
    assert "hunter2" not in str(error.value)
    assert str(error.value).startswith("labels: no database server answers")  # nor is the address: strangers see it


def test_a_store_of_an_older_version_is_migrated(store_location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_store(store_location)
    opened.write(add_person("ann"))
    opened.close()
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    step = {
        schema.VERSION - 1: lambda connection: (
            connection.execute(update(schema.person).values(name="migrated")).rowcount
        )
    }
    monkeypatch.setattr(migrations, "STEPS", step)
    again = open_store(store_location)
    assert names(again) == {"migrated"}
    again.close()
    open_store(store_location).close()  # once is enough


def test_a_failed_migration_changes_nothing(store_location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_store(store_location)
    opened.write(add_person("ann"))
    opened.close()

    def fail(connection) -> None:
        connection.execute(update(schema.person).values(name="half"))
        raise PaldaError("stopped")

    with monkeypatch.context() as patched:
        patched.setattr(schema, "VERSION", schema.VERSION + 1)
        patched.setattr(migrations, "STEPS", {schema.VERSION - 1: fail})
        with pytest.raises(PaldaError, match="stopped"):
            open_store(store_location)
    again = open_store(store_location)
    assert names(again) == {"ann"}
    again.close()


def test_a_store_of_a_later_version_is_refused(store_location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(store_location).close()
    monkeypatch.setattr(schema, "VERSION", schema.VERSION - 1)
    with pytest.raises(PaldaError, match="a later version of palda wrote it"):
        open_store(store_location)


def test_a_backup_taken_while_votes_arrive_is_that_of_one_moment(
    store: Store, store_location: str, tmp_path: Path
) -> None:
    project = {"name": "p", "settings": {}, "created_at": 0.0}
    store.write(lambda connection: connection.execute(insert(schema.project).values(id=1, **project)).rowcount)
    stop = threading.Event()

    def label() -> None:
        while not stop.is_set():
            store.write(lambda connection: log_event(connection, 1, "test"))

    thread = threading.Thread(target=label)
    thread.start()
    try:
        n_rows = [copies.back_up(store_location, tmp_path / "copy.db", force=True) for _ in range(3)]
    finally:
        stop.set()
        thread.join()
    assert n_rows == sorted(n_rows)
    copy = open_store(tmp_path / "copy.db")
    events = copy.read(lambda connection: connection.execute(select(schema.event.c.position)).scalars().all())
    head = copy.read(lambda connection: connection.execute(select(schema.log_head.c.position)).scalar_one())
    copy.close()
    assert sorted(events) == list(range(1, head + 1))


def test_a_backup_can_be_restored_to_either_database_and_numbers_go_on(store_location: str, tmp_path: Path) -> None:
    source = open_store(tmp_path / "source.db")
    source.write(add_person("ann"))
    source.close()
    copies.back_up(tmp_path / "source.db", tmp_path / "copy.db")
    if not store_location.startswith("postgresql"):
        store_location = str(tmp_path / "restored.db")
    copies.restore(tmp_path / "copy.db", store_location)
    restored = open_store(store_location)
    restored.write(add_person("bob"))
    assert names(restored) == {"ann", "bob"}
    restored.close()
    with pytest.raises(PaldaError, match="has projects already"):
        copies.restore(tmp_path / "copy.db", store_location)


def test_backup_refuses_to_overwrite_and_to_copy_what_is_not_there(tmp_path: Path) -> None:
    open_store(tmp_path / "project.db").close()
    (tmp_path / "copy.db").write_text("precious")
    with pytest.raises(PaldaError, match="--force"):
        copies.back_up(tmp_path / "project.db", tmp_path / "copy.db")
    with pytest.raises(PaldaError, match="there is no such file"):
        copies.back_up(tmp_path / "missing.db", tmp_path / "copy2.db")
    assert (tmp_path / "copy.db").read_text() == "precious"


def test_a_backup_does_not_replace_a_store_that_is_in_use_or_was_left_by_a_killed_server(tmp_path: Path) -> None:
    store, other = open_store(tmp_path / "project.db"), open_store(tmp_path / "other.db")
    (tmp_path / "link.db").symlink_to(tmp_path / "project.db")
    for name in ("project.db", "link.db", "other.db"):
        with pytest.raises(PaldaError, match="a palda server uses it, or one was killed"):
            copies.back_up(tmp_path / "project.db", tmp_path / name, force=True)
    store.write(add_person("ann"))
    store.close()
    other.close()
    with pytest.raises(PaldaError, match="a palda server uses it"):
        copies.back_up(tmp_path / "project.db", tmp_path / "project.db", force=True)
    again = open_store(tmp_path / "project.db")
    assert names(again) == {"ann"}
    again.close()


def test_of_two_backups_to_one_file_at_once_the_second_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path / "project.db")
    store.write(add_person("ann"))
    store.close()
    copy_rows, errors = copies.copy_rows, []

    def back_up_again(*stores: Store) -> int:
        monkeypatch.setattr(copies, "copy_rows", copy_rows)
        try:
            copies.back_up(tmp_path / "project.db", tmp_path / "copy.db")
        except BlockingIOError as error:
            errors.append(error)
        return copy_rows(*stores)

    monkeypatch.setattr(copies, "copy_rows", back_up_again)
    copies.back_up(tmp_path / "project.db", tmp_path / "copy.db")
    assert len(errors) == 1
    assert (tmp_path / "copy.db").stat().st_mode & 0o077 == 0
    copy = open_store(tmp_path / "copy.db")
    assert names(copy) == {"ann"}
    copy.close()


def test_a_backup_that_fails_leaves_no_part_of_it_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(tmp_path / "project.db").close()
    before = {path.name for path in tmp_path.iterdir()}

    def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(copies, "_insert", fail)
        with pytest.raises(StoreError):
            copies.back_up(tmp_path / "project.db", tmp_path / "copy.db")
    assert {path.name for path in tmp_path.iterdir()} == before
    copies.back_up(tmp_path / "project.db", tmp_path / "copy.db")
    assert (tmp_path / "copy.db").stat().st_mode & 0o077 == 0 or sys.platform == "win32"


def test_a_full_disk_loses_nothing_and_the_store_works_again(tmp_path: Path) -> None:
    store = open_store(tmp_path / "project.db")
    store.write(add_person("ann"))

    def fill(connection) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")  # SQLite's own "disk is full"
        for number in range(2000):
            add_person(f"person {number} " + "x" * 150)(connection)

    with pytest.raises(StoreError, match="the disk is full; free some space"):
        store.write(fill)
    store.write(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 1000000").scalar())
    store.write(add_person("bob"))
    assert names(store) == {"ann", "bob"}
    store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_a_read_only_file_is_one_line(tmp_path: Path) -> None:
    open_store(tmp_path / "project.db").close()
    code = (
        "import os, sys\n"
        "from palda.live.store import open_store\n"
        "from palda.errors import PaldaError\n"
        "open_store(sys.argv[1] + '.warm').close()\n"  # imports everything
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: open_store(sys.argv[1], as_learner=True)\n"
        "except PaldaError as error: print(error)\n"
    )
    shared = Path("/tmp") / f"palda-read-only-{tmp_path.name}"  # noqa: S108 - a folder that another user may enter
    shutil.copytree(tmp_path, shared)
    try:
        shared.chmod(0o755)
        (shared / "project.db").chmod(0o444)
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", code, shared / "project.db"], capture_output=True, text=True, check=False
        )
    finally:
        shutil.rmtree(shared)
    assert "read-only" in done.stdout or "cannot be opened" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("\n") == 1


class _SlowQueue:
    """Queue in which writes arrive late."""

    def __init__(self, inner: queue.SimpleQueue[object]) -> None:
        self.get, self.empty, self._put = inner.get, inner.empty, inner.put
        self.is_late = threading.Event()

    def put(self, item: object) -> None:
        if item is not None:
            self.is_late.set()
            time.sleep(0.2)
        self._put(item)


def test_a_write_that_meets_the_end_of_the_store_does_not_wait_for_ever(tmp_path: Path) -> None:
    store = open_store(tmp_path / "project.db")
    (writer,) = store._writers
    late = writer.waiting = _SlowQueue(writer.waiting)  # type: ignore[assignment,arg-type]
    thread = threading.Thread(target=store.write, args=(add_person("ann"),), daemon=True)
    thread.start()
    late.is_late.wait(60)
    store.close()
    thread.join(60)
    assert not thread.is_alive()
