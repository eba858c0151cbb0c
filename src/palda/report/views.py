"""What is shown, as plain records: no colours, no widths, no files."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from palda import metrics
from palda.data import Votes
from palda.models.crowd import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Dataset, Strings, VoteRows
    from palda.estimators import PALDA, CrowdPALDA
    from palda.io import ShardFolder

    Array = NDArray[np.float64]
    Record = dict[str, Any]

__all__ = [
    "CrowdSummary",
    "FitSummary",
    "View",
    "annotator_view",
    "class_view",
    "crowd_summary",
    "fit_summary",
    "label_records",
    "majority_shares",
    "rate_view",
    "score_view",
    "shown_words",
    "suggestion_view",
    "telling_words",
    "topic_view",
]

SUSPICIOUS = ("adversarial", "spammer")
_CERTAIN, _DOUBTFUL = 0.9, 0.7
_BLOCK = 1000
_MOST_VOTES = 20_000_000  # on disk, that agreement is measured on
_ANNOTATOR_COLUMNS = {
    "annotator": "", "quality": ".2f", "low": ".2f", "high": ".2f", "sensitivity": ".2f", "specificity": ".2f",
    "n_votes": ",", "verdict": "",
}  # fmt: skip


@dataclass(frozen=True)
class View:
    """A table: rows as records, and the columns that people see, each with the format of its numbers."""

    title: str
    columns: dict[str, str]
    rows: list[Record]
    notes: tuple[str, ...] = ()

    def texts(self) -> Iterator[list[str]]:
        """Cells as people read them, row by row."""
        for row in self.rows:
            yield [_shown(row.get(name), form) for name, form in self.columns.items()]


def _shown(value: Any, form: str) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "-"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return format(value, form)


@dataclass(frozen=True)
class CrowdSummary:
    """What a crowd did, and what is thought of it."""

    n_docs: int
    n_docs_with_votes: int
    n_votes: int
    n_annotators: int
    classes: list[str]
    agreement: float
    """Krippendorff's alpha of label sets: 1 is perfect, 0 what chance would give."""
    verdicts: dict[str, int]
    suspicious: dict[str, list[str]]
    """Names of the annotators under each verdict that accuses somebody."""
    certain_share: float
    """Share of labels whose probability is at least .9 or at most .1."""
    n_doubtful: int
    """Labels whose probability lies between .3 and .7."""
    converged: bool

    def as_dict(self) -> Record:
        """Everything under its name."""
        return asdict(self)

    def lines(self) -> list[tuple[str, str]]:
        """What is counted, and the count in words."""
        listed = ", ".join(self.classes[:12]) + (", ..." if len(self.classes) > 12 else "")
        doubtful = f"{self.n_doubtful:,} in doubt (.3 to .7)"
        return [
            ("documents", f"{self.n_docs:,}, {self.n_docs_with_votes:,} of them with votes"),
            ("votes", f"{self.n_votes:,} by {self.n_annotators:,} annotator{'' if self.n_annotators == 1 else 's'}"),
            ("classes", f"{len(self.classes)}: {listed}"),
            ("agreement", self._agreement_text()),
            ("annotators", ", ".join(_people(number, verdict) for verdict, number in self.verdicts.items())),
            *((f"  {verdict}", _some(names)) for verdict, names in self.suspicious.items()),
            ("consensus", f"{self.certain_share:.0%} of the labels certain (beyond .9 or .1), {doubtful}"),
        ]

    def _agreement_text(self) -> str:
        if np.isnan(self.agreement):
            return "not known: no document was judged by two people, or all say the same of every document"
        return f"{self.agreement:.2f} (Krippendorff's alpha of label sets; 1 is perfect, 0 is chance)"


@dataclass(frozen=True)
class FitSummary(CrowdSummary):
    """The same of a fitted model, with what is known of its topics."""

    n_iter: int = 0
    n_topics: int = 0
    n_words: int = 0
    n_gold: int = 0
    thresholds: dict[str, float] = field(default_factory=dict)

    def lines(self) -> list[tuple[str, str]]:
        """What is counted, and the count in words."""
        end = "converged" if self.converged else "stopped before it converged (raise --max-iter)"
        fitted = f"{end} after {self.n_iter} rounds: {self.n_topics} topics over {self.n_words:,} words"
        known = f"{self.n_gold:,} of {self.n_docs * len(self.classes):,} labels (gold), believed as they are"
        return [*super().lines(), *([("known", known)] if self.n_gold else []), ("fit", fitted)]


