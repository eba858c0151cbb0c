"""When to stop: expected errors of a fitted ``CrowdPALDA`` with a bound, calibrated on check votes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.estimators.label_updates import LabelUpdateEstimator
from palda.models.assignment import (
    Calibration,
    LabelHistogram,
    Rates,
    StoppingReport,
    calibrate,
    check_documents,
    check_looks,
    expected_wrong,
    fixed_overlap_errors,
    micro_f1,
    name_hashes,
    no_calibration,
    rates_by_annotator,
    slope_log_likelihoods,
    split_looks,
    typical_votes,
    vote_log_likelihoods,
    votes_needed,
)
from palda.models.crowd import CrowdState, ProfilePrior, label_posterior

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, Votes
    from palda.models.assignment import ExpectedQuality, TypicalVotes

    Ints = NDArray[np.int64]

CHECK_SHARE = 0.05
"""Share of documents that get check votes, and of all votes that are check votes, if there is a target."""

_MAX_CHECK_DOCS = 2000  # that the calibration uses
_CERTAIN = 1.0 - 1e-6  # rates of known labels


class CheckVotes(NamedTuple):
    """Check votes, and the labels of their documents without them."""

    docs: Ints  # documents with check votes
    label_probs: Array  # (docs, classes): without check votes and known labels
    place: Ints  # (looks,): position of each look in ``docs``
    values: NDArray[np.int8]  # (looks, classes): -1 for no vote
    rates: Rates  # (looks, classes)

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


class _Quality(NamedTuple):
    """Expected quality at the calibrated slope, and the upper bound of the number of wrong labels."""

    expected: ExpectedQuality
    upper_wrong: float
    calibration: Calibration
    check: CheckVotes
    n_check_docs: int
    n_labels: int

    def meets(self, target_error: float | None, target_f1: float | None) -> bool | None:
        """Whether the bounds meet all targets; None without a target."""
        if target_error is None and target_f1 is None:
            return None
        few = target_error is None or self.upper_wrong <= target_error * self.n_labels
        return few and (target_f1 is None or self.lower_f1 >= target_f1)

    @property
    def lower_f1(self) -> float:
        """Micro-F1 with as many wrong labels as the bound."""
        return micro_f1(self.expected.found, self.upper_wrong)


class StoppingEstimator(LabelUpdateEstimator):
    """The part of ``CrowdPALDA`` that says how many labels are still wrong."""

    _hashes_of: tuple[Any, NDArray[np.uint64]] | None = None
    _quality_of: tuple[tuple[Any, ...], _Quality] | None = None
    _checks_of: tuple[tuple[Any, ...], CheckVotes] | None = None

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
        >>> report = model.stopping_report(target_error=0.2)
        >>> report.n_votes, report.met
        (200, True)
        """
        check_targets(target_error, target_f1)
        record = self._kept_record()
        quality = self._expected_quality(share_of(check_share, "check_share"), random_gold=random_gold)
        typical = self._typical_votes()
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
            self._annotator_rates(np.arange(len(self.annotators_))),
            weights,
            enough,
        )
        return StoppingReport(
            n_docs=len(self.doc_ids_),
            n_labels=quality.n_labels,
            n_votes=len(looks),
            expected_wrong=quality.expected.wrong,
            upper_wrong=quality.upper_wrong,
            wrong_per_doc=wrong,
            expected_f1=quality.expected.f1,
            lower_f1=quality.lower_f1,
            wrong_after_one_vote=ratio * float(expected_wrong(self.consensus_, typical, 1).sum()),
            fixed_votes_per_doc=votes_needed(errors, enough),
            n_check_docs=quality.n_check_docs,
            n_check_votes=len(quality.check.values),
            **_disagreements(quality.check, quality.calibration.slope),
            calibration=quality.calibration,
            uses_random_gold=random_gold and bool((record.known >= 0).any()),
            target_error=target_error,
            target_f1=target_f1,
            met=quality.meets(target_error, target_f1),
        )

    def _expected_quality(self, check_share: float, *, random_gold: bool) -> _Quality:
        """Expected quality of the consensus; computed again when votes or rates have changed."""
        record = self._kept_record()
        key = (record, self._belief, self.consensus_, check_share, random_gold)
        if self._quality_of is not None and _same(self._quality_of[0], key):
            return self._quality_of[1]
        check = self._check_votes(check_share)
        tests = [check, self._gold_as_votes()] if random_gold else [check]
        n_compared = sum(test.n_judgements for test in tests)
        log_likelihoods = sum((test.log_likelihoods() for test in tests), start=np.zeros(1))
        calibration = calibrate(log_likelihoods, n_compared) if n_compared else no_calibration()
        histogram = LabelHistogram.of(self.consensus_, record.known)
        quality = _Quality(
            histogram.quality(calibration.slope),
            calibration.upper_wrong(histogram),
            calibration,
            check,
            int(check_documents(self._doc_hashes(), check_share).sum()),
            histogram.n_labels,
        )
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
        docs = np.unique(looks[:, 0])
        if len(docs) > _MAX_CHECK_DOCS:
            docs = np.sort(docs[np.argsort(hashes[0][docs])[:_MAX_CHECK_DOCS]])
            looks = looks[np.isin(looks[:, 0], docs)]
        place = np.searchsorted(docs, looks[:, 0])
        others, values = split_looks(record.votes.take(docs), np.column_stack((place, looks[:, 1])))
        values = np.where(record.known[looks[:, 0]] >= 0, -1, values).astype(np.int8)
        rates = self._annotator_rates(looks[:, 1])
        found = CheckVotes(docs, self._posterior(others, docs), place, values, rates)
        self._checks_of = key, found
        return found

    def _gold_as_votes(self) -> CheckVotes:
        """Known labels of documents with votes as votes that are never wrong, and the labels without them."""
        record = self._kept_record()
        docs = np.flatnonzero((record.known >= 0).any(axis=1))
        votes = record.votes.take(docs)
        has_votes = np.diff(votes.doc_starts) > 0
        docs, votes = docs[has_votes], votes.take(has_votes)
        certain = np.full((len(docs), len(self.classes_)), _CERTAIN)
        place = np.arange(len(docs))
        return CheckVotes(docs, self._posterior(votes, docs), place, record.known[docs], Rates(certain, certain))

    def _posterior(self, votes: Votes, docs: Ints) -> Array:
        """Labels of some documents under given votes, without known labels."""
        n_classes = len(self.classes_)
        if not len(docs):
            return np.empty((0, n_classes))
        unknown = np.full((len(docs), n_classes), -1, dtype=np.int8)
        state = CrowdState(self._belief, self._vote_profiles, ProfilePrior.vague(n_classes))
        evidence = self._kept_record().evidence[docs].astype(np.float64)
        return label_posterior(self._sources.convert(votes), unknown, state, self._vote_settings(), evidence)

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

    def _typical_votes(self) -> TypicalVotes:
        rates = self._annotator_rates(np.arange(len(self.annotators_)))
        weights = np.bincount(self._kept_record().votes.looks()[:, 1], minlength=len(self.annotators_))
        return typical_votes(rates, weights.astype(np.float64))


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether the parts of both are the same objects, or equal numbers."""
    return all(a is b or (isinstance(a, (bool, float)) and a == b) for a, b in zip(one, other, strict=True))


def _disagreements(check: CheckVotes, slope: float) -> dict[str, float]:
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


def check_targets(target_error: Any, target_f1: Any) -> None:
    """Raise unless targets are None or between 0 and 1."""
    for name, value in (("target_error", target_error), ("target_f1", target_f1)):
        if value is not None and not (isinstance(value, (int, float, np.number)) and 0.0 < value < 1.0):
            raise ValueError(f"{name}={value!r:.60} must be a number between 0 and 1")


def share_of(share: Any, name: str) -> float:
    """The share, if it is a number from 0 to below 1."""
    if isinstance(share, bool) or not isinstance(share, (int, float, np.number)) or not 0.0 <= share < 1.0:
        raise ValueError(f"{name}={share!r:.60} must be a number from 0 to below 1")
    return float(share)
