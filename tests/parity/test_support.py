"""Support of labels on a grid: compiled kernels equal the reference."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit

from palda.kernels import GridEvidence, GridPrior, LabelVotes, VoteArrays, compiled, reference

Array = NDArray[np.float64]

KERNELS = pytest.mark.parametrize("kernel", [compiled, reference], ids=["compiled", "reference"])
MIN_PROB = 1e-6  # of a vote; the model keeps it


class Inputs(NamedTuple):
    votes: LabelVotes
    probs: Array
    prior: GridPrior
    given: GridEvidence
    label_probs: Array


@st.composite
def inputs(draw: st.DrawFn) -> Inputs:
    """Hypothesis draws sizes and options, which it can shrink; numbers come from a seed."""
    n_docs, n_classes, n_annotators = draw(st.integers(1, 6)), draw(st.integers(1, 4)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    votes = random_votes(rng, n_docs, n_annotators, n_classes, vote_share=draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])))
    probs = random_probs(rng, n_annotators * n_classes, slope=draw(st.sampled_from([0.0, 1.0, 20.0])))
    prior = random_prior(rng, n_classes, slope=draw(st.sampled_from([0.0, 2.5, 10.0])))
    evidence = random_evidence(
        rng,
        n_docs,
        n_classes,
        panel=draw(st.booleans()),
        answers=draw(st.booleans()),
        size=draw(st.sampled_from([1.0, 100.0])),
        doubt=draw(st.sampled_from([1e-6, 0.05, 1.0])),
    )
    label_probs = rng.random((n_docs, n_classes))
    known = rng.random(label_probs.shape) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    return Inputs(
        by_label(votes, n_annotators, n_classes),
        probs,
        prior,
        evidence,
        np.where(known, label_probs.round(), label_probs),
    )


def random_votes(
    rng: np.random.Generator, n_docs: int, n_annotators: int, n_classes: int, vote_share: float
) -> VoteArrays:
    """Votes in the order of documents; some documents have none."""
    voted = rng.random((n_docs, n_annotators, n_classes)) < vote_share
    voted[rng.random(n_docs) < 0.3] = False
    doc, annotator, label = np.nonzero(voted)
    values = rng.integers(0, 2, len(doc)).astype(np.int8)
    starts = np.searchsorted(doc, np.arange(n_docs + 1)).astype(np.int64)
    return VoteArrays(starts, annotator.astype(np.int32), label.astype(np.int32), values)


def by_label(votes: VoteArrays, n_annotators: int, n_classes: int) -> LabelVotes:
    """The votes by label; each annotator and class has a cell."""
    ordered: LabelVotes = reference.votes_by_label(
        votes, np.arange(n_annotators * n_classes, dtype=np.int32), n_classes
    )
    return ordered


def random_probs(rng: np.random.Generator, n_cells: int, slope: float) -> Array:
    scores = slope * rng.normal(size=(n_cells, 1)) * np.linspace(-4, 4, 17) + rng.normal(size=(n_cells, 1))
    yes = np.clip(expit(scores), MIN_PROB, 1.0 - MIN_PROB)
    return np.stack((1.0 - yes, yes), axis=1)


def random_prior(rng: np.random.Generator, n_classes: int, slope: float) -> GridPrior:
    points = np.linspace(-4, 4, 17)
    weights = np.maximum(rng.dirichlet(np.full(17, 0.2), n_classes), 1e-9)
    weights /= weights.sum(axis=1, keepdims=True)
    present = expit(slope * points + rng.normal(size=(n_classes, 1)))
    tables = weights * present, weights * (1.0 - present)
    return GridPrior(points, weights, *(table / table.sum(axis=1, keepdims=True) for table in tables))


def random_evidence(
    rng: np.random.Generator, n_docs: int, n_classes: int, *, panel: bool, answers: bool, size: float, doubt: float
) -> GridEvidence:
    """What a panel and a classifier say, each about some of the labels; or nothing."""
    shape = n_docs, n_classes
    nothing = np.empty((0, 0))
    mean = rng.normal(size=shape) * size
    precision = rng.gamma(1.0, 1.0, shape) * (rng.random(shape) < 0.7)
    said = rng.normal(size=shape) * size * (rng.random(shape) < 0.7)
    return GridEvidence(
        mean if panel else nothing,
        precision if panel else nothing,
        said if answers else nothing,
        rng.gamma(1.0, 0.3, n_classes) if answers else np.empty(0),
        doubt,
    )


def assert_close(ours: Array, truth: Array, what: str) -> None:
    """Relative error, absolute where the reference is below 1."""
    np.testing.assert_allclose(ours, truth, rtol=1e-9, atol=1e-9, err_msg=what)


@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_votes_by_label_equal_the_reference(n_docs: int, n_annotators: int, n_classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    votes = random_votes(rng, n_docs, n_annotators, n_classes, 0.5)
    cell_of = rng.permutation(n_annotators * n_classes).astype(np.int32)
    found, truth = (kernel.votes_by_label(votes, cell_of, n_classes) for kernel in (compiled, reference))
    for ours, theirs in zip(found, truth, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@given(inputs())
@settings(max_examples=60)
def test_evidence_equals_the_reference(case: Inputs) -> None:
    found, truth = (kernel.support_evidence(*case[:4]) for kernel in (compiled, reference))
    assert np.isfinite(found).all()
    for what, ours, theirs in zip(("log-odds", "if absent"), found, truth, strict=True):
        assert_close(ours, theirs, what)


@given(inputs())
@settings(max_examples=60)
def test_counts_equal_the_reference(case: Inputs) -> None:
    found, truth = (kernel.support_counts(*case) for kernel in (compiled, reference))
    for what, ours, theirs in zip(("votes", "labels"), found, truth, strict=True):
        assert_close(ours, theirs, what)


@given(inputs())
@settings(max_examples=60)
def test_likelihoods_equal_the_reference(case: Inputs) -> None:
    found, truth = (kernel.support_likelihoods(*case[:4]) for kernel in (compiled, reference))
    assert_close(found, truth, "likelihoods")


@given(inputs(), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0, 1000.0]), st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=60)
def test_step_equals_the_reference(case: Inputs, seed: int, nats: float, known_share: float) -> None:
    rng = np.random.default_rng(seed)
    shape = case.label_probs.shape
    extra = nats * rng.normal(size=shape) if nats else np.empty((0, shape[1]))
    known = np.where(rng.random(shape) < known_share, rng.integers(0, 2, shape), -1).astype(np.int8)
    more = extra, known, rng.uniform(1e-6, 1.0 - 1e-6, shape[1])
    found, truth = (kernel.support_step(*case[:4], *more) for kernel in (compiled, reference))
    for what, ours, theirs in zip(("labels", "log-likelihood", "votes", "supports"), found, truth, strict=True):
        assert_close(ours, theirs, what)


@KERNELS
@given(case=inputs())
@settings(max_examples=20)
def test_every_vote_and_every_judged_label_counts_once(kernel: ModuleType, case: Inputs) -> None:
    votes, labels = kernel.support_counts(*case)
    assert_close(votes.sum(), np.float64(len(case.votes.rows)), "votes")
    by_value = np.bincount(case.votes.rows % 2, minlength=2)
    assert_close(votes.sum(axis=(0, 2)), by_value, "votes by value")
    assert_close(labels.sum(axis=1), has_answers(case).sum(axis=0).astype(np.float64), "labels")


def has_answers(case: Inputs) -> NDArray[np.bool_]:
    """(documents, classes): whether votes, a panel or a classifier say anything about a label."""
    known = np.diff(case.votes.starts).reshape(case.label_probs.shape) > 0
    for table in (case.given.precision, case.given.answers):
        if len(table):
            known |= table != 0.0
    return known


@KERNELS
def test_documents_without_votes_have_no_evidence(kernel: ModuleType) -> None:
    rng = np.random.default_rng(0)
    votes = by_label(random_votes(rng, 5, 3, 2, 0.0), 3, 2)
    prior, nothing = (
        random_prior(rng, 2, 2.5),
        random_evidence(rng, 5, 2, panel=False, answers=False, size=1.0, doubt=0.0),
    )
    probs = random_probs(rng, 3 * 2, 1.0)
    for table in kernel.support_evidence(votes, probs, prior, nothing):
        np.testing.assert_array_equal(table, np.zeros((5, 2)))


@pytest.mark.parametrize("n_votes", [1, 15, 16, 17, 400])
def test_many_votes_on_one_label_do_not_underflow(n_votes: int) -> None:
    """400 votes of probability 1e-6 multiply to 1e-2400."""
    rng = np.random.default_rng(1)
    votes = LabelVotes(np.array([0, n_votes]), (2 * np.arange(n_votes) + np.arange(n_votes) % 2).astype(np.int32))
    yes = np.tile(np.where(np.arange(17) < 8, MIN_PROB, 1.0 - MIN_PROB), (n_votes, 1))
    probs = np.stack((1.0 - yes, yes), axis=1)
    case = (
        votes,
        probs,
        random_prior(rng, 1, 2.5),
        random_evidence(rng, 1, 1, panel=False, answers=False, size=1.0, doubt=0.0),
    )
    found, truth = (kernel.support_evidence(*case) for kernel in (compiled, reference))
    assert truth[1][0, 0] < -0.4 * n_votes * np.log(1.0 / MIN_PROB) + 20.0
    for what, ours, theirs in zip(("log-odds", "if absent"), found, truth, strict=True):
        assert_close(ours, theirs, what)
    counts, true_counts = (kernel.support_counts(*case, np.full((1, 1), 0.3)) for kernel in (compiled, reference))
    for ours, theirs in zip(counts, true_counts, strict=True):
        assert_close(ours, theirs, "counts")


@given(inputs(), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 30.0]))
@settings(max_examples=30)
def test_sums_over_answers_equal_the_reference(case: Inputs, seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    n_labels, n_classes = int(rng.integers(1, 50)), len(case.prior.weights)
    label = rng.integers(0, n_classes, n_labels)
    by_votes = rng.uniform(1e-6, 1.0, (n_labels, 17)) ** 4
    more = label, by_votes, size * rng.normal(size=n_labels), label, rng.normal(size=(n_classes, 3))
    found, truth = (
        kernel.answer_sums(case.prior.points, case.prior.weights, *more) for kernel in (compiled, reference)
    )
    for what, ours, theirs in zip(("log-likelihood", "gradient", "Hessian"), found, truth, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8 * size**2, err_msg=what)


def test_derivatives_of_sums_over_answers_are_those_of_the_log_likelihood() -> None:
    rng = np.random.default_rng(0)
    prior, label = random_prior(rng, 2, 2.5), rng.integers(0, 2, 40)
    more = prior.points, prior.weights, label, rng.uniform(0.01, 1.0, (40, 17)), rng.normal(size=40), label
    point, step = rng.normal(size=(2, 3)), 1e-5
    _, gradient, hessian = compiled.answer_sums(*more, point)
    for c, i in np.ndindex(2, 3):
        change = np.zeros((2, 3))
        change[c, i] = step
        above, below = (compiled.answer_sums(*more, point + sign * change) for sign in (1.0, -1.0))
        assert (above[0] - below[0]) / (2.0 * step) == pytest.approx(gradient[c, i], abs=1e-6)
        np.testing.assert_allclose((above[1] - below[1])[c] / (2.0 * step), hessian[c, i], atol=1e-6)


@given(st.integers(1, 60), st.integers(1, 5), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 5.0]))
@settings(max_examples=40)
def test_robust_centres_equal_the_reference(n_rows: int, n_columns: int, seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    values = spread * rng.normal(size=(n_rows, n_columns)).round(1)
    weights = rng.gamma(0.5, 10.0, values.shape) * (rng.random(values.shape) < 0.7)
    found, truth = (kernel.robust_centres(values, weights, 2.0, 50, 1e-8) for kernel in (compiled, reference))
    assert_close(found, truth, "centres")


@given(st.integers(0, 20), st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_sums_over_traits_equal_the_reference(n_cells: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    votes, slopes, offsets = rng.gamma(0.5, 10.0, (n_cells, 2, 17)), *rng.normal(size=(2, n_cells)) * 5.0
    points = np.linspace(-4, 4, 17)
    found, truth = (kernel.trait_sums(points, votes, slopes, offsets) for kernel in (compiled, reference))
    assert_close(found, truth, "sums")
