"""``explain``, ``transform`` and the temperature of word evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logit

from palda import PALDA, CrowdPALDA, load, simulate
from palda.data import Corpus
from palda.models.topics import Temperature

Model: TypeAlias = PALDA | CrowdPALDA

SETTINGS: dict[str, Any] = {"n_topics": 5, "label_prior": "base_rate", "max_iter": 300, "random_state": 0, "n_jobs": 1}
WORLD = simulate.documents(120, 3, 4, 30, seed=1, doc_length=25, lengths="poisson")
X, Y = WORLD.corpus.counts, WORLD.labels
NEW = simulate.documents(20, 3, 4, 30, seed=2, doc_length=25).corpus.counts
VOTES = simulate.crowd(WORLD, [0.9, 0.85, 0.8, 0.75], seed=2, votes_per_doc=3)[0]


@pytest.fixture(scope="module", params=["plain", "smoothed", "crowd"])
def model(request: pytest.FixtureRequest) -> Model:
    if request.param == "crowd":
        return CrowdPALDA(**SETTINGS).fit(X, VOTES)
    return PALDA(**SETTINGS, smoothing=request.param == "smoothed").fit(X, Y)


def log_odds_from_words(model: Model, X: Any) -> np.ndarray:
    result: np.ndarray = logit(model.predict_proba(X)) - logit(model.class_prior_)
    return result


def test_word_weights_sum_to_log_odds_minus_prior(model: Model) -> None:
    table = model.explain(NEW)
    sums = table.pivot_table("weight", "doc", "label", aggfunc="sum").reindex(columns=model.classes_)
    np.testing.assert_allclose(sums.to_numpy(), log_odds_from_words(model, NEW), rtol=1e-7, atol=1e-9)


def test_each_word_has_one_row_per_document_and_class_sorted_by_weight(model: Model) -> None:
    table = model.explain(NEW)
    assert len(table) == NEW.nnz * 3
    assert not table.duplicated(["doc", "label", "word"]).any()
    for _, part in table.groupby(["label", "doc"], sort=False):
        assert part["weight"].abs().is_monotonic_decreasing


def test_explain_with_a_label_returns_the_rows_of_that_label(model: Model) -> None:
    label = model.classes_[1]
    whole, part = model.explain(NEW), model.explain(NEW, label=label)
    whole = whole[whole["label"] == label].reset_index(drop=True)
    assert whole.equals(part)


def test_unknown_label_is_refused(model: Model) -> None:
    with pytest.raises(ValueError, match="'sports' is not one of the classes"):
        model.explain(NEW, label="sports")


def test_mean_field_cannot_explain() -> None:
    published = PALDA.as_published(5, random_state=0, n_jobs=1, tol=1e-3, max_iter=300).fit(X, Y)
    with pytest.raises(ValueError, match='explain needs inference="joint"'):
        published.explain(NEW)


def test_document_ids_of_a_corpus_are_used(model: Model) -> None:
    ids = [f"doc {d}" for d in range(NEW.shape[0])]
    words = [f"w{v}" for v in range(NEW.shape[1])]
    table = model.explain(Corpus(NEW, words, ids))
    assert set(table["doc"]) == set(ids)


def test_documents_without_words_get_base_rates_and_no_rows(model: Model) -> None:
    empty = sparse.csr_array((2, X.shape[1]))
    np.testing.assert_allclose(model.predict_proba(empty), [model.class_prior_] * 2, rtol=1e-12)
    assert model.explain(empty).empty


def test_topic_shares_sum_to_one(model: Model) -> None:
    with_an_empty_one = sparse.csr_array(sparse.vstack([NEW, sparse.csr_array((1, X.shape[1]))]))
    shares = model.transform(with_an_empty_one)
    assert shares.shape == (NEW.shape[0] + 1, model.n_topics_)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)


def test_explain_and_transform_do_not_change_predictions(model: Model) -> None:
    before = model.predict_proba(NEW)
    model.explain(NEW)
    model.transform(NEW)
    np.testing.assert_array_equal(model.predict_proba(NEW), before)


# Temperature.


def test_temperature_is_fitted(model: Model) -> None:
    assert model.temper_ != Temperature()
    assert model.temper_.scale > 0
    assert model.temper_.length == np.median(X.sum(axis=1))


def test_temperature_depends_on_training_labels_only() -> None:
    """Labels that are independent of the words make the weight of word evidence small."""
    model = PALDA(**SETTINGS).fit(X, Y)
    shuffled = PALDA(**SETTINGS).fit(X, np.random.default_rng(0).permutation(Y))
    typical = np.median(X.sum(axis=1))
    assert shuffled.temper_.weights(np.array([typical]))[0] < model.temper_.weights(np.array([typical]))[0]
    before = model.temper_
    model.predict_proba(NEW)
    assert model.temper_ == before


def test_fewer_than_50_documents_get_the_default_temperature() -> None:
    assert PALDA(**SETTINGS).fit(X[:40], Y[:40]).temper_ == Temperature()


def test_temperature_and_explanations_survive_save_and_load(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model.palda")
    again = load(tmp_path / "model.palda")
    assert again.temper_ == model.temper_
    assert again.explain(NEW).equals(model.explain(NEW))
    np.testing.assert_array_equal(again.transform(NEW), model.transform(NEW))
