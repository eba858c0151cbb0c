"""Groups of copies and changes of quality, as the report and the command line show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palda.report.values import rounded, shortened

if TYPE_CHECKING:
    import pandas as pd

    from palda.report.inputs import ReportInputs

MAX_GROUPS, MAX_MEMBERS = 20, 30
"""Groups of copies on the page, and names per group."""

MAX_CHANGES = 50
"""Changes on the page, the most certain first."""

_MAX_TIME = 1e12  # seconds from 1970 that a date is written for
_MIN_DAYS = 3  # a longer period is dated by days, a shorter one by minutes


def date_text(seconds: float, span: float = np.inf) -> str:
    """UTC date of a time in seconds since 1970; with minutes if it is one of a period of ``span`` < 3 days."""
    moment = np.datetime64(int(np.clip(seconds, -_MAX_TIME, _MAX_TIME)), "s")
    unit = "m" if span < _MIN_DAYS * 86400 else "D"
    return str(moment.astype(f"datetime64[{unit}]")).replace("T", " ")


def group_records(copies: pd.DataFrame) -> list[dict[str, Any]]:
    """One record per group of copies of a table such as ``CrowdPALDA.copies_``, with the names of its members."""
    records: list[dict[str, Any]] = []
    for number, members in copies.groupby("group", sort=True):
        first = members.iloc[0]
        record = {name: float(first[name]) for name in ("copy_share", "agreement", "expected_agreement")}
        names = [str(name) for name in members["annotator"]]
        records.append({"group": int(str(number)), "members": names, **record, "n_common": int(first["n_common"])})
    return records


def changed_names(changes: pd.DataFrame) -> dict[str, list[str]]:
    """Names of those who got "worse" and "better" in a table such as ``CrowdPALDA.changes_``, if there are any."""
    names = {kind: changes["annotator"][changes["kind"] == kind].unique().tolist() for kind in ("worse", "better")}
    return {kind: listed for kind, listed in names.items() if listed}


def copy_groups(inputs: ReportInputs) -> list[dict[str, Any]]:
    """Groups of copies, the largest first."""
    if not inputs.has_crowd:
        return []
    groups = sorted(group_records(inputs.model.copies_), key=lambda group: -len(group["members"]))
    return [
        {
            **{name: rounded(value) for name, value in group.items() if name != "members"},
            "members": [shortened(name) for name in group["members"][:MAX_MEMBERS]],
            "n_members": len(group["members"]),
        }
        for group in groups[:MAX_GROUPS]
    ]


def change_rows(inputs: ReportInputs) -> list[dict[str, Any]]:
    """Changes of quality in the order of time; if they are too many, the most certain ones."""
    if not inputs.has_crowd:
        return []
    table, copies = inputs.model.changes_, inputs.model.copies_
    group_of = dict(zip(copies["annotator"], copies["group"], strict=True))
    table = table.nsmallest(MAX_CHANGES, "p_value", keep="first").sort_values("time", kind="stable")
    times = table["time"].to_numpy() if inputs.votes is None else inputs.votes.time
    span = float(np.nanmax(times) - np.nanmin(times)) if len(times) > 1 else np.inf
    numbers = [name for name in table.columns if name.startswith(("quality", "n_"))]
    return [
        {
            "name": shortened(row["annotator"]),
            "group": group_of.get(row["annotator"]),
            "time": float(row["time"]),
            "date": date_text(row["time"], span),
            "kind": row["kind"],
            **{name: rounded(row[name]) for name in numbers},
        }
        for row in table.to_dict("records")
    ]


def finding_totals(inputs: ReportInputs) -> dict[str, Any]:
    """Numbers of groups, copies and changes, and the names of those who got worse and better, without repetition."""
    if not inputs.has_crowd:
        return {"n_groups": 0, "n_copies": 0, "n_changes": 0, "worse": [], "better": []}
    copies, changes = inputs.model.copies_, inputs.model.changes_
    names = changed_names(changes)
    return {
        "n_groups": int(copies["group"].nunique()),
        "n_copies": len(copies),
        "n_changes": len(changes),
        **{kind: [shortened(name) for name in names.get(kind, [])] for kind in ("worse", "better")},
    }
