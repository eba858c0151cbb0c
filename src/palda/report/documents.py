"""The documents that a report shows: the most contested and the least certain, with what spoke for and against."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.estimators import REST
from palda.report.records import number, script_json, shortened

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Votes
    from palda.report.records import Material

    Array = NDArray[np.float64]

__all__ = ["Document", "Documents", "LabelOfDocument", "WordEvidenceRecord", "selected_documents"]

MOST_DOCUMENTS = 400
BUDGET = 1_100_000
"""Bytes that all documents of a page may take together: the page stays below 3 MB."""

LONGEST_TEXT = 1500
MOST_LABELS = 8
"""Labels of a document that are shown, those in doubt and those disputed first."""

MOST_VOTERS = 60
"""Names of voters under one label."""

_N_EVIDENCE = 5
_NAME_SIZE = 100  # bytes that the name of an annotator may take


@dataclass(frozen=True)
class WordEvidenceRecord:
    """Words and their nats for and against a label; ``rest`` is what no shown word says, None if none was weighed."""

    pro: list[tuple[str, float]]
    con: list[tuple[str, float]]
    rest: float | None


_NO_EVIDENCE = WordEvidenceRecord([], [], None)


@dataclass(frozen=True)
class LabelOfDocument:
    """A label of a document: its probability, who voted how, and what the words say."""

    label: int
    prob: float
    yes: list[int]
    no: list[int]
    words: WordEvidenceRecord


@dataclass(frozen=True)
class Document:
    """A document, as the page shows it."""

    id: str
    text: str | None
    contested: float | None
    """Share of its votes that went against the majority on their label; None without votes."""
    doubt: float
    """How many of its labels are expected to be wrong."""
    labels: list[LabelOfDocument]


@dataclass(frozen=True)
class Documents:
    """Documents worth looking at, and why words were not weighed, if they were not."""

    shown: list[Document]
    n_all: int
    voters: list[tuple[str, float | None]]
    """What the numbers of voters point to: name, and quality unless the model does not know them."""
    no_evidence: str | None


def selected_documents(material: Material) -> Documents | None:
    """Documents from both ends of the page's interest, as many as its size allows; None if no label is known."""
    if material.probs is None:
        return None
    doubt = np.minimum(material.probs, 1.0 - material.probs).sum(axis=1)
    contested = None if material.votes is None else _contested(material.votes)
    rows = _worth_seeing(doubt, contested)
    labels = {row: _labels_worth_seeing(material.probs[row], material.votes, row) for row in rows}
    words, no_evidence = _evidence(material, labels)
    shown: list[Document] = []
    numbers: dict[int, int] = {}
    used = 0
    for row in rows:
        document = Document(
            id=shortened(material.doc_ids[row]),
            text=_text(material, row),
            contested=None if contested is None else number(contested[row]),
            doubt=round(float(doubt[row]), 3),
            labels=[
                LabelOfDocument(
                    label,
                    round(float(material.probs[row, label]), 4),
                    *_voters(material.votes, row, label, numbers),
                    words.get((row, label), _NO_EVIDENCE),
                )
                for label in labels[row]
            ],
        )
        used += len(script_json(asdict(document)).encode("utf-8", "replace"))
        if used + _NAME_SIZE * len(numbers) > BUDGET and shown:
            break
        shown.append(document)
    return Documents(shown, len(doubt), _names_of_voters(material, numbers), no_evidence)


def _names_of_voters(material: Material, numbers: dict[int, int]) -> list[tuple[str, float | None]]:
    if material.votes is None:
        return []
    table = material.model.annotator_quality_
    quality = dict(zip(table["annotator"], table["quality"], strict=True))
    names = material.votes.annotators[list(numbers)]
    return [(shortened(name), number(quality.get(name, np.nan), 2)) for name in names]


def _contested(votes: Votes) -> Array:
    """(documents,): share of the votes that disagree with most others on the same label; NaN without votes."""
    yes, total = votes.yes_per_pair(), votes.per_pair()
    n_votes = total.sum(axis=1)
    against = np.minimum(yes, total - yes).sum(axis=1)
    return np.where(n_votes > 0, against / np.maximum(n_votes, 1), np.nan)


