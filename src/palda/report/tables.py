"""Tables that the command line prints or exports: annotators, topics, classes, suggestions, scores, labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palda import metrics
from palda.report.annotator_findings import date_text, group_records
from palda.report.topics import characteristic_words, display_words, largest, state_mixtures, topic_shares

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Array, Strings, Votes
    from palda.estimators import PALDA, CrowdPALDA
    from palda.models.crowd import GoldCheck, PanelSummary

    Record = dict[str, Any]

_BLOCK = 1000  # documents per block of records
_TINY = np.finfo(np.float64).tiny
_ANNOTATOR_COLUMNS = {
    "annotator": "", "quality": ".2f", "low": ".2f", "high": ".2f", "sensitivity": ".2f", "specificity": ".2f",
    "n_votes": ",", "verdict": "",
}  # fmt: skip


@dataclass(frozen=True)
class TableView:
    """Rows as records, and the columns to print, each with the format of its numbers."""

    columns: dict[str, str]
    rows: list[Record]
    title: str = ""
    notes: tuple[str, ...] = ()

    def texts(self) -> Iterator[list[str]]:
        """Printed cells, row by row."""
        for row in self.rows:
            yield [_cell_text(row.get(name), form) for name, form in self.columns.items()]


def _cell_text(value: Any, form: str) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "-"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return format(value, form)


def annotator_table(quality: pd.DataFrame, panel: PanelSummary | None = None) -> TableView:
    """Annotators in descending order of quality, with 95% credible intervals, and a note on models among them."""
    rows = _records(quality.sort_values("quality", ascending=False, kind="stable"))
    return TableView(_ANNOTATOR_COLUMNS, rows, notes=() if panel is None else (panel.text,))


def rate_table(rates: pd.DataFrame) -> TableView:
    """Sensitivity and specificity per annotator and class, with 95% credible intervals."""
    names = [str(name) for name in rates.columns]
    return TableView({name: "" if name in {"annotator", "label"} else ".2f" for name in names}, _records(rates))


def copy_table(copies: pd.DataFrame) -> TableView:
    """Groups of annotators who repeat each other's votes."""
    columns = {
        "group": "", "members": "", "copy_share": ".0%", "agreement": ".0%", "expected_agreement": ".0%",
        "n_common": ",",
    }  # fmt: skip
    rows = group_records(copies)
    notes = ("no annotators repeat each other's votes",) if not rows else ()
    return TableView(columns, rows, notes=notes)


def change_table(changes: pd.DataFrame) -> TableView:
    """Changes of annotators' quality over time, in the order of time; exported with 95% intervals."""
    columns = {
        "annotator": "", "date": "", "kind": "", "quality_before": ".2f", "quality_after": ".2f", "n_before": ",",
        "n_after": ",",
    }  # fmt: skip
    ordered = changes.sort_values("time", kind="stable")
    span = float(ordered["time"].max() - ordered["time"].min()) if len(ordered) else 0.0
    rows = [{**row, "date": date_text(row["time"], span)} for row in _records(ordered)]
    notes = ("no changes were found; they are searched if votes have times",) if not rows else ()
    return TableView(columns, rows, notes=notes)


def suggestion_table(suggestions: pd.DataFrame) -> TableView:
    """Labels for which another vote is worth most, best first."""
    return TableView({"doc": "", "label": "", "probability": ".2f", "gain": ".3f"}, _records(suggestions))


def assignment_table(assignments: pd.DataFrame) -> TableView:
    """Who should judge which document next, best first."""
    forms = {"gain": ".3f", "price": ".2f"}
    return TableView({str(name): forms.get(str(name), "") for name in assignments.columns}, _records(assignments))


