"""What the report shows, as plain records made from a fitted model: no markup here, and nothing is printed."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palda import metrics
from palda.io import package_version
from palda.report.views import telling_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from palda.data import Counts, Strings, Votes
    from palda.estimators import PALDA, CrowdPALDA

    Array = NDArray[np.float64]

__all__ = [
    "ClassRow",
    "ClassTopics",
    "Curve",
    "Fit",
    "Heat",
    "Material",
    "Summary",
    "Topic",
    "Vocabulary",
    "class_heat",
    "class_rows",
    "fit_record",
    "number",
    "rounded",
    "script_json",
    "shortened",
    "summary",
    "topics",
    "topics_by_class",
]

MOST_CLASSES = 300
"""Rows of the table of classes; the most frequent ones are shown."""

LARGEST_HEAT = 60
"""Names along a side of a heat map: more cannot be told apart."""

N_WORDS = 14
N_TOPICS = 6
_N_BINS = 10
_LONGEST_NAME = 80
_LONGEST_WORD = 30
_SURE = 0.05
"""A label is certain when its probability lies this close to 0 or 1."""

_LEAST_SHARE = 0.005
_LEAST = 1e-12
_MOST_PAIRS = 20_000_000  # of label sets that alpha compares
_IN_SCRIPTS = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})
_PACKAGES = ("palda", "numpy", "scipy", "scikit-learn", "numba")


@dataclass(frozen=True)
class Material:
    """A fitted model and what is known of its documents, row by row in the same order."""

    model: PALDA | CrowdPALDA
    classes: list[str]
    words: Strings
    doc_ids: list[str]
    probs: Array | None
    """(documents, classes): the consensus, or what the model predicts where there was no crowd; None if not known."""
    votes: Votes | None = None
    counts: Counts | None = None
    texts: list[str | None] | None = None

    @property
    def has_crowd(self) -> bool:
        """Whether the model learned from annotators."""
        return hasattr(self.model, "annotator_quality_")


@dataclass(frozen=True)
class Summary:
    """The whole at a glance; None for what cannot be known."""

    n_docs: int | None
    n_classes: int
    n_annotators: int | None
    n_votes: int | None
    n_words: int
    n_topics: int
    agreement: float | None
    sure_share: float | None
    labels_per_doc: float | None
    histogram: list[int] | None
    """How many labels have a probability in each twentieth from 0 to 1."""


@dataclass(frozen=True)
class Heat:
    """A square, symmetric table of numbers between -1 and 1, to be drawn in colours."""

    names: list[str]
    values: list[list[float | None]]
    details: list[list[str]] | None = None
    """What else there is to say about each cell."""
    n_all: int = 0
    """How many names there would be if all could be shown."""


@dataclass(frozen=True)
class Curve:
    """Calibration: what was predicted out of fold against what the consensus came to, bin by bin."""

    predicted: list[float | None]
    found: list[float | None]
    count: list[int]
    error: float | None


@dataclass(frozen=True)
class ClassRow:
    """A class, as the table shows it; ``number`` is its place in the model."""

    number: int
    name: str
    prevalence: float
    yes_share: float | None
    agreement: float | None
    threshold: float
    curve: Curve | None


@dataclass(frozen=True)
class ClassTopics:
    """What a class talks about when it is present and when it is absent.

    Words are (number, nats of evidence, share of what is written), numbered as in ``Vocabulary``; topics are (number,
    share).
    """

    present: list[tuple[int, float, float]]
    absent: list[tuple[int, float, float]]
    present_topics: list[tuple[int, float]]
    absent_topics: list[tuple[int, float]]


class Vocabulary:
    """Words that a page needs, numbered as they come: each is written once, however many classes it speaks for."""

    def __init__(self, words: Strings) -> None:
        self._words = words
        self._numbers: dict[int, int] = {}

    def number(self, column: int) -> int:
        """Number of a word, which is new if nobody has asked before."""
        return self._numbers.setdefault(column, len(self._numbers))

    def names(self) -> list[str]:
        """The words in the order of their numbers."""
        return [shortened(self._words[column], _LONGEST_WORD) for column in self._numbers]


@dataclass(frozen=True)
class Topic:
    """A topic's telling words, with their shares of what it writes."""

    words: list[tuple[str, float]]


