from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from palda.engine import Stage, Threads
from palda.errors import DataError, PaldaError
from palda.models.classifier import (
    ExternalFit,
    assign_folds,
    base_log_odds,
    check_classifier,
    fit_external,
    log_likelihoods,
)

Array = NDArray[np.float64]
N_DOCS = 150


def documents(seed: int = 0) -> tuple[Any, Array]:
    rng = np.random.default_rng(seed)
    counts = sparse.csr_array(rng.poisson(0.7, (N_DOCS, 12)))
    scores = counts @ np.random.default_rng(99).normal(0.0, 1.0, (12, 3)) - 0.5
    return counts, (rng.random(scores.shape) < expit(scores)).astype(np.float64)


def fit_clones(
    classifier: Any, X: Any, targets: Array, weights: Any = None, folds: Any = None, seed: int = 0
) -> ExternalFit:
    folds = assign_folds(targets, min(5, len(targets)), seed) if folds is None else folds
    return fit_external(
        classifier, X, targets, weights=weights, folds=folds, seed=seed, engine=Threads(), stage=Stage()
    )


def gain(log_odds: Array, labels: Array) -> float:
    """Gain over base rates in nats per label."""
    ones = np.ones_like(labels)
    nothing = np.broadcast_to(base_log_odds(labels, ones), labels.shape)
    return float((log_likelihoods(log_odds, labels, ones) - log_likelihoods(nothing, labels, ones)).sum() / labels.size)


@pytest.mark.parametrize(
    "classifier",
    [
        LogisticRegression(),
        MultinomialNB(),
        make_pipeline(MaxAbsScaler(), LogisticRegression()),
        RandomForestClassifier(20),  # multi-label, a list of tables
        KNeighborsClassifier(15),  # multi-label, takes no weights
        MLPClassifier((), max_iter=2000, tol=1e-3, learning_rate_init=0.02),  # multi-label, one table
    ],
    ids=lambda classifier: type(classifier).__name__,
)
def test_any_classifier_beats_base_rates_on_documents_it_has_not_seen(classifier: Any) -> None:
    counts, labels = documents()
    before = clone(classifier).get_params().keys()
    fit = fit_clones(classifier, counts, labels)
    new_counts, new_labels = documents(seed=1)
    assert fit.log_odds.shape == labels.shape
    assert gain(fit.log_odds, labels) > 0.02
    assert gain(fit.classifier.log_odds(new_counts), new_labels) > 0.02
    assert not hasattr(classifier, "classes_")
    assert classifier.get_params().keys() == before


def test_soft_labels_reach_the_classifier_as_weights() -> None:
    counts, labels = documents()
    soft = 0.8 * labels + 0.1
    model = fit_clones(LogisticRegression(tol=1e-8), counts, soft).classifier.models[1]
    twice = sparse.vstack([counts, counts]).toarray()
    by_hand = LogisticRegression(tol=1e-8).fit(
        twice, np.repeat([1, 0], N_DOCS), sample_weight=np.concatenate([soft[:, 1], 1 - soft[:, 1]])
    )
    np.testing.assert_allclose(model.coef_, by_hand.coef_, atol=1e-4)


def test_a_classifier_without_weights_gets_the_more_likely_label() -> None:
    counts, labels = documents()
    soft, known = np.where(labels > 0, 0.7, 0.2), np.ones_like(labels)
    model = fit_clones(KNeighborsClassifier(5), counts, soft, weights=known).classifier.models[0]
    assert len(model.classes_) == 2
    assert model.n_samples_fit_ == N_DOCS


def test_the_classifiers_of_a_fold_do_not_see_its_documents() -> None:
    counts, labels = documents()
    folds = np.arange(N_DOCS) % 5
    nearest = KNeighborsClassifier(1)  # would repeat the label of a document it has seen
    fit = fit_clones(nearest, counts, labels, folds=folds)
    agreement = np.mean((fit.log_odds >= 0) == labels)
    assert agreement < 0.9
    assert np.array_equal(fit.folds, folds)


def test_unknown_labels_are_left_out() -> None:
    counts, labels = documents()
    weights = np.ones_like(labels)
    weights[:50, 1] = 0.0
    nonsense = labels.copy()
    nonsense[:50, 1] = np.nan
    folds = np.arange(N_DOCS) % 5
    for classifier in (LogisticRegression(), RandomForestClassifier(5)):
        one = fit_clones(classifier, counts, labels, weights=weights, folds=folds)
        other = fit_clones(classifier, counts, nonsense, weights=weights, folds=folds)
        assert not one.classifier.together
        assert np.array_equal(one.log_odds, other.log_odds)


@pytest.mark.parametrize("classifier", [LogisticRegression(), RandomForestClassifier(5)], ids=["alone", "together"])
def test_constant_classes_get_their_base_rate(classifier: Any) -> None:
    counts, labels = documents()
    table = np.column_stack([labels, np.zeros(N_DOCS), np.ones(N_DOCS)])
    fit = fit_clones(classifier, counts, table)
    new = fit.classifier.log_odds(counts[:4])
    np.testing.assert_allclose(new[:, 3], logit(0.5 / (N_DOCS + 1)))
    np.testing.assert_allclose(new[:, 4], -logit(0.5 / (N_DOCS + 1)))
    assert np.isfinite(fit.log_odds).all()


def test_a_pipeline_can_take_texts() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (60, 2)).astype(np.float64)
    texts = [" ".join(["word", *(name for name, label in zip("xy", row, strict=True) if label)]) for row in labels]
    reader = make_pipeline(CountVectorizer(analyzer=str.split), LogisticRegression())
    fit = fit_clones(reader, texts, labels)
    assert (fit.classifier.log_odds(["word x", "word y"]) > 0).tolist() == [[True, False], [False, True]]


def test_unset_random_states_are_set_to_the_seed() -> None:
    counts, labels = documents()
    fits = [fit_clones(RandomForestClassifier(5), counts, labels, seed=3) for _ in range(2)]
    assert np.array_equal(fits[0].log_odds, fits[1].log_odds)


@pytest.mark.parametrize(
    ("classifier", "message"),
    [
        (RidgeClassifier(), "RidgeClassifier has no predict_proba; wrap it in"),
        (make_pipeline(MaxAbsScaler(), RidgeClassifier()), "no predict_proba"),
        (LogisticRegression, r"pass an instance, LogisticRegression\(\)"),
        ("wrods", "neither a known name nor a scikit-learn classifier"),
    ],
)
def test_invalid_classifiers_are_refused(classifier: Any, message: str) -> None:
    with pytest.raises(PaldaError, match=message):
        check_classifier(classifier)


def test_different_numbers_of_documents_and_targets_are_refused() -> None:
    counts, labels = documents()
    with pytest.raises(DataError, match="X has 150 documents, but targets have 3"):
        fit_clones(LogisticRegression(), counts, labels[:3])
