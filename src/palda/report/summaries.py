"""Summaries of votes and fitted models, as printed by the command line."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from palda import metrics
from palda.data import Votes
from palda.models.crowd import VERDICTS
from palda.report.annotator_findings import changed_names, group_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Dataset, VoteRows
    from palda.estimators import Aggregation, CrowdPALDA
    from palda.io import ShardFolder
    from palda.models.crowd import GoldCheck, PanelSummary

_SUSPICIOUS = ("adversarial", "spammer")
_CERTAIN, _DOUBTFUL = 0.9, 0.7  # probability of the likelier answer: at least, and below
_MAX_VOTES = 20_000_000  # on disk, used to measure agreement
_MAX_CLASSES, _MAX_NAMES = 12, 20  # listed in a line


@dataclass(frozen=True)
class CrowdSummary:
    """Sizes, agreement, verdicts and certainty."""

    n_docs: int
    n_docs_with_votes: int
    n_votes: int
    n_annotators: int
    classes: list[str]
    agreement: float
    """Krippendorff's alpha of label sets: 1 is perfect agreement, 0 is chance."""
    verdicts: dict[str, int]
    """Number of annotators per verdict."""
    suspicious: dict[str, list[str]]
    """Names of adversarial annotators and spammers."""
    certain_share: float
    """Share of labels with a probability of at least 0.9 or at most 0.1."""
    n_doubtful: int
    """Number of labels with a probability between 0.3 and 0.7."""
    copies: list[list[str]]
    """Names of the members of each group of copies."""
    changes: dict[str, list[str]]
    """Names of annotators who got worse and better over time."""
    gold_check: dict[str, float] | None
    """Consensus against held-back gold labels: ``n_labels``, ``micro_f1`` and ``calibration_error``."""
    panel: dict[str, Any] | None
    """Models among the annotators: ``n_models``, ``n_people``, ``effective_votes``, ``text``, ...; None without."""
    converged: bool

    def as_dict(self) -> dict[str, Any]:
        """All fields by name."""
        return asdict(self)

    def lines(self) -> list[tuple[str, str]]:
        """Names and texts of the printed lines."""
        more = ", ..." if len(self.classes) > _MAX_CLASSES else ""
        certain = f"{self.certain_share:.0%} of the labels certain (probability ≥ 0.9 or ≤ 0.1)"
        return [
            ("documents", f"{self.n_docs:,}, {self.n_docs_with_votes:,} of them with votes"),
            ("votes", f"{self.n_votes:,} by {self.n_annotators:,} annotator{'' if self.n_annotators == 1 else 's'}"),
            ("classes", f"{len(self.classes)}: {', '.join(self.classes[:_MAX_CLASSES])}{more}"),
            ("agreement", self._agreement_text()),
            ("annotators", ", ".join(_verdict_text(number, verdict) for verdict, number in self.verdicts.items())),
            *((f"  {verdict}", _name_list(names)) for verdict, names in self.suspicious.items()),
            *([] if self.panel is None else [("models", self.panel["text"])]),
            *self._finding_lines(),
            ("consensus", f"{certain}, {self.n_doubtful:,} uncertain (0.3 to 0.7)"),
            *([] if self.gold_check is None else [("gold check", _gold_text(**self.gold_check))]),
        ]

    def _finding_lines(self) -> list[tuple[str, str]]:
        """Lines on copies and changes, if there are any."""
        lines = []
        if self.copies:
            names = [name for group in self.copies for name in group]
            groups = f"{len(self.copies):,} group{'' if len(self.copies) == 1 else 's'}"
            lines.append(("copies", f"{len(names):,} annotators in {groups} ({_name_list(names)})"))
        if self.changes:
            texts = [
                f"{len(names):,} annotator{'' if len(names) == 1 else 's'} got {kind} ({_name_list(names)})"
                for kind, names in self.changes.items()
            ]
            lines.append(("changes", ", ".join(texts)))
        return lines

    def _agreement_text(self) -> str:
        if np.isnan(self.agreement):
            return "unknown: no document has votes of two annotators on all classes, or all votes are the same"
        return f"{self.agreement:.2f} (Krippendorff's alpha of label sets; 1 is perfect agreement, 0 is chance)"


