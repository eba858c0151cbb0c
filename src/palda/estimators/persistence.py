"""Saving and restoring of estimators: which arrays and which JSON state of a fitted model go into a model file.

Array names are part of the file format. They are written out here and next to the classes that own the arrays, and do
not follow the names of fields.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from palda.data import EncodedFeatures, FeatureColumns, Votes, names_array, words_from_arrays, words_to_arrays
from palda.engine import add_prefix, restore_classifiers, strip_prefix
from palda.estimators.inputs import class_names
from palda.estimators.model_file import save_state
from palda.estimators.parameters import PARAMETERS
from palda.kernels import ClassWordProbs
from palda.models.classifier import (
    Combination,
    ExternalClassifier,
    LabelPrior,
    LogisticClassifier,
    check_classifier,
    external_input,
    takes_named_columns,
)
from palda.models.topics import Temperature, WordEvidenceModel, params_from_arrays, params_to_arrays
from palda.training import PastSummary

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from palda.data import Array, Strings, TextWords, ValueWords
    from palda.estimators.model_file import SavedModel

    Arrays = dict[str, NDArray[Any]]

_MAX_EXPONENT, _MIN_LENGTH = 10.0, 1e-6  # of a temperature in a file
_VOTE_COLUMNS = {"doc": np.int32, "annotator": np.int32, "label": np.int32, "value": np.int8}
_OPTIONAL_VOTE_COLUMNS = ("probability", "time")
_ANNOTATOR_TRAITS = ("annotator_kinds", "annotator_families")


class PersistentEstimator(BaseEstimator):
    """``save``, its counterpart for :func:`palda.load`, and the attributes that hold what was saved with the model."""

    words_: TextWords | ValueWords | None = None
    texts_: Strings | None = None
    votes_: Votes | None = None
    out_of_fold_probs_: Array
    _feature_columns: FeatureColumns | None

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        words: TextWords | ValueWords | None = None,
        texts: Any = None,
        votes: Any = None,
    ) -> None:
        """Write the fitted model to one file, which :func:`palda.load` reads.

        The file is written completely or not at all. A loaded model that is saved again keeps its words, texts and
        votes.

        Parameters
        ----------
        path : str or path-like
            File to write. An existing file is replaced.
        words : TextWords or ValueWords, default=None
            The fitted transformer that made X. The loaded model has it as ``words_`` and can read new texts with it.
        texts : Documents or iterable of str of length n_documents, default=None
            Texts of the training documents, in the order of X. Reports show them. Loaded as ``texts_``.
        votes : Votes, DataFrame or array-like, default=None
            Votes that the model was fitted to. Reports show them. Loaded as ``votes_``. Only for ``CrowdPALDA``.

        Raises
        ------
        ModelFileError
            If the file cannot be written.
        ValueError
            If words, texts or votes are not those of the training documents.
        """
        check_is_fitted(self)
        arrays = params_to_arrays(self._params) | _prior_arrays(self._prior, self.label_prior)
        arrays |= {"lower_bounds": self.lower_bounds_, "thresholds": self.thresholds_}
        if self._past is not None:
            arrays |= add_prefix("memory", self._past.arrays())
        if hasattr(self, "out_of_fold_probs_"):  # single precision: only curves are drawn from it
            arrays["out_of_fold_probs"] = self.out_of_fold_probs_.astype(np.float32)
        state = {
            "estimator": type(self).__name__,
            "settings": {
                name: _json_value(value)
                for name, value in self.get_params(deep=False).items()
                if PARAMETERS[name].in_files
            },
            "converged": bool(self.converged_),
            "lower_bound": float(self.lower_bound_),
            "worst_fall": float(self.worst_fall_),
            "temper": list(self.temper_),
            "classes": self.classes_.tolist(),
        }
        if self._feature_columns is not None:
            arrays |= add_prefix("feature_columns", self._feature_columns.arrays())
            state["features"] = _features_state(self._feature_columns)
        if hasattr(self, "feature_names_in_"):
            state["feature_names"] = self.feature_names_in_.tolist()
        elif self.vocabulary_.dtype == object:
            state["vocabulary"] = self.vocabulary_.tolist()
        self._add_state(arrays, state)
        self._attach(arrays, state, words, texts, votes)
        save_state(path, arrays, state)

    def _add_state(self, arrays: Arrays, state: dict[str, Any]) -> None:
        """Add what only one estimator has."""

    def _attach(self, arrays: Arrays, state: dict[str, Any], words: Any, texts: Any, votes: Any) -> None:
        """Add words, texts and votes: those given, else those the model was loaded with."""
        words = self.words_ if words is None else words
        texts = self.texts_ if texts is None else self._texts_array(texts)
        votes = self.votes_ if votes is None else self._checked_votes(votes)
        if words is not None:
            n_words = len(words.get_feature_names_out())
            if n_words != self.n_features_in_:
                raise ValueError(
                    f"words makes {n_words} columns, but the model was fitted on {self.n_features_in_}; "
                    "pass the transformer that made X"
                )
            word_arrays, state["words"] = words_to_arrays(words)
            arrays |= word_arrays
        if texts is not None:
            arrays["texts"] = np.frombuffer(json.dumps(texts.tolist()).encode("ascii"), dtype=np.uint8)
        if votes is not None:
            columns, traits = vote_arrays(votes)
            arrays |= add_prefix("votes", columns)
            state |= traits

    def _texts_array(self, texts: Any) -> Strings:
        """Texts of the training documents, which have ids if there were votes."""
        doc_ids, listed = getattr(self, "doc_ids_", None), list(texts)
        wrong = next((text for text in listed if not isinstance(text, str)), None)
        if wrong is not None:
            raise ValueError(f"texts must be strings, not {wrong!r:.60}")
        if doc_ids is not None and len(listed) != len(doc_ids):
            raise ValueError(f"there are {len(listed)} texts for {len(doc_ids)} documents")
        if doc_ids is not None and not np.array_equal(getattr(texts, "doc_ids", doc_ids), doc_ids):
            raise ValueError("texts are of other documents than those the model was fitted to, or in another order")
        return names_array(listed)

    def _checked_votes(self, votes: Any) -> Votes:  # noqa: ARG002 - CrowdPALDA has votes
        raise ValueError(f"{type(self).__name__} is fitted to labels and has no votes to save")

    def _restore(self, saved: SavedModel, trusted: Sequence[str]) -> None:
        """Take the fitted state of a file that matches ``model_schema``, after the parameters were set."""
        arrays, state = saved.arrays, saved.state
        self._params = params_from_arrays(arrays)
        self._feature_columns = _restored_feature_columns(arrays, state)
        self._prior, external = _restored_prior(arrays, trusted)
        if external is not None:
            self.label_prior = external
        self._past = PastSummary.from_arrays(strip_prefix("memory", arrays))
        self.lower_bounds_, self.thresholds_ = arrays["lower_bounds"], arrays["thresholds"]
        self.n_iter_ = len(self.lower_bounds_)
        self.n_topics_, self.n_features_in_ = self._params.topic_words.shape
        self.converged_ = bool(state["converged"])
        self.lower_bound_ = float(state["lower_bound"])
        self.worst_fall_ = float(state["worst_fall"])
        self.temper_ = _restored_temperature(state["temper"])
        self.classes_ = class_names(state["classes"])
        if "feature_names" in state:
            self.feature_names_in_ = np.array(state["feature_names"], dtype=object)
        self._take_state(arrays, state)
        if "out_of_fold_probs" in arrays:  # base rates have none, nor do the oldest files
            self.out_of_fold_probs_ = arrays["out_of_fold_probs"].astype(np.float64)
        self._restore_attachments(arrays, state)
        if self._prior is not None and external is not None and takes_named_columns(external):
            self._prior = replace(self._prior, word_names=names_array(self.vocabulary_))
        _check_external(self._prior, self._feature_columns, self.n_features_in_)

    def _take_state(self, arrays: Arrays, state: dict[str, Any]) -> None:
        """Take what only one estimator has."""

    def _restore_attachments(self, arrays: Arrays, state: dict[str, Any]) -> None:
        columns = self._params.topic_words.T
        self.vocabulary_ = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        if "words" in state:
            self.words_ = words_from_arrays(state["words"], arrays)
            names = require_length(self.words_.get_feature_names_out(), columns, "words")
            self.vocabulary_ = getattr(self, "feature_names_in_", names)
        if "vocabulary" in state:
            self.vocabulary_ = names_array(state["vocabulary"])
        if "texts" in arrays:
            self.texts_ = self._texts_array(_restored_texts(arrays["texts"].tobytes()))
        if "votes.doc" in arrays:
            self.votes_ = restored_votes(strip_prefix("votes", arrays), self._vote_axes(state))

    def _vote_axes(self, state: dict[str, Any]) -> dict[str, Any]:
        """Names on the axes of votes, and traits of annotators."""
        axes = {"doc_ids": self.doc_ids_, "annotators": self.annotators_, "classes": self.classes_}
        return axes | {name: names_array(state[name]) for name in _ANNOTATOR_TRAITS if name in state}


def _restored_texts(stored: bytes) -> list[str]:
    """Texts from a JSON list of strings; anything else in it is refused before it takes memory."""
    listed, texts, position, decode = stored.decode("ascii"), [], 1, json.JSONDecoder().raw_decode
    if listed == "[]":
        return []
    while listed[position - 1 : position + 1] in ('["', ' "'):
        text, position = decode(listed, position)
        texts.append(text)
        position += listed[position : position + 1] == ","
        position += 1
    if listed[0] != "[" or listed[position - 1 :] != "]":
        raise ValueError("the texts are not a list of strings")
    return texts


def _restored_temperature(numbers: Any) -> Temperature:
    scale, exponent, length = (float(number) for number in numbers)
    if exponent > _MAX_EXPONENT or length < _MIN_LENGTH:
        raise ValueError("the temperature is out of range")
    return Temperature(scale, exponent, length)


def vote_arrays(votes: Votes) -> tuple[Arrays, dict[str, list[str]]]:
    """Columns of votes as arrays of a file, and traits of annotators for its JSON state."""
    optional = [name for name in _OPTIONAL_VOTE_COLUMNS if len(getattr(votes, name))]
    traits = {name: getattr(votes, name).tolist() for name in _ANNOTATOR_TRAITS}
    columns = {name: getattr(votes, name) for name in (*_VOTE_COLUMNS, "abstained", *optional)}
    return columns, {name: names for name, names in traits.items() if names}


def restored_votes(arrays: Mapping[str, NDArray[Any]], axes: dict[str, Any]) -> Votes:
    """The votes from their columns, with the names on their axes."""
    columns = {name: arrays[name].astype(kind, copy=False) for name, kind in _VOTE_COLUMNS.items()}
    columns |= {name: arrays[name] for name in _OPTIONAL_VOTE_COLUMNS if name in arrays}
    abstained = arrays["abstained"].astype(np.int32, copy=False)
    if (abstained >= (len(axes["doc_ids"]), len(axes["annotators"]))).any():
        raise ValueError("an abstention is out of range")
    return Votes(**columns, **axes, abstained=abstained)


def _prior_arrays(prior: LabelPrior | None, label_prior: Any) -> Arrays:
    """Arrays of a label prior; an external classifier becomes the bytes of a skops file."""
    arrays: Arrays = {}
    if not isinstance(label_prior, str):
        from skops import io as skops_io

        models = () if prior is None or isinstance(prior.classifier, LogisticClassifier) else prior.classifier.models
        arrays["plugged_in"] = np.frombuffer(skops_io.dumps([label_prior, list(models)]), dtype=np.uint8)
    if prior is None:
        return arrays
    arrays |= add_prefix("head", prior.classifier.arrays())
    arrays |= add_prefix("for_votes", prior.for_votes.arrays())
    arrays |= add_prefix("for_words", prior.for_words.arrays())
    if prior.evidence_shares is not None:
        arrays["evidence_shares"] = prior.evidence_shares
    if prior.evidence_model is not None:
        word_probs, temperature, log_odds = prior.evidence_model
        arrays |= {"reader.present": word_probs.present, "reader.absent": word_probs.absent}
        arrays |= {"reader.temper": np.array(temperature), "reader.log_odds": log_odds}
    return arrays


def _features_state(columns: FeatureColumns) -> dict[str, Any]:
    categories = [None if names is None else names.tolist() for names in columns.categories]
    return {"names": columns.names.tolist(), "categories": categories}


def _restored_feature_columns(arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> FeatureColumns | None:
    own = strip_prefix("feature_columns", arrays)
    if bool(own) != ("features" in state):
        raise ValueError("the names or the columns of the features are missing")
    if not own:
        return None
    names = names_array(state["features"]["names"])
    categories = tuple(None if one is None else names_array(one) for one in state["features"]["categories"])
    return FeatureColumns.from_arrays(names, categories, own)


def _check_external(prior: LabelPrior | None, columns: FeatureColumns | None, n_words: int) -> None:
    """Raise ``DataError`` unless an external classifier, if there is one, can predict one document."""
    if prior is None or isinstance(prior.classifier, LogisticClassifier):
        return
    counts = sparse.csr_array(np.ones((1, n_words)))
    features = None if columns is None else EncodedFeatures(np.zeros((1, len(columns.names))), columns)
    prior.classifier.check(external_input(counts, features, prior.word_names))


def _restored_prior(arrays: Mapping[str, NDArray[Any]], trusted: Sequence[str]) -> tuple[LabelPrior | None, Any]:
    """The label prior of a model file, and the external classifier, if there is one."""
    external: Any = None
    models: list[Any] = []
    if "plugged_in" in arrays:
        external, models = _restored_external(arrays["plugged_in"].tobytes(), trusted)
    own = strip_prefix("head", arrays)
    if not own:
        return None, external
    classifier: LogisticClassifier | ExternalClassifier
    if external is None:
        classifier = LogisticClassifier.from_arrays(own)
    else:
        classifier = ExternalClassifier.from_arrays(own, models)
    for_votes, for_words = (Combination.from_arrays(strip_prefix(name, arrays)) for name in ("for_votes", "for_words"))
    evidence_model = _restored_evidence_model(strip_prefix("reader", arrays))
    shares = arrays.get("evidence_shares")
    return LabelPrior(classifier, for_votes, for_words, evidence_model, evidence_shares=shares), external


def _restored_evidence_model(own: Mapping[str, NDArray[Any]]) -> WordEvidenceModel | None:
    if not own:
        return None
    word_probs = ClassWordProbs(own["present"], own["absent"])
    return WordEvidenceModel(word_probs, _restored_temperature(own["temper"]), own["log_odds"])


def _restored_external(blob: bytes, trusted: Sequence[str]) -> tuple[Any, list[Any]]:
    restored = restore_classifiers(blob, trusted)
    if not isinstance(restored, list) or len(restored) != 2 or not isinstance(restored[1], list):
        raise ValueError("the model's classifier is damaged")
    check_classifier(restored[0])
    return restored[0], restored[1]


def _json_value(parameter: Any) -> Any:
    """A parameter as JSON; None for a random generator, whose state is lost, and for a classifier, saved apart."""
    if isinstance(parameter, np.generic):
        return parameter.item()
    return parameter if isinstance(parameter, (str, int, float, bool, type(None))) else None


def require_length(names: Any, rows: Array, kind: str) -> Any:
    """The names, if there is one for each row."""
    if len(names) != len(rows):
        raise ValueError(f"there are {len(names)} names for {len(rows)} {kind}")
    return names
