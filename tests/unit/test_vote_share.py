"""Vote shares: what people would say, from words and votes."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.special import expit, logit

import palda
from palda import CrowdPALDA, Votes, simulate
from palda.data import names_array
from palda.models.classifier import VoteNumbers, VoteShares
from palda.models.crowd import SupportModel, shares_of_answers, typical_shares
from palda.models.crowd.traits import POINTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

N_DOCS, N_ANNOTATORS = 3000, 40


def opinions(
    strength: float, votes_per_doc: int = 4, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64], VoteNumbers]:
    """Probabilities of labels from words, true shares of people, and numbers of votes; three classes.

    The shares are spread around a recalibration of the probabilities, with ``strength`` in votes.
    """
    rng = np.random.default_rng(seed)
    probs = rng.beta(0.5, 1.0, (N_DOCS, 3)).clip(1e-4, 1 - 1e-4)
    mean = expit(0.6 * logit(probs) - 0.4)
    shares = rng.beta(strength * mean, strength * (1 - mean))
    n_votes = rng.integers(0, 2 * votes_per_doc + 1, shares.shape)
    return probs, shares, VoteNumbers(rng.binomial(n_votes, shares).astype(np.int32), n_votes.astype(np.int32))


def cross_entropy(shares: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
    predicted = predicted.clip(1e-9, 1 - 1e-9)
    return float(-np.mean(shares * np.log(predicted) + (1 - shares) * np.log(1 - predicted)))


@pytest.mark.parametrize("strength", [1.0, 4.0, 20.0])
def test_recalibration_and_strength_are_recovered(strength: float) -> None:
    probs, shares, numbers = opinions(strength)
    model = VoteShares.fit(probs, numbers)
    assert model.strength == pytest.approx(strength, rel=0.2)
    assert model.platt.slope == pytest.approx(0.6, abs=0.07)
    assert model.platt.offset == pytest.approx(-0.4, abs=0.1)
    majority = (numbers.n_yes + 1) / (numbers.n_votes + 2)
    found = cross_entropy(shares, model.shares())
    assert found < min(cross_entropy(shares, majority), cross_entropy(shares, model.expected(probs)))


def test_a_label_without_votes_has_the_share_expected_from_its_words() -> None:
    probs, _, numbers = opinions(4.0)
    model = VoteShares.fit(probs, numbers)
    nobody = numbers.n_votes == 0
    assert nobody.any()
    np.testing.assert_allclose(model.shares()[nobody], model.expected(model.probs)[nobody])


def test_the_strength_is_the_best_for_each_vote_given_the_others() -> None:
    """The sum over labels equals a sum over single votes that are left out in turn."""
    probs, _, numbers = opinions(4.0)
    model = VoteShares.fit(probs, numbers)
    expected = model.expected(model.probs)

    def left_out(strength: float) -> float:
        total = 0.0
        for share, n_yes, n_votes in zip(expected[:300].ravel(), numbers.n_yes[:300].ravel(),
                                         numbers.n_votes[:300].ravel(), strict=True):  # fmt: skip
            for vote in [1] * n_yes + [0] * (n_votes - n_yes):
                yes = (n_yes - vote + strength * share) / (n_votes - 1 + strength)
                total += np.log(yes if vote else 1 - yes)
        return total

    part = VoteShares.fit(probs[:300], VoteNumbers(*(table[:300] for table in numbers)))
    expected = part.expected(part.probs)
    assert all(left_out(part.strength) >= left_out(part.strength * factor) for factor in (0.8, 0.95, 1.05, 1.25))


def test_votes_of_models_do_not_count_unless_there_are_no_others() -> None:
    records = [("d", "ann", "x", 1), ("d", "bob", "x", 0), ("d", "gpt", "x", 1), ("d", "gpt-2", "x", 1)]
    votes = Votes.from_records(records)
    assert [table.tolist() for table in VoteNumbers.of(votes)] == [[[3]], [[4]]]
    of_kinds = replace(votes, annotator_kinds=names_array(["person", "", "model", "model"]))
    assert [table.tolist() for table in VoteNumbers.of(of_kinds)] == [[[1]], [[2]]]
    all_models = replace(votes, annotator_kinds=names_array(["model"] * 4))
    assert [table.tolist() for table in VoteNumbers.of(all_models)] == [[[3]], [[4]]]


@pytest.fixture(scope="module")
def divided() -> tuple[Any, Votes, NDArray[np.float64]]:
    """Documents on which people have opinions: present labels get 70% of the votes, absent ones 20%."""
    news = simulate.newsroom(600, seed=0)
    rates = [0.7] * 12, [0.8] * 12
    annotators = simulate.SimulatedAnnotators.from_rates(*rates, n_classes=10)
    return news, simulate.votes(news, annotators, votes_per_doc=3, seed=0), np.where(news.labels == 1, 0.7, 0.2)


@pytest.fixture(scope="module")
def model(divided: tuple[Any, Votes, NDArray[np.float64]]) -> CrowdPALDA:
    news, votes, _ = divided
    return CrowdPALDA(12, label_prior="words", random_state=0).fit(
        news.corpus.take(slice(0, 500)), votes.take(slice(0, 500))
    )


def test_vote_shares_predict_the_votes_and_the_consensus_predicts_the_truth(
    divided: tuple[Any, Votes, NDArray[np.float64]], model: CrowdPALDA
) -> None:
    news, votes, shares = divided
    numbers = VoteNumbers.of(votes.take(slice(0, 500)))
    majority = (numbers.n_yes + 0.3) / (numbers.n_votes + 1.0)
    trained = cross_entropy(shares[:500], model.vote_share_)
    assert trained < cross_entropy(shares[:500], majority) - 0.03
    assert trained < cross_entropy(shares[:500], model.consensus_) - 0.05
    new = model.predict_vote_share(news.corpus.take(slice(500, 600)).counts)
    assert new.shape == (100, 10)
    rates = np.broadcast_to(numbers.n_yes.sum(axis=0) / numbers.n_votes.sum(axis=0), new.shape)
    assert cross_entropy(shares[500:], new) < cross_entropy(shares[500:], rates) - 0.02
    assert np.abs(new - shares[500:]).mean() < 0.12


def test_vote_shares_survive_a_file(
    model: CrowdPALDA, divided: tuple[Any, Votes, NDArray[np.float64]], tmp_path: Path
) -> None:
    model.save(tmp_path / "model.palda")
    loaded = palda.load(tmp_path / "model.palda")
    assert isinstance(loaded, CrowdPALDA)
    np.testing.assert_array_equal(loaded.vote_share_, model.vote_share_)
    counts = divided[0].corpus.take(slice(500, 600)).counts
    np.testing.assert_array_equal(loaded.predict_vote_share(counts), model.predict_vote_share(counts))


def test_base_rates_have_vote_shares_too(divided: tuple[Any, Votes, NDArray[np.float64]], tmp_path: Path) -> None:
    news, votes, shares = divided
    model = CrowdPALDA(12, label_prior="base_rate", max_iter=30, tol=1e-3, random_state=0)
    model.fit(news.corpus.take(slice(0, 500)), votes.take(slice(0, 500)))
    numbers = VoteNumbers.of(votes.take(slice(0, 500)))
    assert cross_entropy(shares[:500], model.vote_share_) < cross_entropy(
        shares[:500], (numbers.n_yes + 0.3) / (numbers.n_votes + 1.0)
    )
    model.save(tmp_path / "model.palda")
    loaded = palda.load(tmp_path / "model.palda")
    assert isinstance(loaded, CrowdPALDA)
    np.testing.assert_array_equal(loaded.vote_share_, model.vote_share_)


@pytest.mark.parametrize("label_prior", ["words", "base_rate"])
def test_partial_fit_adds_documents_and_votes(
    divided: tuple[Any, Votes, NDArray[np.float64]], label_prior: str
) -> None:
    news, votes, shares = divided
    model = CrowdPALDA(12, label_prior=label_prior, max_iter=20, tol=1e-2, random_state=0)
    model.partial_fit(news.corpus.take(slice(0, 300)), votes.take(slice(0, 300)))
    model.partial_fit(news.corpus.take(slice(300, 500)), votes.take(slice(300, 500)))
    assert model.vote_share_.shape == (500, 10)
    assert cross_entropy(shares[:500], model.vote_share_) < 0.62
    before = model.vote_share_
    values = [(votes.doc_ids[0], name, label, 1) for name in votes.annotators[4:8] for label in votes.classes]
    n_yes = Votes.from_records(values, classes=votes.classes)  # new ones who always say yes would tell nothing
    model.partial_fit(news.corpus.take(slice(0, 1)), n_yes)
    assert model.vote_share_.shape == (500, 10)
    assert (model.vote_share_[0] > before[0]).all()
    assert np.abs(model.vote_share_[1:] - before[1:]).max() < 0.05


def test_models_of_earlier_versions_have_no_vote_shares() -> None:
    old = palda.load(Path(__file__).resolve().parents[1] / "fixtures" / "model-0.1.palda")
    assert isinstance(old, CrowdPALDA)
    assert not hasattr(old, "vote_share_")
    with pytest.raises(AttributeError, match="earlier version"):
        old.predict_vote_share(np.ones((1, old.n_features_in_)))


def test_shares_are_those_of_typical_annotators_under_the_same_supports() -> None:
    """Against a sum over the grid: two votes, an answer of a classifier, and a label that is known."""
    start = SupportModel().start(2, 1)
    weights = np.exp(-0.5 * (POINTS / 2.0) ** 2)[None]
    belief = replace(start, weights=weights / weights.sum(), sharpness=np.array([0.2]))
    votes = Votes.from_records([("d", "a", "c", 1), ("d", "b", "c", 0)])
    support = belief.weights[0] * expit(POINTS) * expit(-POINTS) * np.exp(1.5 * POINTS - 0.1 * POINTS**2)
    found = typical_shares(votes, belief, np.array([[1.5]]))
    assert found.item() == pytest.approx(support @ expit(POINTS) / support.sum())
    present = support * expit(belief.link[0, 0] * POINTS)
    known = typical_shares(votes, belief, np.array([[1.5]]), np.ones((1, 1)))
    assert known.item() == pytest.approx(present @ expit(POINTS) / present.sum())
    alone = belief.weights[0] * np.exp(1.5 * POINTS - 0.1 * POINTS**2)
    assert shares_of_answers(np.array([[1.5]]), belief).item() == pytest.approx(alone @ expit(POINTS) / alone.sum())


def test_shares_follow_an_update(model: CrowdPALDA, divided: tuple[Any, Votes, NDArray[np.float64]]) -> None:
    doc = int(np.argmin(np.abs(model.vote_share_[:, 0] - 0.4)))
    name = model.doc_ids_[doc]
    before = model.vote_share_[doc, 0]
    copied = copy.deepcopy(model)
    copied.update(Votes.from_records([(name, f"annotator-{k:02d}", model.classes_[0], 1) for k in range(1, 10)]))
    assert copied.vote_share_[doc, 0] > before + 0.05
