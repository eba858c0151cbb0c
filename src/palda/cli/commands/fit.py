"""``palda fit``: from documents and votes to a model file, a summary and a report."""

from __future__ import annotations

import shlex
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from palda.cli import options as opt
from palda.cli.console import Messages, Terminated, program_name, standard_output, write_lines
from palda.cli.features import training_features
from palda.cli.inputs import read_files
from palda.cli.output import json_text
from palda.errors import PaldaError, PaldaWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palda.data import CountRows, Dataset, FeatureTable, Strings, TextWords, ValueWords, Votes
    from palda.estimators import Checkpoint, CrowdPALDA
    from palda.io import ShardFolder
    from palda.report import FitSummary

_MAX_KEPT_DOCS, _MAX_KEPT_VOTES = 200_000, 20_000_000  # in a model file, from a folder of shards


@opt.writes_files("output", "report")
@opt.option_groups(words=opt.word_options, reading=opt.read_options, features=opt.feature_options)
def fit(
    documents: Annotated[
        Path,
        typer.Argument(
            help="Documents, one file with documents and votes, or a folder of palda shard; - for standard input.",
            show_default=False,
        ),
    ],
    votes: opt.Votes = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")] = Path("model.palda"),
    gold: opt.Gold = None,
    no_gold: Annotated[bool, opt.flag("Ignore gold columns in the document file.", "--no-gold")] = False,
    report: Annotated[Path | None, opt.option("HTML report to write as well.", show_default="not written")] = None,
    no_texts: Annotated[
        bool, opt.flag("Do not store the texts in the model file; reports show only ids.", "--no-texts")
    ] = False,
    force: opt.Force = False,
    as_json: opt.JsonSummary = False,
    topics: Annotated[int | None, opt.option("Number of topics.", min=1, show_default="auto", panel=opt.MODEL)] = None,
    annotators: opt.Annotators = "auto",
    no_copies: opt.NoCopies = False,
    no_drift: opt.NoDrift = False,
    label_prior: Annotated[
        Literal["stacked", "words", "topics", "base_rate"],
        opt.option("How label probabilities depend on the words.", panel=opt.MODEL),
    ] = "stacked",
    algorithm: Annotated[
        Literal["batch", "online"],
        opt.option("EM of the topics: batch, or online with many updates per iteration.", panel=opt.MODEL),
    ] = "batch",
    max_iter: Annotated[int, opt.option("Maximum number of EM iterations.", min=1, panel=opt.MODEL)] = 200,
    *,
    words: opt.WordOptions,
    reading: dict[str, Any],
    features: opt.FeatureFiles,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
    engine: opt.Engine = None,
    checkpoint_minutes: Annotated[
        float, opt.option("Minutes between checkpoints of a long fit; 0 writes none.", min=0, panel=opt.RUN)
    ] = 10.0,
    resume: Annotated[
        bool, opt.flag("Resume an interrupted fit from its checkpoint.", "--resume", panel=opt.RUN)
    ] = False,
    quiet: opt.Quiet = False,
) -> None:
    """Fit labels, annotator quality, topics and a classifier to documents and votes."""
    if resume and not checkpoint_minutes:
        raise typer.BadParameter("--resume needs checkpoints; --checkpoint-minutes 0 disables them")
    from palda.estimators import CrowdPALDA
    from palda.io import ShardFolder, is_shards
    from palda.report import fit_summary, write_report

    messages = Messages(quiet=quiet)
    checkpoint = _find_checkpoint(output, checkpoint_minutes, resume=resume, force=force)
    model = CrowdPALDA(
        topics or "auto", annotators=annotators, copies=not no_copies, drift=not no_drift, label_prior=label_prior,
        algorithm=algorithm, max_iter=max_iter, n_jobs=jobs, engine=engine, random_state=seed, verbose=int(not quiet),
    )  # fmt: skip
    with messages.show_warnings():
        source: ShardFolder | Dataset
        if is_shards(documents):
            source = _open_folder(documents, votes, reading, words)
        else:
            source = read_files(documents, votes, reading, gold, ignore_gold_columns=no_gold)
        table = training_features(features, source, reading, label_prior)
        messages.write(f"fitting {len(source):,} documents with {len(source.votes):,} votes")
        with _checkpointed(checkpoint, resume=resume) as used:
            if isinstance(source, ShardFolder):
                stored = _fit_folder(model, source, table, gold, used)
            else:
                stored = _fit_dataset(model, source, table, words, seed, used)
            if no_texts:
                stored = stored._replace(texts=None)
            model.save(output, words=stored.words, texts=stored.texts, votes=stored.votes)
        if not model.interrupted_:
            checkpoint.remove()
        elif checkpoint.exists:
            messages.write("the model is the best so far; to resume, repeat the command with --resume --force")
    if report is not None:
        given: dict[str, Any] = {} if stored.features is None else {"features": stored.features}
        write_report(
            model, report, texts=stored.texts, votes=stored.votes, words=getattr(stored.words, "spellings_", None),
            X=None if stored.texts is None else stored.counts[:], title=report_title(output), force=force,
            **given,
        )  # fmt: skip
    _print_summary(fit_summary(model, source), output, report, as_json=as_json)


def report_title(model: Path) -> str:
    """Default heading of the report on a model file."""
    return f"palda report: {model.name.removesuffix('.palda')}"


class _StoredData(NamedTuple):
    """What later commands need besides the model: transformer, texts, votes, counts, features; None if too large."""

    words: TextWords | ValueWords | None
    texts: Strings | None
    votes: Votes | None
    counts: CountRows
    features: FeatureTable | None


