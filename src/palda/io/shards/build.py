"""Shard folders from files: documents and votes of any number, in constant memory.

Two files, texts and votes, are streamed: the documents are read twice (vocabulary, then counts) and the votes twice
(names, then one temporary file per shard). Exports, tables that hold both, and numeric features are read at once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from sklearn.base import clone

from palda.data import Corpus, Dataset, Documents, TextWords, Values, ValueWords, names_array, validation
from palda.errors import DataError
from palda.io.feature_files import FeatureReader, FeatureSource, open_features
from palda.io.files import file_name
from palda.io.shards.folder import open_shards
from palda.io.shards.format import WORDS, Manifest, read_json, write_json
from palda.io.shards.gold_labels import GoldLabels
from palda.io.shards.replacement import write_errors
from palda.io.shards.unfinished import FinishedShard, RecordCounts, UnfinishedFolder
from palda.io.shards.vote_sorting import (
    DocumentIndex,
    GroupedVotes,
    VoteFacts,
    digests_of,
    group_votes,
    scan_votes,
    vote_file,
    votes_of_shard,
)
from palda.io.shards.writer import (
    DOCS_PER_SHARD,
    annotator_names,
    feature_names,
    feature_sizes,
    write_names,
    write_part,
    write_words,
)
from palda.io.sources import (
    ReadOptions,
    format_of,
    read,
    read_gold,
    stream_documents,
    warn_about_unused_gold,
)
from palda.io.table_files import read_chunks
from palda.io.transformer_state import restore_words
from palda.io.versions import package_version

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from palda.data import Counts, Strings
    from palda.io.shards.folder import ShardFolder

    Source = str | os.PathLike[str]
    Watch = Callable[[str, float, int], None]

_DOCS_PER_CHUNK = 2000


@dataclass(frozen=True)
class Sources:
    """Files to read. Without ``votes``, the file of documents holds the votes too."""

    documents: Source
    votes: Source | None = None
    gold: Source | None = None
    """Gold labels: a table like votes, without annotators. It is read into memory."""
    features: Source | None = None
    """Features of the documents, as ``read_features`` reads them. Numeric documents are their own features."""
    feature_ids: Source | None = None
    """Ids of the features, for a file without ids."""

    def files(self) -> dict[str, Source]:
        """Files by what they hold."""
        return {f"the {name.replace('_', ' ')}": path for name, path in vars(self).items() if path is not None}


@dataclass(frozen=True)
class Treatment:
    """Options for turning files into shards."""

    options: ReadOptions = field(default_factory=ReadOptions)
    text_words: TextWords = field(default_factory=TextWords)
    """Settings for documents that are texts; a clone is fitted."""
    value_words: ValueWords = field(default_factory=ValueWords)
    """Settings for documents that are numeric features; a clone is fitted."""
    docs_per_shard: int = DOCS_PER_SHARD
    keep_texts: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Everything that affects the result, as JSON."""
        words = {type(one).__name__: one.get_params() for one in (self.text_words, self.value_words)}
        own = {"docs_per_shard": self.docs_per_shard, "keep_texts": self.keep_texts, "palda": package_version("palda")}
        return {name: str(value) for name, value in (asdict(self.options) | words | own).items()}


class _Plan(NamedTuple):
    """Sizes and files that are known before the first shard is written, and a function per shard that makes it."""

    n_docs: int
    n_words: int
    n_classes: int
    n_annotators: int
    texts: bool
    files: dict[str, str]
    features: FeatureReader | None
    records: RecordCounts
    """Votes and abstentions that were read; those of the shards must add up to them."""
    shards: Iterator[Callable[[], _Part]]


class _Part(NamedTuple):
    """Documents of a shard with their votes, and how many records were read for them."""

    dataset: Dataset
    records: RecordCounts


