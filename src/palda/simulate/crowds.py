"""Simulated crowds: documents from the generative story, annotators from quality profiles, votes from both.

Annotators see the true labels of a document and say so, as well as they can. One ``seed`` may serve documents,
annotators and votes alike: each draws from a stream of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import Dataset, Votes, names_array, validation
from palda.errors import DataError
from palda.simulate.annotator_sampling import PROFILES, Behaviour, SimulatedAnnotators, annotators
from palda.simulate.document_sampling import (
    DocumentModel,
    Lengths,
    SimulatedDocuments,
    blocks,
    dirichlet,
    numbered_names,
    stream,
)
from palda.simulate.newsroom_example import newsroom_model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from palda.data import Strings
    from palda.simulate.document_sampling import Floats, Ints

__all__ = [
    "PROFILES",
    "DocumentModel",
    "SimulatedAnnotators",
    "SimulatedDocuments",
    "annotators",
    "crowd",
    "documents",
    "newsroom",
    "votes",
]


def documents(
    n_docs: int,
    n_classes: int,
    n_topics: int,
    n_words: int,
    *,
    seed: int = 0,
    doc_length: ArrayLike = 80,
    lengths: Lengths = "fixed",
    texts: bool = False,
    class_prior: ArrayLike | None = None,
    profile_weights: ArrayLike | None = None,
    topic_prior: ArrayLike | None = None,
    topic_words: ArrayLike | None = None,
    topics_per_class: int = 2,
    emphasis: float = 0.9,
    topic_concentration: float = 10.0,
    word_concentration: float = 0.1,
) -> SimulatedDocuments:
    """Documents from the generative story, with the parameters given or, where they are not, drawn.

    Parameters
    ----------
    n_docs, n_classes, n_topics, n_words
        Sizes; given parameters must fit them.
    seed
        Everything follows from it.
    doc_length, lengths, texts
        As in :meth:`Story.documents`.
    class_prior
        Rate of each class (ξ), or one rate for all; a (profiles, classes) array with ``profile_weights`` makes
        classes come in sets. Drawn between .15 and .45.
    topic_prior
        Dirichlet parameters (α) of shape (classes, 2, topics). Drawn so that a present class speaks mostly through
        ``topics_per_class`` topics of its own, as long as there are enough, and an absent class through some of the
        last third of the topics. ``emphasis`` is the share that goes there; ``topic_concentration`` is the sum of a
        row: the higher, the more alike the documents of a class.
    topic_words
        Word distributions (β) of shape (topics, words). Drawn from a Dirichlet with ``word_concentration`` for every
        word: the lower, the less topics overlap.
    """
    for size, name in ((n_classes, "n_classes"), (n_topics, "n_topics"), (n_words, "n_words")):
        validation.require_count(size, name)
    validation.require_count(topics_per_class, "topics_per_class")
    validation.require_number(topic_concentration, 1e-6, 1e6, "topic_concentration")
    validation.require_number(word_concentration, 1e-6, 1e6, "word_concentration")
    validation.require_number(emphasis, 0, 0.999, "emphasis")
    rng = stream(seed, "parameters")
    # rates and mixes are drawn even if given, so that giving one parameter leaves the others as they were
    drawn_rates = rng.uniform(0.15, 0.45, n_classes)
    drawn_mix = _draw_topic_mix(n_classes, n_topics, topics_per_class, emphasis, rng)
    if topic_words is None:
        topic_words = dirichlet(np.full((n_topics, n_words), word_concentration), rng)
    profile_probs, weights = _profiles(drawn_rates if class_prior is None else class_prior, profile_weights, n_classes)
    story = DocumentModel(
        weights,
        profile_probs,
        validation.as_floats(topic_concentration * drawn_mix if topic_prior is None else topic_prior, "topic_prior"),
        validation.as_floats(topic_words, "topic_words"),
        names_array(range(n_classes)),
        names_array(range(n_topics)),
        names_array(f"w{position}" for position in range(n_words)),
    )
    return story.documents(n_docs, seed=seed, doc_length=doc_length, lengths=lengths, texts=texts)


def newsroom(
    n_docs: int = 2000, *, seed: int = 0, doc_length: ArrayLike = 80, lengths: Lengths = "poisson"
) -> SimulatedDocuments:
    """News items as keyword texts over ten overlapping classes that come in sets (crime and politics, ...).

    A world to show things in: real words, themes for topics, ids such as ``news-0001``. The parameters are always
    the same; ``seed`` chooses the documents.
    """
    validation.require_count(n_docs, "n_docs")
    doc_ids = numbered_names("news", n_docs, 4)
    return newsroom_model().documents(
        n_docs, seed=seed, doc_length=doc_length, lengths=lengths, texts=True, doc_ids=doc_ids
    )


def votes(
    labels: ArrayLike | SimulatedDocuments | Dataset,
    annotators: SimulatedAnnotators,
    *,
    seed: int = 0,
    votes_per_doc: int | None = None,
    fraction: float | None = None,
    pair_share: float = 1.0,
    pairs_per_vote: int | None = None,
    doc_ids: Iterable[object] | None = None,
    classes: Iterable[object] | None = None,
) -> Votes:
    """Votes of a simulated crowd on documents whose truth is known.

    Parameters
    ----------
    labels
        Truth, (documents, classes) of 0 and 1; simulated documents or a data set bring their names along.
    annotators
        Who votes.
    seed
        Everything follows from it.
    votes_per_doc, fraction
        How many different annotators look at each document, as a number or as a share of the crowd; 5 if neither
        is given.
    pair_share, pairs_per_vote
        Partial labelling: an annotator judges each class of a document with probability ``pair_share``, or exactly
        ``pairs_per_vote`` of them. What is not judged is missing, not "no".
    doc_ids, classes
        Names; positions unless given.
    """
    doc_ids = getattr(labels, "doc_ids", None) if doc_ids is None else doc_ids
    classes = getattr(labels, "classes", None) if classes is None else classes
    truth = _truth(labels)
    n_docs, n_classes = truth.shape
    if n_classes != annotators.n_classes:
        raise DataError(f"the annotators judge {annotators.n_classes} classes, but the labels have {n_classes}")
    n_looks = _looks_per_doc(votes_per_doc, fraction, len(annotators))
    _check_partial(pair_share, pairs_per_vote, n_classes)
    rng = stream(seed, "votes")
    columns = []
    for rows in blocks(n_docs, n_looks * n_classes):
        who = _distinct(rows.stop - rows.start, n_looks, len(annotators), rng).ravel()
        look, label = _judged_pairs(len(who), n_classes, pair_share, pairs_per_vote, rng)
        doc, annotator = rows.start + look // n_looks, who[look]
        chance = rng.random(len(look))
        says_yes = np.where(
            truth[doc, label],
            chance < annotators.sensitivity[annotator, label],
            chance >= annotators.specificity[annotator, label],
        )
        columns.append((doc.astype(np.int32), annotator, label.astype(np.int32), says_yes.astype(np.int8)))
    all_docs, all_annotators, all_labels, values = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Votes(
        all_docs,
        all_annotators,
        all_labels,
        values,
        _names_for(doc_ids, n_docs, "document ids"),
        annotators.names,
        _names_for(classes, n_classes, "classes"),
    )


def crowd(
    labels: ArrayLike | SimulatedDocuments | Dataset,
    profile: str | ArrayLike = "paper",
    *,
    seed: int = 0,
    behaviour: Behaviour = "one_coin",
    n_spammers: int = 0,
    **options: Any,
) -> tuple[Votes, SimulatedAnnotators]:
    """Annotators and their votes in one go; ``options`` are those of :func:`votes`."""
    n_classes = _truth(labels).shape[1]
    people = annotators(profile, n_classes=n_classes, seed=seed, behaviour=behaviour, n_spammers=n_spammers)
    return votes(labels, people, seed=seed, **options), people


def _distinct(n_rows: int, size: int, population: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Sorted samples without replacement, one a row (Floyd's algorithm on all rows at once)."""
    chosen = np.empty((n_rows, size), dtype=np.int32)
    for step, newest in enumerate(range(population - size, population)):
        pick = rng.integers(newest + 1, size=n_rows, dtype=np.int32)
        taken = (chosen[:, :step] == pick[:, None]).any(axis=1)
        chosen[:, step] = np.where(taken, newest, pick)
    chosen.sort(axis=1)
    return chosen


