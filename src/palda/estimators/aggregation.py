"""Consensus and annotator quality from votes alone, for users without texts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import Votes, names_array, validation
from palda.engine import Threads, resolve_n_jobs
from palda.errors import DataError
from palda.estimators.inputs import initial_label_probs, label_table
from palda.models.crowd import (
    CrowdSettings,
    CrowdState,
    OneCoinModel,
    PerClassModel,
    TwoCoinModel,
    choose_n_profiles,
    cut_votes,
    fit_crowd,
    parse_annotator_prior,
    quality_table,
    start_state,
    summarize_annotators,
    with_profiles,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Strings
    from palda.models.crowd import AnnotatorModel, Profiles

    Array = NDArray[np.float64]

__all__ = ["ANNOTATOR_MODELS", "Aggregation", "aggregate"]

ANNOTATOR_MODELS: dict[str, type[AnnotatorModel]] = {
    "one_coin": OneCoinModel,
    "two_coin": TwoCoinModel,
    "per_class": PerClassModel,
}


@dataclass(frozen=True)
class Aggregation:
    """What a crowd says, and how good everybody in it is."""

    consensus: Array
    """(documents, classes): probability that a class is present."""
    annotator_quality: pd.DataFrame
    """A row an annotator: annotator, quality, low, high, sensitivity, specificity, informedness, n_votes, verdict; then
    informedness_low, informedness_high and n_present."""
    profiles: Profiles
    """Label sets: ``weights`` (profiles,) and ``rates`` (profiles, classes)."""
    log_likelihoods: Array
    """Objective after every round of EM: log-likelihood of the votes, less the cost of what is learned. Never falls."""
    converged: bool
    doc_ids: Strings
    classes: Strings

    @property
    def n_iter(self) -> int:
        """Rounds of EM."""
        return len(self.log_likelihoods)

    def to_frame(self, *, wide: bool = False) -> pd.DataFrame:
        """Consensus as a data frame.

        Long, a row a (document, class) with columns doc, label and probability; or ``wide``, a row a document, indexed
        by its id, and a column a class.
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
    annotators: str = "two_coin",
    n_profiles: int | str = "auto",
    gold: Any = None,
    annotator_prior: Any = None,
    *,
    max_iter: int = 500,
    tol: float = 1e-6,
    n_jobs: int | None = None,
    random_state: int = 0,
) -> Aggregation:
    """Consensus and annotator quality from votes, without texts.

    The story: a document has one of several profiles, which say how probable each class is, so classes may come
    together; annotators look at some of the classes and report what they see, as well as each of them can.

    Parameters
    ----------
    votes
        ``Votes``, a long data frame (doc, annotator, label, value), or an array (documents, annotators, classes) of 1
        and 0, with -1 or NaN for no judgement.
    annotators
        ``"two_coin"``: sensitivity and specificity. ``"one_coin"``: one rate for both. ``"per_class"``: both for each
        class.
    n_profiles
        How many label-set profiles; 1 for independent classes. ``"auto"`` takes as many as predict hidden votes better.
    gold
        Known labels: an array (documents, classes) in the order of the votes' documents and classes, with -1 or NaN
        where unknown; or a data frame indexed by document id with classes as columns, which may leave out either.
    annotator_prior
        What earlier work says about annotators: ``annotator_quality`` of an earlier result, or a mapping from
        annotator to quality or to (sensitivity, specificity).
    max_iter, tol
        EM stops after ``max_iter`` rounds, or when its objective grows by less than ``tol`` of its size.
    n_jobs
        Threads; all cores by default. The result is the same.
    random_state
        Seed of the choice of hidden votes and of the profiles' start.
    """
    given = _as_votes(votes)
    settings = _settings(annotators, max_iter, tol, n_jobs)
    _check_n_profiles(n_profiles)
    validation.require_count(random_state, "random_state", least=0)
    known = _known(gold, given)
    start = _start(given, known, settings.annotators, annotator_prior)
    if n_profiles == "auto":
        n_profiles = choose_n_profiles(given, known, start, settings, seed=random_state)
    shards = cut_votes(given, known)
    found = fit_crowd(shards, start, settings)
    if int(n_profiles) > 1:
        found = fit_crowd(shards, with_profiles(shards, found, int(n_profiles), settings, random_state), settings)
    if not found.converged:
        from sklearn.exceptions import ConvergenceWarning

        message = f"EM did not converge in {max_iter} iterations; raise max_iter or tol"
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    return Aggregation(
        consensus=found.label_probs,
        annotator_quality=quality_table(summarize_annotators(found.state.belief, found.vote_counts), given.annotators),
        profiles=found.state.profiles,
        log_likelihoods=found.log_likelihoods,
        converged=found.converged,
        doc_ids=given.doc_ids,
        classes=given.classes,
    )


