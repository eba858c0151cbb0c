"""Ways from votes to consensus labels that ``real_gold`` compares.

Rivals that need minutes (GLAD, MACE, CROWDLAB, Raykar) and everything that learns from texts are marked as slow.
crowd-kit's models have one class each. CROWDLAB gets out-of-fold probabilities of a classifier trained on vote shares.
The mean of three (smoothed share, palda's two coins, Dawid-Skene) counts as a rival: anybody can compute it.

Stacked logistic regression learns, per class, weights of the annotators' votes (1, -1, and 0 for no vote) from the
reference of some documents, or in ``premo60`` and ``premo180`` from the people's answers to the documents they judged.

The best single model is chosen with the reference itself, so that its figures are too good; it is no rival.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import beta
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from palda import CrowdPALDA, TextWords, aggregate
from palda.models.assignment import LabelHistogram
from palda.paper.baselines import Raykar, dawid_skene, vote_shares
from palda.paper.baselines.aggregation import _present_probs

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from numpy.typing import NDArray

    from palda.data import Votes

    Array = NDArray[np.float64]

MIN_DOCS = 3  # documents per word
STRENGTHS = (0.01, 0.1, 1.0)  # of the stacked regression: scikit-learn's C
N_FOLDS = 5
_HALF = 0.5


@dataclass
class Outcome:
    """What a method says about a crowd.

    Attributes
    ----------
    probs : array of shape (documents, classes)
        Probability of presence.
    intervals : array of shape (annotators, 4) or (0, 4)
        95% intervals of sensitivity and specificity, if the method has them.
    wrong_bound : float
        Number of wrong labels at 1/2 that is not exceeded with probability .9, or NaN.
    slope_posterior : array of shape (slopes,) or (0,)
        Posterior of the slope of the log-odds, which the bound of any set of labels follows from, up to a factor.
    bound_factor : float
        That factor.
    predicted : array of shape (hidden votes,) or (0,)
        Probability that each hidden vote is 1, if the method has rates of its own.
    seconds : float
        Time of the computation.
    """

    probs: Array
    intervals: Array = field(default_factory=lambda: np.empty((0, 4)))
    wrong_bound: float = np.nan
    slope_posterior: Array = field(default_factory=lambda: np.empty(0))
    bound_factor: float = 1.0
    predicted: Array = field(default_factory=lambda: np.empty(0))
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Task:
    """What a method may use.

    Attributes
    ----------
    votes, texts : Votes, list of str
        Votes, and the texts of their documents.
    taught : array of shape (documents, classes), optional
        Known labels of some documents, from 0 to 1, and NaN elsewhere.
    people : Votes, optional
        Votes of people alone, if they judged every document.
    reference : array of shape (documents, classes), optional
        The whole reference, for methods that are not rivals.
    hidden : Votes, optional
        Votes to predict, of which only documents, annotators and classes may be used.
    """

    votes: Votes
    texts: list[str]
    taught: Array | None = None
    people: Votes | None = None
    reference: Array | None = None
    hidden: Votes | None = None


def share(task: Task) -> Outcome:
    """Share of yes with one more vote at the rate of the class."""
    yes, n_votes = task.votes.yes_per_pair(), task.votes.per_pair()
    rates = yes.sum(axis=0) / np.maximum(n_votes.sum(axis=0), 1)
    return Outcome((yes + rates) / (n_votes + 1.0))


def palda_votes(annotators: str = "auto", *, with_gold: bool = False) -> Callable[[Task], Outcome]:
    """``palda.aggregate`` with an annotator model, and with known labels if wanted."""

    def fit(task: Task) -> Outcome:
        found = aggregate(task.votes, annotators, gold=task.taught if with_gold else None, n_jobs=1)
        return palda_outcome(found, found.consensus, found.annotator_quality, task, annotators, with_gold=with_gold)

    return fit


def palda_texts(task: Task) -> Outcome:
    model = CrowdPALDA(n_jobs=1, random_state=0).fit(word_counts(task), task.votes)
    return palda_outcome(model, model.consensus_, model.annotator_quality_, task, "auto")


def palda_outcome(
    found: Any, consensus: Array, quality: pd.DataFrame, task: Task, annotators: str, *, with_gold: bool = False
) -> Outcome:
    predicted = np.empty(0) if task.hidden is None else predicted_votes(consensus, task, annotators)
    intervals = rate_intervals(quality, consensus, task.votes, annotators)
    known = task.taught if with_gold and task.taught is not None else np.full(consensus.shape, np.nan)
    return Outcome(consensus, intervals, *wrong_bound(found, consensus, known), predicted)


def rate_intervals(quality: pd.DataFrame, consensus: Array, votes: Votes, annotators: str) -> Array:
    """(annotators, 4): 95% intervals of sensitivity and specificity over all classes.

    Those of the table of annotators if it has them. The table of version 0.2 has the rates alone: their intervals are
    then those of the beliefs that the consensus implies.
    """
    names = ["sensitivity_low", "sensitivity_high", "specificity_low", "specificity_high"]
    if set(names) <= set(quality.columns):
        return quality[names].to_numpy(np.float64)
    try:
        from palda.estimators import ANNOTATOR_MODELS
        from palda.models.crowd import belief_from_labels, start_belief
    except ImportError:
        return np.empty((0, 4))
    model = ANNOTATOR_MODELS[annotators]()
    belief, _ = belief_from_labels(model, votes, consensus, start_belief(model, votes))
    rates = belief.rates_over_classes()  # (annotators, states or 1, 2)
    return np.column_stack([beta.ppf(q, *rates[:, state].T) for state in (-1, 0) for q in (0.025, 0.975)])


def predicted_votes(consensus: Array, task: Task, annotators: str) -> Array:
    """(hidden votes,): predictions by palda: its consensus, and its annotator model.

    The default model is fitted once more to the votes alone, for its annotators; votes on a label then go together even
    if its state is known. The other models predict from the rates that the consensus implies.
    """
    from benchmarks.real_crowds import from_consensus

    assert task.hidden is not None
    if annotators != "auto":
        return from_consensus(consensus, task.votes, task.hidden, annotators)
    from palda.engine import Threads
    from palda.estimators import ANNOTATOR_MODELS
    from palda.models.crowd import CrowdSettings, cut_votes, first_state, fit_crowd, initial_label_probs, start_belief

    votes, settings = task.votes, CrowdSettings(ANNOTATOR_MODELS[annotators](), engine=Threads(1))
    known = np.full(consensus.shape, -1, dtype=np.int8)
    belief = start_belief(settings.annotators, votes)
    start = first_state(votes, known, initial_label_probs(votes, known), belief, settings)
    belief = fit_crowd(cut_votes(votes, known), start, settings).state.belief
    yes = replace(task.hidden, value=np.ones_like(task.hidden.value))
    found = settings.annotators.held_out(yes, votes, belief)
    present = consensus[yes.doc, yes.label]
    return found.if_absent + present * (found.if_present - found.if_absent)


def wrong_bound(found: Any, consensus: Array, known: Array) -> tuple[float, Array, float]:
    """The 90% bound of the number of labels that are wrong at 1/2, over the whole table; its slopes and its factor.

    Known labels are those of random documents. A hook: version 0.2 has no bound for votes alone.
    """
    if not hasattr(found, "stopping_report"):
        return np.nan, np.empty(0), 1.0
    report = found.stopping_report(random_gold=True)
    table = LabelHistogram.of(consensus, np.where(np.isnan(known), -1, known > _HALF).astype(np.int8))
    factor = float(report.upper_wrong) / max(report.calibration.upper_wrong(table), 1e-9)
    return float(report.upper_wrong), report.calibration.posterior, factor


def word_counts(task: Task) -> Any:
    return TextWords(min_docs=MIN_DOCS).fit_transform(task.texts)


def by_class(model: Callable[[], Any]) -> Callable[[Task], Outcome]:
    """A binary model of crowd-kit, fitted to the votes on each class."""

    def fit(task: Task) -> Outcome:
        votes = task.votes
        probs = np.zeros((votes.n_docs, votes.n_classes))
        for i in range(votes.n_classes):
            docs, present = _present_probs(model(), votes, votes.label == i)
            probs[docs, i] = present
        return Outcome(probs)

    return fit


def glad() -> Any:
    from crowdkit.aggregation import GLAD

    return GLAD()


def mace() -> Any:
    from crowdkit.aggregation import MACE

    return MACE(n_restarts=3, random_state=0)


def crowdlab(task: Task) -> Outcome:
    from benchmarks import rivals

    words = word_counts(task)
    return Outcome(rivals.crowdlab(SimpleNamespace(words=words, test_words=words[:1]), task.votes, 0))


def raykar(coins: Any) -> Callable[[Task], Outcome]:
    def fit(task: Task) -> Outcome:
        chosen = coins if task.votes.n_classes > 1 else "shared"  # of one class "per_class" is the same, and fails
        model = Raykar(chosen, n_jobs=1, random_state=0).fit(word_counts(task), task.votes)
        if task.hidden is None:
            return Outcome(model.consensus_)
        from benchmarks.real_crowds import prob_yes

        rates = np.stack((model.specificity_, model.sensitivity_), axis=-1).reshape(task.votes.n_annotators, -1, 2)
        return Outcome(model.consensus_, predicted=prob_yes(task.hidden, model.consensus_, rates))

    return fit


def mean_of_three(task: Task) -> Outcome:
    two_coins = aggregate(task.votes, "two_coin", n_jobs=1).consensus
    return Outcome((share(task).probs + two_coins + dawid_skene(task.votes)) / 3.0)


def people_alone(method: Callable[[Task], Outcome]) -> Callable[[Task], Outcome]:
    """A method on the votes of people alone; without intervals, whose annotators would be other ones."""

    def fit(task: Task) -> Outcome:
        assert task.people is not None
        return Outcome(method(replace(task, votes=task.people)).probs)

    return fit


def vote_table(votes: Votes, label: int) -> Array:
    """(documents, annotators): votes on a class as 1 and -1, and 0 for no vote."""
    table = np.zeros((votes.n_docs, votes.n_annotators))
    of_class = votes.label == label
    table[votes.doc[of_class], votes.annotator[of_class]] = 2.0 * votes.value[of_class] - 1.0
    return table


def stacked(task: Task) -> Outcome:
    """Logistic regression on the votes; the share of yes of a class whose known labels are all alike."""
    assert task.taught is not None
    probs = share(task).probs
    is_taught = ~np.isnan(task.taught).all(axis=1)
    for i in range(task.votes.n_classes):
        votes, labels = vote_table(task.votes, i), task.taught[:, i]
        votes = votes[:, votes[~is_taught].any(axis=0)]  # people who judged the taught documents alone teach nothing
        known = ~np.isnan(labels)
        votes_known, labels = votes[known], labels[known]
        if (labels > _HALF).any() and (labels <= _HALF).any():
            strength = best_strength(votes_known, labels)
            probs[:, i] = regression(votes_known, labels, strength).predict_proba(votes)[:, 1]
    return Outcome(probs)


def regression(votes: Array, labels: Array, strength: float) -> LogisticRegression:
    """Logistic regression on soft labels: each document counts as present and as absent, with weights."""
    weights = np.concatenate((labels, 1.0 - labels))
    rows, used = np.concatenate((votes, votes)), weights > 0
    values = np.repeat([1, 0], len(labels))
    return LogisticRegression(C=strength, max_iter=1000).fit(rows[used], values[used], sample_weight=weights[used])


def best_strength(votes: Array, labels: Array) -> float:
    """The strength that predicts held-out documents best; the middle one if a value is too rare for folds."""
    value = labels > _HALF
    if min(value.sum(), (~value).sum()) < N_FOLDS:
        return STRENGTHS[1]
    fold = np.empty(len(value), dtype=int)
    for state in (False, True):
        of_state = np.flatnonzero(value == state)
        fold[np.random.default_rng(0).permutation(of_state)] = np.arange(len(of_state)) % N_FOLDS

    def held_out_likelihood(strength: float) -> float:
        total = 0.0
        for k in range(N_FOLDS):
            model = regression(votes[fold != k], labels[fold != k], strength)
            logs = np.log(np.clip(model.predict_proba(votes[fold == k]), 1e-9, 1.0))
            total += float((logs[:, 1] * labels[fold == k] + logs[:, 0] * (1.0 - labels[fold == k])).sum())
        return total

    return max(STRENGTHS, key=held_out_likelihood)


def best_single(task: Task) -> Outcome:
    """Votes of the annotator with the best F1 on the reference; the share of all where they have no vote."""
    assert task.reference is not None
    votes = task.votes
    truth = task.reference[votes.doc, votes.label]
    scores = []
    for k in range(votes.n_annotators):
        used = (votes.annotator == k) & ~np.isnan(truth)
        enough = used.sum() >= _HALF * np.isfinite(task.reference).sum()
        scores.append(f1_score(truth[used], votes.value[used]) if enough else -1.0)
    probs, used = share(task).probs, votes.annotator == np.argmax(scores)
    probs[votes.doc[used], votes.label[used]] = votes.value[used]
    return Outcome(probs)


@dataclass(frozen=True)
class Method:
    """A method by name.

    Attributes
    ----------
    title : str
        Name in tables.
    run : callable
        From a task to an outcome.
    is_palda : bool
        Computed anew when palda's source changes; not a rival.
    is_rival : bool
        Whether palda's default is compared with it.
    is_slow : bool
        Whether it is run on ``--slow-draws`` draws alone.
    needs : {"votes", "taught", "people", "reference"}
        What the task must have.
    """

    title: str
    run: Callable[[Task], Outcome]
    is_palda: bool = False
    is_rival: bool = True
    is_slow: bool = False
    needs: str = "votes"

    def can_run(self, task: Task) -> bool:
        """Whether the task has what the method needs."""
        return getattr(task, self.needs) is not None

    def limited(self, task: Task) -> Task:
        """The task without what the method must not use."""
        hidden = {name: None for name in ("taught", "people", "reference") if name != self.needs}
        return replace(task, **hidden)


def _palda(title: str, run: Callable[[Task], Outcome], **flags: Any) -> Method:
    return Method(title, run, is_palda=True, is_rival=False, **flags)


METHODS: dict[str, Method] = {
    "palda": _palda("palda.aggregate", palda_votes()),
    "palda_two_coin": _palda("palda, two coins", palda_votes("two_coin")),
    "palda_one_coin": _palda("palda, one coin", palda_votes("one_coin")),
    "palda_per_class": _palda("palda, per class", palda_votes("per_class")),
    "palda_texts": _palda("CrowdPALDA, with texts", palda_texts),
    "palda_gold": _palda("palda.aggregate, gold", palda_votes(with_gold=True), needs="taught"),
    "majority": Method("majority vote", lambda task: Outcome(vote_shares(task.votes))),
    "share": Method("smoothed share", share),
    "ds": Method("Dawid-Skene", lambda task: Outcome(dawid_skene(task.votes))),
    "one_coin": Method("one coin (crowd-kit)", lambda task: Outcome(dawid_skene(task.votes, one_coin=True))),
    "mean": Method("mean of three", mean_of_three),
    "glad": Method("GLAD", by_class(glad), is_slow=True),
    "mace": Method("MACE", by_class(mace), is_slow=True),
    "crowdlab": Method("CROWDLAB", crowdlab, is_slow=True),
    "raykar": Method("Raykar, shared rates", raykar("shared"), is_slow=True),
    "raykar_per_class": Method("Raykar, rates per class", raykar("per_class"), is_slow=True),
    "stacked": Method("stacked regression, taught", stacked, needs="taught"),
    "people_share": Method("people alone, smoothed share", people_alone(share), is_rival=False, needs="people"),
    "people_palda": _palda("people alone, palda.aggregate", people_alone(palda_votes()), needs="people"),
    "best_single": Method("best single model (hindsight)", best_single, is_rival=False, needs="reference"),
}


def run(method: Method, task: Task) -> Outcome:
    """Outcome of a method, without the warnings of fits that have not converged and of libraries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method.run(method.limited(task))
