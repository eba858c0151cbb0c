"""Unusual inputs: results that are known in advance, and errors."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from palda import PALDA, CrowdPALDA, DataError, PaldaWarning, simulate
from palda.data import Corpus, Votes
from palda.engine import Threads
from palda.estimators import Progress
from palda.models.crowd import OneCoinModel
from palda.models.topics import EMSettings, Params, StepInfo, cut_shards, label_probs, run_em

SETTINGS: dict[str, Any] = {"n_topics": 4, "tol": 1e-3, "random_state": 0, "n_jobs": 1}
WORLD = simulate.documents(80, 3, 4, 30, seed=1, doc_length=25)
X = WORLD.corpus.counts
TRUTH = WORLD.labels
GOOD_CROWD = simulate.crowd(WORLD, [0.9, 0.85, 0.8, 0.75], seed=2, votes_per_doc=3)[0]

smoothed_or_not = pytest.mark.parametrize("smoothing", [False, True])


def array_of(votes: Votes) -> np.ndarray:
    array = np.full((votes.n_docs, votes.n_annotators, votes.n_classes), -1)
    array[votes.doc, votes.annotator, votes.label] = votes.value
    return array


def accuracy(probs: np.ndarray, truth: np.ndarray = TRUTH) -> float:
    return float(np.mean((probs >= 0.5) == truth))


def assert_probabilities(probs: np.ndarray) -> None:
    assert np.isfinite(probs).all()
    assert ((probs >= 0) & (probs <= 1)).all()


# Words.


@smoothed_or_not
def test_document_without_words_gets_base_rates(smoothing: bool) -> None:
    model = PALDA(**SETTINGS, smoothing=smoothing).fit(X, TRUTH)
    np.testing.assert_allclose(model.predict_proba(np.zeros((2, 30))), [model.class_prior_] * 2, rtol=1e-12)
    np.testing.assert_allclose(model.class_prior_, TRUTH.mean(axis=0), rtol=1e-12)


def test_unseen_words_are_ignored_without_smoothing() -> None:
    unseen = sparse.csr_array(sparse.hstack([X, sparse.csr_array((80, 2))]))
    model = PALDA(**SETTINGS, smoothing=False).fit(unseen, TRUTH)
    assert not model.topic_words_[:, 30:].any()
    with_new_words = unseen.toarray()
    with_new_words[:, 30:] = 7
    np.testing.assert_array_equal(model.predict_proba(with_new_words), model.predict_proba(unseen))
    only_new_words = np.eye(32)[30:]
    np.testing.assert_allclose(model.predict_proba(only_new_words), [model.class_prior_] * 2, rtol=1e-12)


def test_unseen_words_have_positive_probability_with_smoothing() -> None:
    unseen = sparse.csr_array(sparse.hstack([X, sparse.csr_array((80, 2))]))
    model = PALDA(**SETTINGS).fit(unseen, TRUTH)
    assert (model.topic_words_ > 0).all()
    np.testing.assert_allclose(model.topic_words_.sum(axis=1), 1.0, rtol=1e-12)
    assert_probabilities(model.predict_proba(np.eye(32)))


@smoothed_or_not
def test_training_documents_without_words_are_accepted(smoothing: bool) -> None:
    padded = sparse.csr_array(sparse.vstack([X, sparse.csr_array((5, 30))]))
    labels = np.vstack([TRUTH, np.ones((5, 3), dtype=int)])
    model = PALDA(**SETTINGS, smoothing=smoothing).fit(padded, labels)
    np.testing.assert_allclose(model.class_prior_, labels.mean(axis=0), rtol=1e-12)


@smoothed_or_not
def test_predictions_are_base_rates_if_no_document_has_words(smoothing: bool) -> None:
    model = PALDA(**SETTINGS, smoothing=smoothing).fit(np.zeros((80, 5)), TRUTH)
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 5))), [TRUTH.mean(axis=0)], rtol=1e-12)
    if not smoothing:  # words without probability in any topic are ignored
        np.testing.assert_allclose(model.predict_proba(np.ones((1, 5))), [TRUTH.mean(axis=0)], rtol=1e-12)


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
def test_negative_nan_and_infinite_counts_are_refused(wrong: float) -> None:
    dense = X.toarray().astype(float)
    dense[3, 4] = wrong
    for bad in (dense, sparse.csr_array(dense)):
        with pytest.raises(ValueError, match=r"Negative values|contains (NaN|infinity)"):
            PALDA(**SETTINGS).fit(bad, TRUTH)
        with pytest.raises(ValueError, match=r"Negative values|contains (NaN|infinity)"):
            CrowdPALDA(**SETTINGS).fit(bad, GOOD_CROWD)


def test_fractional_counts_add_up_to_whole_counts() -> None:
    model = PALDA(**SETTINGS).fit(X * 0.5, TRUTH)
    assert_probabilities(model.predict_proba(X * 0.5))
    halves = sparse.csr_array(X * 0.5)
    np.testing.assert_array_equal(model.predict_proba(halves + halves), model.predict_proba(X))


@smoothed_or_not
def test_huge_counts_give_finite_results(smoothing: bool) -> None:
    huge = X.toarray().astype(float)
    huge[0] = 0
    huge[0, :4] = 250_000
    huge[1, 5] = 1e6
    clean = PALDA(**SETTINGS, smoothing=smoothing).fit(huge, TRUTH)
    crowd = CrowdPALDA(**SETTINGS, smoothing=smoothing).fit(huge, GOOD_CROWD)
    for model in (clean, crowd):
        assert np.isfinite(model.lower_bounds_).all()
        assert_probabilities(model.predict_proba(huge))
    assert_probabilities(crowd.consensus_)


# Labels.


@smoothed_or_not
@pytest.mark.parametrize(("n_classes", "n_topics"), [(1, 3), (3, 1), (1, 1)])
def test_one_class_and_one_topic_are_accepted(smoothing: bool, n_classes: int, n_topics: int) -> None:
    settings = SETTINGS | {"n_topics": n_topics, "smoothing": smoothing}
    model = PALDA(**settings).fit(X, TRUTH[:, :n_classes])
    assert model.predict_proba(X).shape == (80, n_classes)
    crowd = CrowdPALDA(**settings).fit(X, array_of(GOOD_CROWD)[:, :, :n_classes])
    assert crowd.consensus_.shape == (80, n_classes)
    assert_probabilities(crowd.consensus_)
    if n_topics == 1:  # one topic cannot distinguish documents
        model = PALDA(**settings, label_prior="base_rate").fit(X, TRUTH[:, :n_classes])
        np.testing.assert_allclose(model.predict_proba(X), [model.class_prior_] * 80, rtol=1e-6)


@smoothed_or_not
def test_constant_classes_are_predicted_as_constant(smoothing: bool) -> None:
    labels = np.column_stack([TRUTH, np.zeros(80, dtype=int), np.ones(80, dtype=int)])
    model = PALDA(**SETTINGS, smoothing=smoothing).fit(X, labels)
    assert (model.class_prior_[3:] == [1e-6, 1 - 1e-6]).all()
    predicted = model.predict(X)
    assert not predicted[:, 3].any()
    assert predicted[:, 4].all()


def test_minus_one_and_nan_both_mean_unknown_label() -> None:
    hidden = np.where(np.random.default_rng(0).random(TRUTH.shape) < 0.3, -1, TRUTH)
    as_nan = np.where(hidden == -1, np.nan, hidden)
    model = PALDA(**SETTINGS).fit(X, hidden)
    np.testing.assert_array_equal(model.predict_proba(X), PALDA(**SETTINGS).fit(X, as_nan).predict_proba(X))
    everything_unknown = PALDA(**SETTINGS).fit(X, np.full_like(TRUTH, -1))
    assert_probabilities(everything_unknown.predict_proba(X))


@pytest.mark.parametrize("wrong", [TRUTH * 2, TRUTH.astype(float) + 0.5, TRUTH.astype(str) + np.array("x")])
def test_labels_other_than_0_and_1_are_refused(wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        PALDA(**SETTINGS).fit(X, wrong)


def test_labels_of_another_number_of_documents_are_refused() -> None:
    with pytest.raises(ValueError, match="80 documents, but y has labels for 79"):
        PALDA(**SETTINGS).fit(X, TRUTH[1:])


def test_class_names_are_column_names() -> None:
    frame = pd.DataFrame(TRUTH, columns=["war", "sport", "art"])
    assert PALDA(**SETTINGS).fit(X, frame).classes_.tolist() == ["war", "sport", "art"]
    assert PALDA(**SETTINGS).fit(X, TRUTH).classes_.tolist() == [0, 1, 2]


@smoothed_or_not
@pytest.mark.parametrize("crowd", [False, True])
def test_permuted_classes_give_permuted_results(crowd: bool, smoothing: bool) -> None:
    """The start is permuted too: the order of classes has no effect."""
    order = np.array([2, 0, 1])
    rng = np.random.default_rng(0)
    chi = rng.gamma(1.0, 1.0, (4, 30)) + 0.1
    start = Params(
        rng.uniform(0.5, 1.5, (3, 2, 4)),
        chi / chi.sum(axis=1, keepdims=True),
        np.array([0.2, 0.4, 0.3]),
        chi if smoothing else None,
        0.1 if smoothing else None,
        OneCoinModel().start(4, 3) if crowd else None,
    )
    other = replace(start, topic_prior=start.topic_prior[order], class_prior=start.class_prior[order])
    settings = EMSettings(engine=Threads(1), annotators=OneCoinModel() if crowd else None, max_iter=6, tol=0.0)
    results = []
    for params, columns in ((start, np.arange(3)), (other, order)):
        known = np.full((80, 3), -1, dtype=np.int8) if crowd else TRUTH[:, columns]
        votes = Votes.from_array(array_of(GOOD_CROWD)[:, :, columns]) if crowd else None
        shards = cut_shards(X, known, votes)
        steps: list[StepInfo] = []
        run_em(shards, params, settings, steps.append)
        learned = steps[-1].params
        assert learned is not None
        unlabelled = cut_shards(X, np.full((80, 3), -1, dtype=np.int8), votes)
        results.append((steps[-1].bound, learned, label_probs(unlabelled, learned, settings)))
    (bound, learned, probs), (their_bound, theirs, their_probs) = results
    assert their_bound == pytest.approx(bound, rel=1e-10)
    np.testing.assert_allclose(their_probs, probs[:, order], atol=1e-6)
    np.testing.assert_allclose(theirs.topic_prior, learned.topic_prior[order], rtol=1e-6)
    np.testing.assert_allclose(theirs.topic_words, learned.topic_words, rtol=1e-6, atol=1e-9)


# Votes.


def test_good_crowd_gives_accurate_consensus_and_quality() -> None:
    model = CrowdPALDA(**SETTINGS).fit(X, GOOD_CROWD)
    assert accuracy(model.consensus_) > 0.85
    quality = model.annotator_quality_
    assert quality["annotator"].tolist() == GOOD_CROWD.annotators.tolist()
    np.testing.assert_array_equal(quality["n_votes"], GOOD_CROWD.per_annotator())
    np.testing.assert_allclose(quality["quality"], [0.9, 0.85, 0.8, 0.75], atol=0.12)


def test_all_forms_of_votes_give_equal_results() -> None:
    ids = [f"doc-{d}" for d in range(80)]
    names = {"doc_ids": ids, "annotators": list("abcd"), "classes": ["x", "y", "z"]}
    votes = Votes.from_array(array_of(GOOD_CROWD), **names)
    corpus = Corpus.from_counts(X, doc_ids=ids)
    frame = pd.DataFrame(
        {
            "doc": [ids[d] for d in votes.doc],
            "annotator": votes.annotators[votes.annotator],
            "label": votes.classes[votes.label],
            "value": votes.value,
        }
    ).sample(frac=1.0, random_state=0)
    settings = SETTINGS | {"label_prior": "base_rate"}
    expected = CrowdPALDA(**settings).fit(X, votes)
    backwards = votes.take(np.arange(80)[::-1])
    fits = [
        CrowdPALDA(**settings).fit(X, votes, doc_ids=ids),
        CrowdPALDA(**settings).fit(X, backwards, doc_ids=ids),
        CrowdPALDA(**settings).fit(X, frame, doc_ids=ids),
        CrowdPALDA(**settings).fit(corpus, frame),
        CrowdPALDA(**settings).fit(corpus, votes),
        CrowdPALDA(**settings).fit(corpus, backwards),
        CrowdPALDA(**settings).fit(X, array_of(votes)),
    ]
    for model in fits:
        np.testing.assert_array_equal(model.consensus_, expected.consensus_)
    for model in fits[:-1]:
        pd.testing.assert_frame_equal(model.annotator_quality_, expected.annotator_quality_)
        assert model.classes_.tolist() == ["x", "y", "z"]


def test_votes_on_unknown_documents_are_refused() -> None:
    ids = [f"doc-{d}" for d in range(80)]
    frame = pd.DataFrame({"doc": ["doc-3", "doc-99"], "annotator": "a", "label": "x", "value": 1})
    with pytest.raises(DataError, match="'doc-99' is not among the 80 known ones"):
        CrowdPALDA(**SETTINGS).fit(X, frame, doc_ids=ids)
    with pytest.raises(DataError, match="'doc-99' is not among"):
        CrowdPALDA(**SETTINGS).fit(X, Votes.from_frame(frame), doc_ids=ids)
    with pytest.raises(DataError, match="pass doc_ids="):
        CrowdPALDA(**SETTINGS).fit(X, frame)
    with pytest.raises(DataError, match="80 documents, but the votes have 2"):
        CrowdPALDA(**SETTINGS).fit(X, Votes.from_frame(frame))
    with pytest.raises(DataError, match="80 documents, but there are 3 doc_ids"):
        CrowdPALDA(**SETTINGS).fit(X, frame, doc_ids=["a", "b", "c"])


def test_gold_of_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"gold has shape \(80, 2\)"):
        CrowdPALDA(**SETTINGS).fit(X, GOOD_CROWD, gold=TRUTH[:, :2])


def test_gold_data_frame_is_matched_by_name_or_default_numbering() -> None:
    settings = SETTINGS | {"label_prior": "base_rate", "max_iter": 3, "tol": 1.0}
    ids = [f"doc-{d}" for d in range(80)]
    votes = Votes.from_array(array_of(GOOD_CROWD), doc_ids=ids, classes=["x", "y", "z"])
    gold = np.full(TRUTH.shape, -1)
    gold[:9, 1:] = TRUTH[:9, 1:]
    expected = CrowdPALDA(**settings).fit(X, votes, gold=gold).consensus_
    frame = pd.DataFrame(TRUTH[:9, 1:], index=ids[:9], columns=["y", "z"])
    for table in (frame.iloc[::-1, ::-1], pd.DataFrame(gold, columns=["x", "y", "z"]), pd.DataFrame(gold)):
        np.testing.assert_array_equal(CrowdPALDA(**settings).fit(X, votes, gold=table).consensus_, expected)
    with pytest.raises(DataError, match="gold: class 'w' is not among the 3 known ones"):
        CrowdPALDA(**settings).fit(X, votes, gold=frame.rename(columns={"y": "w"}))


@smoothed_or_not
def test_fit_without_any_vote_succeeds(smoothing: bool) -> None:
    no_votes = np.full((80, 2, 3), -1)
    with pytest.warns(PaldaWarning, match="nobody voted on '0', '1', '2'"):
        model = CrowdPALDA(**SETTINGS, smoothing=smoothing).fit(X, no_votes)
    np.testing.assert_array_equal(model.consensus_, 0)
    assert model.annotator_quality_["n_votes"].tolist() == [0, 0]
    assert model.annotator_quality_["quality"].between(0, 1).all()
    with_gold = CrowdPALDA(**SETTINGS, smoothing=smoothing).fit(X, no_votes, gold=TRUTH)
    np.testing.assert_array_equal(with_gold.consensus_, TRUTH)


@pytest.mark.parametrize("thresholds", ["micro_f1", "macro_f1", "jaccard"])
def test_a_class_without_votes_is_absent_from_consensus_and_predictions(thresholds: str) -> None:
    votes = array_of(GOOD_CROWD)
    votes[:, :, 1] = -1
    with pytest.warns(PaldaWarning, match="nobody voted on '1'"):
        model = CrowdPALDA(**SETTINGS, thresholds=thresholds).fit(X, votes)
    assert model.consensus_[:, 1].max() < 1e-6
    assert model.predict_proba(X)[:, 1].max() < 0.1
    assert not model.predict(X)[:, 1].any()
    assert model.predict(X)[:, 2].any()


def test_votes_that_arrive_later_decide_on_a_class_that_had_none() -> None:
    votes = array_of(GOOD_CROWD)
    late = pd.DataFrame({"doc": "0", "annotator": ["0", "1", "2"], "label": "1", "value": 1})
    votes[:, :, 1] = -1
    with pytest.warns(PaldaWarning, match="nobody voted on '1'"):
        model = CrowdPALDA(**SETTINGS).fit(X, votes)
    assert model.update(late).consensus_[0, 1] > 0.3


def few_documents() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Words, one vote per label and the labels of 40 documents; words that go with a label occur elsewhere too."""
    rng = np.random.default_rng(0)
    labels = (rng.random((40, 3)) < 0.4).astype(np.int8)
    counts = rng.poisson(0.8, (40, 20))
    counts[:, :3] += 3 * labels
    return counts, np.where(rng.random((40, 1, 3)) < 0.8, labels[:, None], 1 - labels[:, None]), labels