def _fit_dataset(
    model: CrowdPALDA,
    dataset: Dataset,
    features: FeatureTable | None,
    options: opt.WordOptions,
    seed: int,
    checkpoint: Checkpoint | None,
) -> _StoredData:
    from palda.data import Corpus, Documents

    items: Any = dataset.corpus
    words = options.text_words() if isinstance(items, Documents) else options.value_words(seed)
    counts = words.fit_transform(items)
    corpus = Corpus.from_counts(counts, words.get_feature_names_out(), dataset.doc_ids)
    gold = dataset.gold if (dataset.gold >= 0).any() else None
    model.fit(corpus, dataset.votes, gold=gold, features=features, checkpoint=checkpoint)
    texts = items.texts if isinstance(items, Documents) else None
    return _StoredData(words, texts, dataset.votes, counts, features)


def _open_folder(path: Path, votes: Path | None, reading: dict[str, Any], words: opt.WordOptions) -> ShardFolder:
    """The folder of shards, with all checksums verified; options that it has already settled are refused."""
    from palda.io import ReadOptions, open_shards

    if votes is not None:
        raise PaldaError(f"{path} is a folder of shards and contains its votes; leave out {votes}, or shard it again")
    if words != opt.WordOptions() or ReadOptions(**reading) != ReadOptions():
        raise PaldaError(f"{path} is a folder of shards; pass options for files and words to palda shard")
    folder = open_shards(path)
    folder.verify()
    return folder


def _fit_folder(
    model: CrowdPALDA,
    folder: ShardFolder,
    features: FeatureTable | None,
    gold: Path | None,
    checkpoint: Checkpoint | None,
) -> _StoredData:
    import numpy as np

    from palda.io import read_gold

    known = None
    if gold is not None:
        given = read_gold(gold, folder.doc_ids, folder.classes)
        known = np.where(given >= 0, given, folder.gold)
    model.fit(folder, gold=known, features=features, checkpoint=checkpoint)
    if features is None and model.feature_names_ is not None:
        features = folder.features
    if len(folder) > _MAX_KEPT_DOCS or len(folder.votes) > _MAX_KEPT_VOTES:
        warnings.warn("too many texts and votes for a model file; they stay in the folder", PaldaWarning, stacklevel=2)
        return _StoredData(folder.words, None, None, folder.counts, features)
    votes = folder.votes.take(slice(None), named=True)
    return _StoredData(folder.words, folder.texts(), votes, folder.counts, features)


def _find_checkpoint(output: Path, minutes: float, *, resume: bool, force: bool) -> Checkpoint:
    """The checkpoint beside the model file; raises ``PaldaError`` if it is missing or unexpected."""
    from palda.estimators import Checkpoint
    from palda.io import sibling

    checkpoint = Checkpoint(sibling(output, ".checkpoint"), minutes)
    if resume and not checkpoint.exists:
        raise PaldaError(f"{checkpoint.folder}: there is no checkpoint to resume from; leave out --resume")
    if checkpoint.exists and not resume and not force:
        raise PaldaError(
            f"{checkpoint.folder} is the checkpoint of an interrupted fit; "
            "pass --resume to resume it, or --force to start again"
        )
    return checkpoint


@contextmanager
def _checkpointed(checkpoint: Checkpoint, *, resume: bool) -> Iterator[Checkpoint | None]:
    """The checkpoint to fit with, if any; an interruption is followed by a message that says how to resume."""
    from palda.engine import CheckpointError

    if not resume:
        checkpoint.remove()
    try:
        yield checkpoint if checkpoint.minutes else None
    except CheckpointError as error:
        if not checkpoint.exists:
            raise
        raise PaldaError(f"{error}; to start again, pass --force instead of --resume") from None
    except (KeyboardInterrupt, Terminated) as stopped:
        if checkpoint.exists:
            stopped.args = ("to resume from the last checkpoint, repeat the command with --resume",)
        raise


def _print_summary(summary: FitSummary, output: Path, report: Path | None, *, as_json: bool) -> None:
    files = {"model": output} if report is None else {"model": output, "report": report}
    with standard_output():
        if as_json:
            written = {name: str(path) for name, path in files.items()}
            sys.stdout.write(json_text(summary.as_dict() | written, indent=1) + "\n")
            return
        sizes = (f"{path} ({max(path.stat().st_size / 1e6, 0.1):.1f} MB)" for path in files.values())
        write_lines([*summary.lines(), ("written", ", ".join(sizes))])
        sys.stdout.write(_next_steps(summary.n_doubtful, output, report))


def _next_steps(n_doubtful: int, output: Path, report: Path | None) -> str:
    palda, model = program_name(), shlex.quote(str(output))
    steps = {
        f"{palda} report {model}": "HTML report",
        f"{palda} consensus {model} -o labels.csv": "consensus labels",
        f"{palda} annotators {model}": "quality of the annotators",
        f"{palda} suggest {model} -n 100": f"labels most in need of another vote ({n_doubtful:,} are uncertain)",
        f"{palda} predict {model} NEW.csv -o predictions.csv": "labels of new documents",
    }
    if report is not None:
        del steps[f"{palda} report {model}"]
    width = max(map(len, steps))
    opened = "" if report is None else f"  open {report} in a browser\n"
    return f"\nnext steps:\n{opened}" + "".join(f"  {command:{width}s}  {text}\n" for command, text in steps.items())
