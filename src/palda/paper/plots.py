"""Figures of results, for print: markers and line styles differ, so that they can be read in grey."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, PercentFormatter

from palda.io import replacing
from palda.paper import published_values
from palda.paper.cells import SOURCES, group_by
from palda.paper.tables import Stat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from palda.paper.cells import Cell, CellRecord

_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 5,
    "svg.fonttype": "none",  # keep text as text: it can be searched and uses the font of the page
    "svg.hashsalt": "palda",  # equal figures give equal files
}


class _Style(NamedTuple):
    """Style of a line or a group of points."""

    color: str
    marker: str
    line: str = "none"
    filled: bool = True


_LINES = (
    _Style("0.6", "o", ":"),
    _Style("0.45", "s", "-."),
    _Style("0.25", "^", "--"),
    _Style("0.0", "D", "-"),
    _Style("0.35", "v", "-"),
)
_SOURCE_STYLES = {
    "gold": _Style("0.0", "o"),
    "votes": _Style("0.0", "D", filled=False),
    "majority": _Style("0.5", "s", filled=False),
    "dawid_skene": _Style("0.3", "^", filled=False),
}
_METHOD_STYLES = {"palda": ("0.0", "D"), "published": ("0.45", "o")}
_SOURCE_LINES = {"gold": "-", "votes": "--"}
_PAPER_STYLE = ("0.7", "x")


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as SVG and PNG, each atomically, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with mpl.rc_context(_STYLE):
        for kind, options in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 200})):
            paths.append(folder / f"{name}.{kind}")
            with replacing(paths[-1]) as unfinished:
                figure.savefig(unfinished, format=kind, bbox_inches="tight", **options)
    return paths


@contextmanager
def _panels(n_rows: int, n_columns: int, width: float, height: float, **options: Any) -> Iterator[tuple[Figure, Any]]:
    """A new figure and its axes of shape (rows, columns); the common style applies inside the context."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
        yield figure, figure.subplots(n_rows, n_columns, squeeze=False, **options)


def _draw(axes: Axes, points: Mapping[float, Stat | None], style: _Style, label: str, *, vertical: bool = True) -> None:
    """Draw means over seeds with standard deviations, on the y axis against the keys, or on the x axis."""
    known = {position: stat for position, stat in points.items() if stat is not None}
    if not known:
        return
    positions, means = list(known), [stat.mean for stat in known.values()]
    spreads = [0.0 if math.isnan(stat.spread) else stat.spread for stat in known.values()]  # NaN: one seed
    error_bars: Any = {"yerr" if vertical else "xerr": spreads}
    x, y = (positions, means) if vertical else (means, positions)
    axes.errorbar(
        x,
        y,
        **error_bars,
        color=style.color,
        marker=style.marker,
        linestyle=style.line,
        markerfacecolor=style.color if style.filled else "none",
        capsize=2,
        elinewidth=0.8,
        label=label,
    )


def _stat(records: Sequence[CellRecord], name: str) -> Stat | None:
    return Stat.of(record.measures.get(name, math.nan) for record in records)


def _stats(records: Sequence[CellRecord], measure: str, position: Callable[[Cell], float]) -> dict[float, Stat | None]:
    """Means over seeds by their position on the axis, ascending."""
    groups = group_by(records, position)
    return {place: _stat(groups[place], measure) for place in sorted(groups)}


def _shared_legend(figure: Figure, rows: Any, n_columns: int = 5) -> None:
    """Add one legend below all panels, with every label once."""
    handles: dict[str, Any] = {}
    for axes in rows.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        n_columns = min(len(handles), n_columns)
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=n_columns)


