"""Gold labels from a file of their own, put into shards that are written one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palda.data import validation
from palda.io.files import file_name
from palda.io.sources import read_gold_votes

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from palda.io.shards.vote_sorting import DocumentIndex

    Source = str | os.PathLike[str]


class GoldLabels(NamedTuple):
    """Gold labels from a file of their own, sorted by document."""

    doc: NDArray[np.int64]
    label: NDArray[np.int32]
    value: NDArray[np.int8]

    @classmethod
    def read(cls, path: Source | None, classes: list[str], index: DocumentIndex, encoding: str | None) -> GoldLabels:
        """Labels of a file in any layout of votes without annotators; none if there is no file."""
        if path is None:
            return cls(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int8))
        votes = read_gold_votes(path, classes, encoding)
        every = np.arange(votes.n_docs)
        doc = index.document_positions(votes.doc_ids, every, validation.SourceLocation(file_name(path)))[votes.doc]
        order = np.argsort(doc, kind="stable")
        return cls(doc[order], votes.label[order], votes.value[order])

    def put_into(self, gold: NDArray[np.int8], first_doc: int) -> None:
        """Overwrite the gold labels of some consecutive documents."""
        start, stop = np.searchsorted(self.doc, [first_doc, first_doc + len(gold)])
        gold[self.doc[start:stop] - first_doc, self.label[start:stop]] = self.value[start:stop]