def test_few_documents_do_not_make_words_certain() -> None:
    counts, votes, labels = few_documents()
    model = CrowdPALDA(**SETTINGS).fit(counts[:30], votes[:30], doc_ids=range(30))
    for probs in (model.consensus_, model.consensus(counts[30:], votes[30:])):
        assert np.minimum(probs, 1.0 - probs).mean() > 0.1
    model.partial_fit(counts[30:], votes[30:], doc_ids=range(30, 40))
    n_wrong = int(((model.consensus_ >= 0.5) != labels).sum())
    report = model.stopping_report(target_error=0.1)
    assert 10 < n_wrong < report.upper_wrong
    assert report.met is False
    before = model.consensus_.copy()
    model.update(documents="all")
    np.testing.assert_allclose(model.consensus_, before, atol=0.1)


@pytest.mark.parametrize("label_prior", ["stacked", "base_rate"])
def test_held_back_gold_of_base_rates_is_not_in_its_own_evidence(label_prior: str) -> None:
    counts, votes, _ = few_documents()
    gold = np.where(np.arange(40)[:, None] < 9, votes[:, 0], -1)
    gold[:3] = 1 - gold[:3]  # contradicts all votes
    model = CrowdPALDA(**SETTINGS, label_prior=label_prior).fit(counts, votes, gold=gold)
    report = model.stopping_report()
    assert report.n_gold_labels == 27
    assert report.gold_wrong >= 5


