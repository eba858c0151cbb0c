"""Simulated votes of annotators whose rates change over time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from palda.data import Dataset, Votes, validation
from palda.errors import DataError
from palda.simulate.document_sampling import SimulatedDocuments, random_stream
from palda.simulate.vote_sampling import votes

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from palda.simulate.annotator_sampling import SimulatedAnnotators
    from palda.simulate.document_sampling import Floats

DriftShape = Literal["sudden", "gradual"]

_START, _SECONDS_PER_DOC = 1_700_000_000.0, 60.0  # of the first document, and between documents


def drifting_votes(
    labels: ArrayLike | SimulatedDocuments | Dataset,
    before: SimulatedAnnotators,
    after: SimulatedAnnotators,
    *,
    shape: DriftShape = "sudden",
    at: float = 0.5,
    seed: int = 0,
    **options: Any,
) -> Votes:
    """Votes, with times, of annotators whose rates change while they work.

    Documents are judged in their order, one per minute. An annotator starts with the rates ``before``. With the shape
    ``"sudden"`` the rates are those of ``after`` from the share ``at`` of the annotator's documents on. With
    ``"gradual"`` they move linearly from there on and reach ``after`` at the end, as of somebody who gets tired or
    learns. Annotators with the same rates in both do not change.

    Parameters
    ----------
    labels : array of shape (documents, classes), SimulatedDocuments or Dataset
        True labels, as in :func:`votes`.
    before, after : SimulatedAnnotators
        The annotators at the start and at the end, in the same order.
    shape : "sudden" or "gradual", default "sudden"
        How the rates change.
    at : float, default 0.5
        Share of an annotator's judged documents at which the change happens or starts, from 0 to 1.
    seed : int, default 0
        Random seed.
    **options
        Further options of :func:`votes`.

    Returns
    -------
    Votes
        The votes, with ``time``.

    Examples
    --------
    >>> from palda import simulate
    >>> news = simulate.newsroom(200, seed=0)
    >>> fresh = simulate.annotators([0.9, 0.8, 0.8], n_classes=10)
    >>> tired = simulate.annotators([0.6, 0.8, 0.8], n_classes=10)
    >>> votes = simulate.drifting_votes(news, fresh, tired, votes_per_doc=3, seed=0)
    >>> correct = votes.value == news.labels[votes.doc, votes.label]
    >>> first_half = votes.time < votes.time.mean()
    >>> [round(float(correct[(votes.annotator == 0) & half].mean()), 1) for half in (first_half, ~first_half)]
    [0.9, 0.6]
    """
    validation.require_choice(shape, get_args(DriftShape), "shape")
    validation.require_number(at, 0, 1, "at")
    if before.sensitivity.shape != after.sensitivity.shape:
        raise DataError(
            f"before has rates of shape {before.sensitivity.shape}, and after of shape {after.sensitivity.shape}"
        )
    # The same seed gives the same judged documents, so a vote is either of the two.
    first, last = (votes(labels, annotators, seed=seed, **options) for annotators in (before, after))
    progress = _progress(first)
    share_after = progress >= at if shape == "sudden" else (progress - at) / max(1.0 - at, np.finfo(float).tiny)
    changed = random_stream(seed, "drift").random(len(first)) < share_after
    return replace(
        first,
        value=np.where(changed, last.value, first.value),
        time=_START + _SECONDS_PER_DOC * first.doc.astype(np.float64),
    )


def _progress(given: Votes) -> Floats:
    """(votes,): share of the annotator's documents that were judged before the document of the vote."""
    view = given.annotator.astype(np.int64) * given.n_docs + given.doc
    views, position = np.unique(view, return_inverse=True)
    annotator = views // given.n_docs
    n_judged = np.bincount(annotator, minlength=given.n_annotators)
    first = np.cumsum(n_judged) - n_judged
    share: Floats = (np.arange(len(views)) - first[annotator]) / n_judged[annotator]
    return share[position]
