from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palda import simulate
from palda.errors import DataError
from palda.simulate import document_sampling

CLASS_PRIOR = np.array([0.2, 0.5, 0.7])
TOPIC_PRIOR = np.array(
    [
        [[1.0, 1.0, 2.0, 4.0], [6.0, 0.5, 0.5, 1.0]],
        [[2.0, 1.0, 1.0, 4.0], [0.5, 6.0, 0.5, 1.0]],
        [[1.0, 2.0, 1.0, 4.0], [0.5, 0.5, 6.0, 1.0]],
    ]
)
TOPIC_WORDS = np.array(
    [[0.7, 0.1, 0.1, 0.1, 0.0], [0.1, 0.7, 0.1, 0.1, 0.0], [0.1, 0.1, 0.8, 0.0, 0.0], [0.0, 0.1, 0.1, 0.3, 0.5]]
)


def known_documents(n_docs: int = 4000, **options: object) -> simulate.SimulatedDocuments:
    options = {"class_prior": CLASS_PRIOR, "topic_prior": TOPIC_PRIOR, "topic_words": TOPIC_WORDS, **options}
    return simulate.documents(n_docs, 3, 4, 5, doc_length=30, seed=1, **options)


def random_labels(n_docs: int, n_classes: int = 6) -> np.ndarray:
    return (np.random.default_rng(5).random((n_docs, n_classes)) < 0.3).astype(np.int8)


def standard_errors(observed: np.ndarray, rate: np.ndarray, n: np.ndarray | int) -> np.ndarray:
    return np.abs(observed - rate) / np.sqrt(np.maximum(rate * (1 - rate), 1e-4) / n)


# documents


def test_classes_are_present_at_their_rates():
    labels = known_documents().labels
    assert labels.dtype == np.int8
    assert set(np.unique(labels)) == {0, 1}
    assert standard_errors(labels.mean(axis=0), CLASS_PRIOR, len(labels)).max() < 4


def test_topics_follow_the_labels_as_the_prior_says():
    simulated = known_documents()
    mean_mix = TOPIC_PRIOR / TOPIC_PRIOR.sum(axis=2, keepdims=True)
    for labelling in np.unique(simulated.labels, axis=0):
        same = (simulated.labels == labelling).all(axis=1)
        expected = mean_mix[np.arange(3), labelling].mean(axis=0)
        shares = simulated.tokens_per_topic[same] / 30
        error = shares.std(axis=0) / np.sqrt(same.sum())
        assert (np.abs(shares.mean(axis=0) - expected) < 4.5 * error).all()


def test_topic_counts_have_the_variance_of_a_dirichlet_multinomial():
    # one class, always present: token counts are Dirichlet-multinomial with a known variance
    prior = np.array([[[1.0, 1.0, 1.0], [2.0, 1.0, 0.5]]])
    simulated = simulate.documents(
        20_000, 1, 3, 3, doc_length=20, seed=3, class_prior=1.0, topic_prior=prior, topic_words=np.eye(3)
    )
    total, mean = 3.5, prior[0, 1] / 3.5
    variance = 20 * mean * (1 - mean) * (20 + total) / (1 + total)
    np.testing.assert_allclose(simulated.tokens_per_topic.var(axis=0), variance, rtol=0.05)


def test_words_follow_their_topics():
    simulated = known_documents()
    expected = simulated.tokens_per_topic.sum(axis=0) @ TOPIC_WORDS
    observed = simulated.corpus.counts.sum(axis=0)
    assert (np.abs(observed - expected) < 4 * np.sqrt(expected)).all()
    assert observed.sum() == 4000 * 30


def test_a_word_without_probability_never_occurs():
    words = TOPIC_WORDS.copy()
    words[3] = [0.0, 0.2, 0.2, 0.6, 0.0]
    counts = known_documents(500, topic_words=words).corpus.counts.toarray()
    assert counts[:, 4].sum() == 0
    only_second = np.tile([0.0, 1.0, 0.0, 0.0, 0.0], (4, 1))
    assert known_documents(50, topic_words=only_second).corpus.counts.toarray()[:, 1].tolist() == [30] * 50


@pytest.mark.parametrize(("uniform", "drawn"), [(0.0, [1, 0]), (np.nextafter(1.0, 0.0), [2, 1])])
def test_uniform_numbers_at_0_and_almost_1_draw_only_columns_with_probability(uniform, drawn):
    class Fixed:
        def random(self, size: int) -> np.ndarray:
            return np.full(size, uniform)

    cumulative = document_sampling._cumulative_rows(np.array([[0.0, 0.5, 0.5], [0.2, 0.8, 0.0]]))
    assert document_sampling._draw_columns(cumulative, np.array([0, 1]), Fixed()).tolist() == drawn


