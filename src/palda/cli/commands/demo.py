"""``palda demo``: a simulated newsroom whose true labels are known, labelled by a crowd with adversaries."""

from __future__ import annotations

import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from palda.cli import options as opt
from palda.cli.commands.serve import live_packages
from palda.cli.commands.simulate import FILES, Folder, files_in_folder, write_simulation
from palda.cli.console import Messages, program_name, standard_output
from palda.cli.output import Target, write_records, write_table

if TYPE_CHECKING:
    from palda.data import Array, Corpus, TextWords, Votes
    from palda.estimators import CrowdPALDA
    from palda.live.serving import ServerLinks
    from palda.simulate import SimulatedAnnotators, SimulatedDocuments

N_DOCS = 1500
_N_NEW, _VOTES_PER_DOC = 300, 5
_LIVE = "Live"
_RESULT_FILES = ("labels.csv", "annotators.csv", "model.palda", "report.html")


def demo(
    folder: Folder = Path("palda-demo"),
    force: opt.Force = False,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
    quiet: opt.Quiet = False,
    live: Annotated[
        bool, opt.flag("Serve a project in the browser that simulated annotators label.", "--live", panel=_LIVE)
    ] = False,
    port: Annotated[
        int, opt.option("Port of the server; 0 for any that is free.", min=0, max=65535, panel=_LIVE)
    ] = 8600,
    seconds: Annotated[
        float | None, opt.option("End the server after this time.", min=0, show_default="at Ctrl-C", panel=_LIVE)
    ] = None,
) -> None:
    """Run every step on simulated data whose true labels are known; nothing is read or downloaded."""
    if live:
        _serve(port, seconds, seed)
        return
    with files_in_folder(folder, (*FILES, *_RESULT_FILES), force=force):
        Messages(quiet=quiet).write("simulating 50 annotators and fitting; the first run takes up to a minute")
        result = run_demo(seed, n_jobs=jobs)
        with standard_output():
            sys.stdout.write(_summary(result, seed))
        paths = write_simulation(folder, result.news, result.votes, result.annotators) + _write_results(folder, result)
    with standard_output():
        sys.stdout.write(f"\nwrote to {folder}: {', '.join(path.name for path in paths)}\n")
        sys.stdout.write(_next_steps(folder))


def _serve(port: int, seconds: float | None, seed: int) -> None:
    with live_packages():
        from palda.live.demo import run_live_demo

    def started(links: ServerLinks, dashboard: str) -> None:
        with standard_output():
            sys.stdout.write(
                "palda demo: twelve simulated annotators label simulated news, among them a liar, a copier and a "
                f"spammer.\nsign in as admin: {links.admin_link}\nthen watch:       {dashboard}\n"
                "Ctrl-C ends the server; nothing is kept.\n"
            )

    run_live_demo(port, started, seconds, seed)


class DemoResult(NamedTuple):
    """Simulated data with its true labels, and the model fitted to it."""

    news: SimulatedDocuments
    votes: Votes
    annotators: SimulatedAnnotators
    majority: Array
    corpus: Corpus
    words: TextWords
    model: CrowdPALDA


def run_demo(seed: int = 0, *, n_jobs: int | None = None) -> DemoResult:
    """Simulate documents and 50 annotators, ten of them malicious, and fit a model."""
    from palda import simulate
    from palda.data import Corpus, TextWords
    from palda.estimators import CrowdPALDA
    from palda.report import majority_shares

    news = simulate.newsroom(N_DOCS, seed=seed)
    votes, annotators = simulate.crowd(news, "adversarial", votes_per_doc=_VOTES_PER_DOC, seed=seed)
    words = TextWords(min_count=2)
    corpus = Corpus.from_counts(words.fit_transform(news.documents), words.get_feature_names_out(), news.doc_ids)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the demo stops EM early
        model = CrowdPALDA(20, max_iter=30, n_jobs=n_jobs, random_state=seed).fit(corpus, votes)
    return DemoResult(news, votes, annotators, majority_shares(votes), corpus, words, model)


def _summary(result: DemoResult, seed: int) -> str:
    """What was simulated, and how close the results are to it."""
    import numpy as np

    from palda import metrics, simulate

    news, votes, truth, model = result.news, result.votes, result.news.labels, result.model
    example = int(np.argmax(truth.sum(axis=1) == 2))
    start = " ".join(news.documents[example].split()[:9])
    new = simulate.newsroom(_N_NEW, seed=seed + 1)
    scores = {
        "majority vote": metrics.micro_f1(truth, result.majority > 0.5),
        "palda consensus": metrics.micro_f1(truth, model.consensus_ > 0.5),
        f"palda classifier on {_N_NEW} new documents": metrics.micro_f1(
            new.labels, model.predict(result.words.transform(new.documents))
        ),
    }
    quality = model.annotator_quality_["quality"].to_numpy()
    malicious, suspected = (np.flatnonzero(values < 0.5) for values in (result.annotators.quality, quality))
    n_right = len(np.intersect1d(malicious, suspected))
    n_false = len(suspected) - n_right
    rmse = metrics.annotator_rmse(quality, result.annotators.quality)
    oracle = metrics.oracle_rmse(votes, truth, result.annotators.quality)
    return "\n".join(
        [
            "palda demo: simulated news labelled by a simulated crowd; nothing is read or downloaded.",
            "",
            f"documents      {len(truth):,}, for example {news.doc_ids[example]}: {start} ...",
            f"               true labels: {', '.join(news.classes[truth[example] == 1])}",
            f"votes          {len(votes):,} by {votes.n_annotators} annotators, {len(malicious)} of them adversarial",
            f"agreement      {metrics.label_set_alpha(votes).alpha:.2f} (Krippendorff's alpha of label sets)",
            "",
            "micro-F1 against the true labels:",
            *(f"  {name:38s} {score:.3f}" for name, score in scores.items()),
            "",
            f"adversarial annotators: {len(malicious)} simulated, {n_right} found, {n_false} false alarms",
            f"RMSE of annotator quality: {rmse:.3f}; with the true labels known: {oracle:.3f}",
            "",
        ]
    )


def _write_results(folder: Path, result: DemoResult) -> list[Path]:
    from palda.report import annotator_table, label_records, write_report

    labels, people, file, page = paths = [folder / name for name in _RESULT_FILES]
    model, words, texts = result.model, result.words, result.news.documents.texts
    records = label_records(model.doc_ids_, model.consensus_, model.classes_.tolist())
    write_records(records, Target.file(labels, force=True))
    write_table(annotator_table(model.annotator_quality_), Target.file(people, force=True))
    model.save(file, words=words, texts=texts, votes=result.votes)
    write_report(
        model, page, texts=texts, votes=result.votes, X=result.corpus, words=words.spellings_,
        title="palda report: a simulated newsroom", force=True,
    )  # fmt: skip
    return paths


def _next_steps(folder: Path) -> str:
    palda = program_name()
    page, model, truth = (shlex.quote(str(folder / name)) for name in ("report.html", "model.palda", "truth.csv"))
    return "\n".join(
        [
            "",
            f"next steps: open {page} in a browser, or run",
            f"  {palda} annotators {model}",
            f"  {palda} topics {model} --by-class",
            f"  {palda} evaluate {model} {truth}",
            "",
            "with your own files (documents: doc,text; votes: doc,annotator,label,value):",
            f"  {palda} fit documents.csv votes.csv --report report.html",
            f"  {palda} fit export.json        export of Label Studio, doccano, Prodigy, MTurk or Toloka",
            f"  {palda} aggregate votes.csv    votes without texts",
            "",
        ]
    )
