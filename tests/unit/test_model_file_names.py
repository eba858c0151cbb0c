"""Names of arrays and state in model files, which are the file format and never change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from palda import PALDA, CrowdPALDA, simulate
from palda.estimators import load_state

QUICK = {"n_topics": 3, "tol": 1e-2, "random_state": 0, "n_jobs": 1}

PARAMS = {"topic_prior", "topic_words", "class_prior", "lower_bounds", "thresholds", "memory.sizes"}
SMOOTHED = {"word_counts", "word_prior"}
CROWD = {"annotator_documents", "confirmed_verdicts", "consensus", "vote_counts", "vote_log_likelihoods"}
CROWD |= {f"annotators.{name}" for name in ("posterior", "pool", "own")}
SUPPORT = {"slopes", "offsets", "by_class", "weights", "link", "overall"}
SUPPORT |= {f"anchor_{name}" for name in ("slopes", "offsets", "by_class")}
CROWD |= {f"annotators.support.{name}" for name in SUPPORT}
ANSWERS = {"annotators.support.sharpness", "for_votes.gains", "for_votes.shifts"}  # of a classifier beside the support
CROWD |= {f"vote_share.{name}" for name in ("slope", "offset", "limit", "strength", "n_yes", "n_votes")}
CROWD |= {"record.evidence", "record.n_tokens"}
RECORD_VOTES = {f"record.votes.{name}" for name in ("doc", "annotator", "label", "value", "abstained")}
CROWD |= RECORD_VOTES  # unless they are the votes that are attached
SHARES_WITHOUT_CLASSIFIER = {"vote_share.probs"}
PROFILES = {f"{part}.{name}" for part in ("for_votes", "for_words") for name in ("weights", "rates", "base", "mixture")}
RECALIBRATION = {f"for_words.{name}" for name in ("slope", "offset", "limit")}
LEARNED = PROFILES | {"out_of_fold_probs"}
LEARNED |= {f"memory.head_{name}" for name in ("positives", "n_spoken", "n_docs")}
LOGISTIC = {"coef", "intercept", "slope", "offset", "limit", "base_rates", "penalties"}
LOGISTIC = {f"head.{name}" for name in LOGISTIC} | {"evidence_shares"}
FEATURES = {f"feature_columns.{name}" for name in ("source", "category", "mean", "spread")}
FEATURES |= {"head.feature_penalties"} | {f"head.kernel.{name}" for name in ("landmarks", "rate", "mixing", "offset")}
WORDS = {"head.idf"} | {f"head.lift.{name}" for name in ("basis", "directions", "phases", "mixing", "offset")}
TOPICS = {"head.dense_mean", "head.dense_spread"}
TOPICS |= {f"reader.{name}" for name in ("present", "absent", "temper", "log_odds")}
EXTERNAL = {"plugged_in"} | {f"head.{name}" for name in ("together", "base_rates", "slope", "offset", "limit")}
VOTE_COLUMNS = {f"votes.{name}" for name in ("doc", "annotator", "label", "value", "abstained")}
STATE = {"estimator", "settings", "converged", "lower_bound", "worst_fall", "temper", "classes", "vocabulary"}
CROWD_STATE = STATE | {"annotators", "doc_ids"}


@pytest.mark.parametrize(
    ("kind", "parameters", "arrays", "state"),
    [
        (PALDA, {"n_profiles": 2}, PARAMS | SMOOTHED | LEARNED | LOGISTIC | WORDS | TOPICS, STATE),
        (PALDA, {"label_prior": "base_rate", "smoothing": False}, PARAMS, STATE),
        (
            CrowdPALDA,
            {"label_prior": "words"},
            PARAMS | SMOOTHED | LEARNED | LOGISTIC | WORDS | CROWD | ANSWERS,
            CROWD_STATE,
        ),
        (
            CrowdPALDA,
            {"label_prior": "topics"},
            PARAMS | SMOOTHED | LEARNED | LOGISTIC | TOPICS | CROWD | ANSWERS,
            CROWD_STATE,
        ),
        (CrowdPALDA, {"label_prior": "base_rate"}, PARAMS | SMOOTHED | CROWD | SHARES_WITHOUT_CLASSIFIER, CROWD_STATE),
    ],
    ids=["stacked", "unsmoothed base rate", "words", "topics", "base rate"],
)
def test_names_in_model_files_never_change(
    kind: type, parameters: dict[str, object], arrays: set[str], state: set[str], tmp_path: Path
) -> None:
    """The names are the file format: renaming a field of a dataclass must not change them."""
    news = simulate.newsroom(120, seed=0)
    votes, _ = simulate.crowd(news, [0.9, 0.8, 0.7, 0.2], votes_per_doc=3, seed=0)
    model = kind(**({"n_topics": 3, "n_profiles": 1, "tol": 0.1, "random_state": 0, "n_jobs": 1} | parameters))
    model.fit(news.corpus, news.labels if kind is PALDA else votes)
    model.save(tmp_path / "model.palda")
    saved = load_state(tmp_path / "model.palda")
    assert set(saved.arrays) == arrays
    assert set(saved.state) == state
    if kind is CrowdPALDA:
        model.save(tmp_path / "with_votes.palda", texts=news.documents.texts, votes=votes)
        attached = (arrays - RECORD_VOTES) | VOTE_COLUMNS | {"texts"}
        assert set(load_state(tmp_path / "with_votes.palda").arrays) == attached


def test_names_in_model_files_with_recalibrated_profiles_never_change(tmp_path: Path) -> None:
    """Classes that occur together, with weak words: profiles then take part in predictions."""
    rng = np.random.default_rng(0)
    first = rng.integers(2, size=(120, 1))
    labels = np.repeat(np.hstack([first, 1 - first]), 3, axis=1) ^ (rng.random((120, 6)) < 0.15)
    counts = rng.poisson(0.3 + 0.9 * labels)
    model = PALDA(**(QUICK | {"n_profiles": 2}), label_prior="topics", absence="per_class").fit(counts, labels)
    model.save(tmp_path / "model.palda")
    expected = PARAMS | SMOOTHED | LEARNED | RECALIBRATION | LOGISTIC | TOPICS
    assert set(load_state(tmp_path / "model.palda").arrays) == expected


def test_names_in_model_files_with_an_external_classifier_never_change(tmp_path: Path) -> None:
    news = simulate.newsroom(60, seed=0)
    model = PALDA(**(QUICK | {"n_profiles": 1}), label_prior=LogisticRegression(C=0.1)).fit(news.corpus, news.labels)
    model.save(tmp_path / "model.palda")
    assert set(load_state(tmp_path / "model.palda").arrays) == PARAMS | SMOOTHED | PROFILES | EXTERNAL | {
        "out_of_fold_probs"
    }


def test_names_in_model_files_with_features_never_change(tmp_path: Path) -> None:
    news = simulate.newsroom(120, seed=0)
    values = np.random.default_rng(0).normal(size=(120, 2))
    model = PALDA(3, n_profiles=1, tol=0.1, random_state=0, n_jobs=1, label_prior="words")
    model.fit(news.corpus, news.labels, features=values).save(tmp_path / "model.palda")
    saved = load_state(tmp_path / "model.palda")
    assert set(saved.arrays) == PARAMS | SMOOTHED | LEARNED | LOGISTIC | WORDS | FEATURES
    assert set(saved.state) == STATE | {"features"}
