"""``palda plan``: votes that labelling policies need for a target, by simulation, before labelling starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from palda.cli import options as opt
from palda.cli.console import Messages, progress_bar
from palda.cli.inputs import load_crowd, read_files
from palda.cli.output import Target, new_file, write_table
from palda.errors import PaldaError

if TYPE_CHECKING:
    from palda.estimators import CrowdPALDA
    from palda.planning import LabellingProject, Need, Policy
    from palda.report import TableView

_KINDS = {".png": "png", ".svg": "svg"}
_BUDGETS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0)  # votes per document
_QUICK_BUDGETS = (1.0, 2.0, 3.0, 5.0, 10.0)
MAX_DOCS, QUICK_DOCS = 1000, 300  # documents that are simulated; costs are scaled
_STEP, _QUICK_STEP = 0.05, 0.2


@opt.writes_files("output")
def plan(
    output: Annotated[Path, opt.option("Picture to write: .png or .svg.", "--output", "-o")] = Path("plan.png"),
    documents: Annotated[
        int | None, opt.option("Number of documents.", "--documents", "-d", min=10, show_default="1000, or the pilot's")
    ] = None,
    classes: Annotated[int, opt.option("Number of classes.", min=2)] = 10,
    labels_per_doc: Annotated[float, opt.option("Mean number of classes that a document has.", min=0.01)] = 1.5,
    annotators: Annotated[int, opt.option("Number of annotators.", min=2)] = 20,
    quality: Annotated[
        str,
        opt.option(
            "Share of correct judgements: a number, a range such as 0.6-0.95, or one number per annotator, separated "
            "by commas."
        ),
    ] = "0.65-0.95",
    model: Annotated[
        Path | None,
        opt.option("Model of a pilot: its documents, classes and annotators are used.", show_default="none"),
    ] = None,
    pilot: Annotated[
        Path | None, opt.option("Documents of a pilot, to which a model is fitted first.", show_default="none")
    ] = None,
    votes: Annotated[Path | None, opt.option("Votes of the pilot.", show_default="in the document file")] = None,
    target_error: Annotated[float, opt.option("Share of labels that may be wrong.", min=0.0001, max=0.5)] = 0.02,
    price: Annotated[float, opt.option("Price of one annotator's judgement of one document.", min=0.0)] = 1.0,
    max_votes: Annotated[
        float, opt.option("Largest number of votes per document that is simulated.", min=2, max=10)
    ] = 7.0,
    runs: Annotated[int, opt.option("Number of simulated projects.", min=1)] = 2,
    quick: Annotated[bool, opt.flag("A rough plan: fewer documents and budgets, one run.", "--quick")] = False,
    as_json: Annotated[bool, opt.flag("Print JSON.", "--json")] = False,
    force: opt.Force = False,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
    quiet: opt.Quiet = False,
) -> None:
    """Show how many votes labelling policies need for a target, before labelling starts."""
    kind = _KINDS.get(output.suffix.lower())
    if kind is None:
        raise PaldaError(f"{output}: pictures are written to .png or .svg; choose such a name")
    from palda.planning import (
        Assignment,
        FixedOverlap,
        LabelUncertainty,
        RandomDocuments,
        Schedule,
        compare_policies,
        draw_plan,
        needs,
        save_picture,
    )

    messages = Messages(quiet=quiet)
    n_simulated = QUICK_DOCS if quick else MAX_DOCS
    seeds = range(seed, seed + (1 if quick else runs))
    found = _pilot(model, pilot, votes, seed, jobs, messages)
    if found is None:
        n_docs = 1000 if documents is None else documents
        qualities = parse_quality(quality, annotators)
        projects = [_assumed(min(n_docs, n_simulated), classes, qualities, labels_per_doc, s) for s in seeds]
    else:
        n_docs = len(found[0].doc_ids_) if documents is None else documents
        projects = [_from_pilot(*found, n_simulated, s) for s in seeds]
    most = min(max_votes, len(projects[0].annotators))
    budgets = [b for b in (_QUICK_BUDGETS if quick else _BUDGETS) if b < most] + [most]
    schedule = Schedule(tuple(budgets), _QUICK_STEP if quick else _STEP)
    policies: list[Policy] = [FixedOverlap(), RandomDocuments(), LabelUncertainty(), Assignment()]
    with progress_bar("% simulated", quiet=quiet) as bar:
        curves = compare_policies(
            projects, policies, schedule, n_jobs=jobs, progressed=lambda done: bar.update(done, round(100 * done))
        )
    size = projects[0].labels.shape
    title = f"{n_docs:,} documents, {size[1]} classes, {len(projects[0].annotators)} annotators"
    with new_file(output, force=force) as unfinished:
        save_picture(draw_plan(curves, target_error, title), unfinished, kind)
    view = _table(needs(curves, target_error, n_docs, price), target_error, most, size[0], n_docs, len(projects))
    write_table(view, Target(None, "json" if as_json else "text"))
    messages.write(f"wrote {output}")


def parse_quality(text: str, n_annotators: int) -> list[float]:
    """Qualities of the annotators from a number, a range, or a list."""
    parts = text.split(",")
    try:
        if len(parts) > 1:
            values = [float(part) for part in parts]
        else:
            low, _, high = text.partition("-")
            first, last = float(low), float(high or low)
            values = [first + (last - first) * k / max(n_annotators - 1, 1) for k in range(n_annotators)]
    except ValueError:
        raise typer.BadParameter(
            f"--quality {text!r} is neither a number, a range such as 0.6-0.95, nor a list"
        ) from None
    if not all(0 < value < 1 for value in values):
        raise typer.BadParameter(f"--quality {text}: qualities lie between 0 and 1")
    if len(parts) > 1 and len(values) < 2:
        raise typer.BadParameter("--quality needs at least two annotators")
    return values


def _assumed(n_docs: int, classes: int, quality: list[float], labels_per_doc: float, seed: int) -> LabellingProject:
    from palda.planning import assumed_project

    return assumed_project(n_docs, classes, quality, labels_per_doc=labels_per_doc, seed=seed)


def _from_pilot(model: CrowdPALDA, counts: Any, max_docs: int, seed: int) -> LabellingProject:
    from palda.planning import pilot_project

    return pilot_project(model, counts, max_docs=max_docs, seed=seed)


def _pilot(
    model: Path | None, documents: Path | None, votes: Path | None, seed: int, jobs: int | None, messages: Messages
) -> tuple[CrowdPALDA, Any] | None:
    """The model of a pilot and the word counts of its documents; None without a pilot."""
    if model is not None and documents is not None:
        raise typer.BadParameter("give --model or --pilot, not both")
    if votes is not None and documents is None:
        raise typer.BadParameter("--votes are those of a pilot: give --pilot as well")
    if model is not None:
        return _stored_pilot(model)
    if documents is None:
        return None
    from palda.data import Documents, TextWords, ValueWords
    from palda.estimators import CrowdPALDA

    dataset = read_files(documents, votes, {"encoding": None})
    source = dataset.corpus
    words: Any = TextWords(min_count=2) if isinstance(source, Documents) else ValueWords(random_state=seed)
    counts = words.fit_transform(source)
    messages.write(f"fitting a model to the pilot of {len(dataset.doc_ids):,} documents")
    with messages.show_warnings():
        fitted = CrowdPALDA(5, label_prior="words", random_state=seed, n_jobs=jobs).fit(
            counts, dataset.votes, doc_ids=dataset.doc_ids
        )
    return fitted, counts


def _stored_pilot(path: Path) -> tuple[CrowdPALDA, Any]:
    fitted = load_crowd(path)
    if fitted.words_ is None or fitted.texts_ is None:
        raise PaldaError(f"{path}: the model was saved without texts; plan with --pilot and --votes instead")
    return fitted, fitted.words_.transform(fitted.texts_)


def _table(
    rows: list[Need], target_error: float, max_votes: float, n_simulated: int, n_docs: int, n_runs: int
) -> TableView:
    from palda.report import TableView

    columns = {"policy": "", "votes_per_doc": ".2f", "n_votes": ",.0f", "cost": ",.2f", "saved": ".0%"}
    size = f"{n_simulated:,} documents, {n_runs} {'run' if n_runs == 1 else 'runs'}"
    missed = f"not reached with {max_votes:g} votes per document"
    notes = [f"simulated: {size}; a dash: {missed}; saved: share of the votes of fixed overlap"]
    if n_simulated < n_docs:
        notes.append(f"numbers of votes and costs are scaled to {n_docs:,} documents")
    records = [row._asdict() for row in rows]
    return TableView(columns, records, f"votes needed for {target_error:.3g} of the labels wrong", tuple(notes))
