"""The work of ``palda evaluate``: known labels against what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda.cli.predictions import count_blocks
from palda.errors import PaldaError
from palda.estimators import PALDA, CrowdPALDA
from palda.io import read_documents, read_gold
from palda.report import majority_shares, score_view

if TYPE_CHECKING:
    from pathlib import Path

    from palda.report import View

__all__ = ["score_consensus", "score_predictions"]


def score_consensus(model: PALDA | CrowdPALDA, gold: Path, encoding: str | None) -> View:
    """The consensus, and majority vote where the file has the votes, on the documents the model learned from."""
    if not isinstance(model, CrowdPALDA):
        raise PaldaError("the model learned from known labels and has no consensus; pass --documents")
    truth = _known(gold, model.doc_ids_, model.classes_, encoding)
    methods: dict[str, Any] = {"consensus": (model.consensus_, 0.5)}
    if model.votes_ is not None:
        more_than_half = np.nextafter(0.5, 1.0)
        methods["majority vote"] = (majority_shares(model.votes_), more_than_half)
    return score_view(truth, methods)


def score_predictions(
    model: PALDA | CrowdPALDA,
    gold: Path,
    documents: Path,
    id_: str | None,
    text: str | None,
    encoding: str | None,
) -> View:
    """The classifier, at its thresholds, on documents of a file."""
    found = read_documents(documents, id=id_, text=text, encoding=encoding)
    truth = _known(gold, found.doc_ids, model.classes_, encoding)
    probs = model.predict_proba(count_blocks(model, found))
    return score_view(truth, {"classifier": (probs, model.thresholds_)})


def _known(gold: Path, doc_ids: Any, classes: Any, encoding: str | None) -> Any:
    truth = read_gold(gold, doc_ids, [str(name) for name in classes], encoding)
    if not (truth >= 0).any():
        raise PaldaError(f"{gold} holds not a single known label")
    return truth
