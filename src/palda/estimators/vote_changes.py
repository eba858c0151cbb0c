"""Changes of votes as ``update`` accepts them: votes or data frames become positions on the axes of a model."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.data import VoteRecords, Votes, names_array, validation
from palda.errors import DataError
from palda.models.assignment import VoteChanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from palda.data import Strings

_MAX_NAMES = 10_000  # among which the nearest to an unknown name is searched


class NewAnnotators(NamedTuple):
    """Annotators that a model does not have yet; kinds and families are empty if all are unknown."""

    names: list[str]
    kinds: list[str]
    families: list[str]


class _Source(NamedTuple):
    """Changes with positions on axes of their own, and the names on these axes."""

    changes: VoteChanges
    doc_ids: Strings
    annotators: Strings
    classes: Strings
    kinds: Strings
    families: Strings


def parse_changes(
    votes: Any, doc_position: Mapping[str, int], annotators: Strings, classes: Strings
) -> tuple[VoteChanges, NewAnnotators]:
    """Changes from ``Votes`` or a long data frame; new annotators are numbered after those of the model."""
    source = _source(votes)
    given = source.changes
    doc = _positions(source.doc_ids, given.doc, doc_position, "document")
    label = _positions(source.classes, given.label, _numbered(classes), "class")
    known = _numbered(annotators)
    names = [name for name in source.annotators[np.unique(given.annotator)] if name not in known]
    annotator = _positions(source.annotators, given.annotator, known | _numbered(names, len(known)), "annotator")
    place = _numbered(source.annotators)
    traits = ([str(trait[place[name]]) for name in names] if len(trait) else [] for trait in source[-2:])
    return given._replace(doc=doc, annotator=annotator, label=label), NewAnnotators(names, *traits)


def _source(votes: Any) -> _Source:
    if isinstance(votes, Votes):
        changes = VoteChanges.of(votes, np.arange(votes.n_docs))
        traits = votes.annotator_kinds, votes.annotator_families
        return _Source(changes, votes.doc_ids, votes.annotators, votes.classes, *traits)
    if not hasattr(votes, "columns"):
        raise DataError(
            "votes must be Votes or a data frame with columns doc, annotator, label and value, not "
            f"{type(votes).__name__}"
        )
    if "value" in votes.columns:
        votes = votes.assign(value=votes["value"].where(~votes["value"].isin([-1, "-1"])))  # as a missing value
    records = VoteRecords.from_frame(votes, declared=False)
    unknown = np.full(len(records.value), np.nan)
    soft, times = (unknown if column is None else column for column in (records.probability, records.time))
    doc, annotator, label = (getattr(records, name).astype(np.int64) for name in ("doc", "annotator", "label"))
    changes = VoteChanges(
        doc, annotator, label, records.value.astype(np.int8), soft.astype(np.float64), times.astype(np.float64)
    )
    kinds, families = (
        names_array(()) if trait is None else trait for trait in (records.annotator_kinds, records.annotator_families)
    )
    return _Source(changes, records.doc_ids, records.annotators, records.classes, kinds, families)


def _numbered(names: Iterable[Any], first: int = 0) -> dict[str, int]:
    return {str(name): position for position, name in enumerate(names, first)}


def _positions(names: Strings, codes: NDArray[np.int64], known: Mapping[str, int], kind: str) -> NDArray[np.int64]:
    """Positions of names in the model; -1 stays -1. Only names that occur must be known."""
    place = np.full(len(names) + 1, -1, dtype=np.int64)
    for code in np.unique(codes[codes >= 0]):
        name = str(names[code])
        if name not in known:
            advice = "; add new documents with partial_fit" if kind == "document" else ""
            some = list(itertools.islice(known, _MAX_NAMES))
            raise DataError(validation.unknown_name(name, some, kind, len(known)) + advice)
        place[code] = known[name]
    return place[codes]
