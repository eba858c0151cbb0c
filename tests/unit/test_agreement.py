from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palda.data import Votes
from palda.errors import DataError
from palda.metrics import agreement as module
from palda.metrics import krippendorff_alpha, label_set_alpha


def jaccard(one: frozenset, two: frozenset) -> Fraction:
    return 1 - Fraction(len(one & two), len(one | two)) if one | two else Fraction(0)


def masi(one: frozenset, two: frozenset) -> Fraction:
    if one == two:
        return Fraction(0)
    if one <= two or two <= one:
        return 1 - (1 - jaccard(one, two)) * Fraction(2, 3)
    return 1 - (1 - jaccard(one, two)) * Fraction(1, 3)


def nominal(one: object, two: object) -> Fraction:
    return Fraction(one != two)


def brute_force_alpha(units: list[list], distance) -> float:
    """Alpha from its definition: mean distance within units over mean distance of all pairs."""
    units = [unit for unit in units if len(unit) >= 2]
    pooled = [value for unit in units for value in unit]
    if not pooled:
        return float("nan")
    within = sum(
        sum(distance(a, b) for a, b in permutations(unit, 2)) / Fraction(len(unit) - 1) for unit in units
    ) / Fraction(len(pooled))
    anywhere = sum(distance(a, b) for a, b in permutations(pooled, 2)) / Fraction(len(pooled) * (len(pooled) - 1))
    return float(1 - within / anywhere) if anywhere else float("nan")


def coincidence_alpha(units: list[list]) -> float:
    """Nominal alpha from the textbook's coincidence matrix."""
    values = sorted({value for unit in units for value in unit})
    matrix = np.zeros((len(values), len(values)))
    for unit in units:
        for a, b in permutations(unit, 2):
            matrix[values.index(a), values.index(b)] += 1 / (len(unit) - 1)
    totals = matrix.sum(axis=0)
    n = totals.sum()
    expected = n * n - (totals**2).sum()
    return float(1 - (n - 1) * (n - np.trace(matrix)) / expected) if expected else float("nan")


def class_units(array: np.ndarray, label: int) -> list[list]:
    return [[int(vote) for vote in row if vote >= 0] for row in array[:, :, label]]


def set_units(array: np.ndarray) -> list[list]:
    judged = [i for i in range(array.shape[2]) if (array[:, :, i] >= 0).any()]
    return [
        [
            frozenset(np.flatnonzero(annotation == 1).tolist())
            for annotation in document
            if judged and (annotation[judged] >= 0).all()
        ]
        for document in array
    ]


def random_crowd(
    seed: int,
    n_docs: int = 12,
    n_annotators: int = 5,
    n_classes: int = 4,
    noise: float = 0.15,
    missing: float = 0.2,
    absent: float = 0.3,
) -> np.ndarray:
    """Noisy copies of random labels; some annotations are missing, some are partial."""
    rng = np.random.default_rng(seed)
    shape = (n_docs, n_annotators, n_classes)
    truth = rng.random((n_docs, 1, n_classes)) < 0.35
    votes = (truth ^ (rng.random(shape) < noise)).astype(int)
    votes[(rng.random(shape) < 0.3) & (rng.random(shape[:2]) < missing)[..., np.newaxis]] = -1
    votes[rng.random(shape[:2]) < absent] = -1
    return votes


def one_hot(reliability_data: list[str]) -> Votes:
    """Nominal codes as label sets of one class each; ``.`` is missing. One string per coder, one character per unit."""
    codes = sorted(set("".join(reliability_data)) - {"."})
    array = np.full((len(reliability_data[0]), len(reliability_data), len(codes)), -1)
    for coder, row in enumerate(reliability_data):
        for unit, character in enumerate(row):
            if character != ".":
                array[unit, coder] = [character == code for code in codes]
    return Votes.from_array(array)


def test_alpha_of_krippendorffs_binary_example_with_two_observers() -> None:
    meg, owen = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    alpha = krippendorff_alpha(Votes.from_array(np.array([meg, owen]).T[:, :, np.newaxis]))
    assert alpha == pytest.approx([1 - 19 * 4 / (14 * 6)])
    assert alpha == pytest.approx([0.095], abs=5e-4)