def test_annotator_with_one_vote_has_a_wide_interval() -> None:
    votes = array_of(GOOD_CROWD)
    one_vote = np.full((80, 1, 3), -1)
    one_vote[7, 0, 1] = 1
    model = CrowdPALDA(**SETTINGS).fit(X, np.concatenate([votes, one_vote], axis=1))
    last = model.annotator_quality_.iloc[-1]
    assert last["n_votes"] == 1
    assert 0 < last["quality"] < 1
    assert last["high"] - last["low"] > 0.2, "one vote is little evidence"
    published = CrowdPALDA.as_published(4, random_state=0).fit(X, np.concatenate([votes, one_vote], axis=1))
    last = published.annotator_quality_.iloc[-1]
    assert last["quality"] == pytest.approx(published.consensus_[7, 1], abs=0.1)


def test_qualities_of_two_contradicting_annotators_sum_to_one() -> None:
    first = TRUTH[:, None, :]
    assert_probabilities(CrowdPALDA(**SETTINGS).fit(X, np.concatenate([first, 1 - first], axis=1)).consensus_)
    model = CrowdPALDA.as_published(4, random_state=0).fit(X, np.concatenate([first, 1 - first], axis=1))
    assert model.annotator_quality_["quality"].sum() == pytest.approx(1.0, abs=1e-9)


