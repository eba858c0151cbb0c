"""A fitted label prior: a head and the profiles it is joined with, for documents with votes and without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.priors.calibration import Platt
from palda.priors.joined import Joined
from palda.priors.label_sets import Profiles
from palda.priors.logistic import Head

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from palda.model.predict import Reader
    from palda.priors.wrapped import WrappedHead

    Array = NDArray[np.float64]

__all__ = ["LearnedPrior", "joined_arrays", "joined_from"]


@dataclass(frozen=True, eq=False)
class LearnedPrior:
    """What is believed of a document's labels once it was read."""

    head: Head | WrappedHead
    for_votes: Joined  # how the head's opinion joins votes
    for_words: Joined  # how it is turned into a prediction where nobody voted
    reader: Reader | None = None  # of what topics say about each class, if the head wants to know

    def head_log_odds(self, counts: Any, topic_evidence: Array | None) -> Array:
        """What the head says about new documents."""
        if not isinstance(self.head, Head):
            return self.head.log_odds(counts)
        return self.head.log_odds(counts if self.head.idf is not None else None, topic_evidence)

    def log_odds(self, counts: Any, topic_evidence: Array | None) -> Array:
        """Log-odds (documents, classes) of new documents that nobody has voted on."""
        return self.for_words.log_odds(self.head_log_odds(counts, topic_evidence))


def joined_arrays(joined: Joined) -> dict[str, NDArray[Any]]:
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


def joined_from(arrays: Mapping[str, NDArray[Any]]) -> Joined:
    """What ``joined_arrays`` was taken from."""
    kappa, share = (float(number) for number in arrays["mixture"])
    platt = Platt(arrays["slope"], arrays["offset"], float(arrays["limit"])) if "slope" in arrays else None
    return Joined(Profiles(arrays["weights"], arrays["rates"]), kappa, arrays["base"], share, platt)