@pytest.mark.parametrize("distance", ["masi", "jaccard"])
@pytest.mark.parametrize(
    ("reliability_data", "published"),
    [
        # four observers and twelve units, then three and fifteen: nominal alpha as published for both examples
        (["123321412...", "1233224125.3", ".3332342251.", "12332441251."], 0.743),
        ([".....34121133.3", "1.213343.......", "..21344.21133.4"], 0.691),
    ],
)
def test_sets_of_one_class_give_the_published_nominal_alpha(distance, reliability_data, published: float) -> None:
    assert label_set_alpha(one_hot(reliability_data), distance).alpha == pytest.approx(published, abs=5e-4)


@pytest.mark.parametrize("seed", range(8))
def test_class_alpha_equals_the_coincidence_matrix_and_the_definition(seed: int) -> None:
    array = random_crowd(seed)
    alphas = krippendorff_alpha(Votes.from_array(array))
    units = [class_units(array, label) for label in range(array.shape[2])]
    np.testing.assert_allclose(alphas, [coincidence_alpha(unit) for unit in units])
    np.testing.assert_allclose(alphas, [brute_force_alpha(unit, nominal) for unit in units])


@pytest.mark.parametrize(("name", "distance"), [("masi", masi), ("jaccard", jaccard)])
@pytest.mark.parametrize("seed", range(6))
def test_label_set_alpha_equals_the_definition(name, distance, seed: int) -> None:
    array = random_crowd(seed)
    result = label_set_alpha(Votes.from_array(array), name)
    assert result.alpha == pytest.approx(brute_force_alpha(set_units(array), distance))


@pytest.mark.parametrize("n_classes", [1, 7, 8, 15, 16, 31, 32, 63, 64, 130])
def test_label_set_alpha_does_not_depend_on_how_sets_are_packed(n_classes: int) -> None:
    array = random_crowd(3, n_docs=6, n_annotators=4, n_classes=n_classes, missing=0.0, noise=0.1)
    for name, distance in (("masi", masi), ("jaccard", jaccard)):
        result = label_set_alpha(Votes.from_array(array), name)
        assert result.alpha == pytest.approx(brute_force_alpha(set_units(array), distance))


@pytest.mark.parametrize("many", [1, 3])
@pytest.mark.parametrize("block", [1, 20])
def test_label_set_alpha_does_not_depend_on_the_size_of_blocks(monkeypatch, many: int, block: int) -> None:
    votes = Votes.from_array(random_crowd(4, n_annotators=8))
    whole = label_set_alpha(votes)
    monkeypatch.setattr(module, "_MAX_SETS_PER_STEP", many)
    monkeypatch.setattr(module, "_BLOCK_PAIRS", block)
    assert label_set_alpha(votes).alpha == pytest.approx(whole.alpha)


def test_partial_annotations_are_left_out_and_counted() -> None:
    array = np.array([[[1, 0], [1, 0], [1, -1]], [[0, 1], [0, 1], [-1, -1]], [[0, 1], [-1, 1], [-1, -1]]])
    result = label_set_alpha(Votes.from_array(array))
    assert (result.n_partial, result.n_annotations, result.n_docs) == (2, 4, 2)
    assert result.alpha == 1


def test_classes_without_any_vote_are_ignored() -> None:
    array = random_crowd(5, missing=0.0)
    wider = np.concatenate((array, np.full((*array.shape[:2], 1), -1)), axis=2)
    plain, padded = (label_set_alpha(Votes.from_array(votes)) for votes in (array, wider))
    assert plain == padded


def test_two_empty_sets_agree_and_an_empty_and_a_full_one_do_not() -> None:
    empty, full = [0, 0], [1, 1]
    agreeing = np.array([[empty, empty], [full, full]])
    disagreeing = np.array([[empty, full], [full, empty]])
    assert label_set_alpha(Votes.from_array(agreeing)).alpha == 1
    result = label_set_alpha(Votes.from_array(disagreeing))
    assert (result.observed, result.expected) == (1, pytest.approx(8 / 12))


