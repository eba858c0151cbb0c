"""What PALDA and CrowdPALDA share: training, incremental updates, prediction and explanation."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from scipy.special import expit
from sklearn.base import TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from palda import metrics
from palda.data import names_array
from palda.engine import NO_CHECKPOINT, Threads, open_engine, resolve_n_jobs
from palda.errors import PaldaWarning
from palda.estimators.checkpoint import draw_seeds, open_stage_store
from palda.estimators.document_inputs import ids_of
from palda.estimators.explained import ExplainedEstimator
from palda.estimators.inputs import label_table
from palda.estimators.parameters import CONSTRAINTS
from palda.estimators.progress import Progress
from palda.metrics import choose_thresholds
from palda.models.classifier import check_classifier
from palda.models.crowd import CrowdSettings, SupportBelief, SupportModel
from palda.models.topics import (
    EMSettings,
    TopicPlan,
    base_rate_log_odds,
    default_n_topics,
    evidence_of_shards,
    for_prediction,
    topic_shares,
    unlabelled_shards,
    word_evidence_model,
)
from palda.training import (
    Batch,
    ModelState,
    PastSummary,
    TrainingPlan,
    UpdateResult,
    compare_with_gold,
    fit_alternating,
    fit_base_rates,
    fit_votes_alone,
    summarize_past,
    update_model,
    word_probs,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from palda.data import Array, CountRows, EncodedFeatures
    from palda.engine import Engine, StageStore
    from palda.estimators.checkpoint import Checkpoint
    from palda.models.classifier import ExternalClassifier, LabelPrior, LogisticClassifier
    from palda.models.crowd import AnnotatorModel, GoldCheck, Profiles
    from palda.models.topics import EMResult, Params, TrainingData

_MIN_DOCS = 50  # with fewer documents the label prior is the base rate
_CROWD_MAX_ITER, _CROWD_TOL = 200, 1e-6  # EM over the votes inside one round of training


class TrainedLabels(NamedTuple):
    """Labels of the training documents, and how well the votes and gold labels that were held back are predicted."""

    label_probs: Array
    log_likelihoods: Array = np.empty(0)  # of held-out votes, one per round
    gold_check: GoldCheck | None = None
    evidence: Array | None = None  # that joined the votes, in nats; None for base rates


class TopicEstimator(TransformerMixin, ExplainedEstimator):
    """Base class of the estimators. Parameters are checked in ``fit``; fitted attributes end in an underscore."""

    _parameter_constraints: ClassVar[dict[str, Any]] = CONSTRAINTS
    _published: ClassVar[dict[str, Any]] = {
        "inference": "mean_field",
        "absence": "per_class",
        "label_prior": "base_rate",
        "thresholds": 0.5,
        "tol": 1e-4,
    }
    _prior: LabelPrior | None
    _past: PastSummary | None

    @classmethod
    def as_published(cls, n_topics: int = 20, *, smoothing: bool = False, **settings: Any) -> Self:
        """Unfitted estimator with the settings of the paper: mean field, base rates, one coin, thresholds of 1/2.

        Parameters
        ----------
        n_topics : int, default=20
            Number of topics.
        smoothing : bool, default=False
            Whether topics have a Dirichlet prior.
        **settings
            Other parameters of the estimator.

        Returns
        -------
        PALDA or CrowdPALDA
            The unfitted estimator.
        """
        return cls(n_topics, smoothing=smoothing, **(cls._published | settings))

    def _check_parameters(self) -> None:
        self._validate_params()
        if not isinstance(self.label_prior, str):
            check_classifier(self.label_prior)
        if self._is_base_rate() and self.n_profiles not in ("auto", 1):
            raise ValueError(f'n_profiles={self.n_profiles!r} cannot be used with label_prior="base_rate"; use "auto"')

    def _is_base_rate(self) -> bool:
        return isinstance(self.label_prior, str) and self.label_prior == "base_rate"

    def _tolerance(self) -> float:
        """Tolerance of EM for the topics.

        With a label prior that reads words too, topics need not converge: out of fold, .01 was as good as .002 on
        scene, yeast, reuters and enron, and with 159 classes it takes a third of the time.
        """
        if self.tol != "auto":
            return float(self.tol)
        return 1e-2 if isinstance(self.label_prior, str) and self.label_prior == "stacked" else 2e-3

    @contextmanager
    def _em_settings(
        self, annotators: AnnotatorModel | None = None, stages: StageStore = NO_CHECKPOINT
    ) -> Iterator[EMSettings]:
        """Settings of EM with a running engine, after a check of the parameters."""
        self._check_parameters()
        with open_engine(self.engine, self.n_jobs) as engine:
            yield EMSettings(
                engine=engine,
                annotators=annotators,
                inference=self.inference,
                shared_absence=self.absence == "shared",
                max_iter=self.max_iter,
                tol=self._tolerance(),
                stages=stages,
            )

    def _crowd_settings(self, annotators: AnnotatorModel, engine: Engine) -> CrowdSettings:
        """Settings of EM over votes, which runs in the threads of ``engine``; in threads of its own beside Dask."""
        threads = engine if isinstance(engine, Threads) else Threads(resolve_n_jobs(self.n_jobs))
        return CrowdSettings(annotators, _CROWD_MAX_ITER, _CROWD_TOL, threads)

    def _train(
        self, data: TrainingData, annotators: AnnotatorModel, checkpoint: Checkpoint | str | os.PathLike[str] | None
    ) -> TrainedLabels:
        """Fit everything.

        With base rates, words and votes are fitted in one EM, as published. Otherwise classifier and labels are
        fitted in turns (maths, eqs. 48-51).
        """
        self.__dict__.pop("out_of_fold_probs_", None)  # of an earlier fit
        n_docs, n_classes = data.known.shape
        uses_base_rates = self._is_base_rate() or n_docs < _MIN_DOCS
        self._check_features(data, uses_base_rates=uses_base_rates)
        joint_model = annotators if uses_base_rates and data.votes is not None else None
        with (
            open_stage_store(checkpoint, self.get_params(deep=False), data) as stages,
            self._em_settings(joint_model, stages) as settings,
        ):
            auto = self.n_topics == "auto"
            kind = "base_rate" if uses_base_rates else self.label_prior if isinstance(self.label_prior, str) else None
            self.n_topics_ = default_n_topics(data.counts, n_classes, kind) if auto else int(self.n_topics)
            self.n_topics_ *= data.counts.shape[1] > 0
            *seeds, seed = draw_seeds(self.random_state, self.n_init + 1, stages)
            em = replace(settings, online_seed=seeds[0] if self.algorithm == "online" else None)
            progress = self._progress(uses_base_rates, data)
            topics = TopicPlan(self.n_topics_, bool(self.smoothing), em, seeds, progress.watch_run)
            if uses_base_rates:
                chooses = isinstance(self.thresholds, str) or self.inference == "joint"
                if isinstance(joint_model, SupportModel) and not self._is_base_rate():
                    joint = fit_votes_alone(data, topics, joint_model)
                else:
                    joint = fit_base_rates(data, topics, seed, hold_out=chooses)
                self._prior, self._past, self.temper_ = None, summarize_past(data.counts), joint.temperature
                self._keep_topics(joint.topics)
                known = data.known[joint.held_out]
                unknown = np.nan if data.votes is None else joint.label_probs[joint.held_out]
                self.thresholds_ = self._choose_thresholds(np.where(known >= 0, known, unknown), joint.held_out_probs)
                return TrainedLabels(joint.label_probs)
            n_profiles = None if self.n_profiles == "auto" else int(self.n_profiles)
            crowd = self._crowd_settings(annotators, settings.engine)
            names = names_array(self.vocabulary_)
            plan = TrainingPlan(self.label_prior, n_profiles, topics, crowd, seed, progress.stage, names)
            result = fit_alternating(data, plan)
            gold_check = compare_with_gold(data, result, crowd)
            progress.done()
        self._prior, self._past, self.temper_ = result.prior, summarize_past(data.counts, result), result.temperature
        self._keep_topics(result.topics)
        self._params = replace(self._params, annotators=result.belief)
        all_known = bool(result.weights.all())
        targets = result.label_probs if all_known else np.where(result.weights > 0, result.label_probs, np.nan)
        if result.prior is None:
            self.thresholds_ = self._choose_thresholds(targets[:0], targets[:0])
        else:
            self.out_of_fold_probs_ = expit(result.prior.for_words.log_odds(result.out_of_fold_log_odds))
            self.thresholds_ = self._choose_thresholds(targets, self.out_of_fold_probs_)
        evidence = None if result.prior is None else result.prior.for_votes.evidence(result.out_of_fold_log_odds)
        return TrainedLabels(result.label_probs, result.log_likelihoods, gold_check, evidence)

    @property
    def _words_join_votes(self) -> bool:
        """Whether words take part in the labels of documents with votes."""
        is_support = isinstance(self._params.annotators, SupportBelief)
        return self._prior is not None or self._is_base_rate() or not is_support

    def _check_features(self, data: TrainingData, *, uses_base_rates: bool) -> None:
        """Refuse features that nothing reads, and documents without words where only words are read."""
        reads_topics = isinstance(self.label_prior, str) and self.label_prior == "topics"
        if not data.counts.shape[1] and (uses_base_rates or reads_topics):
            few = f"at least {_MIN_DOCS} documents and a label_prior that reads features"
            raise ValueError(f"X is None, and nothing would be learned from the features; that needs {few}")
        if data.features is not None and self._is_base_rate():
            raise ValueError('label_prior="base_rate" reads no features; leave them out, or use "stacked"')
        if data.features is not None and uses_base_rates:
            message = f"with fewer than {_MIN_DOCS} documents the label prior is the base rate: features are not used"
            warnings.warn(message, PaldaWarning, stacklevel=4)

    def _progress(self, uses_base_rates: bool, data: TrainingData) -> Progress:
        stages = None
        if not uses_base_rates:
            uses_topics = isinstance(self.label_prior, str) and self.label_prior in ("stacked", "topics")
            stages = ("labels" if data.votes is None else "votes") + (" and topics" if uses_topics else "")
        return Progress(verbose=self.verbose, max_iter=self.max_iter, tol=self._tolerance(), stages=stages)

    def _choose_thresholds(self, targets: Array, probs: Array) -> Array:
        n_classes = probs.shape[1]
        if not isinstance(self.thresholds, str):
            return np.full(n_classes, float(self.thresholds))
        if not len(probs) or np.isnan(targets).all():
            return np.full(n_classes, 0.5)
        return choose_thresholds(targets, probs, cast("Any", self.thresholds))

    def _keep_topics(self, run: EMResult) -> None:
        self._params = cast("Params", run.params)
        self.lower_bounds_ = np.array(run.bounds)
        self.lower_bound_ = run.bound
        self.n_iter_ = len(run.bounds)
        self.converged_ = run.converged
        self.worst_fall_ = run.worst_fall
        self.interrupted_ = run.interrupted
        if run.interrupted:
            warnings.warn("interrupted; the best parameters so far are kept", PaldaWarning, stacklevel=4)
        elif not run.converged:
            message = f"EM did not converge in {self.n_iter_} iterations; raise max_iter or tol"
            warnings.warn(message, ConvergenceWarning, stacklevel=4)
        if not run.newton_converged:
            warnings.warn("Newton's method for the Dirichlet priors did not converge", ConvergenceWarning, stacklevel=4)

    def _check_partial_fit(self) -> None:
        if not isinstance(self.label_prior, str):
            raise TypeError(
                f"partial_fit does not support {type(self.label_prior).__name__} as label_prior, which must be fitted "
                'to all documents at once; choose "stacked", "topics", "words" or "base_rate"'
            )

    def _warn_if_few_docs(self) -> None:
        """After the first ``partial_fit``: later calls keep the kind of label prior."""
        if self._prior is None and not self._is_base_rate():
            message = (
                f"the first batch has fewer than {_MIN_DOCS} documents, too few to fit a label prior: this and later "
                "batches use base rates; start with a larger batch"
            )
            warnings.warn(message, PaldaWarning, stacklevel=3)

    def _update(self, batch: Batch, annotators: AnnotatorModel, vote_counts: Array) -> UpdateResult:
        """Update the model with another batch of documents."""
        if self._past is None:
            raise ValueError("the model file is of an earlier version that does not support partial_fit; fit again")
        state = ModelState(self._params, self._prior, self._past, vote_counts)
        with self._em_settings() as settings:
            crowd = self._crowd_settings(annotators, settings.engine)
            result = update_model(state, batch, settings, crowd, words_join_votes=self._words_join_votes)
        self._params, self._prior, self._past = result.state.params, result.state.prior, result.state.past
        if result.predicted_log_odds is not None and hasattr(self, "out_of_fold_probs_"):
            self.out_of_fold_probs_ = np.concatenate((self.out_of_fold_probs_, expit(result.predicted_log_odds)))
        self.texts_ = self.votes_ = None
        return result

    @property
    def topic_words_(self) -> Array:
        """ndarray of shape (n_topics, n_words): word distribution of each topic, β; the posterior mean if smoothed."""
        check_is_fitted(self)
        return self._params.topic_words

    @property
    def topic_prior_(self) -> Array:
        """ndarray of shape (n_classes, 2, n_topics): Dirichlet parameters α of each class, ``[i, 1]`` if present."""
        check_is_fitted(self)
        return self._params.topic_prior

    @property
    def class_prior_(self) -> Array:
        """ndarray of shape (n_classes,): base rate of each class, ξ."""
        check_is_fitted(self)
        return self._params.class_prior

    @property
    def head_(self) -> LogisticClassifier | ExternalClassifier | None:
        """The fitted classifier of the label prior; None for base rates."""
        check_is_fitted(self)
        return None if self._prior is None else self._prior.classifier

    @property
    def profiles_(self) -> Profiles | None:
        """Label-set profiles used in prediction, with ``weights`` and ``rates``; None for base rates."""
        check_is_fitted(self)
        return None if self._prior is None else self._prior.for_words.profiles

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_params")

    def predict_proba(self, X: Any, *, features: Any = None) -> Array:
        """Probability of each class, from words and features.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_words), Corpus or ShardFolder
            Word counts; None for a model that was fitted to features alone.
        features : array-like of shape (n_documents, n_columns), DataFrame or FeatureTable, default=None
            Features as in ``fit``, with the same columns. Rows are matched by document id where both have ids.

        Returns
        -------
        ndarray of shape (n_documents, n_classes)
            Probability that each class is present. A document without features and without any word seen in training
            gets the base rates.
        """
        check_is_fitted(self)
        counts = self._counts(X, reset=False, features=features)
        encoded = self._features(features, X, ids_of(X, None), counts.shape[0])
        with self._em_settings() as settings:
            if self._prior is None:
                return word_probs(counts, self._params, self.temper_, settings)
            return expit(self._prior_log_odds(counts, encoded, settings))

    def _prior_log_odds(self, counts: CountRows, features: EncodedFeatures | None, settings: EMSettings) -> Array:
        """Log-odds (documents, classes) of new documents under the fitted label prior."""
        prior, base = cast("LabelPrior", self._prior), base_rate_log_odds(self._params.class_prior)
        return prior.log_odds(counts, base, settings.engine, features)

    def predict(self, X: Any, *, features: Any = None) -> NDArray[np.int64]:
        """Classes of each document: those whose probability reaches their threshold.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_words), Corpus or ShardFolder
            Word counts.
        features : array-like of shape (n_documents, n_columns), DataFrame or FeatureTable, default=None
            Features as in ``fit``, with the same columns. Rows are matched by document id where both have ids.

        Returns
        -------
        ndarray of int of shape (n_documents, n_classes)
            1 where ``predict_proba(X) >= thresholds_``, else 0.
        """
        return (self.predict_proba(X, features=features) >= self.thresholds_).astype(np.int64)

    def score(self, X: Any, y: Any, *, features: Any = None) -> float:
        """Micro-F1 of ``predict(X)`` against known labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_words), Corpus or ShardFolder
            Word counts.
        y : array-like of shape (n_documents, n_classes)
            True labels: 1, 0, and -1 or NaN for unknown ones, which are left out.
        features : array-like of shape (n_documents, n_columns), DataFrame or FeatureTable, default=None
            Features as in ``fit``, with the same columns. Rows are matched by document id where both have ids.

        Returns
        -------
        float
            Micro-averaged F1 score.
        """
        return float(metrics.micro_f1(label_table(y)[0], self.predict(X, features=features)))

    def fit_transform(self, X: Any, y: Any = None, *, features: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the topic shares of the training documents; parameters are those of ``fit``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_words), Corpus or ShardFolder
            Word counts.
        y : array-like
            Labels or votes, as in ``fit``.
        features : array-like of shape (n_documents, n_columns), DataFrame or FeatureTable, default=None
            Features as in ``fit``.
        **fit_params
            Other parameters of ``fit``.

        Returns
        -------
        ndarray of shape (n_documents, n_topics)
            Topic shares, as ``transform`` returns them.
        """
        return self.fit(X, y, features=features, **fit_params).transform(X, features=features)  # type: ignore[no-any-return]

    def transform(self, X: Any, *, features: Any = None) -> Array:
        """Share of each topic in the words of each document.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_words), Corpus or ShardFolder
            Word counts.
        features : array-like of shape (n_documents, n_columns), DataFrame or FeatureTable, default=None
            Features as in ``fit``, with the same columns. Rows are matched by document id where both have ids.

        Returns
        -------
        ndarray of shape (n_documents, n_topics)
            Rows sum to 1. A document without known words gets the shares expected from its class probabilities.
        """
        check_is_fitted(self)
        if not self.n_features_in_:
            raise ValueError("the model has no topics: it was fitted to features alone, without words")
        counts = self._counts(X, reset=False)
        encoded = self._features(features, X, ids_of(X, None), counts.shape[0])
        params, n_classes = for_prediction(self._params), len(self.classes_)
        with self._em_settings() as settings:
            if self._prior is not None:
                log_odds: Array | None = self._prior_log_odds(counts, encoded, settings)
            elif self.inference == "mean_field":
                log_odds = None
            else:
                model = word_evidence_model(params, self.temper_)
                evidence = evidence_of_shards(unlabelled_shards(counts, n_classes), model, settings).evidence
                log_odds = base_rate_log_odds(params.class_prior) + evidence
            return topic_shares(unlabelled_shards(counts, n_classes, log_odds), params, settings)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []  # topic shares are float64 for any type of counts
        return tags
