"""CrowdPALDA: the estimator that learns from votes; no formulas here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from palda.data import Corpus, names_array
from palda.engine import Threads, resolve_n_jobs
from palda.estimators.aggregation import ANNOTATOR_MODELS
from palda.estimators.base import PUBLISHED, TopicEstimator
from palda.estimators.checkpoints import open_stage_store
from palda.estimators.inputs import arriving_votes, as_votes, initial_label_probs, known_votes, label_table
from palda.estimators.saved_estimator import as_many, out_of_fold_arrays, take_out_of_fold
from palda.io import ShardFolder
from palda.models.crowd import (
    CrowdSettings,
    CrowdState,
    ProfilePrior,
    PublishedCoin,
    count_votes,
    expected_gain,
    label_posterior,
    parse_annotator_prior,
    quality_table,
    rates_by_class,
    summarize_annotators,
    typical_rates,
)
from palda.models.topics import TrainingData, cut_shards, label_probs
from palda.training import Batch, RevisitedDocuments, classifier_evidence

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Strings, VoteRows, Votes
    from palda.estimators.attachments import Attachments
    from palda.estimators.checkpoints import Checkpoint
    from palda.estimators.model_file import SavedModel
    from palda.models.crowd import AnnotatorBelief, AnnotatorModel

    Array = NDArray[np.float64]

__all__ = ["CrowdPALDA"]


class CrowdPALDA(TopicEstimator):
    """ML-PA-LDA-C: the same topics and classifier when only the votes of a noisy crowd are known.

    The story goes on: an annotator looks at a class of a document, sees whether it is there, and says so truthfully
    as often as is their way. Nobody need judge everything; what was not judged says nothing.

    Votes alone cannot tell a good crowd from its mirror image (everybody wrong, every label turned round): the start
    from the majority decides, and a few ``gold`` labels or an ``annotator_prior`` set it right when the majority lies.

    Parameters and attributes that are not listed are those of :class:`~palda.PALDA`.

    Parameters
    ----------
    annotators
        ``"two_coin"``: sensitivity and specificity of each annotator. ``"one_coin"``: one rate for both, as published.
        ``"per_class"``: both, for every class.

    Attributes
    ----------
    classes_, annotators_, doc_ids_
        Names of classes, annotators and documents.
    consensus_
        (documents, classes): probability of each label given words, votes and gold.
    vote_log_likelihoods_
        Log-likelihood of votes that were hidden for the purpose, after every turn of learning; empty for base rates.
    """

    def __init__(
        self,
        n_topics: int | Literal["auto"] = "auto",
        *,
        annotators: str = "two_coin",
        inference: str = "joint",
        label_prior: Any = "stacked",
        n_profiles: int | Literal["auto"] = "auto",
        smoothing: bool = True,
        thresholds: str | float = "micro_f1",
        n_init: int = 1,
        algorithm: str = "batch",
        max_iter: int = 200,
        tol: float | Literal["auto"] = "auto",
        n_jobs: int | None = None,
        engine: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_topics = n_topics
        self.annotators = annotators
        self.inference = inference
        self.label_prior = label_prior
        self.n_profiles = n_profiles
        self.smoothing = smoothing
        self.thresholds = thresholds
        self.n_init = n_init
        self.algorithm = algorithm
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def as_published(cls, n_topics: int = 20, *, smoothing: bool = False, **settings: Any) -> Self:
        """The paper's model and settings: mean field, base rates, one coin, prediction at ½."""
        return cls(n_topics, smoothing=smoothing, **(PUBLISHED | {"annotators": "one_coin"} | settings))

    def fit(
        self,
        X: Any,
        votes: Any = None,
        gold: Any = None,
        doc_ids: Iterable[object] | None = None,
        annotator_prior: Any = None,
        *,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn topics, labels, annotators and the label prior from counts X and votes.

        Documents without votes take part: they train the topics.

        Parameters
        ----------
        X
            Counts (documents, words), or a ``Corpus``, which brings its document ids; or a ``ShardFolder``, which
            brings votes and known labels too.
        votes
            ``Votes``, an array (documents, annotators, classes) whose rows align with X, with -1 or NaN for no
            judgement, or a long data frame, whose documents are looked up in ``doc_ids``.
        gold
            Known labels (documents, classes), -1 or NaN where unknown.
        doc_ids
            Ids of the rows of X.
        annotator_prior
            What earlier work says about annotators: ``annotator_quality_`` of an earlier fit, or a mapping from
            annotator to quality or to (sensitivity, specificity).
        checkpoint
            A folder, or a ``Checkpoint``, which also says how often it is written to. A long fit goes on from there if
            it was stopped, and ends as if it had not been.
        """
        counts = self._counts(X, reset=True)
        given: VoteRows
        if isinstance(X, ShardFolder) and votes is None:
            given, gold = X.votes, X.gold if gold is None else gold
        else:
            ids = X.doc_ids if isinstance(X, (Corpus, ShardFolder)) and doc_ids is None else doc_ids
            given = as_votes(votes, ids, counts.shape[0])
        known = _gold_table(gold, given)
        model = self._annotator_model()
        history = None if annotator_prior is None else parse_annotator_prior(annotator_prior, given.annotators)
        belief = model.start(given.n_annotators, given.n_classes, history)
        data = TrainingData(counts, known, initial_label_probs(given, known), given, belief)
        self.classes_, self.annotators_, self.doc_ids_ = given.classes, given.annotators, given.doc_ids
        with open_stage_store(checkpoint, self.get_params(deep=False), data) as stages, self._at_work(model) as at_work:
            settings = replace(at_work, stages=stages)
            if self._learns(data):
                found = self._fit_learned(data, replace(settings, annotators=None), model)
                self.consensus_, self.vote_log_likelihoods_ = found.label_probs, found.log_likelihoods
                self._params = replace(self._params, annotators=found.belief)
            else:
                self.consensus_ = self._fit_together(data, settings)
                self.vote_log_likelihoods_ = np.empty(0)
        self._vote_counts = count_votes(model, given, self.consensus_)
        return self

    def partial_fit(self, X: Any, votes: Any, gold: Any = None, doc_ids: Iterable[object] | None = None) -> Self:
        """Learn from documents and votes as they arrive: the first call is a ``fit``, later ones go on.

        What is said of ``PALDA.partial_fit`` holds here too. Annotators keep what is believed of them and their votes
        add up; newcomers begin as typical members of the pool. ``consensus_`` and ``doc_ids_`` grow with the documents.

        Votes on a document that was seen before are welcome: X then holds its row again. They change its consensus and
        what is believed of who gave them; its words are not counted twice. A vote that was given before would be: pass
        new ones only.

        Parameters
        ----------
        X, votes, gold, doc_ids
            As in ``fit``. Classes and annotators are matched by name, those of an array by position; classes stay the
            same. Rows of an array without ids are new documents.
        """
        self._check_can_go_on()
        if not self.__sklearn_is_fitted__():
            self.fit(X, votes, gold, doc_ids)
            self._warn_of_a_small_start()
            return self
        ids = X.doc_ids if isinstance(X, (Corpus, ShardFolder)) and doc_ids is None else doc_ids
        counts = self._counts(X, reset=False)
        came = arriving_votes(votes, ids, counts.shape[0], self._axes_of_votes())
        known = _gold_table(gold, came.votes)
        model, strangers = self._annotator_model(), came.votes.n_annotators - len(self.annotators_)
        seen = None
        if len(came.seen):
            seen = RevisitedDocuments(came.votes.take(came.seen), self.consensus_[came.places], known[came.seen])
        self._params = replace(self._params, annotators=self._belief.with_new_annotators(strangers))
        nothing = np.zeros((strangers, *self._vote_counts.shape[1:]))
        batch = Batch(counts[came.new], known[came.new], came.votes.take(came.new))
        found = self._arrive(batch, model, np.concatenate((self._vote_counts, nothing)), seen)
        self._vote_counts = found.state.vote_counts
        consensus = self.consensus_.copy()
        consensus[came.places] = found.revisited_probs
        self.consensus_ = np.concatenate((consensus, found.label_probs))
        self.doc_ids_ = names_array([*self.doc_ids_, *came.votes.doc_ids[came.new]])
        self.annotators_ = came.votes.annotators
        return self

    def _annotator_model(self) -> AnnotatorModel:
        if self.annotators not in ANNOTATOR_MODELS:
            choices = ", ".join(map(repr, ANNOTATOR_MODELS))
            raise ValueError(f"annotators={self.annotators!r} is not known; choose from {choices}")
        if self.annotators == "one_coin" and self.inference == "mean_field":
            return PublishedCoin()
        return ANNOTATOR_MODELS[self.annotators]()

    @property
    def _belief(self) -> AnnotatorBelief:
        check_is_fitted(self)
        return cast("AnnotatorBelief", self._params.annotators)

    @property
    def annotator_quality_(self) -> pd.DataFrame:
        """What was learned about annotators, a row for each.

        Columns ``annotator``, ``quality`` (expected share of right votes), ``low`` and ``high`` (its 95% interval),
        ``sensitivity``, ``specificity``, ``informedness``, ``n_votes``, ``verdict``; then ``informedness_low``,
        ``informedness_high``, ``n_present``.
        """
        return quality_table(summarize_annotators(self._belief, self._vote_counts), self.annotators_)

    @property
    def annotator_rates_by_class_(self) -> pd.DataFrame:
        """Sensitivity and specificity with their 95% intervals, a row for each annotator and class.

        With ``annotators="per_class"`` they differ from class to class; other models repeat an annotator's.
        """
        return rates_by_class(self._belief, self.annotators_, self.classes_)

    def consensus(self, X: Any, votes: Any, doc_ids: Iterable[object] | None = None) -> Array:
        """(documents, classes): probability of each label of new documents, from their words and the votes on them.

        Votes come in the forms that ``fit`` takes; classes and annotators are matched by name, those of an array by
        position. Annotators that were not there in training count as typical members of the pool.
        """
        belief = self._belief
        ids = X.doc_ids if isinstance(X, Corpus) and doc_ids is None else doc_ids
        counts = self._counts(X, reset=False)
        given = known_votes(votes, ids, counts.shape[0], self.classes_, self.annotators_)
        belief = belief.with_new_annotators(given.n_annotators - len(self.annotators_))
        unknown = np.full((given.n_docs, given.n_classes), -1, dtype=np.int8)
        model = self._annotator_model()
        with self._at_work(model) as settings:
            if self._prior is None:
                params = replace(self._params, annotators=belief)
                return label_probs(cut_shards(counts, unknown, given), params, settings)
            extra = classifier_evidence(counts, self._prior, settings)
        state = CrowdState(belief, self._prior.for_votes.profiles, ProfilePrior.vague(given.n_classes))
        return label_posterior(
            given, unknown, state, CrowdSettings(model, engine=Threads(resolve_n_jobs(self.n_jobs))), extra
        )

    def suggest(self, n: int = 10) -> pd.DataFrame:
        """The ``n`` labels of training documents that are most worth another vote, best first.

        Columns ``doc``, ``label``, ``probability``, and ``gain``: by how many nats the entropy of the label is expected
        to fall with one more vote of a typical annotator. It is largest for labels that are in doubt.
        """
        import pandas as pd

        rates = typical_rates(self._belief, self._vote_counts, len(self.classes_))
        if not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"n={n!r} must be a whole number of at least 1")
        gain = expected_gain(self.consensus_, rates)
        order = np.argsort(-gain, axis=None, kind="stable")[:n]
        doc, label = np.unravel_index(order, gain.shape)
        return pd.DataFrame(
            {
                "doc": self.doc_ids_[doc],
                "label": self.classes_[label],
                "probability": self.consensus_[doc, label],
                "gain": gain[doc, label],
            }
        )

    def _votes_to_keep(self, votes: Any) -> Votes | None:
        if votes is None:
            return self.votes_
        given = as_votes(votes, self.doc_ids_, len(self.doc_ids_))
        axes = (given.annotators, self.annotators_), (given.classes, self.classes_)
        if not all(np.array_equal(*pair) for pair in axes):
            raise ValueError("these are not the votes that the model learned from: annotators or classes differ")
        return given

    def _attachments(self, words: Any, texts: Any, votes: Any) -> Attachments:
        found = super()._attachments(words, texts, votes)
        ids = getattr(texts, "doc_ids", self.doc_ids_)
        if not np.array_equal(ids, self.doc_ids_):
            raise ValueError("texts are of other documents than those the model learned from, or in another order")
        if found.texts is not None and len(found.texts) != len(self.doc_ids_):
            raise ValueError(f"there are {len(found.texts)} texts for {len(self.doc_ids_)} documents")
        return found

    def _axes_of_votes(self) -> tuple[Strings, Strings, Strings]:
        return self.doc_ids_, self.annotators_, self.classes_

    def _add_state(self, arrays: dict[str, NDArray[Any]], state: dict[str, Any]) -> None:
        arrays |= {
            "consensus": self.consensus_,
            "vote_counts": self._vote_counts,
            "vote_log_likelihoods": self.vote_log_likelihoods_,
        }
        arrays |= out_of_fold_arrays(self)
        names = {"classes": self.classes_, "annotators": self.annotators_, "doc_ids": self.doc_ids_}
        state |= {name: values.tolist() for name, values in names.items()}

    def _take_state(self, saved: SavedModel, trusted: tuple[str, ...]) -> None:
        super()._take_state(saved, trusted)
        self.consensus_ = saved.arrays["consensus"]
        self._vote_counts = saved.arrays["vote_counts"]
        self.vote_log_likelihoods_ = saved.arrays["vote_log_likelihoods"]
        self.classes_ = names_array(as_many(saved.state["classes"], self._params.class_prior, "classes"))
        self.annotators_ = names_array(as_many(saved.state["annotators"], self._belief.posterior, "annotators"))
        self.doc_ids_ = names_array(as_many(saved.state["doc_ids"], self.consensus_, "documents"))
        take_out_of_fold(self, saved, len(self.doc_ids_))


def _gold_table(gold: Any, votes: VoteRows) -> NDArray[np.int8]:
    """Known labels (documents, classes), -1 where unknown."""
    shape = (votes.n_docs, votes.n_classes)
    known = np.full(shape, -1, dtype=np.int8) if gold is None else label_table(gold)[0]
    if known.shape != shape:
        raise ValueError(f"gold has shape {known.shape}, not (documents, classes) = {shape}")
    return known
