"""A warning for classes whose labels contradict their votes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from palda.data import validation
from palda.errors import PaldaWarning
from palda.models.crowd import MIN_VOTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, Strings
    from palda.models.crowd import AnnotatorBelief


def warn_of_inverted_classes(
    belief: AnnotatorBelief, vote_counts: Array, classes: Strings, known: NDArray[np.int8]
) -> None:
    """Warn of classes whose votes as a whole are estimated to be wrong, although no known label says so.

    With rates per class, a class has a mirror image in which all its labels and rates are inverted, and votes alone
    cannot tell which is true.
    """
    if belief.posterior.ndim < 4 or belief.has_history.any():  # the same rates in all classes, or known ones
        return
    totals = vote_counts.sum(axis=0)  # (classes, states, 2)
    n_votes = totals.sum(axis=-1)
    informedness = np.sum(totals[..., 0] / np.maximum(n_votes, 1.0), axis=-1) - 1.0
    inverted = (informedness < 0) & (n_votes.min(axis=-1) >= MIN_VOTES) & (known < 0).all(axis=0)
    if inverted.any():
        names = validation.listed([str(name) for name in classes[inverted]])
        warnings.warn(
            f"the labels of {names} contradict most of their votes; give gold labels of some documents, or use "
            'annotators="two_coin"',
            PaldaWarning,
            stacklevel=3,
        )
