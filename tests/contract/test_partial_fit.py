"""``partial_fit``: batches of documents and votes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from palda import PALDA, CrowdPALDA, DataError, Votes, load, metrics, simulate
from palda.errors import PaldaWarning

pytestmark = pytest.mark.slow

NEWS = simulate.newsroom(700, seed=5)
COUNTS, LABELS = NEWS.corpus.counts, NEWS.labels
QUALITY = np.array([0.95, 0.9, 0.85, 0.8, 0.7, 0.5, 0.15, 0.9])
VOTES, PEOPLE = simulate.crowd(NEWS, QUALITY, votes_per_doc=3, seed=2)
BATCHES = [np.arange(start, start + 100) for start in (0, 100, 200, 300, 400)]
TEST = np.arange(500, 700)
SETTINGS: dict[str, Any] = {
    "n_topics": 8, "tol": 1e-2, "random_state": 0, "n_jobs": 1, "label_prior": "words", "n_profiles": 1,
}  # fmt: skip
PRIORS = ["stacked", "topics", "words", "base_rate"]


def fit_batches(batches: list[np.ndarray], **settings: Any) -> CrowdPALDA:
    model = CrowdPALDA(**(SETTINGS | settings))
    for rows in batches:
        model.partial_fit(COUNTS[rows], VOTES.take(rows))
    return model


def in_batches(label_prior: str = "words", n_batches: int = 5) -> CrowdPALDA:
    return fit_once(label_prior, n_batches)  # the cache treats defaults and equal arguments as different


@cache
def fit_once(label_prior: str, n_batches: int) -> CrowdPALDA:
    n_profiles = "auto" if label_prior == "topics" else 1  # one prior with the default is enough: it is slow
    return fit_batches(BATCHES[:n_batches], label_prior=label_prior, n_profiles=n_profiles)


def likelihood(model: PALDA | CrowdPALDA) -> float:
    return metrics.class_log_likelihood(LABELS[TEST], model.predict_proba(COUNTS[TEST]))


def test_first_call_equals_fit() -> None:
    fitted = CrowdPALDA(**SETTINGS).fit(COUNTS[BATCHES[0]], VOTES.take(BATCHES[0]))
    np.testing.assert_array_equal(
        in_batches(n_batches=1).predict_proba(COUNTS[TEST]), fitted.predict_proba(COUNTS[TEST])
    )


def test_five_batches_are_better_than_one_and_close_to_one_fit() -> None:
    first, last = in_batches(n_batches=1), in_batches()
    rows = np.concatenate(BATCHES)
    whole = CrowdPALDA(**SETTINGS).fit(COUNTS[rows], VOTES.take(rows))
    assert likelihood(whole) - likelihood(last) < 0.5 * (likelihood(whole) - likelihood(first))
    assert metrics.annotator_rmse(last.annotator_quality_["quality"], QUALITY) < 0.05
    assert last.score(COUNTS[TEST], LABELS[TEST]) > first.score(COUNTS[TEST], LABELS[TEST])


@pytest.mark.parametrize("label_prior", PRIORS)
def test_documents_and_consensus_grow_with_each_batch(label_prior: str) -> None:
    model = in_batches(label_prior, 2)
    assert model.doc_ids_.tolist() == VOTES.doc_ids[:200].tolist()
    assert model.consensus_.shape == (200, LABELS.shape[1])
    assert metrics.micro_f1(LABELS[100:200], model.consensus_[100:] >= 0.5) > 0.8
    np.testing.assert_array_equal(model.annotator_quality_["n_votes"], VOTES.take(slice(0, 200)).per_annotator())


def test_intervals_shrink_with_votes_and_absent_annotators_keep_theirs() -> None:
    first = in_batches(n_batches=1).annotator_quality_
    rows = BATCHES[1]
    frame = VOTES.take(rows).to_frame().astype(dict.fromkeys(("doc", "annotator", "label"), str))
    absent = VOTES.annotators[0]
    frame = frame[frame["annotator"] != absent].replace({"annotator": {VOTES.annotators[1]: "newcomer"}})
    model = fit_batches(BATCHES[:1]).partial_fit(COUNTS[rows], frame, doc_ids=VOTES.doc_ids[rows])
    now = model.annotator_quality_
    assert now["annotator"].tolist() == [*first["annotator"], "newcomer"]
    width, before = now["high"] - now["low"], first["high"] - first["low"]
    assert (width[2:8] < before[2:8]).all()
    assert now["n_votes"][0] == first["n_votes"][0]
    assert abs(now["quality"][0] - first["quality"][0]) < 0.02
    assert abs(now["quality"][8] - QUALITY[1]) < 0.08


def test_order_of_batches_matters_little() -> None:
    ordered = in_batches()
    backwards = fit_batches([BATCHES[0], *BATCHES[:0:-1]])
    np.testing.assert_allclose(
        backwards.annotator_quality_["quality"], ordered.annotator_quality_["quality"], atol=0.02
    )
    assert np.abs(backwards.predict_proba(COUNTS[TEST]) - ordered.predict_proba(COUNTS[TEST])).mean() < 0.02


@pytest.mark.parametrize("label_prior", PRIORS)
def test_loaded_model_updates_like_the_saved_one(label_prior: str, tmp_path: Path) -> None:
    in_batches(label_prior, 1).save(tmp_path / "model.palda")
    loaded = load(tmp_path / "model.palda")
    assert isinstance(loaded, CrowdPALDA)
    loaded.partial_fit(COUNTS[BATCHES[1]], VOTES.take(BATCHES[1]))
    expected = in_batches(label_prior, 2)
    np.testing.assert_array_equal(loaded.predict_proba(COUNTS[TEST]), expected.predict_proba(COUNTS[TEST]))
    np.testing.assert_array_equal(loaded.consensus_, expected.consensus_)
    pd.testing.assert_frame_equal(loaded.annotator_quality_, expected.annotator_quality_)


@pytest.mark.parametrize("label_prior", ["words", "base_rate"])
def test_new_votes_on_earlier_documents_update_labels_and_annotators(label_prior: str) -> None:
    model = fit_batches(BATCHES[:1], label_prior=label_prior)
    before, votes_before = model.consensus_.copy(), model.annotator_quality_["n_votes"].to_numpy()
    doubtful = int(np.abs(before - 0.5).min(axis=1).argmin())
    label = int(np.abs(before[doubtful] - 0.5).argmin())
    best = VOTES.annotators[[0, 1, 2, 3, 7]]
    frame = pd.DataFrame({"doc": VOTES.doc_ids[doubtful], "annotator": best, "label": VOTES.classes[label], "value": 1})
    model.partial_fit(COUNTS[[doubtful]], frame, doc_ids=[VOTES.doc_ids[doubtful]])
    assert len(model.doc_ids_) == 100
    assert model.consensus_[doubtful, label] > before[doubtful, label] + 0.1
    others = np.delete(np.arange(100), doubtful)
    np.testing.assert_array_equal(model.consensus_[others], before[others])
    had_voted = VOTES.annotator[(VOTES.doc == doubtful) & (VOTES.label == label)]  # their votes are replaced
    added = [int(k in (0, 1, 2, 3, 7) and k not in had_voted) for k in range(len(QUALITY))]
    assert 0 < sum(added) < len(best)
    np.testing.assert_array_equal(model.annotator_quality_["n_votes"] - votes_before, added)


def test_array_rows_without_ids_are_new_documents() -> None:
    array = np.full((200, VOTES.n_annotators, VOTES.n_classes), -1)
    some = VOTES.take(slice(0, 200))
    array[some.doc, some.annotator, some.label] = some.value
    model = CrowdPALDA(**SETTINGS).partial_fit(COUNTS[:100], array[:100]).partial_fit(COUNTS[100:200], array[100:])
    assert model.doc_ids_.tolist() == [str(number) for number in range(200)]


def test_palda_updates_with_labels_matched_by_name() -> None:
    model = PALDA(**SETTINGS)
    frames = [pd.DataFrame(LABELS[rows], columns=list(NEWS.classes)) for rows in BATCHES]
    model.partial_fit(COUNTS[BATCHES[0]], frames[0])
    first = likelihood(model)
    for rows, frame in zip(BATCHES[1:], frames[1:], strict=True):
        model.partial_fit(COUNTS[rows], frame[frame.columns[::-1]])
    assert likelihood(model) > first
    assert model.classes_.tolist() == list(NEWS.classes)
    named = PALDA(**SETTINGS).partial_fit(COUNTS[:100], LABELS[:100], classes=list(NEWS.classes))
    assert named.classes_.tolist() == list(NEWS.classes)


def test_invalid_batches_are_refused_and_change_nothing() -> None:
    model = fit_batches(BATCHES[:1])
    before = model.predict_proba(COUNTS[TEST])
    frame = VOTES.take(BATCHES[1]).to_frame().astype(dict.fromkeys(("doc", "annotator", "label"), str))
    unknown_class = frame.assign(label=frame["label"].replace(str(VOTES.classes[0]), "gossip"))
    with pytest.raises(DataError, match="class 'gossip' is not among"):
        model.partial_fit(COUNTS[BATCHES[1]], unknown_class, doc_ids=VOTES.doc_ids[BATCHES[1]])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(COUNTS[BATCHES[1]][:, :-1], VOTES.take(BATCHES[1]))
    with pytest.raises(ValueError, match="gold has shape"):
        model.partial_fit(COUNTS[BATCHES[1]], VOTES.take(BATCHES[1]), gold=np.zeros((2, 2)))
    np.testing.assert_array_equal(model.predict_proba(COUNTS[TEST]), before)
    clean = PALDA(**SETTINGS).fit(COUNTS[:100], LABELS[:100])
    with pytest.raises(ValueError, match="pass the same classes"):
        clean.partial_fit(COUNTS[100:200], LABELS[100:200, :2])
    with pytest.raises(ValueError, match="classes names 1 classes"):
        PALDA(**SETTINGS).partial_fit(COUNTS[:100], LABELS[:100], classes=["one"])
    with pytest.raises(TypeError, match="partial_fit does not support LogisticRegression"):
        PALDA(**(SETTINGS | {"label_prior": LogisticRegression()})).partial_fit(COUNTS[:100], LABELS[:100])


def test_small_first_batch_warns_and_uses_base_rates() -> None:
    with pytest.warns(PaldaWarning, match="use base rates"):
        model = PALDA(**SETTINGS).partial_fit(COUNTS[:30], LABELS[:30])
    assert model.partial_fit(COUNTS[30:100], LABELS[30:100]).head_ is None


@pytest.mark.parametrize("kind", [PALDA, CrowdPALDA])
def test_online_algorithm_gives_other_topics_and_is_saved(kind: type, tmp_path: Path) -> None:
    target: Any = LABELS[:300] if kind is PALDA else VOTES.take(slice(0, 300))
    model = kind(**SETTINGS, algorithm="online").fit(COUNTS[:300], target)
    batch = kind(**SETTINGS).fit(COUNTS[:300], target)
    assert not np.array_equal(model.topic_words_, batch.topic_words_)
    model.save(tmp_path / "model.palda")
    assert load(tmp_path / "model.palda").algorithm == "online"
    with pytest.raises(ValueError, match=r"'algorithm' parameter of .* Got 'stream'"):
        kind(**SETTINGS, algorithm="stream").fit(COUNTS[:300], target)


def test_batch_without_votes_keeps_annotator_quality() -> None:
    model = fit_batches(BATCHES[:1])
    before = model.annotator_quality_
    no_votes = Votes.empty(VOTES.doc_ids[BATCHES[1]], VOTES.classes, VOTES.annotators)
    after = model.partial_fit(COUNTS[BATCHES[1]], no_votes).annotator_quality_
    np.testing.assert_allclose(after["quality"], before["quality"], atol=0.01)
