"""From files of any length to a folder of shards: what is in memory does not grow with the texts or the votes.

Texts are read twice, once for the vocabulary and once for the counts; votes are joined to them by id. Three things are
read at once because nothing less makes sense of them: exports of labelling platforms, one table that holds documents
and votes, and documents that are numbers. A run that was killed goes on where it stopped.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from sklearn.base import clone

from palda.data import Corpus, Dataset, Documents, TextWords, ValueWords, validation, words_from_arrays
from palda.errors import DataError
from palda.io.files import file_name
from palda.io.shards.build_journal import Unfinished, stamp
from palda.io.shards.document_index import DocIndex, digests_of
from palda.io.shards.folder import open_shards
from palda.io.shards.format import WORDS, Manifest, read_json, write_json
from palda.io.shards.vote_sorting import VoteFacts, group_votes, scan_votes, votes_of_shard
from palda.io.shards.writer import DOCS_PER_SHARD, write_names, write_part, write_words
from palda.io.sources import ReadOptions, read_dataset, read_gold, read_gold_votes, stream_documents
from palda.io.table_files import read_chunks
from palda.io.versions import package_version

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from palda.data import Counts, Strings
    from palda.io.shards.folder import ShardFolder

    Source = str | os.PathLike[str]
    Watch = Callable[[str, float, int], None]

__all__ = ["Sources", "Treatment", "shard_files"]

_CHUNK = 2000  # documents that are read at a time


@dataclass(frozen=True)
class Sources:
    """Files to read; without ``votes``, the file of documents holds them too."""

    documents: Source
    votes: Source | None = None
    gold: Source | None = None
    """Known labels: a table like votes, without annotators. It is read at once."""


@dataclass(frozen=True)
class Treatment:
    """How files become shards."""

    options: ReadOptions = field(default_factory=ReadOptions)
    text_words: TextWords = field(default_factory=TextWords)
    """Settings for documents that are texts; it is not fitted itself."""
    value_words: ValueWords = field(default_factory=ValueWords)
    """Settings for documents that are numbers."""
    docs_per_shard: int = DOCS_PER_SHARD
    keep_texts: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Everything that changes a byte of the result, as JSON knows it."""
        words = {type(made).__name__: made.get_params() for made in (self.text_words, self.value_words)}
        own = {"docs_per_shard": self.docs_per_shard, "keep_texts": self.keep_texts, "palda": package_version("palda")}
        return {name: str(value) for name, value in (asdict(self.options) | words | own).items()}


class _Plan(NamedTuple):
    """What is known before the first shard is written, and how to get each of them."""

    n_docs: int
    n_words: int
    n_classes: int
    n_annotators: int
    texts: bool
    files: dict[str, str]
    shards: Iterator[Callable[[], Dataset]]


def shard_files(
    target: Source,
    sources: Sources,
    treatment: Treatment | None = None,
    *,
    resume: bool = False,
    force: bool = False,
    watch: Watch | None = None,
) -> ShardFolder:
    """Write documents and votes as a folder of shards, and open it.

    The folder appears under its name when it is complete; until then everything is in ``NAME.part`` beside it. With
    ``resume`` a run that was killed goes on and ends in the same bytes; ``force`` replaces a folder that is there and
    whatever an interrupted run has left. ``watch`` is told the step, the share of it that is done, and how many
    documents or votes that are.
    """
    treatment = treatment or Treatment()
    validation.require_count(treatment.docs_per_shard, "docs_per_shard")
    tell = watch or _say_nothing
    asked: dict[str, Any] = {"options": treatment.as_dict()}
    asked |= {f"the {name}": stamp(path) for name, path in vars(sources).items() if path is not None}
    unfinished = Unfinished(Path(target), asked, resume=resume, force=force)
    make_plan = _streamed_plan if _can_stream(sources, treatment.options) else _whole_plan
    plan = make_plan(sources, treatment, unfinished, tell)
    entries = []
    n_done = 0
    for number, make in enumerate(plan.shards):
        entry = unfinished.shard(number)
        if entry is None:
            entry = write_part(unfinished.output, number, make())
            unfinished.add(entry)
        entries.append(entry)
        n_done += entry.documents
        tell("writing shards", n_done / max(plan.n_docs, 1), n_done)
    sizes = (plan.n_docs, plan.n_words, plan.n_classes, plan.n_annotators)
    unfinished.complete(Manifest(*sizes, plan.texts, tuple(entries), plan.files))
    return open_shards(target)


def _say_nothing(step: str, share: float, n_done: int) -> None:
    del step, share, n_done


def _can_stream(sources: Sources, options: ReadOptions) -> bool:
    """Whether documents and votes are two files, and the documents texts."""
    if sources.votes is None:
        return False
    chunks = stream_documents(sources.documents, id=options.id, text=options.text, encoding=options.encoding)
    return isinstance(next(chunks).documents, Documents)


