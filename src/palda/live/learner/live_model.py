"""A fitted model beside the store: its documents, people and classes by their ids there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from palda.live.learner import log_columns
from palda.live.learner.fitting import places
from palda.live.service.projects import read_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from palda.estimators import CrowdPALDA
    from palda.live.learner.log_columns import GoldRow, VoteColumns

    Ints = NDArray[np.int64]


class Touched(NamedTuple):
    """What an update has changed."""

    rows: Ints  # documents, as rows of the model
    people: frozenset[int]


class LiveModel:
    """A model that follows the log of a project.

    ``position`` is the last entry of the log that it reflects. Votes on documents and classes that it does not know
    wait for the next fit.
    """

    def __init__(self, model: CrowdPALDA, generation: int, position: int, label_ids: Sequence[int]) -> None:
        self.model = model
        self.model.n_jobs = 1  # updates take milliseconds; threads would only compete with the server
        self.model.engine = None
        self.generation = generation
        self.position = position
        self.label_ids = np.array(label_ids, dtype=np.int64)
        self.document_ids: Ints = np.empty(0, dtype=np.int64)  # by row; -1 for documents that were deleted
        self.id_of: dict[str, int] = {}  # the same by name
        self.n_unknown = 0  # documents and classes that wait for the next fit
        self.name_of: dict[int, str] = {}  # of people; names of the model stay until the next fit
        self.is_random_gold = True  # no known label was chosen for its doubt

    def read_names(self, connection: Connection, project_id: int) -> None:
        """Find the documents of the model in the store, what it lacks, and whether its gold is a random sample."""
        ids, names = log_columns.document_names(connection, project_id)
        stored = dict(zip(names, ids.tolist(), strict=True))
        self.id_of = {name: stored.get(name, -1) for name in self.model.doc_ids_.tolist()}
        self.document_ids = np.array(list(self.id_of.values()), dtype=np.int64)
        n_labels = len(read_labels(connection, project_id))  # classes are added, never removed
        self.n_unknown = len(ids) - int((self.document_ids >= 0).sum()) + n_labels - len(self.label_ids)
        self.is_random_gold = all(row.is_random for row in log_columns.gold_rows(connection, project_id))

    def learn_names(self, connection: Connection, people: Iterable[int]) -> None:
        """Names of people that are new here."""
        new = [person for person in people if person not in self.name_of]
        self.name_of.update(log_columns.person_names(connection, new))

    def rows_of(self, document_ids: Ints) -> Ints:
        """Rows of documents; -1 where the model does not know them."""
        return places(self.document_ids, document_ids)

    def forget_erased(self, connection: Connection, project_id: int) -> None:
        """Withdraw the votes of people who have none in the store any more, until the next fit."""
        there = log_columns.people_with_answers(connection, project_id, list(self.name_of))
        for person in set(self.name_of) - there:
            self._withdraw(self.name_of.pop(person))

    def _withdraw(self, name: str) -> None:
        votes = self.model.current_votes()
        own = np.flatnonzero(votes.annotators == name)
        if len(own):
            given = votes.annotator == own[0]
            docs, labels = votes.doc_ids[votes.doc[given]], votes.classes[votes.label[given]]
            self.model.update(pd.DataFrame({"doc": docs, "annotator": name, "label": labels, "value": np.nan}))

    def apply(self, entries: VoteColumns) -> Touched:
        """Update labels and rates by entries of the log, whose people have names."""
        rows, columns = self.rows_of(entries.document), places(self.label_ids, entries.label)
        has_name = np.isin(entries.person, list(self.name_of))
        kept = np.flatnonzero((rows >= 0) & (columns >= 0) & has_name)
        people = frozenset(np.unique(entries.person[kept]).tolist())
        if len(kept):
            value = entries.value[kept].astype(np.float64)
            frame = pd.DataFrame(
                {
                    "doc": self.model.doc_ids_[rows[kept]],
                    "annotator": np.array([self.name_of[one] for one in entries.person[kept].tolist()], dtype=object),
                    "label": self.model.classes_[columns[kept]],
                    "value": np.where(value < 0, np.nan, value),
                    "time": entries.time[kept],
                }
            )
            self.model.update(frame)
        return Touched(np.unique(rows[kept]), people)

    def apply_gold(self, known: Sequence[GoldRow]) -> Touched:
        """Take in known labels."""
        document, label = (np.array([row[which] for row in known], dtype=np.int64) for which in (0, 1))
        rows, columns = self.rows_of(document), places(self.label_ids, label)
        kept = np.flatnonzero((rows >= 0) & (columns >= 0))
        if len(kept):
            docs, place = np.unique(rows[kept], return_inverse=True)
            table = np.full((len(docs), len(self.label_ids)), np.nan)
            table[place, columns[kept]] = np.array([row.value for row in known])[kept]
            frame = pd.DataFrame(table, index=self.model.doc_ids_[docs], columns=self.model.classes_)
            self.model.update(gold=frame)
            self.is_random_gold &= all(known[one].is_random for one in kept.tolist())
        return Touched(np.unique(rows[kept]), frozenset())

    def has_lost_gold(self, document_ids: Sequence[int], known: Sequence[GoldRow]) -> bool:
        """Whether labels of documents are certain here but no longer known."""
        rows = self.rows_of(np.array(document_ids, dtype=np.int64))
        certain = np.isin(self.model.consensus_[rows[rows >= 0]], (0.0, 1.0)).sum()
        there = set(np.array(document_ids)[rows >= 0].tolist())
        n_known = sum(row.document_id in there and row.label_id in self.label_ids for row in known)
        return bool(certain > n_known)

    def judged_share(self) -> float:
        """Share of the documents with a vote, or whose labels are all known."""
        judged: NDArray[np.bool_] = np.asarray(np.isin(self.model.consensus_, (0.0, 1.0)).all(axis=1))
        judged[self.model.current_votes().doc] = True
        return float(judged.mean())

    def expected_wrong(self, rows: Ints | slice) -> NDArray[np.float64]:
        """Expected number of wrong labels of documents."""
        probs = self.model.consensus_[rows]
        wrong: NDArray[np.float64] = np.minimum(probs, 1.0 - probs).sum(axis=1)
        return wrong
