from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression

from palda import metrics
from palda.data import ValueWords
from palda.engine import Threads
from palda.errors import DataError
from palda.io import catalog
from palda.metrics import choose_thresholds
from palda.models.classifier import (
    NO_FOLD,
    ClassifierSettings,
    Features,
    LbfgsLimits,
    LogisticClassifier,
    Problems,
    Scale,
    assign_folds,
    base_log_odds,
    calibration,
    cut_blocks,
    fit_classifier,
    fit_columns,
    fit_platt,
    inverse_document_frequencies,
    learn_scale,
    log_likelihoods,
    logistic_loss,
    tf_idf,
)
from palda.models.classifier.lbfgs import StepHistory

Array = NDArray[np.float64]

TIGHT = LbfgsLimits(tolerance=1e-13, max_iter=1000)
N_DOCS, N_WORDS, N_CLASSES = 120, 25, 4


def documents(seed: int = 0, n_docs: int = N_DOCS) -> tuple[Any, Array]:
    """Counts, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    counts = sparse.csr_array(rng.poisson(0.7, (n_docs, N_WORDS)))
    scores = counts @ np.random.default_rng(99).normal(0.0, 0.8, (N_WORDS, N_CLASSES)) - 0.5
    return counts, (rng.random(scores.shape) < expit(scores)).astype(np.float64)


def one_per_class(n_classes: int = N_CLASSES) -> Problems:
    return Problems(np.arange(n_classes), np.full(n_classes, NO_FOLD))


def ridge(n_features: int, penalty: float, n_columns: int = N_CLASSES) -> Array:
    penalties = np.full((n_features + 1, n_columns), penalty)
    penalties[-1] = 0.0
    return penalties


def solve(
    words: Any,
    targets: Array,
    weights: Array | None = None,
    *,
    start: Array | None = None,
    n_blocks: int = 1,
    n_jobs: int = 1,
) -> Array:
    blocks, _ = cut_blocks(
        Features(words, None, None, None), targets, weights, np.zeros(len(targets), dtype=np.int64), n_blocks
    )
    start = np.zeros((words.shape[1] + 1, targets.shape[1])) if start is None else start
    problems = one_per_class(targets.shape[1])
    penalties = ridge(words.shape[1], 0.5, targets.shape[1])
    return fit_columns(blocks, problems, penalties, start, Threads(n_jobs), TIGHT)


def test_coefficients_equal_those_of_scikit_learn_on_hard_labels() -> None:
    counts, labels = documents()
    words = tf_idf(counts, inverse_document_frequencies(counts))
    coef = solve(words, labels)
    for i in range(N_CLASSES):
        theirs = LogisticRegression(C=2.0, tol=1e-10, max_iter=10_000).fit(words.toarray(), labels[:, i])
        np.testing.assert_allclose(coef[:-1, i], theirs.coef_[0], atol=1e-3)
        np.testing.assert_allclose(coef[-1, i], theirs.intercept_[0], atol=1e-3)


def test_a_soft_label_equals_two_weighted_documents() -> None:
    counts, labels = documents()
    words = sparse.csr_array(counts, dtype=np.float64)
    soft = np.where(labels > 0, 0.9, 0.3)
    twice = sparse.csr_array(sparse.vstack([words, words]))
    hard = np.concatenate([np.ones_like(soft), np.zeros_like(soft)])
    np.testing.assert_allclose(solve(words, soft), solve(twice, hard, np.concatenate([soft, 1.0 - soft])), atol=1e-5)


def test_gradients_equal_finite_differences() -> None:
    rng = np.random.default_rng(1)
    counts, labels = documents(n_docs=20)
    targets, weights = 0.8 * labels + 0.1, rng.random(labels.shape)
    words, dense = sparse.csr_array(counts, dtype=np.float64), rng.normal(size=(20, 3))
    folds = np.repeat([0, 1], 10)
    blocks, _ = cut_blocks(Features(words, None, dense, Scale(np.zeros(3), np.ones(3))), targets, weights, folds)
    problems = Problems(np.array([0, 3, 3]), np.array([NO_FOLD, 0, 1]))
    coef = rng.normal(0.0, 0.3, (N_WORDS + 3 + 1, 3))

    def total(at: Array) -> tuple[Array, Array]:
        found = sum(
            logistic_loss.loss_and_gradient(block, logistic_loss.Coefficients(at, problems)) for block in blocks
        )
        return found[-1], found[:-1]

    gradient = total(coef)[1]
    for feature in (0, 7, N_WORDS, N_WORDS + 2, N_WORDS + 3):
        step = np.zeros_like(coef)
        step[feature] = 1e-5
        slope = (total(coef + step)[0] - total(coef - step)[0]) / 2e-5
        np.testing.assert_allclose(gradient[feature], slope, rtol=1e-6, atol=1e-7)


def test_a_problem_that_leaves_a_fold_out_equals_a_fit_without_its_documents() -> None:
    counts, labels = documents()
    words = sparse.csr_array(counts, dtype=np.float64)
    folds = np.arange(N_DOCS) % 3
    blocks, _ = cut_blocks(Features(words, None, None, None), labels, None, folds)
    problems = Problems(np.arange(N_CLASSES), np.full(N_CLASSES, 1))
    start = np.zeros((N_WORDS + 1, N_CLASSES))
    coef = fit_columns(blocks, problems, ridge(N_WORDS, 0.5), start, Threads(), TIGHT)
    np.testing.assert_allclose(coef, solve(words[folds != 1], labels[folds != 1]), atol=1e-5)


@pytest.mark.parametrize("n_blocks", [2, 7])
def test_the_number_of_blocks_changes_nothing_but_rounding(n_blocks: int) -> None:
    counts, labels = documents()
    words = sparse.csr_array(counts, dtype=np.float64)
    np.testing.assert_allclose(solve(words, labels, n_blocks=n_blocks), solve(words, labels), atol=1e-5)


def test_the_number_of_threads_changes_nothing_at_all() -> None:
    counts, labels = documents()
    words = sparse.csr_array(counts, dtype=np.float64)
    assert np.array_equal(solve(words, labels, n_blocks=5, n_jobs=2), solve(words, labels, n_blocks=5))


def test_a_warm_start_ends_at_the_same_optimum() -> None:
    counts, labels = documents()
    words = sparse.csr_array(counts, dtype=np.float64)
    start = np.random.default_rng(3).normal(size=(N_WORDS + 1, N_CLASSES))
    np.testing.assert_allclose(solve(words, labels, start=start), solve(words, labels), atol=1e-5)


def test_steps_of_an_earlier_fit_save_iterations_and_lead_to_the_same_optimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts, labels = documents()
    words = sparse.csr_array(counts, dtype=np.float64)
    blocks, _ = cut_blocks(Features(words, None, None, None), labels, None, np.zeros(N_DOCS, dtype=np.int64))
    passes = []
    total = Threads.total
    monkeypatch.setattr(Threads, "total", lambda *arguments: passes.append(1) or total(*arguments))
    history, places = StepHistory(N_CLASSES, N_WORDS + 1, np.float64), np.arange(N_CLASSES)

    def fit(penalty: float, start: Array, history: StepHistory | None) -> tuple[Array, int]:
        before, limits, problems = len(passes), LbfgsLimits(tolerance=1e-9), one_per_class(N_CLASSES)
        arguments = (blocks, problems, ridge(N_WORDS, penalty), start, Threads(), limits)
        coef = fit_columns(*arguments, history=history, places=places)
        return coef, len(passes) - before

    first, _ = fit(3.0, np.zeros((N_WORDS + 1, N_CLASSES)), history)
    with_steps, n_with = fit(1.0, first, history)
    without, n_without = fit(1.0, first, None)
    assert n_with < n_without
    np.testing.assert_allclose(with_steps, without, atol=1e-3)


def test_steps_follow_a_change_of_the_penalties() -> None:
    rng = np.random.default_rng(0)
    history, problems = StepHistory(3, 5, np.float64), np.array([0, 2])
    move, change = rng.normal(size=(2, 5)), rng.normal(size=(2, 5))
    history.set_penalties(problems, np.full((2, 5), 2.0))
    history.add(problems, move, change + 2.0 * move)
    penalties = np.tile([0.5, 0.5, 7.0, 7.0, 0.0], (2, 1))
    history.set_penalties(problems, penalties)
    ring, newest = history.ring, history.ring.newest[0]
    expected = change + penalties * move
    np.testing.assert_allclose(ring.changes[newest, problems], expected)
    products = np.sum(move * expected, axis=1)
    np.testing.assert_allclose(ring.inverse[newest, problems], np.where(products > 0, 1.0 / products, 0.0))
    assert not ring.inverse[:, 1].any()


def test_groups_of_columns_are_fitted_as_if_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, labels = documents()
    words = sparse.csr_array(counts, dtype=np.float64)
    together = solve(words, labels)
    monkeypatch.setattr("palda.models.classifier.logistic_loss._COEF_PER_GROUP", N_WORDS + 1)
    np.testing.assert_allclose(solve(words, labels), together, atol=1e-5)


def test_tf_idf_equals_scikit_learns() -> None:
    counts, _ = documents()
    theirs = TfidfTransformer(sublinear_tf=True).fit_transform(sparse.csr_matrix(counts))
    ours = tf_idf(counts, inverse_document_frequencies(counts))
    np.testing.assert_allclose(ours.toarray(), theirs.toarray(), atol=1e-12)


def test_tf_idf_leaves_its_input_and_empty_documents_alone() -> None:
    counts = sparse.csr_array(np.array([[2.0, 0.0], [0.0, 0.0], [1.0, 5.0]]))
    before = counts.toarray()
    weighed = tf_idf(counts, inverse_document_frequencies(counts))
    assert np.array_equal(counts.toarray(), before)
    np.testing.assert_allclose(np.sqrt((weighed.toarray() ** 2).sum(axis=1)), [1.0, 0.0, 1.0])


def test_scaled_columns_are_standardised_and_clipped() -> None:
    dense = np.random.default_rng(0).normal(3.0, 7.0, (50, 2))
    dense[:, 1] = 4.0
    scale = learn_scale(dense)
    scaled = scale.apply(dense)
    np.testing.assert_allclose(scaled[:, 0].mean(), 0.0, atol=1e-12)
    np.testing.assert_allclose(scaled[:, 0].std(), 1.0)
    assert not scaled[:, 1].any()
    assert scale.apply(np.array([[1e9, 4.0]]))[0, 0] == 5.0


def test_folds_are_even_repeatable_and_spread_rare_classes() -> None:
    labels = np.zeros((103, 3))
    labels[:50, 0] = 1
    labels[10:15, 1] = 1  # five documents of a rare class
    folds = assign_folds(labels, 5, seed=0)
    assert np.array_equal(folds, assign_folds(labels, 5, seed=0))
    assert not np.array_equal(folds, assign_folds(labels, 5, seed=1))
    assert set(np.bincount(folds)) <= {20, 21}
    assert sorted(folds[10:15]) == [0, 1, 2, 3, 4]
    assert set(np.bincount(folds[:50])) <= {9, 10, 11}


def test_platt_repairs_a_scaled_and_shifted_score() -> None:
    rng = np.random.default_rng(0)
    log_odds = rng.normal(-0.5, 2.0, (20_000, 2))
    labels = (rng.random(log_odds.shape) < expit(log_odds)).astype(np.float64)
    distorted = (log_odds - np.array([1.0, -2.0])) / np.array([3.0, 0.5])
    repaired = fit_platt(distorted, labels, np.ones_like(labels)).apply(distorted)
    assert np.abs(repaired - log_odds).max() < 0.4
    assert metrics.expected_calibration_error(labels, expit(repaired)) < 0.01
    assert metrics.expected_calibration_error(labels, expit(distorted)) > 0.05


def test_platt_fits_soft_targets_as_it_fits_weighted_labels() -> None:
    rng = np.random.default_rng(0)
    scores, soft = rng.normal(size=(80, 3)), rng.random((80, 3))
    ours = fit_platt(scores, soft, np.ones_like(soft))
    hard = np.concatenate([np.ones_like(soft), np.zeros_like(soft)])
    twice = fit_platt(np.concatenate([scores, scores]), hard, np.concatenate([soft, 1.0 - soft]))
    np.testing.assert_allclose([ours.slope, ours.offset], [twice.slope, twice.offset], atol=1e-6)


def test_a_class_with_few_positives_shares_the_slope_and_one_with_none_has_its_base_rate() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(-1.0, 2.0, (500, 3))
    labels = (rng.random(scores.shape) < expit(scores / 2.0)).astype(np.float64)
    labels[:, 1] = 0
    labels[np.argsort(-scores[:, 1])[:6], 1] = 1  # six, perfectly ranked: a slope of its own would run away
    labels[:, 2] = 0
    platt = fit_platt(scores, labels, np.ones_like(labels))
    alone = fit_platt(scores[:, :2], labels[:, :2], np.ones((500, 2)))
    assert platt.slope[0] == pytest.approx(0.5, abs=0.1)
    assert platt.slope[1] == alone.slope[1] < 2.0
    assert expit(platt.apply(scores)[:, 1]).sum() == pytest.approx(6, abs=1.5)
    assert platt.slope[2] == 0
    np.testing.assert_allclose(platt.apply(scores)[:, 2], logit(0.5 / 501))


def test_likelihoods_in_blocks_equal_those_of_all_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    scores, targets, weights = rng.normal(size=(50, 3)), rng.random((50, 3)), rng.random((50, 3))
    platt = fit_platt(scores, targets, weights)
    whole = log_likelihoods(platt.apply(scores), targets, weights)
    monkeypatch.setattr(calibration, "_DOCS_PER_BLOCK", 7)
    np.testing.assert_allclose(platt.log_likelihoods(scores, targets, weights), whole)
    ones = platt.log_likelihoods(scores, targets, np.ones_like(targets))
    np.testing.assert_allclose(platt.log_likelihoods(scores, targets, None), ones)


def test_a_recalibration_of_some_documents_equals_one_of_them_alone() -> None:
    rng = np.random.default_rng(0)
    scores, targets, rows = rng.normal(size=(90, 3)), rng.random((90, 3)), np.arange(0, 90, 2)
    some, alone = fit_platt(scores, targets, None, rows=rows), fit_platt(scores[rows], targets[rows], None)
    assert np.array_equal(some.slope, alone.slope)
    assert np.array_equal(some.offset, alone.offset)
    assert some.limit == alone.limit


def test_negative_slopes_are_replaced_by_the_base_rate() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400, 1))
    labels = (rng.random(scores.shape) < expit(-scores - 1.0)).astype(np.float64)
    platt = fit_platt(scores, labels, np.ones_like(labels))
    assert platt.slope[0] == 0
    np.testing.assert_allclose(platt.apply(scores), logit((labels.sum() + 0.5) / 401))


def test_predictions_are_bounded_by_the_number_of_documents() -> None:
    scores = np.repeat([[-50.0], [50.0]], 50, axis=0)
    labels = (scores > 0).astype(np.float64)
    platt = fit_platt(scores, labels, np.ones_like(labels))
    assert expit(platt.apply(np.array([[-1e6], [1e6]]))).ravel() == pytest.approx([0.5 / 101, 1 - 0.5 / 101])


def test_the_recalibration_of_a_fold_does_not_see_its_labels() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(100, 2))
    labels = (rng.random(scores.shape) < expit(scores)).astype(np.float64)
    folds = np.arange(100) % 4
    changed = labels.copy()
    changed[folds == 2] = 1 - changed[folds == 2]
    before = calibration.cross_calibrate(scores, labels, np.ones_like(labels), folds)[1]
    after = calibration.cross_calibrate(scores, changed, np.ones_like(labels), folds)[1]
    np.testing.assert_allclose(after[folds == 2], before[folds == 2], atol=1e-3)
    assert np.abs(after[folds != 2] - before[folds != 2]).max() > 0.1


SETTINGS = ClassifierSettings(
    n_folds=4, word_penalties=(0.5,), fourier_penalties=(300.0,), limits=LbfgsLimits(tolerance=1e-10)
)


def test_changing_a_documents_label_leaves_its_own_out_of_fold_model_as_it_was() -> None:
    counts, labels = documents(n_docs=600)
    folds = assign_folds(labels, 4, seed=0)
    changed = labels.copy()
    changed[5] = 1 - changed[5]
    before = fit_classifier(labels, counts=counts, folds=folds, settings=SETTINGS)
    after = fit_classifier(changed, counts=counts, folds=folds, settings=SETTINGS)
    own, other = folds[5], (folds[5] + 1) % 4
    np.testing.assert_allclose(after.fold_coef[:, own], before.fold_coef[:, own], rtol=0, atol=1e-12)
    assert np.abs(after.fold_coef[:, other] - before.fold_coef[:, other]).max() > 0.05
    # the other folds' models shape the recalibration a little: two numbers per class, from hundreds of documents
    out_of_fold = np.abs(after.log_odds[5] - before.log_odds[5])
    seen = np.abs(after.classifier.log_odds(counts)[5] - before.classifier.log_odds(counts)[5])
    assert (out_of_fold < 0.3 * seen).all()


def test_labels_of_weight_0_have_no_influence() -> None:
    counts, labels = documents()
    weights = np.ones_like(labels)
    weights[::3, 1] = 0.0
    nonsense = labels.copy()
    nonsense[::3, 1] = np.nan
    folds = np.arange(N_DOCS) % 4
    ours = fit_classifier(labels, counts=counts, weights=weights, folds=folds, settings=SETTINGS)
    theirs = fit_classifier(nonsense, counts=counts, weights=weights, folds=folds, settings=SETTINGS)
    assert np.array_equal(ours.log_odds, theirs.log_odds)
    assert np.array_equal(ours.classifier.coef, theirs.classifier.coef)
    all_known = fit_classifier(labels, counts=counts, folds=folds, settings=SETTINGS)
    np.testing.assert_allclose(ours.classifier.coef[:, 0], all_known.classifier.coef[:, 0], atol=1e-6)
    assert np.abs(ours.classifier.coef[:, 1] - all_known.classifier.coef[:, 1]).max() > 1e-3


def test_rare_constant_and_unknown_classes_get_base_rates() -> None:
    counts, labels = documents()
    table = np.column_stack([labels, np.zeros(N_DOCS), np.ones(N_DOCS), np.eye(1, N_DOCS, 3)[0], labels[:, 0]])
    weights = np.ones_like(table)
    weights[:, -1] = 0.0
    fit = fit_classifier(table, counts=counts, weights=weights)
    new = fit.classifier.log_odds(counts[:5])
    np.testing.assert_allclose(new[:, N_CLASSES], logit(0.5 / (N_DOCS + 1)))
    np.testing.assert_allclose(new[:, N_CLASSES + 1], -logit(0.5 / (N_DOCS + 1)))
    np.testing.assert_allclose(new[:, N_CLASSES + 2], logit(1.5 / (N_DOCS + 1)))
    np.testing.assert_allclose(new[:, N_CLASSES + 3], 0.0)
    assert np.isfinite(fit.log_odds).all()


def test_the_classifier_beats_base_rates_out_of_fold_and_on_new_documents() -> None:
    counts, labels = documents(n_docs=600)
    fit = fit_classifier(labels, counts=counts)
    new_counts, new_labels = documents(seed=1, n_docs=400)
    nothing = np.broadcast_to(base_log_odds(labels, np.ones_like(labels)), labels.shape)
    ones, new_ones = np.ones_like(labels), np.ones_like(new_labels)
    baseline = log_likelihoods(nothing, labels, ones).sum() / labels.size
    out_of_fold = log_likelihoods(fit.log_odds, labels, ones).sum() / labels.size
    new = log_likelihoods(fit.classifier.log_odds(new_counts), new_labels, new_ones).sum() / new_labels.size
    assert min(out_of_fold, new) > baseline + 0.1
    assert out_of_fold == pytest.approx(new, abs=0.05)


def test_dense_columns_work_alone_and_with_words() -> None:
    counts, labels = documents(n_docs=400)
    rng = np.random.default_rng(5)
    hints = 3.0 * labels[:, ::-1] + rng.normal(size=labels.shape)  # each column is informative about another class
    ones = np.ones_like(labels)

    def likelihood(**features: Any) -> float:
        return float(log_likelihoods(fit_classifier(labels, **features).log_odds, labels, ones).sum())

    words, topics = likelihood(counts=counts), likelihood(dense=hints)
    assert likelihood(counts=counts, dense=hints) > max(words, topics) + 1.0


def test_noisier_labels_get_stronger_penalties() -> None:
    counts, labels = documents(n_docs=400)
    noise = np.random.default_rng(0).permuted(labels, axis=0)
    clean_penalties = fit_classifier(labels, counts=counts).classifier.penalties[0]
    noisy_penalties = fit_classifier(noise, counts=counts).classifier.penalties[0]
    assert np.log(noisy_penalties).mean() > np.log(clean_penalties).mean()


def test_a_warm_start_keeps_folds_and_penalties_and_reaches_the_same_fit() -> None:
    counts, labels = documents()
    soft = 0.9 * labels + 0.05
    first = fit_classifier(labels, counts=counts, settings=SETTINGS)
    warm = fit_classifier(soft, counts=counts, settings=SETTINGS, start=first)
    cold = fit_classifier(soft, counts=counts, settings=SETTINGS, folds=first.folds)
    assert np.array_equal(warm.classifier.penalties, first.classifier.penalties)
    np.testing.assert_allclose(warm.log_odds, cold.log_odds, atol=1e-3)


def test_a_classifier_can_be_saved_and_loaded(tmp_path: Any) -> None:
    counts, labels = documents()
    classifier = fit_classifier(labels, counts=counts, dense=labels[:, :2], settings=SETTINGS).classifier
    np.savez(tmp_path / "classifier.npz", allow_pickle=False, **classifier.arrays())
    with np.load(tmp_path / "classifier.npz", allow_pickle=False) as stored:
        again = LogisticClassifier.from_arrays({name: stored[name] for name in classifier.arrays()})
    assert np.array_equal(again.log_odds(counts, labels[:, :2]), classifier.log_odds(counts, labels[:, :2]))


def test_minority_counts_are_the_smaller_of_positives_and_negatives() -> None:
    targets = np.array([[0.2, 1.0], [0.3, 1.0], [0.0, 1.0]])
    np.testing.assert_allclose(calibration.minority_counts(targets, np.ones_like(targets)), [0.5, 0.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": np.full((N_DOCS, 2), 1.5)}, "not between 0 and 1"),
        ({"targets": np.full((N_DOCS, 2), np.nan)}, "not between 0 and 1"),
        ({"targets": np.zeros(N_DOCS)}, "must have shape \\(documents, classes\\)"),
        ({"targets": np.zeros((3, 2))}, "targets have 3"),
        ({"weights": np.ones((2, 2))}, "must be equal"),
        ({"weights": np.full((N_DOCS, N_CLASSES), -1.0)}, "not negative"),
        ({"counts": None}, "nothing to learn from"),
        ({"dense": np.full((N_DOCS, 1), np.inf)}, "finite"),
        ({"folds": np.zeros(N_DOCS, dtype=np.int64)}, "at least 2"),
        ({"folds": np.arange(3)}, "folds have 3"),
    ],
)
def test_invalid_inputs_are_refused(change: dict[str, Any], message: str) -> None:
    counts, labels = documents()
    arguments = {"targets": labels, "counts": counts} | change
    with pytest.raises(DataError, match=message):
        fit_classifier(arguments.pop("targets"), **arguments)


def test_a_start_with_other_features_is_refused() -> None:
    counts, labels = documents()
    first = fit_classifier(labels, counts=counts, settings=SETTINGS)
    with pytest.raises(DataError, match="start from a fit with the same features"):
        fit_classifier(labels, counts=counts[:, :3], settings=SETTINGS, start=first)


@pytest.mark.slow
@pytest.mark.data
def test_predictions_on_scene_are_accurate_and_calibrated(data_folder: Path) -> None:
    train, test = catalog.load("scene", folder=data_folder)
    bins = ValueWords().fit(train.corpus)
    fit = fit_classifier(train.Y, counts=bins.transform(train.corpus))
    probs = expit(fit.classifier.log_odds(bins.transform(test.corpus)))
    thresholds = choose_thresholds(train.Y, expit(fit.log_odds))
    reached = metrics.scores(test.Y, probs, thresholds=thresholds)
    assert reached.micro_f1 > 0.75
    assert reached.calibration_error < 0.02


def test_new_documents_need_the_features_of_the_training_documents() -> None:
    counts, labels = documents()
    classifier = fit_classifier(labels, counts=counts, settings=SETTINGS).classifier
    with pytest.raises(DataError, match="trained on word counts"):
        classifier.log_odds()
    with pytest.raises(DataError, match="have 3 words"):
        classifier.log_odds(counts[:, :3])
