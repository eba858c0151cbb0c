"""Predictions for documents of any number, some at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.data import Documents
from palda.errors import PaldaError
from palda.estimators import REST
from palda.report import label_records, shown_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from palda.data import Counts, Strings
    from palda.estimators import PALDA, CrowdPALDA
    from palda.io import DocumentChunk, ShardFolder

    Record = dict[str, Any]

__all__ = ["CountedChunk", "count_blocks", "counted_documents", "predictions", "stored_documents"]


def count_blocks(model: PALDA | CrowdPALDA, documents: Any) -> Counts:
    """Counts of new ``Documents`` or ``Values``, made as those that the model learned from."""
    words = model.words_
    if words is None:
        raise PaldaError("the model does not know how to count words; save it with save(path, words=...)")
    reads_texts = hasattr(words, "vocabulary_")
    if reads_texts != isinstance(documents, Documents):
        needed, given = ("texts", "numbers") if reads_texts else ("numbers", "texts")
        raise PaldaError(f"the model reads {needed}, but the documents hold {given}; choose the column with --text")
    counts: Counts = words.transform(documents)
    return counts


class CountedChunk(NamedTuple):
    """Some documents that are to be labelled, and what share of all has been read with them."""

    doc_ids: Strings
    counts: Counts
    share: float


def counted_documents(model: PALDA | CrowdPALDA, chunks: Iterable[DocumentChunk]) -> Iterator[CountedChunk]:
    """Documents of a file, counted."""
    for documents, share in chunks:
        yield CountedChunk(documents.doc_ids, count_blocks(model, documents), share)


def stored_documents(model: PALDA | CrowdPALDA, folder: ShardFolder, size: int) -> Iterator[CountedChunk]:
    """Documents of a folder of shards: its counts, or those of its texts if it counted other words."""
    is_counted = np.array_equal(folder.vocabulary, model.vocabulary_)
    if not is_counted and not folder.has_texts:
        raise PaldaError(
            f"{folder.path} counts other words than the model, and has no texts; "
            "predict from the documents themselves, or shard them without --no-texts"
        )
    for start in range(0, len(folder), size):
        rows = slice(start, min(start + size, len(folder)))
        doc_ids = folder.ids(rows)
        texts = None if is_counted else folder.texts(rows)
        counts = folder.counts[rows] if texts is None else count_blocks(model, Documents(doc_ids, texts))
        yield CountedChunk(doc_ids, counts, rows.stop / len(folder))


def predictions(
    model: PALDA | CrowdPALDA,
    chunks: Iterable[CountedChunk],
    n_words: int = 0,
    watch: Callable[[float, int], None] | None = None,
) -> Iterator[list[Record]]:
    """Records in blocks: document, labels at the model's thresholds, and the probability of every class.

    With ``n_words``, so many words that spoke for each label, whole where stems were counted, with their weights in
    nats. ``watch`` is told how much has
    been read, and how many documents that were.
    """
    n_done = 0
    for doc_ids, counts, share in chunks:
        probs = model.predict_proba(counts)
        names = model.classes_.tolist()
        for block in label_records(doc_ids, probs, names, model.thresholds_, block=len(doc_ids)):
            if n_words:
                _add_words(model, counts, block, n_words)
            yield block
        n_done += len(doc_ids)
        if watch is not None:
            watch(share, n_done)


def _add_words(model: PALDA | CrowdPALDA, counts: Counts, block: list[Record], n_words: int) -> None:
    """For each label found, the words with the largest weights for it."""
    for record in block:
        record["words"] = {label: [] for label in record["labels"]}
    names = {str(label): label for label in model.classes_}
    shown = dict(zip(model.vocabulary_, shown_words(model), strict=True))
    for text, label in names.items():
        rows = [place for place, record in enumerate(block) if text in record["words"]]
        if not rows:
            continue
        try:
            table = model.explain(counts[rows], label)
        except ValueError as wrong:
            raise PaldaError(str(wrong)) from None
        table = table[(table["weight"] > 0) & (table["word"] != REST)]
        for place, words in table.groupby("doc", sort=False):
            best = words.head(n_words)
            pairs = zip((str(shown[word]) for word in best["word"]), best["weight"].tolist(), strict=True)
            block[rows[int(str(place))]]["words"][text] = [list(pair) for pair in pairs]
