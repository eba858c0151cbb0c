"""Where the evidence of the classifier comes from: words, topics and features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palda.report.values import rounded

if TYPE_CHECKING:
    from palda.report.inputs import ReportInputs


def evidence_sources(inputs: ReportInputs, classes: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Shares of words, topics and features per class; None if the model does not know them, or has one source alone.

    ``sources`` are those that occur, ``mean`` their mean shares over the learned classes, ``rows`` the classes that the
    report shows. The shares of a class are None if the classifier has not learned it.
    """
    shares = getattr(inputs.model, "evidence_shares_", None)
    if shares is None:
        return None
    table = shares.loc[:, (shares > 0.0).any()]
    if table.shape[1] < 2:
        return None
    values = table.to_numpy()
    learned = values.sum(axis=1) > 0.0
    return {
        "sources": list(table.columns),
        "mean": [rounded(mean) for mean in values[learned].mean(axis=0)],
        "rows": [
            {
                "name": row["name"],
                "shares": [rounded(share) for share in values[row["number"]]] if learned[row["number"]] else None,
            }
            for row in classes
        ],
    }