def _records(frame: pd.DataFrame) -> list[Record]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def label_records(
    doc_ids: Strings, probs: Array, classes: Sequence[str], thresholds: Array | float = 0.5, block: int = _BLOCK
) -> Iterator[list[Record]]:
    """One record per document, in blocks: its labels, and the probability of every class."""
    names = [str(name) for name in classes]
    present = probs >= thresholds
    for start in range(0, len(doc_ids), block):
        rows = slice(start, start + block)
        yield [
            {
                "doc": doc,
                "labels": [name for name, is_present in zip(names, flags, strict=True) if is_present],
                "probabilities": dict(zip(names, values, strict=True)),
            }
            for doc, flags, values in zip(
                doc_ids[rows].tolist(), present[rows].tolist(), probs[rows].tolist(), strict=True
            )
        ]


def topic_table(model: PALDA | CrowdPALDA, n_words: int) -> TableView:
    """Topics in descending order of share, with characteristic words and the classes whose presence raises them."""
    shares, mixtures = topic_shares(model), state_mixtures(model)
    increase = mixtures[:, 1] - mixtures[:, 0]  # (classes, topics)
    words = characteristic_words(model, n_words)
    rows = [
        {
            "topic": int(topic),
            "share": float(shares[topic]),
            "classes": [
                str(model.classes_[label])
                for label in largest(increase[:, topic], 2)
                if increase[label, topic] > shares[topic]
            ],
            "words": _names(model, words[topic]),
        }
        for topic in largest(shares, len(shares))
    ]
    return TableView({"topic": "", "share": ".1%", "classes": "", "words": ""}, rows)


def class_table(model: PALDA | CrowdPALDA, n_words: int) -> TableView:
    """Classes with their prevalence and the words that indicate presence and absence."""
    rows = []
    for name, rate, mixtures in zip(model.classes_, model.class_prior_, state_mixtures(model), strict=True):
        absent, present = np.maximum(mixtures @ model.topic_words_, _TINY)
        evidence = (present + absent) * np.log(present / absent)
        rows.append(
            {
                "class": str(name),
                "share": float(rate),
                "words_if_present": _names(model, largest(evidence, n_words)),
                "words_if_absent": _names(model, largest(-evidence, n_words)),
            }
        )
    return TableView({"class": "", "share": ".0%", "words_if_present": "", "words_if_absent": ""}, rows)


def _names(model: PALDA | CrowdPALDA, columns: NDArray[np.int64]) -> list[str]:
    return [str(name) for name in display_words(model)[columns]]


def majority_shares(votes: Votes) -> Array:
    """(documents, classes): share of "present" among the votes on each label; 0 without votes."""
    shares: Array = votes.yes_per_pair() / np.maximum(votes.per_pair(), 1)
    return shares


def score_table(
    truth: NDArray[np.int8], methods: dict[str, tuple[Array, Array | float]], gold_check: GoldCheck | None = None
) -> TableView:
    """Scores of each method's probabilities, at its thresholds, against known labels; and of predicting no label.

    ``gold_check`` adds what is known of the consensus on gold labels of the fit. Without other known labels, it is the
    only row.
    """
    nothing = metrics.scores(truth, predictions=metrics.nothing_baseline(*truth.shape)).as_dict()
    rows: list[Record] = []
    notes: list[str] = []
    known = truth >= 0
    if known.any():
        rows += [
            {"method": name, **metrics.scores(truth, probs, thresholds=thresholds).as_dict()}
            for name, (probs, thresholds) in methods.items()
        ]
        rows.append({"method": "no label at all", **nothing})
        notes.append(f"{int(np.count_nonzero(known)):,} known labels of {int(known.any(axis=1).sum()):,} documents")
    if gold_check is not None:
        held_back = {"micro_f1": gold_check.micro_f1, "calibration_error": gold_check.calibration_error}
        rows.append({"method": "consensus, gold held back", **dict.fromkeys(nothing, float("nan")), **held_back})
        notes.append(f"held back: {gold_check.n_labels:,} gold labels of {gold_check.n_docs:,} documents of the fit")
    return TableView({"method": "", **dict.fromkeys(nothing, ".3f")}, rows, notes=tuple(notes))