def test_fixed_lengths_are_exact_and_poisson_lengths_vary_around_the_mean():
    fixed = simulate.documents(50, 2, 3, 20, doc_length=17, seed=0)
    assert set(fixed.corpus.counts.sum(axis=1)) == {17}
    varied = simulate.documents(3000, 2, 3, 20, doc_length=17, lengths="poisson", seed=0).corpus.counts.sum(axis=1)
    assert abs(varied.mean() - 17) < 4 * np.sqrt(17 / 3000)
    assert varied.var() == pytest.approx(17, rel=0.15)
    own = simulate.documents(3, 2, 3, 20, doc_length=[5, 0, 9], seed=0).corpus.counts.sum(axis=1)
    assert own.tolist() == [5, 0, 9]
    assert (fixed.tokens_per_topic.sum(axis=1) == 17).all()


def test_tiny_dirichlet_parameters_give_one_topic_per_document_and_no_nan():
    prior = np.full((1, 2, 4), 1e-5)
    simulated = simulate.documents(300, 1, 4, 8, doc_length=10, seed=0, topic_prior=prior)
    assert set(simulated.tokens_per_topic.max(axis=1)) == {10}
    assert (simulated.tokens_per_topic > 0).sum(axis=0).min() > 30  # every topic occurs


def test_drawn_classes_have_topics_of_their_own_and_topics_overlap():
    simulated = simulate.documents(5, 6, 21, 300, seed=2)
    mix = simulated.topic_prior / simulated.topic_prior.sum(axis=2, keepdims=True)
    main = [set(np.argsort(row)[-2:]) for row in mix[:, 1]]
    assert len(set.union(*main)) == 12  # six classes, two topics each, none shared
    assert (mix[:, 0, :14].sum(axis=1) < 0.1).all()  # absent classes use the last third
    np.testing.assert_allclose(simulated.topic_prior.sum(axis=2), 10.0)
    overlap = np.minimum(simulated.topic_words[:, None], simulated.topic_words[None]).sum(axis=2)[
        np.triu_indices(21, 1)
    ]
    assert overlap.max() < 0.6
    assert overlap.min() > 0.01
    assert ((simulated.class_prior >= 0.15) & (simulated.class_prior <= 0.45)).all()


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
@settings(deadline=None, max_examples=25)
def test_documents_of_any_size_can_be_drawn(n_classes, n_topics, n_words):
    simulated = simulate.documents(4, n_classes, n_topics, n_words, doc_length=3, seed=0)
    assert simulated.corpus.counts.shape == (4, n_words)
    assert simulated.labels.shape == (4, n_classes)
    assert simulated.topic_prior.shape == (n_classes, 2, n_topics)
    np.testing.assert_allclose(simulated.topic_words.sum(axis=1), 1.0)


def test_profiles_make_classes_occur_in_sets():
    sets = np.array([[0.9, 0.9, 0.1], [0.0, 0.1, 0.9]])
    simulated = known_documents(class_prior=sets, profile_weights=[0.25, 0.75])
    np.testing.assert_allclose(simulated.class_prior, [0.225, 0.3, 0.7])
    both = (simulated.labels[:, 0] & simulated.labels[:, 1]).mean()
    assert both == pytest.approx(0.25 * 0.81, abs=0.03)
    assert standard_errors(simulated.labels.mean(axis=0), simulated.class_prior, 4000).max() < 4


def test_equal_seeds_give_equal_documents():
    one, again, other = (simulate.documents(40, 3, 6, 30, seed=seed) for seed in (4, 4, 5))
    assert one == again
    assert (one.corpus.counts != other.corpus.counts).nnz > 0
    assert not np.array_equal(one.topic_words, other.topic_words)


def test_a_given_parameter_does_not_change_the_drawn_ones():
    drawn = simulate.documents(5, 3, 6, 30, seed=4)
    given_rates = simulate.documents(5, 3, 6, 30, seed=4, class_prior=0.5)
    np.testing.assert_array_equal(drawn.topic_words, given_rates.topic_words)
    np.testing.assert_array_equal(drawn.topic_prior, given_rates.topic_prior)