# Everything at once


def _whole_plan(sources: Sources, treatment: Treatment, unfinished: Unfinished, tell: Watch) -> _Plan:
    dataset = read_dataset(sources.documents, sources.votes, treatment.options)
    tell("reading", 1.0, len(dataset))
    if sources.gold is not None:
        known = read_gold(sources.gold, dataset.doc_ids, dataset.classes, treatment.options.encoding)
        dataset = replace(dataset, gold=np.where(known >= 0, known, dataset.gold))
    is_text = isinstance(dataset.corpus, Documents)
    words = clone(treatment.text_words if is_text else treatment.value_words)
    counts = words.fit_transform(dataset.corpus)
    texts = dataset.corpus.texts if isinstance(dataset.corpus, Documents) and treatment.keep_texts else None
    corpus = Corpus.from_counts(counts, words.get_feature_names_out(), dataset.doc_ids, texts)
    counted = dataset.with_corpus(corpus)
    names = {"vocabulary": corpus.vocabulary, "classes": counted.classes, "annotators": counted.votes.annotators}
    files = write_words(unfinished.output, words) | write_names(unfinished.output, names)
    size = treatment.docs_per_shard
    shards = (_slice_of(counted, start, start + size) for start in range(0, len(counted), size))
    sizes = (len(counted), corpus.n_words, len(counted.classes), counted.votes.n_annotators)
    return _Plan(*sizes, texts is not None, files, shards)


def _slice_of(dataset: Dataset, start: int, stop: int) -> Callable[[], Dataset]:
    return lambda: dataset.take(slice(start, stop))


# Some documents at a time


def _streamed_plan(sources: Sources, treatment: Treatment, unfinished: Unfinished, tell: Watch) -> _Plan:
    read = unfinished.done("documents") or _read_words(sources, treatment, unfinished, tell)
    index = DocIndex(np.load(unfinished.room / _IDS, allow_pickle=False), read_json(unfinished.room / _FIRST_IDS))
    facts = _grouped_votes(sources, treatment, unfinished, index, tell)
    known = _Known.read(sources.gold, facts.classes, index, treatment.options.encoding)
    words = words_from_arrays(read_json(unfinished.output / WORDS), {})
    if not isinstance(words, TextWords):
        raise TypeError("only texts are streamed")
    names = {"vocabulary": list(words.vocabulary_), "classes": facts.classes, "annotators": facts.annotators}
    files = read["files"] | write_names(unfinished.output, names)
    shards = _Counter(sources, treatment, unfinished.room, words, words.chunk_counter(), facts, known).shards(
        read["n_docs"]
    )
    sizes = (read["n_docs"], len(words.vocabulary_), len(facts.classes), len(facts.annotators))
    return _Plan(*sizes, treatment.keep_texts, files, shards)


_IDS, _FIRST_IDS = "ids.npy", "first_ids.json"
_MOST_HINTS = 2000  # ids that an error may suggest


def _documents(sources: Sources, options: ReadOptions) -> Iterator[tuple[Documents, float]]:
    chunks = stream_documents(
        sources.documents, id=options.id, text=options.text, encoding=options.encoding, size=_CHUNK
    )
    for documents, share in chunks:
        if not isinstance(documents, Documents):
            raise DataError("holds numbers where texts were before", file=file_name(sources.documents))
        yield documents, share


def _read_words(sources: Sources, treatment: Treatment, unfinished: Unfinished, tell: Watch) -> dict[str, Any]:
    """First time through the documents: their vocabulary, and which there are."""
    digests: list[NDArray[np.bytes_]] = []
    first_ids: list[str] = []

    def texts() -> Iterator[Strings]:
        n_docs = 0
        for documents, share in _documents(sources, treatment.options):
            digests.append(digests_of(documents.doc_ids))
            first_ids.extend(documents.doc_ids[: _MOST_HINTS - len(first_ids)])
            yield documents.texts
            n_docs += len(documents)
            tell("learning words", share, n_docs)

    words = clone(treatment.text_words).fit_chunks(texts())
    found = np.concatenate(digests)
    twice = DocIndex(found, first_ids).duplicate()
    if twice is not None:
        _fail_about_id(sources, treatment.options, *twice)
    np.save(unfinished.room / _IDS, found, allow_pickle=False)
    write_json(unfinished.room / _FIRST_IDS, first_ids)
    return unfinished.finish("documents", n_docs=len(found), files=write_words(unfinished.output, words))


