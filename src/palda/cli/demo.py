"""``palda demo``: a simulated newsroom, a crowd with adversaries in it, and what palda makes of them."""

from __future__ import annotations

import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda import metrics, simulate
from palda.cli.console import Talk, own_name, results
from palda.cli.output import check_target, emit_records, emit_view
from palda.data import TextWords
from palda.errors import PaldaError
from palda.report import View, annotator_view, label_records, majority_shares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.estimators import CrowdPALDA
    from palda.simulate import SimulatedAnnotators, SimulatedDocuments

    Array = NDArray[np.float64]

__all__ = ["Outcome", "main", "run", "write_simulation"]

N_DOCS, N_NEW, VOTES_PER_DOC = 1500, 300, 5
_SIMULATED = ("documents.csv", "votes.csv", "truth.csv", "annotators_truth.csv")
_FOUND = ("labels.csv", "annotators.csv", "model.palda", "report.html")


class Outcome(NamedTuple):
    """Hidden truth, what the crowd said, and what was made of it."""

    news: SimulatedDocuments
    votes: Votes
    annotators: SimulatedAnnotators
    majority: Array
    consensus: Array
    quality: Array
    model: CrowdPALDA
    words: TextWords


def run(n_docs: int = N_DOCS, seed: int = 0, *, n_jobs: int | None = None) -> Outcome:
    """Simulate documents and a crowd of 50, ten of them adversarial; find consensus and annotator quality."""
    from palda.data import Corpus
    from palda.estimators import CrowdPALDA

    news = simulate.newsroom(n_docs, seed=seed)
    votes, annotators = simulate.crowd(news, "adversarial", votes_per_doc=VOTES_PER_DOC, seed=seed)
    words = TextWords(min_count=2)
    counts = words.fit_transform(news.documents)
    corpus = Corpus.from_counts(counts, words.get_feature_names_out(), news.doc_ids)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a demo may stop early
        model = CrowdPALDA(20, max_iter=30, n_jobs=n_jobs, random_state=seed).fit(corpus, votes)
    quality = model.annotator_quality_["quality"].to_numpy()
    return Outcome(news, votes, annotators, majority_shares(votes), model.consensus_, quality, model, words)


def main(
    folder: Path = Path("palda-demo"),
    n_docs: int = N_DOCS,
    *,
    force: bool = False,
    seed: int = 0,
    n_jobs: int | None = None,
    quiet: bool = False,
) -> None:
    """Print the story from documents to annotators, and write everything it is made of."""
    _prepare(folder, (*_SIMULATED, *_FOUND), force=force)
    talk = Talk(quiet=quiet)
    talk.say("simulating 50 annotators and fitting; the first time takes up to a minute")
    outcome = run(n_docs, seed, n_jobs=n_jobs)
    with results():
        sys.stdout.write(_story(outcome, seed))
    paths = _write_truth(folder, outcome.news, outcome.votes, outcome.annotators)
    paths += _write_found(folder, outcome)
    with results():
        sys.stdout.write(f"\nwritten to {folder}: {', '.join(path.name for path in paths)}\n")
        sys.stdout.write(_advice(folder))


def write_simulation(
    folder: Path,
    n_docs: int,
    crowd: str,
    behaviour: Any,
    n_spammers: int,
    votes_per_doc: int,
    *,
    seed: int,
    force: bool,
) -> list[Path]:
    """Newsroom, votes, and the truth behind both, as files."""
    _prepare(folder, _SIMULATED, force=force)
    news = simulate.newsroom(n_docs, seed=seed)
    votes, annotators = simulate.crowd(
        news, crowd, seed=seed, behaviour=behaviour, n_spammers=n_spammers, votes_per_doc=votes_per_doc
    )
    return _write_truth(folder, news, votes, annotators)


def _prepare(folder: Path, names: tuple[str, ...], *, force: bool) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise PaldaError(f"{folder} cannot be made: {refused.strerror or refused}") from None
    for name in names:
        check_target(folder / name, force=force)