def test_masi_distance_is_larger_for_overlap_than_for_inclusion() -> None:
    def observed(one: list[int], two: list[int]) -> float:
        return label_set_alpha(Votes.from_array([[one, two]])).observed

    assert observed([1, 1, 0], [1, 0, 0]) == pytest.approx(1 - 1 / 2 * 2 / 3)
    assert observed([1, 1, 0], [0, 1, 1]) == pytest.approx(1 - 1 / 3 * 1 / 3)
    assert observed([1, 0, 0], [0, 1, 1]) == 1
    assert observed([1, 1, 1], [1, 1, 1]) == 0


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 10_000))
def test_the_order_of_documents_annotators_and_classes_does_not_matter(seed: int) -> None:
    array = random_crowd(seed)
    rng = np.random.default_rng(seed)
    docs, annotators, classes = (rng.permutation(size) for size in array.shape)
    straight, shuffled = Votes.from_array(array), Votes.from_array(array[docs][:, annotators][:, :, classes])
    np.testing.assert_allclose(krippendorff_alpha(shuffled), krippendorff_alpha(straight)[classes])
    for distance in ("masi", "jaccard"):
        alphas = [label_set_alpha(votes, distance).alpha for votes in (straight, shuffled)]
        assert alphas[0] == pytest.approx(alphas[1], nan_ok=True)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 10_000))
def test_alpha_is_at_most_one_and_is_one_for_perfect_agreement(seed: int) -> None:
    noisy = Votes.from_array(random_crowd(seed))
    perfect = Votes.from_array(random_crowd(seed, n_docs=20, noise=0.0))
    alphas = [*krippendorff_alpha(noisy), label_set_alpha(noisy).alpha, label_set_alpha(noisy, "jaccard").alpha]
    assert all(alpha <= 1 for alpha in alphas if not np.isnan(alpha))
    assert all(alpha == 1 for alpha in krippendorff_alpha(perfect) if not np.isnan(alpha))
    assert label_set_alpha(perfect).alpha == 1


def test_random_votes_have_alpha_near_zero() -> None:
    votes = Votes.from_array(np.random.default_rng(0).integers(0, 2, (3000, 4, 3)))
    np.testing.assert_allclose(krippendorff_alpha(votes), 0, atol=0.03)
    assert label_set_alpha(votes).alpha == pytest.approx(0, abs=0.03)


def test_alpha_of_a_single_annotator_is_nan() -> None:
    votes = Votes.from_array(random_crowd(0, n_annotators=1, absent=0.0))
    assert np.isnan(krippendorff_alpha(votes)).all()
    result = label_set_alpha(votes)
    assert np.isnan([result.alpha, result.observed, result.expected, result.standard_error]).all()
    assert (result.n_docs, result.n_annotations) == (0, 0)


def test_alpha_of_constant_votes_is_nan() -> None:
    votes = Votes.from_array(np.zeros((5, 3, 2)))
    assert np.isnan(krippendorff_alpha(votes)).all()
    result = label_set_alpha(votes)
    assert np.isnan(result.alpha)
    assert (result.observed, result.expected) == (0, 0)


@pytest.mark.parametrize("annotators", [(), ("me", "you")])
def test_alpha_without_votes_is_nan(annotators: tuple[str, ...]) -> None:
    votes = Votes.empty(["a", "b"], ["x", "y"], annotators)
    assert np.isnan(krippendorff_alpha(votes)).tolist() == [True, True]
    assert np.isnan(label_set_alpha(votes).alpha)


@pytest.mark.parametrize("distance", ["masi", "jaccard"])
@pytest.mark.parametrize("seed", range(3))
def test_the_standard_error_is_a_jackknife_over_documents(distance, seed: int) -> None:
    array = random_crowd(seed, n_docs=12)
    judged = np.flatnonzero((array >= 0).all(axis=2).sum(axis=1) >= 2)
    result = label_set_alpha(Votes.from_array(array), distance)
    without = [label_set_alpha(Votes.from_array(np.delete(array, doc, axis=0)), distance).alpha for doc in judged]
    expected = np.sqrt((len(judged) - 1) * np.var(without))
    assert len(judged) == result.n_docs
    assert result.standard_error == pytest.approx(expected)


