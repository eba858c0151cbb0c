"""Projects to simulate: from stated assumptions, or from a pilot that has been labelled already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda import simulate
from palda.data import names_array, validation
from palda.errors import DataError
from palda.planning.projects import LabellingProject

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from palda.estimators import CrowdPALDA

_TOPICS_PER_CLASS, _MIN_TOPICS = 3, 8
_WORDS_PER_TOPIC, _DOC_LENGTH = 40, 60
_WORD_CONCENTRATION = 0.3  # topics overlap: words suggest a class, but do not decide
_MIN_RATE = 1e-3


def assumed_project(
    n_docs: int, n_classes: int, quality: ArrayLike, *, labels_per_doc: float = 1.5, seed: int = 0
) -> LabellingProject:
    """A project on simulated documents, with annotators of assumed qualities.

    Parameters
    ----------
    n_docs, n_classes : int
        Numbers of documents and classes.
    quality : array of shape (annotators,)
        Probability that an annotator judges a class of a document correctly.
    labels_per_doc : float, default 1.5
        Mean number of classes that a document has.
    seed : int, default 0
        Random seed.

    Returns
    -------
    LabellingProject
        The project.

    Examples
    --------
    >>> from palda.planning import assumed_project
    >>> project = assumed_project(50, 4, [0.9, 0.8, 0.7], seed=0)
    >>> project.n_docs, project.n_classes, len(project.annotators)
    (50, 4, 3)
    """
    validation.require_count(n_classes, "n_classes")
    if not 0 < labels_per_doc < n_classes:
        raise DataError(
            f"{labels_per_doc:g} labels per document must be more than 0 and fewer than the {n_classes} classes"
        )
    n_topics = max(_MIN_TOPICS, _TOPICS_PER_CLASS * n_classes)
    documents = simulate.documents(
        n_docs, n_classes, n_topics, _WORDS_PER_TOPIC * n_topics, seed=seed, doc_length=_DOC_LENGTH, lengths="poisson",
        class_prior=np.full(n_classes, labels_per_doc / n_classes), word_concentration=_WORD_CONCENTRATION,
    )  # fmt: skip
    people = simulate.annotators(quality, n_classes=n_classes, seed=seed)
    return LabellingProject.of(documents, people, seed=seed)


def pilot_project(model: CrowdPALDA, counts: Any, *, max_docs: int | None = None, seed: int = 0) -> LabellingProject:
    """A project that looks like a pilot: its documents, and annotators with the rates that were found.

    The true labels are drawn from the consensus of the pilot, class by class, so that an uncertain label is present in
    some simulations and absent in others.

    Parameters
    ----------
    model : CrowdPALDA
        Model fitted to the pilot.
    counts : array-like or sparse matrix of shape (documents, words)
        Word counts of its documents.
    max_docs : int, optional
        Use at most this many of the documents, drawn at random.
    seed : int, default 0
        Random seed.

    Returns
    -------
    LabellingProject
        The project.

    Examples
    --------
    >>> from palda import CrowdPALDA, simulate
    >>> from palda.planning import pilot_project
    >>> news = simulate.newsroom(30, seed=0)
    >>> votes, _ = simulate.crowd(news, [0.9, 0.8, 0.7], votes_per_doc=2, seed=0)
    >>> model = CrowdPALDA(2, label_prior="base_rate", tol=0.1, n_jobs=1, random_state=0).fit(news.corpus, votes)
    >>> project = pilot_project(model, news.corpus.counts, max_docs=20)
    >>> project.n_docs, project.annotators.names.tolist()
    (20, ['annotator-01', 'annotator-02', 'annotator-03'])
    """
    rng = np.random.default_rng([seed, *b"pilot"])
    n_docs, n_classes = model.consensus_.shape
    rows = np.arange(n_docs)
    if max_docs is not None and max_docs < n_docs:
        rows = np.sort(rng.choice(n_docs, max_docs, replace=False))
    labels = (rng.random((len(rows), n_classes)) < model.consensus_[rows]).astype(np.int8)
    rates = model.annotator_rates_by_class_
    shape = len(model.annotators_), n_classes
    sensitivity, specificity = (
        np.clip(rates[name].to_numpy().reshape(shape), _MIN_RATE, 1.0 - _MIN_RATE)
        for name in ("sensitivity", "specificity")
    )
    people = simulate.SimulatedAnnotators.from_rates(sensitivity, specificity, names=model.annotators_)
    return LabellingProject(counts[rows], labels, people, model.doc_ids_[rows], names_array(model.classes_), seed)