def test_documents_and_votes_drawn_in_blocks_have_the_right_rates(monkeypatch):
    monkeypatch.setattr(document_sampling, "_BLOCK_CELLS", 640)  # blocks of ten documents
    simulated = known_documents(1005)
    assert set(simulated.corpus.counts.sum(axis=1)) == {30}
    assert standard_errors(simulated.labels.mean(axis=0), CLASS_PRIOR, 1005).max() < 4
    votes, people = simulate.crowd(simulated, [0.8] * 4, votes_per_doc=2, seed=0)
    assert votes.per_pair().tolist() == [[2] * 3] * 1005
    agreement = (votes.value == simulated.labels[votes.doc, votes.label]).mean()
    assert standard_errors(agreement, people.quality[0], len(votes)) < 4


def test_a_model_draws_more_documents_from_the_same_parameters():
    train = simulate.documents(20, 3, 6, 30, seed=0)
    test = train.model.documents(10, seed=1, doc_ids=[f"t{i}" for i in range(10)])
    assert test.model == train.model
    assert test.doc_ids[0] == "t0"
    assert not np.array_equal(test.labels, train.labels[:10])


def test_texts_are_kept_only_with_texts_true():
    with pytest.raises(DataError, match="texts=True"):
        _ = simulate.documents(3, 2, 3, 20, seed=0).documents
    simulated = simulate.documents(3, 2, 3, 20, seed=0, texts=True)
    words = simulated.documents[0].split()
    assert len(words) == 80
    row = simulated.corpus.counts.toarray()[0]
    assert {f"w{i}": n for i, n in enumerate(row) if n} == {word: words.count(word) for word in words}


def test_simulated_arrays_are_copies_and_read_only():
    mine = TOPIC_WORDS.copy()
    simulated = known_documents(3, topic_words=mine)
    mine[:] = 0
    np.testing.assert_array_equal(simulated.topic_words, TOPIC_WORDS)
    with pytest.raises(ValueError, match="read-only"):
        simulated.labels[0, 0] = 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topic_words": TOPIC_WORDS[:3]}, r"topic_words must have shape \(4, 5\) here, not \(3, 5\)"),
        ({"topic_words": TOPIC_WORDS * 2}, "every row of topic_words must be probabilities that sum to 1"),
        ({"topic_prior": TOPIC_PRIOR[:, 1]}, "topic_prior must have shape"),
        ({"topic_prior": TOPIC_PRIOR * 0}, "positive numbers only"),
        ({"class_prior": [0.1, 0.2, 1.2]}, "class_prior must lie between 0 and 1, but one is 1.2"),
        ({"class_prior": ["a", "b", "c"]}, "class_prior must be numbers"),
        ({"class_prior": [[0.1] * 3] * 2}, "together"),
        ({"profile_weights": [1.0]}, "together"),
        ({"class_prior": [[0.1] * 3] * 2, "profile_weights": [0.5, 0.6]}, "profile_weights must be probabilities"),
        ({"lengths": "gamma"}, "lengths must be one of 'fixed', 'poisson', not 'gamma'"),
        ({"emphasis": 1}, "emphasis must be a number from 0 to 0.999, not 1"),
        ({"word_concentration": 0}, "word_concentration must be a number from 1e-06"),
        ({"topics_per_class": 0}, "topics_per_class must be an integer of at least 1, not 0"),
    ],
)
def test_invalid_parameters_are_refused_by_name(change, message):
    with pytest.raises(DataError, match=message):
        known_documents(3, **change)


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((0, 2, 3, 4), {}, "n_docs must be an integer of at least 1, not 0"),
        ((5, 2, 3, 4.5), {}, "n_words must be an integer of at least 1, not 4.5"),
        ((5, 2, 3, 4), {"seed": -1}, "seed must be an integer of at least 0, not -1"),
        ((5, 2, 3, 4), {"doc_length": 2.5}, "whole number of tokens"),
        ((5, 2, 3, 4), {"doc_length": -1, "lengths": "poisson"}, "doc_length"),
        ((5, 2, 3, 4), {"doc_length": [1, 2]}, "one for each of 5 documents"),
    ],
)
def test_invalid_sizes_are_refused_by_name(sizes, options, message):
    with pytest.raises(DataError, match=message):
        simulate.documents(*sizes, **options)


# votes


