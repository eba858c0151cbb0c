"""Models and posteriors in the store, in transactions that are short enough for requests to pass between them."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import and_, delete, func, insert, select, update

from palda.estimators import CrowdPALDA, load
from palda.live import schema
from palda.live.learner import log_columns
from palda.live.learner.live_model import LiveModel
from palda.live.learner.writes import Paced, upsert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import ColumnElement, Connection, Table

    from palda.live.learner.fitting import FitResult
    from palda.live.store import Store

_PART_BYTES = 1 << 19
_ROWS_PER_WRITE = 500


class StoredFit(NamedTuple):
    """The fit in use."""

    generation: int
    position: int
    label_ids: list[int]
    seconds: float


def stored_fit(connection: Connection, project_id: int) -> StoredFit | None:
    """The fit in use, if its model is still stored: erasing data removes the file of the model."""
    project, fit, part = schema.project.c, schema.fit.c, schema.model_file.c
    query = (
        select(fit.generation, fit.position, fit.label_ids, fit.seconds)
        .select_from(schema.project)
        .join(schema.fit, and_(fit.project_id == project.id, fit.generation == project.generation))
        .join(schema.model_file, and_(part.project_id == project.id, part.generation == project.generation))
        .where(project.id == project_id, part.part == 0)
    )
    row = connection.execute(query).first()
    return None if row is None else StoredFit(*row)


def load_model(connection: Connection, project_id: int, fit: StoredFit) -> LiveModel:
    """The stored model of a fit, as it was when the fit finished."""
    part = schema.model_file.c
    query = select(part.content).where(part.project_id == project_id, part.generation == fit.generation)
    with tempfile.TemporaryDirectory(prefix="palda-model-") as folder:
        path = Path(folder) / "model.palda"
        with path.open("wb") as file:
            parts = connection.execution_options(yield_per=4).execute(query.order_by(part.part))
            for content in parts.scalars():
                file.write(content)
        return opened(path, fit.generation, fit.position, fit.label_ids)


def opened(path: Path, generation: int, position: int, label_ids: Sequence[int]) -> LiveModel:
    """The model of a file."""
    model = load(path)
    if not isinstance(model, CrowdPALDA):
        raise TypeError("not a model of a crowd")
    return LiveModel(model, generation, position, label_ids)


def next_generation(connection: Connection, project_id: int) -> int:
    """A generation that has never been used."""
    project, fit = schema.project.c, schema.fit.c
    in_use = connection.execute(select(project.generation).where(project.id == project_id)).scalar() or 0
    last = connection.execute(select(func.max(fit.generation)).where(fit.project_id == project_id)).scalar() or 0
    return max(in_use, last) + 1


def store_model(
    store: Store, paced: Paced, project_id: int, live: LiveModel, fit: FitResult, check: Callable[[Connection], None]
) -> None:
    """Write the file and the posteriors of a new fit, then switch to it in one transaction, unless ``check`` raises."""
    generation = live.generation
    with fit.path.open("rb") as file:
        for number, content in enumerate(iter(lambda: file.read(_PART_BYTES), b"")):
            row = {"project_id": project_id, "generation": generation, "part": number, "content": content}
            paced.write(partial(upsert, table=schema.model_file, rows=[row]))
    write_posteriors(paced, project_id, live, np.flatnonzero(live.document_ids >= 0))
    finished = {
        "project_id": project_id, "generation": generation, "position": fit.position, "label_ids": list(fit.label_ids),
        "n_docs": fit.n_docs, "seconds": fit.seconds, "finished_at": time.time(),
    }  # fmt: skip

    def switch(connection: Connection) -> None:
        check(connection)
        connection.execute(insert(schema.fit), finished)
        project = schema.project
        connection.execute(update(project).where(project.c.id == project_id).values(generation=generation))
        connection.execute(delete(schema.queue).where(schema.queue.c.project_id == project_id))

    store.write(switch)


def write_posteriors(paced: Paced, project_id: int, live: LiveModel, rows: NDArray[np.int64]) -> None:
    """Write the posteriors of some documents of the model."""
    rows = rows[live.document_ids[rows] >= 0]
    paced.write(*_posterior_pieces(project_id, live, rows))


def _posterior_pieces(
    project_id: int, live: LiveModel, rows: NDArray[np.int64]
) -> Iterator[Callable[[Connection], None]]:
    wrong = live.expected_wrong(rows)
    probs = live.model.consensus_[rows].astype("<f4")
    ids = live.document_ids[rows].tolist()
    for first in range(0, len(ids), _ROWS_PER_WRITE):
        piece = slice(first, first + _ROWS_PER_WRITE)
        found = [
            {
                "project_id": project_id,
                "generation": live.generation,
                "document_id": document,
                "probabilities": values.tobytes(),
                "expected_wrong": float(number),
                "position": live.position,
            }
            for document, values, number in zip(ids[piece], probs[piece], wrong[piece], strict=True)
        ]

        def write(connection: Connection, found: list[dict[str, Any]] = found) -> None:
            there = log_columns.existing_documents(connection, [row["document_id"] for row in found])
            upsert(connection, schema.posterior, [row for row in found if row["document_id"] in there])

        yield write


def leave_model(store: Store, project_id: int) -> bool:
    """Go back to the state before the first fit; whether there was one."""
    project = schema.project

    def leave(connection: Connection) -> bool:
        fitted = and_(project.c.id == project_id, project.c.generation > 0)
        changed = connection.execute(update(project).where(fitted).values(generation=0, is_complete=False))
        if changed.rowcount:
            for table in (schema.queue, schema.progress, schema.annotator_estimate):
                connection.execute(delete(table).where(table.c.project_id == project_id))
        return changed.rowcount > 0

    return store.write(leave)


def delete_other_generations(paced: Paced, store: Store, project_id: int) -> None:
    """Remove everything of fits that are not in use, in pieces."""
    project = schema.project.c
    in_use = store.read(lambda one: one.execute(select(project.generation).where(project.id == project_id)).scalar())
    if in_use is None:
        return
    tables = {
        schema.posterior: ("document_id", 1000),
        schema.evidence: ("document_id", 1000),
        schema.model_file: ("part", 4),
    }
    for table, (key, size) in tables.items():
        while _delete_some(paced, store, table, key, size, project_id, in_use):
            pass
    fit = schema.fit
    old = and_(fit.c.project_id == project_id, fit.c.generation < in_use)
    paced.write(partial(_delete, table=fit, which=old))


def _delete_some(paced: Paced, store: Store, table: Table, key: str, size: int, project_id: int, in_use: int) -> bool:
    """Delete some rows of another generation; whether there may be more."""
    columns = table.c
    other = and_(columns.project_id == project_id, columns.generation != in_use)
    query = select(columns.generation, columns[key]).where(other).limit(size)
    found = store.read(lambda connection: connection.execute(query).all())
    for generation in {row[0] for row in found}:
        keys = [row[1] for row in found if row[0] == generation]
        which = and_(columns.project_id == project_id, columns.generation == generation, columns[key].in_(keys))
        paced.write(partial(_delete, table=table, which=which))
    return len(found) == size


def _delete(connection: Connection, table: Table, which: ColumnElement[bool]) -> None:
    connection.execute(delete(table).where(which))
