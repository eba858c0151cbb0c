"""Table 1: five data sets, every method, every measure, from the truth and from a crowd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palda.paper import printed_figures
from palda.paper.cells import SOURCES, grouped
from palda.paper.experiments.base import ALL_SETS, Choice, Experiment, seeds_note
from palda.paper.methods import METHODS, REFERENCES, new_cell
from palda.paper.tables import Column, Table, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from palda.paper.cells import Cell, CellRecord, Setting, Source
    from palda.paper.tables import Value

__all__ = ["TABLE1"]

_SEEDS, _QUICK_SEEDS = 5, 1

_N_TOPICS = {"reuters": 20, "enron": 60, "yeast": 30, "scene": 30, "bibtex": 20}
"""Of the model as published: the paper says 20 for Reuters and nothing about the others."""

_QUICK_ROUNDS = {"reuters": 10, "enron": 10, "bibtex": 6}
"""After how many rounds of EM a quick run stops the model as published."""

_QUICK_ON_VOTES = {"majority": ("reuters", "enron", "scene", "yeast"), "dawid_skene": ("reuters", "scene", "yeast")}
"""Where a quick run teaches a rival, logistic regression alone unless others are named, with labels made of votes."""

_QUICK_AT_HALF = ("bibtex",)
"""Where a quick run chooses no thresholds for rivals: with 159 classes their three more fits take too long."""

_LABELLED = (Column("method", "method"), Column("source", "learns from"))
_OF_LABELS = (
    ("hamming_accuracy", "Hamming"),
    ("jaccard_accuracy", "Jaccard"),
    ("micro_f1", "micro-F1"),
    ("macro_f1", "macro-F1"),
    ("subset_accuracy", "subset"),
)
_AT_HALF = (
    *_LABELLED,
    Column("paper", "paper"),
    *(Column(name, heading) for name, heading in _OF_LABELS),
    Column("log_likelihood", "log-likelihood"),
    Column("calibration_error", "ECE"),
    Column("fit_seconds", "fit, s", 1),
    Column("predict_seconds", "predict, s", 1),
)
_CHOSEN = (
    *_LABELLED,
    *(Column(f"{name}_chosen", heading) for name, heading in _OF_LABELS),
    Column("choose_seconds", "choosing, s", 1),
)
_MEASURES = {"jaccard_accuracy": "Jaccard", "hamming_accuracy": "Hamming"}
_STAND_INS = {"slda_one_vs_all": "slda"}
_QUICK_NOTE = (
    "A quick run: some rivals have fewer members or sweeps, and the model as published is stopped early on larger sets."
)
_CHOICE_NOTE = "No time for choosing: it is a part of the fit."
_BESIDE = (("nothing", "gold"), ("majority", "gold"), ("palda", "gold"), ("palda", "votes"))
"""Rows of ours that stand below those of the paper."""


def plan(choice: Choice) -> list[Cell]:
    """Every method on every set, from every kind of labels that it can learn from."""
    return [
        new_cell(data, name, source, seed, quick=choice.quick, options=_options(name, data, choice.quick))
        for data in choice.sets or ALL_SETS
        for seed in range(choice.seeds or (_QUICK_SEEDS if choice.quick else _SEEDS))
        for name in choice.methods or METHODS
        for source in METHODS[name].sources
        if not choice.quick or _is_quick(data, name, source, named=choice.methods is not None)
    ]


def _options(method: str, data: str, quick: bool) -> dict[str, Setting]:
    if method == "published":
        rounds: dict[str, Setting] = {"max_iter": _QUICK_ROUNDS[data]} if quick and data in _QUICK_ROUNDS else {}
        return {"n_topics": _N_TOPICS[data], **rounds}
    if quick and data in _QUICK_AT_HALF and method != "palda" and method not in REFERENCES:
        return {"choose": False}
    return {}


def _is_quick(data: str, method: str, source: Source, *, named: bool) -> bool:
    """Whether a quick run has time for a cell.

    Whatever was named; else one model a class gives way to its stand-in, and labels made of votes teach logistic
    regression alone.
    """
    if named:
        return True
    if source in _QUICK_ON_VOTES:
        return method == "logistic" and data in _QUICK_ON_VOTES[source]
    return method not in _STAND_INS


def tables(records: Sequence[CellRecord]) -> list[Table]:
    """The paper's table beside ours, then all measures, set by set, at ½ and with chosen thresholds."""
    if not records:
        return []
    made = [_as_printed(records)]
    for data, some in grouped(records, lambda cell: cell.data).items():
        rows = tuple(_row(group) for group in grouped(some, lambda cell: (cell.method, cell.source)).values())
        notes = (seeds_note(some), *((_QUICK_NOTE,) if any(record.cell.quick for record in some) else ()))
        made.append(Table(f"{data}: labels predicted at ½", _AT_HALF, rows, notes))
        choosing = tuple(row for row in rows if "micro_f1_chosen" in row)
        made.append(Table(f"{data}: thresholds chosen out of fold for micro-F1", _CHOSEN, choosing, (_CHOICE_NOTE,)))
    return made


