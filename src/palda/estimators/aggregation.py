"""Consensus and annotator quality from votes alone, without texts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from palda.engine import Threads, resolve_n_jobs
from palda.errors import DataError
from palda.estimators.inputs import as_votes, gold_table
from palda.estimators.inverted_classes import warn_of_inverted_classes
from palda.estimators.parameters import ANNOTATOR_MODELS, check_parameters
from palda.models.crowd import (
    AnnotatorHistory,
    CrowdSettings,
    CrowdState,
    belief_from_labels,
    check_gold,
    choose_n_profiles,
    count_votes,
    cut_votes,
    find_vote_sources,
    fit_crowd,
    initial_label_probs,
    parse_annotator_prior,
    quality_table,
    start_belief,
    start_label_probs,
    start_state,
    summarize_annotators,
    with_profiles,
    with_useful_levels,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Array, Strings, Votes
    from palda.models.crowd import GoldCheck, Profiles, VoteSources


@dataclass(frozen=True)
class Aggregation:
    """Result of :func:`aggregate`.

    Attributes
    ----------
    consensus : ndarray of shape (n_documents, n_classes)
        Probability that each class is present.
    annotator_quality : DataFrame
        One row per annotator, with the columns of ``CrowdPALDA.annotator_quality_``.
    profiles : Profiles
        Label-set profiles: ``weights`` (n_profiles,) and ``rates`` (n_profiles, n_classes).
    log_likelihoods : ndarray of shape (n_iter,)
        Objective after each iteration of EM: log-likelihood of the votes minus the divergence of posteriors from
        priors. It never decreases.
    converged : bool
        Whether EM reached ``tol``.
    doc_ids : ndarray of shape (n_documents,)
        Document ids.
    classes : ndarray of shape (n_classes,)
        Class names.
    sources : VoteSources
        What rates were learned for, if not for each annotator; see ``copies`` and ``changes``.
    gold_check : GoldCheck or None
        The consensus against gold labels that have votes, each held back once, as ``CrowdPALDA.gold_check_``; None with
        fewer than 30 such labels.
    """

    consensus: Array
    annotator_quality: pd.DataFrame
    profiles: Profiles
    log_likelihoods: Array
    converged: bool
    doc_ids: Strings
    classes: Strings
    sources: VoteSources
    gold_check: GoldCheck | None = None

    @property
    def n_iter(self) -> int:
        """Number of iterations of EM."""
        return len(self.log_likelihoods)

    @property
    def copies(self) -> pd.DataFrame:
        """Annotators who repeat each other's votes, with the columns of ``CrowdPALDA.copies_``."""
        return self.sources.copies_table(self.annotator_quality["annotator"].to_numpy(dtype=object))

    @property
    def changes(self) -> pd.DataFrame:
        """Changes of annotators' rates over time, with the columns of ``CrowdPALDA.changes_``."""
        return self.sources.changes.to_frame(self.annotator_quality["annotator"].to_numpy(dtype=object))

    def to_frame(self, *, wide: bool = False) -> pd.DataFrame:
        """Consensus as a data frame.

        Parameters
        ----------
        wide : bool, default=False
            One row per document, indexed by its id, and one column per class, instead of one row per document and
            class.

        Returns
        -------
        DataFrame
            Columns ``doc``, ``label`` and ``probability``; or the classes if ``wide``.
        """
        import pandas as pd

        if wide:
            index = pd.Index(self.doc_ids, name="doc")
            return pd.DataFrame(self.consensus, index=index, columns=pd.Index(self.classes, name="label"))
        return pd.DataFrame(
            {
                "doc": np.repeat(self.doc_ids, len(self.classes)),
                "label": np.tile(self.classes, len(self.doc_ids)),
                "probability": self.consensus.ravel(),
            }
        )