@pytest.mark.parametrize("behaviour", ["one_coin", "two_coin", "per_class"])
def test_votes_agree_with_the_truth_at_the_annotators_rates(behaviour):
    labels = random_labels(6000, 3)
    people = simulate.annotators("adversarial", n_classes=3, seed=2, behaviour=behaviour)
    votes = simulate.votes(labels, people, votes_per_doc=10, seed=2)
    truth = labels[votes.doc, votes.label]
    cell = votes.annotator * 3 + votes.label
    for state, rates in ((1, people.sensitivity), (0, people.specificity)):
        given_state = truth == state
        n = np.bincount(cell[given_state], minlength=150)
        agreed = np.bincount(cell[given_state], votes.value[given_state] == state, minlength=150)
        assert n.min() > 200
        assert standard_errors(agreed / n, rates.ravel(), n).max() < 4.5


def test_adversaries_are_wrong_in_at_least_nine_of_ten_votes():
    labels = random_labels(2000)
    votes, people = simulate.crowd(labels, "adversarial", seed=0)
    right = votes.value == labels[votes.doc, votes.label]
    share = np.bincount(votes.annotator, right) / votes.per_annotator()
    assert (share[people.kinds == "adversary"] < 0.13).all()
    assert (share[people.kinds == "honest"] > 0.45).all()


@pytest.mark.parametrize(("answer", "said"), [("no", [{0}, {0}, {0}]), ("yes", [{1}] * 3), ("mixed", [{0}, {1}, {0}])])
def test_spammers_give_constant_answers(answer, said):
    people = simulate.annotators([0.8] * 3, n_classes=6, seed=0, n_spammers=3, spammer_answer=answer)
    assert people.kinds.tolist() == ["honest"] * 3 + ["spammer"] * 3
    assert people.quality[3:].tolist() == [0.5] * 3
    votes = simulate.votes(random_labels(200), people, votes_per_doc=4, seed=0)
    assert [set(votes.value[votes.annotator == who]) for who in (3, 4, 5)] == said


def test_every_document_gets_distinct_annotators_chosen_uniformly():
    people = simulate.annotators("paper", n_classes=6, seed=0)
    votes = simulate.votes(random_labels(3000), people, votes_per_doc=5, seed=0)
    looks = np.unique(np.column_stack((votes.doc, votes.annotator)), axis=0)
    assert np.bincount(looks[:, 0]).tolist() == [5] * 3000
    assert len(votes) == 3000 * 5 * 6
    per_annotator = np.bincount(looks[:, 1], minlength=50)
    assert standard_errors(per_annotator / 3000, np.full(50, 0.1), 3000).max() < 4


@given(st.integers(1, 7), st.data())
@settings(deadline=None, max_examples=30)
def test_votes_are_sorted_and_unique_for_all_options(n_annotators, data):
    per_doc = data.draw(st.integers(1, n_annotators))
    partial = data.draw(st.sampled_from([{}, {"pair_share": 0.4}, {"pairs_per_vote": 2}]))
    people = simulate.annotators([0.7] * n_annotators, n_classes=6, seed=0)
    votes = simulate.votes(random_labels(30), people, votes_per_doc=per_doc, seed=1, **partial)
    key = (votes.doc.astype(int) * n_annotators + votes.annotator) * 6 + votes.label
    assert (np.diff(key) > 0).all()
    assert (votes.doc.dtype, votes.annotator.dtype, votes.label.dtype, votes.value.dtype) == (
        np.int32, np.int32, np.int32, np.int8,
    )  # fmt: skip


def test_a_fraction_of_the_crowd_equals_the_number_of_votes():
    labels = random_labels(40)
    people = simulate.annotators("paper", n_classes=6, seed=0)
    assert simulate.votes(labels, people, fraction=0.1, seed=3) == simulate.votes(labels, people, seed=3)
    everybody = simulate.votes(labels, people, fraction=1, seed=3)
    assert everybody.per_pair().tolist() == [[50] * 6] * 40


def test_partial_labelling_judges_the_given_share_of_pairs():
    labels = random_labels(4000)
    people = simulate.annotators("paper", n_classes=6, seed=0)
    votes = simulate.votes(labels, people, pair_share=0.25, seed=0)
    assert standard_errors(np.array(len(votes) / (4000 * 5 * 6)), np.array(0.25), 4000 * 5 * 6) < 4
    assert len(votes.abstained) == 0
    assert len(simulate.votes(labels, people, pair_share=0, seed=0)) == 0


def test_annotators_can_judge_one_class_per_document():
    people = simulate.annotators("paper", n_classes=6, seed=0)
    votes = simulate.votes(random_labels(3000), people, votes_per_doc=3, pairs_per_vote=1, seed=0)
    look = votes.doc.astype(int) * 50 + votes.annotator
    assert len(np.unique(look)) == len(votes) == 9000
    per_class = np.bincount(votes.label, minlength=6)
    assert standard_errors(per_class / 9000, np.full(6, 1 / 6), 9000).max() < 4


