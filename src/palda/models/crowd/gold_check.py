"""The consensus against known labels that are hidden from it: F1, and calibration of its probabilities.

Known labels are hidden one fold of documents at a time. EM continues from its last state without them, so that neither
the label itself nor what it taught about annotators, and about the link from support to truth, is left, and the
posterior of the hidden labels is compared with them. Last, all are hidden: known labels that were not drawn at random
must not make a consensus more certain of its other labels than votes do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from palda import metrics
from palda.data import ArraySpec, vote_blocks
from palda.models.crowd.em import cut_votes, fit_crowd, gold_evidence, label_posterior, with_link
from palda.models.crowd.link import learned_link, unlearned_link
from palda.models.crowd.support import SupportBelief

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.data import Array, VoteRows
    from palda.models.crowd.em import CrowdSettings, CrowdState, GoldEvidence

MIN_GOLD = 30
"""Known labels with votes below which the consensus is not compared with them."""

_N_FOLDS = 5
_MAX_ROUNDS = 10  # of EM without a fold; 50 changed the calibration error of simulated crowds by less than .001
_N_BINS = 10

GOLD_CHECK_ARRAYS = {
    "n_docs": ArraySpec((), "integer", low=1, group="gold check"),
    "micro_f1": ArraySpec((), low=0.0, high=1.0, group="gold check"),
    "mean_prob": ArraySpec((_N_BINS,), low=0.0, high=1.0, nan=True, group="gold check"),
    "share_present": ArraySpec((_N_BINS,), low=0.0, high=1.0, nan=True, group="gold check"),
    "count": ArraySpec((_N_BINS,), "integer", low=0, group="gold check"),
    "doc": ArraySpec(("held-back labels",), "int64", low=0, below="documents", group="held-back labels"),
    "label_probs": ArraySpec(("held-back labels",), low=0.0, high=1.0, group="held-back labels"),
    "probs_without_gold": ArraySpec(("held-back labels",), low=0.0, high=1.0, group="held-back labels"),
    "truth": ArraySpec(("held-back labels",), "int8", low=0, high=1, group="held-back labels"),
    "wrong_without_gold": ArraySpec((), low=0.0, group="held-back labels"),
}
"""Schema of a ``GoldCheck`` in a file; files of fits without enough gold labels have none, those of 0.2 no labels."""

_LABEL_FIELDS = ("doc", "label_probs", "probs_without_gold", "truth", "wrong_without_gold")


@dataclass(frozen=True, eq=False)
class GoldCheck:
    """Consensus against held-back gold labels.

    Attributes
    ----------
    n_docs : int
        Number of documents with the labels.
    micro_f1 : float
        Micro-averaged F1 score of the labels with a probability of at least 1/2.
    mean_prob, share_present : ndarray of shape (10,)
        Mean probability and share of labels that are present, per tenth of probability; NaN for those without labels.
    count : ndarray of shape (10,)
        Number of labels per tenth of probability.
    doc : ndarray of shape (n_labels,)
        Positions of the documents of the labels; empty for model files of version 0.2, as are the next three.
    label_probs, probs_without_gold : ndarray of shape (n_labels,)
        Probabilities without the label, and without any gold label.
    truth : ndarray of shape (n_labels,)
        The labels: 1 and 0.
    wrong_without_gold : float
        Expected number of wrong labels of the consensus without any gold label, over its expected number with them,
        among labels that are not known.
    """

    n_docs: int
    micro_f1: float
    mean_prob: Array
    share_present: Array
    count: NDArray[np.int64]
    doc: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64), repr=False)
    label_probs: Array = field(default_factory=lambda: np.empty(0), repr=False)
    probs_without_gold: Array = field(default_factory=lambda: np.empty(0), repr=False)
    truth: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, dtype=np.int8), repr=False)
    wrong_without_gold: float = 1.0

    @property
    def n_labels(self) -> int:
        """Number of labels that were compared."""
        return int(self.count.sum())

    @property
    def calibration_error(self) -> float:
        """Expected calibration error (ECE): mean distance of probability and share over the labels."""
        filled = self.count > 0
        gaps = np.abs(self.mean_prob - self.share_present)[filled]
        return float(np.average(gaps, weights=self.count[filled]))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The check as arrays of a file."""
        names = [name for name in GOLD_CHECK_ARRAYS if len(self.doc) or name not in _LABEL_FIELDS]
        return {name: np.asarray(getattr(self, name)) for name in names}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> GoldCheck | None:
        """The check whose ``arrays`` these are; None without arrays."""
        if not arrays:
            return None
        tables: dict[str, Any] = {name: arrays[name] for name in ("mean_prob", "share_present", "count")}
        if not tables["count"].any() or (np.isnan(tables["mean_prob"]) != (tables["count"] == 0)).any():
            raise ValueError("the numbers of gold labels are damaged")
        labels: dict[str, Any] = {name: arrays[name] for name in _LABEL_FIELDS if name in arrays}
        if labels:
            labels["wrong_without_gold"] = float(labels["wrong_without_gold"])
            if len(labels["doc"]) != tables["count"].sum():
                raise ValueError("the numbers of gold labels differ")
        return cls(int(arrays["n_docs"]), float(arrays["micro_f1"]), **tables, **labels)


