"""``palda predict``: labels of new documents."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from palda.cli import options as opt
from palda.cli.console import Messages, ProgressBar, progress_bar
from palda.cli.features import NewFeatures, new_features
from palda.cli.inputs import regular_file, word_counts
from palda.cli.output import Target, write_records
from palda.errors import PaldaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from palda.data import Counts, FeatureTable, Strings
    from palda.estimators import PALDA, CrowdPALDA
    from palda.io import DocumentChunk, ShardFolder

    Record = dict[str, Any]

_CHUNK, _EXPLAINED_CHUNK = 5000, 500  # documents in memory at a time


@opt.writes_files("output")
@opt.option_groups(target=opt.target_options, features=opt.feature_options)
def predict(
    model: opt.Model,
    documents: Annotated[
        Path,
        typer.Argument(
            help="New documents: CSV, TSV, JSON lines, Parquet, or a folder of palda shard; - for standard input."
        ),
    ],
    *,
    target: Target,
    features: opt.FeatureFiles,
    explain: Annotated[bool, opt.flag("Add the words with the strongest evidence.", "--explain")] = False,
    words: Annotated[int, typer.Option("--words", "-n", min=1, help="Words per label with --explain.")] = 5,
    id_: opt.Id = None,
    text: opt.Text = None,
    encoding: opt.Encoding = None,
    engine: opt.Engine = None,
    jobs: opt.Jobs = None,
    quiet: opt.Quiet = False,
) -> None:
    """Predict the labels of new documents; they are read in chunks, so their number is not limited by memory.

    With --json the output is JSON lines.
    """
    from palda.engine import open_client
    from palda.estimators import load
    from palda.io import is_shards, open_shards, stream_documents

    if target.path is None and target.format == "json":
        target = replace(target, format="jsonl")
    fitted = load(model)
    reading = {"id": id_, "text": text, "encoding": encoding}
    size = _EXPLAINED_CHUNK if explain else _CHUNK
    results_on_screen = target.path is None and sys.stdout.isatty()
    with (
        Messages(quiet=quiet).show_warnings(),
        open_client(engine, jobs) as client,
        regular_file(documents) as file,
        new_features(features, fitted, reading) as given,
        progress_bar("documents", quiet=quiet or results_on_screen) as bar,
    ):
        fitted.set_params(n_jobs=jobs, engine=client)
        if is_shards(file):
            chunks = _folder_chunks(fitted, open_shards(file), given, size)
        else:
            chunks = _file_chunks(fitted, stream_documents(file, **reading, size=size), given)
        write_records(_predictions(fitted, chunks, words if explain else 0, bar), target)


class _Chunk(NamedTuple):
    """Some documents with their word counts and features, and the share of all documents that has been read so far."""

    doc_ids: Strings
    counts: Counts | None
    features: FeatureTable | None
    share: float


def _file_chunks(model: PALDA | CrowdPALDA, chunks: Iterable[DocumentChunk], features: NewFeatures) -> Iterator[_Chunk]:
    n_done = 0
    for documents, share in chunks:
        yield _Chunk(documents.doc_ids, word_counts(model, documents), features.of(documents, n_done), share)
        n_done += len(documents)
    features.check_end(n_done)


def _folder_chunks(
    model: PALDA | CrowdPALDA, folder: ShardFolder, features: NewFeatures, size: int
) -> Iterator[_Chunk]:
    """Chunks of a folder of shards: its own counts, or those of its texts if its vocabulary is not the model's."""
    import numpy as np

    from palda.data import Documents

    has_words = bool(model.n_features_in_)
    same_vocabulary = not has_words or np.array_equal(folder.vocabulary, model.vocabulary_)
    if not same_vocabulary and not folder.has_texts:
        raise PaldaError(
            f"{folder.path} has another vocabulary than the model, and no texts; "
            "predict from the documents themselves, or shard them without --no-texts"
        )
    features.check_end(len(folder))
    for start in range(0, len(folder), size):
        rows = slice(start, min(start + size, len(folder)))
        doc_ids = folder.ids(rows)
        texts = None if same_vocabulary else folder.texts(rows)
        own = folder.counts[rows] if has_words else None
        counts = own if texts is None else word_counts(model, Documents(doc_ids, texts))
        yield _Chunk(doc_ids, counts, features.of_folder(folder, rows), rows.stop / len(folder))


def _predictions(
    model: PALDA | CrowdPALDA, chunks: Iterable[_Chunk], n_words: int, bar: ProgressBar
) -> Iterator[list[Record]]:
    """One block of records per chunk: document, labels at the model's thresholds, probability of every class.

    With ``n_words``, each label comes with that many words and their evidence in nats.
    """
    from palda.report import label_records

    n_done = 0
    for chunk in chunks:
        probs, names = model.predict_proba(chunk.counts, features=chunk.features), model.classes_.tolist()
        for block in label_records(chunk.doc_ids, probs, names, model.thresholds_, block=len(chunk.doc_ids)):
            if n_words:
                _add_words(model, chunk, block, n_words)
            yield block
        n_done += len(chunk.doc_ids)
        bar.update(chunk.share, n_done)


def _add_words(model: PALDA | CrowdPALDA, chunk: _Chunk, block: list[Record], n_words: int) -> None:
    """Add the words and features with the largest positive evidence to each label of each record."""
    import numpy as np

    from palda.report import display_words

    for record in block:
        record["words"] = {label: [] for label in record["labels"]}
    display = dict(zip(model.vocabulary_, display_words(model), strict=True))
    for label in model.classes_:
        rows = [row for row, record in enumerate(block) if str(label) in record["words"]]
        if not rows:
            continue
        try:
            counts = None if chunk.counts is None else chunk.counts[rows]
            features = None if chunk.features is None else chunk.features.take(np.array(rows))
            table = model.explain(counts, label, features=features)
        except ValueError as error:
            raise PaldaError(str(error)) from None
        table = table[(table["weight"] > 0) & (table["kind"] != "rest")]
        for row, words in table.groupby("doc", sort=False):
            best = words.head(n_words)
            kinds = zip(best["word"], best["kind"], strict=True)
            shown = (str(display[word]) if kind == "word" else str(word) for word, kind in kinds)
            pairs = zip(shown, best["weight"].tolist(), strict=True)
            block[rows[int(str(row))]]["words"][str(label)] = [list(pair) for pair in pairs]
