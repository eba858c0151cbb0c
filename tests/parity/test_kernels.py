"""Compiled kernels give the same numbers as the NumPy reference, on random inputs of many shapes."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from palda.errors import PaldaError
from palda.kernels import Bags, Beliefs, Labels, PassLimits, ShardResult, Topics, active, compiled, reference
from palda.models.topics import MAX_CONCENTRATION, MIN_CONCENTRATION

Array = NDArray[np.float64]


class Inputs(NamedTuple):
    bags: Bags
    labels: Labels
    topics: Topics
    limits: PassLimits
    beliefs: Beliefs


class JointInputs(NamedTuple):
    bags: Bags
    labels: Labels
    topics: Topics
    limits: PassLimits
    pair_counts: Array


@st.composite
def inputs(draw: st.DrawFn) -> Inputs:
    """Hypothesis draws sizes and options, which it can shrink; numbers come from a seed."""
    rng, bags, labels, topics, limits = draw(anything())
    carried = draw(st.booleans())
    beliefs = random_beliefs(rng, bags, labels.known, topics, len(labels.known) if carried else 0)
    if carried and labels.fixed:  # fixed labels have their final probabilities
        beliefs.label_probs[:] = reference.updated_labels(labels.known, labels.log_odds)
    return Inputs(bags, labels, topics, limits, beliefs)


@st.composite
def joint_inputs(draw: st.DrawFn) -> JointInputs:
    """The same for the joint kernel; S, if given, is gamma-distributed, with some zeros."""
    rng, bags, labels, topics, limits = draw(anything())
    n_classes, _, n_topics = topics.prior.shape
    pair_counts = rng.gamma(1.0, 3.0, (len(labels.known) if draw(st.booleans()) else 0, n_classes, n_topics))
    pair_counts[rng.random(pair_counts.shape) < draw(st.sampled_from([0.0, 0.5]))] = 0.0
    return JointInputs(bags, labels, topics, limits, pair_counts)


@st.composite
def anything(draw: st.DrawFn) -> tuple[np.random.Generator, Bags, Labels, Topics, PassLimits]:
    n_docs, n_classes = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    n_topics, n_words = draw(st.integers(1, 5)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    bags = random_bags(rng, n_docs, n_words, fractional=draw(st.booleans()), most=draw(st.sampled_from([3, 300])))
    topics = Topics(
        np.exp(rng.uniform(np.log(MIN_CONCENTRATION), np.log(MAX_CONCENTRATION), (n_classes, 2, n_topics))),
        random_weights(rng, n_words, n_topics, zero_share=draw(st.sampled_from([0.0, 0.3, 0.8]))),
    )
    known = rng.integers(-1, 2, (n_docs, n_classes)).astype(np.int8)
    unknown_share = draw(st.sampled_from([0.0, 0.5, 1.0]))
    known[rng.random(known.shape) < unknown_share] = -1
    log_odds = rng.normal(size=known.shape) * draw(st.sampled_from([0.0, 1.0, 30.0, 1000.0]))
    labels = Labels(known, np.clip(log_odds, -1e3, 1e3), draw(st.booleans()))
    limits = PassLimits(draw(st.integers(1, 5)), -1.0)  # never converged: both make all passes
    return rng, bags, labels, topics, limits


def random_bags(rng: np.random.Generator, n_docs: int, n_words: int, *, fractional: bool, most: int) -> Bags:
    """Documents with 0 to all distinct words."""
    words = [np.sort(rng.choice(n_words, rng.integers(0, n_words + 1), replace=False)) for _ in range(n_docs)]
    starts = np.concatenate(([0], np.cumsum([len(doc) for doc in words])))
    counts = rng.integers(1, most, starts[-1]).astype(np.float64)
    if fractional:
        counts *= rng.random(len(counts))
    return Bags(starts.astype(np.int64), np.concatenate(words).astype(np.int32), counts)


def random_weights(rng: np.random.Generator, n_words: int, n_topics: int, zero_share: float) -> Array:
    """(words, topics), some of them zero; with many zeros some words have no mass in any topic."""
    weights = rng.dirichlet(np.full(n_words, 0.3), n_topics).T + 1e-12
    weights[rng.random(weights.shape) < zero_share] = 0.0
    return np.ascontiguousarray(weights)


def random_beliefs(
    rng: np.random.Generator, bags: Bags, known: NDArray[np.int8], topics: Topics, n_docs: int
) -> Beliefs:
    n_classes, _, n_topics = topics.prior.shape
    if not n_docs:
        return Beliefs(np.zeros((0, n_classes, 2, n_topics)), np.zeros((0, n_classes)), np.zeros((0, n_classes)))
    evidence = rng.gamma(1.0, 3.0, (n_docs, n_classes, 2, n_topics)) * possible_blocks(known)[..., None]
    return Beliefs(
        topics.prior + evidence,
        rng.dirichlet(np.ones(n_classes), len(bags.words)),
        np.where(known >= 0, known, rng.random(known.shape)),
    )


def possible_blocks(known: NDArray[np.int8]) -> NDArray[np.bool_]:
    """(docs, classes, 2): blocks of possible states; the others keep their prior."""
    return np.stack((known != 1, known != 0), axis=2)


def copied(beliefs: Beliefs) -> Beliefs:
    return Beliefs(*(array.copy() for array in beliefs))


def assert_close(ours: Array, truth: Array, what: str) -> None:
    """Relative error, absolute where the reference is below 1."""
    np.testing.assert_allclose(ours, truth, rtol=1e-10, atol=1e-10, err_msg=what)


def assert_same_result(ours: ShardResult, truth: ShardResult) -> None:
    for name in ("word_counts", "log_theta", "n_blocks", "label_probs", "topic_counts", "bounds"):
        assert_close(getattr(ours, name), getattr(truth, name), name)
    assert (ours.n_passes, ours.n_unconverged) == (truth.n_passes, truth.n_unconverged)


def tokens_with_mass(bags: Bags, topics: Topics, n_docs: int) -> Array:
    """(docs,): tokens whose word belongs to some topic."""
    doc = np.repeat(np.arange(n_docs), np.diff(bags.starts))
    with_mass = topics.word_weights.any(axis=1)[bags.words]
    return np.bincount(doc[with_mass], bags.counts[with_mass], minlength=n_docs)


@settings(deadline=None, max_examples=300, derandomize=True)
@given(inputs())
def test_compiled_equals_reference(given_inputs: Inputs) -> None:
    theirs, ours = copied(given_inputs.beliefs), copied(given_inputs.beliefs)
    truth = reference.mean_field(*given_inputs._replace(beliefs=theirs))
    result = compiled.mean_field(*given_inputs._replace(beliefs=ours))
    assert_same_result(result, truth)
    assert np.isfinite(truth.bounds).all()
    if len(ours.topic_counts):
        possible = possible_blocks(given_inputs.labels.known)
        assert_close(ours.topic_counts[possible], theirs.topic_counts[possible], "topic_counts")
    assert_close(ours.token_class_probs, theirs.token_class_probs, "token_class_probs")
    assert_close(ours.label_probs, theirs.label_probs, "label_probs")


@settings(deadline=None, max_examples=50, derandomize=True)
@given(inputs())
def test_counts_of_topics_and_words_add_up_to_the_words_with_mass(given_inputs: Inputs) -> None:
    bags, _, topics, _, _ = given_inputs
    result = compiled.mean_field(*given_inputs._replace(beliefs=copied(given_inputs.beliefs)))
    per_word = np.bincount(bags.words, bags.counts, minlength=len(topics.word_weights))
    has_mass = topics.word_weights.any(axis=1)
    np.testing.assert_allclose(result.word_counts.sum(axis=1), np.where(has_mass, per_word, 0.0), rtol=1e-12)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(inputs())
def test_topic_counts_of_a_document_are_its_prior_plus_each_word_once(given_inputs: Inputs) -> None:
    bags, labels, topics, _, beliefs = given_inputs
    n_docs = len(labels.known)
    if not len(beliefs.topic_counts):
        beliefs = random_beliefs(np.random.default_rng(0), bags, labels.known, topics, n_docs)
    for kernel in (reference, compiled):
        after = copied(beliefs)
        kernel.mean_field(*given_inputs._replace(beliefs=after))
        added = np.where(possible_blocks(labels.known)[..., None], after.topic_counts - topics.prior, 0.0)
        n_tokens = tokens_with_mass(bags, topics, n_docs)
        np.testing.assert_allclose(added.sum(axis=(1, 2, 3)), n_tokens, rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(inputs())
def test_label_probabilities_are_in_range_and_observed_labels_are_kept(given_inputs: Inputs) -> None:
    known = given_inputs.labels.known
    result = compiled.mean_field(*given_inputs._replace(beliefs=copied(given_inputs.beliefs)))
    assert ((result.label_probs >= 0) & (result.label_probs <= 1)).all()
    np.testing.assert_array_equal(result.label_probs[known >= 0], known[known >= 0])


@settings(deadline=None, max_examples=60, derandomize=True)
@given(inputs())
def test_kernels_converge_after_the_same_number_of_passes(given_inputs: Inputs) -> None:
    many_passes = given_inputs._replace(limits=PassLimits(40, 1e-3))
    truth = reference.mean_field(*many_passes._replace(beliefs=copied(given_inputs.beliefs)))
    result = compiled.mean_field(*many_passes._replace(beliefs=copied(given_inputs.beliefs)))
    assert (result.n_passes, result.n_unconverged) == (truth.n_passes, truth.n_unconverged)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(joint_inputs(), st.booleans())
def test_classes_known_to_be_absent_share_one_block_without_a_change_of_any_result(
    given_inputs: JointInputs, carried: bool
) -> None:
    """The reference computes a block per class; with equal priors and equal starts all of them stay equal."""
    topics, known = given_inputs.topics, given_inputs.labels.known
    topics.prior[:, 0] = topics.prior[0, 0]
    n_classes, _, n_topics = topics.prior.shape
    first = np.random.default_rng(0).gamma(1.0, 3.0, (len(known), n_classes, n_topics))
    absent = (known == 0)[:, :, None]
    first = np.where(absent, first[:, :1], first) if carried else first[:0]
    theirs, ours = first.copy(), first.copy()
    shared = given_inputs._replace(topics=topics._replace(shared_absence=True))
    truth = reference.joint(*shared._replace(pair_counts=theirs))
    result = compiled.joint(*shared._replace(pair_counts=ours))
    assert_same_result(over_absences(result), over_absences(truth))
    assert_close(ours, theirs, "pair_counts")


def over_absences(result: ShardResult) -> ShardResult:
    """The result with the blocks of absent classes added up."""
    log_theta, n_blocks = result.log_theta.copy(), result.n_blocks.copy()
    log_theta[:, 0], n_blocks[:, 0] = log_theta[:, 0].sum(axis=0), n_blocks[:, 0].sum()
    return result._replace(log_theta=log_theta, n_blocks=n_blocks)


@settings(deadline=None, max_examples=300, derandomize=True)
@given(joint_inputs())
def test_compiled_joint_equals_reference_joint(given_inputs: JointInputs) -> None:
    theirs, ours = given_inputs.pair_counts.copy(), given_inputs.pair_counts.copy()
    truth = reference.joint(*given_inputs._replace(pair_counts=theirs))
    result = compiled.joint(*given_inputs._replace(pair_counts=ours))
    assert_same_result(result, truth)
    assert np.isfinite(truth.bounds).all()
    assert_close(ours, theirs, "pair_counts")


@settings(deadline=None, max_examples=100, derandomize=True)
@given(joint_inputs())
def test_joint_kernels_converge_after_the_same_number_of_passes(given_inputs: JointInputs) -> None:
    many_passes = given_inputs._replace(limits=PassLimits(40, 1e-3))
    truth = reference.joint(*many_passes._replace(pair_counts=given_inputs.pair_counts.copy()))
    result = compiled.joint(*many_passes._replace(pair_counts=given_inputs.pair_counts.copy()))
    assert (result.n_passes, result.n_unconverged) == (truth.n_passes, truth.n_unconverged)


@settings(deadline=None, max_examples=200, derandomize=True)
@given(joint_inputs(), st.integers(1, 15), st.sampled_from([1e-1, 1e-2, 1e-3]))
def test_compiled_joint_equals_reference_joint_with_extrapolation(
    given_inputs: JointInputs, max_passes: int, tolerance: float
) -> None:
    extrapolating = given_inputs._replace(limits=PassLimits(max_passes, tolerance, extrapolate=True))
    theirs, ours = given_inputs.pair_counts.copy(), given_inputs.pair_counts.copy()
    truth = reference.joint(*extrapolating._replace(pair_counts=theirs))
    result = compiled.joint(*extrapolating._replace(pair_counts=ours))
    assert result.n_passes <= max_passes * len(given_inputs.labels.known)
    assert_same_result(result, truth)
    assert_close(ours, theirs, "pair_counts")


@settings(deadline=None, max_examples=50, derandomize=True)
@given(joint_inputs())
def test_joint_statistics_add_up_to_the_tokens_with_mass_and_to_the_documents(given_inputs: JointInputs) -> None:
    bags, labels, topics, _, pair_counts = given_inputs
    n_docs = len(labels.known)
    per_word = np.bincount(bags.words, bags.counts, minlength=len(topics.word_weights))
    has_mass = topics.word_weights.any(axis=1)
    n_tokens = tokens_with_mass(bags, topics, n_docs)
    extrapolating = PassLimits(9, 1e-3, extrapolate=True)
    for kernel, limits in product((reference, compiled), (given_inputs.limits, extrapolating)):
        after = pair_counts.copy()
        result = kernel.joint(*given_inputs._replace(pair_counts=after, limits=limits))
        np.testing.assert_allclose(result.word_counts.sum(axis=1), np.where(has_mass, per_word, 0.0), rtol=1e-12)
        np.testing.assert_allclose(result.topic_counts.sum(axis=1), n_tokens, rtol=1e-12)
        np.testing.assert_allclose(result.word_counts.sum(axis=0), result.topic_counts.sum(axis=0), rtol=1e-9)
        np.testing.assert_allclose(result.n_blocks.sum(axis=1), n_docs, rtol=1e-12)
        np.testing.assert_allclose(result.n_blocks[:, 1], result.label_probs.sum(axis=0), rtol=1e-12)
        if len(after):
            np.testing.assert_allclose(after.sum(axis=1), result.topic_counts, rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(joint_inputs())
def test_joint_label_probabilities_are_in_range_and_observed_labels_are_kept(given_inputs: JointInputs) -> None:
    known = given_inputs.labels.known
    for kernel in (reference, compiled):
        probs = kernel.joint(*given_inputs._replace(pair_counts=given_inputs.pair_counts.copy())).label_probs
        assert ((probs >= 0) & (probs <= 1)).all()
        np.testing.assert_array_equal(probs[known >= 0], known[known >= 0])


def test_palda_kernel_selects_the_kernel_and_an_unknown_value_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PALDA_KERNEL", "reference")
    assert active() is reference
    monkeypatch.setenv("PALDA_KERNEL", "compiled")
    assert active() is compiled
    monkeypatch.setenv("PALDA_KERNEL", "fast")
    with pytest.raises(PaldaError, match="'compiled' or 'reference'"):
        active()
