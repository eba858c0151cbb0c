"""The default fit: a text classifier and the labels it is trained on are estimated in turns.

Votes and the classifier's out-of-fold log-odds give the labels Δ. From Δ the classifier and the annotator beliefs are
fitted again. Words count once, through the classifier, and not in the update of Δ as well. The log-odds of a training
document always come from models that have not seen its fold, topic models included. Known labels take the same path
without votes; one turn is then enough.

The number of profiles, κ and the last turn are chosen by how well hidden votes are predicted. The combination for new
documents is chosen by how well held-out labels are predicted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import expit, logit

from palda.data import ArraySpec, prefixed, vote_blocks
from palda.engine import RecordSchema, StageRecord, add_prefix, strip_prefix
from palda.models.classifier import (
    COMBINATION_ARRAYS,
    Combination,
    CombinationInputs,
    CrossFit,
    HeldOut,
    LabelPrior,
    LogisticClassifier,
    assign_folds,
    choose_combination,
    choose_for_new_documents,
    evidence_shares,
)
from palda.models.crowd import (
    MIN_STANDARD_ERRORS,
    N_VOTE_FOLDS,
    CrowdState,
    ProfilePrior,
    check_gold,
    choose_n_profiles,
    cut_votes,
    first_state,
    fit_crowd,
    fit_with_profiles,
    label_posterior,
    profile_e_step,
    select_votes,
    vote_folds,
)
from palda.models.crowd.answers import Answers, learned_answers
from palda.models.crowd.em import relinked
from palda.models.crowd.model_selection import n_vote_folds
from palda.models.crowd.support import SupportBelief, as_support
from palda.models.crowd.support_em import single_profile
from palda.models.topics import (
    Temperature,
    belief_from_arrays,
    belief_schema_like,
    belief_to_arrays,
    cross_fit_topics,
    fit_labelled_topics,
    no_topics,
)
from palda.training.turn_classifier import TurnClassifier

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from palda.data import Array, Strings, VoteRows, Votes
    from palda.models.classifier import ExternalClassifier, ExternalFit
    from palda.models.crowd import AnnotatorBelief, CrowdSettings, GoldCheck
    from palda.models.crowd.held_out import HeldOutVotes
    from palda.models.topics import CrossFittedTopics, EMResult, TopicPlan, TrainingData

    Indices = NDArray[np.int64]

N_FOLDS = 3
"""Folds of classifiers and topic models; five cost twice as much and were no better on any public data set."""

_MAX_TURNS = 12
_MAX_SUPPORT_TURNS = 3
"""Turns with the support model: the classifier learns from the votes alone, then twice from better labels.

The third changes labels little, but the classifier for new documents gains: the log-likelihood per label of the second
and third turn is -.278 and -.278 on arq with three people, -.080 and -.080 on hin, -.044 and -.043 on Reuters with two
votes.
"""

_MIN_PROFILE_SHARE = 0.14
"""Share of what texts add to the prediction of hidden votes that several profiles have to add beside them.

Both know which classes go together. It is .02 to .12 where labels get worse with both (Reuters with two votes, hin,
csta with three answers), .16 to .85 where they get better (scene and yeast with two votes, scene with three).
"""

_KAPPAS_WITH_PROFILES = (1.0, 0.75, 0.5)  # weights of answers that tell partly the same as profiles
_MIN_GROWTH = 1e-4  # relative growth of the likelihood of hidden votes that is worth another turn
_STABLE_GROWTH = 1e-3  # with less growth, labels are stable enough to choose penalties and topics on
_FIRST_ROUNDS = 500  # of EM on the votes alone
_ENOUGH_VOTES = 2.0
"""Votes per label from which the first classifier tells what the answers of later ones are worth.

