"""The work of ``palda fit`` and ``palda aggregate``, from files to a model file and what is said about it."""

from __future__ import annotations

import json
import math
import shlex
import sys
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.cli.console import own_name, printable, results
from palda.cli.standard_input import local
from palda.data import Corpus, Documents, TextWords, ValueWords, validation
from palda.errors import PaldaError, PaldaWarning
from palda.estimators import Aggregation, CrowdPALDA
from palda.estimators import aggregate as aggregate_library
from palda.io import ReadOptions, open_shards, read_any_votes, read_dataset, read_gold
from palda.report import crowd_summary

if TYPE_CHECKING:
    from pathlib import Path

    from palda.data import Dataset
    from palda.estimators import Checkpoint
    from palda.io import ShardFolder
    from palda.report import CrowdSummary, FitSummary

__all__ = ["Plan", "aggregate_votes", "checked_folder", "fit_and_save", "fit_folder_and_save", "read_files", "show"]

_MOST_KEPT_DOCS, _MOST_KEPT_VOTES = 200_000, 20_000_000  # in a model file
_USUAL_COUNTING = ("english", 2, 1, 5)


@dataclass(frozen=True)
class Plan:
    """How documents become words, and words and votes a model."""

    n_topics: Any
    annotators: str
    label_prior: str
    algorithm: str
    max_iter: int
    language: str
    min_count: int
    ngrams: int
    n_bins: int
    seed: int
    n_jobs: int | None
    engine: str | None = None

    def words_for(self, dataset: Dataset) -> TextWords | ValueWords:
        """What turns the documents into counts."""
        if not isinstance(dataset.corpus, Documents):
            return ValueWords(self.n_bins, random_state=self.seed)
        language = None if self.language == "none" else self.language
        return TextWords(language, min_count=self.min_count, ngrams=(1, self.ngrams))

    @property
    def counting(self) -> tuple[str, int, int, int]:
        """What says how words are counted."""
        return self.language, self.min_count, self.ngrams, self.n_bins

    def model(self, *, verbose: bool) -> CrowdPALDA:
        """Estimator with the settings asked for."""
        return CrowdPALDA(
            self.n_topics, annotators=self.annotators, label_prior=self.label_prior, algorithm=self.algorithm,
            max_iter=self.max_iter, n_jobs=self.n_jobs, engine=self.engine, random_state=self.seed,
            verbose=int(verbose),
        )  # fmt: skip


def read_files(
    documents: Path, votes: Path | None, gold: Path | None, options: ReadOptions, *, keep_gold: bool = True
) -> Dataset:
    """Documents, votes and whatever labels are known, of which a file of its own has the last word.

    Without ``keep_gold`` such a file is all that is known: labels that come with the documents are left out.
    """
    if str(documents) == "-" and str(votes) == "-":
        raise PaldaError("only one of the files can be standard input")
    with local(documents) as documents_file, local(votes) as votes_file:
        dataset = read_dataset(documents_file, votes_file, options)
    if not keep_gold:
        dataset = replace(dataset, gold=np.full_like(dataset.gold, validation.BLANK))
    if gold is None:
        return dataset
    known = read_gold(gold, dataset.doc_ids, dataset.classes, options.encoding)
    return replace(dataset, gold=np.where(known >= 0, known, dataset.gold))


def fit_and_save(
    dataset: Dataset, plan: Plan, output: Path, checkpoint: Checkpoint | None, *, keep_texts: bool, verbose: bool
) -> CrowdPALDA:
    """Fitted model, which is in the file as well. The checkpoint then goes, unless Ctrl-C ended the fit."""
    words = plan.words_for(dataset)
    items: Any = dataset.corpus
    counts = words.fit_transform(items)
    corpus = Corpus.from_counts(counts, words.get_feature_names_out(), dataset.doc_ids)
    model = plan.model(verbose=verbose)
    gold = dataset.gold if (dataset.gold >= 0).any() else None
    model.fit(corpus, dataset.votes, gold=gold, checkpoint=checkpoint)
    texts = dataset.corpus.texts if keep_texts and isinstance(dataset.corpus, Documents) else None
    model.save(output, words=words, texts=texts, votes=dataset.votes)
    if checkpoint is not None and not model.interrupted_:
        checkpoint.remove()
    return model


