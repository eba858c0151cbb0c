"""What the project knows: status, consensus, doubtful documents."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, case, func, select

from palda.live import schema
from palda.live.errors import NotFoundError
from palda.live.records import (
    ConsensusRow,
    DocumentVote,
    DoubtfulDocument,
    LearnerState,
    ProjectEstimate,
    ProjectStatus,
)
from palda.live.schema import document, evidence, learner_state, lease, person, posterior, progress, vote
from palda.live.service.documents import known_labels
from palda.live.service.projects import head_position, read_project

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import ColumnElement, Connection, Row, Subquery

    from palda.live.store import Store

_MAX_HISTORY = 200  # points of the curve


def status(store: Store, project_id: int) -> ProjectStatus:
    """What the dashboard shows."""

    def find(connection: Connection) -> ProjectStatus:
        project = read_project(connection, project_id)
        of_project = document.c.project_id == project_id
        looks = func.coalesce(func.sum(document.c.n_looks), 0)
        looked = func.coalesce(func.sum(case((document.c.n_looks > 0, 1), else_=0)), 0)
        n_documents, n_looks, n_looked = connection.execute(select(func.count(), looks, looked).where(of_project)).one()
        leases = _n_leases(lease.c.project_id == project_id)
        n_leases = connection.execute(select(func.coalesce(func.sum(leases.c.n), 0))).scalar_one()
        only_leased = select(func.count()).join(document, document.c.id == leases.c.document_id)
        n_only = connection.execute(only_leased.where(document.c.n_looks == leases.c.n)).scalar_one()
        history = _history(connection, project_id)
        last = history[-1] if history else None
        return ProjectStatus(
            project,
            n_documents,
            int(n_looked) - n_only,
            int(n_looks) - int(n_leases),
            int(n_leases),
            head_position(connection),
            None if last is None else ProjectEstimate(**last.estimate),
            None if last is None else last.position,
            tuple(_point(row) for row in history),
            _learner(connection, project_id),
        )

    return store.read(find)


def consensus(store: Store, project_id: int, after: int = 0, limit: int = 1000) -> list[ConsensusRow]:
    """Consensus of documents in the order of their numbers, after the given one."""

    def find(connection: Connection) -> list[ConsensusRow]:
        generation, labels = fitted_labels(connection, project_id)
        current = _current_posterior(generation)
        columns = document.c.id, document.c.name, document.c.n_looks
        query = (
            select(*columns, posterior.c.probabilities, posterior.c.expected_wrong, posterior.c.position)
            .select_from(document.outerjoin(posterior, current))
            .where(document.c.project_id == project_id, document.c.id > after)
            .order_by(document.c.id)
            .limit(limit)
        )
        rows = connection.execute(query).all()
        ids = [row.id for row in rows]
        known = known_labels(connection, ids)
        held: dict[int, int] = dict(connection.execute(select(_n_leases(lease.c.document_id.in_(ids)))).all())
        return [
            ConsensusRow(
                row.id,
                row.name,
                row.n_looks - held.get(row.id, 0),
                unpack(row.probabilities, labels) | {key: float(value) for key, value in known[row.id].items()},
                row.expected_wrong,
                row.position,
            )
            for row in rows
        ]

    return store.read(find)


def consensus_of(connection: Connection, project_id: int, ids: Collection[int]) -> dict[int, dict[int, float]]:
    """Probabilities per class of some documents, inside of a transaction."""
    generation, labels = fitted_labels(connection, project_id)
    of_fit = and_(posterior.c.project_id == project_id, posterior.c.generation == generation)
    query = select(posterior.c.document_id, posterior.c.probabilities).where(of_fit, posterior.c.document_id.in_(ids))
    return {document_id: unpack(packed, labels) for document_id, packed in connection.execute(query)}


def doubtful(store: Store, project_id: int, limit: int = 20) -> list[DoubtfulDocument]:
    """Documents with the largest expected number of wrong labels, without those that are decided."""
    which = and_(~document.c.is_gold, document.c.n_looks > 0)
    return store.read(lambda connection: _doubtful(connection, project_id, which, limit))


def doubtful_document(store: Store, project_id: int, document_id: int) -> DoubtfulDocument:
    """One document with its votes, probabilities and evidence."""
    which = document.c.id == document_id
    found = store.read(lambda connection: _doubtful(connection, project_id, which, 1, is_fitted=False))
    if not found:
        raise NotFoundError("there is no such document")
    return found[0]


def _doubtful(
    connection: Connection, project_id: int, which: ColumnElement[bool], limit: int, *, is_fitted: bool = True
) -> list[DoubtfulDocument]:
    generation, labels = fitted_labels(connection, project_id)
    query = (
        select(document.c.id, document.c.name, document.c.text, posterior.c.probabilities, posterior.c.expected_wrong)
        .select_from(document.join(posterior, _current_posterior(generation), isouter=not is_fitted))
        .where(document.c.project_id == project_id, which)
        .order_by(posterior.c.expected_wrong.desc())
        .limit(limit)
    )
    return _with_votes(connection, connection.execute(query).all(), labels)


def fitted_labels(connection: Connection, project_id: int) -> tuple[int, list[int]]:
    """Generation of the fit in use, and its classes in their order."""
    of_project = schema.project.c.id == project_id
    generation = connection.execute(select(schema.project.c.generation).where(of_project)).scalar() or 0
    table = schema.fit
    query = select(table.c.label_ids).where(table.c.project_id == project_id, table.c.generation == generation)
    return generation, list(connection.execute(query).scalar() or ())


def unpack(packed: bytes | None, labels: Sequence[int]) -> dict[int, float]:
    """Probabilities per class; empty if there are none."""
    if packed is None:
        return {}
    return dict(zip(labels, struct.unpack(f"<{len(packed) // 4}f", packed), strict=True))


def _n_leases(which: ColumnElement[bool]) -> Subquery:
    """Leases per document, which are counted as looks until they are answered or expire."""
    return select(lease.c.document_id, func.count().label("n")).where(which).group_by(lease.c.document_id).subquery()


def _current_posterior(generation: int) -> Any:
    return and_(
        posterior.c.project_id == document.c.project_id,
        posterior.c.generation == generation,
        posterior.c.document_id == document.c.id,
    )


def _history(connection: Connection, project_id: int) -> Sequence[Row[*tuple[Any, ...]]]:
    """Estimates over time, thinned if there are many; the last is always there."""
    of_project = progress.c.project_id == project_id
    n_rows = connection.execute(select(func.count()).where(of_project)).scalar_one()
    number = func.row_number().over(order_by=progress.c.position.desc()).label("number")
    rows = select(progress.c.position, progress.c.estimate, progress.c.computed_at, number).where(of_project).subquery()
    step = max(1, -(-n_rows // _MAX_HISTORY))
    query = select(rows).where((rows.c.number - 1) % step == 0).order_by(rows.c.position)
    return connection.execute(query).all()


def _point(row: Row[*tuple[Any, ...]]) -> tuple[float, int, float, float, int]:
    names = "n_votes", "expected_wrong", "upper_wrong", "n_labels"
    return row.computed_at, *(row.estimate[name] for name in names)


def _learner(connection: Connection, project_id: int) -> LearnerState | None:
    names = "activity", "message", "position", "n_failures", "heartbeat_at"
    query = select(*(learner_state.c[name] for name in names)).where(learner_state.c.project_id == project_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else LearnerState(*row)


def _with_votes(
    connection: Connection, rows: Sequence[Row[*tuple[Any, ...]]], labels: Sequence[int]
) -> list[DoubtfulDocument]:
    ids = [row.id for row in rows]
    votes: dict[int, dict[tuple[str, int], int | None]] = {number: {} for number in ids}
    query = (
        select(vote.c.document_id, person.c.name, vote.c.label_id, vote.c.value)
        .join(person, person.c.id == vote.c.person_id)
        .where(vote.c.document_id.in_(ids))
        .order_by(vote.c.position)
    )
    for document_id, name, label_id, value in connection.execute(query):
        votes[document_id][name, label_id] = value
    found = select(evidence.c.document_id, evidence.c.words).where(evidence.c.document_id.in_(ids))
    words = dict(connection.execute(found).all())
    known = known_labels(connection, ids)
    return [
        DoubtfulDocument(
            row.id,
            row.name,
            row.text,
            row.expected_wrong or 0.0,
            unpack(row.probabilities, labels),
            tuple(DocumentVote(*key, value) for key, value in votes[row.id].items() if value is not None),
            {
                int(label): tuple((str(word), float(weight)) for word, weight in some)
                for label, some in words.get(row.id, {}).items()
            },
            known[row.id],
        )
        for row in rows
    ]
