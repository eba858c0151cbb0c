"""The kernels of the classifier give the same numbers as the NumPy reference, and every column depends on itself."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from palda.kernels import SoftLabels, StepRing, WordRows, compiled, reference

TOLERANCES = {np.float64: 1e-10, np.float32: 2e-5}
PRECISIONS = list(TOLERANCES)


class PassInputs(NamedTuple):
    documents: WordRows
    labels: SoftLabels
    coef: NDArray[Any]
    scores: NDArray[Any]


@st.composite
def pass_inputs(draw: st.DrawFn, dtype: Any) -> PassInputs:
    """Hypothesis draws sizes and options, which it can shrink; numbers come from a seed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    n_docs, n_words, n_classes = draw(st.integers(1, 9)), draw(st.integers(0, 12)), draw(st.integers(1, 4))
    n_columns = draw(st.integers(1, 20))
    words = sparse.csr_array(rng.random((n_docs, n_words)) * (rng.random((n_docs, n_words)) < 0.6), dtype=dtype)
    rows = rng.permutation(n_docs)[: draw(st.integers(1, n_docs))]
    weights = rng.random((n_docs, n_classes)) if draw(st.booleans()) else np.empty((0, 0))
    spread = draw(st.sampled_from([0.0, 1.0, 40.0]))
    return PassInputs(
        WordRows(rows, words.indptr.astype(np.int64), words.indices.astype(np.int32), words.data),
        SoftLabels(rng.random((n_docs, n_classes)), weights, rng.integers(0, n_classes, n_columns)),
        rng.normal(0.0, spread, (n_words, n_columns)).astype(dtype),
        rng.normal(0.0, 1.0, (len(rows), n_columns)).astype(dtype),
    )


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("curvature", [False, True])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_pass_equals_the_reference(dtype: Any, curvature: bool, data: st.DataObject) -> None:
    inputs = data.draw(pass_inputs(dtype))
    results = []
    for kernels in (compiled, reference):
        scores = inputs.scores.copy()
        gradient, losses = kernels.logistic_pass(inputs.documents, inputs.labels, inputs.coef, scores, curvature)
        assert gradient.dtype == dtype
        results.append((gradient, losses, scores))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


@settings(max_examples=25, deadline=None)
@given(pass_inputs(np.float64))
def test_word_scores_equal_the_reference(inputs: PassInputs) -> None:
    ours, theirs = inputs.scores.copy(), inputs.scores.copy()
    compiled.add_word_scores(inputs.documents, inputs.coef, ours)
    reference.add_word_scores(inputs.documents, inputs.coef, theirs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


@settings(max_examples=25, deadline=None)
@given(pass_inputs(np.float32), st.data())
def test_a_column_does_not_depend_on_its_neighbours(inputs: PassInputs, data: st.DataObject) -> None:
    column = data.draw(st.integers(0, inputs.coef.shape[1] - 1))
    one = slice(column, column + 1)
    scores, alone = inputs.scores.copy(), np.ascontiguousarray(inputs.scores[:, one])
    gradient, losses = compiled.logistic_pass(inputs.documents, inputs.labels, inputs.coef, scores, False)
    labels = inputs.labels._replace(classes=inputs.labels.classes[one])
    coef = np.ascontiguousarray(inputs.coef[:, one])
    own_gradient, own_loss = compiled.logistic_pass(inputs.documents, labels, coef, alone, False)
    assert np.array_equal(gradient[:, one], own_gradient)
    assert np.array_equal(losses[one], own_loss)
    assert np.array_equal(scores[:, one], alone)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_a_direction_equals_the_reference(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    n_steps, n_problems, n_coef = 4, 5, 21
    moves = rng.normal(size=(n_steps, n_problems, n_coef)).astype(dtype)
    changes = (moves * rng.uniform(0.5, 2.0, moves.shape)).astype(dtype)
    inverse = 1.0 / np.sum(moves * changes, axis=-1, dtype=np.float64)
    inverse[2, 1] = inverse[1, 3] = 0.0  # steps that do not count
    steps = StepRing(moves, changes, inverse, np.array([0, 1, 2, 1, 3]))
    problems = np.array([1, 3, 4])
    gradient, curvature = rng.normal(size=(3, n_coef)), rng.uniform(0.5, 2.0, (3, n_coef))
    ours = compiled.lbfgs_direction(steps, problems, gradient, curvature)
    theirs = reference.lbfgs_direction(steps, problems, gradient, curvature)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_without_steps_the_direction_is_that_of_the_diagonal() -> None:
    gradient, curvature = np.array([[1.0, -4.0]]), np.array([[2.0, 8.0]])
    steps = StepRing(np.ones((3, 1, 2)), np.ones((3, 1, 2)), np.zeros((3, 1)), np.array([2]))
    direction, decrease = compiled.lbfgs_direction(steps, np.array([0]), gradient, curvature)
    np.testing.assert_allclose(direction, [[-0.5, 0.5]])
    np.testing.assert_allclose(decrease, [2.5])


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_the_recalibration_equal_the_reference(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    scores, targets = rng.normal(0.0, 20.0, (30, 5)), rng.random((30, 5))
    weights = rng.random((30, 5)) if weighted else np.empty((0, 0))
    rows, line = rng.permutation(30)[:20], np.array([rng.normal(1.0, 0.3, 5), rng.normal(size=5)])
    ours = compiled.platt_sums(scores, targets, weights, rows, line)
    theirs = reference.platt_sums(scores, targets, weights, rows, line)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_sums_of_the_recalibration_are_derivatives() -> None:
    rng = np.random.default_rng(1)
    scores, targets, rows = rng.normal(size=(30, 2)), rng.random((30, 2)), np.arange(30)
    line, step = np.array([[1.2, 0.7], [0.1, -0.4]]), 1e-5

    def sums(change: tuple[float, float]) -> Any:
        return compiled.platt_sums(scores, targets, np.empty((0, 0)), rows, line + np.array(change)[:, None])

    at = sums((0.0, 0.0))
    by_slope, by_offset = (
        (sums(up) - sums(down)) / (2 * step) for up, down in (((step, 0.0), (-step, 0.0)), ((0.0, step), (0.0, -step)))
    )
    np.testing.assert_allclose([by_slope[0], by_offset[0]], at[1:3], rtol=1e-6)
    np.testing.assert_allclose([by_slope[1], by_slope[2], by_offset[2]], at[3:], rtol=1e-6)
