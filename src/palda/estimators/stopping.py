"""When to stop: expected errors of a fitted ``CrowdPALDA`` with a bound, calibrated on check votes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.estimators.label_updates import LabelUpdateEstimator
from palda.estimators.unvoted_classes import judged_classes
from palda.models.assignment import (
    CheckEvidence,
    HeldBackLabels,
    Rates,
    StoppingInputs,
    StoppingReport,
    check_documents,
    check_looks,
    check_targets,
    expected_wrong,
    fixed_overlap_errors,
    link_spread,
    name_hashes,
    rates_by_annotator,
    rates_given_others,
    report_fields,
    slope_log_likelihoods,
    split_looks,
    stopping_quality,
    typical_votes,
    vote_log_likelihoods,
    votes_needed,
)
from palda.models.crowd import (
    CrowdState,
    ProfilePrior,
    SupportBelief,
    label_posterior,
    rates_given_votes,
    share_judged_by_people,
    typical_rates,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, Votes
    from palda.models.assignment import StoppingQuality, TypicalVotes
    from palda.models.crowd import HeldOutVotes, TypicalRates

    Ints = NDArray[np.int64]

CHECK_SHARE = 0.05
"""Share of documents that get check votes, and of all votes that are check votes, if there is a target."""

_MAX_CHECK_DOCS = 2000  # that the calibration uses


class CheckVotes(NamedTuple):
    """Check votes, and the labels of their documents without them."""

    docs: Ints  # documents with check votes
    label_probs: Array  # (docs, classes): without check votes and known labels
    place: Ints  # (looks,): position of each look in ``docs``
    values: NDArray[np.int8]  # (looks, classes): -1 for no vote
    rates: Rates  # (looks, classes): given the other votes on the label, if the annotator model lets votes depend

    def log_likelihoods(self) -> Array:
        """(slopes,): log-likelihood of the votes for each slope of the log-odds."""
        sums = np.zeros((2, *self.label_probs.shape))
        for table, values in zip(sums, vote_log_likelihoods(self.values, self.rates), strict=True):
            np.add.at(table, self.place, values)
        return slope_log_likelihoods(self.label_probs, *sums)

    @property
    def n_judgements(self) -> int:
        """Number of check votes on single labels."""
        return int((self.values >= 0).sum())


class StoppingEstimator(LabelUpdateEstimator):
    """The part of ``CrowdPALDA`` that says how many labels are still wrong."""

    _hashes_of: tuple[Any, NDArray[np.uint64]] | None = None
    _quality_of: tuple[tuple[Any, ...], StoppingQuality] | None = None
    _checks_of: tuple[tuple[Any, ...], CheckVotes] | None = None
    _rates_of: tuple[tuple[Any, ...], TypicalRates] | None = None

    def stopping_report(
        self,
        target_error: float | None = None,
        target_f1: float | None = None,
        *,
        check_share: float = CHECK_SHARE,
        random_gold: bool = False,
    ) -> StoppingReport:
        """What is still expected to be wrong, what further votes would bring, and whether the target is met.

        Probabilities are calibrated on check votes: votes on randomly chosen documents by annotators that
        :meth:`assign` did not choose for their gain. Which votes these are follows from the names of documents and
        annotators, so votes that were given before count too.

        Parameters
        ----------
        target_error : float, default=None
            Share of labels that may be wrong.
        target_f1 : float, default=None
            Micro-F1 that should be reached.
        check_share : float, default=0.05
            Share of documents that are check documents; the same as in ``assign``.
        random_gold : bool, default=False
            Whether the documents with known labels were drawn at random. Then they take part in the calibration, and
            errors that all annotators share are covered.

        Returns
        -------
        StoppingReport
            The numbers; as text, a summary.

        Examples
        --------
        >>> from palda import CrowdPALDA, simulate
        >>> news = simulate.newsroom(100, seed=0)
        >>> votes, _ = simulate.crowd(news, [0.9, 0.8, 0.7], votes_per_doc=2, seed=0)
        >>> model = CrowdPALDA(label_prior="words", random_state=0).fit(news.corpus, votes)
        >>> report = model.stopping_report(target_error=0.25)
        >>> report.n_votes, report.met
        (200, True)
        """
        check_targets(target_error, target_f1)
        record, check_share = self._kept_record(), share_of(check_share, "check_share")
        quality = self._expected_quality(check_share, random_gold=random_gold)
        typical, check = self._typical_votes(), self._check_votes(check_share)
        wrong = expected_wrong(self.consensus_, typical)
        ratio = quality.expected.wrong / max(float(wrong.sum()), 1e-12)
        looks = record.votes.looks()
        weights = np.bincount(looks[:, 1], minlength=len(self.annotators_)).astype(np.float64)
        enough = float(wrong.mean()) if len(wrong) else 0.0
        errors = fixed_overlap_errors(
            self.consensus_,
            record.evidence,
            record.known,
            self._vote_profiles,
            self._annotators_of_votes(),
            weights,
            enough,
        )
        return StoppingReport(
            n_docs=len(self.doc_ids_),
            n_votes=len(looks),
            wrong_per_doc=wrong,
            wrong_after_one_vote=ratio * float(expected_wrong(self.consensus_, typical, 1).sum()),
            fixed_votes_per_doc=votes_needed(errors, enough),
            n_check_docs=int(check_documents(self._doc_hashes(), check_share).sum()),
            n_check_votes=len(check.values),
            **_disagreements(check, quality.calibration.slope),
            **report_fields(quality, target_error, target_f1, random_gold=random_gold),
        )

    def _expected_quality(self, check_share: float, *, random_gold: bool) -> StoppingQuality:
        """Expected quality of the consensus; computed again when votes or rates have changed."""
        record = self._kept_record()
        key = (record, self._belief, self.consensus_, check_share, random_gold)
        if self._quality_of is not None and _same(self._quality_of[0], key):
            return self._quality_of[1]
        check, gold = self._check_votes(check_share), self.gold_check_
        judged = judged_classes(record.known, record.votes.all_votes)
        inputs = StoppingInputs(
            self.consensus_[:, judged],
            record.known[:, judged],
            link_spread(self._belief, share_judged_by_people(record.votes.all_votes)),
            self._held_back_labels(),
            1.0 if gold is None else gold.wrong_without_gold,
            CheckEvidence(check.log_likelihoods(), check.n_judgements) if check.n_judgements else None,
        )
        quality = stopping_quality(inputs, random_gold=random_gold)
        self._quality_of = key, quality
        return quality

    def _doc_hashes(self) -> NDArray[np.uint64]:
        if self._hashes_of is None or self._hashes_of[0] is not self.doc_ids_:
            self._hashes_of = self.doc_ids_, name_hashes(self.doc_ids_, "document")
        return self._hashes_of[1]

    def _check_votes(self, share: float) -> CheckVotes:
        """Check votes and labels without them; computed again when votes or rates have changed."""
        record = self._kept_record()
        key = (record, self._belief, share)
        if self._checks_of is not None and _same(self._checks_of[0], key):
            return self._checks_of[1]
        hashes = self._doc_hashes(), name_hashes(self.annotators_, "annotator")
        looks = check_looks(record.votes.looks(), *hashes, share)
        if isinstance(self._belief, SupportBelief) and self._belief.panel is not None:
            # models repeat each other's mistakes: their votes check nothing
            looks = looks[~self._belief.panel.is_model[self._current_sources()[looks[:, 1]]]]
        docs = np.unique(looks[:, 0])
        if len(docs) > _MAX_CHECK_DOCS:
            docs = np.sort(docs[np.argsort(hashes[0][docs])[:_MAX_CHECK_DOCS]])
            looks = looks[np.isin(looks[:, 0], docs)]
        place = np.searchsorted(docs, looks[:, 0])
        others, values = split_looks(record.votes.take(docs), np.column_stack((place, looks[:, 1])))
        values = np.where(record.known[looks[:, 0]] >= 0, -1, values).astype(np.int8)
        rates = self._annotator_rates(looks[:, 1])
        if isinstance(self._belief, SupportBelief):
            model, belief, convert = self._annotator_model(), self._belief, self._sources.convert

            def held_out(hidden: Votes, visible: Votes) -> HeldOutVotes:
                return model.held_out(convert(hidden), convert(visible), belief)

            rates = rates_given_others(rates, np.column_stack((place, looks[:, 1])), record.votes.take(docs), held_out)
        found = CheckVotes(docs, self._posterior(others, docs), place, values, rates)
        self._checks_of = key, found
        return found

    def _held_back_labels(self) -> HeldBackLabels | None:
        """Known labels of documents with votes, and their probabilities without them.

        Those of the fit were held back from it. Of later ones, the fit has seen nothing.
        """
        record, check = self._kept_record(), self.gold_check_
        known = record.known.copy()
        parts = []
        if check is not None and len(check.doc):
            parts.append(HeldBackLabels(check.doc, check.label_probs, check.probs_without_gold, check.truth))
            known[check.doc] = -1
        docs = np.flatnonzero((known >= 0).any(axis=1))
        votes = record.votes.take(docs)
        has_votes = votes.per_pair() > 0
        if has_votes.any():
            probs = self._posterior(votes, docs)
            row, label = np.nonzero(has_votes & (known[docs] >= 0))
            held_back = probs[row, label]
            parts.append(HeldBackLabels(docs[row], held_back, held_back, known[docs[row], label]))
        return HeldBackLabels(*map(np.concatenate, zip(*parts, strict=True))) if parts else None

    def _posterior(self, votes: Votes, docs: Ints) -> Array:
        """Labels of some documents under given votes, without known labels."""
        n_classes = len(self.classes_)
        if not len(docs):
            return np.empty((0, n_classes))
        unknown = np.full((len(docs), n_classes), -1, dtype=np.int8)
        state = CrowdState(self._belief, self._vote_profiles, ProfilePrior.vague(n_classes))
        evidence = self._kept_record().evidence[docs].astype(np.float64)
        return label_posterior(self._sources.convert(votes), unknown, state, self._vote_settings(), evidence)

    def _annotators_of_votes(self) -> Rates | SupportBelief:
        """What votes of the annotators are drawn from: their rates, or their traits in the support model."""
        belief = self._belief
        if not isinstance(belief, SupportBelief):
            return self._annotator_rates(np.arange(len(self.annotators_)))
        return belief.take(self._current_sources())

    def _current_sources(self) -> Ints:
        """(annotators,): the source whose rates each annotator has now; the last period, that of a group of copies."""
        sources = self._sources.group_of
        n_annotators = len(sources)
        latest = np.arange(n_annotators)
        if self._sources.uses_changes:
            for number, annotator in enumerate(self._sources.changes.annotator):
                latest[annotator] = n_annotators + number  # changes are sorted by time
        return latest[sources]

    def _annotator_rates(self, positions: Ints) -> Rates:
        """Rates of annotators at these positions; -1 for newcomers."""
        sources = np.append(self._current_sources(), -1)[positions]
        return rates_by_annotator(self._belief, sources, len(self.classes_))

    def _typical_rates(self) -> TypicalRates:
        """Rates of one more typical vote: (documents, classes) given the votes there are, or (classes,)."""
        record, belief = self._record, self._belief
        if record is None or not isinstance(belief, SupportBelief):
            return typical_rates(belief, self._vote_counts, len(self.classes_))
        key = (record, belief, self.consensus_)
        if self._rates_of is None or not _same(self._rates_of[0], key):
            votes = self._sources.convert(record.votes.all_votes)
            self._rates_of = key, rates_given_votes(votes, belief, record.evidence.astype(np.float64))
        return self._rates_of[1]

    def _typical_votes(self) -> TypicalVotes:
        rates = self._annotator_rates(np.arange(len(self.annotators_)))
        weights = np.bincount(self._kept_record().votes.looks()[:, 1], minlength=len(self.annotators_))
        return typical_votes(rates, weights.astype(np.float64))


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether the parts of both are the same objects, or equal numbers."""
    return all(a is b or (isinstance(a, (bool, float)) and a == b) for a, b in zip(one, other, strict=True))


def _disagreements(check: CheckVotes, slope: float) -> dict[str, Any]:
    """Check votes against the consensus without them, and their expected number."""
    voted = check.values >= 0
    probs = np.clip(check.label_probs[check.place], 1e-9, 1.0 - 1e-9)
    present = 1.0 / (1.0 + ((1.0 - probs) / probs) ** slope)
    prob_yes = present * check.rates.sensitivity + (1.0 - present) * (1.0 - check.rates.specificity)
    decided = probs >= 0.5
    return {
        "check_disagreements": float(np.sum((check.values != decided)[voted])),
        "expected_disagreements": float(np.sum(np.where(decided, 1.0 - prob_yes, prob_yes)[voted])),
    }


def share_of(share: Any, name: str) -> float:
    """The share, if it is a number from 0 to below 1."""
    if isinstance(share, bool) or not isinstance(share, (int, float, np.number)) or not 0.0 <= share < 1.0:
        raise ValueError(f"{name}={share!r:.60} must be a number from 0 to below 1")
    return float(share)
