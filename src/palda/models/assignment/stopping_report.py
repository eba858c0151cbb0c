"""The report of a labelling project: what is still wrong, what further votes would bring, and whether to stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from palda.data import Array
    from palda.models.assignment.stopping import Calibration


SHARED_ERRORS = "errors that all annotators share are not covered; known labels of randomly drawn documents show them"


@dataclass(frozen=True)
class StoppingReport:
    """Expected errors of the consensus, calibrated on check votes, and what further votes would bring.

    A vote is one look of an annotator at a document. Bounds hold with a probability of 90%, however often one looks.

    Attributes
    ----------
    n_docs, n_labels : int
        Documents, and labels: documents times classes that have votes or known labels.
    n_votes : int
        Votes so far, check votes and votes on known labels included.
    expected_wrong, upper_wrong : float
        Expected number of wrong labels after the best decisions, and its upper bound.
    wrong_per_doc : ndarray of shape (n_docs,)
        Expected number of wrong labels of each document, as the consensus says, without calibration.
    expected_f1, lower_f1 : float
        Expected micro-F1 and its lower bound.
    wrong_after_one_vote : float
        Expected number of wrong labels after one more vote on every document by a typical annotator.
    fixed_votes_per_doc : float
        Votes on every document that would have been needed for as few wrong labels; infinite above 20.
    n_check_docs, n_check_votes : int
        Check documents, and votes on them that no policy chose.
    check_disagreements, expected_disagreements : float
        Check votes on single labels against the consensus without them, and their expected number.
    calibration : Calibration
        Slope of the log-odds with its central 90%.
    uses_random_gold : bool
        Whether known labels of randomly drawn documents took part in the calibration.
    n_gold_labels, gold_wrong : int
        Known labels that were held back, and how many of them the consensus without them has wrong.
    expected_gold_wrong : float
        How many of them should be wrong by this report.
    contradicted : bool
        Whether so many are wrong that the report cannot be right; no target is then met.
    target_error, target_f1 : float or None
        The targets.
    met : bool or None
        Whether the bounds meet the targets; None without a target.

    Notes
    -----
    Without texts, ``wrong_after_one_vote`` and ``fixed_votes_per_doc`` are NaN and there are no check votes.
    """

    n_docs: int
    n_labels: int
    n_votes: int
    expected_wrong: float
    upper_wrong: float
    wrong_per_doc: Array = field(repr=False)
    expected_f1: float
    lower_f1: float
    wrong_after_one_vote: float
    fixed_votes_per_doc: float
    n_check_docs: int
    n_check_votes: int
    check_disagreements: float
    expected_disagreements: float
    calibration: Calibration
    uses_random_gold: bool
    n_gold_labels: int = 0
    gold_wrong: int = 0
    expected_gold_wrong: float = 0.0
    contradicted: bool = False
    target_error: float | None = None
    target_f1: float | None = None
    met: bool | None = None

    @property
    def wrong_share(self) -> float:
        """Expected share of labels that are wrong."""
        return self.expected_wrong / max(self.n_labels, 1)

    @property
    def upper_share(self) -> float:
        """Upper bound of the share of labels that are wrong."""
        return self.upper_wrong / max(self.n_labels, 1)

    @property
    def fixed_cost(self) -> float:
        """Votes that a fixed number per document would have cost for as few wrong labels."""
        return self.fixed_votes_per_doc * self.n_docs

    @property
    def contradiction(self) -> str:
        """What contradicts the report, in one sentence; empty if nothing does."""
        if not self.contradicted:
            return ""
        return (
            f"known labels contradict this report: {self.gold_wrong:,} of {self.n_gold_labels:,} held-back gold labels "
            f"are wrong, {self.expected_gold_wrong:,.1f} are expected; more labels are wrong than it says"
        )

    def __str__(self) -> str:
        lines = [
            *([self.contradiction.upper()] if self.contradicted else []),
            f"{self.n_votes:,} votes on {self.n_docs:,} documents ({self.n_votes / max(self.n_docs, 1):.2f} each)",
            f"labels expected wrong: {self.expected_wrong:,.0f} of {self.n_labels:,} ({self.wrong_share:.2%})",
            f"at most {self.upper_wrong:,.0f} ({self.upper_share:.2%}) with a probability of 90%",
            f"expected micro-F1: {self.expected_f1:.3f}, at least {self.lower_f1:.3f} with a probability of 90%",
        ]
        if not np.isnan(self.wrong_after_one_vote):
            lines.append(f"after one more vote on every document: {self.wrong_after_one_vote:,.0f} wrong")
        if not np.isnan(self.fixed_votes_per_doc):
            lines += [self._fixed_line(), self._check_line()]
        if self.n_gold_labels:
            lines.append(
                f"held-back gold labels: {self.gold_wrong:,} of {self.n_gold_labels:,} wrong, "
                f"{self.expected_gold_wrong:,.1f} expected"
            )
        if not self.uses_random_gold:
            lines.append(SHARED_ERRORS)
        if self.contradicted and self.met is not None:
            lines.append("target not met: the numbers above are too low")
        elif self.met is not None:
            lines.append("target met: stop" if self.met else "target not met: go on")
        return "\n".join(lines)

    def _fixed_line(self) -> str:
        if self.fixed_votes_per_doc == float("inf"):
            return "a fixed number of votes per document would have cost more than 20 each for as few errors"
        return (
            f"a fixed number of votes per document would have cost {self.fixed_cost:,.0f} for as few errors "
            f"({self.fixed_votes_per_doc:.1f} each)"
        )

    def _check_line(self) -> str:
        if not self.calibration.n_votes:
            return "no check votes yet: the bound assumes that probabilities are about as good as in other projects"
        return (
            f"{self.n_check_votes:,} check votes on {self.n_check_docs:,} random documents: "
            f"{self.check_disagreements:,.0f} judgements against the consensus without them, "
            f"{self.expected_disagreements:,.0f} expected; slope of the log-odds {self.calibration.slope:.2f} "
            f"({self.calibration.low:.2f} to {self.calibration.high:.2f})"
        )