def _fail_about_id(sources: Sources, options: ReadOptions, first: int, again: int) -> NoReturn:
    """Find the rows of two documents with one id, and say so."""
    row, before = 0, 0
    for table, _ in read_chunks(sources.documents, _CHUNK, options.encoding):
        if before <= first < before + len(table.frame):
            row = table.where.row(first - before)
        if before <= again < before + len(table.frame):
            column = validation.find_column(list(table.frame.columns), "doc", options.id, table.where)
            name = validation.shown(validation.name_text(table.frame[column].iloc[again - before]))
            problem = f"the id {name} is in row {row} already; ids must differ"
            table.where.fail(problem, again - before, column)
        before += len(table.frame)
    raise DataError("changed while it was read", file=file_name(sources.documents))


def _grouped_votes(
    sources: Sources, treatment: Treatment, unfinished: Unfinished, index: DocIndex, tell: Watch
) -> VoteFacts:
    """Twice through the votes: names, then every record into the file of its shard."""
    done = unfinished.done("votes")
    if done is not None:
        return VoteFacts(**done)
    if sources.votes is None:
        raise TypeError("only votes in a file of their own are streamed")
    options = replace(treatment.options, id=None, text=None)  # those name columns of documents
    for left in unfinished.room.glob("votes-*"):
        left.unlink()
    facts = scan_votes(sources.votes, options, partial(tell, "reading votes"))
    watch = partial(tell, "sorting votes")
    group_votes(sources.votes, options, facts, index, treatment.docs_per_shard, unfinished.room, watch)
    unfinished.finish("votes", **facts.as_dict())
    return facts


class _Known(NamedTuple):
    """Known labels of a file of their own, sorted by document."""

    doc: NDArray[np.int64]
    label: NDArray[np.int32]
    value: NDArray[np.int8]

    @classmethod
    def read(cls, path: Source | None, classes: list[str], index: DocIndex, encoding: str | None) -> _Known:
        if path is None:
            return cls(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int8))
        votes = read_gold_votes(path, classes, encoding)
        every = np.arange(votes.n_docs)
        doc = index.joined(votes.doc_ids, every, validation.SourceLocation(file_name(path)))[votes.doc]
        order = np.argsort(doc, kind="stable")
        return cls(doc[order], votes.label[order], votes.value[order])

    def put_into(self, gold: NDArray[np.int8], first_doc: int) -> None:
        """Write what is known of some documents, over what their own file says."""
        start, stop = np.searchsorted(self.doc, [first_doc, first_doc + len(gold)])
        gold[self.doc[start:stop] - first_doc, self.label[start:stop]] = self.value[start:stop]


@dataclass(frozen=True)
class _Block:
    """Documents that have been read and not yet counted."""

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

    def and_(self, documents: Documents, classes: list[str]) -> _Block:
        """These documents and more."""
        return _Block(
            np.concatenate((self.doc_ids, documents.doc_ids)),
            np.concatenate((self.texts, documents.texts)),
            np.concatenate((self.gold, documents.gold(classes))),
        )


def _blocks(sources: Sources, treatment: Treatment, classes: list[str]) -> Iterator[_Block]:
    """Documents of one shard after the other."""
    nobody = np.empty(0, dtype=object)
    waiting = _Block(nobody, nobody, np.empty((0, len(classes)), dtype=np.int8))
    for documents, _ in _documents(sources, treatment.options):
        waiting = waiting.and_(documents, classes)
        while len(waiting.doc_ids) >= treatment.docs_per_shard:
            full, waiting = waiting.split(treatment.docs_per_shard)
            yield full
    if len(waiting.doc_ids):
        yield waiting


@dataclass(frozen=True)
class _Counter:
    """Second time through the documents: counts, with the votes that wait for them."""

    sources: Sources
    treatment: Treatment
    room: Path
    words: TextWords
    count: Callable[[Strings], Counts]
    facts: VoteFacts
    known: _Known

    def shards(self, n_docs: int) -> Iterator[Callable[[], Dataset]]:
        """Each shard, counted only if it is asked for."""
        first = 0
        for number, block in enumerate(_blocks(self.sources, self.treatment, self.facts.classes)):
            yield partial(self._shard, number, first, block)
            first += len(block.doc_ids)
        if first != n_docs:
            raise DataError("changed while it was read", file=file_name(self.sources.documents))

    def _shard(self, number: int, first: int, block: _Block) -> Dataset:
        gold = block.gold.copy()
        self.known.put_into(gold, first)
        file = file_name(self.sources.votes or "votes")
        votes = votes_of_shard(self.room, number, self.facts, block.doc_ids, self.treatment.options.duplicates, file)
        texts = block.texts if self.treatment.keep_texts else None
        vocabulary = self.words.get_feature_names_out()
        return Dataset(Corpus(self.count(block.texts), vocabulary, block.doc_ids, texts), votes, gold)
