"""Charts of single annotators: quality over time, calibration of stated probabilities, and rates by class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda.report.annotator_findings import date_text
from palda.report.values import rounded, shortened

if TYPE_CHECKING:
    import pandas as pd

    from palda.report.inputs import ReportInputs

MAX_CHARTS = 12
"""Small charts of one kind, one per annotator."""

MAX_RATE_ANNOTATORS, MAX_RATE_CLASSES = 30, 30
"""Rows and columns of the table of rates by class."""

MIN_RATE_SPREAD = 0.1
"""Difference of an annotator's sensitivities between two classes from which rates by class are shown."""

_RATES = tuple(f"{name}{end}" for name in ("sensitivity", "specificity") for end in ("", "_low", "_high"))
_MIN_STATED = 20  # soft votes of an annotator whose calibration is shown


def quality_curves(inputs: ReportInputs) -> list[dict[str, Any]]:
    """Quality over time of those who changed, then of those with the most votes; none if votes have no times."""
    if inputs.votes is None or not inputs.has_crowd or not len(inputs.votes.time):
        return []
    changes, active = inputs.model.changes_, inputs.model.annotator_quality_.nlargest(2 * MAX_CHARTS, "n_votes")
    certain_first = changes.sort_values("p_value", kind="stable")["annotator"]
    names = list(dict.fromkeys([*certain_first, *active["annotator"]]))[: 3 * MAX_CHARTS]
    table = inputs.model.quality_over_time(inputs.votes, names)
    curves = dict(iter(table.groupby("annotator", sort=False)))
    return [
        _quality_curve(name, curves[name], changes[changes["annotator"] == name])
        for name in [name for name in names if name in curves][:MAX_CHARTS]
    ]


def _quality_curve(name: str, curve: pd.DataFrame, changes: pd.DataFrame) -> dict[str, Any]:
    """Points (time, quality, low, high) with their dates, and changes (time, kind)."""
    span = float(curve["time"].max() - curve["time"].min())
    points = curve[["time", "quality", "low", "high"]].to_numpy(dtype=np.float64)
    return {
        "name": shortened(name),
        "points": [[rounded(number) for number in point] for point in points],
        "dates": [date_text(seconds, span) for seconds in curve["time"]],
        "changes": [(rounded(time), str(kind)) for time, kind in zip(changes["time"], changes["kind"], strict=True)],
    }


def confidence_curves(inputs: ReportInputs) -> list[dict[str, Any]]:
    """Stated probabilities against the consensus, of those who state the most."""
    if inputs.votes is None or not inputs.has_crowd or not len(inputs.votes.probability):
        return []
    table = inputs.model.confidence_calibration(inputs.votes)
    n_stated = table.groupby("annotator", sort=False)["n_votes"].sum()
    chosen = n_stated[n_stated >= _MIN_STATED].nlargest(MAX_CHARTS, keep="first").index
    curves = dict(iter(table.groupby("annotator", sort=False)))
    return [
        {
            "name": shortened(name),
            "n_votes": int(n_stated[name]),
            "points": [
                (rounded(row["stated"]), rounded(row["consensus"]), int(row["n_votes"]))
                for row in curves[name].to_dict("records")
            ],
            "error": rounded(_mean_gap(curves[name])),
        }
        for name in chosen
    ]


def _mean_gap(curve: pd.DataFrame) -> float:
    """Mean distance of stated probability and consensus over the votes."""
    gaps = (curve["stated"] - curve["consensus"]).abs()
    return float(np.average(gaps, weights=curve["n_votes"]))


def rate_heatmap(inputs: ReportInputs, class_rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Sensitivity of the most active annotators in the most frequent classes; None if classes hardly differ."""
    if not inputs.has_crowd or len(inputs.classes) < 2:
        return None
    quality = inputs.model.annotator_quality_
    active = quality[quality["n_votes"] > 0].nlargest(MAX_RATE_ANNOTATORS, "n_votes", keep="first")
    active = active.sort_values("quality", ascending=False, kind="stable")
    if not len(active):
        return None
    table = inputs.model.rates_by_class(active["annotator"])
    columns = [row["number"] for row in class_rows[:MAX_RATE_CLASSES]]
    shape = (len(active), len(inputs.classes))
    rates = {name: table[name].to_numpy().reshape(shape)[:, columns] for name in _RATES}
    if np.ptp(rates["sensitivity"], axis=1).max() < MIN_RATE_SPREAD:
        return None
    return {
        "names": [shortened(name) for name in active["annotator"]],
        "columns": [row["name"] for row in class_rows[:MAX_RATE_CLASSES]],
        "values": [[rounded(value, 3) for value in row] for row in rates["sensitivity"]],
        "details": [
            [
                _rates_text({name: values[row, column] for name, values in rates.items()})
                for column in range(len(columns))
            ]
            for row in range(len(active))
        ],
        "n_all": int((quality["n_votes"] > 0).sum()),
    }


def _rates_text(rates: dict[str, float]) -> str:
    parts = [
        f"{name} {rates[name]:.2f} ({rates[f'{name}_low']:.2f} – {rates[f'{name}_high']:.2f})"
        for name in ("sensitivity", "specificity")
    ]
    return "\n".join(parts)