def aggregate(
    votes: Any,
    annotators: str = "auto",
    n_profiles: int | str = "auto",
    gold: Any = None,
    annotator_prior: Any = None,
    *,
    copies: bool = True,
    drift: bool = True,
    max_iter: int = 500,
    tol: float = 1e-6,
    n_jobs: int | None = None,
    random_state: int = 0,
) -> Aggregation:
    """Consensus and annotator quality from votes, without texts.

    Each document has one of several label-set profiles, which give a probability per class, so that classes may occur
    together. Each annotator reports a class correctly with an annotator-specific probability (maths, eqs. 36-46).

    Parameters
    ----------
    votes : Votes, DataFrame or array-like of shape (n_documents, n_annotators, n_classes)
        ``Votes``; a long data frame with columns doc, annotator, label and value; or an array of 1 and 0, with -1 or
        NaN for no vote. Numbers between 0 and 1 are soft votes; what they are worth is learned for each annotator.
    annotators : {"auto", "two_coin", "one_coin", "per_class"}, default="auto"
        Annotator model. ``"auto"``: sensitivity and specificity per annotator and class, partially pooled; the votes
        decide how much they differ by class. ``"two_coin"``: the same for all classes. ``"one_coin"``: one rate for
        both, as published. ``"per_class"``: per annotator and class, pooled within each class only.
    n_profiles : int or "auto", default="auto"
        Number of label-set profiles. 1 makes classes independent. ``"auto"`` uses as many as improve the prediction of
        held-out votes.
    gold : array-like of shape (n_documents, n_classes) or DataFrame, default=None
        Known labels: 1, 0, and -1 or NaN for unknown. Rows and columns of a data frame are matched by document id and
        class; it may leave out either.
    annotator_prior : DataFrame or mapping, default=None
        Earlier knowledge of annotators: ``annotator_quality`` of an earlier result, or a mapping from annotator to
        quality or to (sensitivity, specificity).
    copies : bool, default=True
        Whether annotators who repeat each other's votes are searched; a group of them then votes as one.
    drift : bool, default=True
        Whether changes of annotators' rates over time are searched, if votes have times. An annotator then has rates
        per period where that predicts held-out votes better.
    max_iter : int, default=500
        Maximum number of iterations of EM.
    tol : float, default=1e-6
        EM stops when its objective grows by less than this fraction.
    n_jobs : int, default=None
        Number of threads; None uses all cores. The result does not depend on it.
    random_state : int, default=0
        Random seed of the held-out votes and of the start of the profiles.

    Returns
    -------
    Aggregation
        Consensus, annotator quality and profiles.

    Raises
    ------
    DataError
        If votes or gold cannot be used.
    ValueError
        If a parameter is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> from palda import aggregate
    >>> votes = np.array([[[1], [1], [0]], [[0], [0], [1]], [[1], [1], [-1]]])  # documents, annotators, classes
    >>> aggregate(votes, n_profiles=1).consensus.round().ravel().tolist()
    [1.0, 0.0, 1.0]
    """
    parameters: dict[str, Any] = {"annotators": annotators, "n_profiles": n_profiles, "max_iter": max_iter, "tol": tol}
    parameters |= {"copies": copies, "drift": drift}
    parameters |= {"n_jobs": n_jobs, "random_state": random_state}
    own = {"tol": [Interval(Real, 0, 1, closed="both")], "random_state": [Interval(Integral, 0, None, closed="left")]}
    check_parameters("aggregate", parameters, **own)
    given = as_votes(votes)
    if 0 in (given.n_docs, given.n_annotators, given.n_classes):
        raise DataError(
            "votes need at least one document, annotator and class; there are "
            f"{given.n_docs}, {given.n_annotators} and {given.n_classes}"
        )
    settings = CrowdSettings(ANNOTATOR_MODELS[annotators](), max_iter, tol, Threads(resolve_n_jobs(n_jobs)))
    known = gold_table(gold, given)
    guess = initial_label_probs(given, known)
    sources = find_vote_sources(given, known, guess, settings, copies=copies, drift=drift, seed=random_state)
    voted = sources.convert(given) if sources else given
    start = _start(voted, known, initial_label_probs(voted, known) if sources else guess, settings, annotator_prior)
    if n_profiles == "auto":
        n_profiles = choose_n_profiles(voted, known, start, settings, seed=random_state)
    shards = cut_votes(voted, known)
    result = fit_crowd(shards, start, settings)
    if int(n_profiles) > 1:
        several = with_profiles(shards, result, int(n_profiles), settings, random_state)
        result = fit_crowd(shards, several.state, settings)
    if not result.converged:
        message = f"EM did not converge in {max_iter} iterations; raise max_iter or tol"
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    belief, counts = result.state.belief, result.vote_counts
    if sources:  # annotators on their own, without the groups and periods that the consensus is made of
        model, history = settings.annotators, _history(annotator_prior, given)
        belief, counts = belief_from_labels(
            model, given, result.label_probs, model.start(given.n_annotators, given.n_classes, history)
        )
    warn_of_inverted_classes(belief, counts, given.classes, known)
    return Aggregation(
        consensus=result.label_probs,
        annotator_quality=quality_table(summarize_annotators(belief, counts), given.annotators),
        profiles=result.state.profiles,
        log_likelihoods=result.log_likelihoods,
        converged=result.converged,
        doc_ids=given.doc_ids,
        classes=given.classes,
        sources=sources,
        gold_check=check_gold(voted, known, result.state, settings, seed=random_state),
    )


def _history(annotator_prior: Any, votes: Votes) -> AnnotatorHistory | None:
    return None if annotator_prior is None else parse_annotator_prior(annotator_prior, votes.annotators)


def _start(
    votes: Votes, known: NDArray[np.int8], guess: Array, settings: CrowdSettings, annotator_prior: Any
) -> CrowdState:
    """First state of EM: annotators from ``annotator_prior`` if given, else from the initial labels."""
    model, history = settings.annotators, _history(annotator_prior, votes)
    belief = with_useful_levels(votes, known, guess, start_belief(model, votes, history), settings)
    probs = start_label_probs(votes, known, guess, settings)
    return start_state(belief if history else model.update(count_votes(model, votes, probs), belief), probs)
