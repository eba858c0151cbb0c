"""Simulated documents with half of the classes in words and half in features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from palda import DataError, metrics, simulate


def found_from(table: NDArray[Any], labels: NDArray[Any]) -> list[float]:
    """Micro-F1 per class of a classifier that is trained on one half and tested on the other."""
    half = len(table) // 2
    return [
        metrics.micro_f1(
            column[half:, None],
            LogisticRegression(C=0.1, max_iter=500).fit(table[:half], column[:half]).predict(table[half:])[:, None],
        )
        for column in labels.T
    ]


def test_every_class_shows_in_words_or_in_features_alone() -> None:
    world = simulate.featured_documents(2_000, n_classes=4, seed=1)
    from_words = found_from(world.corpus.counts.toarray(), world.labels)
    from_features = found_from(world.features, world.labels)
    assert min(from_words[:2]) > 0.8
    assert max(from_words[2:]) < 0.3
    assert min(from_features[2:]) > 0.8
    assert max(from_features[:2]) < 0.3
    assert world.in_words.tolist() == [True, True, False, False]


def test_the_same_seed_gives_the_same_documents() -> None:
    first, second = (simulate.featured_documents(50, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.features, second.features)
    np.testing.assert_array_equal(first.labels, second.labels)
    assert (first.corpus.counts != second.corpus.counts).nnz == 0
    assert not np.array_equal(first.features, simulate.featured_documents(50, seed=4).features)


def test_an_odd_class_shows_in_words() -> None:
    assert simulate.featured_documents(5, n_classes=3).classes.tolist() == ["words-01", "words-02", "features-01"]


def test_a_part_keeps_rows_together_and_can_be_voted_on() -> None:
    world = simulate.featured_documents(30, seed=0)
    part = world.take([7, 3])
    assert part.doc_ids.tolist() == ["7", "3"]
    np.testing.assert_array_equal(part.features, world.features[[7, 3]])
    np.testing.assert_array_equal(part.feature_table.on_documents(["3"]).values[:], world.features[[3]])
    votes, _ = simulate.crowd(part.dataset(), votes_per_doc=3, seed=0)
    assert votes.doc_ids.tolist() == ["7", "3"]
    assert votes.classes.tolist() == world.classes.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_classes": 1}, "n_classes must be an integer of at least 2"),
        ({"n_features": 0}, "n_features must be an integer of at least 1"),
        ({"separation": -1.0}, "separation must be a number from 0"),
        ({"class_prior": 1.5}, "class_prior must be a number from 0 to 1"),
    ],
)
def test_impossible_sizes_are_one_clear_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        simulate.featured_documents(10, **options)
