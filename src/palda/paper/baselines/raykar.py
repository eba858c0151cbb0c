"""Learning from crowds: a classifier and annotator rates in one EM (Raykar et al., 2010)."""

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
from palda.paper.baselines.base import HALF, N_FOLDS, are_counts, check_features, generator

if TYPE_CHECKING:
    from palda.data import Array, Votes
    from palda.paper.baselines.base import Labels

_MAX_START_ITER, _START_TOL = 500, 1e-4  # of the initial EM on votes alone
_POOL_VOTES = 4.0  # strength of the crowd's mean rates as a prior, in votes


class Raykar(BaseEstimator):
    """Logistic regression and two-coin annotators, fitted together by EM.

    An annotator votes "present" with probability sensitivity where a class is present, and "absent" with probability
    specificity where it is not. The prior probability of each label comes from a logistic regression (on tf-idf of word
    counts, or on standardised values) fitted to the current consensus as soft labels. The prior of a document is
    cross-fitted: its regression has not seen the document's fold and is Platt-calibrated on held-out documents, because
    otherwise the consensus would reinforce itself in every iteration. Penalties are chosen by cross-validation in the
    first iteration. Documents without votes are not used to fit the regression.

    Parameters
    ----------
    coins : "shared" or "per_class"
        ``"shared"``: an annotator has the same rates for all classes. ``"per_class"``: rates for each class, as in the
        original, which has a single class.
    max_iter : int
        Maximum number of EM iterations.
    tol : float
        EM stops when the mean absolute change of the consensus is below this.
    n_jobs : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the folds.

    Attributes
    ----------
    consensus_ : array of shape (documents, classes)
        Probability of each label given features and votes.
    targets_ : array of shape (documents, classes)
        The same, NaN for documents without votes; used to choose thresholds.
    out_of_fold_probs_ : array of shape (documents, classes)
        Probability of each label given features alone, by the regression that has not seen the document's fold.
    sensitivity_, specificity_ : array of shape (annotators,) or (annotators, classes)
        Rates of each annotator; per class if ``coins="per_class"``.
    annotators_, classes_ : array of str
        Names.
    n_iter_ : int
        Number of EM iterations.
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
        """Learn from features and votes; the documents of the votes are the rows of X, in order."""
        validation.require_choice(self.coins, ("shared", "per_class"), "coins")
        validation.require_count(self.max_iter, "max_iter")
        validation.require_number(self.tol, 0, 1, "tol")
        features = check_features(X)
        given = as_votes(votes, None, features.shape[0])
        judged = (given.per_pair() > 0).astype(np.float64)
        if len(np.flatnonzero(judged.any(axis=1))) < N_FOLDS:
            raise DataError(f"too few votes: at least {N_FOLDS} documents need votes")
        self.n_features_in_ = features.shape[1]
        self.annotators_, self.classes_ = given.annotators, given.classes
        self.consensus_ = self._learn(features, given, judged)
        self.targets_ = np.where(judged.any(axis=1, keepdims=True), self.consensus_, np.nan)
        self.sensitivity_, self.specificity_ = self._rates(given, self.consensus_)
        return self

    def _learn(self, features: Any, votes: Votes, judged: Array) -> Array:
        """Consensus after EM; keeps the classifier of the last iteration."""
        seed = int(generator(self.random_state).integers(2**31))
        settings = ClassifierSettings(n_folds=N_FOLDS, seed=seed, engine=Threads(resolve_n_jobs(self.n_jobs)))
        consensus = self._start(votes, judged)
        fit, change, self.n_iter_ = None, np.inf, 0
        while self.n_iter_ < self.max_iter and change >= self.tol:
            fit = fit_classifier(consensus, **_classifier_input(features), weights=judged, settings=settings, start=fit)
            before, consensus = consensus, expit(fit.log_odds + self._vote_log_odds(votes, consensus))
            change = float(np.abs(consensus - before).mean())
            self.n_iter_ += 1
            self._classifier, self.out_of_fold_probs_ = fit.classifier, expit(fit.log_odds)
        return consensus

    def _start(self, votes: Votes, judged: Array) -> Array:
        """Initial consensus, from votes and base rates alone.

        It is run to convergence: early on, rare classes have far too many positives, and a regression fitted to those
        would not recover.
        """
        yes, total = votes.yes_per_pair(), votes.per_pair()
        consensus: Array = (yes + HALF) / (total + 1.0)
        for _ in range(_MAX_START_ITER):
            before = consensus
            consensus = expit(base_log_odds(consensus, judged) + self._vote_log_odds(votes, consensus))
            if np.abs(consensus - before).mean() < _START_TOL * consensus.mean():
                break
        return consensus

    def _rates(self, votes: Votes, consensus: Array) -> tuple[Array, Array]:
        """Sensitivity and specificity of each annotator, shrunk towards the mean rates of the crowd."""
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
        """Log-odds that the votes add, shape (documents, classes), with annotator rates taken from the consensus."""
        index = (votes.annotator, votes.label) if self.coins == "per_class" else votes.annotator
        sensitivity, specificity = (rates[index] for rates in self._rates(votes, consensus))
        if_yes = np.log(sensitivity) - np.log1p(-specificity)
        if_no = np.log1p(-sensitivity) - np.log(specificity)
        log_odds = np.where(votes.value == 1, if_yes, if_no)
        sums: Array = np.bincount(votes.pair, log_odds, minlength=consensus.size).astype(np.float64, copy=False)
        return sums.reshape(consensus.shape)

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class from the features alone, shape (documents, classes)."""
        check_is_fitted(self, "consensus_")
        features = check_features(X, self.n_features_in_)
        probs: Array = expit(self._classifier.log_odds(**_classifier_input(features)))
        return probs

    def predict(self, X: Any) -> Labels:
        """1 where the probability is at least ½, else 0; shape (documents, classes)."""
        return (self.predict_proba(X) >= HALF).astype(np.int8)


def _classifier_input(features: Any) -> dict[str, Any]:
    return {"counts": features} if are_counts(features) else {"dense": features}
