"""Baselines that model dependent classes, on data where the dependence matters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from palda import metrics
from palda.paper.baselines import (
    BayesianChains,
    BRq,
    MonteCarloChains,
    OneVsRest,
    Rakel,
    dependence_tree,
    draw_labelsets,
    mutual_information,
)

Array = NDArray[np.float64]
Labels = NDArray[np.int8]
ONE = {"n_jobs": 1, "random_state": 0}


def parts(n_docs: int = 500, seed: int = 0) -> tuple[Array, Labels]:
    """The second and the third class partition the first."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_docs, 2))
    first = values[:, 0] > 0
    second = first & (values[:, 1] > 0)
    third = first & ~second
    return values, np.column_stack([first, second, third]).astype(np.int8)


def log_likelihood(model: Any, seed: int = 1) -> float:
    values, labels = parts(seed=seed)
    return metrics.class_log_likelihood(labels, np.clip(model.predict_proba(values), 1e-6, 1 - 1e-6))


def test_chains_beat_independent_classifiers_where_a_class_is_a_function_of_others() -> None:
    values, labels = parts()
    alone = OneVsRest(**ONE).fit(values, labels)
    for chains in (MonteCarloChains(4, 50, **ONE), BayesianChains(**ONE)):
        assert log_likelihood(chains.fit(values, labels)) > log_likelihood(alone) + 0.01


def test_monte_carlo_comes_close_to_summing_over_all_label_sets() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, 2))
    first = rng.random(300) < expit(values[:, 0])
    second = rng.random(300) < expit(values[:, 1] + 3.0 * first - 1.5)
    labels = np.column_stack([first, second]).astype(np.int8)
    exact: Array | None = None
    errors = []
    for n_samples in (10, 2000):
        model = MonteCarloChains(1, n_samples, **ONE).fit(values, labels)
        (chain,) = model._chains
        scores = model._features.apply(values) @ chain.coef + chain.intercept
        leading = expit(scores[:, 0])
        following = (1 - leading) * expit(scores[:, 1]) + leading * expit(scores[:, 1] + chain.label_coef[0, 1])
        exact = np.empty_like(scores)
        exact[:, chain.order] = np.column_stack([leading, following])
        errors.append(np.abs(model.predict_proba(values) - exact).max())
    assert 1e-3 < errors[0] < 0.15
    assert errors[1] < 1e-3


def test_samples_of_a_document_do_not_depend_on_the_others() -> None:
    values, labels = parts(100)
    model = MonteCarloChains(2, 5, **ONE).fit(values, labels)
    np.testing.assert_allclose(model.predict_proba(values)[40:43], model.predict_proba(values[40:43]), atol=1e-12)


def test_sampling_in_blocks_gives_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    values, labels = parts(50)
    model = MonteCarloChains(2, 20, **ONE).fit(values, labels)
    at_once = model.predict_proba(values)
    monkeypatch.setattr("palda.paper.baselines.chains._MAX_SAMPLED_LABELS", 500)
    np.testing.assert_allclose(model.predict_proba(values), at_once, atol=1e-12)


def markov_labels(parents: list[int], n_docs: int, seed: int) -> Labels:
    """Each class copies its parent's label, flipped with probability .15."""
    rng = np.random.default_rng(seed)
    labels = np.zeros((n_docs, len(parents)), dtype=np.int8)
    for i, parent in enumerate(parents):
        labels[:, i] = rng.random(n_docs) < 0.5 if parent < 0 else labels[:, parent] ^ (rng.random(n_docs) < 0.15)
    return labels


def test_bayesian_chains_find_the_planted_tree() -> None:
    planted = [-1, 0, 0, 1, 1, 2]
    labels = markov_labels(planted, 2000, seed=0)
    labels = np.insert(labels, 2, 0, axis=1)  # a class that never occurs is not in the tree
    place = np.array([0, 1, 3, 4, 5, 6])
    values = np.random.default_rng(1).normal(size=(2000, 2))
    parents = BayesianChains(**ONE).fit(values, labels).parents_
    edges = {frozenset((i, int(parent))) for i, parent in enumerate(parents) if parent >= 0}
    assert edges == {frozenset((int(place[i]), int(place[p]))) for i, p in enumerate(planted) if p >= 0}
    assert parents[2] == -1


