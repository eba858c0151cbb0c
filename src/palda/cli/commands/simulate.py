"""``palda simulate``: simulated documents and votes with their true labels, as files."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from palda.cli import options as opt
from palda.cli.console import Messages, program_name
from palda.cli.output import Target, output_files, write_records
from palda.errors import PaldaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.simulate import SimulatedAnnotators, SimulatedDocuments

FILES = ("documents.csv", "votes.csv", "truth.csv", "annotators_truth.csv")

Folder = Annotated[Path, typer.Argument(help="Folder to write; created if it does not exist.")]


def simulate(
    folder: Folder = Path("palda-simulated"),
    documents: Annotated[int, typer.Option("--documents", "-d", min=1, help="Number of documents.")] = 1000,
    crowd: Annotated[
        Literal["paper", "adversarial"], typer.Option(help="50 annotators; ten of the adversarial crowd are malicious.")
    ] = "paper",
    behaviour: Annotated[
        Literal["one_coin", "two_coin", "per_class"], typer.Option(help="Error model of the annotators.")
    ] = "one_coin",
    spammers: Annotated[int, typer.Option(min=0, help="Additional annotators who answer at random.")] = 0,
    votes_per_doc: Annotated[int, typer.Option(min=1, help="Annotators per document.")] = 5,
    force: opt.Force = False,
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
) -> None:
    """Write simulated news with votes: documents.csv, votes.csv, and the true labels and annotator qualities."""
    from palda import simulate as simulation

    with files_in_folder(folder, FILES, force=force):
        news = simulation.newsroom(documents, seed=seed)
        votes, annotators = simulation.crowd(
            news, crowd, seed=seed, behaviour=behaviour, n_spammers=spammers, votes_per_doc=votes_per_doc
        )
        paths = write_simulation(folder, news, votes, annotators)
    messages, palda = Messages(quiet=quiet), program_name()
    messages.write(f"wrote {', '.join(map(str, paths))}")
    messages.write(f"next: {palda} fit {paths[0]} {paths[1]}, then {palda} evaluate model.palda {paths[2]}")


@contextmanager
def files_in_folder(folder: Path, names: tuple[str, ...], *, force: bool) -> Iterator[None]:
    """Create the folder, and reserve files in it until the end of the block."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PaldaError(f"{folder} cannot be created: {error.strerror or error}") from None
    with output_files([folder / name for name in names], force=force):
        yield


def write_simulation(
    folder: Path, news: SimulatedDocuments, votes: Votes, annotators: SimulatedAnnotators
) -> list[Path]:
    """Write documents, votes, true labels and true annotator qualities; returns the paths in the order of ``FILES``."""
    labels = zip(news.doc_ids.tolist(), news.labels.tolist(), strict=True)
    columns = (
        votes.doc_ids[votes.doc], votes.annotators[votes.annotator], votes.classes[votes.label], votes.value,
    )  # fmt: skip
    tables = [
        _records(("doc", "text"), news.doc_ids, news.documents.texts),
        _records(("doc", "annotator", "label", "value"), *columns),
        [{"doc": doc, **dict(zip(news.classes.tolist(), row, strict=True))} for doc, row in labels],
        _records(("annotator", "quality"), annotators.names, annotators.quality),
    ]
    paths = [folder / name for name in FILES]
    for path, table in zip(paths, tables, strict=True):
        write_records([table], Target.file(path, force=True))
    return paths


def _records(names: tuple[str, ...], *columns: NDArray[Any]) -> list[dict[str, Any]]:
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]
