"""PALDA, the estimator for known labels, and ``load``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin

from palda.errors import PaldaError
from palda.estimators.base import TopicEstimator
from palda.estimators.crowd_palda import CrowdPALDA
from palda.estimators.document_inputs import ids_of
from palda.estimators.inputs import given_classes, label_table, labels_of_classes
from palda.estimators.model_file import ModelFileError, load_state
from palda.estimators.parameters import parameters_from_file
from palda.io import ShardFolder
from palda.models.crowd import TwoCoinModel, mean_where_unknown
from palda.models.topics import TrainingData
from palda.training import Batch

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from palda.estimators.checkpoint import Checkpoint


class PALDA(ClassifierMixin, TopicEstimator):
    """Multi-label classifier and topic model for documents with known labels (ML-PA-LDA).

    A document has class i with probability ξ_i. Each class has two distributions over topics, one for documents that
    have the class and one for documents that do not. For every word a class is drawn uniformly, then a topic from the
    distribution of that class, then the word from the topic (maths, eq. 1). By default a classifier that reads words
    and topics replaces the constant ξ_i (maths, eqs. 48-51).

    Parameters
    ----------
    n_topics : int or "auto", default="auto"
        Number of topics. ``"auto"`` derives it from the number of classes and of words.
    inference : {"joint", "mean_field"}, default="joint"
        Variational family. ``"joint"``: q(λ) q(θ | λ) q(u, z), with a tighter bound and less work. ``"mean_field"``:
        q(λ) q(θ) q(u) q(z), as published.
    absence : {"shared", "per_class"}, default="shared"
        Topic prior of absent classes. ``"shared"``: one for all classes, so that an E-step costs as much as the classes
        that a document has, not as many as there are. ``"per_class"``: one per class, as published.
    label_prior : {"stacked", "topics", "words", "base_rate"} or classifier, default="stacked"
        Probability of each class before any vote. ``"stacked"``: calibrated logistic regression on words (tf-idf) and
        on the topic model's evidence for each class. ``"words"``, ``"topics"``: on one of the two. ``"base_rate"``: one
        constant per class, as published; predictions then come from the topic model. A scikit-learn classifier with
        ``predict_proba``, or a pipeline that ends in one, is fitted to the counts. With fewer than 50 documents the
        base rate is always used.
    n_profiles : int or "auto", default="auto"
        Number of label-set profiles, which model classes that occur together. 1 makes classes independent. ``"auto"``
        uses as many as improve the prediction of held-out labels. Base rates have one.
    smoothing : bool, default=True
        Whether topics have a Dirichlet prior, which gives unseen words a probability above 0.
    thresholds : {"micro_f1", "macro_f1", "jaccard"} or float, default="micro_f1"
        Probability at which ``predict`` returns a class: one number, or the measure that is maximised on held-out
        documents with one threshold per class.
    n_init : int, default=1
        Number of random starts of the topic model. The one with the best bound is kept.
    algorithm : {"batch", "online"}, default="batch"
        EM of the topic model. ``"batch"``: one step per iteration over all documents. ``"online"``: up to 32
        natural-gradient steps per iteration, each on a part of the documents, which saves iterations on large data.
    max_iter : int, default=200
        Maximum number of iterations of EM.
    tol : float or "auto", default="auto"
        EM stops when the bound grows by less than this fraction. ``"auto"`` is .01 for ``label_prior="stacked"``, and
        .002 otherwise.
    n_jobs : int, default=None
        Number of threads. None uses all cores, or one thread inside a worker of joblib. The result does not depend on
        it.
    engine : "dask", str or dask.distributed.Client, default=None
        Where documents are processed. None: threads of this process. ``"dask"``, the address of a Dask scheduler or a
        client: the workers of a cluster (``pip install 'palda[dask]'``). The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Random seed.
    verbose : int, default=0
        Write the progress of EM to standard error if not 0.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Names of the columns of y.
    n_features_in_ : int
        Number of words (columns of X).
    feature_names_in_ : ndarray of shape (n_words,)
        Column names of X. Only if X is a data frame.
    vocabulary_ : ndarray of shape (n_words,)
        Names of the words: those of a ``Corpus`` or data frame, else column numbers.
    n_topics_ : int
        Number of topics.
    topic_words_ : ndarray of shape (n_topics, n_words)
        Word distribution of each topic, β; the posterior mean if ``smoothing``.
    topic_prior_ : ndarray of shape (n_classes, 2, n_topics)
        Dirichlet parameters α: ``[i, 1]`` for documents with class i, ``[i, 0]`` for documents without.
    class_prior_ : ndarray of shape (n_classes,)
        Base rate of each class, ξ.
    head_ : object or None
        Fitted classifier of the label prior; None for base rates.
    profiles_ : Profiles or None
        Label-set profiles used in prediction, with ``weights`` (n_profiles,) and ``rates`` (n_profiles, n_classes);
        None for base rates.
    thresholds_ : ndarray of shape (n_classes,)
        Probability at which each class is predicted.
    out_of_fold_probs_ : ndarray of shape (n_documents, n_classes)
        Predictions for the training documents by models that did not see them. Not for base rates. Model files keep
        them in single precision.
    temper_ : Temperature
        Weight of the topic model's word evidence as a function of document length (maths, eq. 34).
    n_iter_ : int
        Number of iterations of EM.
    converged_ : bool
        Whether EM reached ``tol``.
    interrupted_ : bool
        Whether Ctrl-C stopped EM early. Not kept in model files.
    lower_bounds_ : ndarray of shape (n_iter,)
        Lower bound of the log-likelihood after each iteration; an estimate if ``algorithm="online"``.
    lower_bound_ : float
        Best lower bound.
    worst_fall_ : float
        Largest relative decrease of the bound between two iterations.
    words_, texts_, votes_ : object or None
        What the model was saved with, see ``save``. None until it is loaded.

    See Also
    --------
    CrowdPALDA : The same model for votes of a noisy crowd.

    Examples
    --------
    >>> from palda import PALDA, simulate
    >>> news = simulate.newsroom(200, seed=0)
    >>> model = PALDA(random_state=0).fit(news.corpus.counts[:150], news.labels[:150])
    >>> model.predict_proba(news.corpus.counts[150:]).shape
    (50, 10)
    >>> model.score(news.corpus.counts[150:], news.labels[150:]) > 0.8
    True
    """

    def __init__(
        self,
        n_topics: int | Literal["auto"] = "auto",
        *,
        inference: str = "joint",
        absence: str = "shared",
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
        self.absence = absence
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

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        features: Any = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    ) -> Self:
        """Fit topics and label prior to documents with known labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_words), Corpus or ShardFolder
            Word counts. A ``ShardFolder`` brings its known labels.
        y : array-like or DataFrame of shape (n_documents, n_classes)
            Labels: 1 for present, 0 for absent, -1 or NaN for unknown.
        features : array-like of shape (n_documents, n_columns), DataFrame or FeatureTable, default=None
            What describes the documents besides words: embeddings, measurements, metadata. Columns of a data frame are
            numbers, categories, or lists of numbers; its index holds document ids, unless it is the default numbering.
            Missing values are allowed. A memory map is not copied as a whole. X may then be None.
        checkpoint : Checkpoint, str or path-like, default=None
            Folder from which an interrupted fit resumes.

        Returns
        -------
        PALDA
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter, X or y is invalid.
        """
        self._check_parameters()
        known, names = (X.gold, X.classes) if isinstance(X, ShardFolder) and y is None else label_table(y)
        counts = self._counts(X, reset=True, features=features)
        if len(known) != counts.shape[0]:
            raise ValueError(
                f"X has {counts.shape[0]} documents, but y has labels for {len(known)}: inconsistent numbers of samples"
            )
        self.classes_ = names
        encoded = self._learn_features(features, X, ids_of(X, None), counts.shape[0])
        data = TrainingData(counts, known, mean_where_unknown(known), features=encoded)
        self._train(data, TwoCoinModel(), checkpoint)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, *, features: Any = None) -> Self:
        """Update the model with a new batch of documents; the first call is a ``fit``.

        It also continues after ``fit`` and ``load``. Earlier documents are not needed again; they keep their weight.
        Topics, base rates and classifier are updated. Thresholds, profiles, penalties and ``temper_`` stay as the
        first call chose them, so the first batch should be representative.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_words), Corpus or ShardFolder
            Word counts, with the same columns in every call.
        y : array-like or DataFrame of shape (n_documents, n_classes)
            Labels as in ``fit``, of the same classes in every call. Columns of a data frame are matched by name.
        classes : array-like of shape (n_classes,), default=None
            Names of the columns of y, in the first call, if y is no data frame.
        features : array-like of shape (n_documents, n_columns), DataFrame or FeatureTable, default=None
            Features as in ``fit``, with the same columns in every call.

        Returns
        -------
        PALDA
            The updated estimator.
        """
        self._check_partial_fit()
        if not self.__sklearn_is_fitted__():
            self.fit(X, y, features=features)
            self.classes_ = given_classes(classes, self.classes_)
            self._warn_if_few_docs()
            return self
        known = labels_of_classes(y, given_classes(classes, self.classes_))
        counts = self._counts(X, reset=False, features=features)
        if len(known) != counts.shape[0]:
            raise ValueError(f"X has {counts.shape[0]} documents, but y has labels for {len(known)}")
        encoded = self._features(features, X, ids_of(X, None), counts.shape[0])
        batch = Batch(counts[slice(None)], known, features=encoded if self._prior is not None else None)
        self._update(batch, TwoCoinModel(), np.zeros(0))
        return self

    score = TopicEstimator.score  # not the one of ClassifierMixin, which is the accuracy of whole label sets

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags


def load(path: str | os.PathLike[str], *, trusted: Iterable[str] = ()) -> PALDA | CrowdPALDA:
    """Load a model that ``save`` wrote. Loading executes no code from the file.

    The loaded model predicts the same bits as the saved one.

    Parameters
    ----------
    path : str or path-like
        Model file.
    trusted : iterable of str, default=()
        Types of an external classifier that may be restored besides those of scikit-learn and NumPy, such as
        ``"my_package.MyClassifier"``.

    Returns
    -------
    PALDA or CrowdPALDA
        The fitted estimator; ``words_``, ``texts_`` and ``votes_`` hold what it was saved with.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, of a newer format, or contains types that are not trusted.

    Examples
    --------
    >>> import tempfile
    >>> from palda import PALDA, load, simulate
    >>> news = simulate.newsroom(60, seed=0)
    >>> model = PALDA(3, random_state=0).fit(news.corpus, news.labels)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/news.palda")
    ...     loaded = load(f"{folder}/news.palda")
    >>> bool((loaded.predict_proba(news.corpus) == model.predict_proba(news.corpus)).all())
    True
    """
    saved = load_state(path)
    kinds: dict[str, type[PALDA | CrowdPALDA]] = {"PALDA": PALDA, "CrowdPALDA": CrowdPALDA}
    try:
        kind = saved.state["estimator"]
        model = kinds[kind](**parameters_from_file(kind, saved.state["settings"]))
        model._restore(saved, tuple(trusted))  # noqa: SLF001 - second half of the construction
    except (LookupError, TypeError, ValueError, AttributeError, PaldaError) as error:
        reason = " ".join(str(error).split())
        raise ModelFileError(f"{path}: not a complete model ({reason})") from None
    return model
