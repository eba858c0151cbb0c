"""``palda evaluate``: consensus or predictions compared with known labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from palda.cli import options as opt
from palda.cli.console import Messages
from palda.cli.features import new_features
from palda.cli.inputs import regular_file, word_counts
from palda.cli.output import Target, write_table
from palda.errors import PaldaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from palda.estimators import PALDA, CrowdPALDA
    from palda.models.crowd import GoldCheck


@opt.writes_files("output")
@opt.option_groups(target=opt.target_options, features=opt.feature_options)
def evaluate(
    model: opt.Model,
    gold: Annotated[
        Path,
        typer.Argument(
            help="Known labels: a table like the votes, without annotators, or documents with columns gold_CLASS."
        ),
    ],
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
    """Compare with known labels: the consensus of the training documents, or predictions for other documents.

    The consensus repeats gold labels that the fit used. For these documents, the scores with the labels held back are
    shown.
    """
    from palda.estimators import load
    from palda.io import read_documents, read_gold
    from palda.report import score_table

    features.require_documents(documents)
    fitted = load(model).set_params(n_jobs=jobs)
    reading = {"id": id_, "text": text, "encoding": encoding}
    messages = Messages()
    with messages.show_warnings(), regular_file(gold) as file, new_features(features, fitted, reading) as given:
        if documents is None:
            doc_ids, methods = _consensus_methods(fitted)
        else:
            new = read_documents(documents, id=id_, text=text, encoding=encoding)
            doc_ids = new.doc_ids
            given.check_end(len(new))
            probs = fitted.predict_proba(word_counts(fitted, new), features=given.of(new))
            methods = {"classifier": (probs, fitted.thresholds_)}
        truth = read_gold(file, doc_ids, [str(name) for name in fitted.classes_], encoding, id=id_)
    if not (truth >= 0).any():
        raise PaldaError(f"{gold} contains no known label")
    check = None
    if documents is None:
        truth, check = _unused_by_the_fit(fitted, truth, gold, messages)
    write_table(score_table(truth, methods, check), target)


def _unused_by_the_fit(
    model: CrowdPALDA, truth: NDArray[np.int8], gold: Path, messages: Messages
) -> tuple[NDArray[np.int8], GoldCheck | None]:
    """Known labels without the documents whose labels the fit used, and the check with the labels held back."""
    import numpy as np

    known = model.known_labels_
    if known is None:
        messages.write("the model does not say which gold labels its fit used; the consensus repeats these")
        return truth, model.gold_check_
    is_given = np.asarray((truth >= 0).any(axis=1))
    is_used = is_given & np.asarray((known >= 0).any(axis=1))
    if not is_used.any():
        return truth, None
    n_used, n_given = int(is_used.sum()), int(is_given.sum())
    used = f"the fit used gold labels of {n_used:,} of the {n_given:,} documents, which the consensus repeats"
    if n_used == n_given and model.gold_check_ is None:
        raise PaldaError(
            f"{gold}: {used}; give labels that the fit did not use (scores with the labels held back take 30 gold "
            "labels with votes, and another label prior than base_rate)"
        )
    instead = "" if model.gold_check_ is None else "; see the scores with the labels held back"
    messages.write(f"{used}: these documents are left out{instead}")
    return np.where(is_used[:, np.newaxis], np.int8(-1), truth), model.gold_check_


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
