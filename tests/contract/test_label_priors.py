"""Label priors: accuracy, calibration, thresholds, explanations and files, for each kind."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import logit
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from palda import PALDA, CrowdPALDA, PaldaError, load, metrics, simulate
from palda.errors import DataError
from palda.estimators import ModelFileError

pytestmark = pytest.mark.slow

NEWS = simulate.newsroom(420, seed=5)
COUNTS = NEWS.corpus.counts
X, LABELS = COUNTS[:300], NEWS.labels[:300]
NEW_X, NEW_LABELS = COUNTS[300:], NEWS.labels[300:]
VOTES = simulate.crowd(LABELS, "paper", votes_per_doc=4, seed=1)[0]
SETTINGS: dict[str, Any] = {"n_topics": 24, "tol": 1e-2, "random_state": 0, "n_jobs": 1}
NAMED = ("stacked", "topics", "words", "base_rate")
named = pytest.mark.parametrize("label_prior", NAMED)
kinds = pytest.mark.parametrize("kind", ["clean", "crowd"])


def make(kind: str, **settings: Any) -> PALDA | CrowdPALDA:
    chosen = SETTINGS | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return PALDA(**chosen).fit(X, LABELS) if kind == "clean" else CrowdPALDA(**chosen).fit(X, VOTES)


@cache
def fitted(kind: str, label_prior: str) -> PALDA | CrowdPALDA:
    return make(kind, label_prior=label_prior)


@kinds
@named
def test_predictions_are_accurate_and_calibrated(kind: str, label_prior: str) -> None:
    model = fitted(kind, label_prior)
    probs = model.predict_proba(NEW_X)
    assert metrics.micro_f1(NEW_LABELS, probs >= 0.5) > 0.6
    rates = metrics.class_log_likelihood(NEW_LABELS, np.tile(LABELS.mean(axis=0), (len(NEW_LABELS), 1)))
    assert metrics.class_log_likelihood(NEW_LABELS, probs) > rates + 0.1
    assert metrics.expected_calibration_error(NEW_LABELS, probs) < 0.08


@kinds
def test_stacked_prior_is_better_than_base_rate(kind: str) -> None:
    learned, published = (
        metrics.micro_f1(NEW_LABELS, fitted(kind, prior).predict_proba(NEW_X) >= 0.5)
        for prior in ("stacked", "base_rate")
    )
    assert learned > published


@kinds
@named
def test_explained_weights_sum_to_log_odds_minus_prior(kind: str, label_prior: str) -> None:
    model = fitted(kind, label_prior)
    table = model.explain(NEW_X[:7])
    sums = table.pivot_table(index="doc", columns="label", values="weight", aggfunc="sum", sort=False)
    sums = sums[list(model.classes_)].to_numpy()
    np.testing.assert_allclose(sums, logit(model.predict_proba(NEW_X[:7])) - logit(model.class_prior_), atol=1e-9)
    one = model.explain(NEW_X[:7], label=model.classes_[1])
    assert set(one["label"]) == {model.classes_[1]}
    strongest = np.abs(one.loc[one["doc"] == 0, "weight"].to_numpy())
    assert (np.diff(strongest) <= 0).all()


@kinds
def test_score_is_micro_f1(kind: str) -> None:
    model = fitted(kind, "words")
    assert model.score(NEW_X, NEW_LABELS) == metrics.micro_f1(NEW_LABELS, model.predict(NEW_X))


@kinds
@named
def test_predict_applies_thresholds(kind: str, label_prior: str) -> None:
    model = fitted(kind, label_prior)
    assert model.thresholds_.shape == (len(model.classes_),)
    np.testing.assert_array_equal(model.predict(NEW_X), model.predict_proba(NEW_X) >= model.thresholds_)


@kinds
@pytest.mark.parametrize("label_prior", ["topics", "base_rate"])
def test_fixed_thresholds_do_not_change_probabilities(kind: str, label_prior: str) -> None:
    model = fitted(kind, label_prior)
    halves = model.__class__(**(model.get_params() | {"thresholds": 0.5}))
    halves.fit(X, LABELS if kind == "clean" else VOTES)
    np.testing.assert_array_equal(halves.thresholds_, np.full(len(model.classes_), 0.5))
    np.testing.assert_array_equal(halves.predict_proba(NEW_X), model.predict_proba(NEW_X))


@pytest.mark.parametrize("measure", ["macro_f1", "jaccard"])
def test_thresholds_maximise_their_measure_out_of_fold(measure: str) -> None:
    from palda.metrics import expected_measure

    model = make("clean", label_prior="words", thresholds=measure)
    reached = [
        expected_measure(LABELS, model.out_of_fold_probs_, cuts, measure)
        for cuts in (model.thresholds_, np.full_like(model.thresholds_, 0.5))
    ]
    assert reached[0] >= reached[1]


@kinds
@pytest.mark.parametrize("label_prior", ["stacked", "base_rate"])
def test_number_of_threads_does_not_change_results(kind: str, label_prior: str) -> None:
    one, two = fitted(kind, label_prior), make(kind, label_prior=label_prior, n_jobs=2)
    np.testing.assert_array_equal(two.predict_proba(NEW_X), one.predict_proba(NEW_X))
    np.testing.assert_array_equal(two.thresholds_, one.thresholds_)


@kinds
@named
def test_predictions_survive_save_and_load(kind: str, label_prior: str, tmp_path: Path) -> None:
    model = fitted(kind, label_prior)
    model.save(tmp_path / "model.palda")
    loaded = load(tmp_path / "model.palda")
    np.testing.assert_array_equal(loaded.predict_proba(NEW_X), model.predict_proba(NEW_X))
    np.testing.assert_array_equal(loaded.predict(NEW_X), model.predict(NEW_X))
    np.testing.assert_array_equal(loaded.transform(NEW_X), model.transform(NEW_X))
    assert loaded.get_params() == model.get_params() | {"n_jobs": None}
    assert (loaded.head_ is None) == (label_prior == "base_rate")


def test_document_without_known_words_gets_base_rates() -> None:
    wider = np.zeros((2, X.shape[1]))
    unseen = np.flatnonzero(np.asarray(X.sum(axis=0)).ravel() == 0)
    if len(unseen):
        wider[1, unseen[0]] = 3
    for label_prior in ("stacked", "words"):
        model = fitted("clean", label_prior)
        np.testing.assert_allclose(model.predict_proba(wider), [model.class_prior_] * 2, rtol=1e-12)


def test_out_of_fold_predictions_of_random_labels_are_no_better_than_base_rates() -> None:
    """Random labels cannot be predicted, and out-of-fold probabilities show that.

    The small tolerance allows for the recalibration, two numbers per class.
    """
    random = (np.random.default_rng(0).random(LABELS.shape) < 0.3).astype(int)
    model = PALDA(**SETTINGS, label_prior="stacked").fit(X, random)
    scores = [
        metrics.class_log_likelihood(random, probs)
        for probs in (model.out_of_fold_probs_, np.tile(random.mean(axis=0), (300, 1)))
    ]
    assert scores[0] < scores[1] + 0.005


def test_half_of_the_labels_unknown_still_gives_good_predictions() -> None:
    hidden = np.where(np.random.default_rng(3).random(LABELS.shape) < 0.5, -1, LABELS)
    model = PALDA(**SETTINGS, label_prior="words").fit(X, hidden)
    assert metrics.micro_f1(NEW_LABELS, model.predict_proba(NEW_X) >= 0.5) > 0.6


@pytest.mark.parametrize("n_profiles", [1, 3])
def test_n_profiles_is_respected(n_profiles: int) -> None:
    model = make("crowd", label_prior="words", n_profiles=n_profiles)
    assert len(model.profiles_.weights) == n_profiles
    np.testing.assert_allclose(model.profiles_.weights.sum(), 1.0)


CLASSIFIERS = [
    LogisticRegression(C=3.0, max_iter=500, tol=0.01),
    make_pipeline(TfidfTransformer(), LogisticRegression(C=30.0, max_iter=500)),
    RandomForestClassifier(20, random_state=0),
]


@kinds
@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda c: type(c).__name__)
def test_scikit_learn_classifiers_work_as_label_prior(kind: str, classifier: Any, tmp_path: Path) -> None:
    model = make(kind, label_prior=classifier, n_profiles=1)
    assert not hasattr(classifier, "classes_"), "the classifier given is never fitted itself"
    assert metrics.micro_f1(NEW_LABELS, model.predict_proba(NEW_X) >= 0.5) > 0.5
    with pytest.raises(ValueError, match="explain needs a label prior that weighs single words"):
        model.explain(NEW_X)
    model.save(tmp_path / "model.palda")
    loaded = load(tmp_path / "model.palda", trusted=["sklearn.tree._tree.Tree"])
    np.testing.assert_array_equal(loaded.predict_proba(NEW_X), model.predict_proba(NEW_X))
    assert type(loaded.label_prior) is type(classifier)


def doubled(counts: Any) -> Any:
    return counts * 2


def test_untrusted_types_in_a_model_file_are_refused(tmp_path: Path) -> None:
    strange = make_pipeline(FunctionTransformer(doubled), LogisticRegression(max_iter=500, tol=0.01))
    make("clean", label_prior=strange).save(tmp_path / "model.palda")
    with pytest.raises(ModelFileError, match=r"types that are not trusted: .*doubled") as refused:
        load(tmp_path / "model.palda")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"label_prior": "word"}, "'label_prior' parameter of .* must be a str among .* Got 'word'"),
        ({"label_prior": LogisticRegression}, "is a class; pass an instance"),
        ({"label_prior": LinearSVC()}, "no predict_proba"),
        ({"label_prior": 7}, "'label_prior' parameter of .* Got 7"),
        ({"n_profiles": 0}, "'n_profiles' parameter of .* must be an int in the range .* Got 0"),
        ({"n_profiles": "many"}, "'n_profiles' parameter of .* Got 'many'"),
        ({"n_profiles": 4, "label_prior": "base_rate"}, "n_profiles=4 cannot be used with label_prior=.base_rate."),
        ({"thresholds": "accuracy"}, "'thresholds' parameter of .* Got 'accuracy'"),
        ({"thresholds": 1.5}, "'thresholds' parameter of .* Got 1.5"),
        ({"thresholds": None}, "'thresholds' parameter of .* Got None"),
    ],
)
@kinds
def test_invalid_parameters_are_refused(kind: str, setting: dict[str, Any], says: str) -> None:
    with pytest.raises((ValueError, PaldaError, DataError), match=says):
        make(kind, **setting)


def test_published_model_has_thresholds_of_one_half() -> None:
    model = PALDA.as_published(4, random_state=0, max_iter=5, tol=1.0).fit(X, LABELS)
    np.testing.assert_array_equal(model.thresholds_, np.full(LABELS.shape[1], 0.5))
    assert model.head_ is None
    assert model.profiles_ is None