def _worth_seeing(doubt: Array, contested: Array | None) -> list[int]:
    """Rows, alternately the next least certain and the next most contested one; among equals the less certain."""
    orders = [np.argsort(-doubt, kind="stable")]
    if contested is not None:
        orders.append(np.lexsort((-doubt, -np.nan_to_num(contested, nan=-1.0))))
    alternating = np.stack([order[:MOST_DOCUMENTS] for order in orders], axis=1).ravel()
    return list(dict.fromkeys(alternating.tolist()))[:MOST_DOCUMENTS]


def _text(material: Material, row: int) -> str | None:
    text = None if material.texts is None else material.texts[row]
    return None if text is None else shortened(text, LONGEST_TEXT)


def _labels_worth_seeing(probs: Array, votes: Votes | None, row: int) -> list[int]:
    """Classes that are likely or that somebody saw, in the order of their probability."""
    interest = probs
    if votes is not None:
        mine = slice(*votes.doc_starts[row : row + 2])
        n_votes = np.bincount(votes.label[mine], minlength=len(probs))
        n_yes = np.bincount(votes.label[mine], votes.value[mine], minlength=len(probs))
        interest = np.maximum(probs, n_yes / np.maximum(n_votes, 1))
    chosen = np.argsort(-interest, kind="stable")[:MOST_LABELS]
    return [int(label) for label in chosen[np.argsort(-probs[chosen], kind="stable")]]


def _voters(votes: Votes | None, row: int, label: int, numbers: dict[int, int]) -> tuple[list[int], list[int]]:
    """Who said that the label is there, and who said that it is not.

    Annotators get ``numbers`` as they come: of a large crowd the page names those alone that it shows.
    """
    if votes is None:
        return [], []
    mine = slice(*votes.doc_starts[row : row + 2])
    of_label = votes.label[mine] == label
    who, says = votes.annotator[mine][of_label], votes.value[mine][of_label]
    yes, no = (
        [numbers.setdefault(annotator, len(numbers)) for annotator in who[says == value][:MOST_VOTERS].tolist()]
        for value in (1, 0)
    )
    return yes, no


def _evidence(
    material: Material, labels: dict[int, list[int]]
) -> tuple[dict[tuple[int, int], WordEvidenceRecord], str | None]:
    """What words say, by document and class, and why they were not weighed, if they were not."""
    if material.counts is None:
        return {}, "Words were not weighed: the counts of the documents were not given."
    shown = dict(zip(material.model.vocabulary_, material.words, strict=True))
    found: dict[tuple[int, int], WordEvidenceRecord] = {}
    for label in sorted({label for chosen in labels.values() for label in chosen}):
        rows = [row for row, chosen in labels.items() if label in chosen]
        try:
            table = _explained(material, rows, label)
        except ValueError as refused:
            return {}, f"Words were not weighed: {refused}."
        group: Any
        for group, words in table.groupby("doc", sort=False):
            found[rows[group], label] = _for_and_against(words, shown)
    return found, None


def _explained(material: Material, rows: list[int], label: int) -> pd.DataFrame:
    assert material.counts is not None  # noqa: S101 - who calls has looked
    with warnings.catch_warnings():
        # columns are the model's own, whether or not they come with their names
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return material.model.explain(material.counts[rows], material.model.classes_[label])


def _for_and_against(table: pd.DataFrame, shown: dict[Any, str]) -> WordEvidenceRecord:
    """The strongest words on either side, as the page calls them; what is left of the sum is the rest."""
    pro: list[tuple[str, float]] = []
    con: list[tuple[str, float]] = []
    rest = 0.0
    for word, weight in zip(table["word"], table["weight"], strict=True):
        side = pro if weight > 0 else con
        if (isinstance(word, str) and word == REST) or len(side) == _N_EVIDENCE or not round(weight, 2):
            rest += weight
        else:
            side.append((shortened(shown[word]), round(float(weight), 2)))
    return WordEvidenceRecord(pro, con, round(rest, 2))
