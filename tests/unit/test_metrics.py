from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import metrics as sk

from palda import metrics
from palda.errors import DataError

TRUTH = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 0], [0, 0, 0]])
PREDICTED = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0]])

LABEL_MEASURES = (
    metrics.hamming_accuracy,
    metrics.jaccard_accuracy,
    metrics.subset_accuracy,
    metrics.micro_f1,
    metrics.macro_f1,
)


def random_tables(seed: int, n_docs: int = 60, n_classes: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = (rng.random((n_docs, n_classes)) < rng.random(n_classes)).astype(np.int8)
    probs = np.clip(0.6 * truth + 0.5 * rng.random((n_docs, n_classes)), 0, 1)
    unknown = rng.random((n_docs, n_classes)) < 0.3
    return truth, probs, unknown


def test_measures_of_a_small_table_equal_the_hand_computed_values() -> None:
    assert metrics.hamming_accuracy(TRUTH, PREDICTED) == pytest.approx(9 / 12)
    assert metrics.jaccard_accuracy(TRUTH, PREDICTED) == pytest.approx((1 / 2 + 1 + 2 / 3 + 0) / 4)
    assert metrics.subset_accuracy(TRUTH, PREDICTED) == pytest.approx(1 / 4)
    assert metrics.micro_f1(TRUTH, PREDICTED) == pytest.approx(2 * 3 / (4 + 5))
    assert metrics.macro_f1(TRUTH, PREDICTED) == pytest.approx((1 + 2 / 3 + 0) / 3)


@pytest.mark.parametrize("seed", range(5))
def test_measures_equal_those_of_scikit_learn(seed: int) -> None:
    truth, probs, _ = random_tables(seed)
    predicted = metrics.apply_thresholds(probs, 0.5)
    result = metrics.scores(truth, probs)
    assert result.hamming_accuracy == pytest.approx(1 - sk.hamming_loss(truth, predicted))
    assert result.jaccard_accuracy == pytest.approx(
        sk.jaccard_score(truth, predicted, average="samples", zero_division=1.0)
    )
    assert result.subset_accuracy == pytest.approx(sk.accuracy_score(truth, predicted))
    assert result.micro_f1 == pytest.approx(sk.f1_score(truth, predicted, average="micro"))
    assert result.macro_f1 == pytest.approx(sk.f1_score(truth, predicted, average="macro", zero_division=0.0))
    clipped = np.clip(probs, 1e-6, 1 - 1e-6).ravel()
    assert result.log_likelihood == pytest.approx(-sk.log_loss(truth.ravel(), clipped))
    precision, recall, f1, support = sk.precision_recall_fscore_support(truth, predicted, zero_division=0.0)
    np.testing.assert_allclose(result.by_class.precision, precision)
    np.testing.assert_allclose(result.by_class.recall, recall)
    np.testing.assert_allclose(result.by_class.f1, f1)
    np.testing.assert_allclose(result.by_class.prevalence, support / len(truth))


@pytest.mark.parametrize("zero_division", [0.0, 1.0, np.nan])
def test_a_class_neither_present_nor_predicted_counts_as_in_scikit_learn(zero_division: float) -> None:
    truth, predicted = np.c_[TRUTH, np.zeros(4, int)], np.c_[PREDICTED, np.zeros(4, int)]
    expected = sk.f1_score(truth, predicted, average="macro", zero_division=zero_division)
    assert metrics.macro_f1(truth, predicted, zero_division) == pytest.approx(expected)


def test_a_class_neither_present_nor_predicted_has_f1_zero_by_default() -> None:
    truth, predicted = np.c_[TRUTH[:, 0], np.zeros(4, int)], np.c_[PREDICTED[:, 0], np.zeros(4, int)]
    assert metrics.macro_f1(truth, predicted) == pytest.approx(1 / 2)
    assert metrics.macro_f1(truth, predicted, zero_division=np.nan) == pytest.approx(1)


def test_documents_where_both_sets_are_empty_count_as_correct() -> None:
    nothing = np.zeros((3, 2))
    assert metrics.jaccard_accuracy(nothing, nothing) == 1
    assert metrics.subset_accuracy(nothing, nothing) == 1
    assert metrics.micro_f1(nothing, nothing) == 0
    assert metrics.micro_f1(nothing, nothing, zero_division=1.0) == 1


@pytest.mark.parametrize("seed", range(3))
def test_unknown_truth_is_left_out_of_every_measure(seed: int) -> None:
    truth, probs, unknown = random_tables(seed)
    unknown[:4] = True
    predicted = metrics.apply_thresholds(probs)
    result = metrics.scores(np.where(unknown, -1, truth), probs)
    known = ~unknown
    per_doc = [
        (t[k].astype(bool), s[k].astype(bool)) for t, s, k in zip(truth, predicted, known, strict=True) if k.any()
    ]
    jaccard = [1.0 if not (t | s).any() else (t & s).sum() / (t | s).sum() for t, s in per_doc]
    class_f1 = [sk.f1_score(truth[k, i], predicted[k, i], zero_division=0.0) for i, k in enumerate(known.T)]
    assert result.hamming_accuracy == pytest.approx((truth == predicted)[known].mean())
    assert result.jaccard_accuracy == pytest.approx(np.mean(jaccard))
    assert result.subset_accuracy == pytest.approx(np.mean([(t == s).all() for t, s in per_doc]))
    assert result.micro_f1 == pytest.approx(sk.f1_score(truth[known], predicted[known]))
    assert result.macro_f1 == pytest.approx(np.mean(class_f1))
    assert result.log_likelihood == pytest.approx(metrics.class_log_likelihood(truth[known], probs[known]))
    assert result.calibration_error == pytest.approx(metrics.expected_calibration_error(truth[known], probs[known]))
    assert (result.n_docs, result.n_known) == (len(per_doc), known.sum())
    for i, k in enumerate(known.T):
        alone = metrics.scores(truth[k, i], probs[k, i])
        assert result.by_class.accuracy[i] == pytest.approx(alone.hamming_accuracy)
        assert result.by_class.f1[i] == pytest.approx(alone.micro_f1)
        assert result.by_class.log_likelihood[i] == pytest.approx(alone.log_likelihood)
        assert result.by_class.calibration_error[i] == pytest.approx(alone.calibration_error)


def test_nan_and_minus_one_both_mean_unknown() -> None:
    truth, probs, unknown = random_tables(0)
    as_nan = metrics.scores(np.where(unknown, np.nan, truth), probs)
    as_minus_one = metrics.scores(np.where(unknown, -1, truth), probs)
    assert as_nan.as_dict() == as_minus_one.as_dict()


def test_where_nothing_is_known_every_measure_is_nan() -> None:
    result = metrics.scores(np.full((3, 2), -1), np.full((3, 2), 0.5))
    assert np.isnan(list(result.as_dict().values())).all()
    assert (result.n_docs, result.n_known) == (0, 0)
    for name, values in result.by_class.as_dict().items():
        assert (values == 0).all() if name == "n_known" else np.isnan(values).all()


def test_measures_of_no_documents_are_nan() -> None:
    result = metrics.scores(np.empty((0, 3)), np.empty((0, 3)))
    assert np.isnan(list(result.as_dict().values())).all()


def test_a_class_that_is_never_known_is_left_out_of_macro_f1() -> None:
    truth = np.c_[TRUTH, np.full(4, -1)]
    predicted = np.c_[PREDICTED, np.ones(4)]
    assert metrics.macro_f1(truth, predicted) == pytest.approx(metrics.macro_f1(TRUTH, PREDICTED))


@pytest.mark.parametrize("measure", LABEL_MEASURES)
@pytest.mark.parametrize(
    "form", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, lambda t: t.astype(bool), lambda t: t.tolist()]
)
def test_sparse_boolean_and_list_input_give_the_same_as_dense(measure, form) -> None:
    assert measure(form(TRUTH), form(PREDICTED)) == measure(TRUTH, PREDICTED)


