"""Options that several commands share, and groups of options that a command receives as one value."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from palda.cli.output import Target, output_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from palda.data import TextWords, ValueWords

_FILES, MODEL, _WORDS, RUN = "Files", "Model", "Words", "Running"
_ROLES = ("annotator", "label", "labels", "value", "probability", "confidence", "time", "kind", "family")


FileFormat: TypeAlias = Literal["auto", "table", "labelstudio", "doccano", "prodigy", "mturk", "toloka"]
AnnotatorModel: TypeAlias = Literal["auto", "two_coin", "one_coin", "per_class"]


def option(help_: str, *names: str, panel: str | None = None, **settings: Any) -> Any:
    """An option of a command; ``panel`` is its heading in the help."""
    return typer.Option(*names, help=help_, rich_help_panel=panel, **settings)


def flag(help_: str, *names: str, panel: str | None = None) -> Any:
    """An option without a value, off by default."""
    return option(help_, *names, panel=panel, show_default="off")


def _check_engine(value: str | None) -> str | None:
    from palda.engine import check_engine

    try:
        check_engine(value)
    except ValueError:
        choices = 'threads, dask, or the address of a scheduler such as "tcp://host:8786"'
        raise typer.BadParameter(f"unknown engine {value}; choose {choices}") from None
    return value


Model = Annotated[Path, typer.Argument(help="Model file written by palda fit.", show_default=False)]
Votes = Annotated[
    Path | None,
    typer.Argument(help="Votes on the documents, matched by document id.", show_default="in the document file"),
]
Gold = Annotated[
    Path | None,
    option("Known labels: a table like the votes, without annotators.", "--gold", show_default="none"),
]
Annotators = Annotated[AnnotatorModel, option("Annotator model.", panel=MODEL)]
NoCopies = Annotated[bool, flag("Do not search annotators who repeat each other's votes.", "--no-copies", panel=MODEL)]
NoDrift = Annotated[bool, flag("Do not search changes of annotators' rates over time.", "--no-drift", panel=MODEL)]
Force = Annotated[bool, flag("Overwrite existing files.", "--force")]
SpreadsheetSafe = Annotated[
    bool,
    flag("In CSV, put an apostrophe before text that a spreadsheet would run as a formula.", "--spreadsheet-safe"),
]
JsonSummary = Annotated[bool, flag("Print the summary as JSON.", "--json")]
Quiet = Annotated[bool, flag("Print only results and errors.", "--quiet", "-q", panel=RUN)]
Seed = Annotated[int, option("Random seed.", "--seed", min=0, panel=RUN)]
Jobs = Annotated[
    int | None, option("Number of threads.", "--jobs", "-j", min=1, show_default="one per core", panel=RUN)
]
Id = Annotated[str | None, option("Column of document ids.", "--id", show_default="doc, id, ...", panel=_FILES)]
Text = Annotated[str | None, option("Column of texts.", "--text", show_default="text, body, ...", panel=_FILES)]
Encoding = Annotated[str | None, option("Encoding of text files.", show_default="utf-8", panel=_FILES)]
Engine = Annotated[
    str | None,
    option(
        'Where to compute: threads, dask (local processes), or the address of a Dask scheduler ("tcp://host:8786").',
        "--engine", callback=_check_engine, show_default="threads", panel=RUN,
    ),
]  # fmt: skip


def option_groups(*, omit: tuple[str, ...] = (), **builders: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator that expands parameters of a command into the options of their builders.

    ``@option_groups(target=target_options)`` replaces the parameter ``target`` by the parameters of
    ``target_options`` and passes its result to the command. Options in ``omit`` keep their default.
    """

    def options_of(builder: Callable[..., Any]) -> dict[str, inspect.Parameter]:
        parameters = inspect.signature(builder, eval_str=True).parameters
        return {name: parameter for name, parameter in parameters.items() if name not in omit}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**values: Any) -> None:
            for name, builder in builders.items():
                values[name] = builder(**{option: values.pop(option) for option in options_of(builder)})
            command(**values)

        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
            parameters += options_of(builders[name]).values() if name in builders else [parameter]
        keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        run.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in keyword_only}
        return run

    return decorate


