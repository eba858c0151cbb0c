"""Files of a project: labels, votes, model and report."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from palda.live.errors import ConflictError, StoreError
from palda.live.schema import answer, document, label, model_file, person, vote
from palda.live.schema import project as project_table
from palda.live.service.projects import read_project
from palda.live.service.results import consensus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from palda.live.store import Store

STORE_VARIABLE = "PALDA_STORE"
"""Environment variable with the address of the store, for processes of the server: an address may have a password."""

_BLOCK = 2000  # documents per part of a file
_NO_MODEL = "there is no model yet; it is fitted when there are enough votes"
_REPORT_SECONDS = 600


def labels_csv(store: Store, project_id: int) -> Iterator[bytes]:
    """One row per document: id, labels, votes, and the probability of every class; empty before the first fit.

    A class that nobody has judged has the probability 0.5 and is no label.
    """
    labels = store.read(lambda connection: read_project(connection, project_id)).labels
    yield _lines([["doc", "labels", "n_votes", *(one.name for one in labels)]])
    last = 0
    while rows := consensus(store, project_id, last, _BLOCK):
        yield _lines(
            [
                row.document,
                "|".join(one.name for one in labels if row.probabilities.get(one.id, 0.0) > 0.5),
                row.n_looks,
                *(_rounded(row.probabilities.get(one.id)) for one in labels),
            ]
            for row in rows
        )
        last = rows[-1].document_id


def votes_csv(store: Store, project_id: int) -> Iterator[bytes]:
    """Current votes in rows of doc, annotator, label, value and time, as ``palda fit`` reads them.

    Somebody who could not tell has a row without label and value.
    """
    yield _lines([["doc", "annotator", "label", "value", "time"]])
    last = 0
    while True:
        ids = store.read(partial(_document_block, project_id, last))
        if not ids:
            return
        yield _lines(store.read(partial(_votes, project_id, ids[0], ids[-1])))
        last = ids[-1]


def model_parts(store: Store, project_id: int) -> Iterator[bytes]:
    """The model file of the last fit, in parts."""
    generation, n_parts = _last_model(store, project_id)
    return (_model_part(store, project_id, generation, part) for part in range(n_parts))


def _last_model(store: Store, project_id: int) -> tuple[int, int]:
    """Generation of the last fit, and the number of parts of its file."""

    def find(connection: Connection) -> tuple[int, int]:
        generation = connection.execute(select(project_table.c.generation).where(project_table.c.id == project_id))
        number = int(generation.scalar() or 0)
        mine = model_file.c.project_id == project_id, model_file.c.generation == number
        return number, int(connection.execute(select(func.count()).where(*mine)).scalar_one())

    generation, n_parts = store.read(find)
    if not n_parts:
        raise ConflictError(_NO_MODEL)
    return generation, n_parts


def _model_part(store: Store, project_id: int, generation: int, part: int) -> bytes:
    mine = model_file.c.project_id == project_id, model_file.c.generation == generation, model_file.c.part == part
    content = store.read(lambda connection: connection.execute(select(model_file.c.content).where(*mine)).scalar())
    if content is None:
        raise StoreError("a new model has replaced this one; download it again")
    return bytes(content)


def write_report_file(store: Store, project_id: int, path: Path, *, has_votes: bool = True) -> None:
    """Write the HTML report of the last model, in a process of its own: the model takes memory and time.

    ``has_votes`` says whether it shows who voted what, which is for admins alone.
    """
    _last_model(store, project_id)  # without one no process is needed
    address = store.url.render_as_string(hide_password=False)
    options = [str(project_id), str(path), *["votes"] * has_votes]
    command = [sys.executable, "-P", "-m", "palda.live.report_file", *options]  # -P: no modules of the current folder
    environment = {**os.environ, STORE_VARIABLE: address}
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            command, env=environment, capture_output=True, text=True, timeout=_REPORT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise StoreError("the report took too long; download model.palda and run: palda report model.palda") from None
    if done.returncode:
        raise ConflictError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "the report failed")


def _document_block(project_id: int, after: int, connection: Connection) -> list[int]:
    query = select(document.c.id).where(document.c.project_id == project_id, document.c.id > after)
    return list(connection.execute(query.order_by(document.c.id).limit(_BLOCK)).scalars())


def _votes(project_id: int, first: int, last: int, connection: Connection) -> list[list[Any]]:
    """Current votes on documents from one number to another."""
    between = vote.c.document_id.between(first, last), vote.c.project_id == project_id
    query = (
        select(document.c.name, person.c.name, label.c.name, vote.c.value, vote.c.given_at)
        .select_from(
            vote.join(document, document.c.id == vote.c.document_id).join(person, person.c.id == vote.c.person_id)
        )
        .join(label, label.c.id == vote.c.label_id)
        .where(*between)
        .order_by(vote.c.position)
    )
    current: dict[tuple[str, str, str], tuple[int | None, float]] = {}
    for doc, name, label_name, value, given_at in connection.execute(query):
        current[doc, name, label_name] = value, given_at
    rows: list[list[Any]] = [
        [*key, value, f"{time:.3f}"] for key, (value, time) in current.items() if value is not None
    ]
    unsure = (
        select(document.c.name, person.c.name, answer.c.answered_at)
        .select_from(answer.join(document, document.c.id == answer.c.document_id))
        .join(person, person.c.id == answer.c.person_id)
        .where(answer.c.document_id.between(first, last), answer.c.project_id == project_id)
        .where(answer.c.kind == "cannot_tell")
    )
    return rows + [[doc, name, "", "", f"{time:.3f}"] for doc, name, time in connection.execute(unsure)]


def _rounded(probability: float | None) -> str:
    return "" if probability is None else f"{probability:.6g}"


def _lines(rows: Iterable[Iterable[Any]]) -> bytes:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue().encode()
