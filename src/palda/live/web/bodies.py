"""Bodies of requests and answers that are not records of the service."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from palda.live.records import Label, ProjectSettings, Role

_MAX_ID = 2**63 - 1
_ID = re.compile(r"[0-9]{1,19}")


def _decimal(value: object) -> object:
    """Ids in paths and keys are decimal digits alone: pydantic takes "1.0", " 1" and "1_0" too."""
    return int(value) if isinstance(value, str) and _ID.fullmatch(value) else value if type(value) is int else None


def _binary(value: object) -> object:
    return value if type(value) is int else None  # True and 1.0 are equal to 1


_Id = Annotated[int, BeforeValidator(_decimal), Field(ge=1, le=_MAX_ID)]
ProjectId = Annotated[int, BeforeValidator(_decimal), Path(ge=1, le=_MAX_ID, description="Id of the project.")]
DocumentId = Annotated[int, BeforeValidator(_decimal), Path(ge=1, le=_MAX_ID, description="Id of the document.")]
PersonId = Annotated[int, BeforeValidator(_decimal), Path(ge=1, le=_MAX_ID, description="Id of the person.")]
ImportId = Annotated[int, BeforeValidator(_decimal), Path(ge=1, le=_MAX_ID, description="Id of the import.")]
After = Annotated[
    int, BeforeValidator(_decimal), Query(ge=0, le=_MAX_ID, description="Id of the last row of the page before.")
]
Limit = Annotated[int, BeforeValidator(_decimal), Query(ge=1, le=1000, description="Maximum number of rows.")]

Name = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        pattern=r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*[^\u0000-\u0020\u007f-\u00a0\u2028\u2029]$",
    ),
]
Text = Annotated[str, Field(max_length=100_000, pattern=r"^[^\u0000]*$")]
ClientId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9._:-]+$",
        description="Chosen by the client, new for each request: sending the same request again changes nothing.",
        examples=["7f0c2c1e-3b0a-4f0e-9d55-0d5f1f6c9a10"],
    ),
]
_Value = Annotated[int, BeforeValidator(_binary), Field(ge=0, le=1)]
LabelValues = Annotated[
    dict[_Id, _Value],
    Field(
        max_length=2000,
        description="Id of a class -> 1 if the document belongs to it, otherwise 0.",
        json_schema_extra={"propertyNames": {"pattern": "^[1-9][0-9]{0,17}$"}},
        examples=[{"1": 1, "2": 0}],
    ),
]


class Body(BaseModel):
    """Body of a request: exact types, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class NewLabel(Body):
    """A class to add."""

    name: Name
    description: Text = ""


class NewProject(Body):
    """A project to create."""

    name: Name
    labels: list[Name | NewLabel] = Field(min_length=1, max_length=1000, examples=[["crime", "sport", "money"]])
    guidelines: Text = ""
    settings: ProjectSettings | None = None


class ProjectChange(Body):
    """Changes of a project; what is left out stays as it is."""

    name: Name | None = None
    guidelines: Text | None = None
    settings: ProjectSettings | None = None
    is_paused: bool | None = None


class LabelSet(Body):
    """Known labels of a document; classes that are left out are unknown."""

    labels: LabelValues


class NewInvitation(Body):
    """An invitation link to create."""

    role: Role = "annotator"
    name: Name | None = Field(None, description="Name of the person; null: the page asks for it.")
    uses: int | None = Field(None, ge=1, le=100_000, description="How many people may use the link; null: any number.")
    days: int = Field(14, ge=1, le=3650)


class NewToken(Body):
    """A token of the API to create."""

    days: int = Field(365, ge=1, le=3650)


class PersonChange(Body):
    """Changes of a member; what is left out stays as it is."""

    is_paused: bool | None = None
    role: Role | None = None
    name: Name | None = None


class NewAnswer(Body):
    """What an annotator says about a document."""

    document_id: int = Field(ge=1, le=_MAX_ID)
    client_id: ClientId
    kind: Literal["votes", "cannot_tell", "skip"] = "votes"
    votes: LabelValues = Field(default_factory=dict)


class Undo(Body):
    """Take back the last answer."""

    client_id: ClientId


@dataclass(frozen=True)
class Problem:
    """Why a request was refused."""

    detail: str


@dataclass(frozen=True)
class Health:
    """The server answers and its store can be read."""

    status: Literal["ok"]
    version: str


@dataclass(frozen=True)
class Session:
    """Who is signed in."""

    person_id: int
    name: str
    is_owner: bool
    form_key: str | None  # for the header X-Palda-Form-Key, if the cookie signs the request


@dataclass(frozen=True)
class ProjectSummary:
    """A project in a list."""

    id: int
    name: str
    is_paused: bool
    is_complete: bool


@dataclass(frozen=True)
class AnnotatorProject:
    """What annotators see of a project."""

    id: int
    name: str
    guidelines: str
    labels: tuple[Label, ...]


@dataclass(frozen=True)
class InvitationLink:
    """A new invitation; its token is shown once."""

    token: str
    path: str  # of the link: /join/TOKEN


@dataclass(frozen=True)
class PersonName:
    """Name of a person after a change."""

    name: str


@dataclass(frozen=True)
class ApiToken:
    """A new token for the header Authorization; it is shown once."""

    token: str
