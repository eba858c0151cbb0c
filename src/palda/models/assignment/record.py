"""What a model keeps of its training documents, so that labels can be updated when votes change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import ArraySpec, Votes
from palda.models.assignment.vote_store import VoteStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.data import Array

_MAX_NATS = 1e6
RECORD_ARRAYS = {
    "evidence": ArraySpec(("documents", "classes"), "float32", low=-_MAX_NATS, high=_MAX_NATS),
    "known": ArraySpec(("documents", "classes"), "int8", low=-1, high=1, group="known"),
    "n_tokens": ArraySpec(("documents",), "float32", low=0.0),
}
"""Schema of a ``LabellingRecord`` in a file, without its votes."""


@dataclass(frozen=True, eq=False)
class LabellingRecord:
    """Votes, known labels and other evidence about the training documents of a model."""

    votes: VoteStore
    evidence: NDArray[np.float32]
    """(documents, classes): evidence besides the votes, in nats, from models that have not seen the document."""
    known: NDArray[np.int8]
    """(documents, classes): 1, 0, or -1 for unknown."""
    n_tokens: NDArray[np.float32]
    """(documents,): number of tokens, the price of reading a document."""

    def with_documents(
        self, votes: Votes, evidence: Array, known: NDArray[np.int8], n_tokens: NDArray[np.float32]
    ) -> LabellingRecord:
        """The record with further documents; ``votes`` has the annotators of the record."""
        return LabellingRecord(
            self.votes.with_documents(votes),
            np.concatenate((self.evidence, evidence.astype(np.float32))),
            np.concatenate((self.known, known)),
            np.concatenate((self.n_tokens, n_tokens)),
        )

    def with_known(self, known: NDArray[np.int8]) -> tuple[LabellingRecord, NDArray[np.int64]]:
        """The record with more known labels (-1: as before), and the documents where they differ."""
        after = np.where(known >= 0, known, self.known).astype(np.int8)
        return replace(self, known=after), np.flatnonzero((after != self.known).any(axis=1))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything but the votes as arrays of a file."""
        known = {"known": self.known} if self.known.max(initial=-1) >= 0 else {}
        return {"evidence": self.evidence, "n_tokens": self.n_tokens, **known}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], votes: Votes) -> LabellingRecord:
        """The record whose ``arrays`` these are."""
        evidence = arrays["evidence"]
        known = arrays.get("known", np.full(evidence.shape, -1, dtype=np.int8))
        return cls(VoteStore.of(votes), evidence, known, arrays["n_tokens"])
