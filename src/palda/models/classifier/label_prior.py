"""A fitted label prior: a classifier and its combinations with profiles."""

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

    from palda.data import Array
    from palda.models.classifier.external import ExternalClassifier
    from palda.models.topics import WordEvidenceModel


@dataclass(frozen=True, eq=False)
class LabelPrior:
    """Probabilities of a document's labels from its words, before votes."""

    classifier: LogisticClassifier | ExternalClassifier
    for_votes: Combination  # evidence to join votes
    for_words: Combination  # predictions without votes
    evidence_model: WordEvidenceModel | None = None  # of topics, if the classifier uses them

    def classifier_log_odds(self, counts: Any, topic_evidence: Array | None) -> Array:
        """Log-odds (documents, classes) of new documents by the classifier."""
        if not isinstance(self.classifier, LogisticClassifier):
            return self.classifier.log_odds(counts)
        return self.classifier.log_odds(counts if self.classifier.idf is not None else None, topic_evidence)


def combination_arrays(combination: Combination) -> dict[str, NDArray[Any]]:
    """The combination as arrays of a file."""
    arrays = {
        "weights": combination.profiles.weights,
        "rates": combination.profiles.rates,
        "base": combination.base,
        "mixture": np.array([combination.kappa, combination.share]),
    }
    if combination.platt is not None:
        arrays |= {
            "slope": combination.platt.slope,
            "offset": combination.platt.offset,
            "limit": np.array(combination.platt.limit),
        }
    return arrays


def combination_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Combination:
    """The combination whose ``combination_arrays`` these are."""
    kappa, share = (float(number) for number in arrays["mixture"])
    platt = Platt(arrays["slope"], arrays["offset"], float(arrays["limit"])) if "slope" in arrays else None
    return Combination(Profiles(arrays["weights"], arrays["rates"]), kappa, arrays["base"], share, platt)
