"""PALDA and CrowdPALDA: scikit-learn's parameters and attributes around what was learned; no formulas here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from palda.aggregation import ANNOTATOR_MODELS
from palda.annotators.history import annotator_prior as history_of
from palda.annotators.published import PublishedCoin
from palda.annotators.summary import quality_table, rates_by_class, summary
from palda.annotators.two_coin import TwoCoinModel
from palda.base_estimator import TopicEstimator, as_many
from palda.checkpoints import open_journal
from palda.crowd import CrowdSettings, CrowdState, counted, posterior
from palda.data.shards import ShardFolder
from palda.data.types import Corpus, names_array
from palda.engine.threads import Threads, resolve_n_jobs
from palda.fit import Labelled, cut_shards, label_probs
from palda.inputs import as_votes, class_names, first_guess, known_votes, label_table, mean_where_unknown
from palda.persist import ModelFileError, load_state
from palda.priors.label_sets import ProfilePrior
from palda.reading import joined_evidence
from palda.suggest import expected_gain, typical_rates

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    import pandas as pd
    from numpy.typing import NDArray

    from palda.annotators.base import AnnotatorBelief, AnnotatorModel
    from palda.attachments import Attachments
    from palda.checkpoints import Checkpoint
    from palda.data.frozen import Strings
    from palda.data.stretches import VoteRows
    from palda.data.types import Votes
    from palda.persist import SavedModel

    Array = NDArray[np.float64]

__all__ = ["PALDA", "CrowdPALDA", "load"]

_PUBLISHED: dict[str, Any] = {"inference": "mean_field", "label_prior": "base_rate", "thresholds": 0.5, "tol": 1e-4}


class PALDA(ClassifierMixin, TopicEstimator):
    """ML-PA-LDA: topics from the presence and the absence of known classes, and a classifier from topics and words.

    The story it tells: a document has each class i with probability ξ_i. Present or absent, a class has its say: for
    every word some class is asked at random, the class names a topic from what it likes to talk about in that state,
    and the topic writes the word. By default ξ_i is learned from the words as well.

    Parameters
    ----------
    n_topics
        Number of topics T; ``"auto"`` takes it from the number of classes and of words (``n_topics_``).
    inference
        ``"joint"``: q(λ) q(θ | λ) q(u, z), tighter and cheaper. ``"mean_field"``: q(λ) q(θ) q(u) q(z), as published.
    label_prior
        How probable a class is before anybody has voted. ``"stacked"``: a calibrated logistic regression on the words
        (tf-idf) and on what topics say about every class. ``"words"`` or ``"topics"``: on one of them. Any scikit-learn
        classifier with ``predict_proba``, or a pipeline that ends in one, reads the counts instead. ``"base_rate"``:
        one number a class, as published; predictions then come from the topics, by letting classes explain words
        away. With fewer than 50 documents there is too little to learn from, and it is always the base rate.
    n_profiles
        Label-set profiles: which classes come together. 1 for independent classes; ``"auto"`` takes as many as predict
        what is held back better. Base rates have one.
    smoothing
        Give topics a Dirichlet prior, so that words unseen in a topic are not impossible there.
    thresholds
        From which probability on ``predict`` says yes: a number, or the measure that it shall maximise on documents
        held back, with a threshold for each class: ``"micro_f1"``, ``"macro_f1"`` or ``"jaccard"``.
    n_init
        Random starts of the topics; the one with the best bound is kept.
    max_iter, tol
        EM of the topics stops after ``max_iter`` rounds, or when the bound grows by less than ``tol`` of its size.
        ``"auto"`` is .01 where the label prior reads words besides topics (``"stacked"``), .002 elsewhere.
    n_jobs
        Threads; all cores by default, one inside a worker of somebody else's pool. The result is the same.
    engine
        Where documents are worked on. None: threads of this process. ``"dask"``, the address of a Dask scheduler, or a
        ``dask.distributed.Client``: on the workers of a cluster (``pip install 'palda[dask]'``), which hold the
        documents; EM over the votes and the optimiser stay here. The result is the same.
    random_state
        Seed of the starts, the folds and everything else that is drawn.
    verbose
        Show the rounds on standard error.

    Attributes
    ----------
    classes_, n_features_in_, n_iter_, converged_
        As everywhere in scikit-learn; ``classes_`` names the columns of y, the others speak of the topics' EM.
    lower_bounds_, lower_bound_, worst_fall_
        The topics' bound after every round, the best one, and the largest relative fall between rounds.
    topic_words_, topic_prior_, class_prior_
        β, α and the base rates ξ.
    head_, profiles_
        The fitted label prior, and the label-set profiles that predictions go through.
    thresholds_
        (classes,): from which probability on a class is predicted.
    out_of_fold_probs_
        (documents, classes): what models that have not seen them predict for the training documents; only where the
        label prior learns. Files keep it in single precision.
    n_topics_
        Number of topics.
    interrupted_
        Whether Ctrl-C ended the topics' EM early; not kept in files.
    temper_
        How much the topics' words of a document are believed, chosen on documents held back.
    vocabulary_
        Names of the columns of X: those of a ``Corpus`` or data frame, else numbers.
    """

    def __init__(
        self,
        n_topics: int | Literal["auto"] = "auto",
        *,
        inference: str = "joint",
        label_prior: Any = "stacked",
        n_profiles: int | Literal["auto"] = "auto",
        smoothing: bool = True,
        thresholds: str | float = "micro_f1",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float | Literal["auto"] = "auto",
        n_jobs: int | None = None,
        engine: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_topics = n_topics
        self.inference = inference
        self.label_prior = label_prior
        self.n_profiles = n_profiles
        self.smoothing = smoothing
        self.thresholds = thresholds
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def as_published(cls, n_topics: int = 20, *, smoothing: bool = False, **settings: Any) -> Self:
        """The paper's model and settings: mean field, base rates, prediction at ½."""
        return cls(n_topics, smoothing=smoothing, **(_PUBLISHED | settings))

    def fit(self, X: Any, y: Any = None, *, checkpoint: Checkpoint | str | os.PathLike[str] | None = None) -> Self:
        """Learn topics and the label prior from counts X (documents, words) and labels y (documents, classes).

        y holds 1 and 0, and -1 or NaN where a label is unknown. X is never changed. A ``ShardFolder`` as X brings its
        known labels. A long fit with a ``checkpoint``, a folder or ``Checkpoint``, goes on from there if it was
        stopped, and ends as if it had not been.
        """
        known, names = (X.gold, X.classes) if isinstance(X, ShardFolder) and y is None else label_table(y)
        counts = self._counts(X, reset=True)
        if len(known) != counts.shape[0]:
            raise ValueError(
                f"X has {counts.shape[0]} documents, but y has labels for {len(known)}: inconsistent numbers of samples"
            )
        self.classes_ = names
        data = Labelled(counts, known, mean_where_unknown(known))
        with open_journal(checkpoint, self.get_params(deep=False), data) as journal, self._at_work() as at_work:
            settings = replace(at_work, journal=journal)
            if self._learns(data):
                self._fit_learned(data, settings, TwoCoinModel())
            else:
                self._fit_together(data, settings)
        return self

    def _add_state(self, arrays: dict[str, NDArray[Any]], state: dict[str, Any]) -> None:
        arrays |= _out_of_fold_arrays(self)
        state["classes"] = self.classes_.tolist()

    def _take_state(self, saved: SavedModel, trusted: tuple[str, ...]) -> None:
        super()._take_state(saved, trusted)
        self.classes_ = class_names(as_many(saved.state["classes"], self._params.class_prior, "classes"))
        _take_out_of_fold(self, saved)

    def score(self, X: Any, y: Any) -> float:
        """Micro-F1 of the predictions against the truth; unknown labels are left out."""
        return TopicEstimator.score(self, X, y)  # not the mixin's, which would count whole label sets

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags


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
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def as_published(cls, n_topics: int = 20, *, smoothing: bool = False, **settings: Any) -> Self:
        """The paper's model and settings: mean field, base rates, one coin, prediction at ½."""
        return cls(n_topics, smoothing=smoothing, **(_PUBLISHED | {"annotators": "one_coin"} | settings))

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
        known = np.full((given.n_docs, given.n_classes), -1, dtype=np.int8) if gold is None else label_table(gold)[0]
        if known.shape != (given.n_docs, given.n_classes):
            raise ValueError(
                f"gold has shape {known.shape}, not (documents, classes) = {(given.n_docs, given.n_classes)}"
            )
        model = self._annotator_model()
        history = None if annotator_prior is None else history_of(annotator_prior, given.annotators)
        belief = model.start(given.n_annotators, given.n_classes, history)
        data = Labelled(counts, known, first_guess(given, known), given, belief)
        self.classes_, self.annotators_, self.doc_ids_ = given.classes, given.annotators, given.doc_ids
        with open_journal(checkpoint, self.get_params(deep=False), data) as journal, self._at_work(model) as at_work:
            settings = replace(at_work, journal=journal)
            if self._learns(data):
                found = self._fit_learned(data, replace(settings, annotators=None), model)
                self.consensus_, self.vote_log_likelihoods_ = found.label_probs, found.log_likelihoods
                self._params = replace(self._params, annotators=found.belief)
            else:
                self.consensus_ = self._fit_together(data, settings)
                self.vote_log_likelihoods_ = np.empty(0)
        self._vote_counts = counted(model, given, self.consensus_)
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
        return quality_table(summary(self._belief, self._vote_counts), self.annotators_)

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
        belief = belief.with_strangers(given.n_annotators - len(self.annotators_))
        unknown = np.full((given.n_docs, given.n_classes), -1, dtype=np.int8)
        model = self._annotator_model()
        with self._at_work(model) as settings:
            if self._prior is None:
                params = replace(self._params, annotators=belief)
                return label_probs(cut_shards(counts, unknown, given), params, settings)
            extra = joined_evidence(counts, self._prior, settings)
        state = CrowdState(belief, self._prior.for_votes.profiles, ProfilePrior.vague(given.n_classes))
        return posterior(
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
        arrays |= _out_of_fold_arrays(self)
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
        _take_out_of_fold(self, saved, len(self.doc_ids_))


def _out_of_fold_arrays(model: TopicEstimator) -> dict[str, NDArray[Any]]:
    """What was predicted out of fold, where it was: in single precision, since only curves are drawn from it."""
    probs: Array | None = getattr(model, "out_of_fold_probs_", None)
    return {} if probs is None else {"out_of_fold_probs": probs.astype(np.float32)}


def _take_out_of_fold(model: TopicEstimator, saved: SavedModel, n_docs: int | None = None) -> None:
    if "out_of_fold_probs" not in saved.arrays:  # base rates have none, nor had the first files
        return
    probs = saved.arrays["out_of_fold_probs"].astype(np.float64)
    if probs.shape != (len(probs) if n_docs is None else n_docs, len(model.classes_)):
        raise ValueError("the array 'out_of_fold_probs' does not fit the others")
    model.out_of_fold_probs_ = probs


def load(path: str | os.PathLike[str], *, trusted: Iterable[str] = ()) -> PALDA | CrowdPALDA:
    """Model that ``save`` wrote; it predicts bit for bit what it predicted before. Nothing in the file is executed.

    What ``save`` was given beside the model is in ``words_``, ``texts_`` and ``votes_``, each None if it was not.

    A plugged-in classifier is restored only if all its types are scikit-learn's or NumPy's own, or named in
    ``trusted``, such as ``"my_package.MyClassifier"``.
    """
    saved = load_state(path)
    kinds: dict[str, type[PALDA | CrowdPALDA]] = {"PALDA": PALDA, "CrowdPALDA": CrowdPALDA}
    try:
        model = kinds[saved.state["estimator"]](**saved.state["settings"])
        model._take_state(saved, tuple(trusted))  # noqa: SLF001 - the model's own second half of construction
        model._take_attachments(saved)  # noqa: SLF001
    except (KeyError, TypeError, ValueError) as wrong:
        if isinstance(wrong, ModelFileError):
            raise
        reason = " ".join(str(wrong).split())
        raise ModelFileError(f"{path}: does not hold a whole model ({reason})") from None
    return model
