"""Predictions for documents of any number, some at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palda.data.types import Documents
from palda.errors import PaldaError
from palda.explain import REST
from palda.present.views import label_records, shown_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from palda.data.sources import DocumentChunk
    from palda.data.types import Counts
    from palda.estimators import PALDA, CrowdPALDA

    Record = dict[str, Any]

__all__ = ["counts_of", "predictions"]


def counts_of(model: PALDA | CrowdPALDA, documents: Any) -> Counts:
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


def predictions(
    model: PALDA | CrowdPALDA,
    chunks: Iterable[DocumentChunk],
    n_words: int = 0,
    watch: Callable[[float, int], None] | None = None,
) -> Iterator[list[Record]]:
    """Records in blocks: document, labels at the model's thresholds, and the probability of every class.

    With ``n_words``, so many words that spoke for each label, whole where stems were counted, with their weights in
    nats. ``watch`` is told how much has
    been read, and how many documents that were.
    """
    n_done = 0
    for documents, share in chunks:
        counts = counts_of(model, documents)
        probs = model.predict_proba(counts)
        names = model.classes_.tolist()
        for block in label_records(documents.doc_ids, probs, names, model.thresholds_, block=len(documents)):
            if n_words:
                _add_words(model, counts, block, n_words)
            yield block
        n_done += len(documents)
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