It learns from votes alone. Where labels have one vote each, it learns so little that later ones are worth far more:
with their own answers, Reuters with one vote per document has -.074 nats per label, with those of the first -.087.
"""

_MANY_VOTES = 3.0  # votes per label from which hidden votes reveal small differences between numbers of profiles
_STANDARD_ERRORS_WITH_MANY_VOTES = 0.5
_N_FIRST_CHOICES = 2  # turns in which profiles and κ are chosen; later only once labels are stable
_MAX_PAIRS = 250_000  # (document, class) pairs that profiles and κ are chosen on
_MAX_CHOICE_PAIRS = 120_000  # the same, summed over the folds of hidden votes that candidates are compared on
_MAX_SHARE_DOCS = 2000  # documents from which the shares of words, topics and features are estimated
_ROUNDING = 1e-9  # of probabilities in a checkpoint
_MIN_PROB = 1e-6  # distance of probabilities from 0 and 1


@dataclass(frozen=True)
class TrainingPlan:
    """How a label prior is learned."""

    label_prior: Any  # "words", "topics", "stacked", or a classifier
    n_profiles: int | None  # None: chosen on hidden votes
    topics: TopicPlan
    crowd: CrowdSettings
    seed: int
    watch: Callable[[str, int | None], object] = field(default=lambda *_: None)
    """Called with the kind of each stage that begins, and its turn."""
    word_names: Strings | None = None  # for external classifiers that select columns by name


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The fitted models, and the labels of the training documents."""

    prior: LabelPrior | None  # None if the fit was interrupted during the first turn
    topics: EMResult
    temperature: Temperature
    out_of_fold_log_odds: Array  # of the classifier, (docs, classes)
    label_probs: Array  # Δ
    weights: Array  # (docs, classes): 1 where a label is known or has votes
    belief: AnnotatorBelief | None
    log_likelihoods: Array  # of the hidden votes, one entry per turn


@dataclass(frozen=True, eq=False)
class _Turn:
    """Labels and models after a turn; there is no classifier before the first."""

    label_probs: Array
    belief: AnnotatorBelief | None
    fit: CrossFit | ExternalFit | None = None
    combination: Combination | None = None
    score: float = -np.inf  # log-likelihood of the hidden votes
    uses_topics: bool = False  # whether topic evidence is among the classifier's features
    uses_kernels: bool = False  # whether Fourier and kernel features are

    @property
    def n_features(self) -> int:
        return len(self.fit.fold_coef) if isinstance(self.fit, CrossFit) else 0

    def record(self) -> StageRecord:
        """All but the classifier, which has a stage of its own."""
        belief = {} if self.belief is None else add_prefix("belief", belief_to_arrays(self.belief))
        combination = {} if self.combination is None else add_prefix("joined", self.combination.arrays())
        return StageRecord({"label_probs": self.label_probs, **belief, **combination}, {"score": self.score})

    @classmethod
    def from_record(cls, record: StageRecord) -> _Turn:
        """The turn that ``record`` was made from."""
        combination = strip_prefix("joined", record.arrays)
        return cls(
            record.arrays["label_probs"],
            belief_from_arrays(strip_prefix("belief", record.arrays)),
            combination=Combination.from_arrays(combination) if combination else None,
            score=record.number("score", high=0.0),
        )


def _turn_schema(label_probs: Array, belief: AnnotatorBelief, *, combined: bool) -> RecordSchema:
    """What the record of a turn holds: labels, annotators, and their combination with a classifier."""
    n_docs, n_classes = label_probs.shape
    schema = {"label_probs": ArraySpec(("documents", "classes"), low=-_ROUNDING, high=1.0 + _ROUNDING)}
    schema |= prefixed("belief", belief_schema_like(belief))
    schema |= prefixed("joined", COMBINATION_ARRAYS) if combined else {}
    return RecordSchema({"documents": n_docs, "classes": n_classes, "annotators": len(belief.posterior)}, (schema,))


def _level_arrays(belief: AnnotatorBelief) -> tuple[Array, ...]:
    """What a stage depends on besides the rates: beliefs about the levels of soft votes, if there are any."""
    return () if belief.levels is None else (belief.levels.posterior,)


