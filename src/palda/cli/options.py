"""Options that several commands share, each described once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Algorithm",
    "AnnotatorKind",
    "AsCsv",
    "AsJson",
    "Blank",
    "BlankMeans",
    "CheckpointMinutes",
    "Classes",
    "Columns",
    "DuplicateRule",
    "Duplicates",
    "Encoding",
    "FileFormat",
    "Force",
    "Format",
    "Id",
    "Ignore",
    "Jobs",
    "LabelPriorChoice",
    "Layout",
    "Model",
    "Output",
    "Partial",
    "PresentAt",
    "Question",
    "Quiet",
    "Resume",
    "Seed",
    "Text",
    "VoteLayout",
]

_FILES = "Files"
_RUN = "Running"


class FileFormat(StrEnum):
    """Formats of files that hold votes."""

    AUTO = "auto"
    TABLE = "table"
    LABELSTUDIO = "labelstudio"
    DOCCANO = "doccano"
    PRODIGY = "prodigy"
    MTURK = "mturk"
    TOLOKA = "toloka"


class VoteLayout(StrEnum):
    """Layouts of tables of votes."""

    AUTO = "auto"
    LONG = "long"
    WIDE = "wide"
    LISTS = "lists"


class DuplicateRule(StrEnum):
    """What counts when somebody contradicts themselves."""

    ERROR = "error"
    LAST = "last"
    FIRST = "first"
    DROP = "drop"


class BlankMeans(StrEnum):
    """What a blank answer says."""

    ABSTAINED = "abstained"
    NONE = "none"
    MISSING = "missing"


class AnnotatorKind(StrEnum):
    """Models of annotators."""

    TWO_COIN = "two_coin"
    ONE_COIN = "one_coin"
    PER_CLASS = "per_class"


class Algorithm(StrEnum):
    """How topics are fitted."""

    BATCH = "batch"
    ONLINE = "online"


class LabelPriorChoice(StrEnum):
    """Label priors."""

    STACKED = "stacked"
    WORDS = "words"
    TOPICS = "topics"
    BASE_RATE = "base_rate"


Model = Annotated[Path, typer.Argument(help="Model file that palda fit wrote.", show_default=False)]

Format = Annotated[
    FileFormat, typer.Option("--format", help="What wrote the file of votes; auto looks at it.", rich_help_panel=_FILES)
]
Id = Annotated[
    str | None,
    typer.Option("--id", help="Column of document ids.", show_default="doc, id, ...", rich_help_panel=_FILES),
]
Text = Annotated[
    str | None,
    typer.Option("--text", help="Column of texts.", show_default="text, body, ...", rich_help_panel=_FILES),
]
Question = Annotated[
    str | None,
    typer.Option(
        "--question",
        help="Which question of an export holds the labels.",
        show_default="the only one",
        rich_help_panel=_FILES,
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        help="Classes in the order wanted, separated by commas; any other is an error.",
        show_default="those that occur, sorted",
        rich_help_panel=_FILES,
    ),
]
Layout = Annotated[
    VoteLayout,
    typer.Option("--layout", help="Layout of a table of votes; auto looks at the header.", rich_help_panel=_FILES),
]
Partial = Annotated[
    bool,
    typer.Option(
        "--partial",
        help="A class that a list does not name was not judged, rather than absent.",
        show_default="off",
        rich_help_panel=_FILES,
    ),
]
Blank = Annotated[
    BlankMeans | None,
    typer.Option(
        "--blank", help="What a blank answer means.", show_default="depends on the format", rich_help_panel=_FILES
    ),
]
PresentAt = Annotated[
    float | None,
    typer.Option(
        "--present-at",
        help="Cells are scores, and a score from here up means present.",
        show_default="cells are 1 and 0",
        rich_help_panel=_FILES,
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="ROLE=NAME",
        help="Column of votes with another name, such as annotator=who; roles: annotator, label, labels, value, time.",
        show_default="the usual names",
        rich_help_panel=_FILES,
    ),
]
Ignore = Annotated[
    str | None,
    typer.Option(
        "--ignore",
        help="Columns of votes to leave out, separated by commas.",
        show_default="none",
        rich_help_panel=_FILES,
    ),
]
Duplicates = Annotated[
    DuplicateRule,
    typer.Option(
        "--duplicates",
        help="What counts when one annotator contradicts themselves.",
        rich_help_panel=_FILES,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", help="Encoding of text files.", show_default="utf-8", rich_help_panel=_FILES),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.", show_default="off")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV for machines.", show_default="off")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Write to a file instead: .csv, .json, .jsonl or .parquet.",
        show_default="standard output",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.", show_default="off")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="No progress and no notes, only results and errors.",
        show_default="off",
        rich_help_panel=_RUN,
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Everything drawn follows from it.", rich_help_panel=_RUN)]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="Threads.", show_default="one a core", rich_help_panel=_RUN),
]


def _known_engine(value: str | None) -> str | None:
    from palda.engine import check_engine

    try:
        check_engine(value)
    except ValueError:
        choices = 'threads, dask, or the address of a scheduler, "tcp://host:8786"'
        raise typer.BadParameter(f"{value} is not known; say {choices}") from None
    return value


Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help='Where documents are worked on: threads, dask (processes here), or a Dask scheduler, "tcp://host:8786".',
        callback=_known_engine,
        show_default="threads",
        rich_help_panel=_RUN,
    ),
]
CheckpointMinutes = Annotated[
    float,
    typer.Option(
        "--checkpoint-minutes",
        min=0,
        help="How often a long fit writes down how far it is; 0 for never.",
        rich_help_panel=_RUN,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on from the checkpoint of a fit that was stopped.",
        show_default="off",
        rich_help_panel=_RUN,
    ),
]