def shard_files(
    target: Source,
    sources: Sources,
    treatment: Treatment | None = None,
    *,
    resume: bool = False,
    force: bool = False,
    watch: Watch | None = None,
) -> ShardFolder:
    r"""Write documents and votes from files as a shard folder, and open it.

    The folder appears under its name when it is complete; until then everything is in ``NAME.part`` beside it.

    Parameters
    ----------
    target : str or path-like
        Folder to write.
    sources : Sources
        Files with documents, votes and gold labels.
    treatment : Treatment, optional
        How the files are read and words are counted, documents per shard, and whether texts are kept.
    resume : bool, default False
        Resume an interrupted run. The result has the same bytes as an uninterrupted run.
    force : bool, default False
        Replace an existing shard folder, and discard an interrupted run.
    watch : callable, optional
        Called with the name of the step, the share of it that is done, and the number of documents or votes so far.

    Returns
    -------
    ShardFolder
        The folder that was written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from palda.io import Sources, shard_files
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     documents, votes = Path(parent, "documents.csv"), Path(parent, "votes.csv")
    ...     _ = documents.write_text("doc,text\nd1,ships carry wheat\nd2,wheat prices rise\n")
    ...     _ = votes.write_text("doc,annotator,labels\nd1,ann,trade\nd2,bob,trade;markets\n")
    ...     folder = shard_files(Path(parent, "corpus"), Sources(documents, votes))
    ...     len(folder), len(folder.votes), folder.classes.tolist()
    (2, 4, ['markets', 'trade'])
    """
    treatment = treatment or Treatment()
    validation.require_count(treatment.docs_per_shard, "docs_per_shard")
    tell = watch or _ignore_progress
    request: dict[str, Any] = {"options": treatment.as_dict()}
    request |= {name: _file_stamps(path) for name, path in sources.files().items()}
    with UnfinishedFolder(Path(target), request, resume=resume, force=force) as unfinished:
        make_plan = _streamed_plan if _can_stream(sources, treatment.options) else _whole_plan
        plan = make_plan(sources, treatment, unfinished, tell)
        features = plan.features
        shards = []
        n_done = 0
        for number, make in enumerate(plan.shards):
            shard = unfinished.shard(number)
            if shard is None:
                dataset, records = make()
                rows = None if features is None else features.rows(dataset.doc_ids, n_done).values
                shard = FinishedShard(write_part(unfinished.output, number, dataset, rows), records)
                unfinished.add(shard)
            shards.append(shard)
            n_done += shard.entry.documents
            tell("writing shards", n_done / max(plan.n_docs, 1), n_done)
        _check_counts(plan, shards, unfinished.path)
        for name, path in sources.files().items():
            if _file_stamps(path) != request[name]:
                raise DataError("changed while it was read; start again with force=True", file=file_name(path))
        sizes = (plan.n_docs, plan.n_words, plan.n_classes, plan.n_annotators)
        kinds = feature_sizes(None if features is None else features.table)
        unfinished.complete(Manifest(*sizes, plan.texts, tuple(shard.entry for shard in shards), plan.files, **kinds))
    return open_shards(target)


def _check_counts(plan: _Plan, shards: list[FinishedShard], path: Path) -> None:
    """Raise unless the shards hold all documents, votes and abstentions that were read."""
    written = (
        sum(shard.entry.documents for shard in shards),
        sum(shard.records.votes for shard in shards),
        sum(shard.records.abstentions for shard in shards),
    )
    for name, n_written, n_read in zip(
        ("documents", "votes", "abstentions"), written, (plan.n_docs, *plan.records), strict=True
    ):
        if n_written != n_read:
            raise DataError(
                f"{n_read:,} {name} were read, but {n_written:,} are in the shards; start again with force=True",
                file=str(path),
            )


def _ignore_progress(step: str, share: float, n_done: int) -> None:
    del step, share, n_done


def _file_stamps(path: Source) -> list[Any]:
    """Name, size and time of the last change of a file, or of all files in a folder."""
    place = Path(path)
    files = sorted(file for file in place.rglob("*") if file.is_file()) if place.is_dir() else [place]
    try:
        stamps = [(file.name, file.stat()) for file in files]
    except OSError as refused:
        raise DataError(f"cannot be read: {refused.strerror or refused}", file=place.name) from None
    return [[name, status.st_size, status.st_mtime_ns] for name, status in stamps]


def _can_stream(sources: Sources, options: ReadOptions) -> bool:
    """Whether documents and votes are two tables, and the documents are texts."""
    if sources.votes is None or format_of(sources.votes, options) != "table":
        return False
    chunks = stream_documents(sources.documents, id=options.id, text=options.text, encoding=options.encoding)
    return isinstance(next(chunks).documents, Documents)


def _open_features(
    sources: Sources, treatment: Treatment, unfinished: UnfinishedFolder, n_docs: int
) -> FeatureReader | None:
    if sources.features is None:
        return None
    options = treatment.options
    source = FeatureSource(
        sources.features, sources.feature_ids, options.id, options.encoding, id_required=False,
        ignored=() if options.text is None else (options.text,),
    )  # fmt: skip
    features = open_features(source, unfinished.temporary)
    features.check_length(n_docs)
    return features


# Files that are read at once