def _row(records: Sequence[CellRecord]) -> Mapping[str, Value]:
    cell = records[0].cell
    row: dict[str, Value] = {"method": METHODS[cell.method].title, "source": SOURCES[cell.source]}
    column = printed_figures.printed(cell.data, cell.method, cell.source)
    if column is not None:
        row["paper"] = f"{column.figures[cell.data]:.3f}".lstrip("0") + f" {_MEASURES[column.measure]}"
    return row | summarise(records)


def _place(cell: Cell) -> tuple[str, str, str]:
    return cell.method, cell.source, cell.data


def _as_printed(records: Sequence[CellRecord]) -> Table:
    """The paper's columns as rows, each with its measure; SLDA for all classes at once where one-vs-all was not run."""
    groups = grouped(records, _place)
    sets = [data for data in ALL_SETS if any(key[2] == data for key in groups)]
    rows: list[dict[str, Value]] = []
    for column in printed_figures.TABLE_1:
        row: dict[str, Value] = {"method": column.heading, "measure": _MEASURES[column.measure]}
        for data in sets:
            group = groups.get((column.method, column.source, data)) or groups.get(
                (_STAND_INS.get(column.method, ""), column.source, data)
            )
            row[f"{data}_paper"] = column.figures[data]
            row[data] = summarise(group).get(column.measure) if group else None
        rows.append(row)
    for measure, title in reversed(_MEASURES.items()):
        for method, source in _BESIDE:
            found = {data: groups[method, source, data] for data in sets if (method, source, data) in groups}
            heading = METHODS[method].title + ("" if method in REFERENCES else f", {SOURCES[source]}")
            values = {data: summarise(group).get(measure) for data, group in found.items()}
            if values:
                rows.append({"method": heading, "measure": title, **values})
    pairs = ((Column(f"{data}_paper", f"{data}: paper"), Column(data, "here")) for data in sets)
    columns = (
        Column("method", "method"),
        Column("measure", "accuracy"),
        *(column for pair in pairs for column in pair),
    )
    reading = (
        "The paper has one heading over two measures: RAkEL, MCC, BRq and BCC are Jaccard accuracy (MEKA's "
        '"accuracy"), SLDA and the two new models are Hamming accuracy. Compare these with the rows that '
        "predict nothing, or each class's majority value, whatever the document. All at ½."
    )
    return Table("Accuracy as in the paper's Table 1", columns, tuple(rows), (reading, seeds_note(records)))


def figures(records: Sequence[CellRecord]) -> Mapping[str, Figure]:
    """Micro-F1 of every method, set by set: at chosen thresholds, or at ½ if some method has none."""
    from palda.paper.plots import draw_methods

    kept = [record for record in records if record.cell.method not in REFERENCES]
    if not kept:
        return {}
    all_chose = all("micro_f1_chosen" in record.measures for record in kept)
    measure, label = ("micro_f1_chosen", "micro-F1") if all_chose else ("micro_f1", "micro-F1 at ½")
    return {"table1": draw_methods(kept, {name: method.title for name, method in METHODS.items()}, measure, label)}


TABLE1 = Experiment("table1", "five data sets, every method, every measure", tuple(METHODS), plan, tables, figures)
