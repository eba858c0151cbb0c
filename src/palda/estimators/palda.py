"""PALDA and CrowdPALDA: scikit-learn's parameters and attributes around what was learned; no formulas here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin

from palda.estimators.base import PUBLISHED, TopicEstimator
from palda.estimators.checkpoints import open_stage_store
from palda.estimators.crowd_palda import CrowdPALDA
from palda.estimators.inputs import arriving_labels, class_names, label_table, mean_where_unknown, named_classes
from palda.estimators.model_file import ModelFileError, load_state
from palda.estimators.saved_estimator import as_many, out_of_fold_arrays, take_out_of_fold
from palda.io import ShardFolder
from palda.models.crowd import TwoCoinModel
from palda.models.topics import TrainingData
from palda.training import Batch

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from palda.estimators.checkpoints import Checkpoint
    from palda.estimators.model_file import SavedModel

    Array = NDArray[np.float64]

__all__ = ["PALDA", "CrowdPALDA", "load"]


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
    algorithm
        EM of the topics. ``"batch"``: a step a round. ``"online"``: up to 32 natural-gradient steps a round, each over
        some of the documents; few rounds do, which pays where there are many documents.
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
        The topics' bound after every round, the best one, and the largest relative fall between rounds; with
        ``algorithm="online"`` estimates, each document's part being that of the step that read it.
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
        algorithm: str = "batch",
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
        self.algorithm = algorithm
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def as_published(cls, n_topics: int = 20, *, smoothing: bool = False, **settings: Any) -> Self:
        """The paper's model and settings: mean field, base rates, prediction at ½."""
        return cls(n_topics, smoothing=smoothing, **(PUBLISHED | settings))

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
        data = TrainingData(counts, known, mean_where_unknown(known))
        with open_stage_store(checkpoint, self.get_params(deep=False), data) as stages, self._at_work() as at_work:
            settings = replace(at_work, stages=stages)
            if self._learns(data):
                self._fit_learned(data, settings, TwoCoinModel())
            else:
                self._fit_together(data, settings)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from documents as they arrive: the first call is a ``fit``, later ones go on from what is known.

        It goes on after ``fit`` and ``load`` too. Earlier documents are not needed again: they count for as much as
        they are many. Topics, base rates and the label prior learn; thresholds, profiles, penalties, how topics
        are read and the temper stay as the first call chose them: begin with a batch that can speak for the others.

        Parameters
        ----------
        X, y
            As in ``fit``; words and classes stay the same.
        classes
            Names of the columns of y, in the first call, where y does not name them.
        """
        self._check_can_go_on()
        if not self.__sklearn_is_fitted__():
            self.fit(X, y)
            self.classes_ = named_classes(classes, self.classes_)
            self._warn_of_a_small_start()
            return self
        known = arriving_labels(y, named_classes(classes, self.classes_))
        counts = self._counts(X, reset=False)
        if len(known) != counts.shape[0]:
            raise ValueError(f"X has {counts.shape[0]} documents, but y has labels for {len(known)}")
        self._arrive(Batch(counts[slice(None)], known), TwoCoinModel(), np.zeros(0), None)
        return self

    def _add_state(self, arrays: dict[str, NDArray[Any]], state: dict[str, Any]) -> None:
        arrays |= out_of_fold_arrays(self)
        state["classes"] = self.classes_.tolist()

    def _take_state(self, saved: SavedModel, trusted: tuple[str, ...]) -> None:
        super()._take_state(saved, trusted)
        self.classes_ = class_names(as_many(saved.state["classes"], self._params.class_prior, "classes"))
        take_out_of_fold(self, saved)

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
