"""Joint inference, q(λ) q(θ | λ) q(u, z): its updates, and its bound above that of the published mean field."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import digamma, expit, gammaln

from palda.kernels import MIN_WORD_WEIGHT, Bags, Beliefs, Labels, PassLimits, ShardResult, Topics, compiled, reference

Array = NDArray[np.float64]

ONE_PASS = PassLimits(max_passes=1, tolerance=-1.0)
SETTLED = PassLimits(max_passes=300, tolerance=1e-9)
KERNELS = pytest.mark.parametrize("kernel", [compiled, reference], ids=["compiled", "reference"])
LABELS = pytest.mark.parametrize("labels", ["observed", "partly", "unknown"])
SEEDS = range(25)


class World(NamedTuple):
    bags: Bags
    labels: Labels
    topics: Topics


def make_world(seed: int, labels: str = "partly", n_docs: int = 4) -> World:
    rng = np.random.default_rng(seed)
    n_classes, n_topics, n_words = rng.integers(2, 5), rng.integers(2, 6), rng.integers(3, 12)
    words = [np.sort(rng.choice(n_words, rng.integers(1, n_words + 1), replace=False)) for _ in range(n_docs)]
    starts = np.concatenate(([0], np.cumsum([len(doc) for doc in words])))
    bags = Bags(starts, np.concatenate(words).astype(np.int32), rng.integers(1, 9, starts[-1]).astype(np.float64))
    known = rng.integers(0, 2, (n_docs, n_classes)).astype(np.int8)
    known[rng.random(known.shape) < {"observed": 0.0, "partly": 0.5, "unknown": 1.0}[labels]] = -1
    topics = Topics(
        np.exp(rng.uniform(np.log(0.02), np.log(20.0), (n_classes, 2, n_topics))),
        np.ascontiguousarray(rng.dirichlet(np.full(n_words, 0.5), n_topics).T),
    )
    return World(bags, Labels(known, rng.normal(size=known.shape)), topics)


def fresh(topics: Topics) -> Array:
    n_classes, _, n_topics = topics.prior.shape
    return np.zeros((0, n_classes, n_topics))


def run(kernel: object, world: World, stopping: PassLimits = SETTLED, pair_counts: Array | None = None) -> ShardResult:
    S = fresh(world.topics) if pair_counts is None else pair_counts
    result: ShardResult = kernel.joint(*world, stopping, S)  # type: ignore[attr-defined]
    return result


def random_pair_counts(world: World, seed: int = 0) -> Array:
    n_classes, _, n_topics = world.topics.prior.shape
    return np.random.default_rng(seed).gamma(1.0, 2.0, (len(world.labels.known), n_classes, n_topics))


def log_beta(rows: Array) -> Array:
    result: Array = gammaln(rows).sum(axis=-1) - gammaln(rows.sum(axis=-1))
    return result


# Above the published family.


def mean_field_solution(world: World, d: int) -> tuple[reference.Document, reference.Belief]:
    _, document = reference.document_of(*world, d)
    start = reference.fresh_start(document, world.topics.prior)
    return document, reference.run_passes(document, world.topics.prior, SETTLED, *start)


@LABELS
def test_with_the_same_labels_and_topic_distributions_each_larger_family_has_the_higher_bound(labels: str) -> None:
    """q(u) q(z) is a special case of q(u, z), and KL(q(θ_ij)) counts only when class i is in state j."""
    gains = []
    for seed in SEEDS:
        world = make_world(seed, labels, n_docs=1)
        document, q = mean_field_solution(world, 0)
        published = reference.document_bound(document, world.topics.prior, q)
        expected = reference.expected_log(q.gamma)
        _, log_norms = reference.token_probs_of(reference.mixed_states(expected, q.Delta), document.weights)
        of_tokens = document.counts @ (log_norms - np.log(len(q.Delta)))
        of_labels = q.Delta @ document.log_odds + reference.binary_entropy(q.Delta).sum()
        divergence = reference.dirichlet_divergence(q.gamma, world.topics.prior, expected)
        paid_always = divergence[reference.counted_blocks(document.known)].sum()
        paid_if_so = np.sum(reference.states(q.Delta) * divergence)
        tokens_together = of_tokens - paid_always + of_labels
        labels_too = of_tokens - paid_if_so + of_labels
        assert published <= tokens_together + 1e-9
        assert tokens_together <= labels_too + 1e-9
        gains.append(labels_too - published)
    assert np.mean(gains) > 0.1


@KERNELS
@LABELS
def test_one_joint_pass_from_the_mean_field_solution_does_not_lower_the_bound(kernel: object, labels: str) -> None:
    gains = []
    for seed in SEEDS:
        world = make_world(seed, labels, n_docs=1)
        document, q = mean_field_solution(world, 0)
        after = run(kernel, world, ONE_PASS, q.pair_counts[None].copy()).bounds[0]
        gains.append(after - reference.document_bound(document, world.topics.prior, q))
    assert min(gains) >= -1e-9
    assert np.mean(gains) > 0.1


@KERNELS
def test_no_pass_lowers_the_bound_of_any_document(kernel: object) -> None:
    for seed in SEEDS[:8]:
        world = make_world(seed)
        pair_counts = random_pair_counts(world)
        bounds = np.array([run(kernel, world, ONE_PASS, pair_counts).bounds for _ in range(30)])
        assert np.diff(bounds, axis=0).min() >= -1e-9
        assert (bounds[-1] > bounds[0]).all()


@KERNELS
def test_many_passes_equal_one_pass_repeated(kernel: object) -> None:
    world = make_world(3)
    step_by_step, at_once = random_pair_counts(world), random_pair_counts(world)
    for _ in range(7):
        last = run(kernel, world, ONE_PASS, step_by_step)
    whole = run(kernel, world, PassLimits(7, -1.0), at_once)
    np.testing.assert_allclose(at_once, step_by_step, rtol=1e-12)
    np.testing.assert_allclose(whole.bounds, last.bounds, rtol=1e-12)


@KERNELS
def test_extrapolation_begins_with_the_fifth_pass_and_saves_passes_at_no_loss(kernel: object) -> None:
    plain, extrapolated, lost = 0, 0, []
    for seed in SEEDS:
        world = make_world(seed, "observed")
        for max_passes in (4, 5):
            without, with_it = (
                run(kernel, world, PassLimits(max_passes, 1e-6, extrapolate)) for extrapolate in (False, True)
            )
            assert np.array_equal(without.bounds, with_it.bounds) == (max_passes == 4)
        without, with_it = (run(kernel, world, PassLimits(200, 1e-4, on)) for on in (False, True))
        plain, extrapolated = plain + without.n_passes, extrapolated + with_it.n_passes
        lost.append((without.bounds - with_it.bounds) / np.abs(without.bounds))
    assert extrapolated < 0.8 * plain
    assert np.mean(lost) < 1e-5


# What a pass computes, written once more from the formulas.


@KERNELS
def test_labels_follow_from_the_beta_functions_of_the_counts(kernel: object) -> None:
    world = make_world(1, "unknown")
    S, alpha = random_pair_counts(world), world.topics.prior
    said = log_beta(alpha + S[:, :, None, :]) - log_beta(alpha)
    expected = expit(world.labels.log_odds + said[:, :, 1] - said[:, :, 0])
    np.testing.assert_allclose(run(kernel, world, ONE_PASS, S).label_probs, expected, rtol=1e-10)


@KERNELS
def test_a_pass_counts_each_block_by_the_probability_of_its_state(kernel: object) -> None:
    world = make_world(2)
    S, alpha = random_pair_counts(world), world.topics.prior
    gamma = alpha + S[:, :, None, :]
    result = run(kernel, world, ONE_PASS, S)
    weights = np.stack((1 - result.label_probs, result.label_probs), axis=2)
    log_theta = np.einsum("dij,dijt->ijt", weights, digamma(gamma) - digamma(gamma.sum(axis=-1, keepdims=True)))
    np.testing.assert_allclose(result.log_theta, log_theta, rtol=1e-10)
    np.testing.assert_allclose(result.n_blocks, weights.sum(axis=0), rtol=1e-12)


@KERNELS
def test_converged_counts_are_a_fixed_point(kernel: object) -> None:
    world = make_world(5)
    S = random_pair_counts(world)
    run(kernel, world, PassLimits(3000, 1e-12), S)
    again = S.copy()
    run(kernel, world, ONE_PASS, again)
    np.testing.assert_allclose(again, S, rtol=1e-6, atol=1e-8)


@KERNELS
def test_a_document_starts_with_its_topic_distributions_at_their_prior_means(kernel: object) -> None:
    """The first S of a document is that of θ = E[θ]."""
    world = make_world(6)
    probs = np.where(world.labels.known >= 0, world.labels.known, expit(world.labels.log_odds))
    means = world.topics.prior / world.topics.prior.sum(axis=2, keepdims=True)
    theta = probs[:, :, None] * means[:, 1] + (1 - probs)[:, :, None] * means[:, 0]
    S = np.zeros((len(probs), *theta.shape[1:]))
    for d in range(len(probs)):
        for n in range(world.bags.starts[d], world.bags.starts[d + 1]):
            claims = theta[d] * world.topics.word_weights[world.bags.words[n]]
            S[d] += world.bags.counts[n] * claims / claims.sum()
    given = run(kernel, world, ONE_PASS, S)
    np.testing.assert_allclose(run(kernel, world, ONE_PASS).bounds, given.bounds, rtol=1e-10)
    np.testing.assert_allclose(run(kernel, world, ONE_PASS).label_probs, given.label_probs, rtol=1e-9)


# Labels that are given, documents and words that say nothing.


@KERNELS
def test_words_do_not_change_fixed_labels(kernel: object) -> None:
    world = make_world(7, "unknown")
    fixed = world._replace(labels=world.labels._replace(fixed=True))
    np.testing.assert_allclose(run(kernel, fixed).label_probs, expit(world.labels.log_odds), rtol=1e-12)
    assert np.abs(run(kernel, world).label_probs - expit(world.labels.log_odds)).max() > 0.1


@KERNELS
def test_extreme_log_odds_equal_an_observed_label(kernel: object) -> None:
    world = make_world(8, "observed")
    known = world.labels.known
    certain = Labels(np.full_like(known, -1), np.where(known == 1, 400.0, -400.0), fixed=True)
    observed, fixed = run(kernel, world), run(kernel, world._replace(labels=certain))
    for name in ("label_probs", "topic_counts", "word_counts", "n_blocks", "log_theta"):
        np.testing.assert_allclose(getattr(fixed, name), getattr(observed, name), rtol=1e-6, atol=1e-9, err_msg=name)


@KERNELS
def test_without_words_labels_follow_the_log_odds_and_the_bound_is_exact(kernel: object) -> None:
    world = make_world(9, "unknown")
    n_docs = len(world.labels.known)
    wordless = world._replace(bags=Bags(np.zeros(n_docs + 1, dtype=np.int64), np.zeros(0, np.int32), np.zeros(0)))
    result = run(kernel, wordless)
    np.testing.assert_allclose(result.label_probs, expit(world.labels.log_odds), rtol=1e-12)
    np.testing.assert_allclose(result.bounds, np.logaddexp(0.0, world.labels.log_odds).sum(axis=1), rtol=1e-12)
    assert not result.topic_counts.any()
    assert not result.word_counts.any()
    assert result.n_unconverged == 0


@KERNELS
@pytest.mark.parametrize("weight", [0.0, MIN_WORD_WEIGHT])
def test_a_word_of_no_topic_is_ignored(kernel: object, weight: float) -> None:
    world = make_world(10)
    weights = world.topics.word_weights.copy()
    weights[0] = weight
    weightless = world._replace(topics=world.topics._replace(word_weights=weights))
    kept = world.bags.words != 0
    doc = np.repeat(np.arange(len(world.labels.known)), np.diff(world.bags.starts))
    starts = np.concatenate(([0], np.cumsum(np.bincount(doc[kept], minlength=len(world.labels.known)))))
    shorter = weightless._replace(bags=Bags(starts, world.bags.words[kept], world.bags.counts[kept]))
    assert not kept.all()
    for ours, theirs in zip(run(kernel, weightless), run(kernel, shorter), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@KERNELS
def test_the_rarest_word_of_the_most_unlikely_topic_still_counts(kernel: object) -> None:
    """The smallest α and a weight just above the minimum give the smallest norm; it does not underflow."""
    prior = np.array([[[100.0, 5e-3], [100.0, 5e-3]]])
    weights = np.array([[1.0, 0.0], [0.0, 2 * MIN_WORD_WEIGHT]])
    bags = Bags(np.array([0, 2]), np.array([0, 1], dtype=np.int32), np.array([1e6, 1.0]))
    world = World(bags, Labels(np.array([[1]], dtype=np.int8), np.zeros((1, 1))), Topics(prior, weights))
    S = np.array([[[1e6, 0.0]]])
    result = run(kernel, world, ONE_PASS, S)
    np.testing.assert_allclose(result.topic_counts, [[1e6, 1.0]], rtol=1e-9)
    assert np.isfinite(result.bounds).all()


@KERNELS
def test_with_one_class_and_observed_labels_both_families_are_equal(kernel: object) -> None:
    """With one class q(u) is certain, and with its label observed so is q(λ): both are plain LDA."""
    world = make_world(12, "observed")
    one = World(
        world.bags,
        Labels(world.labels.known[:, :1].copy(), world.labels.log_odds[:, :1].copy()),
        Topics(world.topics.prior[:1].copy(), world.topics.word_weights),
    )
    n_topics = one.topics.prior.shape[2]
    nothing = Beliefs(np.zeros((0, 1, 2, n_topics)), np.zeros((0, 1)), np.zeros((0, 1)))
    thorough = PassLimits(2000, 1e-11)
    published = compiled.mean_field(*one, thorough, nothing)
    np.testing.assert_allclose(run(kernel, one, thorough).bounds, published.bounds, rtol=1e-6)