def _whole_plan(sources: Sources, treatment: Treatment, unfinished: UnfinishedFolder, tell: Watch) -> _Plan:
    dataset = read(sources.documents, sources.votes, **vars(treatment.options))
    tell("reading", 1.0, len(dataset))
    if sources.gold is not None:
        gold = read_gold(sources.gold, dataset.doc_ids, dataset.classes, treatment.options.encoding)
        dataset = replace(dataset, gold=np.where(gold >= 0, gold, dataset.gold))
    is_text = isinstance(dataset.corpus, Documents)
    words = clone(treatment.text_words if is_text else treatment.value_words)
    counts = words.fit_transform(dataset.corpus)
    texts = dataset.corpus.texts if isinstance(dataset.corpus, Documents) and treatment.keep_texts else None
    corpus = Corpus.from_counts(counts, words.get_feature_names_out(), dataset.doc_ids, texts)
    counted = dataset.with_corpus(corpus)
    names: dict[str, Any] = {
        "vocabulary": corpus.vocabulary,
        "classes": counted.classes,
        **annotator_names(counted.votes),
    }
    features = _open_features(sources, treatment, unfinished, len(counted))
    if features is None and isinstance(dataset.corpus, Values):
        features = FeatureReader(dataset.corpus.feature_table(), None, file_name(sources.documents))
    names |= feature_names(None if features is None else features.table)
    files = write_words(unfinished.output, words) | write_names(unfinished.output, names)
    size = treatment.docs_per_shard
    shards = (partial(_part, counted, slice(start, start + size)) for start in range(0, len(counted), size))
    sizes = (len(counted), corpus.n_words, len(counted.classes), counted.votes.n_annotators)
    records = RecordCounts(len(counted.votes), len(counted.votes.abstained))
    return _Plan(*sizes, texts is not None, files, features, records, shards)


def _part(dataset: Dataset, rows: slice) -> _Part:
    part = dataset.take(rows)
    return _Part(part, RecordCounts(len(part.votes), len(part.votes.abstained)))


# Files that are streamed


def _streamed_plan(sources: Sources, treatment: Treatment, unfinished: UnfinishedFolder, tell: Watch) -> _Plan:
    read = unfinished.step_result("documents") or _learn_words(sources, treatment, unfinished, tell)
    index = DocumentIndex(
        np.load(unfinished.temporary / _IDS, allow_pickle=False), read_json(unfinished.temporary / _FIRST_IDS)
    )
    facts, grouped = _grouped_votes(sources, treatment, unfinished, index, tell)
    first, _ = next(_documents(sources, treatment.options))
    warn_about_unused_gold(first, names_array(facts.classes), sources.documents)
    gold = GoldLabels.read(sources.gold, facts.classes, index, treatment.options.encoding)
    words = restore_words(read_json(unfinished.output / WORDS))
    if not isinstance(words, TextWords):
        raise TypeError("only texts are streamed")
    names: dict[str, Any] = {"vocabulary": list(words.vocabulary_), "classes": facts.classes, **facts.annotator_names()}
    features = _open_features(sources, treatment, unfinished, read["n_docs"])
    names |= feature_names(None if features is None else features.table)
    files = read["files"] | write_names(unfinished.output, names)
    maker = _ShardMaker(sources, treatment, unfinished.temporary, words, words.chunk_counter(), facts, grouped, gold)
    shards = maker.shards(read["n_docs"])
    sizes = (read["n_docs"], len(words.vocabulary_), len(facts.classes), len(facts.annotators))
    return _Plan(*sizes, treatment.keep_texts, files, features, grouped.records, shards)


_IDS, _FIRST_IDS = "ids.npy", "first_ids.json"
_MAX_HINTS = 2000  # ids that an error may suggest


def _documents(sources: Sources, options: ReadOptions) -> Iterator[tuple[Documents, float]]:
    chunks = stream_documents(
        sources.documents, id=options.id, text=options.text, encoding=options.encoding, size=_DOCS_PER_CHUNK
    )
    for documents, share in chunks:
        if not isinstance(documents, Documents):
            raise DataError("holds numbers where texts were before", file=file_name(sources.documents))
        yield documents, share


def _learn_words(sources: Sources, treatment: Treatment, unfinished: UnfinishedFolder, tell: Watch) -> dict[str, Any]:
    """First pass over the documents: vocabulary and ids."""
    digests: list[NDArray[np.bytes_]] = []
    first_ids: list[str] = []

    def texts() -> Iterator[Strings]:
        n_docs = 0
        for documents, share in _documents(sources, treatment.options):
            digests.append(digests_of(documents.doc_ids))
            first_ids.extend(documents.doc_ids[: _MAX_HINTS - len(first_ids)])
            yield documents.texts
            n_docs += len(documents)
            tell("learning words", share, n_docs)

    words = clone(treatment.text_words).fit_chunks(texts())
    all_digests = np.concatenate(digests)
    duplicate = DocumentIndex(all_digests, first_ids).duplicate()
    if duplicate is not None:
        _raise_duplicate_id(sources, treatment.options, *duplicate)
    ids, hints = unfinished.temporary / _IDS, unfinished.temporary / _FIRST_IDS
    with write_errors(ids):
        np.save(ids, all_digests, allow_pickle=False)
    write_json(hints, first_ids)
    result = {"n_docs": len(all_digests), "files": write_words(unfinished.output, words)}
    return unfinished.complete_step("documents", result, (ids, hints, unfinished.output / WORDS))


