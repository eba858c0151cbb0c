"""Share of people who would say that a class is present: attribute, prediction, updates and model files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from palda.engine import add_prefix, strip_prefix
from palda.estimators.base import TopicEstimator
from palda.models.classifier import VoteNumbers, VoteShares
from palda.training import word_probs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Array, CountRows, VoteRows, Votes

    Ints = NDArray[np.int64]


class VoteShareEstimator(TopicEstimator):
    """The part of ``CrowdPALDA`` that is about vote shares."""

    _vote_shares: VoteShares | None = None  # None for model files of versions without vote shares

    @property
    def vote_share_(self) -> Array:
        """ndarray of shape (n_documents, n_classes): share of people who would say that a class is present.

        For the training documents, from their words and votes. It says nothing about the truth, unlike ``consensus_``:
        it is close to ½ if people disagree, however reliable they are. With the default annotator model it is that of
        typical annotators, from the same supports as the consensus. Votes of annotators of the kind ``"model"`` then
        count for what they say about people; with other annotator models they do not count, unless there are no others.
        """
        shares = self._fitted_vote_shares()
        of_supports = self._shares_of_supports()
        return shares.shares() if of_supports is None else of_supports

    def predict_vote_share(self, X: Any, *, features: Any = None) -> Array:
        """Share of people who would say that a class is present, for documents without votes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_words), Corpus or ShardFolder
            Word counts.
        features : array-like of shape (n_documents, n_columns), DataFrame or FeatureTable, default=None
            Features as in ``fit``, with the same columns. Rows are matched by document id where both have ids.

        Returns
        -------
        ndarray of shape (n_documents, n_classes)
            Expected share of yes among votes of typical annotators of the training documents.
        """
        shares = self._fitted_vote_shares()
        of_supports = self._predicted_supports(X, features)
        return shares.expected(self.predict_proba(X, features=features)) if of_supports is None else of_supports

    def _shares_of_supports(self) -> Array | None:
        """Shares of the training documents by the support of their labels; None without the support model."""
        raise NotImplementedError

    def _predicted_supports(self, X: Any, features: Any) -> Array | None:
        """Shares of documents without votes, likewise."""
        raise NotImplementedError

    def _fitted_vote_shares(self) -> VoteShares:
        check_is_fitted(self)
        if self._vote_shares is None:
            raise AttributeError("the model file is of an earlier version that has no vote shares; fit again")
        return self._vote_shares

    def _learn_vote_shares(self, counts: CountRows, votes: VoteRows) -> None:
        """Fit vote shares to the training documents, after everything else."""
        self._vote_shares = VoteShares.fit(self._probs_without_votes(counts), VoteNumbers.of(votes))

    def _add_vote_shares(self, counts: CountRows, votes: Votes) -> None:
        """Add new documents, after everything else."""
        if self._vote_shares is not None:
            probs = self._probs_without_votes(counts)
            self._vote_shares = self._vote_shares.with_documents(probs, VoteNumbers.of(votes))

    def _change_vote_numbers(self, positions: Ints, votes: Votes) -> None:
        """Replace the votes on the documents at ``positions``."""
        if self._vote_shares is not None:
            self._vote_shares = self._vote_shares.with_numbers(positions, VoteNumbers.of(votes))

    def _probs_without_votes(self, counts: CountRows) -> Array:
        """Label probabilities (documents, classes) of the last documents from words alone.

        They are those of classifiers that have not seen the documents; with base rates, of the topic model.
        """
        if hasattr(self, "out_of_fold_probs_"):
            return self.out_of_fold_probs_[len(self.out_of_fold_probs_) - counts.shape[0] :]
        if not counts.shape[0]:
            return np.empty((0, len(self.classes_)))
        with self._em_settings() as settings:
            return word_probs(counts, self._params, self.temper_, settings)

    def _vote_share_arrays(self, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Arrays of the vote shares in a file that has ``arrays`` already."""
        if self._vote_shares is None:
            return {}
        own = self._vote_shares.arrays()
        if "out_of_fold_probs" in arrays:
            del own["probs"]  # they are the same
        return add_prefix("vote_share", own)

    def _take_vote_shares(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take the vote shares of a file."""
        probs = {"probs": arrays["out_of_fold_probs"]} if "out_of_fold_probs" in arrays else {}
        self._vote_shares = VoteShares.from_arrays(probs | strip_prefix("vote_share", arrays))
