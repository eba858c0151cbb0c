"""Learning from crowds: a classifier and annotators at once (Raykar and others, 2010)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from palda.data import validation
from palda.engine import Threads, resolve_n_jobs
from palda.errors import DataError
from palda.estimators import as_votes
from palda.models.classifier import ClassifierSettings, base_log_odds, fit_classifier
from palda.paper.baselines.rival import HALF, are_counts, checked_features, generator

if TYPE_CHECKING:
    from palda.data import Votes
    from palda.paper.baselines.rival import Array, Labels

__all__ = ["Raykar"]

_FIRST_ROUNDS, _SETTLED = 500, 1e-4  # of EM on the votes alone
_POOL_VOTES = 4.0  # an annotator's rates are drawn towards the crowd's as by this many votes
_N_FOLDS = 3


class Raykar(BaseEstimator):
    """Logistic regression and two-coin annotators, each learned from what the other says about the labels (EM).

    An annotator says "present" with probability sensitivity where a class is present, and "absent" with probability
    specificity where it is not. What is probable before anybody has voted, a logistic regression says: on tf-idf of
    counts, or on standardised values. It is taught with the current consensus as soft labels. A document's own
    labels would come back to it in the next round, surer each time; so every document is judged by a regression that
    has not seen its fold, recalibrated by Platt's method on documents it has not seen either. Penalties are
    chosen likewise, in the first round. Documents without votes do not teach.

    Parameters
    ----------
    coins
        ``"shared"``: an annotator has the same rates for all classes. ``"per_class"``: rates for each, as in the
        original, which knows one class only.
    max_iter
        Rounds at most.
    tol
        EM stops when the consensus changes by less than this, in the mean.
    n_jobs
        Threads; all cores by default. The result is the same.
    random_state
        Seed of the folds.

    Attributes
    ----------
    consensus_
        (documents, classes): probability of each label given features and votes.
    targets_
        The same, NaN for documents without votes. What thresholds are chosen with.
    sensitivity_, specificity_
        (annotators,), or (annotators, classes) if coins are per class.
    annotators_, classes_
        Names.
    n_iter_
        Rounds done.
    """

    def __init__(
        self,
        coins: Literal["shared", "per_class"] = "shared",
        *,
        max_iter: int = 30,
        tol: float = 1e-3,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.coins = coins
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, votes: Any) -> Self:
        """Learn from features and votes, whose documents are the rows of X in that order."""
        validation.require_choice(self.coins, ("shared", "per_class"), "coins")
        validation.require_count(self.max_iter, "max_iter")
        validation.require_number(self.tol, 0, 1, "tol")
        features = checked_features(X)
        given = as_votes(votes, None, features.shape[0])
        judged = (given.per_pair() > 0).astype(np.float64)
        if len(np.flatnonzero(judged.any(axis=1))) < _N_FOLDS:
            raise DataError(f"votes on {_N_FOLDS} documents at least are needed to learn from")
        self.n_features_in_ = features.shape[1]
        self.annotators_, self.classes_ = given.annotators, given.classes
        self.consensus_ = self._learn(features, given, judged)
        self.targets_ = np.where(judged.any(axis=1, keepdims=True), self.consensus_, np.nan)
        self.sensitivity_, self.specificity_ = self._rates(given, self.consensus_)
        return self

    def _learn(self, features: Any, votes: Votes, judged: Array) -> Array:
        """Consensus after EM; the classifier of the last round stays."""
        seed = int(generator(self.random_state).integers(2**31))
        settings = ClassifierSettings(n_folds=_N_FOLDS, seed=seed, engine=Threads(resolve_n_jobs(self.n_jobs)))
        consensus = self._without_features(votes, judged)
        found, change, self.n_iter_ = None, np.inf, 0
        while self.n_iter_ < self.max_iter and change >= self.tol:
            found = fit_classifier(
                consensus, **_as_head_reads(features), weights=judged, settings=settings, start=found
            )
            before, consensus = consensus, expit(found.log_odds + self._vote_log_odds(votes, consensus))
            change = float(np.abs(consensus - before).mean())
            self.n_iter_ += 1
            self._head = found.classifier
        return consensus

    def _without_features(self, votes: Votes, judged: Array) -> Array:
        """Consensus of votes and base rates alone: where EM starts.

        It takes its time: a regression that is taught with the labels of rare classes while these are still far too
        many keeps what it was taught.
        """
        yes, total = votes.yes_per_pair(), votes.per_pair()
        consensus: Array = (yes + HALF) / (total + 1.0)
        for _ in range(_FIRST_ROUNDS):
            before = consensus
            consensus = expit(base_log_odds(consensus, judged) + self._vote_log_odds(votes, consensus))
            if np.abs(consensus - before).mean() < _SETTLED * consensus.mean():
                break
        return consensus

    def _rates(self, votes: Votes, consensus: Array) -> tuple[Array, Array]:
        """Sensitivity and specificity of each annotator, drawn a little towards those of the crowd."""
        n_cells = votes.n_classes if self.coins == "per_class" else 1
        cell = votes.annotator * n_cells + (votes.label if n_cells > 1 else 0)
        present = consensus[votes.doc, votes.label]
        rates = []
        for weight, right in ((present, votes.value == 1), (1.0 - present, votes.value == 0)):
            shape = (votes.n_annotators, n_cells)
            n_right, n_all = (
                np.bincount(cell, counted, minlength=votes.n_annotators * n_cells).reshape(shape)
                for counted in (weight * right, weight)
            )
            crowd = (n_right.sum(axis=0) + 1.0) / (n_all.sum(axis=0) + 2.0)
            rates.append((n_right + _POOL_VOTES * crowd) / (n_all + _POOL_VOTES))
        sensitivity, specificity = (table if n_cells > 1 else table[:, 0] for table in rates)
        return sensitivity, specificity

    def _vote_log_odds(self, votes: Votes, consensus: Array) -> Array:
        """(documents, classes): evidence of the votes, with annotators as good as the consensus has them."""
        place = (votes.annotator, votes.label) if self.coins == "per_class" else votes.annotator
        sensitivity, specificity = (rates[place] for rates in self._rates(votes, consensus))
        says_yes = np.log(sensitivity) - np.log1p(-specificity)
        says_no = np.log1p(-sensitivity) - np.log(specificity)
        evidence = np.where(votes.value == 1, says_yes, says_no)
        sums: Array = np.bincount(votes.pair, evidence, minlength=consensus.size).astype(np.float64, copy=False)
        return sums.reshape(consensus.shape)

    def predict_proba(self, X: Any) -> Array:
        """(documents, classes): probability that each class is present, from the features alone."""
        check_is_fitted(self, "consensus_")
        features = checked_features(X)
        if features.shape[1] != self.n_features_in_:
            raise DataError(f"X has {features.shape[1]} features, but training had {self.n_features_in_}")
        probs: Array = expit(self._head.log_odds(**_as_head_reads(features)))
        return probs

    def predict(self, X: Any) -> Labels:
        """(documents, classes): 1 where the probability is at least ½."""
        return (self.predict_proba(X) >= HALF).astype(np.int8)


def _as_head_reads(features: Any) -> dict[str, Any]:
    return {"counts": features} if are_counts(features) else {"dense": features}