@dataclass(frozen=True)
class Fit:
    """How the fit went, and with what."""

    bounds: list[float]
    vote_log_likelihoods: list[float]
    converged: bool
    n_iter: int
    worst_fall: float
    settings: list[tuple[str, str]]
    versions: list[tuple[str, str]]


def number(value: Any, digits: int = 4) -> float | None:
    """A number that JSON knows: rounded, and None where there is none."""
    plain = float(value)
    return round(plain, digits) if np.isfinite(plain) else None


def script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in, nor open a comment there."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_IN_SCRIPTS)


def shortened(name: object, longest: int = _LONGEST_NAME) -> str:
    """Text that does not break a page, whatever its length."""
    text = str(name)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def summary(material: Material) -> Summary:
    """Sizes, agreement, and how certain the labels are."""
    model, probs, votes = material.model, material.probs, material.votes
    n_votes = int(model.annotator_quality_["n_votes"].sum()) if material.has_crowd else None
    return Summary(
        n_docs=None if probs is None else len(probs),
        n_classes=len(material.classes),
        n_annotators=len(model.annotators_) if material.has_crowd else None,
        n_votes=n_votes if votes is None else len(votes),
        n_words=len(material.words),
        n_topics=int(model.n_topics_),
        agreement=None if votes is None else number(metrics.label_set_alpha(votes, max_pairs=_MOST_PAIRS).alpha),
        sure_share=None if probs is None else number(np.mean((probs < _SURE) | (probs > 1 - _SURE))),
        labels_per_doc=None if probs is None else number(probs.sum(axis=1).mean()),
        histogram=None if probs is None else np.histogram(probs, bins=20, range=(0.0, 1.0))[0].tolist(),
    )


def class_rows(material: Material) -> list[ClassRow]:
    """Classes from frequent to rare."""
    model, votes = material.model, material.votes
    prevalence = model.class_prior_ if material.probs is None else material.probs.mean(axis=0)
    yes_share = agreement = np.full(len(prevalence), np.nan)
    judged = None
    if votes is not None:
        judged = votes.per_pair()
        yes_share = votes.yes_per_pair().sum(axis=0) / np.maximum(judged.sum(axis=0), 1)
        agreement = metrics.krippendorff_alpha(votes)
    return [
        ClassRow(
            number=int(i),
            name=shortened(material.classes[i]),
            prevalence=round(float(prevalence[i]), 4),
            yes_share=number(yes_share[i]),
            agreement=number(agreement[i]),
            threshold=round(float(model.thresholds_[i]), 4),
            curve=_curve(material, int(i), judged),
        )
        for i in np.argsort(-prevalence, kind="stable")[:MOST_CLASSES]
    ]


def _curve(material: Material, label: int, judged: NDArray[np.int64] | None) -> Curve | None:
    """Only what was predicted for documents unseen can be held against their labels."""
    predicted = getattr(material.model, "out_of_fold_probs_", None)
    if predicted is None or not material.has_crowd or material.probs is None:
        return None
    rows = slice(None) if judged is None else judged[:, label] > 0
    given, found = predicted[rows, label], material.probs[rows, label]
    bins = np.minimum((given * _N_BINS).astype(np.int64), _N_BINS - 1)
    count = np.bincount(bins, minlength=_N_BINS)
    size = np.maximum(count, 1)
    mean_given, mean_found = (np.bincount(bins, part, minlength=_N_BINS) / size for part in (given, found))
    gaps = np.abs(mean_given - mean_found)
    return Curve(
        predicted=[number(mean) if n else None for mean, n in zip(mean_given, count, strict=True)],
        found=[number(mean) if n else None for mean, n in zip(mean_found, count, strict=True)],
        count=count.tolist(),
        error=number(np.average(gaps, weights=count)) if count.sum() else None,
    )


