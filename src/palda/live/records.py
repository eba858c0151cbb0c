"""Records that the service returns and accepts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from palda.live.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

Role = Literal["admin", "annotator", "viewer"]
Ask = Literal["document", "labels"]
NoTaskReason = Literal["complete", "paused", "you_are_paused", "nothing_left", "no_documents"]
Activity = Literal["waiting", "fitting", "failed"]


class ProjectSettings(BaseModel):
    """How a project assigns documents and when it stops. Changes name some of them; the others stay as they are."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    target_error: float | None = Field(
        default=0.02,
        gt=0,
        le=0.5,
        description="Share of labels that may be wrong; null: every document gets max_votes_per_doc.",
    )
    max_votes_per_doc: int = Field(default=10, ge=1, le=1000)
    fixed_votes_per_doc: int = Field(default=5, ge=1, le=1000)  # what the votes are compared with on the dashboard
    gold_share: float = Field(default=0.05, ge=0, le=0.5)  # share of assignments with known labels
    check_share: float = Field(default=0.05, ge=0, le=0.5)  # share of check votes, on random documents
    random_gold: bool = False  # imported gold documents were drawn at random
    ask: Ask = "document"
    lease_seconds: int = Field(default=900, ge=10, le=604_800)
    min_seconds: float = Field(default=1.0, ge=0, le=3600)  # a median below this per document is "much too fast"

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Settings as stored or given; unknown names of later versions are ignored."""
        try:
            return cls.model_validate({name: value for name, value in values.items() if name in cls.model_fields})
        except ValidationError as error:
            first = error.errors()[0]
            raise InvalidRequestError(f"{first['loc'][0]}: {first['msg']}") from None


@dataclass(frozen=True)
class Label:
    """A class of a project."""

    id: int
    number: int
    name: str
    description: str


@dataclass(frozen=True)
class Project:
    """A labelling project."""

    id: int
    name: str
    guidelines: str
    settings: ProjectSettings
    labels: tuple[Label, ...]
    is_paused: bool
    is_complete: bool
    created_at: float


@dataclass(frozen=True)
class Actor:
    """Who sends a request, and their role in the project that it is about."""

    person_id: int
    name: str
    is_owner: bool
    credential_id: int
    is_session: bool  # signed in by cookie, so that requests need protection against forgery
    role: Role | None = None
    is_paused: bool = False
    made_by: int | None = None  # person who made the credential, or the link that it came from


@dataclass(frozen=True)
class Task:
    """A document that an annotator should judge now."""

    document_id: int
    document: str  # the id that the user gave
    text: str
    label_ids: tuple[int, ...]  # classes to judge
    expires_at: float
    votes: dict[int, int] = field(default_factory=dict)  # own earlier votes, after undo


@dataclass(frozen=True)
class NoTask:
    """Why there is no document for an annotator now."""

    reason: NoTaskReason


@dataclass(frozen=True)
class Answer:
    """What an annotator says about a document."""

    document_id: int
    client_id: str
    kind: Literal["votes", "cannot_tell", "skip"]
    votes: dict[int, int] = field(default_factory=dict)  # class -> 0 or 1


@dataclass(frozen=True)
class Receipt:
    """Acknowledgement of an answer, given after its commit."""

    submission_id: int
    position: int  # of its last entry in the log
    is_repeat: bool  # the same request was acknowledged before


@dataclass(frozen=True)
class OwnProgress:
    """What one annotator has done."""

    n_answered: int
    n_today: int


@dataclass(frozen=True)
class Member:
    """A member of a project, with what the learner knows about an annotator."""

    person_id: int
    name: str
    role: Role
    is_owner: bool  # of the server, who cannot be paused and has no role to change
    is_paused: bool
    n_documents: int
    last_answer_at: float | None
    median_seconds: float | None
    estimate: AnnotatorEstimate | None


@dataclass(frozen=True)
class AnnotatorEstimate:
    """Quality of an annotator as the learner sees it; the interval is 95%."""

    quality: float
    quality_low: float
    quality_high: float
    sensitivity: float
    specificity: float
    n_votes: int
    verdict: str  # of the report: "reliable", "noisy", "spammer", "adversarial", "too few votes"
    alarms: tuple[str, ...] = ()  # one line each: copy of whom, drift, much too fast

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """Estimate as stored."""
        return cls(**{**stored, "alarms": tuple(stored.get("alarms", ()))})


@dataclass(frozen=True)
class ProjectEstimate:
    """What the learner expects of the consensus."""

    n_votes: int  # pairs of annotator and document
    n_judged: int  # documents with a vote
    expected_wrong: float  # labels
    upper_wrong: float  # 90% bound
    n_labels: int  # documents times classes
    expected_f1: float
    wrong_after_one_vote: float
    fixed_votes: float | None  # votes that a fixed number per document would have cost for the same quality
    n_check_votes: int
    is_met: bool
    is_provisional: bool = False  # from so few documents that the numbers are rough and may rise
    contradiction: str = ""  # how gold labels contradict the numbers; empty if they do not
    models: str = ""  # what models among the annotators are worth; empty without models


@dataclass(frozen=True)
class LearnerState:
    """What the learner does."""

    activity: Activity
    message: str
    position: int
    n_failures: int
    heartbeat_at: float


@dataclass(frozen=True)
class ProjectStatus:
    """What the dashboard shows."""

    project: Project
    n_documents: int
    n_judged: int
    n_votes: int  # pairs of annotator and document
    n_leases: int
    position: int  # last entry of the log
    estimate: ProjectEstimate | None
    estimate_position: int | None
    history: tuple[tuple[float, int, float, float, int], ...]  # time, n_votes, expected_wrong, upper_wrong, n_labels
    learner: LearnerState | None


@dataclass(frozen=True)
class DocumentVote:
    """A current vote on a document, for adjudication."""

    person: str
    label_id: int
    value: int


@dataclass(frozen=True)
class DoubtfulDocument:
    """A document for adjudication."""

    document_id: int
    document: str
    text: str
    expected_wrong: float
    probabilities: dict[int, float]  # class -> probability
    votes: tuple[DocumentVote, ...]
    words: dict[int, tuple[tuple[str, float], ...]]  # class -> words and log odds
    gold: dict[int, int]


@dataclass(frozen=True)
class ConsensusRow:
    """Consensus of one document."""

    document_id: int
    document: str
    n_looks: int
    probabilities: dict[int, float]
    expected_wrong: float | None
    position: int | None


@dataclass(frozen=True)
class ImportJob:
    """Progress of an import."""

    id: int
    state: Literal["running", "finished", "failed", "interrupted"]
    n_rows: int
    n_done: int
    n_new: int
    message: str


@dataclass(frozen=True)
class Invitation:
    """What an invitation link is for."""

    project_id: int | None
    project: str
    role: Role
    person: str | None  # None: the page asks for a name