ADVERSARIAL_CROWD = simulate.crowd(WORLD, [0.1, 0.15, 0.1, 0.2, 0.15], seed=3, votes_per_doc=4)[0]


def test_adversarial_majority_reverses_the_consensus() -> None:
    model = CrowdPALDA(**SETTINGS).fit(X, ADVERSARIAL_CROWD)
    assert accuracy(model.consensus_) < 0.2
    assert (model.annotator_quality_["quality"] > 0.7).all()


@pytest.mark.parametrize("n_gold", [3, 16])
def test_few_gold_labels_correct_an_adversarial_majority(n_gold: int) -> None:
    gold = np.full_like(TRUTH, -1)
    gold[:n_gold] = TRUTH[:n_gold]
    model = CrowdPALDA(**SETTINGS).fit(X, ADVERSARIAL_CROWD, gold=gold)
    np.testing.assert_array_equal(model.consensus_[:n_gold], TRUTH[:n_gold])
    assert accuracy(model.consensus_[n_gold:], TRUTH[n_gold:]) > 0.85
    assert (model.annotator_quality_["quality"] < 0.3).all()


def test_one_contradicting_gold_label_does_not_reverse_the_consensus() -> None:
    gold = np.full_like(TRUTH, -1)
    gold[0, 0] = 1 - TRUTH[0, 0]
    model = CrowdPALDA(**SETTINGS).fit(X, GOOD_CROWD, gold=gold)
    assert accuracy(model.consensus_[1:], TRUTH[1:]) > 0.85


