"""The label prior that learns: a head that reads documents and the labels it learns from take turns.

Votes and the head's out-of-fold opinion give the labels Δ; from Δ the head and what is believed of annotators are
learned anew. Words count once: through the head, not in Δ's update as well. Every opinion on a training document comes
from models that have not seen its fold, topic models included. Known labels are the same without votes: one turn is
enough unless some of them are unknown.

What is chosen for the labels - the number of profiles, κ, the last turn - is chosen by how well hidden votes are
predicted; what is chosen for new documents, by how well labels are that were held back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from scipy.special import expit, logit

from palda.data import vote_blocks
from palda.engine import StageRecord, add_prefix, strip_prefix
from palda.models.classifier import (
    MIN_STANDARD_ERRORS,
    ClassifierFit,
    ClassifierSettings,
    Combination,
    CombinationInputs,
    ExternalFit,
    HeldOut,
    LabelPrior,
    LogisticClassifier,
    assign_folds,
    choose_combination,
    choose_share,
    combination_arrays,
    combination_from_arrays,
    fit_classifier,
    fit_external,
    fit_platt,
    likeliest_combination,
    recalibrated,
    refitted,
)
from palda.models.crowd import (
    N_VOTE_FOLDS,
    CrowdState,
    ProfilePrior,
    count_votes,
    cut_votes,
    fit_crowd,
    label_sets,
    select_votes,
    start_state,
    vote_folds,
    votes_log_likelihood,
)
from palda.models.topics import (
    Temperature,
    belief_from_arrays,
    belief_to_arrays,
    cross_fit_topics,
    fit_labelled_topics,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import VoteRows, Votes
    from palda.models.crowd import AnnotatorBelief, CrowdSettings
    from palda.models.topics import CrossFittedTopics, EMResult, TopicPlan, TrainingData

    Array: TypeAlias = NDArray[np.float64]
    Rows: TypeAlias = NDArray[np.int64]

__all__ = ["N_FOLDS", "TrainingPlan", "TrainingResult", "fit_alternating"]

N_FOLDS = 3
"""Folds of heads and topic models; with five, heads cost twice as much and were no better on any public data set."""

_MOST_TURNS = 12
_WORTH_A_TURN = 1e-4  # relative growth of the likelihood of hidden votes
_STEADY = 1e-3  # with less growth than that, labels are worth choices that will be kept
_FIRST_ROUNDS = 500  # of EM on the votes alone
_ENOUGH = 3.0  # votes a label, for hidden ones to tell small differences between numbers of profiles
_LITTLE_CAUTION = 0.5
_MOST_PAIRS = 500_000  # (document, class) pairs looked at when profiles and κ are chosen
_LEAST = 1e-6  # probabilities are this far from 0 and 1


@dataclass(frozen=True)
class TrainingPlan:
    """How a label prior is learned."""

    label_prior: Any  # "words", "topics", "stacked", or a classifier
    n_profiles: int | None  # None: as many as predict better
    topics: TopicPlan
    crowd: CrowdSettings
    seed: int


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """Everything that was learned, for new documents and about the training documents."""

    prior: LabelPrior | None  # None if learning was interrupted before the first turn was over
    topics: EMResult
    temperature: Temperature
    out_of_fold_log_odds: Array  # (docs, classes), out of fold
    label_probs: Array  # Δ
    weights: Array  # (docs, classes): 1 where votes or known labels speak of a label
    belief: AnnotatorBelief | None
    log_likelihoods: Array  # of the hidden votes, an entry a turn


@dataclass(frozen=True, eq=False)
class _Turn:
    """Where things stand after a turn; nothing was read before the first."""

    label_probs: Array
    belief: AnnotatorBelief | None
    fit: ClassifierFit | ExternalFit | None = None
    joined: Combination | None = None
    score: float = -np.inf

    @property
    def n_features(self) -> int:
        return len(self.fit.fold_coef) if isinstance(self.fit, ClassifierFit) else 0

    def record(self) -> StageRecord:
        """Labels and what goes with them; the head has a stage of its own."""
        belief = {} if self.belief is None else add_prefix("belief", belief_to_arrays(self.belief))
        joined = {} if self.joined is None else add_prefix("joined", combination_arrays(self.joined))
        return StageRecord({"label_probs": self.label_probs, **belief, **joined}, {"score": self.score})

    @classmethod
    def from_record(cls, record: StageRecord) -> _Turn:
        """What ``record`` was made of."""
        joined = strip_prefix("joined", record.arrays)
        return cls(
            record.arrays["label_probs"],
            belief_from_arrays(strip_prefix("belief", record.arrays)),
            joined=combination_from_arrays(joined) if joined else None,
            score=float(record.state["score"]),
        )


def fit_alternating(data: TrainingData, plan: TrainingPlan) -> TrainingResult:
    """Head, profiles, topics, annotators and labels."""
    learner = _Learner(data, plan)
    turns = [learner.start()]
    folds = assign_folds(turns[0].label_probs, N_FOLDS, plan.seed)
    reading: CrossFittedTopics | None = None
    steady = learner.settled
    while len(turns) <= _MOST_TURNS:
        just_now = not steady and len(turns) > 1 and not _on_the_move(turns)
        steady |= just_now
        anew = len(turns) == 1 or just_now  # topics and penalties, chosen for labels that are worth it
        if anew and learner.reads_topics(steady=steady):
            reading = cross_fit_topics(data.counts, turns[-1].label_probs, folds, plan.topics, reading)
            if reading.model.interrupted:
                break
        turns.append(learner.take_turn(turns[-1], folds, reading, anew=anew))
        if steady and not _grows(turns, _WORTH_A_TURN):
            break
    return learner.finished(turns, reading)


def _grows(turns: list[_Turn], worth: float) -> bool:
    """Whether the last turn made hidden votes likelier by that share of their log-likelihood; never without votes."""
    return turns[-1].score - turns[-2].score > worth * abs(turns[-1].score)


def _on_the_move(turns: list[_Turn]) -> bool:
    """Whether it is too early for choices that will be kept; half of the turns is late enough."""
    return len(turns) <= _MOST_TURNS // 2 and _grows(turns, _STEADY)


def _voted_on(votes: VoteRows) -> NDArray[np.bool_]:
    """(documents, classes): whether anybody judged the pair."""
    return np.concatenate([some.per_pair() > 0 for _, some in vote_blocks(votes)])


class _Learner:
    """What stays the same from turn to turn."""

    def __init__(self, data: TrainingData, plan: TrainingPlan) -> None:
        self.data, self.plan = data, plan
        self.stages = plan.topics.settings.stages
        known, votes = data.known, data.votes
        voted_on = np.zeros(known.shape, dtype=bool) if votes is None else _voted_on(votes)
        self.weights = ((known >= 0) | voted_on).astype(np.float64)
        self.votes_per_label = 0.0 if votes is None else len(votes) / max(int(voted_on.sum()), 1)
        self.settled = bool((known >= 0).all())
        rng = np.random.default_rng(plan.seed)
        n_judges = min(len(known), max(1, _MOST_PAIRS // known.shape[1]))
        self.judges = np.sort(rng.choice(len(known), n_judges, replace=False))  # documents that profiles are chosen on
        self.held_back = (rng.random(n_judges) < 0.5)[:, None]
        self.judged = None if votes is None else votes.take(self.judges)
        self.fifths = None if self.judged is None else vote_folds(self.judged, rng)

    def start(self) -> _Turn:
        """Labels from the votes alone, if there are any."""
        data, model = self.data, self.plan.crowd.annotators
        votes, belief = data.votes, data.belief
        if votes is None or belief is None:
            return _Turn(data.guess, None)
        if not belief.has_history.any():
            belief = model.update(count_votes(model, votes, data.guess), belief)
        settings = replace(self.plan.crowd, max_iter=_FIRST_ROUNDS)

        def from_votes() -> _Turn:
            found = fit_crowd(cut_votes(votes, data.known), start_state(belief, data.guess), settings)
            return _Turn(found.label_probs, found.state.belief)

        stage = self.stages.stage("votes", data.guess, belief.posterior)
        return stage.remember(from_votes, _Turn.record, _Turn.from_record)

    def reads_topics(self, *, steady: bool) -> bool:
        """Whether it is time to fit topic models: when labels are steady. A head that has nothing else cannot wait."""
        kind = self.plan.label_prior
        return isinstance(kind, str) and (kind == "topics" or (kind == "stacked" and steady))

    def take_turn(self, before: _Turn, folds: Rows, reading: CrossFittedTopics | None, *, anew: bool) -> _Turn:
        """A head from the labels, then labels and annotators from the head and the votes (maths, eqs. 48-51).

        The head goes on from the one before, unless its penalties are to be chosen ``anew``.
        """
        fit = self._fit_head(before, folds, reading, anew=anew)
        base = logit(np.clip(fit.classifier.base_rates, _LEAST, 1.0 - _LEAST))
        data, votes, belief = self.data, self.data.votes, before.belief
        if votes is None or belief is None:
            joined = Combination.classifier_alone(base)
            probs = label_sets.profile_e_step(joined.evidence(fit.log_odds), data.known, joined.profiles).label_probs
            return _Turn(probs, None, fit, joined)

        def with_votes() -> _Turn:
            joined, score = self._choose(belief, fit.log_odds, base)
            settings = replace(self.plan.crowd, learn_profiles=len(joined.profiles.weights) > 1)
            state = CrowdState(belief, joined.profiles, ProfilePrior(expit(base)))
            found = fit_crowd(cut_votes(votes, data.known, joined.evidence(fit.log_odds)), state, settings)
            joined = replace(joined, profiles=found.state.profiles)
            return _Turn(found.label_probs, found.state.belief, None, joined, score)

        stage = self.stages.stage("labels", fit.log_odds, belief.posterior)
        return replace(stage.remember(with_votes, _Turn.record, _Turn.from_record), fit=fit)

    def _fit_head(
        self, before: _Turn, folds: Rows, reading: CrossFittedTopics | None, *, anew: bool
    ) -> ClassifierFit | ExternalFit:
        weights = None if self.weights.all() else self.weights
        kind, counts, seed = self.plan.label_prior, self.data.counts, self.plan.seed
        dense = None if reading is None else reading.evidence
        stage = self.stages.stage("head", before.label_probs, dense)
        if not isinstance(kind, str):
            return fit_external(
                kind, counts[slice(None)], before.label_probs,  # a plugged-in classifier wants a matrix
                weights=weights, folds=folds, seed=seed, engine=self.plan.crowd.engine, stage=stage,
            )  # fmt: skip
        return fit_classifier(
            before.label_probs,
            counts=None if kind == "topics" else counts,
            dense=dense,
            weights=weights,
            folds=folds,
            settings=ClassifierSettings(seed=seed, engine=self.plan.topics.settings.engine),
            start=before.fit if isinstance(before.fit, ClassifierFit) and not anew else None,
            stage=stage,
        )

    def _choose(self, belief: AnnotatorBelief, head: Array, base: Array) -> tuple[Combination, float]:
        """Profiles and κ for documents that have votes, and the log-likelihood of the hidden ones."""
        votes, fifths, rows = cast("Votes", self.judged), cast("Rows", self.fifths), self.judges

        def trial(fifth: int) -> HeldOut:
            seen, hidden = (select_votes(votes, which) for which in (fifths != fifth, fifths == fifth))
            said = self.plan.crowd.annotators.evidence(seen, belief).log_odds
            return HeldOut(
                CombinationInputs(self.data.known[rows], said, head[rows]),
                lambda probs: votes_log_likelihood(hidden, probs, belief),
            )

        n_trials = max(1, min(N_VOTE_FOLDS, _MOST_PAIRS // (2 * len(rows) * len(base))))
        trials = [trial(fifth) for fifth in range(n_trials)]
        caution = MIN_STANDARD_ERRORS if self.votes_per_label < _ENOUGH else _LITTLE_CAUTION
        return choose_combination(trials, base, n_profiles=self.plan.n_profiles, caution=caution, seed=self.plan.seed)

    def _for_new_documents(self, fit: ClassifierFit | ExternalFit, base: Array, label_probs: Array) -> Combination:
        """Profiles and κ for documents that nobody has voted on.

        The labels of half of the documents are held back; probabilities are judged after recalibration.
        """
        rows, out_of_fold = self.judges, fit.log_odds
        targets, head = label_probs[rows], out_of_fold[rows]
        weights = self.weights[rows] * self.held_back
        certain = logit(np.clip(targets, _LEAST, 1.0 - _LEAST)) - head

        def score(probs: Array) -> Array:
            scores = logit(np.clip(probs, _LEAST, 1.0 - _LEAST))
            odds = fit_platt(scores, targets, weights).apply(scores)
            likelihoods: Array = np.sum(weights * (targets * odds - np.logaddexp(0.0, odds)), axis=1)
            return likelihoods

        unknown = np.full(targets.shape, -1, dtype=np.int8)
        trial = HeldOut(CombinationInputs(unknown, np.where(self.held_back, 0.0, certain), head), score)
        joined = likeliest_combination(trial, base, n_profiles=self.plan.n_profiles, seed=self.plan.seed)
        share = choose_share(joined, head, targets, weights)
        joined = refitted(replace(joined, share=share), CombinationInputs(unknown, certain, head))
        return recalibrated(joined, out_of_fold, label_probs, self.weights)

    def finished(self, turns: list[_Turn], reading: CrossFittedTopics | None) -> TrainingResult:
        """The best turn of those that read as much as the last one."""
        comparable = [turn for turn in turns if turn.n_features == turns[-1].n_features]
        best = max(reversed(comparable), key=lambda turn: turn.score)
        prior = None
        if best.fit is not None and best.joined is not None:
            for_words = self._for_new_documents(best.fit, best.joined.base, best.label_probs)
            reads_topics = (
                isinstance(best.fit.classifier, LogisticClassifier) and best.fit.classifier.dense_mean is not None
            )
            reader = reading.evidence_model if reading is not None and reads_topics else None
            prior = LabelPrior(best.fit.classifier, best.joined, for_words, reader)
        return TrainingResult(
            prior=prior,
            topics=self._topics_of(best) if reading is None else reading.model,
            temperature=Temperature() if reading is None else reading.evidence_model.temperature,
            out_of_fold_log_odds=np.zeros_like(best.label_probs) if best.fit is None else best.fit.log_odds,
            label_probs=best.label_probs,
            weights=self.weights,
            belief=best.belief,
            log_likelihoods=np.array([turn.score for turn in turns[1:]]),
        )

    def _topics_of(self, turn: _Turn) -> EMResult:
        """Topics that were not needed to find the labels, but tell what classes are about."""
        return fit_labelled_topics(self.data.counts, turn.label_probs, self.plan.topics)