def _raise_duplicate_id(sources: Sources, options: ReadOptions, first: int, again: int) -> NoReturn:
    """Find the rows of two documents with the same id, and raise the error that names them."""
    row, before = 0, 0
    for table, _ in read_chunks(sources.documents, _DOCS_PER_CHUNK, options.encoding):
        if before <= first < before + len(table.frame):
            row = table.where.row(first - before)
        if before <= again < before + len(table.frame):
            column = validation.find_column(list(table.frame.columns), "doc", options.id, table.where)
            doc_id = validation.name_text(table.frame[column].iloc[again - before])
            table.where.fail(validation.duplicate_id(doc_id, row), again - before, column)
        before += len(table.frame)
    raise DataError("changed while it was read", file=file_name(sources.documents))


def _grouped_votes(
    sources: Sources, treatment: Treatment, unfinished: UnfinishedFolder, index: DocumentIndex, tell: Watch
) -> tuple[VoteFacts, GroupedVotes]:
    """Two passes over the votes: names, then every record into the temporary file of its shard."""
    result = unfinished.step_result("votes")
    if result is not None:
        return VoteFacts(**result["facts"]), GroupedVotes.from_json(result["grouped"])
    if sources.votes is None:
        raise TypeError("only votes in a file of their own are streamed")
    options = replace(treatment.options, id=None, text=None)  # those name columns of documents
    with write_errors(unfinished.temporary):
        for leftover in unfinished.temporary.glob("votes-*"):
            leftover.unlink()
    facts = scan_votes(sources.votes, options, partial(tell, "reading votes"))
    watch = partial(tell, "sorting votes")
    grouped = group_votes(sources.votes, options, facts, index, treatment.docs_per_shard, unfinished.temporary, watch)
    files = (vote_file(unfinished.temporary, shard) for shard in grouped.shards)
    unfinished.complete_step("votes", {"facts": facts.as_dict(), "grouped": grouped.as_json()}, files)
    return facts, grouped


@dataclass(frozen=True)
class _Block:
    """Documents that were read and whose words are not counted yet."""

    doc_ids: Strings
    texts: Strings
    gold: NDArray[np.int8]

    def split(self, size: int) -> tuple[_Block, _Block]:
        """The first documents, and the rest."""
        first, rest = slice(size), slice(size, None)
        return (
            _Block(self.doc_ids[first], self.texts[first], self.gold[first]),
            _Block(self.doc_ids[rest], self.texts[rest], self.gold[rest]),
        )

    def extended(self, documents: Documents, classes: list[str]) -> _Block:
        """The block with more documents at its end."""
        return _Block(
            np.concatenate((self.doc_ids, documents.doc_ids)),
            np.concatenate((self.texts, documents.texts)),
            np.concatenate((self.gold, documents.gold(classes))),
        )


def _blocks(sources: Sources, treatment: Treatment, classes: list[str]) -> Iterator[_Block]:
    """One block of documents per shard."""
    nothing = np.empty(0, dtype=object)
    pending = _Block(nothing, nothing, np.empty((0, len(classes)), dtype=np.int8))
    for documents, _ in _documents(sources, treatment.options):
        pending = pending.extended(documents, classes)
        while len(pending.doc_ids) >= treatment.docs_per_shard:
            block, pending = pending.split(treatment.docs_per_shard)
            yield block
    if len(pending.doc_ids):
        yield pending


@dataclass(frozen=True)
class _ShardMaker:
    """Second pass over the documents: counts, with the votes from the temporary files."""

    sources: Sources
    treatment: Treatment
    temporary: Path
    words: TextWords
    count: Callable[[Strings], Counts]
    facts: VoteFacts
    grouped: GroupedVotes
    gold: GoldLabels

    def shards(self, n_docs: int) -> Iterator[Callable[[], _Part]]:
        """A function per shard; words are counted when it is called."""
        first = 0
        for number, block in enumerate(_blocks(self.sources, self.treatment, self.facts.classes)):
            yield partial(self._shard, number, first, block)
            first += len(block.doc_ids)
        if first != n_docs:
            raise DataError("changed while it was read", file=file_name(self.sources.documents))

    def _shard(self, number: int, first: int, block: _Block) -> _Part:
        gold = block.gold.copy()
        self.gold.put_into(gold, first)
        found = votes_of_shard(
            self.temporary, number, self.facts, self.grouped, block.doc_ids, self.treatment.options.duplicates,
            file_name(self.sources.votes or "votes"),
        )  # fmt: skip
        texts = block.texts if self.treatment.keep_texts else None
        vocabulary = self.words.get_feature_names_out()
        corpus = Corpus(self.count(block.texts), vocabulary, block.doc_ids, texts)
        return _Part(Dataset(corpus, found.votes, gold), found.records)
