"""Classes that nobody voted on and that have no known labels: they count as absent."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from palda.data import validation, vote_blocks
from palda.errors import PaldaWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import VoteRows


def with_unvoted_absent(known: NDArray[np.int8], votes: VoteRows) -> NDArray[np.int8]:
    """Known labels (documents, classes) for a fit, with every class absent that has neither votes nor known labels.

    Without data the base rate of a class is that of its prior, 1/2, so that each document would have the class. Warns
    of these classes. The array that is given stays as it is.
    """
    unvoted = ~judged_classes(known, votes)
    if not unvoted.any():
        return known
    names = validation.listed([str(name) for name in votes.classes[unvoted]])
    warnings.warn(
        f"nobody voted on {names}, and there are no gold labels: absent in all documents; leave such classes out, or "
        "give votes or gold labels",
        PaldaWarning,
        stacklevel=3,
    )
    return np.where(unvoted, np.int8(0), known)


def judged_classes(known: NDArray[np.int8], votes: VoteRows) -> NDArray[np.bool_]:
    """(classes,): whether a class has votes or ``known`` labels (documents, classes; -1 if not)."""
    n_votes = np.zeros(votes.n_classes, dtype=np.int64)
    for _, some in vote_blocks(votes):
        n_votes += np.bincount(some.label, minlength=votes.n_classes)
    return np.asarray((n_votes > 0) | (known >= 0).any(axis=0))