def check_gold(
    votes: VoteRows,
    known: NDArray[np.int8],
    state: CrowdState,
    settings: CrowdSettings,
    extra: Array | None = None,
    *,
    seed: int = 0,
) -> GoldCheck | None:
    """The consensus against known labels with votes, each hidden once; None if they are fewer than ``MIN_GOLD``.

    ``state`` is that of a fit to the same votes with all known labels; ``extra`` (documents, classes) is other evidence
    in nats. Known labels without votes are not compared: they say nothing about a consensus.
    """
    if np.count_nonzero(known >= 0) < MIN_GOLD:
        return None
    has_votes = np.concatenate([some.per_pair() > 0 for _, some in vote_blocks(votes)])
    truth = np.where(has_votes, known, np.int8(-1))
    if np.count_nonzero(truth >= 0) < MIN_GOLD:
        return None
    docs = np.flatnonzero((truth >= 0).any(axis=1))
    fold = np.arange(len(docs)) % _N_FOLDS
    np.random.default_rng(seed).shuffle(fold)
    settings = replace(settings, max_iter=_MAX_ROUNDS)
    evidence = None
    judged: NDArray[np.bool_] = np.any(has_votes, axis=0)
    if isinstance(state.belief, SupportBelief) and state.belief.panel is None:
        # without what the hidden labels have taught about the link
        unlearned = with_link(state, unlearned_link(votes.n_classes), judged)
        evidence = gold_evidence(votes.take(docs), unlearned, settings, None if extra is None else extra[docs])
    probs = np.zeros((len(docs), votes.n_classes))
    for hidden in range(min(_N_FOLDS, len(docs))):
        rows = docs[fold == hidden]
        visible = known.copy()
        visible[rows] = -1
        linked = _linked(state, evidence, visible[docs], judged)
        probs[fold == hidden] = _refitted(votes, visible, extra, linked, settings)[rows]
    unknown = np.full_like(known, -1)
    without = _refitted(votes, unknown, extra, _linked(state, evidence, unknown[docs], judged), settings)
    with_gold = label_posterior(votes, known, state, settings, extra)
    expected = [float(np.minimum(table, 1.0 - table)[known < 0].sum()) for table in (without, with_gold)]
    truth = truth[docs]
    curve = metrics.calibration_curve(truth, probs, _N_BINS)
    f1 = float(metrics.micro_f1(truth, (probs >= 0.5).astype(np.int8)))
    row, label = np.nonzero(truth >= 0)
    return GoldCheck(
        len(docs),
        f1,
        curve.mean_prob,
        curve.share_true,
        curve.count,
        docs[row],
        np.clip(probs[row, label], 0.0, 1.0),
        np.clip(without[docs[row], label], 0.0, 1.0),
        truth[row, label],
        expected[0] / max(expected[1], 1e-9),
    )


def _refitted(
    votes: VoteRows, known: NDArray[np.int8], extra: Array | None, state: CrowdState, settings: CrowdSettings
) -> Array:
    """Labels (documents, classes) of a fit that goes on from a state with fewer known labels."""
    return fit_crowd(cut_votes(votes, known, extra), state, settings).label_probs


def _linked(
    state: CrowdState, evidence: GoldEvidence | None, visible: NDArray[np.int8], judged: NDArray[np.bool_]
) -> CrowdState:
    """The state with the link that the visible known labels teach."""
    if evidence is None:
        return state
    link = learned_link(evidence.supports, visible, unlearned_link(visible.shape[1]), evidence.offsets)
    return with_link(state, link, judged)