@pytest.mark.parametrize(("n_docs", "noise"), [(30, 0.1), (100, 0.25)])
def test_the_standard_error_is_the_spread_of_alpha_over_samples_of_documents(n_docs: int, noise: float) -> None:
    rng = np.random.default_rng(0)
    results = []
    for _ in range(200):
        truth = rng.random((n_docs, 1, 3)) < [0.5, 0.3, 0.2]
        unclear = 2 * noise * rng.random((n_docs, 1, 1))  # some documents are hard for everybody
        results.append(label_set_alpha(Votes.from_array(truth ^ (rng.random((n_docs, 3, 3)) < unclear))))
    alphas, errors = (np.array([getattr(one, name) for one in results]) for name in ("alpha", "standard_error"))
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(alphas.std(), rel=0.15)
    assert np.mean(np.abs(alphas - alphas.mean()) < 1.96 * errors) > 0.88


def test_the_standard_error_is_nan_where_it_cannot_be_computed() -> None:
    same, other = [[1, 0], [1, 0]], [[1, 0], [0, 1]]
    for array in ([same] * 3 + [other], [same, [[0, 1], [0, 1]]] * 5, [same] * 9 + [other]):
        result = label_set_alpha(Votes.from_array(array))
        assert not np.isnan(result.alpha)
        assert np.isnan(result.standard_error)


def test_sampled_pairs_agree_with_all_pairs_within_their_standard_error() -> None:
    votes = Votes.from_array(random_crowd(1, n_docs=400, n_annotators=4, n_classes=10, missing=0.0, absent=0.0))
    doc, marks, _ = module._complete_annotations(votes)
    sets, code = module._LabelSets.distinct(marks)
    exact = label_set_alpha(votes)
    misses = []
    for seed in range(20):
        sampled = label_set_alpha(votes, max_pairs=16_000, random_state=seed)
        assert sampled.observed == exact.observed
        assert sampled.standard_error == pytest.approx(exact.standard_error, rel=0.1)
        pairs = module._distances_anywhere(code, sets, module._masi, 16_000, np.random.default_rng(seed))
        misses.append((pairs.means.mean() - exact.expected) / pairs.error)
    assert len(doc) == exact.n_annotations
    assert np.abs(misses).max() < 5
    assert 0.4 < np.std(misses) < 2


def test_many_sampled_pairs_give_the_standard_error_of_all_pairs() -> None:
    votes = Votes.from_array(random_crowd(1, n_docs=300, n_annotators=4, n_classes=10, missing=0.0))
    errors = [label_set_alpha(votes, max_pairs=n_pairs).standard_error for n_pairs in (10**6, 100_000)]
    assert errors[1] == pytest.approx(errors[0], rel=0.05)


@pytest.mark.parametrize("block", [4, 1 << 16])
def test_all_rotations_together_visit_every_pair_once(monkeypatch, block: int) -> None:
    monkeypatch.setattr(module, "_BLOCK_PAIRS", block)
    marks = np.random.default_rng(0).random((31, 5)) < 0.4
    sets, code = module._LabelSets.distinct(marks)
    rng = np.random.default_rng(1)
    exact = module._distances_anywhere(code, sets, module._masi, 10**6, rng)
    rotated = module._sampled_distances(sets.take(code), module._masi, 31 * 31, rng)
    assert rotated.means == pytest.approx(exact.means)


def test_sampling_is_reproducible_from_its_seed() -> None:
    votes = Votes.from_array(random_crowd(1, n_docs=100, n_classes=10, missing=0.0))
    first, again, other = (label_set_alpha(votes, max_pairs=1000, random_state=seed) for seed in (3, 3, 4))
    assert first == again
    assert first.alpha != other.alpha


@pytest.mark.parametrize(
    ("options", "message"),
    [({"distance": "hamming"}, "distance is 'hamming'; choose"), ({"max_pairs": 10}, "max_pairs is 10; fewer than")],
)
def test_invalid_options_are_refused(options, message: str) -> None:
    with pytest.raises(DataError, match=message):
        label_set_alpha(Votes.from_array(random_crowd(0)), **options)
