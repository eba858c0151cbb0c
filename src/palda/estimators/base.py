"""What both estimators share: checks, fitting by either kind of label prior, prediction, files."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse
from scipy.special import expit, logit
from sklearn.base import TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from palda import metrics
from palda.data import Corpus, names_array
from palda.engine import Threads, check_engine, open_engine, resolve_n_jobs
from palda.errors import PaldaWarning
from palda.estimators.checkpoints import draw_seeds
from palda.estimators.explanation import REST, head_weights, topic_weights
from palda.estimators.inputs import label_table
from palda.estimators.progress import Progress
from palda.estimators.saved_estimator import SavedEstimator
from palda.io import ShardFolder
from palda.kernels import PassLimits
from palda.metrics import choose_thresholds
from palda.models.classifier import check_classifier
from palda.models.crowd import CrowdSettings
from palda.models.topics import (
    EMSettings,
    OnlineRounds,
    TopicPlan,
    base_rate,
    default_n_topics,
    evidence_of_shards,
    for_prediction,
    topic_shares_of_shards,
    unlabelled_shards,
    word_evidence_model,
)
from palda.training import (
    Batch,
    ModelState,
    PastSummary,
    RevisitedDocuments,
    TrainingPlan,
    UpdateResult,
    fit_alternating,
    fit_base_rates,
    prior_log_odds,
    summarize_past,
    update_model,
    word_probs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import CountRows, Counts
    from palda.estimators.explanation import WordTable
    from palda.models.classifier import ExternalClassifier, LabelPrior, LogisticClassifier
    from palda.models.crowd import AnnotatorModel, Profiles
    from palda.models.topics import EMResult, Params, TrainingData
    from palda.training import TrainingResult

    Array = NDArray[np.float64]

__all__ = ["PUBLISHED", "TopicEstimator"]

PUBLISHED: dict[str, Any] = {"inference": "mean_field", "label_prior": "base_rate", "thresholds": 0.5, "tol": 1e-4}
"""Settings of the paper."""

_STOPPING = PassLimits(max_passes=30, tolerance=1e-3, leaps=True)
_LEAST_DOCS = 50  # fewer documents are too few for a label prior to learn from
_CROWD_ROUNDS, _CROWD_TOL = 200, 1e-6  # of the votes' EM inside a turn of learning
_PRIORS = ("stacked", "topics", "words", "base_rate")
_MEASURES = ("micro_f1", "macro_f1", "jaccard")


class TopicEstimator(TransformerMixin, SavedEstimator):
    """Parameters are checked when ``fit`` is called; what was learned is in attributes that end in an underscore."""

    @contextmanager
    def _at_work(self, annotators: AnnotatorModel | None = None) -> Iterator[EMSettings]:
        """Settings whose engine runs for the time of some work."""
        self._check_settings()
        with open_engine(self.engine, self.n_jobs) as engine:
            yield EMSettings(
                annotators=annotators,
                inference=self.inference,
                max_iter=self.max_iter,
                tol=self._tol(),
                stopping=_STOPPING,
                engine=engine,
            )

    def _check_can_go_on(self) -> None:
        if not isinstance(self.label_prior, str):
            raise TypeError(
                f"partial_fit cannot go on with {type(self.label_prior).__name__} as the label prior, which must be "
                f"fitted to all documents at once; choose from {_listed(_PRIORS)}"
            )

    def _warn_of_a_small_start(self) -> None:
        if self._prior is None and not self._is_base_rate():
            warnings.warn(
                f"the first documents are fewer than {_LEAST_DOCS}, too few for a label prior to learn from: the model "
                "goes on with base rates; begin with more documents",
                PaldaWarning,
                stacklevel=3,
            )

    def _arrive(
        self, batch: Batch, annotators: AnnotatorModel, vote_counts: Array, seen: RevisitedDocuments | None
    ) -> UpdateResult:
        """Go on from what is known, with documents that arrive later."""
        if self._memory is None:
            raise ValueError("the model was saved by an earlier version that could not go on from there; fit it again")
        standing = ModelState(self._params, self._prior, self._memory, vote_counts)
        with self._at_work() as settings:
            crowd = CrowdSettings(annotators, _CROWD_ROUNDS, _CROWD_TOL, Threads(resolve_n_jobs(self.n_jobs)))
            found = update_model(standing, batch, settings, crowd, seen)
        self._params, self._prior, self._memory = found.state.params, found.state.prior, found.state.memory
        if found.predicted_log_odds is not None and hasattr(self, "out_of_fold_probs_"):
            self.out_of_fold_probs_ = np.concatenate((self.out_of_fold_probs_, expit(found.predicted_log_odds)))
        self.texts_ = self.votes_ = None
        return found

    def _check_settings(self) -> None:
        _check_choice("inference", self.inference, ("joint", "mean_field"))
        _check_choice("algorithm", self.algorithm, ("batch", "online"))
        if isinstance(self.label_prior, str):
            _check_choice("label_prior", self.label_prior, _PRIORS)
        else:
            check_classifier(self.label_prior)
        if isinstance(self.thresholds, str):
            _check_choice("thresholds", self.thresholds, _MEASURES)
        elif not isinstance(self.thresholds, (int, float, np.number)) or not 0 < self.thresholds < 1:
            raise ValueError(f"thresholds={self.thresholds!r} must lie between 0 and 1, or be {_listed(_MEASURES)}")
        _check_count("n_topics", self.n_topics, or_auto=True)
        _check_count("n_profiles", self.n_profiles, or_auto=True)
        _check_count("n_init", self.n_init)
        _check_count("max_iter", self.max_iter)
        check_engine(self.engine)
        if self._is_base_rate() and self.n_profiles not in ("auto", 1):
            raise ValueError(f'n_profiles={self.n_profiles!r} needs a label prior that learns, not "base_rate"')
        if self.tol != "auto" and (not isinstance(self.tol, (int, float, np.floating)) or not self.tol >= 0):
            raise ValueError(f'tol={self.tol!r} must be a number of at least 0, or "auto"')

    def _tol(self) -> float:
        """Where EM of the topics stops.

        Next to a head that reads words, topics need not settle: out of fold, .01 was as good as .002 on scene, yeast,
        reuters and enron, and with 159 classes it takes a third of the time.
        """
        if self.tol != "auto":
            return float(self.tol)
        return 1e-2 if isinstance(self.label_prior, str) and self.label_prior == "stacked" else 2e-3

    def _is_base_rate(self) -> bool:
        return isinstance(self.label_prior, str) and self.label_prior == "base_rate"

    def _counts(self, X: Any, *, reset: bool) -> CountRows:
        """Counts as a canonical CSR matrix, or where a folder has them; the caller's own is never changed."""
        if isinstance(X, ShardFolder):
            return self._stored_counts(X, reset=reset)
        names = X.vocabulary if isinstance(X, Corpus) else None
        if isinstance(X, Corpus):
            X = X.counts
        checked = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=(np.float64, np.float32, np.int64, np.int32),
            ensure_non_negative=True,
        )  # fmt: skip
        if reset:
            self.words_ = self.texts_ = self.votes_ = None
            self.vocabulary_ = self._column_names() if names is None else names
        counts: Counts = sparse.csr_array(checked)
        if not counts.has_canonical_format:
            counts = counts.copy()
            counts.sum_duplicates()
        return counts

    def _stored_counts(self, folder: ShardFolder, *, reset: bool) -> CountRows:
        """Counts of a folder, which were checked when it was written."""
        counts: CountRows = folder.counts
        if reset:
            self.n_features_in_ = counts.shape[1]
            self.words_, self.texts_, self.votes_ = folder.words, None, None
            self.vocabulary_ = folder.vocabulary
        elif counts.shape[1] != self.n_features_in_:
            raise ValueError(f"{folder} has {counts.shape[1]} words, but the model was fitted on {self.n_features_in_}")
        return counts

    def _column_names(self) -> NDArray[Any]:
        """Names of the columns of X where scikit-learn knows them, else their numbers."""
        names: NDArray[Any] = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        return names

    def _plan(self, counts: CountRows, n_classes: int, settings: EMSettings) -> tuple[TopicPlan, int]:
        """How topics are fitted, and a seed for everything else that is drawn."""
        self.__dict__.pop("out_of_fold_probs_", None)  # of an earlier fit
        self.n_topics_ = default_n_topics(counts, n_classes) if self.n_topics == "auto" else int(self.n_topics)
        *seeds, seed = draw_seeds(self.random_state, self.n_init + 1, settings.stages)

        def watch() -> Any:
            return Progress(verbose=self.verbose, max_iter=self.max_iter, tol=settings.tol).step

        if self.algorithm == "online":
            settings = replace(settings, rounds=OnlineRounds(seeds[0]))
        plan = TopicPlan(self.n_topics_, bool(self.smoothing), settings, seeds, watch)
        return plan, seed

    def _fit_together(self, data: TrainingData, settings: EMSettings) -> Array:
        """Base rates for a label prior; gives Δ back."""
        plan, seed = self._plan(data.counts, data.known.shape[1], settings)
        self._memory: PastSummary | None = summarize_past(data.counts)
        chooses = isinstance(self.thresholds, str) or self.inference == "joint"
        found = fit_base_rates(data, plan, seed, hold_out=chooses)
        self._prior: LabelPrior | None = None
        self.temper_ = found.temperature
        self._keep_topics(found.topics)
        known = data.known[found.held_out]
        targets = np.where(known >= 0, known, np.nan if data.votes is None else found.label_probs[found.held_out])
        self.thresholds_ = self._thresholds(targets, found.held_out_probs)
        return found.label_probs

    def _fit_learned(self, data: TrainingData, settings: EMSettings, annotators: AnnotatorModel) -> TrainingResult:
        """A label prior that learns; gives back what else was learned with it."""
        plan, seed = self._plan(data.counts, data.known.shape[1], settings)
        found = fit_alternating(
            data,
            TrainingPlan(
                self.label_prior,
                None if self.n_profiles == "auto" else int(self.n_profiles),
                plan,
                CrowdSettings(annotators, _CROWD_ROUNDS, _CROWD_TOL, Threads(resolve_n_jobs(self.n_jobs))),
                seed,
            ),
        )
        self._prior = found.prior
        self._memory = summarize_past(data.counts, found)
        self.temper_ = found.temperature
        self._keep_topics(found.topics)
        spoken_of = np.where(found.weights > 0, found.label_probs, np.nan)
        if found.prior is None:
            self.thresholds_ = self._thresholds(spoken_of[:0], spoken_of[:0])
        else:
            self.out_of_fold_probs_ = expit(found.prior.for_words.log_odds(found.out_of_fold_log_odds))
            self.thresholds_ = self._thresholds(spoken_of, self.out_of_fold_probs_)
        return found

    def _learns(self, data: TrainingData) -> bool:
        return not self._is_base_rate() and len(data.known) >= _LEAST_DOCS

    def _thresholds(self, targets: Array, probs: Array) -> Array:
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

    @property
    def topic_words_(self) -> Array:
        """β, (topics, words): the posterior mean when smoothed."""
        check_is_fitted(self)
        return self._params.topic_words

    @property
    def topic_prior_(self) -> Array:
        """α, (classes, 2, topics): ``[i, 1]`` when class i is present, ``[i, 0]`` when it is absent."""
        check_is_fitted(self)
        return self._params.topic_prior

    @property
    def class_prior_(self) -> Array:
        """ξ: the share of documents that have each class."""
        check_is_fitted(self)
        return self._params.class_prior

    @property
    def head_(self) -> LogisticClassifier | ExternalClassifier | None:
        """The classifier of documents, built in or plugged in; None if the label prior is a base rate."""
        check_is_fitted(self)
        return None if self._prior is None else self._prior.classifier

    @property
    def profiles_(self) -> Profiles | None:
        """Label-set profiles that predictions go through: ``weights`` and ``rates``; None for base rates."""
        check_is_fitted(self)
        return None if self._prior is None else self._prior.for_words.profiles

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_params")

    def predict_proba(self, X: Any) -> Array:
        """(documents, classes): probability that each class is present, from the words alone.

        A document without any word that was seen in training gets the base rates.
        """
        check_is_fitted(self)
        counts = self._counts(X, reset=False)
        with self._at_work() as settings:
            if self._prior is None:
                return word_probs(counts, self._params, self.temper_, settings)
            return expit(self._prior_log_odds(counts, settings))

    def _prior_log_odds(self, counts: CountRows, settings: EMSettings) -> Array:
        """What the label prior says about new documents."""
        prior, base = cast("LabelPrior", self._prior), base_rate.log_odds(self._params.class_prior)
        return prior_log_odds(counts, prior, base, settings)

    def transform(self, X: Any) -> Array:
        """(documents, topics): share of each document's words that each topic wrote.

        A document without any known word gets the shares that its classes are expected to have.
        """
        check_is_fitted(self)
        counts = self._counts(X, reset=False)
        params, n_classes = for_prediction(self._params), len(self.classes_)
        with self._at_work() as settings:
            if self._prior is not None:
                log_odds: Array | None = self._prior_log_odds(counts, settings)
            elif self.inference == "mean_field":
                log_odds = None
            else:
                reader = word_evidence_model(params, self.temper_)
                evidence = evidence_of_shards(unlabelled_shards(counts, n_classes), reader, settings).evidence
                log_odds = base_rate.log_odds(params.class_prior) + evidence
            return topic_shares_of_shards(unlabelled_shards(counts, n_classes, log_odds), params, settings)

    def explain(self, X: Any, label: Any = None) -> pd.DataFrame:
        """The words that spoke for and against each class, or one, in each document.

        A row a document, class and word of it, with the word's ``weight`` in nats: positive for, negative against. In
        each document the weights for a class, strongest first, sum to the log-odds of ``predict_proba`` less those of
        ``class_prior_``. What no single word says has the row ``"(rest)"``: the prior's offset against the base rate,
        and what the other classes say through the label-set profiles.
        """
        import pandas as pd

        check_is_fitted(self)
        chosen = list(range(len(self.classes_))) if label is None else [self._class_number(label)]
        counts = self._counts(X, reset=False)[slice(None)]
        names = np.append(self.vocabulary_.astype(object), REST)  # the last one is found under -1
        ids = names_array(X.doc_ids) if isinstance(X, Corpus) else np.arange(counts.shape[0])
        tables = []
        for column, table in zip(chosen, self._word_tables(counts, chosen), strict=True):
            order = np.lexsort((-np.abs(table.weight), table.doc))
            frame = pd.DataFrame(
                {
                    "doc": ids[table.doc],
                    "label": self.classes_[column],
                    "word": names[table.word],
                    "weight": table.weight,
                }
            )
            tables.append(frame.iloc[order])
        return pd.concat(tables, ignore_index=True)

    def _word_tables(self, counts: Counts, chosen: list[int]) -> list[WordTable]:
        shards = unlabelled_shards(counts, len(self.classes_))
        with self._at_work() as settings:
            if self._prior is None:
                if self.inference == "mean_field":
                    raise ValueError('explain needs inference="joint": as published, words are not weighed one by one')
                return topic_weights(shards, word_evidence_model(self._params, self.temper_), settings, chosen)
            said = self._prior_log_odds(counts, settings) - logit(self._params.class_prior)
            topics = None if self._prior.evidence_model is None else (shards, self._prior.evidence_model, settings)
            return head_weights(counts, self._prior, said, topics, chosen)

    def _class_number(self, label: Any) -> int:
        found = np.flatnonzero(self.classes_ == label)
        if len(found) != 1:
            raise ValueError(f"label={label!r} is not one of the classes {', '.join(map(str, self.classes_[:20]))}")
        return int(found[0])

    def predict(self, X: Any) -> NDArray[np.int64]:
        """(documents, classes): 1 where the probability of a class reaches its threshold (``thresholds_``)."""
        return (self.predict_proba(X) >= self.thresholds_).astype(np.int64)

    def score(self, X: Any, y: Any) -> float:
        """Micro-F1 of the predictions against the truth; unknown labels are left out."""
        return float(metrics.micro_f1(label_table(y)[0], self.predict(X)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []  # shares of topics are float64, whatever the counts are
        return tags


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not known; choose from {_listed(choices)}")


def _check_count(name: str, value: Any, *, or_auto: bool = False) -> None:
    if or_auto and isinstance(value, str) and value == "auto":
        return
    if not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1")


def _listed(choices: tuple[str, ...]) -> str:
    return ", ".join(map(repr, choices))
