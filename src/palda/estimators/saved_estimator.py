"""Estimators in files: what is kept of a fitted model, and how a loaded one becomes what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from palda.data import names_array
from palda.engine import strip_prefix
from palda.estimators.attachments import Attachments, packed, texts_array, unpacked
from palda.estimators.model_file import save_state, state_of_prior, stored_prior
from palda.models.topics import Temperature, params_from_arrays, params_to_arrays
from palda.training import PastSummary

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from palda.data import Strings, TextWords, ValueWords, Votes
    from palda.estimators.model_file import SavedModel

    Array = NDArray[np.float64]

__all__ = ["SavedEstimator", "as_many", "out_of_fold_arrays", "take_out_of_fold"]

_NOT_KEPT = {"engine": None}  # a file must not have anybody talk to a cluster


class SavedEstimator(BaseEstimator):
    """What is kept in a file beside the model is in attributes too."""

    words_: TextWords | ValueWords | None = None
    """What turns texts or values into counts; known after ``load`` of a file that keeps it."""
    texts_: Strings | None = None
    """Texts of the training documents, likewise."""
    votes_: Votes | None = None
    """Votes that the model learned from, likewise."""

    out_of_fold_probs_: Array

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        words: TextWords | ValueWords | None = None,
        texts: Any = None,
        votes: Any = None,
    ) -> None:
        """Write the fitted model to one file, whole or not at all; :func:`palda.load` reads it back.

        A loaded model that is saved again keeps what it was saved with.

        Parameters
        ----------
        path
            File to write; an older one is replaced.
        words
            The fitted transformer that made X; the loaded model has it as ``words_`` and can so read new texts.
        texts
            Texts of the training documents, row by row of X, for reports: ``texts_``.
        votes
            The votes that the model learned from, for reports: ``votes_``. Only of a model of a crowd.
        """
        check_is_fitted(self)
        arrays: dict[str, NDArray[Any]] = params_to_arrays(self._params) | state_of_prior(self._prior, self.label_prior)
        arrays |= {"lower_bounds": self.lower_bounds_, "thresholds": self.thresholds_}
        if self._memory is not None:
            arrays |= {f"memory.{name}": array for name, array in self._memory.arrays().items()}
        state = {
            "estimator": type(self).__name__,
            "settings": {name: _plain(value) for name, value in self.get_params(deep=False).items()} | _NOT_KEPT,
            "converged": bool(self.converged_),
            "lower_bound": float(self.lower_bound_),
            "worst_fall": float(self.worst_fall_),
            "temper": list(self.temper_),
        }
        if hasattr(self, "feature_names_in_"):
            state["feature_names"] = self.feature_names_in_.tolist()
        elif self.vocabulary_.dtype == object:
            state["vocabulary"] = self.vocabulary_.tolist()
        self._add_state(arrays, state)
        attached_arrays, attached_state = packed(self._attachments(words, texts, votes))
        save_state(path, arrays | attached_arrays, state | attached_state)

    def _attachments(self, words: TextWords | ValueWords | None, texts: Any, votes: Any) -> Attachments:
        """What goes into the file beside the model: what is given, else what a loaded model came with."""
        words = self.words_ if words is None else words
        if words is not None and len(words.get_feature_names_out()) != self.n_features_in_:
            raise ValueError(
                f"words makes {len(words.get_feature_names_out())} columns, but the model was fitted on "
                f"{self.n_features_in_}; pass the transformer that made X"
            )
        kept = self.texts_ if texts is None else texts_array(texts)
        return Attachments(words, kept, self._votes_to_keep(votes))

    def _votes_to_keep(self, votes: Any) -> Votes | None:
        if votes is not None:
            raise ValueError(f"{type(self).__name__} learns from labels and has no votes to keep")
        return None

    def _axes_of_votes(self) -> tuple[Strings, Strings, Strings] | None:
        """Documents, annotators and classes, for a model that learned from votes."""
        return None

    def _take_attachments(self, saved: SavedModel) -> None:
        """Take what the file holds beside the model."""
        self.words_, self.texts_, self.votes_ = unpacked(saved.arrays, saved.state, self._axes_of_votes())
        self.vocabulary_ = self._column_names()
        if "vocabulary" in saved.state:
            listed = as_many(saved.state["vocabulary"], self._params.topic_words.T, "words")
            self.vocabulary_ = names_array(listed)
        elif self.words_ is not None and not hasattr(self, "feature_names_in_"):
            self.vocabulary_ = self.words_.get_feature_names_out()
        if self.words_ is not None:
            as_many(list(self.words_.get_feature_names_out()), self._params.topic_words.T, "words")

    def _add_state(self, arrays: dict[str, NDArray[Any]], state: dict[str, Any]) -> None:
        raise NotImplementedError

    def _take_state(self, saved: SavedModel, trusted: tuple[str, ...]) -> None:
        """Become what was saved."""
        self._params = params_from_arrays(saved.arrays)
        self._prior, plugged_in = stored_prior(saved.arrays, self._params, trusted)
        if plugged_in is not None:
            self.label_prior = plugged_in
        self._memory = PastSummary.from_arrays(strip_prefix("memory", saved.arrays))
        self.lower_bounds_ = saved.arrays["lower_bounds"]
        self.thresholds_ = saved.arrays["thresholds"]
        as_many(list(self.thresholds_), self._params.class_prior, "classes")
        self.n_iter_ = len(self.lower_bounds_)
        self.n_features_in_ = self._params.topic_words.shape[1]
        if "feature_names" in saved.state:
            words = as_many(saved.state["feature_names"], self._params.topic_words.T, "features")
            self.feature_names_in_ = np.array(words, dtype=object)
        self.converged_ = bool(saved.state["converged"])
        self.lower_bound_ = float(saved.state["lower_bound"])
        self.worst_fall_ = float(saved.state["worst_fall"])
        self.temper_ = Temperature(*(float(number) for number in saved.state["temper"]))
        self.n_topics_ = len(self._params.topic_words)


def out_of_fold_arrays(model: SavedEstimator) -> dict[str, NDArray[Any]]:
    """What was predicted out of fold, where it was: in single precision, since only curves are drawn from it."""
    probs: Array | None = getattr(model, "out_of_fold_probs_", None)
    return {} if probs is None else {"out_of_fold_probs": probs.astype(np.float32)}


def take_out_of_fold(model: SavedEstimator, saved: SavedModel, n_docs: int | None = None) -> None:
    """Take what was predicted out of fold, if the file has it."""
    if "out_of_fold_probs" not in saved.arrays:  # base rates have none, nor had the first files
        return
    probs = saved.arrays["out_of_fold_probs"].astype(np.float64)
    if probs.shape != (len(probs) if n_docs is None else n_docs, len(model.classes_)):
        raise ValueError("the array 'out_of_fold_probs' does not fit the others")
    model.out_of_fold_probs_ = probs


def _plain(setting: Any) -> Any:
    """What JSON can hold of a setting; not a random generator in mid-stream, nor a classifier, which is kept apart."""
    if isinstance(setting, np.generic):
        return setting.item()
    return setting if isinstance(setting, (str, int, float, bool, type(None))) else None


def as_many(names: list[object], columns: Array, kind: str) -> list[object]:
    """The names, if there are as many as there are columns."""
    if len(names) != len(columns):
        raise ValueError(f"there are {len(names)} names for {len(columns)} {kind}")
    return names