def draw_topics(records: Sequence[CellRecord], titles: Mapping[str, str], panels: Mapping[str, str]) -> Figure:
    """Measures against the number of topics: one row per method, one panel per measure, one line per fraction."""
    methods = group_by(records, lambda cell: cell.method)
    topics = sorted({_n_topics(record.cell) for record in records})
    fractions = sorted({record.cell.fraction for record in records})
    with _panels(len(methods), len(panels), 2.5, 2.2, sharex=True) as (figure, rows):
        for row, (method, method_records) in zip(rows, methods.items(), strict=True):
            for axes, (measure, heading) in zip(row, panels.items(), strict=True):
                for fraction, style in zip(fractions, _line_styles(len(fractions)), strict=True):
                    group = [record for record in method_records if record.cell.fraction == fraction]
                    _draw(axes, _stats(group, measure, _n_topics), style, f"{fraction:.0%} of the training documents")
                    if measure == "annotator_rmse":
                        oracle = style._replace(color="0.75", line="none", filled=False)
                        _draw(axes, _stats(group, "oracle_rmse", _n_topics), oracle, "oracle (same markers)")
                axes.set_ylabel(heading)
                axes.yaxis.set_major_locator(MaxNLocator(5))
                _log_topics(axes, topics)
            row[0].set_title(titles[method], loc="left", fontweight="bold")
        for axes in rows[-1]:
            axes.set_xlabel("number of topics")
        _shared_legend(figure, rows)
    return figure


def _line_styles(n_lines: int) -> list[_Style]:
    """Styles of so many lines; the last line, all training documents, is always solid black."""
    return [_LINES[position % len(_LINES)] for position in range(max(0, 4 - n_lines), max(4, n_lines))]


def _n_topics(cell: Cell) -> float:
    return float(str(cell.option("n_topics")))


def _fraction(cell: Cell) -> float:
    return cell.fraction


def _log_topics(axes: Axes, topics: Sequence[float]) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(list(topics)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:.0f}")


_FRACTION_PANELS = {
    "hamming_accuracy": ("Hamming accuracy", {"gold": "accuracy", "votes": "crowd_accuracy"}),
    "micro_f1": ("micro-F1", {"gold": "f1", "votes": "crowd_f1"}),
    "annotator_rmse": ("annotator RMSE", {"votes": "rmse"}),
}


def draw_fractions(records: Sequence[CellRecord], titles: Mapping[str, str]) -> Figure:
    """Measures against the fraction of the training documents, from gold labels and votes, with the paper's values."""
    with _panels(1, len(_FRACTION_PANELS), 2.9, 2.7) as (figure, rows):
        for axes, (measure, (heading, names)) in zip(rows[0], _FRACTION_PANELS.items(), strict=True):
            _draw_methods_by_fraction(axes, records, titles, measure)
            if records and records[0].cell.data == "reuters":
                _draw_published_fractions(axes, names)
            axes.set_xlabel("fraction of the training documents")
            axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            axes.set_ylabel(heading)
            axes.yaxis.set_major_locator(MaxNLocator(5))
        rows[0][-1].set_ylim(bottom=0)  # errors start at 0
        _shared_legend(figure, rows, n_columns=3)
    return figure


def _draw_methods_by_fraction(
    axes: Axes, records: Sequence[CellRecord], titles: Mapping[str, str], measure: str
) -> None:
    groups = group_by(records, lambda cell: (cell.method, cell.source))
    for (method, source), group in groups.items():
        color, marker = _METHOD_STYLES[method]
        style = _Style(color, marker, _SOURCE_LINES[source], filled=source == "gold")
        _draw(axes, _stats(group, measure, _fraction), style, f"{titles[method]}, {SOURCES[source]}")
    if measure == "annotator_rmse":
        crowd = [record for record in records if record.cell.source == "votes"]
        _draw(axes, _stats(crowd, "oracle_rmse", _fraction), _Style("0.0", ".", ":"), "oracle")


def _draw_published_fractions(axes: Axes, names: Mapping[str, str]) -> None:
    for source, name in names.items():
        points: dict[float, Stat | None] = {
            fraction: Stat(row[name], math.nan, 1) for fraction, row in published_values.TABLE_2.items()
        }
        _draw(axes, points, _Style(*_PAPER_STYLE, _SOURCE_LINES[source]), f"the paper, {SOURCES[source]}")


