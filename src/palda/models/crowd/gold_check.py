"""The consensus against known labels that are hidden from it: F1, and calibration of its probabilities.

Known labels are hidden one fold of documents at a time. EM continues from its last state without them, so that neither
the label itself nor what it taught about annotators is left, and the posterior of the hidden labels is compared with
them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from palda import metrics
from palda.data import ArraySpec, vote_blocks
from palda.models.crowd.em import cut_votes, fit_crowd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.data import Array, VoteRows
    from palda.models.crowd.em import CrowdSettings, CrowdState

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
}
"""Schema of a ``GoldCheck`` in a file; files of fits without enough gold labels have none."""


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
    """

    n_docs: int
    micro_f1: float
    mean_prob: Array
    share_present: Array
    count: NDArray[np.int64]

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
        return {name: np.asarray(getattr(self, name)) for name in GOLD_CHECK_ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> GoldCheck | None:
        """The check whose ``arrays`` these are; None without arrays."""
        if not arrays:
            return None
        tables = {name: arrays[name] for name in ("mean_prob", "share_present", "count")}
        if not tables["count"].any() or (np.isnan(tables["mean_prob"]) != (tables["count"] == 0)).any():
            raise ValueError("the numbers of gold labels are damaged")
        return cls(int(arrays["n_docs"]), float(arrays["micro_f1"]), **tables)


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
    probs = np.zeros((len(docs), votes.n_classes))
    for hidden in range(min(_N_FOLDS, len(docs))):
        rows = docs[fold == hidden]
        visible = known.copy()
        visible[rows] = -1
        fit = fit_crowd(cut_votes(votes, visible, extra), state, settings)
        probs[fold == hidden] = fit.label_probs[rows]
    truth = truth[docs]
    curve = metrics.calibration_curve(truth, probs, _N_BINS)
    f1 = float(metrics.micro_f1(truth, (probs >= 0.5).astype(np.int8)))
    return GoldCheck(len(docs), f1, curve.mean_prob, curve.share_true, curve.count)
