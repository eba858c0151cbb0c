"""``update``: new, changed and withdrawn votes on the documents of a fitted model."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from palda import CrowdPALDA, DataError, Votes, load, metrics, simulate
from palda.models.crowd import CrowdState, ProfilePrior, document_counts, label_posterior

pytestmark = pytest.mark.slow

NEWS = simulate.newsroom(300, seed=3)
VOTES, PEOPLE = simulate.crowd(NEWS, "paper", votes_per_doc=2, seed=3)
SETTINGS: dict[str, Any] = {"n_topics": 4, "tol": 0.1, "random_state": 0, "n_jobs": 1, "label_prior": "words"}


@cache
def file_of(label_prior: str, folder: Path) -> Path:
    path = folder / f"{label_prior}.palda"
    CrowdPALDA(**(SETTINGS | {"label_prior": label_prior})).fit(NEWS.corpus, VOTES).save(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def model(folder: Path) -> CrowdPALDA:
    """A fitted model that a test may change; it has been in a file."""
    loaded = load(file_of("words", folder))
    assert isinstance(loaded, CrowdPALDA)
    return loaded


def frame(doc: int, annotator: str, values: Any) -> pd.DataFrame:
    rows = {"doc": VOTES.doc_ids[doc], "annotator": annotator, "label": VOTES.classes, "value": values}
    return pd.DataFrame(rows)


def posterior(model: CrowdPALDA, votes: Votes) -> np.ndarray:
    """Labels of all documents from all of their votes under the current rates."""
    record = model._kept_record()
    state = CrowdState(model._belief, model._vote_profiles, ProfilePrior.vague(len(model.classes_)))
    converted = model._sources.convert(votes)
    return label_posterior(converted, record.known, state, model._vote_settings(), record.evidence.astype(np.float64))


@pytest.mark.parametrize("label_prior", ["words", "base_rate"])
def test_stored_votes_and_evidence_give_the_consensus_of_the_fit(label_prior: str, folder: Path) -> None:
    model = load(file_of(label_prior, folder))
    assert isinstance(model, CrowdPALDA)
    np.testing.assert_allclose(posterior(model, VOTES), model.consensus_, atol=1e-4)


def test_touched_documents_have_the_posterior_of_all_their_votes_and_others_stay(model: CrowdPALDA) -> None:
    before = model.consensus_
    extra = simulate.votes(NEWS, PEOPLE, votes_per_doc=2, seed=99).take(np.arange(5, 9))
    model.update(extra)
    votes = model.current_votes()
    touched = np.arange(5, 9)
    np.testing.assert_allclose(model.consensus_[touched], posterior(model, votes)[touched], atol=1e-9)
    others = np.delete(np.arange(300), touched)
    np.testing.assert_array_equal(model.consensus_[others], before[others])
    assert np.abs(model.consensus_[touched] - before[touched]).max() > 0.01


def test_a_changed_vote_counts_once_and_a_withdrawn_one_not_at_all(model: CrowdPALDA, folder: Path) -> None:
    once = load(file_of("words", folder))
    assert isinstance(once, CrowdPALDA)
    once.update(frame(0, "new", 1))
    model.update(frame(0, "new", 0)).update(frame(0, "new", 1))
    np.testing.assert_allclose(model.consensus_, once.consensus_, atol=2e-3)
    n_votes = model.annotator_quality_.set_index("annotator")["n_votes"]
    assert n_votes["new"] == len(VOTES.classes)
    model.update(frame(0, "new", np.nan))
    untouched = load(file_of("words", folder))
    assert isinstance(untouched, CrowdPALDA)
    np.testing.assert_allclose(model.consensus_, untouched.consensus_, atol=0.02)  # rates have moved a little
    assert model.annotator_quality_.set_index("annotator")["n_votes"]["new"] == 0
    np.testing.assert_array_equal(model.vote_share_.shape, model.consensus_.shape)


def test_minus_one_withdraws_and_the_last_row_counts(model: CrowdPALDA) -> None:
    both = pd.concat((frame(0, "new", 1), frame(0, "new", -1)))
    before = model.consensus_
    model.update(both)
    np.testing.assert_array_equal(model.consensus_, before)
    assert "new" in model.annotators_


def test_gold_labels_become_certain(model: CrowdPALDA) -> None:
    gold = pd.DataFrame(NEWS.labels[:2], index=list(VOTES.doc_ids[:2]), columns=list(VOTES.classes))
    model.update(gold=gold)
    np.testing.assert_array_equal(model.consensus_[:2], NEWS.labels[:2])
    model.update(frame(0, "new", 1 - NEWS.labels[0]))
    np.testing.assert_array_equal(model.consensus_[:2], NEWS.labels[:2])
    assert model.annotator_quality_.set_index("annotator")["quality"]["new"] < 0.5


def test_after_a_tenth_more_votes_updates_are_as_good_as_a_fit() -> None:
    """Mean of three crowds: a single one differs by up to .007."""
    scores = []
    for seed in (3, 4, 5):
        news = simulate.newsroom(600, seed=seed)
        votes, people = simulate.crowd(news, "paper", votes_per_doc=2, seed=seed)
        more = simulate.votes(news, people, votes_per_doc=1, seed=77).take(np.arange(0, 600, 5))
        model = CrowdPALDA(**SETTINGS).fit(news.corpus, votes)
        for part in np.array_split(np.arange(more.n_docs), 12):
            model.update(more.take(part))
        updated = metrics.micro_f1(news.labels, model.consensus_ >= 0.5)
        everything = metrics.micro_f1(news.labels, model.update(documents="all").consensus_ >= 0.5)
        fit = CrowdPALDA(**SETTINGS).fit(news.corpus, model.current_votes())
        scores.append((updated, everything, metrics.micro_f1(news.labels, fit.consensus_ >= 0.5)))
    updated, everything, fitted = np.mean(scores, axis=0)
    assert updated > fitted - 0.005
    assert everything > fitted - 0.005


def test_a_saved_model_keeps_its_updates(model: CrowdPALDA, tmp_path: Path) -> None:
    model.update(frame(3, "new", 1))
    model.save(tmp_path / "updated.palda")
    again = load(tmp_path / "updated.palda")
    assert isinstance(again, CrowdPALDA)
    assert again.current_votes() == model.current_votes()
    for one in (model, again):
        one.update(frame(4, "new", 1))
    np.testing.assert_array_equal(again.consensus_, model.consensus_)


def test_votes_for_reports_follow_updates(folder: Path, tmp_path: Path) -> None:
    loaded = load(file_of("words", folder))
    assert isinstance(loaded, CrowdPALDA)
    assert loaded.votes_ is None
    loaded.save(tmp_path / "shown.palda", votes=VOTES)
    shown = load(tmp_path / "shown.palda")
    assert isinstance(shown, CrowdPALDA)
    shown.update(frame(3, "new", 1))
    assert shown.votes_ is not None
    assert len(shown.votes_) == len(VOTES) + len(VOTES.classes)


def test_copies_do_not_count_as_independent_when_votes_arrive() -> None:
    quality = np.array([0.6, 0.9, 0.85, 0.8, 0.75, 0.7, 0.9, 0.8, 0.85, 0.7])
    votes, people = simulate.crowd(NEWS, quality, votes_per_doc=6, seed=1)
    votes = simulate.clones(NEWS, votes, people, 0, 3, seed=1)[0]
    model = CrowdPALDA(**SETTINGS).fit(NEWS.corpus, votes)
    first, second, third = model.copies_["annotator"][:3]
    seen = set(votes.doc[np.isin(votes.annotators[votes.annotator], model.copies_["annotator"])])
    free = next(d for d in range(votes.n_docs) if d not in seen)
    model.update(frame(free, first, 1))
    alone = model.consensus_[free]
    assert VOTES.doc_ids[free] not in model.assign([third], n=300)["doc"].tolist()
    model.update(frame(free, second, 1))
    np.testing.assert_allclose(model.consensus_[free], alone, atol=0.02)


def test_hostile_changes_are_one_line(model: CrowdPALDA) -> None:
    cases: list[tuple[Any, str]] = [
        (frame(0, "new", 1).assign(doc="nowhere"), "document 'nowhere' is not among the 300 known ones.*partial_fit"),
        (frame(0, "new", 1).assign(label="nothing"), "class 'nothing' is not among"),
        (frame(0, "new", 7), "7"),
        ([1, 2], "votes must be Votes or a data frame"),
        (frame(0, "new", 1).drop(columns="annotator"), "annotator"),
    ]
    before = model.consensus_
    for votes, message in cases:
        with pytest.raises(DataError, match=message) as problem:
            model.update(votes)
        assert "\n" not in str(problem.value)
    with pytest.raises(ValueError, match="documents='some'"):
        model.update(documents="some")  # type: ignore[arg-type]
    np.testing.assert_array_equal(model.consensus_, before)


def test_models_of_earlier_versions_say_that_they_keep_no_votes() -> None:
    old = load(Path(__file__).parents[1] / "fixtures" / "model-0.1.palda")
    assert isinstance(old, CrowdPALDA)
    for call in (old.update, old.assign, old.stopping_report):
        with pytest.raises(ValueError, match=r"keeps no votes to update.*fit again"):
            call()


def test_verdicts_follow_the_documents_that_are_judged_after_updates(model: CrowdPALDA, tmp_path: Path) -> None:
    def expected() -> list[list[int]]:
        return document_counts(model.current_votes(), model._kept_record().known).tolist()

    assert model._document_counts is not None
    assert model._document_counts.tolist() == expected()
    one_document = frame(0, "new", NEWS.labels[0])
    model.update(pd.concat([one_document, frame(0, VOTES.annotators[VOTES.annotator[0]], np.nan)]))
    model.update(gold=np.where(np.arange(300)[:, None] < 5, NEWS.labels, -1))
    assert model._document_counts.tolist() == expected()
    assert model._document_counts[-1].tolist() == [1, 1]
    many = pd.concat([frame(doc, "new", NEWS.labels[doc]) for doc in range(30)])
    model.update(many)
    assert model.annotator_quality_.iloc[-1]["verdict"] == "reliable"
    ids = list("abcd")
    alone = Votes.from_array(np.ones((4, 1, 10), int), doc_ids=ids, annotators=["new"], classes=VOTES.classes)
    model.partial_fit(NEWS.corpus.counts[:4], alone, doc_ids=ids)
    assert model._document_counts.tolist() == expected()
    assert model._document_counts[-1].tolist()[0] == 34
    model.save(tmp_path / "model.palda")
    loaded = load(tmp_path / "model.palda")
    assert isinstance(loaded, CrowdPALDA)
    np.testing.assert_array_equal(loaded._document_counts, expected())


def test_new_models_that_always_say_yes_do_not_outvote_people(model: CrowdPALDA) -> None:
    new = pd.concat([frame(doc, f"model {k}", 1).assign(kind="model") for doc in range(60) for k in range(10)])
    labels = np.asarray(NEWS.labels, dtype=bool)[:60]
    before = (model.consensus_[:60] >= 0.5) != labels
    both = pd.concat([VOTES.to_frame().astype({"doc": str, "annotator": str, "label": str}).assign(kind="person"), new])
    votes = Votes.from_frame(both, documents=VOTES.doc_ids, classes=VOTES.classes)
    found = (model.consensus(NEWS.corpus, votes)[:60] >= 0.5) != labels
    assert found.mean() < before.mean() + 0.2  # as people they made .79 of the labels wrong
    model.update(new)
    assert ((model.consensus_[:60] >= 0.5) != labels).mean() < before.mean() + 0.2
    assert model.panel_ is not None
    assert model.panel_.n_models == 10


def test_labels_of_documents_without_votes_are_those_of_the_words() -> None:
    unvoted = np.arange(250, 300)
    votes = VOTES.select(~np.isin(VOTES.doc, unvoted))
    gold = np.full((300, len(VOTES.classes)), -1, dtype=np.int8)
    gold[295:] = NEWS.labels[295:]
    model = CrowdPALDA(**SETTINGS).fit(NEWS.corpus, votes, gold=gold)
    np.testing.assert_array_equal(model.consensus_[250:295], model.out_of_fold_probs_[250:295])
    np.testing.assert_array_equal(model.consensus_[295:], gold[295:])
    model.update(frame(0, "nobody yet", 1), documents="all")
    np.testing.assert_array_equal(model.consensus_[250:295], model.out_of_fold_probs_[250:295])
    model.update(frame(260, "nobody yet", 1))
    assert (model.consensus_[260] != model.out_of_fold_probs_[260]).all()
    model.update(frame(260, "nobody yet", np.nan))
    np.testing.assert_array_equal(model.consensus_[260], model.out_of_fold_probs_[260])
