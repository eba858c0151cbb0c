"""Tables of a labelling store, the same on SQLite and PostgreSQL.

Times are seconds since 1970 in UTC. ``log_head`` numbers the entries of the log: ``vote`` and ``event`` share its
positions, and positions become visible in their order. Everything below "written by the learner" can be computed again
from the tables above it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)

VERSION = 3
"""Version of the schema; ``migrations`` brings older stores to it."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Key = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself only for INTEGER

_NUMBERED: dict[str, Any] = {"sqlite_autoincrement": True}
"""A deleted row's number is not given to another: an answer that is sent late must not find a new document."""


def _ids(*names: str, **options: Any) -> list[Column[int]]:
    """Columns that name rows of other tables: ``project_id`` of ``project``."""
    return [Column(f"{name}_id", Key, ForeignKey(f"{name}.id"), nullable=False, **options) for name in names]


store_info = Table(
    "store_info",
    metadata,
    Column("name", String(40), primary_key=True),  # version, secret
    Column("value", Text, nullable=False),
)

log_head = Table(
    "log_head",
    metadata,
    Column("id", Integer, primary_key=True),  # one row, 1
    Column("position", Key, nullable=False),
)

project = Table(
    "project",
    metadata,
    Column("id", Key, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("guidelines", Text, nullable=False, default=""),
    Column("settings", JSON, nullable=False),  # of ``ProjectSettings``
    Column("is_paused", Boolean, nullable=False, default=False),
    Column("is_complete", Boolean, nullable=False, default=False),  # the learner found that the target is met
    Column("generation", Integer, nullable=False, default=0),  # of the fit in use; 0 before the first
    Column("created_at", Float, nullable=False),
    **_NUMBERED,
)

label = Table(
    "label",
    metadata,
    Column("id", Key, primary_key=True),
    *_ids("project"),
    Column("number", Integer, nullable=False),  # order on the page: 0, 1, ...
    Column("name", String(200), nullable=False),
    Column("description", Text, nullable=False, default=""),
    UniqueConstraint("project_id", "name"),
    UniqueConstraint("project_id", "number"),
    **_NUMBERED,
)

person = Table(
    "person",
    metadata,
    Column("id", Key, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("is_owner", Boolean, nullable=False, default=False),  # admin of every project
    Column("created_at", Float, nullable=False),
    **_NUMBERED,
)

member = Table(
    "member",
    metadata,
    *_ids("project", "person", primary_key=True),
    Column("role", String(20), nullable=False),  # admin, annotator, viewer
    Column("is_paused", Boolean, nullable=False, default=False),
    Column("joined_at", Float, nullable=False),
    Index(None, "person_id"),
)

credential = Table(
    "credential",
    metadata,
    Column("id", Key, primary_key=True),
    Column("token_hash", String(64), nullable=False, unique=True),  # SHA-256 of the token, which is not stored
    Column("kind", String(20), nullable=False),  # session (cookie), api (bearer), invitation (link)
    Column("person_id", Key, ForeignKey("person.id"), nullable=True),  # None: an invitation that asks for a name
    Column("project_id", Key, ForeignKey("project.id"), nullable=True),  # of an invitation
    Column("role", String(20), nullable=True),  # of an invitation
    Column("created_by", Key, ForeignKey("person.id"), nullable=True),  # admin who made it, or its invitation
    Column("uses_left", Integer, nullable=True),  # None: any number
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Index(None, "person_id"),
    Index(None, "project_id"),
    Index(None, "created_by"),
    **_NUMBERED,
)

document = Table(
    "document",
    metadata,
    Column("id", Key, primary_key=True),
    *_ids("project"),
    Column("name", String(400), nullable=False),  # the id that the user gave
    Column("text", Text, nullable=False),
    Column("shuffle", Integer, nullable=False),  # random, so that the first documents are not those of the first rows
    Column("n_looks", Integer, nullable=False, default=0),  # people who have judged it or hold a lease
    Column("is_gold", Boolean, nullable=False, default=False),
    UniqueConstraint("project_id", "name"),
    Index("ix_document_next", "project_id", "n_looks", "shuffle"),
    **_NUMBERED,
)

gold = Table(
    "gold",
    metadata,
    *_ids("document", "label", primary_key=True),
    *_ids("project"),
    Column("value", SmallInteger, nullable=False),  # 0 or 1
    Column("is_random", Boolean, nullable=False, default=False),  # imported, drawn at random if the settings say so
    Column("decided_by", Key, ForeignKey("person.id"), nullable=True),  # None: imported
    Column("decided_at", Float, nullable=False),
    Index(None, "project_id"),
)

lease = Table(
    "lease",
    metadata,
    *_ids("person", "document", primary_key=True),
    *_ids("project"),
    Column("purpose", String(20), nullable=False),  # gain, check, gold, overlap
    Column("label_ids", JSON, nullable=True),  # None: all classes
    Column("leased_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Index(None, "project_id", "expires_at"),
    Index(None, "document_id"),
)

answer = Table(
    "answer",
    metadata,
    # What a person did with a document last; the votes themselves are in the log.
    *_ids("person", "document", primary_key=True),
    *_ids("project"),
    Column("kind", String(20), nullable=False),  # votes, cannot_tell, skip, undone, expired (given, not answered yet)
    Column("answered_at", Float, nullable=False),
    Index(None, "document_id"),
    Index("ix_answer_history", "project_id", "person_id", "answered_at"),
)

LOOKS = ("votes", "cannot_tell")
"""Kinds of answers that count as a look at the document."""

OPEN = ("undone", "expired")
"""Kinds of answers after which a person may get the document again."""

submission = Table(
    "submission",
    metadata,
    # One acknowledged request of an annotator.
    Column("id", Key, primary_key=True),
    *_ids("project", "document", "person"),
    Column("client_id", String(64), nullable=False),
    Column("body_hash", String(64), nullable=False),  # the same client id with another body is refused
    Column("kind", String(20), nullable=False),  # votes, cannot_tell, skip, undo
    Column("purpose", String(20), nullable=False),  # of the lease, "prelabel" or "withheld", or "none" without a lease
    Column("seconds", Float, nullable=True),  # from lease to submission
    Column("submitted_at", Float, nullable=False),
    UniqueConstraint("project_id", "person_id", "client_id"),
    Index(None, "document_id"),
    Index(None, "person_id", "id"),
    **_NUMBERED,
)

vote = Table(
    "vote",
    metadata,
    # The log of votes: entries are added, never changed. The last entry per document, annotator and class counts.
    # Project, document and person are those of the submission, which has the foreign keys: 60 checks less per answer.
    Column("position", Key, primary_key=True, autoincrement=False),
    *(Column(f"{name}_id", Key, nullable=False) for name in ("project", "document", "person")),
    *_ids("label"),
    Column("value", SmallInteger, nullable=True),  # 0 or 1; None: withdrawn or not judged
    Column("given_at", Float, nullable=False),
    *_ids("submission"),
    Index(None, "project_id", "position"),
    Index(None, "document_id"),
    Index(None, "person_id"),
    Index(None, "submission_id"),
)

event = Table(
    "event",
    metadata,
    # Everything else that changes results, in the same log.
    Column("position", Key, primary_key=True, autoincrement=False),
    *_ids("project"),
    Column("kind", String(40), nullable=False),
    Column("details", JSON, nullable=False),
    Column("happened_at", Float, nullable=False),
    Index(None, "project_id", "position"),
)

import_job = Table(
    "import_job",
    metadata,
    Column("id", Key, primary_key=True),
    *_ids("project"),
    Column("state", String(20), nullable=False),  # running, finished, failed, interrupted
    Column("n_rows", Integer, nullable=False),
    Column("n_done", Integer, nullable=False, default=0),
    Column("n_new", Integer, nullable=False, default=0),
    Column("message", Text, nullable=False, default=""),
    Column("started_at", Float, nullable=False),
    Column("server", String(80), nullable=False, default=""),  # the process that runs it
    **_NUMBERED,
)

# Projects of Label Studio that are followed

labelstudio_connection = Table(
    "labelstudio_connection",
    metadata,
    *_ids("project", primary_key=True),
    Column("url", Text, nullable=False),
    Column("remote_project", Key, nullable=False),
    Column("question", Text, nullable=False),  # name of the control whose choices are the classes
    Column("settings", JSON, nullable=False),  # of ``ConnectionSettings``
    Column("secret_hash", String(64), nullable=False),  # SHA-256 of what Label Studio must send
    Column("changed", JSON, nullable=False),  # setting of the project in Label Studio -> [value before, value set]
    Column("webhook_id", Key, nullable=True),
    Column("backend_id", Key, nullable=True),
    Column("versions", JSON, nullable=False),  # of written predictions -> when a later one came; None: current
    Column("message", Text, nullable=False, default=""),
    Column("synced_at", Float, nullable=True),  # end of the last reconciliation
    UniqueConstraint("url", "remote_project", "question"),
)

labelstudio_user = Table(
    "labelstudio_user",
    metadata,
    *_ids("project", primary_key=True),
    Column("user_id", Key, primary_key=True),  # negative: the same user as an annotator of pre-labelled tasks
    Column("member_id", Key, nullable=False),  # a person; stays when the person is erased, who then stays away
)

labelstudio_task = Table(
    "labelstudio_task",
    metadata,
    *_ids("project", primary_key=True),
    Column("task_id", Key, primary_key=True),
    *_ids("document"),
    Column("updated_at", String(40), nullable=False),  # as Label Studio said it last
    Column("n_annotations", Integer, nullable=False),
    Column("n_cancelled", Integer, nullable=False),
    Column("overlap", Integer, nullable=False),
    Column("is_labeled", Boolean, nullable=False),
    Column("first_overlap", Integer, nullable=True),  # before it was changed for the first time
    Column("version", String(80), nullable=True),  # of its prediction
    Column("predicted", JSON(none_as_null=True), nullable=True),  # classes of its prediction, shown or withheld
    Index(None, "document_id"),
)

labelstudio_annotation = Table(
    "labelstudio_annotation",
    metadata,
    *_ids("project", primary_key=True),
    Column("annotation_id", Key, primary_key=True),
    *_ids("document", "person"),
    Column("updated_at", String(40), nullable=False),
    Column("kind", String(20), nullable=False),  # votes, skip, gold
    Column("submission_id", Key, ForeignKey("submission.id"), nullable=True),
    Column("predicted", JSON(none_as_null=True), nullable=True),  # classes of the task's prediction when it came
    Index(None, "document_id"),
    Index(None, "person_id"),
    Index(None, "submission_id"),
)

labelstudio_event = Table(
    "labelstudio_event",
    metadata,
    # Webhooks that were acknowledged and are not taken in yet.
    Column("id", Key, primary_key=True),
    *_ids("project"),
    Column("body", JSON, nullable=False),
    Column("received_at", Float, nullable=False),
    Index(None, "project_id"),
)

# Written by the learner

model_file = Table(
    "model_file",
    metadata,
    *_ids("project", primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("part", Integer, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

fit = Table(
    "fit",
    metadata,
    *_ids("project", primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("position", Key, nullable=False),  # last entry of the log that the fit has seen
    Column("label_ids", JSON, nullable=False),  # classes of the model, in its order
    Column("n_docs", Integer, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("finished_at", Float, nullable=False),
)

posterior = Table(
    "posterior",
    metadata,
    *_ids("project", primary_key=True),
    Column("generation", Integer, primary_key=True),
    *_ids("document", primary_key=True),
    Column("probabilities", LargeBinary, nullable=False),  # float32, little-endian, in the order of the fit's classes
    Column("expected_wrong", Float, nullable=False),
    Column("position", Key, nullable=False),  # last entry of the log that it reflects
    Index("ix_posterior_doubt", "project_id", "generation", "expected_wrong"),
    Index(None, "document_id"),
)

queue = Table(
    "queue",
    metadata,
    # Documents that ``assign`` chose for a person, best first.
    *_ids("project", "person", primary_key=True),
    Column("rank", Integer, primary_key=True),
    *_ids("document"),
    Column("purpose", String(20), nullable=False),
    Column("gain", Float, nullable=False),
    Column("label_ids", JSON, nullable=True),
    Column("position", Key, nullable=False),
    Index(None, "document_id"),
)

evidence = Table(
    "evidence",
    metadata,
    # Words that speak for or against the classes of the most doubtful documents.
    *_ids("project", "document", primary_key=True),
    Column("words", JSON, nullable=False),  # label id as text -> [[word, log odds], ...], strongest first
    Column("generation", Integer, nullable=False),
)

annotator_estimate = Table(
    "annotator_estimate",
    metadata,
    *_ids("project", "person", primary_key=True),
    Column("estimate", JSON, nullable=False),  # of ``AnnotatorEstimate``
    Column("position", Key, nullable=False),
)

progress = Table(
    "progress",
    metadata,
    # History of the project, for the curve on the dashboard; the last row is the present.
    *_ids("project", primary_key=True),
    Column("position", Key, primary_key=True),
    Column("estimate", JSON, nullable=False),  # of ``ProjectEstimate``
    Column("computed_at", Float, nullable=False),
)

learner_state = Table(
    "learner_state",
    metadata,
    *_ids("project", primary_key=True),
    Column("activity", String(20), nullable=False),  # waiting, fitting, failed
    Column("message", Text, nullable=False, default=""),
    Column("position", Key, nullable=False),
    Column("n_failures", Integer, nullable=False, default=0),
    Column("heartbeat_at", Float, nullable=False),
)
