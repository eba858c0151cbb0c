"""Copies, changes over time, families and class-specific rates in whole fits: attributes, files, batches, shards."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palda import CrowdPALDA, Votes, aggregate, load, metrics, simulate, write_shards
from palda.data import Dataset, names_array
from palda.errors import PaldaWarning

pytestmark = pytest.mark.slow

NEWS = simulate.newsroom(600, seed=3)
COUNTS, LABELS = NEWS.corpus.counts, NEWS.labels
SETTINGS: dict[str, Any] = {"n_topics": 4, "tol": 1e-2, "random_state": 0, "label_prior": "words", "n_profiles": 1}


@cache
def votes_with_clones() -> Votes:
    """Twelve annotators, of whom the first, of quality .6, has four clones."""
    quality = np.array([0.6, 0.9, 0.85, 0.8, 0.75, 0.7, 0.9, 0.8, 0.85, 0.7, 0.75, 0.8])
    votes, people = simulate.crowd(NEWS, quality, votes_per_doc=6, seed=1)
    return simulate.clones(NEWS, votes, people, 0, 4, seed=1)[0]


@cache
def model_with_clones() -> CrowdPALDA:
    return CrowdPALDA(**SETTINGS).fit(NEWS.corpus, votes_with_clones())


@cache
def drifting_votes() -> Votes:
    """Ten annotators of quality .85, the first of whom has .3 in the second half of the time."""
    before = np.full(10, 0.85)
    after = np.where(np.arange(10) == 0, 0.3, before)
    rates = (simulate.annotators(quality, n_classes=LABELS.shape[1]) for quality in (before, after))
    return simulate.drifting_votes(NEWS, *rates, votes_per_doc=5, seed=4)


def test_clones_are_listed_and_count_as_one() -> None:
    copies = model_with_clones().copies_
    assert copies["group"].unique().tolist() == [1]
    assert len(copies) == 5
    assert (copies["copy_share"] > 0.8).all()
    with_discount, without = (
        metrics.micro_f1(LABELS, aggregate(votes_with_clones(), copies=copies_).consensus >= 0.5)
        for copies_ in (True, False)
    )
    assert with_discount > without + 0.01


def test_clones_keep_a_quality_of_their_own() -> None:
    quality = model_with_clones().annotator_quality_
    assert len(quality) == votes_with_clones().n_annotators
    clones = quality["annotator"].isin(model_with_clones().copies_["annotator"])
    np.testing.assert_allclose(quality.loc[clones, "quality"], 0.6, atol=0.06)
    assert quality.loc[clones, "n_votes"].min() > 0


def test_files_keep_copies_and_predict_the_same(tmp_path: Path) -> None:
    model, votes = model_with_clones(), votes_with_clones()
    model.save(tmp_path / "model.palda")
    loaded = load(tmp_path / "model.palda")
    for attribute in ("copies_", "changes_", "annotator_quality_", "annotator_rates_by_class_"):
        assert getattr(loaded, attribute).equals(getattr(model, attribute)), attribute
    rows = np.arange(50)
    np.testing.assert_array_equal(
        loaded.consensus(COUNTS[rows], votes.take(rows)), model.consensus(COUNTS[rows], votes.take(rows))
    )


def test_votes_of_clones_on_new_documents_count_as_one() -> None:
    """The consensus of a document where only the clones voted is that of one vote, not of five."""
    model, votes = model_with_clones(), votes_with_clones()
    names = model.copies_["annotator"].tolist()
    doubtful = np.zeros((1, COUNTS.shape[1]))
    n_classes = votes.n_classes
    table = np.full((1, votes.n_annotators, n_classes), -1.0)
    alone, together = table.copy(), table.copy()
    members = np.flatnonzero(np.isin(votes.annotators, names))
    alone[0, members[0], 0] = together[0, members, 0] = 1
    one, five = (model.consensus(doubtful, some)[0, 0] for some in (alone, together))
    base = model.consensus(doubtful, table)[0, 0]
    honest = table.copy()
    honest[0, np.flatnonzero(~np.isin(votes.annotators, names))[:5], 0] = 1
    assert base < one <= five + 0.05
    assert five < 0.5 * model.consensus(doubtful, honest)[0, 0]


def test_batches_keep_groups_and_accept_new_annotators() -> None:
    votes = votes_with_clones()
    first, second = np.arange(500), np.arange(500, 600)
    model = CrowdPALDA(**SETTINGS).fit(COUNTS[first], votes.take(first), doc_ids=votes.doc_ids[first])
    later = votes.take(second)
    renamed = later.annotators.tolist()
    renamed[5] = "somebody new"
    later = replace(later, annotators=names_array(renamed))
    model.partial_fit(COUNTS[second], later, doc_ids=later.doc_ids)
    assert model.annotators_.tolist() == [*votes.annotators, "somebody new"]
    quality = model.annotator_quality_.set_index("annotator")
    assert quality.loc["somebody new", "n_votes"] == np.sum(later.annotator == 5)
    assert quality["n_votes"].sum() == len(votes)
    assert metrics.micro_f1(LABELS[:600], model.consensus_ >= 0.5) > 0.85


def test_stored_votes_give_the_same_bits(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "shards", Dataset.of(NEWS.corpus, votes_with_clones()), docs_per_shard=150)
    stored = CrowdPALDA(**SETTINGS).fit(folder)
    np.testing.assert_array_equal(stored.consensus_, model_with_clones().consensus_)
    assert stored.copies_.equals(model_with_clones().copies_)


def test_a_change_is_reported_and_used() -> None:
    votes = drifting_votes()
    found = aggregate(votes)
    assert found.changes["annotator"].tolist() == [votes.annotators[0]]
    assert found.changes["kind"].tolist() == ["worse"]
    constant = aggregate(votes, drift=False)
    assert not len(constant.changes)
    errors = [np.mean((result.consensus >= 0.5) != LABELS) for result in (found, constant)]
    assert errors[0] < errors[1]


def test_files_keep_changes(tmp_path: Path) -> None:
    votes = drifting_votes()
    model = CrowdPALDA(**SETTINGS).fit(NEWS.corpus, votes)
    assert len(model.changes_) == 1
    model.save(tmp_path / "model.palda")
    loaded = load(tmp_path / "model.palda")
    assert loaded.changes_.equals(model.changes_)
    rows = np.arange(40)
    np.testing.assert_array_equal(
        loaded.consensus(COUNTS[rows], votes.take(rows)), model.consensus(COUNTS[rows], votes.take(rows))
    )


def test_a_version_of_a_model_with_few_votes_is_estimated_close_to_the_others() -> None:
    quality = np.array([0.75] * 8 + [0.85] * 4)
    votes, _ = simulate.crowd(NEWS, quality, votes_per_doc=6, seed=7)
    few = np.flatnonzero(votes.annotator == 11)
    docs = np.unique(votes.doc[few])[:3]
    kept = (votes.annotator != 11) | np.isin(votes.doc, docs)
    votes = votes.select(np.flatnonzero(kept))
    kinds = names_array(["person"] * 8 + ["model"] * 4)
    families = names_array([""] * 8 + ["gpt"] * 4)
    told = replace(votes, annotator_kinds=kinds, annotator_families=families)
    table = aggregate(told, n_profiles=1, copies=False).annotator_quality
    assert table["quality"].iloc[11] == pytest.approx(table["quality"].iloc[8:11].mean(), abs=0.05)
    width = table["high"] - table["low"]
    assert width.iloc[11] > 2 * width.iloc[8:11].max()


def test_a_rare_class_whose_majority_errs_is_not_inverted() -> None:
    """70% of the present labels are outvoted, and most yes votes are wrong."""
    rng = np.random.default_rng(0)
    labels = (rng.random((1500, 4)) < [0.3, 0.3, 0.3, 0.03]).astype(np.int8)
    sensitivity = np.tile([0.85, 0.85, 0.85, 0.45], (15, 1))
    specificity = np.tile([0.9, 0.9, 0.9, 0.9], (15, 1))
    crowd = simulate.SimulatedAnnotators.from_rates(sensitivity, specificity)
    votes = simulate.votes(labels, crowd, votes_per_doc=5, seed=0)
    found = aggregate(votes, n_profiles=1)
    shares = votes.yes_per_pair() / votes.per_pair()
    correlations = [np.corrcoef(shares[:, i], found.consensus[:, i])[0, 1] for i in range(4)]
    assert min(correlations) > 0.3
    assert metrics.micro_f1(labels[:, :3], found.consensus[:, :3] >= 0.5) > 0.9


def test_an_inverted_class_is_named() -> None:
    """Gold labels of the other classes make the crowd known; the last class is wrong everywhere, without any gold."""
    rng = np.random.default_rng(0)
    labels = (rng.random((400, 3)) < 0.4).astype(np.int8)
    rates = np.tile([0.1, 0.1, 0.85], (8, 1))
    votes = simulate.votes(labels, simulate.SimulatedAnnotators.from_rates(rates, rates), votes_per_doc=6, seed=0)
    gold = np.where(np.arange(3) < 2, labels, -1)
    with pytest.warns(PaldaWarning, match="the labels of '2' contradict most of their votes"):
        aggregate(votes, n_profiles=1, gold=gold)