def test_mutual_information_equals_the_hand_computed_value() -> None:
    labels = np.array([[0, 0], [0, 0], [1, 1], [1, 0]], dtype=np.int8)
    by_hand = 0.5 * np.log(0.5 / (0.5 * 0.75)) + 0.25 * np.log(0.25 / (0.5 * 0.25)) + 0.25 * np.log(0.25 / (0.5 * 0.75))
    information = mutual_information(labels)
    np.testing.assert_allclose(information, [[0.0, by_hand], [by_hand, 0.0]], atol=1e-12)
    order, parents = dependence_tree(np.zeros((1, 1)))
    assert (order.tolist(), parents.tolist()) == ([0], [-1])


def test_probabilities_equal_the_exact_sum_over_the_tree() -> None:
    rng = np.random.default_rng(0)
    labels = markov_labels([-1, 0, 1], 400, seed=2)
    values = rng.normal(size=(400, 2)) + labels[:, :2]
    model = BayesianChains(**ONE).fit(values, labels)
    scores = model._features.apply(values) @ model._coef + model._intercept
    expected = np.zeros_like(scores)
    for present in np.ndindex(2, 2, 2):
        joint = np.ones(len(values))
        for i, parent in enumerate(model._parents):
            above = present[parent] if parent >= 0 else 0
            prob = expit(scores[:, i] + above * model._parent_coef[i])
            joint *= prob if present[i] else 1.0 - prob
        expected += joint[:, None] * np.array(present)
    np.testing.assert_allclose(model.predict_proba(values), expected, atol=1e-12)


def test_label_sets_keep_exclusive_classes_exclusive() -> None:
    """Exactly one of two classes is present, so their probabilities sum to 1."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(600, 3))
    first = rng.random(600) < expit(values[:, 0])
    labels = np.column_stack([first, ~first, values[:, 1] > 0]).astype(np.int8)
    together = Rakel(3, 1, min_samples_leaf=20, **ONE).fit(values, labels).predict_proba(values)
    np.testing.assert_allclose(together[:, 0] + together[:, 1], 1.0, atol=1e-9)
    assert 0.2 < np.median(together[:, 0]) < 0.8


def test_trees_of_label_sets_learn_exclusive_or() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1000, 2))
    first, second = (values > 0).T
    labels = np.column_stack([first, second, first ^ second]).astype(np.int8)
    trees = Rakel(**ONE).fit(values[:500], labels[:500])
    lines = OneVsRest(**ONE).fit(values[:500], labels[:500])
    assert metrics.subset_accuracy(labels[500:], trees.predict(values[500:])) > 0.95
    assert metrics.subset_accuracy(labels[500:], lines.predict(values[500:])) < 0.75


@pytest.mark.parametrize(("n_classes", "size", "number"), [(10, 3, 20), (159, 3, 100), (4, 3, 4), (2, 2, 1), (1, 1, 1)])
def test_label_sets_differ_and_use_every_class_about_as_often(n_classes: int, size: int, number: int) -> None:
    labelsets = draw_labelsets(n_classes, size, number, np.random.default_rng(0))
    assert len({tuple(labelset) for labelset in labelsets}) == number
    assert all(len(set(labelset.tolist())) == size for labelset in labelsets)
    used = np.bincount(np.concatenate(labelsets), minlength=n_classes)
    assert used.min() >= min(1, number * size // n_classes)
    assert np.ptp(used) <= 2


def test_classes_in_no_label_set_keep_their_base_rates() -> None:
    values, labels = parts(60)
    probs = Rakel(1, 1, **ONE).fit(values, labels).predict_proba(values)
    constant = [i for i in range(3) if np.ptp(probs[:, i]) == 0]
    assert len(constant) == 2
    np.testing.assert_allclose(probs[0, constant], labels.mean(axis=0)[constant])


def test_an_ensemble_of_binary_relevance_is_no_worse_than_its_members() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(500, 20))
    labels = (rng.random((500, 2)) < expit(values[:, :10] @ rng.normal(size=(10, 2)))).astype(np.int8)

    def score(n_members: int, seed: int) -> float:
        model = BRq(n_members, feature_share=0.7, n_jobs=1, random_state=seed).fit(values[:150], labels[:150])
        return metrics.class_log_likelihood(labels[150:], model.predict_proba(values[150:]))

    members = [score(1, seed) for seed in range(3)]
    assert score(10, 0) > np.mean(members) + 0.02


def test_members_use_the_given_share_of_features() -> None:
    values, labels = parts(40)
    values = np.hstack([values] * 5)
    model = BRq(3, feature_share=0.3, **ONE).fit(values, labels)
    assert [len(member.columns) for member in model._members] == [3, 3, 3]
    with pytest.raises(ValueError, match="doc_share"):
        BRq(doc_share=1.5).fit(values, labels)
