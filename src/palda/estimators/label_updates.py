"""New, changed and withdrawn votes on the documents of a fitted ``CrowdPALDA``, without a fit; and its stored votes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from palda.data import Votes, count_blocks, names_array, take_counts
from palda.engine import Threads, add_prefix, resolve_n_jobs, strip_prefix
from palda.estimators.annotator_attributes import AnnotatorEstimator
from palda.estimators.document_inputs import ids_of
from palda.estimators.inputs import gold_table
from palda.estimators.persistence import restored_votes, vote_arrays
from palda.estimators.vote_changes import NewAnnotators, parse_changes
from palda.models.assignment import (
    LabellingRecord,
    TouchedDocuments,
    VoteChanges,
    VoteStore,
    evidence_besides_votes,
    update_all_labels,
    update_labels,
)
from palda.models.crowd import (
    CrowdSettings,
    Profiles,
    SupportBelief,
    belief_from_labels,
    confirmed_verdicts,
    count_votes,
    document_counts,
    label_doubt,
    model_families,
    panel_summary,
    shares_of_answers,
    shares_of_labels,
    typical_shares,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, CountRows, VoteRows
    from palda.models.crowd import AnnotatorBelief, AnnotatorModel, PanelSummary

    Ints = NDArray[np.int64]

_MAX_STORED_VOTES = 5_000_000  # of a shard folder; votes in memory are always kept


class LabelUpdateEstimator(AnnotatorEstimator):
    """The part of ``CrowdPALDA`` that keeps votes and updates labels and rates when they change."""

    _record: LabellingRecord | None = None  # None for files of earlier versions, and for shard folders with many votes
    _attached_votes: Votes | None = None
    _positions_of: tuple[Any, dict[str, int]] | None = None

    @property
    def votes_(self) -> Votes | None:
        """Votes that were saved with the model for reports, with later updates; None if there are none."""
        if self._attached_votes is None or self._record is None:
            return self._attached_votes
        return self._record.votes.all_votes

    @votes_.setter
    def votes_(self, votes: Votes | None) -> None:
        self._attached_votes = votes

    @property
    def known_labels_(self) -> NDArray[np.int8] | None:
        """ndarray of shape (n_documents, n_classes): gold labels of the training documents, with those of updates.

        1, 0, or -1 for unknown. ``consensus_`` repeats them, so it cannot be evaluated on them; see ``gold_check_``.
        None if the model keeps no votes: its file is of an earlier version, or its shard folder has more than 5
        million.
        """
        return None if self._record is None else self._record.known

    def update(self, votes: Any = None, gold: Any = None, *, documents: Literal["touched", "all"] = "touched") -> Self:
        """Update labels and annotators after new, changed or withdrawn votes on the training documents.

        The labels of the documents that are touched become what :meth:`consensus` would return for all of their votes
        under the current rates, and the rates of their annotators are estimated again. Words, profiles and all other
        documents stay as they are, so a few votes take milliseconds. Fit again from time to time. New documents need
        ``partial_fit``.

        Parameters
        ----------
        votes : Votes or DataFrame, default=None
            Changed votes. Columns of a long data frame: doc, annotator, label, value. A vote that the annotator has
            given before is replaced. A missing value (or -1) withdraws it. A missing label and value mean that the
            annotator judged nothing. If several rows are about the same vote, the last one counts. Annotators may be
            new.
        gold : array-like of shape (n_documents, n_classes) or DataFrame, default=None
            Labels that have become known, as in ``fit``.
        documents : {"touched", "all"}, default="touched"
            Whose labels are updated. ``"all"`` runs EM over all stored votes, which takes longer and is closer to a
            fit.

        Returns
        -------
        CrowdPALDA
            The updated estimator.

        Raises
        ------
        DataError
            If votes are on documents or classes that the model does not have.
        ValueError
            If the model keeps no votes: its file is of an earlier version, or it was fitted to a shard folder with
            more than 5 million votes.

        Examples
        --------
        >>> import pandas as pd
        >>> from palda import CrowdPALDA, simulate
        >>> news = simulate.newsroom(100, seed=0)
        >>> votes, _ = simulate.crowd(news, [0.9, 0.8, 0.7], votes_per_doc=2, seed=0)
        >>> model = CrowdPALDA(label_prior="words", random_state=0).fit(news.corpus, votes)
        >>> before = model.consensus_[0].copy()
        >>> new = pd.DataFrame({"doc": news.doc_ids[0], "annotator": "new", "label": news.classes, "value": 1})
        >>> bool((model.update(new).consensus_[0] >= before).all())
        True
        """
        record = self._kept_record()
        if documents not in ("touched", "all"):
            raise ValueError(f'documents={documents!r} must be "touched" or "all"')
        known = None if gold is None else gold_table(gold, record.votes.all_votes)
        changes = VoteChanges.none()
        if votes is not None:
            changes, new = parse_changes(votes, self._doc_positions(), self.annotators_, self.classes_)
            self._add_annotators(new)
        self._apply(changes, known)
        if documents == "all":
            self._update_all()
        return self

    def current_votes(self) -> Votes:
        """All votes on the training documents, after all updates: what to fit again to.

        Returns
        -------
        Votes
            The votes.
        """
        return self._kept_record().votes.all_votes

    @property
    def panel_(self) -> PanelSummary | None:
        """Models among the annotators: ``n_models``, ``n_people``, ``effective_votes`` and a ``text``; None without.

        ``effective_votes`` are the independent votes that all models together are worth: they share mistakes.
        """
        check_is_fitted(self)
        if self._record is None:
            return None
        known = (self._record.known >= 0).any(axis=1)
        return panel_summary(self._record.votes.all_votes, self.consensus_, int(np.count_nonzero(known)))

    def _kept_record(self) -> LabellingRecord:
        check_is_fitted(self)
        if self._record is None:
            raise ValueError(
                "the model keeps no votes to update (its file is of an earlier version, or its shard folder has more "
                f"than {_MAX_STORED_VOTES:,} votes); fit again"
            )
        return self._record

    def _doc_positions(self) -> dict[str, int]:
        if self._positions_of is None or self._positions_of[0] is not self.doc_ids_:
            self._positions_of = self.doc_ids_, {name: position for position, name in enumerate(self.doc_ids_)}
        return self._positions_of[1]

    def _vote_settings(self) -> CrowdSettings:
        return CrowdSettings(self._annotator_model(), engine=Threads(resolve_n_jobs(self.n_jobs)), learn_profiles=False)

    @property
    def _vote_profiles(self) -> Profiles:
        """Profiles that join votes and stored evidence; with base rates, the evidence has everything."""
        if self._prior is None:
            return Profiles(np.ones(1), np.full((1, len(self.classes_)), 0.5))
        return self._prior.for_votes.profiles

    def _add_annotators(self, new: NewAnnotators) -> None:
        """Annotators without votes, who start as typical members of the crowd."""
        n_new = len(new.names)
        if not n_new:
            return
        self._sources, order = self._sources.with_new_annotators(n_new)
        families = model_families(names_array(new.kinds), names_array(new.families), n_new)
        belief = self._belief.with_new_annotators(families).take(order)
        self._params = replace(self._params, annotators=belief)
        self._vote_counts = with_rows(self._vote_counts, n_new)[order]
        if self._document_counts is not None:
            self._document_counts = np.pad(self._document_counts, ((0, n_new), (0, 0)))
        if self._confirmed is not None:
            self._confirmed = np.append(self._confirmed, np.zeros(n_new, dtype=bool))
        if self._individuals is not None:
            own, own_counts = self._individuals
            self._individuals = own.with_new_annotators(families), with_rows(own_counts, n_new)
        self.annotators_ = names_array([*self.annotators_, *new.names])
        if self._record is not None:
            self._record = replace(self._record, votes=self._record.votes.with_annotators(*new))

    def _apply(self, changes: VoteChanges, known: NDArray[np.int8] | None) -> None:
        """Change votes and known labels, then the labels and rates that depend on them."""
        record = self._kept_record()
        before, known_before = record.votes, record.known
        after, touched = before.changed(changes)
        record = replace(record, votes=after)
        if known is not None:
            record, newly_known = record.with_known(known)
            touched = np.union1d(touched, newly_known)
        self._record = record
        if len(touched):
            old_votes, new_votes = before.take(touched), after.take(touched)
            if self._document_counts is not None:
                removed = document_counts(old_votes, known_before[touched])
                added = document_counts(new_votes, record.known[touched])
                self._document_counts = self._document_counts - removed + added
            self._update_touched(touched, old_votes, new_votes)

    def _update_touched(self, touched: Ints, before: Votes, after: Votes) -> None:
        record, settings, old_probs = self._kept_record(), self._vote_settings(), self.consensus_[touched]
        documents = TouchedDocuments(
            self._sources.convert(before),
            self._sources.convert(after),
            old_probs,
            record.known[touched],
            record.evidence[touched].astype(np.float64),
        )
        state = update_labels(documents, self._belief, self._vote_counts, self._vote_profiles, settings)
        self._params = replace(self._params, annotators=state.belief)
        self._vote_counts = state.vote_counts
        probs = self._from_words_where_unvoted(state.label_probs, touched, after, record.known[touched])
        consensus = self.consensus_.copy()
        consensus[touched] = probs
        self.consensus_ = consensus
        if self._individuals is not None:
            model, (own, counts) = settings.annotators, self._individuals
            counts = np.maximum(counts - count_votes(model, before, old_probs), 0.0)
            counts += count_votes(model, after, probs)
            self._individuals = model.update(counts, own), counts
        self._change_vote_numbers(touched, after)

    def _update_all(self) -> None:
        """EM over all stored votes, with the evidence of the words as it is."""
        record, settings = self._kept_record(), self._vote_settings()
        votes = record.votes.all_votes
        state = update_all_labels(
            self._sources.convert(votes),
            record.known,
            record.evidence.astype(np.float64),
            self._belief,
            self._vote_profiles,
            settings,
        )
        self._params = replace(self._params, annotators=state.belief)
        self._vote_counts = state.vote_counts
        rows = np.arange(votes.n_docs)
        self.consensus_ = self._from_words_where_unvoted(state.label_probs, rows, votes, record.known)
        if self._individuals is not None:
            self._individuals = belief_from_labels(settings.annotators, votes, self.consensus_, self._individuals[0])

    def _from_words_where_unvoted(self, probs: Array, rows: Ints, votes: Votes, known: NDArray[np.int8]) -> Array:
        """Labels of documents, those of documents without votes from words alone, as after a fit."""
        from_words = getattr(self, "out_of_fold_probs_", None)
        if not isinstance(self._belief, SupportBelief) or from_words is None or len(from_words) != len(self.consensus_):
            return probs
        is_silent = (np.diff(votes.doc_starts) == 0)[:, None] & (known < 0)
        labels: Array = np.where(is_silent, from_words[rows], probs)
        return labels

    def _keep_record(self, counts: CountRows, votes: VoteRows, known: NDArray[np.int8], evidence: Array | None) -> None:
        """Keep what ``update`` needs, after a fit."""
        self._record = None
        if not isinstance(votes, Votes):
            if len(votes) > _MAX_STORED_VOTES:
                return
            votes = votes.take(np.arange(votes.n_docs))
        if evidence is None:
            evidence = self._rest_of_evidence(counts, votes, known, self.consensus_)
        n_tokens = document_lengths(counts)
        self._record = LabellingRecord(VoteStore.of(votes), evidence.astype(np.float32), known, n_tokens)

    def _rest_of_evidence(self, counts: CountRows, votes: Votes, known: NDArray[np.int8], label_probs: Array) -> Array:
        """Evidence of words and base rates, for models without a fitted label prior.

        It is found from the labels, those that are known as they would be if they were not.
        """
        converted, belief = self._sources.convert(votes), self._belief
        rows = np.flatnonzero((known >= 0).any(axis=1))
        if len(rows):
            label_probs = label_probs.copy()
            label_probs[rows] = self._labels_with_base_rates(take_counts(counts, rows), converted.take(rows), belief)
        return evidence_besides_votes(converted, label_probs, belief, self._annotator_model())

    def _labels_with_base_rates(self, counts: CountRows, votes: Votes, belief: AnnotatorBelief) -> Array:
        """Labels of documents without a fitted label prior, none of them known."""
        raise NotImplementedError

    def _extend_record(self, counts: CountRows, votes: Votes, known: NDArray[np.int8], evidence: Array | None) -> None:
        """Add new documents whose labels are the last of ``consensus_``."""
        if self._record is None:
            return
        if evidence is None:
            probs = self.consensus_[len(self.consensus_) - votes.n_docs :]
            evidence = self._rest_of_evidence(counts, votes, known, probs)
        self._record = self._record.with_documents(votes, evidence, known, document_lengths(counts))

    def _attach(
        self, arrays: dict[str, NDArray[Any]], state: dict[str, Any], words: Any, texts: Any, votes: Any
    ) -> None:
        """Add the stored votes too, unless they are those that are attached."""
        super()._attach(arrays, state, words, texts, votes)
        if self._record is None:
            return
        arrays |= add_prefix("record", self._record.arrays())
        stored = self._record.votes.all_votes
        attached = self.votes_ if votes is None else self._checked_votes(votes)
        if attached is None or attached != stored:
            stored_arrays, traits = vote_arrays(stored)
            arrays |= add_prefix("record", add_prefix("votes", stored_arrays))
            state |= {name: names for name, names in traits.items() if name not in state}

    def _restore_attachments(self, arrays: dict[str, NDArray[Any]], state: dict[str, Any]) -> None:
        super()._restore_attachments(arrays, state)
        own = strip_prefix("record", arrays)
        self._record = None
        if own:
            stored = strip_prefix("votes", own)
            votes = self._attached_votes if not stored else restored_votes(stored, self._vote_axes(state))
            if votes is None:
                raise ValueError("the votes are missing")
            self._record = LabellingRecord.from_arrays(own, votes)
            if self._document_counts is None:  # the file is of an earlier version
                self._document_counts = document_counts(votes, self._record.known)

    def _label_doubt(self) -> Array | None:
        return None if self._record is None else label_doubt(self._record.votes.all_votes, self.consensus_)

    def _confirm_verdicts(self) -> None:
        """Compare negative verdicts with a second fit, after a fit and after new documents."""
        self._confirmed = None
        if self._record is not None:
            verdict = self._annotator_summary(None).verdict
            votes, known = self._record.votes.all_votes, self._record.known
            settings = replace(self._vote_settings(), annotators=self._fitted_model())
            self._confirmed = confirmed_verdicts(votes, known, verdict, settings)

    def _shares_of_supports(self) -> Array | None:
        record, belief = self._record, self._belief
        if record is None or not isinstance(belief, SupportBelief):
            return None
        votes = self._sources.convert(record.votes.all_votes)
        return typical_shares(votes, belief, record.evidence.astype(np.float64), self.consensus_)

    def _predicted_supports(self, X: Any, features: Any) -> Array | None:
        belief = self._belief
        if not isinstance(belief, SupportBelief):
            return None
        if self._prior is None or belief.sharpness is None:
            return shares_of_labels(self.predict_proba(X, features=features), belief)
        counts = self._counts(X, reset=False, features=features)
        encoded = self._features(features, X, ids_of(X, None), counts.shape[0])
        with self._em_settings() as settings:
            answers = self._prior.evidence(counts, settings.engine, encoded)
        return shares_of_answers(answers, belief)

    def _annotator_model(self) -> AnnotatorModel:
        """The model of the current beliefs."""
        raise NotImplementedError

    def _fitted_model(self) -> AnnotatorModel:
        """The model that a fit learns; another one in files of earlier versions."""
        raise NotImplementedError


def document_lengths(counts: CountRows) -> NDArray[np.float32]:
    """(documents,): number of tokens."""
    sums = [np.asarray(some.sum(axis=1), dtype=np.float32).ravel() for _, some in count_blocks(counts)]
    return np.concatenate(sums) if sums else np.empty(0, dtype=np.float32)


def with_rows(counts: Array, n_new: int) -> Array:
    """Counts with rows of zeros for new annotators."""
    return np.concatenate((counts, np.zeros((n_new, *counts.shape[1:]))))