def checked_folder(path: Path, votes: Path | None, options: ReadOptions, plan: Plan) -> ShardFolder:
    """Folder of shards to learn from, every byte compared with its checksum.

    It has its votes and has counted its words, so whoever says how to do so is told that it is too late.
    """
    if votes is not None:
        raise PaldaError(f"{path} is a folder of shards, which holds its votes; leave {votes} out, or shard it again")
    if plan.counting != _USUAL_COUNTING or options != ReadOptions():
        raise PaldaError(f"{path} is a folder of shards: how files are read and words counted is said to palda shard")
    folder = open_shards(path)
    folder.verify()
    return folder


def fit_folder_and_save(
    folder: ShardFolder,
    gold: Path | None,
    plan: Plan,
    output: Path,
    checkpoint: Checkpoint | None,
    *,
    keep_texts: bool,
    verbose: bool,
) -> CrowdPALDA:
    """Model fitted on a folder of shards, which is in the file as well.

    The file holds texts and votes for reports, unless they are too many for it: then they stay in the folder.
    """
    known = None
    if gold is not None:
        given = read_gold(gold, folder.doc_ids, folder.classes)
        known = np.where(given >= 0, given, folder.gold)
    model = plan.model(verbose=verbose)
    model.fit(folder, gold=known, checkpoint=checkpoint)
    is_small = len(folder) <= _MOST_KEPT_DOCS and len(folder.votes) <= _MOST_KEPT_VOTES
    if not is_small:
        warnings.warn("texts and votes stay in the folder: too many for a model file", PaldaWarning, stacklevel=2)
    model.save(
        output,
        words=folder.words,
        texts=folder.texts() if is_small and keep_texts else None,
        votes=folder.votes.take(slice(None), named=True) if is_small else None,
    )
    if checkpoint is not None and not model.interrupted_:
        checkpoint.remove()
    return model


def show(summary: FitSummary, output: Path, report: Path | None, *, as_json: bool) -> None:
    """Print what was found, and what to do with it."""
    files = {"model": output} if report is None else {"model": output, "report": report}
    with results():
        if as_json:
            written = {name: str(path) for name, path in files.items()}
            sys.stdout.write(json.dumps(_without_nan(summary.as_dict()) | written, ensure_ascii=False, indent=1) + "\n")
            return
        sizes = (f"{path} ({max(path.stat().st_size / 1e6, 0.1):.1f} MB)" for path in files.values())
        for name, value in [*summary.lines(), ("written", ", ".join(sizes))]:
            sys.stdout.write(printable(f"{name:14s}{value}") + "\n")
        sys.stdout.write(_next_steps(summary, output, report))


def _without_nan(record: dict[str, Any]) -> dict[str, Any]:
    """What could not be measured is null: JSON has no other word for it."""
    return {name: None if isinstance(cell, float) and math.isnan(cell) else cell for name, cell in record.items()}


def _next_steps(summary: CrowdSummary, output: Path, report: Path | None) -> str:
    palda, model = own_name(), shlex.quote(str(output))
    steps = {
        f"{palda} report {model}": "everything on one page",
        f"{palda} consensus {model} -o labels.csv": "the labels",
        f"{palda} annotators {model}": "who is right how often",
        f"{palda} suggest {model} -n 100": f"what to ask about next: {summary.n_doubtful:,} labels are in doubt",
        f"{palda} predict {model} NEW.csv -o predictions.csv": "labels for documents nobody has judged",
    }
    if report is not None:
        del steps[f"{palda} report {model}"]
    width = max(map(len, steps))
    look = "" if report is None else f"  open {report} in a browser\n"
    return f"\nnext:\n{look}" + "".join(f"  {command:{width}s}  {why}\n" for command, why in steps.items())


def aggregate_votes(
    path: Path,
    gold: Path | None,
    options: ReadOptions,
    annotators: str,
    n_profiles: int | str,
    seed: int,
    jobs: int | None,
) -> tuple[Aggregation, CrowdSummary]:
    """Consensus of a file of votes, and a summary of it."""
    with local(path) as file:
        votes = read_any_votes(file, options)
    known = None if gold is None else read_gold(gold, votes.doc_ids, votes.classes, options.encoding)
    found = aggregate_library(votes, annotators, n_profiles, known, n_jobs=jobs, random_state=seed)
    return found, crowd_summary(votes, found.consensus, found.annotator_quality, converged=found.converged)
