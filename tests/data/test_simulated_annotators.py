from __future__ import annotations

import numpy as np
import pytest

from palda import simulate
from palda.errors import DataError


@pytest.mark.parametrize("profile", ["paper", "adversarial"])
def test_profiles_draw_qualities_from_the_published_ranges(profile):
    people = simulate.annotators(profile, n_classes=3, seed=0)
    assert len(people) == 50
    start = 0
    for size, low, high in simulate.PROFILES[profile]:
        part = people.quality[start : start + size]
        assert len(part) == size
        assert ((part >= low) & (part <= high)).all()
        assert np.ptp(part) > (high - low) / 4
        start += size


def test_published_profiles_have_the_published_sizes():
    assert simulate.PROFILES["paper"] == ((10, 0.51, 0.65), (20, 0.66, 0.85), (20, 0.86, 0.9999))
    assert simulate.PROFILES["adversarial"] == (
        (10, 0.0001, 0.1), (15, 0.51, 0.65), (20, 0.66, 0.85), (5, 0.86, 0.9999),
    )  # fmt: skip
    kinds = simulate.annotators("adversarial", n_classes=3, seed=0).kinds
    assert kinds.tolist() == ["adversary"] * 10 + ["honest"] * 40


def test_a_one_coin_annotator_has_one_rate():
    people = simulate.annotators([0.9, 0.6, 0.2], n_classes=4, seed=0)
    for rates in (people.sensitivity, people.specificity):
        np.testing.assert_array_equal(rates, np.tile([[0.9], [0.6], [0.2]], 4))
    np.testing.assert_allclose(people.expected_quality(0.3), [0.9, 0.6, 0.2])
    assert people.names.tolist() == ["annotator-01", "annotator-02", "annotator-03"]


def test_two_coin_annotators_miss_labels_more_often_than_they_invent_them():
    people = simulate.annotators("adversarial", n_classes=4, seed=0, behaviour="two_coin")
    assert (people.sensitivity < people.quality[:, None]).all()
    assert (people.specificity > people.quality[:, None]).all()
    assert (people.sensitivity == people.sensitivity[:, :1]).all()
    informedness = people.sensitivity + people.specificity - 1
    assert ((informedness > 0) == (people.quality > 0.5)[:, None]).all()


def test_per_class_annotators_differ_by_class_around_their_rates():
    people = simulate.annotators([0.8] * 200, n_classes=20, seed=0, behaviour="per_class")
    assert people.sensitivity.std(axis=1).min() > 0.02
    assert people.specificity.std(axis=1).min() > 0.01
    calm = simulate.annotators([0.8] * 200, n_classes=20, seed=0, behaviour="per_class", class_spread=0)
    middle = np.log(people.sensitivity / (1 - people.sensitivity)).mean()
    assert middle == pytest.approx(np.log(calm.sensitivity / (1 - calm.sensitivity)).mean(), abs=0.05)


def test_qualities_of_0_and_1_give_rates_of_0_and_1_in_every_behaviour():
    for behaviour in ("one_coin", "two_coin", "per_class"):
        people = simulate.annotators([1.0, 0.0], n_classes=2, seed=0, behaviour=behaviour)
        assert people.sensitivity.tolist() == people.specificity.tolist() == [[1, 1], [0, 0]]


def test_rates_may_be_given_directly():
    people = simulate.SimulatedAnnotators.from_rates([0.7, 0.0, 0.1], [0.9, 1.0, 0.3], n_classes=2, names="abc")
    assert people.sensitivity.tolist() == [[0.7, 0.7], [0.0, 0.0], [0.1, 0.1]]
    assert people.kinds.tolist() == ["honest", "spammer", "adversary"]
    assert people.names.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(people.expected_quality([0.5, 0.0]), [0.85, 0.75, 0.25])
    table = simulate.SimulatedAnnotators.from_rates([[0.7, 0.8]], [[0.9, 0.6]])
    assert table.n_classes == 2
    assert table.quality == pytest.approx([0.75])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: simulate.annotators("best", n_classes=2), "no profile 'best'; choose from 'paper', 'adversarial'"),
        (lambda: simulate.annotators([0.5, 1.5], n_classes=2), "qualities must lie between 0 and 1, but one is 1.5"),
        (lambda: simulate.annotators([0.5, np.nan], n_classes=2), "qualities must lie between 0 and 1, but one is nan"),
        (lambda: simulate.annotators([], n_classes=2), "one number per annotator"),
        (lambda: simulate.annotators("paper", n_classes=0), "n_classes must be an integer of at least 1"),
        (
            lambda: simulate.annotators("paper", n_classes=2, n_spammers=-1),
            "n_spammers must be an integer of at least 0",
        ),
        (lambda: simulate.annotators("paper", n_classes=2, behaviour="coin"), "behaviour must be one of 'one_coin'"),
        (lambda: simulate.annotators("paper", n_classes=2, reluctance="x"), "reluctance must be numbers"),
        (lambda: simulate.SimulatedAnnotators.from_rates([[0.5]], [[0.5, 0.5]]), "specificity must have shape"),
        (lambda: simulate.SimulatedAnnotators.from_rates(0.5, 0.5), "sensitivity needs shape"),
        (lambda: simulate.SimulatedAnnotators.from_rates([2.0], [0.5]), "sensitivity must lie between 0 and 1"),
        (lambda: simulate.SimulatedAnnotators.from_rates([0.5], [0.5], names="ab"), "as many names"),
        (lambda: simulate.annotators([0.5], n_classes=3).expected_quality([0.1, 0.2]), "class_prior must have shape"),
    ],
)
def test_invalid_annotators_are_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()
