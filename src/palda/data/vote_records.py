"""Rows of a file of votes, before duplicates are resolved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import validation
from palda.data.votes import LONG_COLUMNS, OPTIONAL_COLUMNS, Votes

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data.frozen_arrays import Strings


@dataclass(frozen=True)
class VoteRecords:
    """Rows of a file of votes as positions on three axes, before duplicates are resolved.

    A ``value`` of -1 means no judgement. With ``unite``, the rows of one annotator on one document form one answer.
    ``probability`` and ``time`` are as in ``Votes``, or None.
    """

    doc: NDArray[np.integer[Any]]
    annotator: NDArray[np.integer[Any]]
    label: NDArray[np.integer[Any]]
    value: NDArray[np.integer[Any]]
    doc_ids: Strings
    annotators: Strings
    classes: Strings
    where: validation.SourceLocation
    time: NDArray[np.float64] | None = None
    unite: bool = False
    probability: NDArray[np.float32] | None = None
    annotator_kinds: Strings | None = None
    annotator_families: Strings | None = None

    def votes(self, duplicates: validation.DuplicateRule = "error") -> Votes:
        """Votes after duplicates are resolved."""
        records = self._subset(self._merged_rows()) if self.unite else self
        return Votes.from_codes(
            records.doc, records.annotator, records.label, records.value, doc_ids=self.doc_ids,
            annotators=self.annotators, classes=self.classes, time=records.time, probability=records.probability,
            annotator_kinds=self.annotator_kinds, annotator_families=self.annotator_families, duplicates=duplicates,
            where=records.where,
        )  # fmt: skip

    def _subset(self, rows: NDArray[np.int64]) -> VoteRecords:
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in LONG_COLUMNS}
        for name in ("time", "probability"):
            column = getattr(self, name)
            columns[name] = None if column is None else column[rows]
        return replace(self, **columns, where=self.where.subset(rows))

    def _merged_rows(self) -> NDArray[np.int64]:
        """One row per annotator, document and class: "present" takes precedence over "absent"."""
        key = self.doc.astype(np.int64) * len(self.annotators) + self.annotator
        key = key * (len(self.classes) + 1) + self.label + 1
        order = np.lexsort((-self.value, key))
        first = np.ones(len(order), dtype=bool)
        first[1:] = key[order][1:] != key[order][:-1]
        return order[first]

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        documents: Iterable[object] | None = None,
        classes: Iterable[object] | None = None,
        present_at: float | None = None,
        where: validation.SourceLocation | None = None,
        declared: bool = True,
        soft: bool = True,
        **columns: str | None,
    ) -> VoteRecords:
        """Records of a long data frame, with the options of ``Votes.from_frame``; not ``soft``: votes are 0 or 1."""
        from palda.data.columns import (
            annotator_traits,
            codes_of,
            probabilities_of,
            require_columns,
            roles,
            times_of,
            values_of,
        )

        where = where or validation.SourceLocation(first_row=0)
        found = roles(frame, (*LONG_COLUMNS, *OPTIONAL_COLUMNS), columns, where)
        found["value"] = found["value"] or found["probability"]
        require_columns(found, LONG_COLUMNS, frame, where)
        cells = values_of(frame[found["value"]], present_at, where, soft=soft)
        doc, doc_ids = codes_of(frame[found["doc"]], "document", documents, where, by_name=False, declared=declared)
        annotator, annotators = codes_of(frame[found["annotator"]], "annotator", None, where, declared=declared)
        label, names = codes_of(
            frame[found["label"]], "class", classes, where, declared=declared, keeps_unused=False,
            may_be_blank=cells.value == validation.BLANK,
        )  # fmt: skip
        probability = probabilities_of(frame, found, cells, where) if soft and present_at is None else None
        time = times_of(frame[found["time"]], where) if found["time"] else None
        named = [column for column in columns.values() if column is not None]
        kinds, families = annotator_traits(frame, found, annotator, annotators, where, named=named)
        return cls(
            doc, annotator, label, cells.value, doc_ids, annotators, names, where, time, probability=probability,
            annotator_kinds=kinds, annotator_families=families,
        )  # fmt: skip
