"""Simulated confidences: how probable annotators hold the votes that they cast."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from scipy.special import expit, logit

from palda.data import validation
from palda.errors import DataError
from palda.simulate.document_sampling import random_stream
from palda.simulate.vote_sampling import true_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from palda.data import Dataset, Votes
    from palda.simulate.document_sampling import Floats, SimulatedDocuments

ConfidenceKind = Literal["calibrated", "overconfident", "underconfident", "useless", "none"]

_EXAGGERATION = 3.0  # factor of the log-odds of overconfident annotators, and its inverse of underconfident ones
_MIN_SHARE = 0.02  # of correct and of wrong votes that confidences are drawn around


def confidences(
    votes: Votes,
    labels: ArrayLike | SimulatedDocuments | Dataset,
    kind: ConfidenceKind | Sequence[ConfidenceKind] = "calibrated",
    *,
    concentration: float = 3.0,
    seed: int = 0,
) -> Votes:
    """The same votes as soft votes: every annotator states how probable their votes are.

    A calibrated annotator who is certain to c is right in a share c of these votes. The hard values stay as they are.

    Parameters
    ----------
    votes : Votes
        Hard votes, such as those of :func:`votes`.
    labels : array of shape (documents, classes), SimulatedDocuments or Dataset
        True labels, 0 or 1.
    kind : str or sequence of str with one per annotator, default "calibrated"
        ``"calibrated"``; ``"overconfident"`` and ``"underconfident"``: the log-odds of calibrated confidences times 3
        and divided by 3; ``"useless"``: confidences that are independent of whether the vote is right; ``"none"``: hard
        votes.
    concentration : float, default 3
        How alike the confidences of an annotator are: right and wrong votes differ less with larger numbers.
    seed : int, default 0
        Random seed.

    Returns
    -------
    Votes
        The votes with ``probability``.

    Examples
    --------
    >>> from palda import simulate
    >>> news = simulate.newsroom(100, seed=0)
    >>> votes, _ = simulate.crowd(news, [0.9, 0.7, 0.8], votes_per_doc=2, seed=0)
    >>> soft = simulate.confidences(votes, news, ["calibrated", "none", "useless"], seed=0)
    >>> stated = soft.probability[soft.annotator == 0]
    >>> bool(stated.min() > 0 and stated.max() < 1)
    True
    """
    kinds = [kind] * votes.n_annotators if isinstance(kind, str) else list(kind)
    if len(kinds) != votes.n_annotators:
        raise DataError(f"{len(kinds)} kinds of confidences were given for {votes.n_annotators} annotators")
    for one in kinds:
        validation.require_choice(one, get_args(ConfidenceKind), "kind")
    validation.require_number(concentration, 1e-3, 1e6, "concentration")
    truth = true_labels(labels)
    validation.require_shape(truth, (votes.n_docs, votes.n_classes), "labels")
    right = truth[votes.doc, votes.label] == (votes.value == 1)
    cell = votes.annotator.astype(np.int64) * 2 + votes.value
    n_votes = np.bincount(cell, minlength=2 * votes.n_annotators)
    shares = np.bincount(cell, right, minlength=len(n_votes)) / np.maximum(n_votes, 1)
    share = np.clip(shares, _MIN_SHARE, 1.0 - _MIN_SHARE)[cell]
    kind_of = np.array(kinds, dtype=object)[votes.annotator]
    # If c ~ Beta(a, b) and a vote is right with probability c, then c given a right vote is Beta(a + 1, b).
    informed = kind_of != "useless"
    rng = random_stream(seed, "confidences")
    certain: Floats = rng.beta(
        concentration * share + (right & informed), concentration * (1.0 - share) + (~right & informed)
    )
    factors = {"overconfident": _EXAGGERATION, "underconfident": 1.0 / _EXAGGERATION}
    factor = np.array([factors.get(one, 1.0) for one in kinds])[votes.annotator]
    certain = expit(factor * logit(np.clip(certain, 1e-6, 1.0 - 1e-6)))
    stated = np.where(votes.value == 1, certain, 1.0 - certain)
    return replace(votes, probability=np.where(kind_of == "none", np.nan, stated).astype(np.float32))
