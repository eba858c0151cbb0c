"""What a fitted ``CrowdPALDA`` says about its annotators: quality, rates per class, copies, changes and curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from palda.data import Votes
from palda.errors import DataError
from palda.estimators.inputs import known_votes
from palda.estimators.vote_shares import VoteShareEstimator
from palda.models.crowd import (
    calibration_curves,
    quality_over_time,
    quality_table,
    rates_by_class,
    summarize_annotators,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Array, Strings
    from palda.models.crowd import AnnotatorBelief, AnnotatorSummary, GoldCheck, VoteSources


class AnnotatorEstimator(VoteShareEstimator):
    """The part of ``CrowdPALDA`` that is about annotators."""

    annotators_: Strings
    doc_ids_: Strings
    consensus_: Array
    gold_check_: GoldCheck | None = None
    _vote_counts: Array
    _sources: VoteSources
    _individuals: tuple[AnnotatorBelief, Array] | None
    _document_counts: NDArray[np.int64] | None = None  # None for files of earlier versions without votes
    _confirmed: NDArray[np.bool_] | None = None  # negative verdicts that a second fit shares; None for earlier files

    @property
    def _belief(self) -> AnnotatorBelief:
        check_is_fitted(self)
        return cast("AnnotatorBelief", self._params.annotators)

    @property
    def _reported(self) -> tuple[AnnotatorBelief, Array]:
        """Beliefs about annotators and their vote counts; those of the sources if they are the same."""
        return (self._belief, self._vote_counts) if self._individuals is None else self._individuals

    @property
    def annotator_quality_(self) -> pd.DataFrame:
        """Estimated quality of the annotators, one row per annotator.

        Columns: ``annotator``; ``quality`` (expected share of correct votes) with its 95% interval ``low`` and
        ``high``; ``sensitivity``, ``specificity``, ``informedness``; ``n_votes``; ``verdict``; ``informedness_low``,
        ``informedness_high``; ``n_present`` (expected number of votes on labels that are present);
        ``sensitivity_low``, ``sensitivity_high``, ``specificity_low``, ``specificity_high``. Intervals are wider where
        labels are uncertain.

        The verdict is "too few votes" for annotators without a history whose votes are on fewer than 10 documents, or
        meet votes of others or gold labels on fewer than 5; and where the interval is too wide to decide. It is also
        that instead of "spammer" or "adversarial" if a second fit, to the votes of the others alone, does not agree.
        """
        return quality_table(self._annotator_summary(self._confirmed), self.annotators_)

    def _annotator_summary(self, confirmed: NDArray[np.bool_] | None) -> AnnotatorSummary:
        """Quality of the annotators, with the negative verdicts that are ``confirmed``; None for all of them."""
        return summarize_annotators(*self._reported, self._document_counts, self._label_doubt(), confirmed)

    def _label_doubt(self) -> Array | None:
        """(annotators, 2): doubt about the labels that annotators judged; None if the votes are unknown."""
        raise NotImplementedError

    @property
    def copies_(self) -> pd.DataFrame:
        """Annotators who repeat each other's votes, one row per member of a group; the group votes as one.

        Columns: ``group``; ``annotator``; ``copy_share`` (share of repeated votes); ``agreement`` of two members, and
        ``expected_agreement`` if they were independent given the labels; ``n_common`` (common judgements).
        """
        check_is_fitted(self)
        return self._sources.copies_table(self.annotators_)

    @property
    def changes_(self) -> pd.DataFrame:
        """Changes of annotators' rates over time, one row per change; empty if votes have no times.

        Columns: ``annotator``; ``time`` in seconds since 1970; ``kind`` ("worse" or "better"); ``p_value``;
        ``n_before`` and ``n_after`` (judged documents); ``quality_before`` and ``quality_after`` with 95% intervals
        (``..._low``, ``..._high``); ``informedness_before`` and ``informedness_after``.
        """
        check_is_fitted(self)
        return self._sources.changes.to_frame(self.annotators_)

    @property
    def annotator_rates_by_class_(self) -> pd.DataFrame:
        """Sensitivity and specificity with 95% intervals, one row per annotator and class.

        They differ between classes with ``annotators="auto"`` and ``"per_class"``; other models repeat the rates of the
        annotator.
        """
        return self.rates_by_class()

    def rates_by_class(self, annotators: Iterable[object] | None = None) -> pd.DataFrame:
        """Rows of ``annotator_rates_by_class_`` of some annotators.

        Parameters
        ----------
        annotators : iterable of str, default=None
            Names of annotators; all by default.

        Returns
        -------
        DataFrame
            Columns ``annotator`` and ``label``; ``sensitivity`` and ``specificity`` with 95% intervals
            (``..._low``, ``..._high``).
        """
        return rates_by_class(self._reported[0], self.annotators_, self.classes_, self._positions(annotators))

    def quality_over_time(self, votes: Any, annotators: Iterable[object] | None = None) -> pd.DataFrame:
        """Quality of annotators over time, with a 95% band, from votes with times.

        Each point is a mean over the documents that the annotator judged around that time. It tells a tired annotator
        from one who was never good; ``changes_`` has the changes that are certain.

        Parameters
        ----------
        votes : Votes, DataFrame or array-like of shape (n_documents, n_annotators, n_classes)
            Votes that the model was fitted to. Without times the result is empty.
        annotators : iterable of str, default=None
            Names of annotators; all by default.

        Returns
        -------
        DataFrame
            Up to 50 rows per annotator with at least 20 judged documents, in the order of time. Columns: ``annotator``;
            ``time`` in seconds since 1970; ``n_docs`` (documents judged before); ``quality`` with its 95% band ``low``
            and ``high``; ``informedness``.
        """
        import pandas as pd

        rows = np.sort(self._positions(annotators))
        given = self._own_votes(votes).of_annotators(rows)
        curves = quality_over_time(given, self.consensus_, self._reported[0].take(rows))
        columns = ("time", "n_docs", "quality", "low", "high", "informedness")
        table = {name: getattr(curves, name) for name in columns}
        return pd.DataFrame({"annotator": self.annotators_[rows][curves.annotator], **table})

    def confidence_calibration(self, votes: Any) -> pd.DataFrame:
        """Stated probabilities of soft votes against the consensus, per annotator.

        Of a calibrated annotator, labels are present as often as stated. The consensus contains the votes themselves;
        where a label has one vote only, a curve shows little else.

        Parameters
        ----------
        votes : Votes, DataFrame or array-like of shape (n_documents, n_annotators, n_classes)
            Votes that the model was fitted to. If all are hard, the result is empty.

        Returns
        -------
        DataFrame
            One row per annotator, value of the vote and level of its strength, by ascending stated probability.
            Columns: ``annotator``; ``value`` (1 or 0); ``level`` (0 is the weakest); ``n_votes``; ``stated``, the mean
            stated probability of "present"; ``consensus``, the mean probability of the labels that these votes are
            about.
        """
        given = self._own_votes(votes).of_annotators(np.arange(len(self.annotators_)))
        return calibration_curves(given, self.consensus_, self._reported[0].levels)

    def _positions(self, annotators: Iterable[object] | None) -> NDArray[np.int64]:
        check_is_fitted(self)
        if annotators is None:
            return np.arange(len(self.annotators_))
        position_of = {name: position for position, name in enumerate(self.annotators_)}
        names = [str(name) for name in annotators]
        unknown = next((name for name in names if name not in position_of), None)
        if unknown is not None:
            raise DataError(f"the model has no annotator {unknown!r:.60}")
        return np.array([position_of[name] for name in names], dtype=np.int64)

    def _own_votes(self, votes: Any) -> Votes:
        """Votes on the training documents; annotators that the model does not know come last."""
        if isinstance(votes, Votes):
            same = votes.annotators[: len(self.annotators_)], votes.classes, votes.doc_ids
            own = self.annotators_, self.classes_, self.doc_ids_
            if all(np.array_equal(*pair) for pair in zip(same, own, strict=True)):
                return votes
        return known_votes(votes, self.doc_ids_, len(self.doc_ids_), self.classes_, self.annotators_)