def _people(number: int, verdict: str) -> str:
    spelled = {"spammer": "spammer" if number == 1 else "spammers", "too few votes": "with too few votes to tell"}
    return f"{number:,} {spelled.get(verdict, verdict)}"


def _some(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def crowd_summary(votes: Votes, consensus: Array, quality: pd.DataFrame, *, converged: bool) -> CrowdSummary:
    """Summary of votes and of what was found in them."""
    return CrowdSummary(**_counted(votes, consensus, quality), converged=converged)


def fit_summary(model: CrowdPALDA, dataset: Dataset | ShardFolder) -> FitSummary:
    """Summary of a fitted model and what it learned from."""
    return FitSummary(
        **_counted(dataset.votes, model.consensus_, model.annotator_quality_),
        converged=bool(model.converged_),
        n_iter=int(model.n_iter_),
        n_topics=int(model.n_topics_),
        n_words=int(model.n_features_in_),
        n_gold=int(np.count_nonzero(dataset.gold >= 0)),
        thresholds=dict(zip(model.classes_.tolist(), model.thresholds_.tolist(), strict=True)),
    )


def _counted(votes: VoteRows, consensus: Array, quality: pd.DataFrame) -> Record:
    names, found = quality["annotator"].tolist(), quality["verdict"].tolist()
    numbers = Counter(found)
    certainty = np.maximum(consensus, 1.0 - consensus)
    accused = {
        kind: [name for name, verdict in zip(names, found, strict=True) if verdict == kind] for kind in SUSPICIOUS
    }
    return {
        "n_docs": votes.n_docs,
        "n_docs_with_votes": int(np.count_nonzero(np.diff(votes.doc_starts))),
        "n_votes": len(votes),
        "n_annotators": votes.n_annotators,
        "classes": votes.classes.tolist(),
        "agreement": float(metrics.label_set_alpha(_in_memory(votes)).alpha),
        "verdicts": {verdict: numbers[verdict] for verdict in VERDICTS if numbers[verdict]},
        "suspicious": {kind: listed for kind, listed in accused.items() if listed},
        "certain_share": float((certainty >= _CERTAIN).mean()),
        "n_doubtful": int(np.count_nonzero(certainty < _DOUBTFUL)),
    }


def _in_memory(votes: VoteRows) -> Votes:
    """All votes, or of very many on disk those on documents that are evenly spread."""
    if isinstance(votes, Votes):
        return votes
    step = max(1, -(-len(votes) // _MOST_VOTES))
    return votes.take(np.arange(0, votes.n_docs, step))


def annotator_view(quality: pd.DataFrame) -> View:
    """Annotators, the best first, with 95% intervals of their quality."""
    ordered = quality.sort_values("quality", ascending=False, kind="stable")
    return View("", _ANNOTATOR_COLUMNS, _records(ordered))


def rate_view(rates: pd.DataFrame) -> View:
    """Sensitivity and specificity of each annotator in each class, with 95% intervals."""
    names = [str(name) for name in rates.columns]
    forms = {name: "" if name in {"annotator", "label"} else ".2f" for name in names}
    return View("", forms, _records(rates))


def _records(frame: pd.DataFrame) -> list[Record]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def label_records(
    doc_ids: Strings, probs: Array, classes: Sequence[str], thresholds: Array | float = 0.5, block: int = _BLOCK
) -> Iterator[list[Record]]:
    """A record a document, in blocks: its labels, and the probability of every class."""
    names = [str(name) for name in classes]
    present = probs >= thresholds
    for start in range(0, len(doc_ids), block):
        rows = slice(start, start + block)
        yield [
            {
                "doc": doc,
                "labels": [name for name, is_there in zip(names, there, strict=True) if is_there],
                "probabilities": dict(zip(names, numbers, strict=True)),
            }
            for doc, there, numbers in zip(
                doc_ids[rows].tolist(), present[rows].tolist(), probs[rows].tolist(), strict=True
            )
        ]


def suggestion_view(suggestions: pd.DataFrame) -> View:
    """Labels worth another vote, best first."""
    return View("", {"doc": "", "label": "", "probability": ".2f", "gain": ".3f"}, _records(suggestions))


def topic_view(model: PALDA | CrowdPALDA, n_words: int) -> View:
    """Topics, the most used first: their telling words, and the classes whose presence brings them."""
    prior = model.topic_prior_
    mixes = prior / prior.sum(axis=2, keepdims=True)  # (classes, 2, topics)
    shares = _topic_shares(model)
    brought = mixes[:, 1] - mixes[:, 0]
    telling = telling_words(model, n_words)
    rows = []
    for topic in np.argsort(-shares, kind="stable"):
        classes = [
            model.classes_[place] for place in _largest(brought[:, topic], 2) if brought[place, topic] > shares[topic]
        ]
        rows.append(
            {
                "topic": int(topic),
                "share": float(shares[topic]),
                "classes": [str(name) for name in classes],
                "words": _names(model, telling[topic]),
            }
        )
    return View("", {"topic": "", "share": ".1%", "classes": "", "words": ""}, rows)


def telling_words(model: PALDA | CrowdPALDA, n_words: int) -> list[NDArray[np.int64]]:
    """For each topic, columns of words that it writes often and other topics do not, the most telling first."""
    words = model.topic_words_
    typical = _topic_shares(model) @ words
    seen = np.maximum(words, np.finfo(np.float64).tiny)  # without smoothing a topic may never write a word
    return [_largest(row, n_words) for row in words * np.log(seen / np.maximum(typical, np.finfo(np.float64).tiny))]


def _topic_shares(model: PALDA | CrowdPALDA) -> Array:
    """Share of each topic in what is written."""
    prior = model.topic_prior_
    mixes = prior / prior.sum(axis=2, keepdims=True)
    rates = model.class_prior_[:, None]
    shares: Array = (rates * mixes[:, 1] + (1.0 - rates) * mixes[:, 0]).mean(axis=0)
    return shares


def class_view(model: PALDA | CrowdPALDA, n_words: int) -> View:
    """Classes: how frequent they are, and the words that their presence and their absence bring."""
    prior, words = model.topic_prior_, model.topic_words_
    mixes = prior / prior.sum(axis=2, keepdims=True)
    rows = []
    for place, name in enumerate(model.classes_):
        absent, present = np.maximum(mixes[place] @ words, np.finfo(np.float64).tiny)
        pull = (present + absent) * np.log(present / absent)
        rows.append(
            {
                "class": str(name),
                "share": float(model.class_prior_[place]),
                "presence_brings": _names(model, _largest(pull, n_words)),
                "absence_brings": _names(model, _largest(-pull, n_words)),
            }
        )
    return View("", {"class": "", "share": ".0%", "presence_brings": "", "absence_brings": ""}, rows)


def _largest(values: Array, number: int) -> NDArray[np.int64]:
    return np.argsort(-values, kind="stable")[:number]


def shown_words(model: PALDA | CrowdPALDA) -> NDArray[Any]:
    """A name for each column of X: a whole word where stems were counted and the model knows of what."""
    spellings: NDArray[Any] = getattr(model.words_, "spellings_", model.vocabulary_)
    return spellings


def _names(model: PALDA | CrowdPALDA, places: NDArray[np.int64]) -> list[str]:
    names = shown_words(model)
    return [str(names[place]) for place in places]


def majority_shares(votes: Votes) -> Array:
    """Share of "present" among the votes on each label; 0 where nobody voted."""
    shares: Array = votes.yes_per_pair() / np.maximum(votes.per_pair(), 1)
    return shares


def score_view(truth: NDArray[np.int8], methods: dict[str, tuple[Array, Array | float]]) -> View:
    """Measures of each method's probabilities, at its thresholds, against known labels; and of saying nothing."""
    rows: list[Record] = []
    for name, (probs, thresholds) in methods.items():
        rows.append({"method": name, **metrics.scores(truth, probs, thresholds=thresholds).as_dict()})
    nothing = metrics.scores(truth, predictions=metrics.nothing_baseline(*truth.shape)).as_dict()
    rows.append({"method": "no label at all", **nothing})
    n_known = int(np.count_nonzero(truth >= 0))
    note = f"{n_known:,} known labels of {int((truth >= 0).any(axis=1).sum()):,} documents"
    return View("", {"method": "", **dict.fromkeys(nothing, ".3f")}, rows, (note,))
