"""A simulated labelling project: documents with true labels, and annotators who answer when they are asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda import simulate
from palda.data import Frozen, Votes, freeze_fields, names_array
from palda.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Strings
    from palda.simulate import SimulatedAnnotators, SimulatedDocuments

    Ints = NDArray[np.int64]


class Requests(NamedTuple):
    """Who is asked about which document, in this order, and about which of its classes (None for all)."""

    annotator: Ints
    doc: Ints
    asked: NDArray[np.bool_] | None = None

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.doc)


@dataclass(frozen=True, eq=False)
class LabellingProject(Frozen):
    """Documents with true labels, and annotators who are asked about them.

    An annotator always gives the same answer on the same document, whoever asks and when. Annotators arrive in a random
    order, the same for every policy.

    Parameters
    ----------
    counts : sparse array of shape (documents, words)
        Word counts.
    labels : array of shape (documents, classes)
        True labels, 0 or 1.
    annotators : SimulatedAnnotators
        The crowd.
    doc_ids, classes : array of str
        Names.
    seed : int
        Random seed of answers and arrivals.
    """

    counts: Any
    labels: NDArray[np.int8]
    annotators: SimulatedAnnotators
    doc_ids: Strings
    classes: Strings
    seed: int = 0

    def __post_init__(self) -> None:
        freeze_fields(self)
        shape = (len(self.doc_ids), len(self.classes))
        if self.labels.shape != shape or self.counts.shape[0] != shape[0]:
            raise DataError(
                f"{shape[0]} documents and {shape[1]} classes need labels of that shape, not {self.labels.shape}, and "
                f"as many rows of counts, not {self.counts.shape[0]}"
            )

    @classmethod
    def of(cls, documents: SimulatedDocuments, annotators: SimulatedAnnotators, *, seed: int = 0) -> LabellingProject:
        """A project on simulated documents."""
        return cls(documents.corpus.counts, documents.labels, annotators, documents.doc_ids, documents.classes, seed)

    @classmethod
    def numbered(
        cls, counts: Any, labels: NDArray[np.int8], annotators: SimulatedAnnotators, *, seed: int = 0
    ) -> LabellingProject:
        """A project whose documents and classes are named by their positions."""
        doc_ids, classes = (names_array(range(size)) for size in labels.shape)
        return cls(counts, labels, annotators, doc_ids, classes, seed)

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return len(self.doc_ids)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    def arrivals(self, size: int) -> Ints:
        """The first ``size`` annotators who arrive: independent draws, the same for every policy."""
        rng = np.random.default_rng([self.seed, *b"arrivals"])
        return rng.integers(len(self.annotators), size=size)

    def first_docs(self) -> Ints:
        """Documents in the random order of their first votes."""
        return np.random.default_rng([self.seed, *b"documents"]).permutation(self.n_docs)

    def answers(self, requests: Requests) -> Votes:
        """Votes of the annotators who were asked, on the axes of the project."""
        values = simulate.judgements(self.labels, self.annotators, requests.doc, requests.annotator, seed=self.seed)
        asked = np.ones(values.shape, dtype=bool) if requests.asked is None else requests.asked
        row, label = np.nonzero(asked)
        return Votes.from_codes(
            requests.doc[row], requests.annotator[row], label, values[row, label],
            doc_ids=self.doc_ids, annotators=self.annotators.names, classes=self.classes,
        )  # fmt: skip


def joined(votes: Votes, more: Votes) -> Votes:
    """Votes of two tables with the same axes."""
    columns = [
        np.concatenate((getattr(votes, name), getattr(more, name))) for name in ("doc", "annotator", "label", "value")
    ]
    return Votes.from_codes(*columns, doc_ids=votes.doc_ids, annotators=votes.annotators, classes=votes.classes)
