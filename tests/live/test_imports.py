"""Imports of documents that end early, and files whose ids are not distinct."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from sqlalchemy import select, update
from tests.live.world import World

from palda.errors import DataError, PaldaError
from palda.live import copies, schema
from palda.live.errors import StoreError
from palda.live.service import documents, projects
from palda.live.service.documents import DocumentRow
from palda.live.store import open_store

ROWS = [DocumentRow(f"n{number}", "text") for number in range(1200)]


def _wait_for_imports() -> None:
    for thread in threading.enumerate():
        if thread.name == "import":
            thread.join(60)


def test_an_import_into_a_project_that_is_deleted_ends_without_a_trace(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    projects.delete(world.store, world.other_project)
    add = documents._add_rows
    gone = threading.Event()

    def wait(*given: object) -> tuple[int, int]:
        gone.wait(60)
        return add(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(documents, "_add_rows", wait)
    project = projects.create(world.store, world.owner, "short-lived", ["a"]).id
    documents.start_import(world.store, project, ROWS)
    monkeypatch.setattr(documents, "_add_rows", add)
    gone.set()
    projects.delete(world.store, project)
    _wait_for_imports()
    assert not failed


def test_documents_of_an_import_that_failed_half_way_open_the_project_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, add = world.store, documents._add_rows
    store.write(lambda one: one.execute(update(schema.project).values(is_complete=True)).rowcount)

    def fail_later(project_id: int, rows: list[DocumentRow], connection: object) -> tuple[int, int]:
        if rows[0].name != "n0":
            raise StoreError("the disk is full")
        return add(project_id, rows, connection)  # type: ignore[arg-type]

    monkeypatch.setattr(documents, "_add_rows", fail_later)
    assert documents.import_documents(store, world.project, ROWS).state == "failed"
    assert not projects.project(store, world.project).is_complete
    kinds = store.read(lambda one: one.execute(select(schema.event.c.kind)).scalars().all())
    assert kinds[-1] == "documents_imported"


def test_an_import_that_was_interrupted_is_marked_whatever_port_the_server_had(world: World) -> None:
    store = world.store
    store.write(lambda one: one.execute(update(schema.project).values(is_complete=True)).rowcount)
    job = documents.new_import(store, world.project, 5, "host:8600")
    documents.end_interrupted_imports(store, "host:8601")
    assert documents.find_import(store, world.project, job.id).state == "interrupted"
    assert not projects.project(store, world.project).is_complete  # it may have added documents
    assert projects.project(store, world.other_project).is_complete


def test_known_labels_of_a_table_may_be_a_random_sample_and_decisions_are_not(world: World, tmp_path: Path) -> None:
    first, second, *_ = documents.documents(world.store, world.project)
    table = tmp_path / "gold.csv"
    table.write_text(f"doc,crime,sport\n{first.name},1,0\n")
    documents.import_gold_table(world.store, world.project, table)
    documents.set_gold(world.store, world.project, second.id, {world.label_ids[0]: 1}, world.owner)
    gold = schema.gold.c
    rows = world.store.read(lambda one: one.execute(select(gold.document_id, gold.is_random).distinct()).all())
    assert dict(rows) == {first.id: True, second.id: False}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.csv", "id,text\na b,one\na  b,two\n", r"row 3: the id differs"),
        ("d.csv", 'id,text\na b,"one\nline"\n\na  b,two\n', r"row 4: the id differs"),
        ("d.jsonl", '{"id": "a b", "text": ""}\n{"id": "a  b", "text": ""}\n', r"row 2: the id differs"),
        ("d.csv", "name,words\na,one\n", r"among 'name', 'words'; name one 'doc'$"),
        ("d.csv", "id,words,title\na,one,two\n", r"choose one of 'words', 'title' and call it 'text'$"),
        ("d.csv", "id,text\na,Fußball\n", r"row 2: byte 0xdf is not valid UTF-8; save the file as UTF-8$"),
    ],
)
def test_a_faulty_table_is_refused_with_its_row_and_advice_that_can_be_followed(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="latin-1")
    with pytest.raises(DataError, match=message):
        documents.read_upload(path)


def test_half_a_restored_backup_is_not_taken_for_a_whole_one(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, restored = tmp_path / "backup.db", tmp_path / "restored.db"
    copies.back_up(tmp_path / "project.db", backup)
    insert = copies._insert

    def stop(connection: object, table: object, rows: object) -> None:
        if table is schema.document:
            raise StoreError("killed")
        insert(connection, table, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(copies, "_insert", stop)
    with pytest.raises(StoreError):
        copies.restore(backup, restored)
    with pytest.raises(PaldaError, match="not a palda store"):
        open_store(restored)