def test_votes_follow_from_the_seed():
    labels = random_labels(40)
    people = simulate.annotators("paper", n_classes=6, seed=0)
    assert simulate.votes(labels, people, seed=7) == simulate.votes(labels, people, seed=7)
    assert simulate.votes(labels, people, seed=7) != simulate.votes(labels, people, seed=8)


def test_random_streams_of_one_seed_are_uncorrelated():
    # with one shared stream the uniform that made a label could also make the vote on it
    purposes = ("parameters", "documents", "annotators", "votes")
    numbers = np.array([document_sampling.random_stream(9, purpose).random(4000) for purpose in purposes])
    assert np.abs(np.corrcoef(numbers) - np.eye(4)).max() < 4 / np.sqrt(4000)


def test_names_of_votes_come_from_the_documents_the_options_or_positions():
    simulated = simulate.newsroom(6, seed=0)
    votes, people = simulate.crowd(simulated, seed=0, n_spammers=2)
    assert votes.doc_ids.tolist() == simulated.doc_ids.tolist()
    assert votes.classes.tolist() == simulated.classes.tolist()
    assert votes.annotators.tolist() == people.names.tolist()
    dataset = simulated.dataset(votes)
    assert simulate.votes(dataset, people, seed=0) == votes
    plain = simulate.votes([[0, 1]], simulate.annotators([1.0], n_classes=2), votes_per_doc=1)
    assert (plain.doc_ids.tolist(), plain.classes.tolist(), plain.value.tolist()) == (["0"], ["0", "1"], [0, 1])
    named = simulate.votes(
        [[0, 1]], simulate.annotators([1.0], n_classes=2), votes_per_doc=1, doc_ids=["d"], classes="xy"
    )
    assert (named.doc_ids.tolist(), named.classes.tolist()) == (["d"], ["x", "y"])


def test_simulated_documents_and_votes_on_their_labels_join_by_default():
    simulated = simulate.documents(5, 2, 3, 20, seed=0)
    votes, _ = simulate.crowd(simulated.labels, seed=0)
    dataset = simulated.dataset(votes)
    assert dataset.corpus.doc_ids.tolist() == dataset.votes.doc_ids.tolist() == [str(n) for n in range(5)]


PEOPLE = simulate.annotators([0.8] * 6, n_classes=2)
LABELS = np.array([[0, 1], [1, 1]])


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (LABELS, {"votes_per_doc": 2, "fraction": 0.5}, "give votes_per_doc or fraction, not both"),
        (LABELS, {"votes_per_doc": 7}, "votes_per_doc=7 is more than the 6 annotators"),
        (LABELS, {"votes_per_doc": 0}, "votes_per_doc must be an integer of at least 1, not 0"),
        (LABELS, {"fraction": 0.01}, "fraction=0.01 of 6 annotators is less than one"),
        (LABELS, {"fraction": 1.5}, "fraction must be a number from 0 to 1, not 1.5"),
        (LABELS, {"pair_share": 1.5}, "pair_share must be a number from 0 to 1"),
        (LABELS, {"pairs_per_vote": 3}, "pairs_per_vote=3 is more than the 2 classes"),
        (LABELS, {"pairs_per_vote": 1, "pair_share": 0.5}, "give pair_share or pairs_per_vote, not both"),
        (LABELS, {"doc_ids": ["a"]}, "1 document ids were given for labels with 2"),
        (LABELS, {"doc_ids": ["a", "a"]}, "document id 'a' occurs twice"),
        (LABELS, {"seed": "x"}, "seed must be an integer of at least 0, not 'x'"),
        ([[0, 1], [2, 1]], {}, "label 2 of document 1, class 0 is not 0 or 1"),
        ([[0, 1], [-1, 1]], {}, "leave out documents with unknown labels"),
        ([[0.0, np.nan]], {}, "label nan"),
        ([0, 1], {}, r"labels must be numbers of shape \(documents, classes\)"),
        ([["a", "b"]], {}, "labels must be numbers"),
        ([[0, 1, 1]], {}, "the annotators judge 2 classes, but the labels have 3"),
    ],
)
def test_invalid_votes_are_refused_in_one_line(labels, options, message):
    with pytest.raises(DataError, match=message) as caught:
        simulate.votes(labels, PEOPLE, **options)
    assert "\n" not in str(caught.value)