def _as_votes(votes: Any) -> Votes:
    if votes is None:
        raise DataError(
            "there are no votes; pass Votes, a long data frame or an array (documents, annotators, classes)"
        )
    if isinstance(votes, Votes):
        given = votes
    else:
        given = Votes.from_frame(votes) if hasattr(votes, "columns") else Votes.from_array(votes)
    if 0 in (given.n_docs, given.n_annotators, given.n_classes):
        raise DataError(
            f"votes need a document, an annotator and a class at least, not {given.n_docs}, {given.n_annotators} and "
            f"{given.n_classes} of them"
        )
    return given


def _settings(annotators: str, max_iter: int, tol: float, n_jobs: int | None) -> CrowdSettings:
    validation.require_choice(annotators, tuple(ANNOTATOR_MODELS), "annotators")
    validation.require_count(max_iter, "max_iter")
    validation.require_number(tol, 0, 1, "tol")
    return CrowdSettings(ANNOTATOR_MODELS[annotators](), max_iter, tol, Threads(resolve_n_jobs(n_jobs)))


def _check_n_profiles(n_profiles: int | str) -> None:
    if isinstance(n_profiles, str) and n_profiles != "auto":
        raise DataError(f"n_profiles is {n_profiles!r}; give a number, or 'auto'")
    if n_profiles != "auto":
        validation.require_count(n_profiles, "n_profiles")


def _known(gold: Any, votes: Votes) -> NDArray[np.int8]:
    """(documents, classes): known labels, -1 where unknown."""
    if gold is None:
        return np.full((votes.n_docs, votes.n_classes), -1, dtype=np.int8)
    if hasattr(gold, "columns"):
        gold = _aligned(gold, votes)
    known, _ = label_table(gold)
    if known.shape != (votes.n_docs, votes.n_classes):
        raise DataError(
            f"gold has shape {known.shape}, not (documents, classes) = {(votes.n_docs, votes.n_classes)}; a data frame "
            "indexed by document id may leave documents out"
        )
    return known


def _aligned(gold: pd.DataFrame, votes: Votes) -> pd.DataFrame:
    """Rows and columns of a data frame in the order of the votes; what it does not name is unknown."""
    table = gold.set_axis(names_array(gold.index), axis=0).set_axis(names_array(gold.columns), axis=1)
    for axis, there, kind in ((table.index, votes.doc_ids, "document"), (table.columns, votes.classes, "class")):
        if axis.has_duplicates:
            raise DataError(f"gold names {kind} {validation.shown(axis[axis.duplicated()][0])} twice; keep one")
        strangers = axis.difference(there.tolist())
        if len(strangers):
            raise DataError("gold: " + validation.unknown_name(strangers[0], there.tolist(), kind))
    return table.reindex(index=votes.doc_ids, columns=votes.classes)


def _start(votes: Votes, known: NDArray[np.int8], model: AnnotatorModel, prior: Any) -> CrowdState:
    """Annotators as a first guess at the labels has them; where they have a history, that says more than the guess."""
    guess = initial_label_probs(votes, known)
    if prior is not None:
        history = parse_annotator_prior(prior, votes.annotators)
        return start_state(model.start(votes.n_annotators, votes.n_classes, history), guess)
    belief = model.start(votes.n_annotators, votes.n_classes)
    return start_state(model.update(model.count(votes, guess), belief), guess)