def writes_files(*names: str) -> Callable[..., Any]:
    """Decorator of a command whose parameters with these names are files to write, if they are given.

    They are checked and reserved before the command starts. All other paths are its inputs.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**values: Any) -> None:
            paths = {name: value for name, value in values.items() if isinstance(value, Path)}
            outputs = [paths[name] for name in names if name in paths]
            inputs = [path for name, path in paths.items() if name not in names and str(path) != "-"]
            with output_files(outputs, inputs, force=values["force"]):
                command(**values)

        return run

    return decorate


def target_options(
    output: Annotated[
        Path | None,
        option("File to write: .csv, .json, .jsonl or .parquet.", "--output", "-o", show_default="standard output"),
    ] = None,
    as_json: Annotated[bool, flag("Print JSON.", "--json")] = False,
    as_csv: Annotated[bool, flag("Print CSV.", "--csv")] = False,
    force: Force = False,
    spreadsheet_safe: SpreadsheetSafe = False,
) -> Target:
    """Where a command writes its results."""
    if as_json and as_csv:
        raise typer.BadParameter("choose one of --json and --csv")
    if spreadsheet_safe and not (as_csv if output is None else output.suffix.lower() == ".csv"):
        raise typer.BadParameter("--spreadsheet-safe is for CSV; add --csv or -o FILE.csv")
    if output is not None:
        return Target.file(output, force=force, spreadsheet_safe=spreadsheet_safe)
    return Target(None, "json" if as_json else "csv" if as_csv else "text", force, spreadsheet_safe)


@dataclass(frozen=True)
class WordOptions:
    """How documents become word counts; the defaults are those of the command line."""

    language: str | None = "english"
    min_count: int = 2
    ngrams: int = 1
    bins: int = 5

    def text_words(self) -> TextWords:
        """Transformer for texts."""
        from palda.data import TextWords

        return TextWords(self.language, min_count=self.min_count, ngrams=(1, self.ngrams))

    def value_words(self, seed: int = 0) -> ValueWords:
        """Transformer for numbers."""
        from palda.data import ValueWords

        return ValueWords(self.bins, random_state=seed)


@dataclass(frozen=True)
class FeatureFiles:
    """File with features of the documents, and file with the ids of its rows."""

    path: Path | None = None
    ids: Path | None = None

    def require_documents(self, documents: Path | None) -> None:
        """Raise if there are features but no new documents that they belong to."""
        if self.path is not None and documents is None:
            raise typer.BadParameter("--features are those of new documents; give the documents too")


def feature_options(
    features: Annotated[
        Path | None,
        option(
            "Features of the documents, such as embeddings: .npy, Parquet, Arrow, CSV or JSON lines.", "--features",
            show_default="none", panel=_FILES,
        ),
    ] = None,
    feature_ids: Annotated[
        Path | None,
        option(
            "Ids of the rows of an .npy file: one per line, or a column of a table.", "--feature-ids",
            show_default="rows are in the order of the documents", panel=_FILES,
        ),
    ] = None,
) -> FeatureFiles:  # fmt: skip
    """Features beside the words."""
    if feature_ids is not None and features is None:
        raise typer.BadParameter("--feature-ids needs --features")
    return FeatureFiles(features, feature_ids)


def word_options(
    language: Annotated[
        str, option("Language of stemmer and stop words; none disables both.", panel=_WORDS)
    ] = "english",
    min_count: Annotated[int, option("Minimum number of occurrences of a word.", min=1, panel=_WORDS)] = 2,
    ngrams: Annotated[int, option("Maximum number of words in an n-gram.", min=1, max=5, panel=_WORDS)] = 1,
    bins: Annotated[int, option("Bins per feature if documents are numbers.", min=2, panel=_WORDS)] = 5,
) -> WordOptions:
    """How documents become word counts."""
    return WordOptions(None if language == "none" else language, min_count, ngrams, bins)


def read_options(
    format_: Annotated[
        FileFormat, option("Program that wrote the vote file; auto detects it.", "--format", panel=_FILES)
    ] = "auto",
    id_: Id = None,
    text: Text = None,
    question: Annotated[
        str | None,
        option("Question of an export that holds the labels.", show_default="the only one", panel=_FILES),
    ] = None,
    classes: Annotated[
        str | None,
        option(
            "Classes in the desired order, separated by commas; any other class is an error.",
            show_default="all that occur, sorted", panel=_FILES,
        ),
    ] = None,
    layout: Annotated[
        Literal["auto", "long", "wide", "lists"],
        option("Layout of the vote table; auto detects it from the header.", panel=_FILES),
    ] = "auto",
    partial: Annotated[
        bool, flag("Treat unlisted classes as not judged (default: absent).", "--partial", panel=_FILES)
    ] = False,
    blank: Annotated[
        Literal["abstained", "none", "missing"] | None,
        option("Meaning of a blank answer.", show_default="depends on the format", panel=_FILES),
    ] = None,
    present_at: Annotated[
        float | None,
        option(
            "Cells are scores; a class is present if its score is at least this value.",
            show_default="cells are 1 or 0", panel=_FILES,
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        option(
            f"Column for a role of the votes, such as annotator=worker; roles: {', '.join(_ROLES)}.",
            metavar="ROLE=NAME", show_default="the usual names", panel=_FILES,
        ),
    ] = None,
    ignore: Annotated[
        str | None,
        option("Columns of the vote table to ignore, separated by commas.", show_default="none", panel=_FILES),
    ] = None,
    duplicates: Annotated[
        Literal["error", "last", "first", "drop"],
        option("Which of several contradictory votes of an annotator to keep; error refuses them.", panel=_FILES),
    ] = "error",
    encoding: Encoding = None,
    label_config: Annotated[
        Path | None,
        option(
            "Label Studio: label config (XML, or the JSON of the project), which names all classes.",
            "--label-config", show_default="none", panel=_FILES,
        ),
    ] = None,
    ground_truth: Annotated[
        Literal["auto", "gold", "votes"],
        option("Label Studio: what annotations marked as ground truth are.", "--ground-truth", panel=_FILES),
    ] = "auto",
    predictions: Annotated[
        Literal["ignore", "votes"], option("Label Studio: whether predictions are votes of their models.", panel=_FILES)
    ] = "ignore",
    prelabelled: Annotated[
        Literal["keep", "drop", "separate"] | None,
        option(
            "Label Studio: what to do with annotations that started from a prediction.",
            show_default="keep, with a warning", panel=_FILES,
        ),
    ] = None,
) -> dict[str, Any]:  # fmt: skip
    """How files are read: the options of ``palda.read``."""
    roles = tuple((role.strip(), name) for role, _, name in (pair.partition("=") for pair in column or []))
    for role, name in roles:
        if role not in _ROLES or not name:
            raise typer.BadParameter(f"write --column ROLE=NAME, such as annotator=worker, not {role!r}={name!r}")
    return {
        "format": format_, "id": id_, "text": text, "question": question, "classes": _names(classes) or None,
        "layout": layout, "partial": partial, "blank": blank,
        "present_at": present_at, "columns": roles, "ignore": _names(ignore), "duplicates": duplicates,
        "encoding": encoding, "label_config": label_config, "ground_truth": ground_truth,
        "predictions": predictions, "prelabelled": prelabelled,
    }  # fmt: skip


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())
