"""Where the evidence of the classifier comes from: words, topics and features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda.report.values import rounded

if TYPE_CHECKING:
    from palda.report.inputs import ReportInputs

SOURCES = ("words", "topics", "features")


def evidence_sources(inputs: ReportInputs, classes: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Shares of words, topics and features per class; None if the model does not know them, or has one source alone.

    ``sources`` are those that occur, ``mean`` their mean shares over the learned classes, ``rows`` the classes that the
    report shows. The shares of a class are None if the classifier has not learned it.
    """
    shares = getattr(inputs.model, "evidence_shares_", None)
    if shares is None:
        return None
    table = np.asarray(shares, dtype=np.float64)  # (sources, classes)
    learned = table.sum(axis=0) > 0
    used = [position for position in range(len(SOURCES)) if table[position].any()]
    if len(used) < 2:
        return None
    return {
        "sources": [SOURCES[position] for position in used],
        "mean": [rounded(table[position, learned].mean()) for position in used],
        "rows": [
            {
                "name": row["name"],
                "shares": [rounded(table[position, row["number"]]) for position in used]
                if learned[row["number"]]
                else None,
            }
            for row in classes
        ],
    }
