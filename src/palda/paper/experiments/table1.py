"""Table 1: five data sets, every method, every measure, from gold labels and from votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palda.paper import published_values
from palda.paper.cells import SOURCES, group_by
from palda.paper.experiments.base import ALL_SETS, Experiment, RunOptions, seeds_note
from palda.paper.methods import METHODS, REFERENCES, new_cell
from palda.paper.tables import Column, Table, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from palda.paper.cells import Cell, CellRecord, Setting, Source
    from palda.paper.tables import Value

_SEEDS, _QUICK_SEEDS = 5, 1

_N_TOPICS = {"reuters": 20, "enron": 60, "yeast": 30, "scene": 30, "bibtex": 20}
"""Number of topics of the published model: the paper gives 20 for Reuters and none for the others."""

_QUICK_MAX_ITER = {"reuters": 10, "enron": 10, "bibtex": 6}
"""Maximum number of EM iterations of the published model in a quick run."""

_QUICK_ON_VOTES = {"majority": ("reuters", "enron", "scene", "yeast"), "dawid_skene": ("reuters", "scene", "yeast")}
"""Data sets where a quick run fits logistic regression to labels aggregated from votes."""

_QUICK_AT_HALF = ("bibtex",)
"""Data sets where a quick run chooses no thresholds for baselines: with 159 classes, three more fits take too long."""

_ROW_COLUMNS = (Column("method", "method"), Column("source", "learns from"))
_MEASURE_COLUMNS = (
    ("hamming_accuracy", "Hamming"),
    ("jaccard_accuracy", "Jaccard"),
    ("micro_f1", "micro-F1"),
    ("macro_f1", "macro-F1"),
    ("subset_accuracy", "subset"),
)
_AT_HALF = (
    *_ROW_COLUMNS,
    Column("paper", "paper"),
    *(Column(name, heading) for name, heading in _MEASURE_COLUMNS),
    Column("log_likelihood", "log-likelihood"),
    Column("calibration_error", "ECE"),
    Column("fit_seconds", "fit, s", 1),
    Column("predict_seconds", "predict, s", 1),
)
_CHOSEN = (
    *_ROW_COLUMNS,
    *(Column(f"{name}_chosen", heading) for name, heading in _MEASURE_COLUMNS),
    Column("choose_seconds", "choosing, s", 1),
)
_MEASURES = {"jaccard_accuracy": "Jaccard", "hamming_accuracy": "Hamming"}
_REPLACEMENTS = {"slda_one_vs_all": "slda"}
_QUICK_NOTE = (
    "Quick run: some baselines have fewer members or sweeps, and the published model stops early on larger data sets."
)
_CHOICE_NOTE = "Without a time for choosing: the thresholds are chosen as part of the fit."
_COMPARISON_ROWS = (("nothing", "gold"), ("majority", "gold"), ("palda", "gold"), ("palda", "votes"))
"""Further rows, below those of the paper."""


def _plan(options: RunOptions) -> list[Cell]:
    """Every method on every data set, from every kind of labels that it can learn from."""
    return [
        new_cell(data, name, source, seed, quick=options.quick, options=_options(name, data, options.quick))
        for data in options.sets or ALL_SETS
        for seed in range(options.seeds or (_QUICK_SEEDS if options.quick else _SEEDS))
        for name in options.methods or METHODS
        for source in METHODS[name].sources
        if not options.quick or _fits_quick_run(data, name, source, named=options.methods is not None)
    ]


def _options(method: str, data: str, quick: bool) -> dict[str, Setting]:
    if method == "published":
        max_iter: dict[str, Setting] = {"max_iter": _QUICK_MAX_ITER[data]} if quick and data in _QUICK_MAX_ITER else {}
        return {"n_topics": _N_TOPICS[data], **max_iter}
    if quick and data in _QUICK_AT_HALF and method != "palda" and method not in REFERENCES:
        return {"choose": False}
    return {}


def _fits_quick_run(data: str, method: str, source: Source, *, named: bool) -> bool:
    """Whether a quick run includes a cell.

    It includes every method that the user named. Otherwise it leaves out SLDA with one model per class, and fits only
    logistic regression to labels aggregated from votes.
    """
    if named:
        return True
    if source in _QUICK_ON_VOTES:
        return method == "logistic" and data in _QUICK_ON_VOTES[source]
    return method not in _REPLACEMENTS


def _tables(records: Sequence[CellRecord]) -> list[Table]:
    """Accuracies as in the paper, then all measures of each data set, at ½ and at chosen thresholds."""
    if not records:
        return []
    tables = [_as_in_paper(records)]
    for data, group in group_by(records, lambda cell: cell.data).items():
        rows = tuple(map(_row, group_by(group, lambda cell: (cell.method, cell.source)).values()))
        notes = (seeds_note(group), *((_QUICK_NOTE,) if any(record.cell.quick for record in group) else ()))
        tables.append(Table(f"{data}: labels predicted at ½", _AT_HALF, rows, notes))
        chosen = tuple(row for row in rows if "micro_f1_chosen" in row)
        tables.append(Table(f"{data}: thresholds chosen out of fold for micro-F1", _CHOSEN, chosen, (_CHOICE_NOTE,)))
    return tables


def _row(records: Sequence[CellRecord]) -> Mapping[str, Value]:
    cell = records[0].cell
    row: dict[str, Value] = {"method": METHODS[cell.method].title, "source": SOURCES[cell.source]}
    column = published_values.published_column(cell.method, cell.source)
    if column is not None and cell.data in column.values:
        row["paper"] = f"{column.values[cell.data]:.3f}".lstrip("0") + f" {_MEASURES[column.measure]}"
    return row | summarise(records)


def _method_and_data(cell: Cell) -> tuple[str, str, str]:
    return cell.method, cell.source, cell.data


def _as_in_paper(records: Sequence[CellRecord]) -> Table:
    """The paper's columns as rows, each with its measure; SLDA with one model replaces a missing one-vs-all."""
    groups = group_by(records, _method_and_data)
    sets = [data for data in ALL_SETS if any(key[2] == data for key in groups)]
    rows: list[dict[str, Value]] = []
    for column in published_values.TABLE_1:
        row: dict[str, Value] = {"method": column.heading, "measure": _MEASURES[column.measure]}
        for data in sets:
            group = groups.get((column.method, column.source, data)) or groups.get(
                (_REPLACEMENTS.get(column.method, ""), column.source, data)
            )
            row[f"{data}_paper"] = column.values[data]
            row[data] = summarise(group).get(column.measure) if group else None
        rows.append(row)
    for measure, title in reversed(_MEASURES.items()):
        for method, source in _COMPARISON_ROWS:
            available = {data: groups[method, source, data] for data in sets if (method, source, data) in groups}
            heading = METHODS[method].title + ("" if method in REFERENCES else f", {SOURCES[source]}")
            values = {data: summarise(group).get(measure) for data, group in available.items()}
            if values:
                rows.append({"method": heading, "measure": title, **values})
    pairs = ((Column(f"{data}_paper", f"{data}: paper"), Column(data, "here")) for data in sets)
    columns = (
        Column("method", "method"),
        Column("measure", "accuracy"),
        *(column for pair in pairs for column in pair),
    )
    note = (
        "The paper has one heading for two measures: RAkEL, MCC, BRq and BCC are Jaccard accuracy (MEKA's "
        '"accuracy"), SLDA and the two new models are Hamming accuracy. Compare the latter with the rows that predict '
        "nothing or the majority value of each class for every document. All labels are predicted at ½."
    )
    return Table("Accuracy as in the paper's Table 1", columns, tuple(rows), (note, seeds_note(records)))


def _figures(records: Sequence[CellRecord]) -> Mapping[str, Figure]:
    """Micro-F1 of every method on each data set: at chosen thresholds, or at ½ if some method has none."""
    from palda.paper.plots import draw_methods

    compared = [record for record in records if record.cell.method not in REFERENCES]
    if not compared:
        return {}
    all_chosen = all("micro_f1_chosen" in record.measures for record in compared)
    measure, label = ("micro_f1_chosen", "micro-F1") if all_chosen else ("micro_f1", "micro-F1 at ½")
    return {"table1": draw_methods(compared, {name: method.title for name, method in METHODS.items()}, measure, label)}


TABLE1 = Experiment("table1", "five data sets, every method, every measure", tuple(METHODS), _plan, _tables, _figures)