# Interruption and worker pools.


@pytest.mark.parametrize("kind", [PALDA, CrowdPALDA])
def test_ctrl_c_keeps_the_best_parameters_and_warns(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = count(1)

    def interrupt_third_iteration(_self: Progress, _info: object) -> None:
        if next(rounds) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "step", interrupt_third_iteration)
    target = TRUTH if kind is PALDA else GOOD_CROWD
    with pytest.warns(PaldaWarning, match="interrupted; the best parameters so far are kept") as caught:
        model = kind(**(SETTINGS | {"tol": 0.0, "max_iter": 50})).fit(X, target)
    assert len(caught) == 1, "no second warning about convergence"
    assert model.n_iter_ == 3
    assert not model.converged_
    assert model.lower_bound_ == model.lower_bounds_.max()
    monkeypatch.undo()
    with pytest.warns(ConvergenceWarning):
        whole = kind(**(SETTINGS | {"tol": 0.0, "max_iter": 3})).fit(X, target)
    np.testing.assert_array_equal(model.topic_words_, whole.topic_words_)
    assert_probabilities(model.predict_proba(X))


def test_ctrl_c_before_the_first_iteration_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Threads, "total", interrupt)  # in the first E-step
    with pytest.raises(KeyboardInterrupt):
        PALDA(**SETTINGS).fit(X, TRUTH)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_fits_inside_joblib_workers_give_equal_results(backend: str) -> None:
    settings = SETTINGS | {"n_jobs": None}
    alone = PALDA(**settings).fit(X, TRUTH).topic_words_
    fits = Parallel(n_jobs=2, backend=backend)(delayed(PALDA(**settings).fit)(X, TRUTH) for _ in range(2))
    for model in fits:
        np.testing.assert_array_equal(model.topic_words_, alone)


@pytest.mark.parametrize(
    ("n_docs", "n_classes"), [(51, 200), pytest.param(50, 5_000, marks=pytest.mark.long)], ids=["200", "5000"]
)
def test_many_more_classes_than_documents_are_fitted(n_docs: int, n_classes: int) -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random((n_docs, n_classes)) < 3 / n_classes).astype(np.int8)
    counts = rng.poisson(0.3, (n_docs, 100))
    votes, _ = simulate.crowd(labels, [0.9, 0.8, 0.8, 0.7, 0.9], seed=0, votes_per_doc=3)
    model = CrowdPALDA(random_state=0).fit(counts, votes)
    assert model.n_topics_ <= n_docs
    assert model.consensus_.shape == (n_docs, n_classes)
    for probs in (model.consensus_, model.predict_proba(counts)):
        assert ((probs >= 0) & (probs <= 1)).all()
    majority = votes.yes_per_pair() / np.maximum(votes.per_pair(), 1)
    assert model.consensus_[majority == 1].mean() > model.consensus_[majority == 0].mean() + 0.2