def _story(outcome: Outcome, seed: int) -> str:
    """What was hidden, what was found, and how far apart they are."""
    news, votes, truth = outcome.news, outcome.votes, outcome.news.labels
    example = int(np.argmax(truth.sum(axis=1) == 2))
    start = " ".join(news.documents[example].split()[:9])
    new = simulate.newsroom(N_NEW, seed=seed + 1)
    predicted = outcome.model.predict(outcome.words.transform(new.documents))
    liars = np.flatnonzero(outcome.annotators.quality < 0.5)
    caught = np.flatnonzero(outcome.quality < 0.5)
    n_right = len(np.intersect1d(liars, caught))
    agreement = f"agreement (Krippendorff's alpha of label sets): {metrics.label_set_alpha(votes).alpha:.2f}"
    found = {
        "majority vote": metrics.micro_f1(truth, outcome.majority > 0.5),
        "palda consensus": metrics.micro_f1(truth, outcome.consensus > 0.5),
        f"palda classifier on {N_NEW} new documents": metrics.micro_f1(new.labels, predicted),
    }
    off = metrics.annotator_rmse(outcome.quality, outcome.annotators.quality)
    oracle = metrics.oracle_rmse(votes, truth, outcome.annotators.quality)
    return "\n".join(
        [
            "palda demo: a newsroom and its crowd, simulated; nothing is read or downloaded.",
            "",
            f"{len(truth):,} documents, such as {news.doc_ids[example]}: {start} ...",
            f"  really about: {', '.join(news.classes[truth[example] == 1])}",
            f"{len(votes):,} votes of {votes.n_annotators} annotators, {len(liars)} of whom lie; {agreement}",
            "",
            "labels found, micro-F1 against the hidden truth:",
            *(f"  {name:38s} {value:.3f}" for name, value in found.items()),
            "",
            f"adversaries: {len(liars)} hidden, {n_right} found, {len(caught) - n_right} wrongly accused",
            f"annotator quality off by {off:.3f} (RMSE); somebody who knew the truth: {oracle:.3f}",
            "",
        ]
    )


def _write_truth(folder: Path, news: SimulatedDocuments, votes: Votes, annotators: SimulatedAnnotators) -> list[Path]:
    documents, said, truth, people = (folder / name for name in _SIMULATED)
    rows = zip(news.doc_ids.tolist(), news.documents.texts.tolist(), strict=True)
    emit_records([[{"doc": doc, "text": text} for doc, text in rows]], documents, "csv", force=True)
    columns = (
        votes.doc_ids[votes.doc].tolist(), votes.annotators[votes.annotator].tolist(),
        votes.classes[votes.label].tolist(), votes.value.tolist(),
    )  # fmt: skip
    names = ("doc", "annotator", "label", "value")
    emit_records([[dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]], said, "csv", force=True)
    labels = zip(news.doc_ids.tolist(), news.labels.tolist(), strict=True)
    known = [{"doc": doc, **dict(zip(news.classes.tolist(), row, strict=True))} for doc, row in labels]
    emit_records([known], truth, "csv", force=True)
    qualities = zip(annotators.names.tolist(), annotators.quality.tolist(), strict=True)
    view = View("", {}, [{"annotator": name, "quality": quality} for name, quality in qualities])
    emit_view(view, people, "csv", force=True)
    return [documents, said, truth, people]


def _write_found(folder: Path, outcome: Outcome) -> list[Path]:
    from palda.cli.commands.inspect import write_report_of
    from palda.estimators import load

    labels, people, file, page = (folder / name for name in _FOUND)
    model = outcome.model
    emit_records(label_records(model.doc_ids_, model.consensus_, model.classes_.tolist()), labels, "csv", force=True)
    emit_view(annotator_view(model.annotator_quality_), people, "csv", force=True)
    texts = outcome.news.documents.texts
    model.save(file, words=outcome.words, texts=texts, votes=outcome.votes)
    write_report_of(load(file), page, "palda report: a simulated newsroom", force=True)
    return [labels, people, file, page]


def _advice(folder: Path) -> str:
    palda = own_name()
    page, model, truth = (shlex.quote(str(folder / name)) for name in ("report.html", "model.palda", "truth.csv"))
    return "\n".join(
        [
            "",
            f"look around: open {page} in a browser, or",
            f"  {palda} annotators {model}",
            f"  {palda} topics {model} --by-class",
            f"  {palda} evaluate {model} {truth}",
            "",
            "with your own files (documents: doc,text; votes: doc,annotator,label,value):",
            f"  {palda} fit documents.csv votes.csv --report report.html",
            f"  {palda} fit export.json        an export of Label Studio, doccano, Prodigy, MTurk or Toloka",
            f"  {palda} aggregate votes.csv    votes alone, without texts",
            "",
        ]
    )
