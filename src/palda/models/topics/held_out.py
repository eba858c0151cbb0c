"""Models that have not seen some of the documents, and what is chosen on those."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palda.data import document_lengths, take_counts
from palda.models.topics import base_rate
from palda.models.topics.em import evidence_of_shards, unlabelled_shards, word_evidence_model
from palda.models.topics.prediction import Temperature, fit_temperature

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from palda.data import CountRows
    from palda.models.crowd import VoteEvidence
    from palda.models.topics.em import DocumentShard, EMSettings
    from palda.models.topics.parameters import Params

    Array = NDArray[np.float64]
    Rows = NDArray[np.int64]

__all__ = ["FoldModel", "choose_temperature", "fit_folds", "held_out_evidence", "label_likelihoods"]

_MOST_DOCS = 1000  # of a fold that the temper is chosen on: it has two numbers to learn


class FoldModel(NamedTuple):
    """Parameters, and the documents that had no part in them."""

    rows: Rows
    params: Params


def fit_folds(folds: Rows, fit_rows: Callable[[Rows], Params], which: Sequence[int]) -> list[FoldModel]:
    """A model for each fold in ``which``, fitted to the documents outside it."""
    return [FoldModel(np.flatnonzero(folds == fold), fit_rows(np.flatnonzero(folds != fold))) for fold in which]


def held_out_evidence(
    models: Sequence[FoldModel], counts: CountRows, temper: Temperature, settings: EMSettings
) -> list[Array]:
    """What the words of each fold's documents say, in the eyes of the model that has not seen them."""
    return [
        evidence_of_shards(_shards_of(model, counts), word_evidence_model(model.params, temper), settings).evidence
        for model in models
    ]


def _shards_of(model: FoldModel, counts: CountRows) -> list[DocumentShard]:
    """The documents that the model has not seen."""
    return unlabelled_shards(take_counts(counts, model.rows), len(model.params.class_prior))


def label_likelihoods(known: NDArray[np.int8], votes: VoteEvidence | None) -> tuple[Array, Array]:
    """Log-likelihood of what is known of each label if it is present, and if it is absent."""
    present = np.zeros(known.shape) if votes is None else votes.present
    absent = np.zeros(known.shape) if votes is None else votes.absent
    return np.where(known == 0, -np.inf, present), np.where(known == 1, -np.inf, absent)


def choose_temperature(
    models: Sequence[FoldModel],
    counts: CountRows,
    likelihoods: Callable[[FoldModel], tuple[Array, Array]],
    settings: EMSettings,
) -> Temperature:
    """Temper chosen on documents that the models have not seen (maths, eq. 34)."""
    lengths = document_lengths(counts)
    typical = float(np.median(lengths[lengths > 0])) if (lengths > 0).any() else 1.0
    some = [FoldModel(model.rows[:: 1 + len(model.rows) // _MOST_DOCS], model.params) for model in models]
    shards = [_shards_of(model, counts) for model in some]
    prior = np.concatenate([np.tile(base_rate.log_odds(m.params.class_prior), (len(m.rows), 1)) for m in some])
    known = [likelihoods(model) for model in some]

    def evidence_at(temper: Temperature) -> Array:
        parts = zip(some, shards, strict=True)
        return np.concatenate(
            [evidence_of_shards(own, word_evidence_model(m.params, temper), settings).evidence for m, own in parts]
        )

    present, absent = (np.concatenate(sides) for sides in zip(*known, strict=True))
    return fit_temperature(evidence_at, prior, present, absent, typical)
