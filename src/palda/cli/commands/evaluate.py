"""``palda evaluate``: consensus or predictions compared with known labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from palda.cli import options as opt
from palda.cli.features import new_features
from palda.cli.inputs import regular_file, word_counts
from palda.cli.output import Target, write_table
from palda.errors import PaldaError

if TYPE_CHECKING:
    from palda.estimators import PALDA, CrowdPALDA


@opt.writes_files("output")
@opt.option_groups(target=opt.target_options, features=opt.feature_options)
def evaluate(
    model: opt.Model,
    gold: Annotated[Path, typer.Argument(help="Known labels: a table like the votes, without annotators.")],
    documents: Annotated[
        Path | None,
        opt.option("Documents of the known labels.", "--documents", "-d", show_default="the training documents"),
    ] = None,
    *,
    target: Target,
    features: opt.FeatureFiles,
    id_: opt.Id = None,
    text: opt.Text = None,
    encoding: opt.Encoding = None,
    jobs: opt.Jobs = None,
) -> None:
    """Compare with known labels: the consensus of the training documents, or predictions for other documents."""
    from palda.estimators import load
    from palda.io import read_documents, read_gold
    from palda.report import score_table

    features.require_documents(documents)
    fitted = load(model).set_params(n_jobs=jobs)
    reading = {"id": id_, "text": text, "encoding": encoding}
    with regular_file(gold) as file, new_features(features, fitted, reading) as given:
        if documents is None:
            doc_ids, methods = _consensus_methods(fitted)
        else:
            new = read_documents(documents, id=id_, text=text, encoding=encoding)
            doc_ids = new.doc_ids
            given.check_end(len(new))
            probs = fitted.predict_proba(word_counts(fitted, new), features=given.of(new))
            methods = {"classifier": (probs, fitted.thresholds_)}
        truth = read_gold(file, doc_ids, [str(name) for name in fitted.classes_], encoding)
    if not (truth >= 0).any():
        raise PaldaError(f"{gold} contains no known label")
    write_table(score_table(truth, methods), target)


def _consensus_methods(model: PALDA | CrowdPALDA) -> tuple[Any, dict[str, Any]]:
    """Training documents, and probabilities with thresholds of consensus and, if votes are stored, majority vote."""
    import numpy as np

    from palda.estimators import CrowdPALDA
    from palda.report import majority_shares

    if not isinstance(model, CrowdPALDA):
        raise PaldaError("the model was fitted to known labels and has no consensus; pass --documents")
    methods: dict[str, Any] = {"consensus": (model.consensus_, 0.5)}
    if model.votes_ is not None:
        more_than_half = np.nextafter(0.5, 1.0)
        methods["majority vote"] = (majority_shares(model.votes_), more_than_half)
    return model.doc_ids_, methods
