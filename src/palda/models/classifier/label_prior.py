"""A fitted label prior: a head and the profiles it is joined with, for documents with votes and without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.models.classifier.calibration import Platt
from palda.models.classifier.combination import Combination
from palda.models.classifier.logistic import LogisticClassifier
from palda.models.crowd import Profiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.models.classifier.external import ExternalClassifier
    from palda.models.topics import WordEvidenceModel

    Array = NDArray[np.float64]

__all__ = ["LabelPrior", "combination_arrays", "combination_from_arrays"]


@dataclass(frozen=True, eq=False)
class LabelPrior:
    """What is believed of a document's labels once it was read."""

    classifier: LogisticClassifier | ExternalClassifier
    for_votes: Combination  # how the head's opinion joins votes
    for_words: Combination  # how it is turned into a prediction where nobody voted
    evidence_model: WordEvidenceModel | None = None  # of what topics say about each class, if the head wants to know

    def classifier_log_odds(self, counts: Any, topic_evidence: Array | None) -> Array:
        """What the head says about new documents."""
        if not isinstance(self.classifier, LogisticClassifier):
            return self.classifier.log_odds(counts)
        return self.classifier.log_odds(counts if self.classifier.idf is not None else None, topic_evidence)

    def log_odds(self, counts: Any, topic_evidence: Array | None) -> Array:
        """Log-odds (documents, classes) of new documents that nobody has voted on."""
        return self.for_words.log_odds(self.classifier_log_odds(counts, topic_evidence))


def combination_arrays(joined: Combination) -> dict[str, NDArray[Any]]:
    """Everything it is made of, ready for an npz file."""
    arrays = {
        "weights": joined.profiles.weights,
        "rates": joined.profiles.rates,
        "base": joined.base,
        "mixture": np.array([joined.kappa, joined.share]),
    }
    if joined.platt is not None:
        arrays |= {"slope": joined.platt.slope, "offset": joined.platt.offset, "limit": np.array(joined.platt.limit)}
    return arrays


def combination_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Combination:
    """What ``combination_arrays`` was taken from."""
    kappa, share = (float(number) for number in arrays["mixture"])
    platt = Platt(arrays["slope"], arrays["offset"], float(arrays["limit"])) if "slope" in arrays else None
    return Combination(Profiles(arrays["weights"], arrays["rates"]), kappa, arrays["base"], share, platt)
