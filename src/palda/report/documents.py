"""The documents that a report shows: those with most disagreement and those with the least certain labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda.io import visible
from palda.report.values import rounded, script_json, shortened

if TYPE_CHECKING:
    import pandas as pd

    from palda.data import Array, Votes
    from palda.report.inputs import ReportInputs

MAX_DOCUMENTS = 400
MAX_BYTES = 1_100_000
"""Size of all documents together; it keeps the page below 3 MB."""

MAX_TEXT_LENGTH = 1500
_MAX_LABELS = 8  # per document
_MAX_VOTERS = 60  # names per label and answer
_MAX_WORDS = 5  # per label and direction
_NAME_BYTES = 100  # allowance for the name of an annotator


_NO_EVIDENCE: dict[str, Any] = {"pro": [], "con": [], "features": [], "rest": None}


def selected_documents(inputs: ReportInputs) -> dict[str, Any] | None:
    """The most uncertain and most disputed documents, limited by ``MAX_BYTES``; None without label probabilities.

    The expected errors of a document are the sum over classes of the probability of the less likely answer. ``voters``
    holds name and quality by voter number; the quality is None for annotators that the model does not know.
    ``no_evidence`` says why evidence of words and features is missing.
    """
    if inputs.probs is None:
        return None
    expected_errors = np.minimum(inputs.probs, 1.0 - inputs.probs).sum(axis=1)
    disagreement = None if inputs.votes is None else _disagreement(inputs.votes)
    rows = _selected_rows(expected_errors, disagreement)
    labels = {row: _selected_labels(inputs.probs[row], inputs.votes, row) for row in rows}
    words, no_evidence = _word_evidence(inputs, labels)
    shown: list[dict[str, Any]] = []
    voter_numbers: dict[int, int] = {}
    n_bytes = 0
    for row in rows:
        text = None if inputs.texts is None else inputs.texts[row]
        document = {
            "id": shortened(inputs.doc_ids[row]),
            "text": None if text is None else shortened(text, MAX_TEXT_LENGTH, keep="\n\t"),
            "disagreement": None if disagreement is None else rounded(disagreement[row]),
            "expected_errors": round(float(expected_errors[row]), 3),
            "labels": [
                {
                    "label": label,
                    "prob": round(float(inputs.probs[row, label]), 4),
                    **_voters(inputs.votes, row, label, voter_numbers),
                    "words": words.get((row, label), _NO_EVIDENCE),
                }
                for label in labels[row]
            ],
        }
        n_bytes += len(script_json(document).encode("utf-8", "replace"))
        if n_bytes + _NAME_BYTES * len(voter_numbers) > MAX_BYTES and shown:
            break
        shown.append(document)
    voters = _voter_names(inputs, voter_numbers)
    return {"shown": shown, "n_all": len(expected_errors), "voters": voters, "no_evidence": no_evidence}


def _voter_names(inputs: ReportInputs, voter_numbers: dict[int, int]) -> list[tuple[str, float | None]]:
    if inputs.votes is None:
        return []
    table = inputs.model.annotator_quality_
    quality = dict(zip(table["annotator"], table["quality"], strict=True))
    names = inputs.votes.annotators[list(voter_numbers)]
    return [(shortened(name), rounded(quality.get(name, np.nan), 2)) for name in names]


def _disagreement(votes: Votes) -> Array:
    """(documents,): share of votes that differ from the majority on their label; NaN without votes."""
    yes, total = votes.yes_per_pair(), votes.per_pair()
    n_votes = total.sum(axis=1)
    minority = np.minimum(yes, total - yes).sum(axis=1)
    return np.where(n_votes > 0, minority / np.maximum(n_votes, 1), np.nan)


def _selected_rows(expected_errors: Array, disagreement: Array | None) -> list[int]:
    """Rows, alternating between the next by expected errors and the next by disagreement."""
    orders = [np.argsort(-expected_errors, kind="stable")]
    if disagreement is not None:
        orders.append(np.lexsort((-expected_errors, -np.nan_to_num(disagreement, nan=-1.0))))
    alternating = np.stack([order[:MAX_DOCUMENTS] for order in orders], axis=1).ravel()
    return list(dict.fromkeys(alternating.tolist()))[:MAX_DOCUMENTS]


def _selected_labels(probs: Array, votes: Votes | None, row: int) -> list[int]:
    """Classes with a high probability or a high share of votes, in descending order of probability."""
    interest = probs
    if votes is not None:
        own = slice(*votes.doc_starts[row : row + 2])
        n_votes = np.bincount(votes.label[own], minlength=len(probs))
        n_yes = np.bincount(votes.label[own], votes.value[own], minlength=len(probs))
        interest = np.maximum(probs, n_yes / np.maximum(n_votes, 1))
    chosen = np.argsort(-interest, kind="stable")[:_MAX_LABELS]
    return [int(label) for label in chosen[np.argsort(-probs[chosen], kind="stable")]]


def _voters(votes: Votes | None, row: int, label: int, voter_numbers: dict[int, int]) -> dict[str, list[int]]:
    """Numbers of the annotators who voted "present" and "absent"; new annotators are added to ``voter_numbers``."""
    if votes is None:
        return {"yes": [], "no": []}
    own = slice(*votes.doc_starts[row : row + 2])
    of_label = votes.label[own] == label
    annotators, values = votes.annotator[own][of_label], votes.value[own][of_label]
    return {
        answer: [
            voter_numbers.setdefault(annotator, len(voter_numbers))
            for annotator in annotators[values == value][:_MAX_VOTERS].tolist()
        ]
        for answer, value in (("yes", 1), ("no", 0))
    }


def _word_evidence(
    inputs: ReportInputs, labels: dict[int, list[int]]
) -> tuple[dict[tuple[int, int], dict[str, Any]], str | None]:
    """Evidence by document and class, or the reason why there is none."""
    missing = _missing_input(inputs)
    if missing:
        return {}, f"Evidence is not shown: the report was written without {missing}."
    display = dict(zip(inputs.model.vocabulary_, inputs.words, strict=True))
    evidence: dict[tuple[int, int], dict[str, Any]] = {}
    for label in sorted({label for chosen in labels.values() for label in chosen}):
        rows = [row for row, chosen in labels.items() if label in chosen]
        try:
            table = inputs.explained(rows, label)
        except ValueError as error:
            return {}, f"Evidence is not shown: {visible(str(error))}."
        group: Any
        for group, words in table.groupby("doc", sort=False):
            evidence[rows[group], label] = _strongest_words(words, display)
    return evidence, None


def _missing_input(inputs: ReportInputs) -> str:
    """What ``explain`` needs and the report does not have; "" if nothing is missing."""
    if inputs.counts is None and inputs.model.n_features_in_:
        return "word counts"
    return "features" if inputs.features is None and inputs.model.feature_names_ is not None else ""


def _strongest_words(table: pd.DataFrame, display: dict[Any, str]) -> dict[str, Any]:
    """The strongest words for and against a label, and features, in nats; ``rest`` is the sum of all others."""
    sides: dict[str, list[tuple[str, float]]] = {"pro": [], "con": [], "features": []}
    rest = 0.0
    for word, weight, kind in zip(table["word"], table["weight"], table["kind"], strict=True):
        side = sides["features" if kind == "feature" else "pro" if weight > 0 else "con"]
        if kind == "rest" or len(side) == _MAX_WORDS or not round(weight, 2):
            rest += weight
        else:
            side.append((shortened(display[word] if kind == "word" else word), round(float(weight), 2)))
    return {**sides, "rest": round(rest, 2)}