class _Sample:
    """Random documents on which profiles and κ are chosen, with what is hidden of them."""

    def __init__(self, data: TrainingData, seed: int, n_pairs_with_votes: int) -> None:
        rng = np.random.default_rng(seed)
        n_docs, n_classes = data.known.shape
        size = min(n_docs, max(1, _MAX_PAIRS // n_classes))
        self.rows: Indices = np.sort(rng.choice(n_docs, size, replace=False))
        self.hidden_labels: NDArray[np.bool_] = (rng.random(size) < 0.5)[:, None]
        self.votes: Votes | None = None if data.votes is None else data.votes.take(self.rows)
        self.vote_folds: Indices | None = None if self.votes is None else vote_folds(self.votes, rng)
        n_votes = 0 if data.votes is None else len(data.votes)
        self.votes_per_label = n_votes / max(n_pairs_with_votes, 1)
        self.has_many_votes = self.votes_per_label >= _MANY_VOTES
        self._hidden: list[tuple[Votes, HeldOutVotes]] = []
        self._hidden_under: SupportBelief | None = None

    def hidden_votes(self, belief: SupportBelief, settings: CrowdSettings) -> list[tuple[Votes, HeldOutVotes]]:
        """The visible votes when each fold in turn is hidden, and the hidden ones.

        They depend on the votes alone, so that all turns and candidates share them.
        """
        if self.votes is None or self.vote_folds is None:
            return []
        if belief is not self._hidden_under:
            self._hidden, self._hidden_under = [], belief
            for fold in range(n_vote_folds(self.votes.n_docs * self.votes.n_classes)):
                visible, hidden = (select_votes(self.votes, which) for which in _parts(self.vote_folds, fold))
                self._hidden.append((visible, settings.annotators.held_out(hidden, visible, belief)))
        return self._hidden


def fit_alternating(data: TrainingData, plan: TrainingPlan) -> TrainingResult:
    """Fit classifier, profiles, topics, annotators and labels."""
    has_votes = _pairs_with_votes(data)
    weights = ((data.known >= 0) | has_votes).astype(np.float64)
    sample = _Sample(data, plan.seed, n_pairs_with_votes=int(has_votes.sum()))

    if data.votes is not None:
        plan.watch("votes", None)
    turns = [_labels_from_votes(data, plan)]
    folds = assign_folds(turns[0].label_probs, N_FOLDS, plan.seed)
    classifier = TurnClassifier(data, plan, weights, folds)
    topics: CrossFittedTopics | None = None
    stable, has_words = bool((data.known >= 0).all()), data.counts.shape[1] > 0
    max_turns = _MAX_SUPPORT_TURNS if isinstance(turns[0].belief, SupportBelief) else _MAX_TURNS
    while len(turns) <= max_turns:
        previous = turns[-1]
        became_stable = not stable and len(turns) > 1 and not _too_early(turns, max_turns)
        stable |= became_stable
        choose_again = len(turns) == 1 or became_stable  # topics and penalties
        if choose_again and has_words and _needs_topics(plan.label_prior, stable=stable):
            plan.watch("topics", len(turns))
            topics = cross_fit_topics(data.counts, previous.label_probs, folds, plan.topics, topics)
            if topics.model.interrupted:
                break
        start = None if choose_again else previous.fit
        evidence = None if topics is None else topics.evidence
        plan.watch("penalties" if choose_again else "classifier", len(turns))
        fit = classifier.cross_fit(previous.label_probs, evidence, start, stable=stable)
        plan.watch("labels", len(turns))
        if data.votes is None or previous.belief is None:
            turn = _labels_without_votes(data.known, fit)
        else:
            near = None if len(turns) <= _N_FIRST_CHOICES or became_stable else previous.combination
            turn = _labels_with_votes(data.votes, data.known, turns, fit, plan, sample, near)
        turns.append(replace(turn, fit=fit, uses_topics=topics is not None, uses_kernels=stable))
        if stable and not _grows(turns, _MIN_GROWTH):
            break

    comparable = [turn for turn in turns if turn.n_features == turns[-1].n_features]
    best = max(reversed(comparable), key=lambda turn: turn.score)
    final, evidence = None, None
    if best.fit is not None:
        # With the support model, labels after a turn are no less honest than before, and better; others may run away.
        is_support = isinstance(best.belief, SupportBelief)
        trained_on = best.label_probs if is_support else turns[turns.index(best) - 1].label_probs
        evidence = topics.evidence if topics is not None and best.uses_topics else None
        plan.watch("final classifier", None)
        final = classifier.final(best.fit, trained_on, evidence, kernels=best.uses_kernels)
    prior = _label_prior(best, final, weights, sample, topics, plan)
    if prior is not None:
        shares = _evidence_shares(final, data, sample.rows, evidence)
        prior = replace(prior, word_names=classifier.word_names, evidence_shares=shares)
    label_probs = _labels_with_unvoted(best, prior, ~has_votes.any(axis=1, keepdims=True) & (data.known < 0))
    return TrainingResult(
        prior=prior,
        topics=_topics_of_words(data, label_probs, plan) if topics is None else topics.model,
        temperature=Temperature() if topics is None else topics.evidence_model.temperature,
        out_of_fold_log_odds=np.zeros_like(best.label_probs) if best.fit is None else best.fit.log_odds,
        label_probs=label_probs,
        weights=weights,
        belief=best.belief,
        log_likelihoods=np.array([turn.score for turn in turns[1:]]),
    )


def _labels_with_unvoted(turn: _Turn, prior: LabelPrior | None, is_unvoted: NDArray[np.bool_]) -> Array:
    """The labels of a turn, ``is_unvoted`` of which come from words alone, as those of new documents do.

    With the support model the classifier answers about the support, which is about votes. Where nobody voted, what it
    says of the label itself is worth more: it has also learned from known labels.
    """
    if prior is None or turn.fit is None or not isinstance(turn.belief, SupportBelief):
        return turn.label_probs
    labels: Array = np.where(is_unvoted, expit(prior.for_words.log_odds(turn.fit.log_odds)), turn.label_probs)
    return labels


def _evidence_shares(
    classifier: LogisticClassifier | ExternalClassifier | None,
    data: TrainingData,
    rows: Indices,
    evidence: Array | None,
) -> Array | None:
    """Shares (3, classes) of words, topics and features in the scores of a classifier, from some documents."""
    if not isinstance(classifier, LogisticClassifier):
        return None
    rows = rows[:: max(1, -(-len(rows) // _MAX_SHARE_DOCS))]  # from all parts of the data, which may be sorted
    features = None if data.features is None else data.features.standardised(rows)
    return evidence_shares(classifier, data.counts[rows], None if evidence is None else evidence[rows], features)


def _topics_of_words(data: TrainingData, label_probs: Array, plan: TrainingPlan) -> EMResult:
    """A topic model of the final labels; an empty one if the documents have no words."""
    if not data.counts.shape[1]:
        return no_topics(label_probs)
    plan.watch("topics", None)
    return fit_labelled_topics(data.counts, label_probs, plan.topics)


def _pairs_with_votes(data: TrainingData) -> NDArray[np.bool_]:
    """(documents, classes): whether a pair has a vote."""
    if data.votes is None:
        return np.zeros(data.known.shape, dtype=bool)
    return np.concatenate([some.per_pair() > 0 for _, some in vote_blocks(data.votes)])


def _grows(turns: list[_Turn], min_growth: float) -> bool:
    """Whether the last turn increased the log-likelihood of hidden votes by this share; never without votes."""
    return turns[-1].score - turns[-2].score > min_growth * abs(turns[-1].score)


def _too_early(turns: list[_Turn], max_turns: int) -> bool:
    """Whether labels still change too much to choose penalties and topics on; at most half of the turns."""
    return len(turns) <= max_turns // 2 and _grows(turns, _STABLE_GROWTH)


def _needs_topics(label_prior: Any, *, stable: bool) -> bool:
    """Whether to fit topic models: at once for topics alone; for both words and topics when labels are stable."""
    return isinstance(label_prior, str) and (label_prior == "topics" or (label_prior == "stacked" and stable))


def _labels_from_votes(data: TrainingData, plan: TrainingPlan) -> _Turn:
    """Labels before the first turn: from the votes alone, or the initial guess without votes."""
    votes, belief = data.votes, data.belief
    if votes is None or belief is None:
        return _Turn(data.guess, None)
    stage = plan.topics.settings.stages.stage("votes", data.guess, belief.posterior, *_level_arrays(belief))
    schema = _turn_schema(data.guess, belief, combined=isinstance(belief, SupportBelief))
    turn = stage.recall(_Turn.from_record, schema)
    if turn is None:
        settings = replace(plan.crowd, max_iter=_FIRST_ROUNDS)
        start = first_state(votes, data.known, data.guess, belief, settings)
        crowd = fit_crowd(cut_votes(votes, data.known), start, settings)
        combination = None
        if isinstance(belief, SupportBelief):
            n_profiles = plan.n_profiles or choose_n_profiles(votes, data.known, crowd, settings)
            if n_profiles > 1:
                crowd = fit_with_profiles(votes, data.known, crowd, n_profiles, settings)
            combination = Combination(crowd.state.profiles, 1.0, _logit(as_support(crowd.state.belief).prevalence))
        turn = _Turn(crowd.label_probs, crowd.state.belief, combination=combination)
        stage.keep(turn.record)
    return turn


def _logit(shares: Array) -> Array:
    log_odds: Array = logit(np.clip(shares, _MIN_PROB, 1.0 - _MIN_PROB))
    return log_odds


def _base_log_odds(fit: CrossFit | ExternalFit) -> Array:
    return _logit(fit.base_rates)


def _labels_without_votes(known: NDArray[np.int8], fit: CrossFit | ExternalFit) -> _Turn:
    """Labels from known labels and the classifier."""
    combination = Combination.classifier_alone(_base_log_odds(fit))
    labels = profile_e_step(combination.evidence(fit.log_odds), known, combination.profiles)
    return _Turn(labels.label_probs, None, combination=combination)


def _labels_with_votes(
    votes: VoteRows,
    known: NDArray[np.int8],
    turns: list[_Turn],
    fit: CrossFit | ExternalFit,
    plan: TrainingPlan,
    sample: _Sample,
    near: Combination | None,
) -> _Turn:
    """Labels and annotators from the classifier and the votes (maths, eqs. 50 and 51).

    The number of profiles and κ are those of ``near``, or the classifier alone; without it they are chosen.
    """
    belief = cast("AnnotatorBelief", turns[-1].belief)
    stage = plan.topics.settings.stages.stage("labels", fit.log_odds, belief.posterior, *_level_arrays(belief))
    turn = stage.recall(_Turn.from_record, _turn_schema(fit.log_odds, belief, combined=True))
    if turn is None and isinstance(belief, SupportBelief):
        turn = _labels_with_support(votes, known, turns, fit, plan, sample)
        stage.keep(turn.record)
    elif turn is None:
        base = _base_log_odds(fit)
        combination, score = choose_combination(
            _hidden_vote_trials(sample, known, belief, fit.log_odds, plan),
            base,
            n_profiles=plan.n_profiles,
            near=near,
            n_choice_trials=max(1, _MAX_CHOICE_PAIRS // (len(sample.rows) * len(base))),
            min_standard_errors=_STANDARD_ERRORS_WITH_MANY_VOTES if sample.has_many_votes else MIN_STANDARD_ERRORS,
            seed=plan.seed,
            engine=plan.crowd.engine,
        )
        settings = replace(plan.crowd, learn_profiles=combination.n_profiles > 1)
        state = CrowdState(belief, combination.profiles, ProfilePrior(expit(base)))
        crowd = fit_crowd(cut_votes(votes, known, combination.evidence(fit.log_odds)), state, settings)
        combination = replace(combination, profiles=crowd.state.profiles)
        turn = _Turn(crowd.label_probs, crowd.state.belief, None, combination, score)
        stage.keep(turn.record)
    return turn


def _labels_with_support(
    votes: VoteRows,
    known: NDArray[np.int8],
    turns: list[_Turn],
    fit: CrossFit | ExternalFit,
    plan: TrainingPlan,
    sample: _Sample,
) -> _Turn:
    """Labels and annotators from the classifier's answers about the support, and the votes (maths, eq. 108).

    Each turn goes out from the labels of the votes alone: what the classifier has learned from its own answers never
    becomes evidence for them.
    """
    first = turns[0]
    if sample.votes is None or first.combination is None:
        raise ValueError("the support model needs votes")
    base, alone = _base_log_odds(fit), as_support(cast("AnnotatorBelief", first.belief))

    def score(combination: Combination, answers: Answers) -> float:
        return _support_score(combination, answers, alone, fit.log_odds, known, plan, sample)

    if len(turns) == 1:
        answers = learned_answers(sample.votes, alone, fit.log_odds[sample.rows], base)
        chosen = Combination(single_profile(alone), 1.0, base, gains=answers.gain, shifts=answers.shift)
        best = score(chosen, answers)
        if first.combination.n_profiles > 1:
            needed = best + _MIN_PROFILE_SHARE * (best - score(replace(chosen, kappa=0.0), answers))
            for kappa in _KAPPAS_WITH_PROFILES:
                several = replace(chosen, profiles=first.combination.profiles, kappa=kappa)
                own = score(several, answers)
                if own > (needed if chosen.n_profiles == 1 else best):
                    chosen, best = several, own
    else:
        answers = _answers_of_first_turn(turns[1], fit)
        if sample.votes_per_label < _ENOUGH_VOTES:
            later = learned_answers(sample.votes, alone, fit.log_odds[sample.rows], base)
            answers = answers.mixed(later, (sample.votes_per_label - 1.0) / (_ENOUGH_VOTES - 1.0))
        combination = cast("Combination", turns[1].combination)
        several_profiles = combination.n_profiles > 1
        profiles = first.combination.profiles if several_profiles else single_profile(alone)
        chosen = replace(combination, profiles=profiles, base=base, gains=answers.gain, shifts=answers.shift)
        best = score(chosen, answers)
    state, settings = _support_state(chosen, answers, alone, plan)
    evidence = chosen.evidence(fit.log_odds)
    crowd = fit_crowd(cut_votes(votes, known, evidence), relinked(votes, known, state, settings, evidence), settings)
    chosen = replace(chosen, profiles=crowd.state.profiles)
    return _Turn(crowd.label_probs, crowd.state.belief, None, chosen, best)


def _answers_of_first_turn(turn: _Turn, fit: CrossFit | ExternalFit) -> Answers:
    """Answers of a later classifier that are worth as much as those of the first one.

    Votes cannot tell what later classifiers are worth: one that never saw a document has learned from labels of other
    documents that hold answers of classifiers that did, so it predicts the document's votes better than it should. On
    arq with three people the gain of texts in hidden votes doubled in the second turn, while the log-likelihood of
    labels fell from -.277 to -.280, and to -.288 in the fourth.
    """
    combination, belief, before = turn.combination, turn.belief, turn.fit
    if combination is None or before is None or combination.gains is None or combination.shifts is None:
        raise ValueError("the first turn has no answers")
    sharpness = cast("Array", as_support(cast("AnnotatorBelief", belief)).sharpness) / combination.kappa
    ratio = before.log_odds.std(axis=0) / np.maximum(fit.log_odds.std(axis=0), _MIN_PROB)
    gains = combination.gains * ratio
    shifts = combination.shifts + gains * fit.log_odds.mean(axis=0) - combination.gains * before.log_odds.mean(axis=0)
    return Answers(gains, shifts, sharpness)


def _support_state(
    combination: Combination, answers: Answers, alone: SupportBelief, plan: TrainingPlan
) -> tuple[CrowdState, CrowdSettings]:
    """State and settings of EM from annotators of the votes alone, with the answers of a classifier."""
    several = combination.n_profiles > 1
    prior = ProfilePrior(alone.prevalence, keeps_rates=True) if several else ProfilePrior.vague(len(combination.base))
    belief = replace(alone, sharpness=combination.kappa * answers.sharpness)
    return CrowdState(belief, combination.profiles, prior), replace(plan.crowd, learn_profiles=several)


def _support_score(
    combination: Combination,
    answers: Answers,
    alone: SupportBelief,
    log_odds: Array,
    known: NDArray[np.int8],
    plan: TrainingPlan,
    sample: _Sample,
) -> float:
    """Log-likelihood of hidden votes on a sample, given the others and the classifier."""
    state, settings = _support_state(combination, answers, alone, plan)
    rows, score = sample.rows, 0.0
    for visible, held_out in sample.hidden_votes(alone, plan.crowd):
        label_probs = label_posterior(visible, known[rows], state, settings, combination.evidence(log_odds[rows]))
        score += float(held_out.log_likelihoods(label_probs).sum())
    return score


def _parts(folds: Indices, fold: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    return folds != fold, folds == fold


def _hidden_vote_trials(
    sample: _Sample, known: NDArray[np.int8], belief: AnnotatorBelief, log_odds: Array, plan: TrainingPlan
) -> list[HeldOut]:
    """The sample with one fold of its votes hidden, for as many folds as are affordable."""
    votes, folds, rows = sample.votes, sample.vote_folds, sample.rows
    if votes is None or folds is None:
        return []
    trials = []
    for fold in range(max(1, min(N_VOTE_FOLDS, _MAX_PAIRS // (len(rows) * known.shape[1])))):
        visible, hidden = (select_votes(votes, which) for which in _parts(folds, fold))
        evidence = plan.crowd.annotators.evidence(visible, belief).log_odds
        held_out = plan.crowd.annotators.held_out(hidden, visible, belief)
        trials.append(HeldOut(CombinationInputs(known[rows], evidence, log_odds[rows]), held_out))
    return trials


def _label_prior(
    turn: _Turn,
    classifier: LogisticClassifier | ExternalClassifier | None,
    weights: Array,
    sample: _Sample,
    topics: CrossFittedTopics | None,
    plan: TrainingPlan,
) -> LabelPrior | None:
    """The label prior for new documents, with and without votes; None before the first turn."""
    if turn.fit is None or turn.combination is None or classifier is None:
        return None
    for_words = choose_for_new_documents(
        turn.fit.log_odds,
        turn.label_probs,
        weights,
        turn.combination.base,
        sample.rows,
        sample.hidden_labels,
        n_profiles=plan.n_profiles,
        seed=plan.seed,
        engine=plan.crowd.engine,
    )
    uses_topics = isinstance(classifier, LogisticClassifier) and classifier.dense_mean is not None
    evidence_model = topics.evidence_model if topics is not None and uses_topics else None
    return LabelPrior(classifier, turn.combination, for_words, evidence_model)


def compare_with_gold(data: TrainingData, result: TrainingResult, settings: CrowdSettings) -> GoldCheck | None:
    """The consensus of a fit against its known labels, each held back once; None if there are too few with votes.

    Votes join the out-of-fold log-odds of the classifier, as in training.
    """
    if data.votes is None or result.belief is None or result.prior is None or data.known.max(initial=-1) < 0:
        return None
    combination = result.prior.for_votes
    state = CrowdState(result.belief, combination.profiles, ProfilePrior(expit(combination.base)))
    settings = replace(settings, learn_profiles=combination.n_profiles > 1)
    return check_gold(data.votes, data.known, state, settings, combination.evidence(result.out_of_fold_log_odds))
