"""Expected quality of a consensus: what a stopping report says, from labels, check votes and held-back known labels.

How far votes are about the truth is not to be seen in votes: without known labels it is a prior over crowds. Known
labels that were held back from a fit show it. Were their documents drawn at random, they narrow the bound; otherwise
they can only make it larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, gammainc, logit

from palda.models.assignment.stopping import (
    Calibration,
    ExpectedQuality,
    LabelHistogram,
    calibrate,
    design_effect,
    gold_log_likelihoods,
    micro_f1,
    no_calibration,
    slopes,
)
from palda.models.crowd import SupportBelief

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array
    from palda.models.crowd import AnnotatorBelief, GoldCheck

PEOPLE_LINK_SPREAD, MODELS_LINK_SPREAD = 0.3, 0.5
"""Scale of the logarithm of the slope of the link, for labels that people have judged and for those of models alone.

The slope at which the expected number of wrong labels is the true one, ``python -m benchmarks real_gold``, votes alone:
its logarithm is -.06 to -.01 for two people of brighter_arq, -.02 to .02 for three, -.19 to -.15 for five, -.20 to -.17
for two of brighter_hin, .16 for ambient, -.37 to .48 for csta (12 to 27 wrong labels). With a scale of .25 the bound
held in 80 of 100 samples of csta with three answers, in all of the others. With models alone, on which the panel's
constants were chosen, it is -.10 (premo), -.03 and .49 (babe, with one prompt and with all): hence the wider scale.
"""

_MIN_PROB = 1e-9
_SURPRISE = 0.01  # probability of as many wrong known labels, below which they contradict a report


class HeldBackLabels(NamedTuple):
    """Known labels and their probabilities without them, (labels,) each."""

    doc: NDArray[np.int64]
    label_probs: Array  # of a fit with the other known labels
    probs_without: Array  # of a fit without any known label
    truth: NDArray[np.int8]

    @property
    def n_wrong(self) -> int:
        """Number of labels whose more probable state is not the true one."""
        return int(np.sum((self.label_probs >= 0.5) != (self.truth == 1)))

    def expected_wrong(self, slope: float) -> float:
        """Expected number of wrong labels, if log-odds are multiplied by a slope."""
        log_odds = logit(np.clip(self.label_probs, _MIN_PROB, 1.0 - _MIN_PROB))
        return float(expit(-slope * np.abs(log_odds)).sum())

    def contradict(self, calibration: Calibration) -> bool:
        """Whether a calibration gives so many wrong ones a probability below .01 (maths, eq. 110)."""
        if not self.n_wrong:
            return False
        likely = np.flatnonzero(calibration.posterior > 1e-6)
        expected = np.array([self.expected_wrong(float(slope)) for slope in slopes()[likely]])
        effect = design_effect(self.label_probs, self.truth, self.doc)
        tails = gammainc(self.n_wrong / effect, np.maximum(expected, 1e-9) / effect)  # of a Poisson distribution
        return bool(calibration.posterior[likely] @ tails < _SURPRISE)


class CheckEvidence(NamedTuple):
    """What check votes say about the slope of the votes."""

    log_likelihoods: Array  # (slopes,)
    n_votes: int


@dataclass(frozen=True, eq=False)
class StoppingInputs:
    """What a stopping report is made of, besides the texts and votes of the documents."""

    label_probs: Array
    """(documents, classes): the consensus. Classes that nobody judged are left out: they are not known to be absent."""
    known: NDArray[np.int8]
    """(documents, classes): known labels, -1 for unknown."""
    link_spread: float
    held_back: HeldBackLabels | None = None
    caution: float = 1.0
    """Expected number of wrong labels without any known label, over that with them."""
    check: CheckEvidence | None = None

    @classmethod
    def of(cls, label_probs: Array, known: NDArray[np.int8], spread: float, check: GoldCheck | None) -> StoppingInputs:
        """Inputs without check votes, from a consensus and its comparison with known labels."""
        if check is None or not len(check.doc):
            return cls(label_probs, known, spread)
        held_back = HeldBackLabels(check.doc, check.label_probs, check.probs_without_gold, check.truth)
        return cls(label_probs, known, spread, held_back, check.wrong_without_gold)


@dataclass(frozen=True, eq=False)
class StoppingQuality:
    """Expected quality at the calibrated slope, and the upper bound of the number of wrong labels."""

    expected: ExpectedQuality
    upper_wrong: float
    calibration: Calibration
    n_labels: int
    held_back: HeldBackLabels | None
    is_contradicted: bool

    @property
    def lower_f1(self) -> float:
        """Micro-F1 with as many wrong labels as the bound."""
        return micro_f1(self.expected.found, self.upper_wrong)

    @property
    def expected_gold_wrong(self) -> float:
        """Expected number of wrong labels among the held-back known ones."""
        return 0.0 if self.held_back is None else self.held_back.expected_wrong(self.calibration.slope)

    def meets(self, target_error: float | None, target_f1: float | None) -> bool | None:
        """Whether the bounds meet all targets, and known labels do not contradict them; None without a target."""
        if target_error is None and target_f1 is None:
            return None
        if not self.n_labels:
            return False
        few = target_error is None or self.upper_wrong <= target_error * self.n_labels
        return not self.is_contradicted and few and (target_f1 is None or self.lower_f1 >= target_f1)


def stopping_quality(inputs: StoppingInputs, *, random_gold: bool) -> StoppingQuality:
    """Expected quality of a consensus, calibrated on check votes and held-back known labels (maths, eq. 109)."""
    histogram = LabelHistogram.of(inputs.label_probs, inputs.known)
    check, gold = inputs.check, inputs.held_back
    of_votes = np.zeros(len(slopes())) if check is None else check.log_likelihoods
    n_votes = 0 if check is None else check.n_votes
    calibration = calibrate(of_votes, n_votes, inputs.link_spread) if n_votes else no_calibration(inputs.link_spread)
    upper, contradicted = calibration.upper_wrong(histogram), gold is not None and gold.contradict(calibration)
    if gold is not None and len(gold.doc):
        # Few known labels may be lucky ones, and what they taught a fit then looks right on those that were held back,
        # too. A fit without them has no such part in them: the larger of both bounds counts.
        found = []
        for probs in (gold.label_probs, gold.probs_without):
            of_gold = gold_log_likelihoods(probs, gold.truth, gold.doc)
            found.append(calibrate(of_votes, n_votes + len(gold.doc), inputs.link_spread, of_gold))
        with_gold, caution = found[0], max(inputs.caution, 1.0)
        upper_with_gold = max(with_gold.upper_wrong(histogram), inputs.caution * found[1].upper_wrong(histogram))
        if random_gold:
            calibration, upper = with_gold, upper_with_gold
            contradicted = gold.contradict(calibration)
        else:
            upper *= caution
            if upper_with_gold > upper:
                calibration, upper = with_gold, upper_with_gold
    n_unknown = histogram.n_labels - histogram.n_known
    contradicted &= n_unknown > 0  # else there is nothing that could be wrong
    # The numbers of wrong labels are taken as normal, and the caution is a factor: few labels pass the number there is.
    upper = min(upper, float(n_unknown))
    return StoppingQuality(
        histogram.quality(calibration.slope), upper, calibration, histogram.n_labels, gold, contradicted
    )


def link_spread(belief: AnnotatorBelief, judged_by_people: float) -> float:
    """Scale of the logarithm of the slope of the link; 0 for annotator models that have none.

    ``judged_by_people`` is the share of the judged labels that people have judged; the others were judged by models.
    """
    if not isinstance(belief, SupportBelief):
        return 0.0
    return judged_by_people * PEOPLE_LINK_SPREAD + (1.0 - judged_by_people) * MODELS_LINK_SPREAD


def report_fields(
    quality: StoppingQuality, target_error: float | None, target_f1: float | None, *, random_gold: bool
) -> dict[str, Any]:
    """Fields of a ``StoppingReport`` that follow from the expected quality."""
    gold = quality.held_back
    return {
        "n_labels": quality.n_labels,
        "expected_wrong": quality.expected.wrong,
        "upper_wrong": quality.upper_wrong,
        "expected_f1": quality.expected.f1,
        "lower_f1": quality.lower_f1,
        "calibration": quality.calibration,
        "uses_random_gold": random_gold and gold is not None,
        "n_gold_labels": 0 if gold is None else len(gold.doc),
        "gold_wrong": 0 if gold is None else gold.n_wrong,
        "expected_gold_wrong": quality.expected_gold_wrong,
        "contradicted": quality.is_contradicted,
        "target_error": target_error,
        "target_f1": target_f1,
        "met": quality.meets(target_error, target_f1),
    }


def check_targets(target_error: Any, target_f1: Any) -> None:
    """Raise unless targets are None or between 0 and 1."""
    for name, value in (("target_error", target_error), ("target_f1", target_f1)):
        if value is not None and not (isinstance(value, (int, float, np.number)) and 0.0 < value < 1.0):
            raise ValueError(f"{name}={value!r:.60} must be a number between 0 and 1")
