"""Documents of a project: uploads, known labels, deletion."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import and_, delete, insert, select, true, update

from palda.errors import DataError, reason_of
from palda.live import schema
from palda.live.errors import InvalidRequestError, NotFoundError, ServiceError
from palda.live.records import ImportJob
from palda.live.schema import document, gold, import_job
from palda.live.service.names import checked_name, checked_text
from palda.live.service.projects import delete_from_all_tables, read_labels, read_project
from palda.live.store import log_event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sqlalchemy import Connection, Row, Select, Update

    from palda.live.records import Actor
    from palda.live.store import Store

_ROWS_PER_WRITE = 500
_MAX_ID = 400  # characters of a document id
SUFFIXES = {"text/csv": ".csv", "application/x-ndjson": ".jsonl", "application/jsonl": ".jsonl"}
"""File types of an upload."""
_ADVICE = {  # of the readers, about arguments that an upload does not have
    " or pass id='...'": "",
    " with text='...'": " and call it 'text'",
    " or pass its encoding, such as encoding='latin-1'": "",
    "; pass encoding='...'": "; save the file as UTF-8",
}


class DocumentRow(NamedTuple):
    """A document of an upload."""

    name: str
    text: str


@dataclass(frozen=True)
class StoredDocument:
    """A document of a project."""

    id: int
    name: str
    text: str
    n_looks: int
    gold: dict[int, int]


def read_upload(path: Path, name: str | None = None) -> list[DocumentRow]:
    """Documents of a file; errors name its row and column, and call the file ``name``."""
    from palda.data import Documents
    from palda.io import read_documents, read_table

    shown = name or path.name
    try:
        table = read_table(path)
        found = read_documents(table)
    except DataError as error:
        problem = error.problem
        for advice, instead in _ADVICE.items():
            problem = problem.replace(advice, instead)
        raise DataError(problem, file=shown, row=error.row, column=error.column) from None
    if not isinstance(found, Documents):
        raise DataError("it has no column of texts; name one 'text'", file=shown)
    rows: dict[str, DocumentRow] = {}
    for record, (doc_id, text) in enumerate(zip(found.doc_ids, found.texts, strict=True)):
        try:
            row = DocumentRow(checked_name(str(doc_id), "id", _MAX_ID), checked_text(str(text), "text"))
        except InvalidRequestError as error:
            raise DataError(str(error), file=shown, row=table.where.row(record)) from None
        if row.name in rows:
            problem = "the id differs from an earlier one only in blanks or accents"
            raise DataError(problem, file=shown, row=table.where.row(record))
        rows[row.name] = row
    return list(rows.values())


def start_import(store: Store, project_id: int, rows: Sequence[DocumentRow], server: str = "") -> ImportJob:
    """Import documents in a thread; documents that exist already stay as they are."""
    job = new_import(store, project_id, len(rows), server)

    def work() -> None:
        with suppress(ServiceError):  # the project was deleted, or the server ends: the next start says so in the job
            _run_import(store, project_id, job.id, rows)

    threading.Thread(target=work, name="import", daemon=True).start()
    return job


def import_documents(store: Store, project_id: int, rows: Sequence[DocumentRow], server: str = "") -> ImportJob:
    """Import documents and wait for the end."""
    return _run_import(store, project_id, new_import(store, project_id, len(rows), server).id, rows)


def new_import(store: Store, project_id: int, n_rows: int, server: str = "") -> ImportJob:
    """A job that has not begun."""
    values = {"project_id": project_id, "state": "running", "n_rows": n_rows, "server": server}

    def add(connection: Connection) -> int:
        read_project(connection, project_id)
        added = insert(import_job).values(started_at=time.time(), **values).returning(import_job.c.id)
        return int(connection.execute(added).scalar_one())

    return ImportJob(store.write(add), "running", n_rows, 0, 0, "")


def _run_import(store: Store, project_id: int, job_id: int, rows: Sequence[DocumentRow]) -> ImportJob:
    """Import documents in parts, so that other writes need not wait."""
    n_new = n_other = 0

    def note(**values: object) -> None:
        store.write(partial(_execute, update(import_job).where(import_job.c.id == job_id).values(**values)))

    try:
        for start in range(0, len(rows), _ROWS_PER_WRITE):
            part = rows[start : start + _ROWS_PER_WRITE]
            added, differing = store.write(partial(_add_rows, project_id, part))
            n_new, n_other = n_new + added, n_other + differing
            note(n_done=start + len(part), n_new=n_new)
        who = "1 document has" if n_other == 1 else f"{n_other:,} documents have"
        text = f"{who} the id of an older one with another text; the older text stays"
        end = {"state": "finished", "message": text if n_other else ""}
    except ServiceError as error:
        end = {"state": "failed", "message": reason_of(error)}
    if n_new:
        store.write(lambda connection: _reopen(connection, project_id, "documents_imported", n_new))
    note(**end)
    return find_import(store, project_id, job_id)


def end_interrupted_imports(store: Store, server: str) -> None:
    """Mark imports of an earlier process of this server, which cannot go on: the same file may be sent again.

    An SQLite file has one server, whatever its name was.
    """
    advice = "the server stopped; send the file again, documents that are there already stay as they are"
    mine = and_(import_job.c.state == "running", true() if store.is_sqlite else import_job.c.server == server)
    ended = update(import_job).where(mine).values(state="interrupted", message=advice)
    store.write(partial(_execute, ended))


def find_import(store: Store, project_id: int, job_id: int) -> ImportJob:
    """Progress of an import."""
    columns = (import_job.c[name] for name in ("id", "state", "n_rows", "n_done", "n_new", "message"))
    query = select(*columns).where(import_job.c.id == job_id, import_job.c.project_id == project_id)
    row = store.read(lambda connection: connection.execute(query).one_or_none())
    if row is None:
        raise NotFoundError("there is no such import")
    return ImportJob(*row)


def documents(store: Store, project_id: int, after: int = 0, limit: int = 100) -> list[StoredDocument]:
    """Documents in the order of their numbers, after the given one."""
    query = _documents_query().where(document.c.project_id == project_id, document.c.id > after)
    return store.read(
        lambda connection: _with_gold(connection, connection.execute(query.order_by(document.c.id).limit(limit)).all())
    )


def find_document(store: Store, project_id: int, document_id: int) -> StoredDocument:
    """One document."""
    query = _documents_query().where(document.c.project_id == project_id, document.c.id == document_id)
    found = store.read(lambda connection: _with_gold(connection, connection.execute(query).all()))
    if not found:
        raise NotFoundError("there is no such document")
    return found[0]


def delete_document(store: Store, project_id: int, document_id: int) -> None:
    """Delete a document with its votes; the log keeps only that it happened."""

    def remove(connection: Connection) -> None:
        _require_document(connection, project_id, document_id)
        delete_from_all_tables(connection, document_id=document_id)
        connection.execute(delete(document).where(document.c.id == document_id))
        forget_model(connection, project_id)
        log_event(connection, project_id, "document_deleted")

    store.write(remove)


def forget_model(connection: Connection, project_id: int) -> None:
    """Delete stored models of a project: they contain votes and words that must go."""
    connection.execute(delete(schema.model_file).where(schema.model_file.c.project_id == project_id))


def set_gold(
    store: Store, project_id: int, document_id: int, values: Mapping[int, int], actor: Actor | None = None
) -> None:
    """Make labels of a document known; classes that are not named become unknown. Empty: none is known."""

    def keep(connection: Connection) -> None:
        _require_document(connection, project_id, document_id)
        write_gold(connection, project_id, {document_id: values}, actor)

    store.write(keep)


def _require_document(connection: Connection, project_id: int, document_id: int) -> None:
    known = select(document.c.id).where(document.c.id == document_id, document.c.project_id == project_id)
    if connection.execute(known).scalar() is None:
        raise NotFoundError("there is no such document")


def write_gold(
    connection: Connection,
    project_id: int,
    known: Mapping[int, Mapping[int, int]],
    actor: Actor | None,
    *,
    is_random: bool = False,
) -> None:
    """Known labels of documents, inside of a transaction."""
    labels = {one.id for one in read_labels(connection, project_id)}
    rows = []
    for document_id, values in known.items():
        if not set(values) <= labels:
            raise InvalidRequestError("a known label is of a class that the project does not have")
        if not set(values.values()) <= {0, 1}:
            raise InvalidRequestError("a known label must be 0 or 1")
        rows += [
            {"document_id": document_id, "label_id": label_id, "value": value} for label_id, value in values.items()
        ]
        connection.execute(delete(gold).where(gold.c.document_id == document_id))
        flag = update(document).where(document.c.id == document_id).values(is_gold=bool(values))
        connection.execute(flag)
    if rows:
        decided_by = None if actor is None else actor.person_id
        common = {"project_id": project_id, "decided_by": decided_by, "decided_at": time.time(), "is_random": is_random}
        connection.execute(insert(gold), [row | common for row in rows])
    log_event(connection, project_id, "gold_changed", document_ids=sorted(known))


def _execute(statement: Update, connection: Connection) -> None:
    connection.execute(statement)


def _documents_query() -> Select[int, str, str, int]:
    return select(document.c.id, document.c.name, document.c.text, document.c.n_looks)


def _with_gold(connection: Connection, rows: Sequence[Row[int, str, str, int]]) -> list[StoredDocument]:
    known = known_labels(connection, [row[0] for row in rows])
    return [StoredDocument(*row, known[row[0]]) for row in rows]


def known_labels(connection: Connection, document_ids: Sequence[int]) -> dict[int, dict[int, int]]:
    """Known labels of each document."""
    known: dict[int, dict[int, int]] = {number: {} for number in document_ids}
    query = select(gold.c.document_id, gold.c.label_id, gold.c.value).where(gold.c.document_id.in_(document_ids))
    for document_id, label_id, value in connection.execute(query):
        known[document_id][label_id] = value
    return known


def _add_rows(project_id: int, rows: Sequence[DocumentRow], connection: Connection) -> tuple[int, int]:
    """Numbers of new documents, and of documents whose id is that of another text."""
    names = [row.name for row in rows]
    query = select(document.c.name, document.c.text).where(
        document.c.project_id == project_id, document.c.name.in_(names)
    )
    stored = dict(connection.execute(query).all())
    new = [row for row in rows if row.name not in stored]
    shuffle = random.Random(f"{project_id} {names[0]}")  # noqa: S311 - an order, no secret
    if new:
        common = {"project_id": project_id, "n_looks": 0, "is_gold": False}
        values = [{**row._asdict(), **common, "shuffle": shuffle.getrandbits(31)} for row in new]
        connection.execute(insert(document), values)
    return len(new), sum(stored.get(row.name, row.text) != row.text for row in rows)


def change_texts(connection: Connection, project_id: int, texts: Mapping[int, str]) -> None:
    """Give documents other texts, inside of a transaction; the next fit reads them."""
    for document_id, text in texts.items():
        mine = document.c.id == document_id, document.c.project_id == project_id
        connection.execute(update(document).where(*mine).values(text=text))
    if texts:
        _reopen(connection, project_id, "texts_changed", len(texts))


def _reopen(connection: Connection, project_id: int, kind: str, n: int) -> None:
    connection.execute(update(schema.project).where(schema.project.c.id == project_id).values(is_complete=False))
    log_event(connection, project_id, kind, n=n)


def import_gold_table(store: Store, project_id: int, path: Path) -> int:
    """Known labels from a table as in ``palda fit --gold``; returns the number of documents."""
    import numpy as np

    from palda.data import names_array
    from palda.io import read_gold

    def names(connection: Connection) -> tuple[dict[str, int], dict[str, int]]:
        docs = connection.execute(select(document.c.name, document.c.id).where(document.c.project_id == project_id))
        return dict(docs.all()), {label.name: label.id for label in read_labels(connection, project_id)}

    docs, labels = store.read(names)
    known = read_gold(path, names_array(docs), names_array(labels))
    doc_ids, label_ids = list(docs.values()), list(labels.values())
    tables = {
        doc_ids[row]: {label_ids[column]: int(known[row, column]) for column in np.flatnonzero(known[row] >= 0)}
        for row in np.flatnonzero((known >= 0).any(axis=1))
    }
    store.write(lambda connection: write_gold(connection, project_id, tables, None))
    return len(tables)