def class_heat(material: Material, rows: list[ClassRow]) -> Heat | None:
    """Correlations between classes over documents, the most frequent classes first."""
    if material.probs is None or len(rows) < 2 or len(material.probs) < 2:
        return None
    chosen = [row.number for row in rows[:LARGEST_HEAT]]
    centred = material.probs[:, chosen] - material.probs[:, chosen].mean(axis=0)
    spread = np.sqrt((centred**2).sum(axis=0))
    scale = np.outer(spread, spread)
    correlation = np.where(scale > _LEAST, centred.T @ centred / np.maximum(scale, _LEAST), np.nan)
    np.fill_diagonal(correlation, np.nan)
    return Heat([row.name for row in rows[:LARGEST_HEAT]], rounded(correlation), n_all=len(material.classes))


def rounded(values: Array) -> list[list[float | None]]:
    """A table of numbers that JSON knows."""
    return [[number(value, 3) for value in row] for row in values]


def topics(material: Material) -> list[Topic]:
    """What each topic is about."""
    weights, order = material.model.topic_words_, telling_words(material.model, N_WORDS)
    return [
        Topic(
            [
                (shortened(material.words[word], _LONGEST_WORD), round(float(probs[word]), 4))
                for word in chosen
                if probs[word] > 0
            ]
        )
        for probs, chosen in zip(weights, order, strict=True)
    ]


def topics_by_class(material: Material, rows: Iterable[ClassRow], vocabulary: Vocabulary) -> list[ClassTopics]:
    """What the presence and the absence of each class bring: words, and the topics they come from.

    A word's strength is log P(word | one state) / P(word | the other), in nats. Words are ranked by strength times
    rate, so that a word has to be both telling and written.
    """
    beta = material.model.topic_words_
    prior = material.model.topic_prior_
    mixes = prior / prior.sum(axis=-1, keepdims=True)
    found = []
    for row in rows:
        absent, present = (np.maximum(mixes[row.number, state] @ beta, _LEAST) for state in (0, 1))
        strength = np.log(present / absent)
        found.append(
            ClassTopics(
                present=_strongest(strength, present, vocabulary),
                absent=_strongest(-strength, absent, vocabulary),
                present_topics=_largest(mixes[row.number, 1]),
                absent_topics=_largest(mixes[row.number, 0]),
            )
        )
    return found


def _strongest(strength: Array, rate: Array, vocabulary: Vocabulary) -> list[tuple[int, float, float]]:
    order = np.argsort(-strength * rate, kind="stable")[:N_WORDS]
    chosen = sorted((int(word) for word in order if strength[word] > 0), key=lambda word: -strength[word])
    return [(vocabulary.number(word), round(float(strength[word]), 3), float(f"{rate[word]:.3g}")) for word in chosen]


def _largest(mix: Array) -> list[tuple[int, float]]:
    """The topics with the largest shares, without those that would be shown as 0%, unless all would."""
    order = np.argsort(-mix, kind="stable")[:N_TOPICS]
    chosen = [topic for topic in order if mix[topic] >= _LEAST_SHARE] or order[:1]
    return [(int(topic), round(float(mix[topic]), 4)) for topic in chosen]


def fit_record(material: Material) -> Fit:
    """How the bound grew, whether it settled, and what was asked for."""
    model = material.model
    settings = [(name, shortened(repr(value), 300)) for name, value in sorted(model.get_params(deep=False).items())]
    return Fit(
        bounds=_finite(model.lower_bounds_),
        vote_log_likelihoods=_finite(getattr(model, "vote_log_likelihoods_", np.empty(0))),
        converged=bool(model.converged_),
        n_iter=int(model.n_iter_),
        worst_fall=float(model.worst_fall_),
        settings=[("estimator", type(model).__name__), *settings],
        versions=[("python", platform.python_version()), *((name, package_version(name)) for name in _PACKAGES)],
    )


def _finite(values: Array) -> list[float]:
    return [float(f"{value:.8g}") for value in values[np.isfinite(values)]]
