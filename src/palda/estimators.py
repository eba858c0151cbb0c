"""PALDA and CrowdPALDA: scikit-learn's parameters and attributes around the EM loop; no formulas here."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from palda import metrics
from palda.annotators.one_coin import OneCoin
from palda.data.types import Corpus, names_array
from palda.engine.threads import Threads, resolve_n_jobs
from palda.errors import PaldaWarning
from palda.fit import Best, Settings, cut_shards, em, explain_shards, label_probs, shares_of_topics
from palda.held_out import FoldModel, fit_folds, label_likelihoods, temper_of
from palda.inputs import as_votes, class_names, first_guess, label_table, mean_where_unknown
from palda.kernels import Stopping
from palda.model.e_step import joined_bags
from palda.model.predict import Temper, for_prediction, speech, word_weights
from palda.model.start import default_n_topics, first_params
from palda.model.state import Params
from palda.persist import ModelFileError, SavedModel, load_state, save_state, stored_params
from palda.priors import base_rate
from palda.priors.folds import assign_folds
from palda.progress import Progress

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data.types import Counts, Votes
    from palda.fit import Shard

    Array = NDArray[np.float64]

__all__ = ["PALDA", "CrowdPALDA", "load"]

_STOPPING = Stopping(max_passes=30, tolerance=1e-3, leaps=True)
_THRESHOLD = 0.5
_PUBLISHED_TOL = 1e-4
_N_FOLDS = 5
_LEAST_DOCS = 50  # fewer documents are too few to hold some back
_CHOICES = {"inference": ("joint", "mean_field"), "label_prior": ("base_rate",), "annotators": ("one_coin",)}


class _TopicModel(BaseEstimator):
    """What both estimators share: checks, restarts, the loop over EM's rounds, prediction, files."""

    def _settings(self, annotators: OneCoin | None) -> Settings:
        for name, choices in _CHOICES.items():
            value = getattr(self, name, choices[0])
            if value not in choices:
                raise ValueError(f"{name}={value!r} is not known; choose from {', '.join(map(repr, choices))}")
        for name, least in (("n_topics", 1), ("n_init", 1), ("max_iter", 1)):
            value = getattr(self, name)
            if name == "n_topics" and value == "auto":
                continue
            if not isinstance(value, (int, np.integer)) or value < least:
                raise ValueError(f"{name}={value!r} must be a whole number of at least {least}")
        if not isinstance(self.tol, (int, float, np.floating)) or not self.tol >= 0:
            raise ValueError(f"tol={self.tol!r} must be a number of at least 0")
        return Settings(
            annotators=annotators,
            inference=self.inference,
            max_iter=self.max_iter,
            tol=float(self.tol),
            stopping=_STOPPING,
            engine=Threads(resolve_n_jobs(self.n_jobs)),
        )

    def _counts(self, X: Any, *, reset: bool) -> Counts:
        """Counts as a canonical CSR matrix; the caller's own is never changed."""
        if isinstance(X, Corpus):
            X = X.counts
        checked = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=(np.float64, np.float32, np.int64, np.int32),
            ensure_non_negative=True,
        )  # fmt: skip
        counts: Counts = sparse.csr_array(checked)
        if not counts.has_canonical_format:
            counts = counts.copy()
            counts.sum_duplicates()
        return counts

    def _run(
        self, counts: Counts, known: NDArray[np.int8], votes: Votes | None, guess: Array
    ) -> tuple[list[Shard], Settings]:
        """EM from ``n_init`` starts; the parameters with the best bound are kept, whatever interrupts it."""
        settings = self._settings(OneCoin() if votes is not None else None)
        n_classes = known.shape[1]
        self.n_topics_ = default_n_topics(counts, n_classes) if self.n_topics == "auto" else int(self.n_topics)
        shards = cut_shards(counts, known, votes)
        runs: list[Best] = []
        random = check_random_state(self.random_state)
        interrupted = False
        try:
            for _ in range(self.n_init):
                rng = np.random.default_rng(random.randint(np.iinfo(np.int32).max))
                runs.append(Best())
                progress = Progress(verbose=self.verbose, max_iter=self.max_iter, tol=self.tol)
                for params, info in em(shards, self._start(counts, votes, guess, rng), settings):
                    runs[-1].see(params, info)
                    progress.step(info)
        except KeyboardInterrupt:
            if not runs or runs[0].params is None:
                raise
            interrupted = True
            warnings.warn("interrupted; the best parameters so far are kept", PaldaWarning, stacklevel=3)
        self._keep(max(runs, key=lambda run: run.bound), interrupted=interrupted)
        if self.inference == "joint" and not interrupted:
            self.temper_ = self._choose_temper(counts, known, votes, guess, settings, int(random.randint(2**31 - 1)))
        else:
            self.temper_ = Temper()
        return shards, settings

    def _choose_temper(
        self,
        counts: Counts,
        known: NDArray[np.int8],
        votes: Votes | None,
        guess: Array,
        settings: Settings,
        seed: int,
    ) -> Temper:
        """Temper of the evidence of words, chosen on documents that a model has not seen."""
        if counts.shape[0] < _LEAST_DOCS:
            return Temper()
        folds = assign_folds(guess, _N_FOLDS, seed)

        def fit_rows(rows: NDArray[np.int64]) -> Params:
            of_rows = None if votes is None else votes.take(rows)
            shards = cut_shards(counts[rows], known[rows], of_rows)
            start = self._start(counts[rows], of_rows, guess[rows], np.random.default_rng(seed))
            best = Best()
            for params, info in em(shards, start, settings):
                best.see(params, info)
            return cast("Params", best.params)

        def likelihoods(model: FoldModel) -> tuple[Array, Array]:
            if votes is None:
                return label_likelihoods(known[model.rows], None)
            said = OneCoin().evidence(votes.take(model.rows), cast("Array", model.params.annotator_rates))
            return label_likelihoods(known[model.rows], said)

        return temper_of(fit_folds(folds, fit_rows, which=[0]), counts, likelihoods, settings)

    def _start(self, counts: Counts, votes: Votes | None, guess: Array, rng: np.random.Generator) -> Params:
        """Parameters before the first round: ξ, ρ and topics from a first guess at the labels."""
        class_prior = base_rate.update(guess.sum(axis=0), len(guess))
        start = first_params(counts, class_prior, self.n_topics_, rng, smoothing=self.smoothing, guess=guess)
        if votes is None:
            return start
        coins = OneCoin()
        rates = coins.update(coins.count(votes, guess), coins.start(votes.n_annotators))
        return replace(start, annotator_rates=rates)

    def _keep(self, run: Best, *, interrupted: bool) -> None:
        self._params = cast("Params", run.params)
        self.lower_bounds_ = np.array(run.bounds)
        self.lower_bound_ = run.bound
        self.n_iter_ = len(run.bounds)
        self.converged_ = run.converged
        self.worst_fall_ = run.worst_fall
        if not run.converged and not interrupted:
            warnings.warn(
                f"EM did not converge in {self.n_iter_} iterations; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=4,
            )
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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_params")

    def predict_proba(self, X: Any) -> Array:
        """(documents, classes): probability that each class is present, from the words alone.

        A document without any known word gets the base rates.
        """
        check_is_fitted(self)
        shards = self._wordy_shards(X)
        if self.inference == "mean_field":
            return label_probs(shards, for_prediction(self._params), self._settings(None))
        evidence = explain_shards(shards, self._params, self.temper_, self._settings(None)).evidence
        return expit(base_rate.log_odds(self._params.class_prior) + evidence)

    def _wordy_shards(self, X: Any) -> list[Shard]:
        """Shards of new documents, of whose labels nothing is known."""
        counts = self._counts(X, reset=False)
        return cut_shards(counts, np.full((counts.shape[0], len(self._params.class_prior)), -1, dtype=np.int8))

    def transform(self, X: Any) -> Array:
        """(documents, topics): share of each document's words that each topic wrote.

        A document without any known word gets the shares that its classes are expected to have.
        """
        check_is_fitted(self)
        shards, params, settings = self._wordy_shards(X), for_prediction(self._params), self._settings(None)
        if self.inference == "mean_field":
            return shares_of_topics(shards, params, None, settings)
        evidence = explain_shards(shards, params, self.temper_, settings).evidence
        return shares_of_topics(shards, params, base_rate.log_odds(params.class_prior) + evidence, settings)

    def explain(self, X: Any, label: Any = None) -> pd.DataFrame:
        """The words that spoke for and against each class, or one, in each document.

        A row a document, class and word of it, with the word's ``weight`` in nats: positive for, negative against. In
        each document the weights for a class, strongest first, sum to the log-odds of ``predict_proba`` less those of
        ``class_prior_``.
        """
        import pandas as pd

        check_is_fitted(self)
        if self.inference == "mean_field":
            raise ValueError('explain needs inference="joint": as published, words are not weighed one by one')
        chosen = range(len(self.classes_)) if label is None else [self._class_number(label)]
        shards, settings = self._wordy_shards(X), self._settings(None)
        beliefs = explain_shards(shards, self._params, self.temper_, settings).beliefs
        bags = joined_bags([shard.bags for shard in shards])
        said = speech(self._params)
        doc = np.repeat(np.arange(len(beliefs)), np.diff(bags.starts))
        words = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))[bags.words]
        ids = names_array(X.doc_ids)[doc] if isinstance(X, Corpus) else doc
        tables = []
        for column in chosen:
            weights = word_weights(bags, beliefs, self.temper_, said, column)
            order = np.lexsort((-np.abs(weights), doc))
            table = pd.DataFrame({"doc": ids, "label": self.classes_[column], "word": words, "weight": weights})
            tables.append(table.iloc[order])
        return pd.concat(tables, ignore_index=True)

    def _class_number(self, label: Any) -> int:
        found = np.flatnonzero(self.classes_ == label)
        if len(found) != 1:
            raise ValueError(f"label={label!r} is not one of the classes {', '.join(map(str, self.classes_[:20]))}")
        return int(found[0])

    def predict(self, X: Any) -> NDArray[np.int64]:
        """(documents, classes): 1 where a class is more probably present than not."""
        return (self.predict_proba(X) >= _THRESHOLD).astype(np.int64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, whole or not at all; ``palda.load`` reads it back."""
        check_is_fitted(self)
        params = {name: value for name, value in vars(self._params).items() if value is not None}
        arrays = {name: np.asarray(value) for name, value in params.items() if name in Params.__dataclass_fields__}
        arrays["lower_bounds"] = self.lower_bounds_
        state = {
            "estimator": type(self).__name__,
            "settings": {name: _plain(value) for name, value in self.get_params(deep=False).items()},
            "converged": bool(self.converged_),
            "lower_bound": float(self.lower_bound_),
            "worst_fall": float(self.worst_fall_),
            "temper": list(self.temper_),
        }
        if hasattr(self, "feature_names_in_"):
            state["feature_names"] = self.feature_names_in_.tolist()
        self._add_state(arrays, state)
        save_state(path, arrays, state)

    def _add_state(self, arrays: dict[str, NDArray[Any]], state: dict[str, Any]) -> None:
        raise NotImplementedError

    def _take_state(self, saved: SavedModel) -> None:
        """Become what was saved."""
        self._params = stored_params(saved.arrays)
        self.lower_bounds_ = saved.arrays["lower_bounds"]
        self.n_iter_ = len(self.lower_bounds_)
        self.n_features_in_ = self._params.topic_words.shape[1]
        if "feature_names" in saved.state:
            words = _as_many(saved.state["feature_names"], self._params.topic_words.T, "features")
            self.feature_names_in_ = np.array(words, dtype=object)
        self.converged_ = bool(saved.state["converged"])
        self.lower_bound_ = float(saved.state["lower_bound"])
        self.worst_fall_ = float(saved.state["worst_fall"])
        self.temper_ = Temper(*(float(number) for number in saved.state["temper"]))
        self.n_topics_ = len(self._params.topic_words)


def _plain(setting: Any) -> Any:
    """What JSON can hold of a setting; a random generator in the middle of its stream cannot be kept."""
    if isinstance(setting, np.generic):
        return setting.item()
    return None if isinstance(setting, (np.random.RandomState, np.random.Generator)) else setting


def _as_many(names: list[object], columns: Array, kind: str) -> list[object]:
    if len(names) != len(columns):
        raise ValueError(f"there are {len(names)} names for {len(columns)} {kind}")
    return names


class PALDA(ClassifierMixin, _TopicModel):
    """ML-PA-LDA: topics from the presence and the absence of known classes, and a classifier from the topics.

    The story it tells: a document has each class i with probability ξ_i. Present or absent, a class has its say: for
    every word some class is asked at random, the class names a topic from what it likes to talk about in that state,
    and the topic writes the word.

    Parameters
    ----------
    n_topics
        Number of topics T; ``"auto"`` takes it from the number of classes and of words (``n_topics_``).
    inference
        ``"joint"``: q(λ) q(θ | λ) q(u, z), tighter and cheaper, and prediction by letting classes explain words away.
        ``"mean_field"``: q(λ) q(θ) q(u) q(z), as published.
    label_prior
        ``"base_rate"``: one number a class, as published.
    smoothing
        Give topics a Dirichlet prior, so that words unseen in a topic are not impossible there.
    n_init
        Random starts; the one with the best bound is kept.
    max_iter, tol
        EM stops after ``max_iter`` rounds, or when the bound grows by less than ``tol`` of its size.
    n_jobs
        Threads; all cores by default, one inside a worker of somebody else's pool. The result is the same.
    random_state
        Seed of the starts.
    verbose
        Show the rounds on standard error.

    Attributes
    ----------
    classes_, n_features_in_, n_iter_, converged_
        As everywhere in scikit-learn; ``classes_`` names the columns of y.
    lower_bounds_, lower_bound_, worst_fall_
        Bound after every round, the best one, and the largest relative fall between rounds.
    topic_words_, topic_prior_, class_prior_
        β, α and ξ.
    n_topics_
        Number of topics.
    temper_
        How much the words of a new document are believed, chosen on documents held back (joint inference).
    """

    def __init__(
        self,
        n_topics: int | Literal["auto"] = "auto",
        *,
        inference: str = "joint",
        label_prior: str = "base_rate",
        smoothing: bool = True,
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-3,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_topics = n_topics
        self.inference = inference
        self.label_prior = label_prior
        self.smoothing = smoothing
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def as_published(cls, n_topics: int = 20, *, smoothing: bool = False, **settings: Any) -> Self:
        """The paper's model and settings: mean field, base rates, prediction at ½."""
        settings = {"tol": _PUBLISHED_TOL} | settings
        return cls(n_topics, inference="mean_field", label_prior="base_rate", smoothing=smoothing, **settings)

    def fit(self, X: Any, y: Any) -> Self:
        """Learn topics from counts X (documents, words) and labels y (documents, classes).

        y holds 1 and 0, and -1 or NaN where a label is unknown. X is never changed.
        """
        known, names = label_table(y)
        counts = self._counts(X, reset=True)
        if len(known) != counts.shape[0]:
            raise ValueError(
                f"X has {counts.shape[0]} documents, but y has labels for {len(known)}: inconsistent numbers of samples"
            )
        self.classes_ = names
        guess = mean_where_unknown(known)
        self._run(counts, known, None, guess)
        return self

    def score(self, X: Any, y: Any) -> float:
        """Micro-F1 of the predictions; unknown labels are left out."""
        return float(metrics.micro_f1(label_table(y)[0], self.predict(X)))

    def _add_state(self, arrays: dict[str, NDArray[Any]], state: dict[str, Any]) -> None:
        del arrays
        state["classes"] = self.classes_.tolist()

    def _take_state(self, saved: SavedModel) -> None:
        super()._take_state(saved)
        self.classes_ = class_names(_as_many(saved.state["classes"], self._params.class_prior, "classes"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags


class CrowdPALDA(_TopicModel):
    """ML-PA-LDA-C: the same topics when only the votes of a noisy crowd are known.

    The story goes on: annotator j looks at a class of a document, sees whether it is there, and says so truthfully
    with probability ρ_j. Nobody need judge everything; what was not judged says nothing.

    Votes alone cannot tell a good crowd from its mirror image (everybody wrong, every label turned round): the start
    from the majority decides, and a few ``gold`` labels set it right when the majority lies.

    Parameters
    ----------
    annotators
        ``"one_coin"``: one quality an annotator, as published.

    The other parameters are those of ``PALDA``.

    Attributes
    ----------
    classes_
        Names of the classes.
    consensus_
        (documents, classes): probability of each label given words, votes and gold.
    annotator_quality_
        A row an annotator: ``annotator``, ``quality`` (ρ), ``n_votes``.

    The others are those of ``PALDA``.
    """

    def __init__(
        self,
        n_topics: int | Literal["auto"] = "auto",
        *,
        annotators: str = "one_coin",
        inference: str = "joint",
        label_prior: str = "base_rate",
        smoothing: bool = True,
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-3,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_topics = n_topics
        self.annotators = annotators
        self.inference = inference
        self.label_prior = label_prior
        self.smoothing = smoothing
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def as_published(cls, n_topics: int = 20, *, smoothing: bool = False, **settings: Any) -> Self:
        """The paper's model and settings: mean field, base rates, one coin, prediction at ½."""
        settings = {"tol": _PUBLISHED_TOL} | settings
        return cls(
            n_topics,
            annotators="one_coin",
            inference="mean_field",
            label_prior="base_rate",
            smoothing=smoothing,
            **settings,
        )

    def fit(self, X: Any, votes: Any, gold: Any = None, doc_ids: Iterable[object] | None = None) -> Self:
        """Learn topics, labels and annotators from counts X and votes.

        Parameters
        ----------
        X
            Counts (documents, words), or a ``Corpus``, which brings its document ids.
        votes
            ``Votes``, an array (documents, annotators, classes) whose rows align with X, with -1 or NaN for no
            judgement, or a long data frame, whose documents are looked up in ``doc_ids``.
        gold
            Known labels (documents, classes), -1 or NaN where unknown.
        doc_ids
            Ids of the rows of X.
        """
        ids = X.doc_ids if isinstance(X, Corpus) and doc_ids is None else doc_ids
        counts = self._counts(X, reset=True)
        given = as_votes(votes, ids, counts.shape[0])
        known = np.full((given.n_docs, given.n_classes), -1, dtype=np.int8)
        if gold is not None:
            known = label_table(gold)[0]
        if known.shape != (given.n_docs, given.n_classes):
            raise ValueError(
                f"gold has shape {known.shape}, not (documents, classes) = {(given.n_docs, given.n_classes)}"
            )
        self.classes_ = given.classes
        self.annotators_ = given.annotators
        self.n_votes_ = given.per_annotator()
        shards, settings = self._run(counts, known, given, first_guess(given, known))
        self.consensus_ = label_probs(shards, self._params, settings)
        return self

    @property
    def annotator_quality_(self) -> pd.DataFrame:
        """What was learned about each annotator."""
        import pandas as pd

        check_is_fitted(self)
        return pd.DataFrame(
            {"annotator": self.annotators_, "quality": self._params.annotator_rates, "n_votes": self.n_votes_}
        )

    def score(self, X: Any, y: Any) -> float:
        """Micro-F1 of the predictions against the truth; unknown labels are left out."""
        return float(metrics.micro_f1(label_table(y)[0], self.predict(X)))

    def _add_state(self, arrays: dict[str, NDArray[Any]], state: dict[str, Any]) -> None:
        arrays |= {"consensus": self.consensus_, "n_votes": self.n_votes_}
        state |= {"classes": self.classes_.tolist(), "annotators": self.annotators_.tolist()}

    def _take_state(self, saved: SavedModel) -> None:
        super()._take_state(saved)
        self.classes_ = names_array(_as_many(saved.state["classes"], self._params.class_prior, "classes"))
        rates = cast("Array", self._params.annotator_rates)
        self.annotators_ = names_array(_as_many(saved.state["annotators"], rates, "annotators"))
        self.consensus_ = saved.arrays["consensus"]
        self.n_votes_ = saved.arrays["n_votes"]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.target_tags.required = True
        return tags


def load(path: str | os.PathLike[str]) -> PALDA | CrowdPALDA:
    """Model that ``save`` wrote; it predicts bit for bit what it predicted before. Nothing in the file is executed."""
    saved = load_state(path)
    kinds: dict[str, type[PALDA | CrowdPALDA]] = {"PALDA": PALDA, "CrowdPALDA": CrowdPALDA}
    try:
        model = kinds[saved.state["estimator"]](**saved.state["settings"])
        model._take_state(saved)  # noqa: SLF001 - the model's own second half of construction
    except (KeyError, TypeError, ValueError) as wrong:
        reason = " ".join(str(wrong).split())
        raise ModelFileError(f"{path}: does not hold a whole model ({reason})") from None
    return model