def test_sparse_truth_may_hold_unknown_cells() -> None:
    truth = np.where(random_tables(1)[2], -1, random_tables(1)[0])
    probs = random_tables(1)[1]
    assert metrics.scores(sparse.csr_array(truth), sparse.csr_array(probs)).as_dict() == (
        metrics.scores(truth, probs).as_dict()
    )


def test_a_1d_array_is_one_class() -> None:
    assert (
        metrics.scores(TRUTH[:, 0], PREDICTED[:, 0]).as_dict()
        == metrics.scores(TRUTH[:, :1], PREDICTED[:, :1]).as_dict()
    )


def test_input_is_not_changed() -> None:
    truth = np.where(random_tables(2)[2], np.nan, random_tables(2)[0])
    probs = random_tables(2)[1]
    before = truth.copy(), probs.copy()
    truth.flags.writeable = probs.flags.writeable = False
    metrics.scores(truth, probs)
    np.testing.assert_array_equal(truth, before[0])
    np.testing.assert_array_equal(probs, before[1])


@settings(deadline=None, derandomize=True, max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_the_order_of_documents_and_classes_does_not_matter(seed: int) -> None:
    truth, probs, unknown = random_tables(seed, n_docs=20, n_classes=4)
    truth = np.where(unknown, -1, truth)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(20), rng.permutation(4)
    straight = metrics.scores(truth, probs)
    shuffled = metrics.scores(truth[rows][:, columns], probs[rows][:, columns])
    assert shuffled.as_dict() == pytest.approx(straight.as_dict(), nan_ok=True)
    np.testing.assert_allclose(shuffled.by_class.f1, straight.by_class.f1[columns])


@settings(deadline=None, derandomize=True, max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_measures_lie_between_0_and_1_and_the_truth_scores_best(seed: int) -> None:
    truth, probs, _ = random_tables(seed, n_docs=15, n_classes=3)
    truth[0] = 1
    best = metrics.scores(truth, truth)
    result = metrics.scores(truth, probs)
    for name, value in result.as_dict().items():
        if name == "log_likelihood":
            assert value < best.log_likelihood <= 0
        else:
            assert 0 <= value <= 1
    assert [best.hamming_accuracy, best.jaccard_accuracy, best.subset_accuracy, best.micro_f1, best.macro_f1] == [1] * 5
    assert best.calibration_error == 0


def test_a_probability_at_the_threshold_is_a_prediction() -> None:
    probs = np.array([[0.5, 0.2], [0.49, 0.3]])
    np.testing.assert_array_equal(metrics.apply_thresholds(probs), [[1, 0], [0, 0]])
    np.testing.assert_array_equal(metrics.apply_thresholds(probs, [0.4, 0.3]), [[1, 0], [1, 1]])


def test_given_predictions_replace_thresholds() -> None:
    probs = np.full(TRUTH.shape, 0.9)
    result = metrics.scores(TRUTH, probs, PREDICTED, thresholds=0.95)
    assert result.micro_f1 == metrics.micro_f1(TRUTH, PREDICTED)
    assert result.log_likelihood == metrics.class_log_likelihood(TRUTH, probs)


def test_a_method_without_probabilities_has_no_log_likelihood() -> None:
    result = metrics.scores(TRUTH, predictions=PREDICTED)
    assert np.isnan([result.log_likelihood, result.calibration_error]).all()
    assert result.micro_f1 == metrics.micro_f1(TRUTH, PREDICTED)
    assert np.isnan(result.by_class.log_likelihood).all()


def test_per_class_equals_the_class_scores_of_scores() -> None:
    truth, probs, _ = random_tables(3)
    alone, inside = metrics.per_class(truth, probs).as_dict(), metrics.scores(truth, probs).by_class.as_dict()
    assert alone.keys() == inside.keys()
    for name, values in alone.items():
        np.testing.assert_array_equal(values, inside[name])


def test_baselines_predict_nothing_and_the_training_majority() -> None:
    training = np.array([[1, 0, 1, -1], [1, 0, 0, -1], [0, 1, -1, -1]])
    np.testing.assert_array_equal(metrics.nothing_baseline(2, 4), np.zeros((2, 4)))
    np.testing.assert_array_equal(metrics.majority_baseline(training, 2), [[1, 0, 0, 0]] * 2)
    np.testing.assert_allclose(metrics.base_rates(training), [2 / 3, 1 / 3, 1 / 2, np.nan])


def test_baseline_scores_use_base_rates_as_probabilities() -> None:
    training = np.array([[1, 0, 1], [1, 0, 0], [1, 1, 0], [0, 0, 0]])
    rows = metrics.baseline_scores(training, TRUTH)
    assert list(rows) == ["nothing", "majority"]
    assert rows["nothing"].hamming_accuracy == pytest.approx(1 - TRUTH.mean())
    assert rows["nothing"].micro_f1 == 0
    assert rows["majority"].hamming_accuracy == pytest.approx(8 / 12)
    rates = np.tile([0.75, 0.25, 0.25], (4, 1))
    assert rows["majority"].log_likelihood == pytest.approx(metrics.class_log_likelihood(TRUTH, rates))


def test_no_constant_beats_the_base_rates_log_likelihood_on_the_training_documents() -> None:
    truth = random_tables(4)[0]
    best = metrics.baseline_scores(truth, truth)["nothing"].log_likelihood
    rates = metrics.base_rates(truth)
    for shift in (-0.02, 0.02):
        moved = np.tile(np.clip(rates + shift, 0, 1), (len(truth), 1))
        assert metrics.class_log_likelihood(truth, moved) < best


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.micro_f1(TRUTH * 2, PREDICTED), "Y_true holds 2 at document 0, class 0; 1 is present"),
        (
            lambda: metrics.micro_f1(TRUTH, np.where(PREDICTED, PREDICTED, -1)),
            "predictions holds -1 at document 0, class 1",
        ),
        (lambda: metrics.micro_f1(TRUTH, PREDICTED[:, :2]), "predictions has 4 documents x 2 classes; expected 4 x 3"),
        (lambda: metrics.scores(TRUTH, TRUTH * 1.5), "probs holds 1.5 at document 0, class 0"),
        (lambda: metrics.scores(TRUTH, np.full(TRUTH.shape, np.nan)), "probs holds nan at document 0, class 0"),
        (lambda: metrics.scores(TRUTH, np.inf * np.ones(TRUTH.shape)), "probs holds inf"),
        (lambda: metrics.scores(TRUTH), "give probs, predictions, or both"),
        (
            lambda: metrics.scores(TRUTH, PREDICTED, thresholds=[0.5, 0.5]),
            "thresholds must be one number, or 3 numbers",
        ),
        (lambda: metrics.scores(TRUTH, PREDICTED, thresholds="micro_f1"), "thresholds must be numbers, not 'micro_f1'"),
        (lambda: metrics.scores(TRUTH, PREDICTED, thresholds=np.nan), "without NaN"),
        (lambda: metrics.micro_f1([["a"], ["b"]], [[1], [0]]), "MultiLabelBinarizer"),
        (lambda: metrics.micro_f1([[1, 0], [1]], [[1], [0]]), "rows of different lengths"),
        (
            lambda: metrics.micro_f1(np.zeros((2, 2, 2)), PREDICTED),
            r"must have shape \(documents, classes\), not \(2, 2, 2\)",
        ),
        (lambda: metrics.baseline_scores(TRUTH[:, :2], TRUTH), "Y_train has 2 classes, Y_true has 3"),
    ],
)
def test_invalid_input_is_refused_in_one_line(call, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_probabilities_outside_0_to_1_by_rounding_are_clipped() -> None:
    probs = np.where(TRUTH == 1, 1 + 1e-7, -1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metrics.scores(TRUTH, probs).as_dict() == metrics.scores(TRUTH, TRUTH).as_dict()