@dataclass(frozen=True)
class FitSummary(CrowdSummary):
    """Summary of a fitted model."""

    n_iter: int = 0
    n_topics: int = 0
    n_words: int = 0
    n_gold: int = 0
    thresholds: dict[str, float] = field(default_factory=dict)

    def lines(self) -> list[tuple[str, str]]:
        """Names and texts of the printed lines."""
        end = "converged" if self.converged else "did not converge (raise --max-iter)"
        fitted = f"{end} after {self.n_iter} iterations: {self.n_topics} topics, {self.n_words:,} words"
        known = f"{self.n_gold:,} of {self.n_docs * len(self.classes):,} labels are known (gold) and kept as they are"
        return [*super().lines(), *([("gold", known)] if self.n_gold else []), ("fit", fitted)]


def crowd_summary(votes: Votes, result: Aggregation) -> CrowdSummary:
    """Summary of votes and their consensus."""
    return CrowdSummary(
        **_crowd_fields(votes, result.consensus, result.annotator_quality),
        **_finding_fields(result.copies, result.changes, result.gold_check),
        panel=panel_fields(result.panel),
        converged=result.converged,
    )


def fit_summary(model: CrowdPALDA, dataset: Dataset | ShardFolder) -> FitSummary:
    """Summary of a fitted model and its training data."""
    return FitSummary(
        **_crowd_fields(dataset.votes, model.consensus_, model.annotator_quality_),
        **_finding_fields(model.copies_, model.changes_, model.gold_check_),
        panel=panel_fields(model.panel_),
        converged=bool(model.converged_),
        n_iter=int(model.n_iter_),
        n_topics=int(model.n_topics_),
        n_words=int(model.n_features_in_),
        n_gold=int(np.count_nonzero(dataset.gold >= 0)),
        thresholds=dict(zip(model.classes_.tolist(), model.thresholds_.tolist(), strict=True)),
    )


def _crowd_fields(votes: VoteRows, consensus: NDArray[np.float64], quality: pd.DataFrame) -> dict[str, Any]:
    names, verdicts = quality["annotator"].tolist(), quality["verdict"].tolist()
    numbers = Counter(verdicts)
    certainty = np.maximum(consensus, 1.0 - consensus)
    suspicious = {
        kind: [name for name, verdict in zip(names, verdicts, strict=True) if verdict == kind] for kind in _SUSPICIOUS
    }
    return {
        "n_docs": votes.n_docs,
        "n_docs_with_votes": int(np.count_nonzero(np.diff(votes.doc_starts))),
        "n_votes": len(votes),
        "n_annotators": votes.n_annotators,
        "classes": votes.classes.tolist(),
        "agreement": float(metrics.label_set_alpha(_votes_in_memory(votes)).alpha),
        "verdicts": {verdict: numbers[verdict] for verdict in VERDICTS if numbers[verdict]},
        "suspicious": {kind: listed for kind, listed in suspicious.items() if listed},
        "certain_share": float((certainty >= _CERTAIN).mean()),
        "n_doubtful": int(np.count_nonzero(certainty < _DOUBTFUL)),
    }


def _finding_fields(copies: pd.DataFrame, changes: pd.DataFrame, gold_check: GoldCheck | None) -> dict[str, Any]:
    scores = ("n_labels", "micro_f1", "calibration_error")
    return {
        "copies": [group["members"] for group in group_records(copies)],
        "changes": changed_names(changes),
        "gold_check": None if gold_check is None else {name: getattr(gold_check, name) for name in scores},
    }


def panel_fields(panel: PanelSummary | None) -> dict[str, Any] | None:
    """Fields and text of the summary of the models among annotators."""
    return None if panel is None else asdict(panel) | {"is_alone": panel.is_alone, "text": panel.text}


def _gold_text(n_labels: float, micro_f1: float, calibration_error: float) -> str:
    scores = f"micro-F1 {micro_f1:.3f}, calibration error {calibration_error:.3f}"
    return f"{scores} of the consensus on {n_labels:,} gold labels, each held back once"


def _votes_in_memory(votes: VoteRows) -> Votes:
    """All votes, or those on evenly spaced documents if there are too many on disk."""
    if isinstance(votes, Votes):
        return votes
    step = max(1, -(-len(votes) // _MAX_VOTES))
    return votes.take(np.arange(0, votes.n_docs, step))


def _verdict_text(number: int, verdict: str) -> str:
    phrases = {"spammer": "spammer" if number == 1 else "spammers", "too few votes": "with too few votes to tell"}
    return f"{number:,} {phrases.get(verdict, verdict)}"


def _name_list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