def _draw_topic_mix(
    n_classes: int, n_topics: int, topics_per_class: int, emphasis: float, rng: np.random.Generator
) -> Floats:
    """Mean topic mixes (classes, 2, topics); topics are dealt like cards, so that classes share as few as possible."""
    n_themes = max(1, n_topics - max(1, n_topics // 3))
    mix = np.full((n_classes, 2, n_topics), (1.0 - emphasis) / n_topics)
    for state, pool in ((0, np.arange(min(n_themes, n_topics - 1), n_topics)), (1, np.arange(n_themes))):
        hand = min(topics_per_class, len(pool))
        n_decks = -(-n_classes * hand // len(pool))
        cards = np.concatenate([rng.permutation(pool) for _ in range(n_decks)])
        for place in range(n_classes):
            own = cards[place * hand : (place + 1) * hand]
            np.add.at(mix[place, state], own, emphasis * rng.dirichlet(np.full(hand, 5.0)))
    return mix


def _profiles(class_prior: ArrayLike, weights: ArrayLike | None, n_classes: int) -> tuple[Floats, Floats]:
    """Class rates as (profiles, classes), and the weights of the profiles."""
    probs = validation.as_floats(class_prior, "class_prior")
    if probs.ndim == 0:
        probs = np.full(n_classes, probs)
    if (probs.ndim == 2) != (weights is not None):
        raise DataError("a (profiles, classes) class_prior and profile_weights need each other")
    return np.atleast_2d(probs), np.atleast_1d(
        validation.as_floats(1.0 if weights is None else weights, "profile_weights")
    )


def _judged_pairs(
    n_looks: int, n_classes: int, share: float, per_look: int | None, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Which classes are judged at each look, as positions sorted by look and class."""
    if per_look is not None:
        return np.repeat(np.arange(n_looks), per_look), _distinct(n_looks, per_look, n_classes, rng).ravel()
    if share == 1.0:
        return np.repeat(np.arange(n_looks), n_classes), np.tile(np.arange(n_classes), n_looks)
    look, label = np.nonzero(rng.random((n_looks, n_classes)) < share)
    return look, label


def _looks_per_doc(votes_per_doc: int | None, fraction: float | None, n_annotators: int) -> int:
    if votes_per_doc is not None and fraction is not None:
        raise DataError("give votes_per_doc or fraction, not both: they are two ways to say the same thing")
    if fraction is not None:
        validation.require_number(fraction, 0, 1, "fraction")
        votes_per_doc = round(fraction * n_annotators)
        if votes_per_doc == 0:
            raise DataError(f"fraction={fraction} of {n_annotators} annotators is nobody; give a larger one")
    n_looks = 5 if votes_per_doc is None else votes_per_doc
    validation.require_count(n_looks, "votes_per_doc")
    if n_looks > n_annotators:
        raise DataError(f"{n_looks} different annotators for each document is more than the crowd's {n_annotators}")
    return n_looks


def _check_partial(pair_share: float, pairs_per_vote: int | None, n_classes: int) -> None:
    validation.require_number(pair_share, 0, 1, "pair_share")
    if pairs_per_vote is None:
        return
    validation.require_count(pairs_per_vote, "pairs_per_vote")
    if pair_share < 1:
        raise DataError("give pair_share or pairs_per_vote, not both: they are two ways to say the same thing")
    if pairs_per_vote > n_classes:
        raise DataError(f"pairs_per_vote={pairs_per_vote} is more than the {n_classes} classes there are")


def _truth(labels: ArrayLike | SimulatedDocuments | Dataset) -> NDArray[np.bool_]:
    """Labels as booleans; a vote can only be simulated where the truth is known."""
    if isinstance(labels, SimulatedDocuments):
        labels = labels.labels
    elif isinstance(labels, Dataset):
        labels = labels.gold
    truth = np.asarray(labels)
    if truth.ndim != 2 or not truth.size or truth.dtype.kind not in "biuf":
        raise DataError(f"labels need numbers of shape (documents, classes), not {truth.dtype} of shape {truth.shape}")
    wrong = np.argwhere((truth != 0) & (truth != 1))
    if len(wrong):
        place = tuple(wrong[0])
        raise DataError(
            f"label {truth[place]:g} at [document, class] {wrong[0].tolist()} is not 0 or 1; "
            "leave documents with unknown truth out"
        )
    present: NDArray[np.bool_] = truth == 1
    return present


def _names_for(names: Iterable[object] | None, size: int, kind: str) -> Strings:
    named = names_array(range(size) if names is None else names)
    if len(named) != size:
        raise DataError(f"labels with {size} {kind} cannot have {len(named)} names for them")
    return named
