"""Consensus and annotator quality from votes alone, without texts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
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
from palda.estimators.unvoted_classes import judged_classes, with_unvoted_absent
from palda.models.assignment import (
    StoppingInputs,
    StoppingReport,
    check_targets,
    link_spread,
    report_fields,
    stopping_quality,
)
from palda.models.crowd import (
    AnnotatorHistory,
    CrowdSettings,
    CrowdState,
    belief_from_labels,
    check_gold,
    choose_n_profiles,
    confirmed_verdicts,
    cut_votes,
    document_counts,
    find_vote_sources,
    first_state,
    fit_crowd,
    fit_with_profiles,
    individual_start,
    initial_label_probs,
    label_doubt,
    panel_summary,
    parse_annotator_prior,
    quality_table,
    share_judged_by_people,
    start_belief,
    summarize_annotators,
    with_useful_levels,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Array, Strings, Votes
    from palda.models.crowd import GoldCheck, PanelSummary, Profiles, VoteSources


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
    n_looks : int
        Number of pairs of an annotator and a document with votes.
    panel : PanelSummary or None
        Models among the annotators: ``n_models``, ``n_people``, ``effective_votes`` (independent votes that the models
        together are worth) and ``text``. None without models.
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
    n_looks: int = 0
    panel: PanelSummary | None = None
    stopping: StoppingInputs | None = field(default=None, repr=False)

    def stopping_report(
        self, target_error: float | None = None, target_f1: float | None = None, *, random_gold: bool = False
    ) -> StoppingReport:
        """What is still expected to be wrong, and whether a target is met.

        Parameters
        ----------
        target_error : float, default=None
            Share of labels that may be wrong.
        target_f1 : float, default=None
            Micro-F1 that should be reached.
        random_gold : bool, default=False
            Whether the documents with known labels were drawn at random. Then they take part in the calibration, and
            errors that all annotators share are covered. If not, they can only make the bound larger.

        Returns
        -------
        StoppingReport
            The numbers, as :meth:`palda.CrowdPALDA.stopping_report` has them; as text, a summary. What further votes
            would bring is NaN, and there are no check votes.

        Examples
        --------
        >>> from palda import aggregate, simulate
        >>> news = simulate.newsroom(100, seed=0)
        >>> votes, _ = simulate.crowd(news, [0.9, 0.8, 0.7], votes_per_doc=3, seed=0)
        >>> report = aggregate(votes).stopping_report(target_error=0.3)
        >>> report.n_votes, report.met
        (300, True)
        """
        check_targets(target_error, target_f1)
        if self.stopping is None:
            raise ValueError("the result was not made by aggregate")
        quality = stopping_quality(self.stopping, random_gold=random_gold)
        probs = self.stopping.label_probs
        return StoppingReport(
            n_docs=len(self.doc_ids),
            n_votes=self.n_looks,
            wrong_per_doc=np.minimum(probs, 1.0 - probs).sum(axis=1),
            wrong_after_one_vote=np.nan,
            fixed_votes_per_doc=np.nan,
            n_check_docs=0,
            n_check_votes=0,
            check_disagreements=0.0,
            expected_disagreements=0.0,
            **report_fields(quality, target_error, target_f1, random_gold=random_gold),
        )

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
    together. Each annotator reports a class correctly with an annotator-specific probability (maths, eqs. 36-46), or
    follows the support that a class has in a document (maths, eqs. 64-68).

    Parameters
    ----------
    votes : Votes, DataFrame or array-like of shape (n_documents, n_annotators, n_classes)
        ``Votes``; a long data frame with columns doc, annotator, label and value; or an array of 1 and 0, with -1 or
        NaN for no vote. Numbers between 0 and 1 are soft votes; what they are worth is learned for each annotator.
    annotators : {"auto", "two_coin", "one_coin", "per_class"}, default="auto"
        Annotator model. ``"auto"``: how often a typical annotator says yes to a label is estimated, and how annotators
        differ from that; probabilities stay honest where people share mistakes, and models are one witness beside
        people. The others take votes as independent given the label. ``"two_coin"``: sensitivity and specificity.
        ``"one_coin"``: one rate for both, as published. ``"per_class"``: per annotator and class.
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
        Random seed of the search for changes over time and of the folds of gold labels. Profiles, and with them labels,
        do not depend on it otherwise.

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

    Warns
    -----
    PaldaWarning
        If nobody voted on a class that has no gold labels either. It is absent in all documents.

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
    gold_labels = gold_table(gold, given)
    known = with_unvoted_absent(gold_labels, given)
    guess = initial_label_probs(given, known)
    sources = find_vote_sources(given, known, guess, settings, copies=copies, drift=drift, seed=random_state)
    voted = sources.convert(given) if sources else given
    start = _start(voted, known, initial_label_probs(voted, known) if sources else guess, settings, annotator_prior)
    result = fit_crowd(cut_votes(voted, known), start, settings)
    if n_profiles == "auto":
        n_profiles = choose_n_profiles(voted, known, result, settings)
    if int(n_profiles) > 1:
        result = fit_with_profiles(voted, known, result, int(n_profiles), settings)
    if not result.converged:
        message = f"EM did not converge in {max_iter} iterations; raise max_iter or tol"
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    belief, counts = result.state.belief, result.vote_counts
    if sources:  # annotators on their own, without the groups and periods that the consensus is made of
        model, history = settings.annotators, _history(annotator_prior, given)
        individuals = individual_start(given, belief, model, history)
        belief, counts = belief_from_labels(model, given, result.label_probs, individuals)
    warn_of_inverted_classes(belief, counts, given.classes, gold_labels)
    documents = document_counts(given, gold_labels)
    doubt = label_doubt(given, result.label_probs)
    verdict = summarize_annotators(belief, counts, documents, doubt).verdict
    confirmed = confirmed_verdicts(given, known, verdict, settings)
    summary = summarize_annotators(belief, counts, documents, doubt, confirmed)
    gold_check = check_gold(voted, known, result.state, settings, seed=random_state)
    spread, judged = link_spread(result.state.belief, share_judged_by_people(given)), judged_classes(gold_labels, given)
    return Aggregation(
        consensus=result.label_probs,
        annotator_quality=quality_table(summary, given.annotators),
        profiles=result.state.profiles,
        log_likelihoods=result.log_likelihoods,
        converged=result.converged,
        doc_ids=given.doc_ids,
        classes=given.classes,
        sources=sources,
        gold_check=gold_check,
        n_looks=int(documents[:, 0].sum()),
        panel=panel_summary(given, result.label_probs, int((gold_labels >= 0).any(axis=1).sum())),
        stopping=StoppingInputs.of(result.label_probs[:, judged], known[:, judged], spread, gold_check),
    )


def _history(annotator_prior: Any, votes: Votes) -> AnnotatorHistory | None:
    return None if annotator_prior is None else parse_annotator_prior(annotator_prior, votes.annotators)


def _start(
    votes: Votes, known: NDArray[np.int8], guess: Array, settings: CrowdSettings, annotator_prior: Any
) -> CrowdState:
    """First state of EM: annotators from ``annotator_prior`` if given, else from the initial labels."""
    start = start_belief(settings.annotators, votes, _history(annotator_prior, votes))
    belief = with_useful_levels(votes, known, guess, start, settings)
    return first_state(votes, known, guess, belief, settings)
