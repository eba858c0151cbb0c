"""CrowdPALDA, the estimator for votes of a crowd."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import expit

from palda.data import Votes, names_array
from palda.engine import Threads, add_prefix, resolve_n_jobs, strip_prefix
from palda.estimators.assignment import AssignmentEstimator
from palda.estimators.document_inputs import ids_of
from palda.estimators.inputs import as_votes, gold_table, known_votes, new_votes
from palda.estimators.inverted_classes import warn_of_inverted_classes
from palda.estimators.parameters import ANNOTATOR_MODELS
from palda.estimators.unvoted_classes import with_unvoted_absent
from palda.estimators.vote_changes import NewAnnotators
from palda.io import ShardFolder
from palda.models.assignment import VoteChanges
from palda.models.crowd import (
    CrowdSettings,
    CrowdState,
    GoldCheck,
    KeptPriorBelief,
    KeptPriorModel,
    ProfilePrior,
    PublishedCoin,
    SupportBelief,
    SupportModel,
    VoteSources,
    belief_from_labels,
    count_votes,
    document_counts,
    expected_gain,
    find_vote_sources,
    individual_start,
    initial_label_probs,
    label_posterior,
    model_families,
    no_sources,
    parse_annotator_prior,
    start_belief,
    with_useful_levels,
)
from palda.models.crowd.support_em import single_profile
from palda.models.topics import TrainingData, belief_from_arrays, belief_to_arrays, cut_shards, label_probs
from palda.training import Batch

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Array, CountRows, Counts, EncodedFeatures, VoteRows
    from palda.estimators.checkpoint import Checkpoint
    from palda.models.crowd import AnnotatorBelief, AnnotatorHistory, AnnotatorModel


class CrowdPALDA(AssignmentEstimator):
    """Multi-label classifier, topic model and annotator model for documents labelled by a crowd (ML-PA-LDA-C).

    The model of :class:`~palda.PALDA` with unknown labels. An annotator reports each class of a document correctly with
    an annotator-specific probability (maths, eqs. 1 and 36). Annotators need not judge everything; a missing vote is
    not a "no".

    Votes alone cannot distinguish a good crowd from its mirror image, in which every annotator and every label is
    reversed. The fit starts from the majority vote. A few ``gold`` labels or an ``annotator_prior`` correct it where
    the majority is wrong.

    Fitted attributes that are not listed here are those of :class:`~palda.PALDA`.

    Parameters
    ----------
    n_topics : int or "auto", default="auto"
        Number of topics.
    annotators : {"auto", "two_coin", "one_coin", "per_class"}, default="auto"
        Annotator model. ``"auto"``: how often a typical annotator says yes to a label is estimated, and how annotators
        differ from that; probabilities stay honest where people share mistakes, and models are one witness beside
        people. The others take votes as independent given the label. ``"two_coin"``: sensitivity and specificity.
        ``"one_coin"``: one rate for both, as published. ``"per_class"``: per annotator and class.
    copies : bool, default=True
        Whether annotators who repeat each other's votes are searched; a group of them then votes as one.
    drift : bool, default=True
        Whether changes of annotators' rates over time are searched, if votes have times. An annotator then has rates
        per period where that predicts held-out votes better.
    inference : {"joint", "mean_field"}, default="joint"
        Variational family of the topic model.
    absence : {"shared", "per_class"}, default="shared"
        Topic prior of absent classes. ``"shared"``: one for all classes, so that an E-step costs as much as the classes
        that a document has, not as many as there are. ``"per_class"``: one per class, as published.
    label_prior : {"stacked", "topics", "words", "base_rate"} or classifier, default="stacked"
        Probability of each class before any vote: a classifier on words and topics, on one of them, a constant per
        class, or any scikit-learn classifier with ``predict_proba``. With fewer than 50 documents it is the base rate,
        and the consensus of ``annotators="auto"`` that of the votes alone.
    n_profiles : int or "auto", default="auto"
        Number of label-set profiles. ``"auto"`` uses as many as improve the prediction of held-out votes.
    smoothing : bool, default=True
        Whether topics have a Dirichlet prior.
    thresholds : {"micro_f1", "macro_f1", "jaccard"} or float, default="micro_f1"
        Probability at which ``predict`` returns a class, or the measure that the thresholds maximise.
    n_init : int, default=1
        Number of random starts of the topic model.
    algorithm : {"batch", "online"}, default="batch"
        EM of the topic model.
    max_iter : int, default=200
        Maximum number of iterations of EM.
    tol : float or "auto", default="auto"
        Relative growth of the bound at which EM stops.
    n_jobs : int, default=None
        Number of threads; None uses all cores.
    engine : "dask", str or dask.distributed.Client, default=None
        Where documents are processed; None for threads of this process.
    random_state : int, RandomState instance or None, default=None
        Random seed.
    verbose : int, default=0
        Write the progress of EM to standard error if not 0.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Names of the classes.
    annotators_ : ndarray of shape (n_annotators,)
        Names of the annotators.
    doc_ids_ : ndarray of shape (n_documents,)
        Ids of the training documents.
    consensus_ : ndarray of shape (n_documents, n_classes)
        Probability of each label of the training documents, given words, votes and gold labels.
    vote_share_ : ndarray of shape (n_documents, n_classes)
        Share of people who would say that a class is present, for the training documents.
    vote_log_likelihoods_ : ndarray of shape (n_rounds,)
        Log-likelihood of held-out votes after each round of training; empty for base rates.
    gold_check_ : GoldCheck or None
        The consensus against the ``gold`` labels of ``fit`` that have votes, each held back once: ``n_labels``,
        ``micro_f1`` at 1/2, ``calibration_error``, and per tenth of probability ``count``, ``mean_prob`` and
        ``share_present``. None with fewer than 30 such labels, and for base rates.

    See Also
    --------
    PALDA : The same model for known labels, with all parameters in detail.
    aggregate : Consensus and annotator quality without texts.

    Examples
    --------
    >>> from palda import CrowdPALDA, simulate
    >>> news = simulate.newsroom(200, seed=0)
    >>> votes, annotators = simulate.crowd(news, [0.95, 0.9, 0.7, 0.2], votes_per_doc=3, seed=0)
    >>> model = CrowdPALDA(random_state=0).fit(news.corpus, votes)
    >>> model.consensus_.shape
    (200, 10)
    >>> model.annotator_quality_["verdict"].tolist()
    ['reliable', 'reliable', 'noisy', 'adversarial']
    """

    _published: ClassVar[dict[str, Any]] = AssignmentEstimator._published | {"annotators": "one_coin", "copies": False}  # noqa: SLF001

    def __init__(
        self,
        n_topics: int | Literal["auto"] = "auto",
        *,
        annotators: str = "auto",
        copies: bool = True,
        drift: bool = True,
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
        self.annotators = annotators
        self.copies = copies
        self.drift = drift
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
        votes: Any = None,
        gold: Any = None,
        doc_ids: Iterable[object] | None = None,
        annotator_prior: Any = None,
        *,
        features: Any = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    ) -> Self:
        """Fit topics, labels, annotators and label prior.

        Documents without votes take part too: they train the topics.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_words), Corpus or ShardFolder
            Word counts. A ``Corpus`` brings its document ids, a ``ShardFolder`` also its votes and known labels.
        votes : Votes, DataFrame or array-like of shape (n_documents, n_annotators, n_classes)
            ``Votes``; a long data frame with columns doc, annotator, label and value, whose documents are matched with
            ``doc_ids``; or an array of 1 and 0, with -1 or NaN for no vote, whose rows are those of X. Numbers between
            0 and 1 are soft votes; what they are worth is learned for each annotator.
        gold : array-like of shape (n_documents, n_classes) or DataFrame, default=None
            Known labels: 1, 0, and -1 or NaN for unknown. Rows and columns of a data frame are matched by document id
            and class; it may leave out either.
        doc_ids : iterable of str, default=None
            Ids of the rows of X.
        annotator_prior : DataFrame or mapping, default=None
            Earlier knowledge of annotators: ``annotator_quality_`` of an earlier fit, or a mapping from annotator to
            quality or to (sensitivity, specificity).
        features : array-like of shape (n_documents, n_columns), DataFrame or FeatureTable, default=None
            What describes the documents besides words: embeddings, measurements, metadata. Columns of a data frame are
            numbers, categories, or lists of numbers; its index holds document ids, unless it is the default numbering.
            Missing values are allowed. A memory map is not copied as a whole. X may then be None.
        checkpoint : Checkpoint, str or path-like, default=None
            Folder from which an interrupted fit resumes.

        Returns
        -------
        CrowdPALDA
            The fitted estimator.

        Raises
        ------
        DataError
            If votes, gold and X do not match.
        ValueError
            If a parameter or X is invalid.

        Warns
        -----
        PaldaWarning
            If nobody voted on a class that has no gold labels either. It is absent in all documents.
        """
        self._check_parameters()
        counts = self._counts(X, reset=True, features=features)
        ids = ids_of(X, doc_ids, features)
        given: VoteRows
        if isinstance(X, ShardFolder) and votes is None:
            given, gold = X.votes, X.gold if gold is None else gold
        else:
            given = as_votes(votes, ids, counts.shape[0])
        encoded = self._learn_features(features, X, _feature_ids(ids, votes), counts.shape[0])
        gold_labels = gold_table(gold, given)
        known = with_unvoted_absent(gold_labels, given)
        model = self._fitted_model()
        self._sources = self._found_sources(given, known, model)
        voted = self._sources.votes(given)
        belief, guess = start_belief(model, voted, _history(annotator_prior, voted)), initial_label_probs(voted, known)
        settings = CrowdSettings(model, engine=Threads(resolve_n_jobs(self.n_jobs)))
        belief = with_useful_levels(voted, known, guess, belief, settings)
        data = TrainingData(counts, known, guess, voted, belief, encoded)
        self.classes_, self.annotators_, self.doc_ids_ = given.classes, given.annotators, given.doc_ids
        trained = self._train(data, model, checkpoint)
        self.consensus_, self.vote_log_likelihoods_, self.gold_check_, evidence = trained
        self._vote_counts = count_votes(model, voted, self.consensus_)
        self._document_counts = document_counts(given, gold_labels)
        self._individuals = None
        if self._sources:
            own = individual_start(given, self._belief, model, _history(annotator_prior, given))
            self._individuals = belief_from_labels(model, given, self.consensus_, own)
        self._learn_vote_shares(counts, given)
        self._keep_record(counts, given, gold_labels, evidence)
        self._confirm_verdicts()
        warn_of_inverted_classes(*self._reported, self.classes_, gold_labels)
        return self

    def _found_sources(self, votes: VoteRows, known: NDArray[np.int8], model: AnnotatorModel) -> VoteSources:
        if isinstance(model, PublishedCoin):
            return no_sources(votes.n_annotators)
        settings = CrowdSettings(model, engine=Threads(resolve_n_jobs(self.n_jobs)))
        guess = initial_label_probs(votes, known)
        return find_vote_sources(votes, known, guess, settings, copies=self.copies, drift=self.drift)

    def partial_fit(
        self, X: Any, votes: Any, gold: Any = None, doc_ids: Iterable[object] | None = None, *, features: Any = None
    ) -> Self:
        """Update the model with a new batch of documents and votes; the first call is a ``fit``.

        See :meth:`palda.PALDA.partial_fit` for what is updated. Annotators keep their estimates, and their votes add
        up. New annotators start as typical members of the crowd. ``consensus_`` and ``doc_ids_`` grow.

        Votes on earlier documents are accepted; X then holds their rows again. They take the path of :meth:`update`:
        a vote that the annotator has given before is replaced, and words are not counted twice.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_words), Corpus or ShardFolder
            Word counts, with the same columns in every call.
        votes : Votes, DataFrame or array-like of shape (n_documents, n_annotators, n_classes)
            Votes as in ``fit``. Classes and annotators are matched by name, those of an array by position. Classes
            stay the same. Rows of an array without ids are new documents.
        gold : array-like of shape (n_documents, n_classes) or DataFrame, default=None
            Known labels as in ``fit``.
        doc_ids : iterable of str, default=None
            Ids of the rows of X.
        features : array-like of shape (n_documents, n_columns), DataFrame or FeatureTable, default=None
            Features as in ``fit``, with the same columns in every call.

        Returns
        -------
        CrowdPALDA
            The updated estimator.
        """
        self._check_partial_fit()
        if not self.__sklearn_is_fitted__():
            self.fit(X, votes, gold, doc_ids, features=features)
            self._warn_if_few_docs()
            return self
        counts = self._counts(X, reset=False, features=features)
        names, ids = (self.doc_ids_, self.annotators_, self.classes_), ids_of(X, doc_ids, features)
        given, new, seen, positions = new_votes(votes, ids, counts.shape[0], names)
        encoded = self._features(features, X, _feature_ids(ids, votes), counts.shape[0])
        if self._prior is None:
            encoded = None
        known = gold_table(gold, given)
        n_known = len(self.annotators_)
        traits = ([*trait[n_known:]] for trait in (given.annotator_kinds, given.annotator_families))
        if len(seen):
            self._kept_record()
        self._add_annotators(NewAnnotators([*given.annotators[n_known:]], *traits))
        if len(seen):
            labels = np.full((len(self.doc_ids_), known.shape[1]), -1, dtype=np.int8)
            labels[positions] = known[seen]
            self._apply(VoteChanges.of(given.take(seen), positions), labels)
        if len(new):
            added = None if encoded is None else encoded.take(new)
            self._add_documents(counts[new], known[new], given.take(new), added)
        return self

    def _add_documents(
        self, counts: Counts, known: NDArray[np.int8], votes: Votes, features: EncodedFeatures | None
    ) -> None:
        """Update the model with new documents; ``votes`` has the annotators of the model."""
        model = self._annotator_model()
        batch = Batch(counts, known, self._sources.convert(votes), features)
        result = self._update(batch, model, self._vote_counts)
        self._vote_counts = result.state.vote_counts
        if self._document_counts is not None:
            self._document_counts = self._document_counts + document_counts(votes, known)
        if self._individuals is not None:
            own, own_counts = self._individuals
            own_counts = own_counts + count_votes(model, votes, result.label_probs)
            self._individuals = model.update(own_counts, own), own_counts
        self.consensus_ = np.concatenate((self.consensus_, result.label_probs))
        rows = np.arange(len(self.consensus_) - votes.n_docs, len(self.consensus_))
        self.consensus_[rows] = self._from_words_where_unvoted(result.label_probs, rows, votes, known)
        self.doc_ids_ = names_array([*self.doc_ids_, *votes.doc_ids])
        self._add_vote_shares(counts, votes)
        self._extend_record(counts, votes, known, result.evidence)
        self._confirm_verdicts()

    def _annotator_model(self) -> AnnotatorModel:
        """The model of the current beliefs."""
        return KeptPriorModel() if isinstance(self._belief, KeptPriorBelief) else self._fitted_model()

    def _fitted_model(self) -> AnnotatorModel:
        """The model that a fit learns."""
        if self.annotators == "one_coin" and self.inference == "mean_field":
            return PublishedCoin()
        return ANNOTATOR_MODELS[self.annotators]()

    def consensus(self, X: Any, votes: Any, doc_ids: Iterable[object] | None = None, *, features: Any = None) -> Array:
        """Label probabilities of new documents, from their words and votes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_words), or Corpus
            Word counts.
        votes : Votes, DataFrame or array-like of shape (n_documents, n_annotators, n_classes)
            Votes as in ``fit``. Classes and annotators are matched by name, those of an array by position. Unknown
            annotators count as typical members of the crowd, those of the kind ``"model"`` together as one witness.
        doc_ids : iterable of str, default=None
            Ids of the rows of X.
        features : array-like of shape (n_documents, n_columns), DataFrame or FeatureTable, default=None
            Features as in ``fit``, with the same columns.

        Returns
        -------
        ndarray of shape (n_documents, n_classes)
            Probability that each class is present; that of ``predict_proba`` for documents without votes.
        """
        belief = self._belief
        counts, ids = self._counts(X, reset=False, features=features), ids_of(X, doc_ids, features)
        given = known_votes(votes, ids, counts.shape[0], self.classes_, self.annotators_)
        encoded = self._features(features, X, _feature_ids(ids, votes), counts.shape[0])
        n_known = len(self.annotators_)
        traits = given.annotator_kinds[n_known:], given.annotator_families[n_known:]
        families = model_families(*traits, given.n_annotators - n_known)
        sources, order = self._sources.with_new_annotators(len(families))
        belief, given = belief.with_new_annotators(families).take(order), sources.convert(given)
        unknown = np.full((given.n_docs, given.n_classes), -1, dtype=np.int8)
        model = self._annotator_model()
        if self._prior is None:
            probs, has_no_votes = self._labels_with_base_rates(counts, given, belief), np.diff(given.doc_starts) == 0
            if not self._words_join_votes and has_no_votes.any():
                probs[has_no_votes] = self.predict_proba(X, features=features)[has_no_votes]
            return probs
        with self._em_settings(model) as settings:
            evidence = self._prior.evidence(counts, settings.engine, encoded)
            state = CrowdState(belief, self._prior.for_votes.profiles, ProfilePrior.vague(given.n_classes))
            crowd = self._crowd_settings(model, settings.engine)
            probs = label_posterior(given, unknown, state, crowd, evidence)
            has_no_votes = np.diff(given.doc_starts) == 0
            if isinstance(belief, SupportBelief) and has_no_votes.any():  # what joins the votes is about their support
                probs[has_no_votes] = expit(self._prior_log_odds(counts, encoded, settings)[has_no_votes])
            return probs

    def _labels_with_base_rates(self, counts: CountRows, votes: Votes, belief: AnnotatorBelief) -> Array:
        """Labels of documents without a fitted label prior, from votes of the sources of a belief."""
        unknown, model = np.full((votes.n_docs, votes.n_classes), -1, dtype=np.int8), self._annotator_model()
        with self._em_settings(model) as settings:
            if self._words_join_votes or not isinstance(belief, SupportBelief):
                params = replace(self._params, annotators=belief)
                return label_probs(cut_shards(counts, unknown, votes), params, settings)
            state = CrowdState(belief, single_profile(belief), ProfilePrior.vague(votes.n_classes))
            return label_posterior(votes, unknown, state, self._crowd_settings(model, settings.engine))

    def suggest(self, n: int = 10) -> pd.DataFrame:
        """Labels of training documents for which one more vote is worth most.

        Parameters
        ----------
        n : int, default=10
            Number of labels.

        Returns
        -------
        DataFrame
            Columns ``doc``, ``label``, ``probability``, and ``gain``: expected decrease of the entropy of the label,
            in nats, by one more vote of a typical annotator. Largest gain first.
        """
        import pandas as pd

        rates = self._typical_rates()
        if not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"n={n!r} must be an integer of at least 1")
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

    def _checked_votes(self, votes: Any) -> Votes:
        given = as_votes(votes, self.doc_ids_, len(self.doc_ids_))
        names = (given.annotators, self.annotators_), (given.classes, self.classes_)
        if not all(np.array_equal(*pair) for pair in names):
            raise ValueError("the model was fitted to other votes: annotators or classes differ")
        return given

    def _add_state(self, arrays: dict[str, NDArray[Any]], state: dict[str, Any]) -> None:
        arrays |= {
            "consensus": self.consensus_,
            "vote_counts": self._vote_counts,
            "vote_log_likelihoods": self.vote_log_likelihoods_,
        }
        arrays |= self._vote_share_arrays(arrays) | add_prefix("sources", self._sources.arrays())
        if self.gold_check_ is not None:
            arrays |= add_prefix("gold_check", self.gold_check_.arrays())
        if self._document_counts is not None:
            arrays["annotator_documents"] = self._document_counts
        if self._confirmed is not None:
            arrays["confirmed_verdicts"] = self._confirmed.astype(np.int8)
        if self._individuals is not None:
            belief, counts = self._individuals
            arrays |= add_prefix("individuals", {**belief_to_arrays(belief), "counts": counts})
        state |= {"annotators": self.annotators_.tolist(), "doc_ids": self.doc_ids_.tolist()}

    def _take_state(self, arrays: dict[str, NDArray[Any]], state: dict[str, Any]) -> None:
        self.consensus_ = arrays["consensus"]
        self._vote_counts = arrays["vote_counts"]
        self._document_counts = arrays.get("annotator_documents")
        self._confirmed = arrays["confirmed_verdicts"] > 0 if "confirmed_verdicts" in arrays else None
        self.vote_log_likelihoods_ = arrays["vote_log_likelihoods"]
        self._take_vote_shares(arrays)
        self.gold_check_ = GoldCheck.from_arrays(strip_prefix("gold_check", arrays))
        self.annotators_ = names_array(state["annotators"])
        self.doc_ids_ = names_array(state["doc_ids"])
        self._sources = VoteSources.from_arrays(strip_prefix("sources", arrays), len(self.annotators_))
        own = strip_prefix("individuals", arrays)
        belief = belief_from_arrays({name: array for name, array in own.items() if name != "counts"})
        self._individuals = None if belief is None else (belief, own["counts"])
        n_sources = len(self.annotators_) + self._sources.n_periods
        if len(self._belief.posterior) != n_sources or bool(self._sources) != (belief is not None):
            raise ValueError("the numbers of annotators differ")
        _check_kinds(self._annotator_model(), self._belief, belief)


def _check_kinds(model: AnnotatorModel, *beliefs: AnnotatorBelief | None) -> None:
    """Raise ``ValueError`` unless these are beliefs of the model, where it has beliefs of its own."""
    for kind, own in ((SupportModel, SupportBelief), (KeptPriorModel, KeptPriorBelief)):
        if isinstance(model, kind) and any(not isinstance(belief, own) for belief in beliefs if belief is not None):
            raise ValueError("the beliefs about annotators are those of another annotator model")


def _history(annotator_prior: Any, votes: VoteRows) -> AnnotatorHistory | None:
    return None if annotator_prior is None else parse_annotator_prior(annotator_prior, votes.annotators)


def _feature_ids(ids: Iterable[object] | None, votes: Any) -> Iterable[object] | None:
    """Ids of the rows of X that features are matched with: those of X, else those of the votes."""
    return votes.doc_ids if ids is None and isinstance(votes, Votes) else ids