_ANNOTATOR_STYLES = {"honest annotators": _Style("0.35", "o", filled=False), "malicious annotators": _Style("0.0", "x")}


def draw_qualities(records: Sequence[CellRecord], titles: Mapping[str, str]) -> Figure:
    """Error of each annotator's estimated quality against the true quality: one panel per method, all seeds."""
    methods = group_by(records, lambda cell: cell.method)
    with _panels(1, len(methods), 3.4, 2.6, sharey=True) as (figure, rows):
        for axes, (method, group) in zip(rows[0], methods.items(), strict=True):
            axes.axhline(0.0, color="0.6", linewidth=0.8)
            for (label, style), (x, y) in zip(_ANNOTATOR_STYLES.items(), _errors_by_kind(group), strict=True):
                face = style.color if style.filled else "none"
                axes.plot(
                    x, y, style.marker, color=style.color, markerfacecolor=face, markersize=4, linewidth=0, label=label
                )
            axes.set_title(titles[method], loc="left", fontweight="bold")
            axes.set_xlabel("true quality")
            axes.set_xlim(-0.03, 1.03)
        rows[0][0].set_ylabel("estimated minus true quality")
        _shared_legend(figure, rows)
    return figure


def _errors_by_kind(records: Sequence[CellRecord]) -> list[tuple[list[float], list[float]]]:
    """True qualities and errors of honest annotators, then of malicious ones."""
    pairs = [
        (true, estimated - true)
        for details in (record.details for record in records)
        for true, estimated in zip(details.get("true_quality", ()), details.get("quality", ()), strict=True)
    ]
    kinds = ([pair for pair in pairs if (pair[0] < 0.5) == malicious] for malicious in (False, True))
    return [([true for true, _ in kind], [error for _, error in kind]) for kind in kinds]


def draw_methods(records: Sequence[CellRecord], titles: Mapping[str, str], measure: str, label: str) -> Figure:
    """A measure of every method, from each kind of labels: one panel per data set, best methods at the top."""
    sets = group_by(records, lambda cell: cell.data)
    order = _worst_first(records, measure)
    width = 1.9 + 0.065 * max(len(titles[method]) for method in order) / len(
        sets
    )  # room for the names left of the first panel
    with _panels(1, len(sets), width, 1.2 + 0.25 * len(order), sharey=True) as (figure, rows):
        for axes, (data, data_records) in zip(rows[0], sets.items(), strict=True):
            for source, style in _SOURCE_STYLES.items():
                from_source = [record for record in data_records if record.cell.source == source]
                points: dict[float, Stat | None] = {
                    float(order.index(method)): _stat(group, measure)
                    for method, group in group_by(from_source, lambda cell: cell.method).items()
                }
                _draw(axes, points, style, f"from {SOURCES[source]}", vertical=False)
            axes.set_title(data, loc="left", fontweight="bold")
            axes.set_xlabel(label)
            axes.xaxis.set_major_locator(MaxNLocator(4))
            axes.set_yticks(range(len(order)), [titles[method] for method in order])
            axes.set_ylim(-0.7, len(order) - 0.3)
        _shared_legend(figure, rows)
    return figure


def _worst_first(records: Sequence[CellRecord], measure: str) -> list[str]:
    """Methods by their best value on each data set, averaged over data sets."""

    def mean_of_best(method_records: Sequence[CellRecord]) -> float:
        groups = group_by(method_records, lambda cell: (cell.data, cell.source))
        best: dict[str, float] = {}
        for (data, _), group in groups.items():
            stat = _stat(group, measure)
            if stat is not None:
                best[data] = max(stat.mean, best.get(data, stat.mean))
        return sum(best.values()) / max(len(best), 1)

    methods = group_by(records, lambda cell: cell.method)
    return sorted(methods, key=lambda method: mean_of_best(methods[method]))
