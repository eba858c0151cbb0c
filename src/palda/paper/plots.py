"""Figures of results, for print: told apart by markers and line styles, so that they read in grey as well."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, PercentFormatter

from palda.paper import printed_figures
from palda.paper.cells import SOURCES, grouped
from palda.paper.tables import Stat, percent, stat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from palda.paper.cells import CellRecord

__all__ = ["draw_methods", "draw_parts", "draw_qualities", "draw_topics", "save"]

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
    "svg.fonttype": "none",  # text stays text: it can be searched, and takes the font of the page
    "svg.hashsalt": "palda",  # equal figures make equal files
}


class _Look(NamedTuple):
    """How one line or kind of point is drawn."""

    color: str
    marker: str
    line: str = "none"
    filled: bool = True


_LINES = (
    _Look("0.6", "o", ":"),
    _Look("0.45", "s", "-."),
    _Look("0.25", "^", "--"),
    _Look("0.0", "D", "-"),
    _Look("0.35", "v", "-"),
)
_SOURCE_LOOKS = {
    "gold": _Look("0.0", "o"),
    "votes": _Look("0.0", "D", filled=False),
    "majority": _Look("0.5", "s", filled=False),
    "dawid_skene": _Look("0.3", "^", filled=False),
}
_METHOD_LOOKS = {"palda": ("0.0", "D"), "published": ("0.45", "o")}
_SOURCE_LINES = {"gold": "-", "votes": "--"}
_PAPER_LOOK = ("0.7", "x")


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as SVG and PNG; both only get their name once they are complete."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with mpl.rc_context(_STYLE):
        for kind, options in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 200})):
            path = folder / f"{name}.{kind}"
            part = path.with_suffix(f".part.{kind}")
            figure.savefig(part, format=kind, bbox_inches="tight", **options)
            part.replace(path)
            paths.append(path)
    return paths


@contextmanager
def _panels(n_rows: int, n_columns: int, width: float, height: float, **options: Any) -> Iterator[tuple[Figure, Any]]:
    """A new figure and its axes, (rows, columns), drawn in our style."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
        yield figure, figure.subplots(n_rows, n_columns, squeeze=False, **options)


def _draw(axes: Axes, points: Mapping[float, Stat | None], look: _Look, label: str, *, upright: bool = True) -> None:
    """Means over seeds with their standard deviations, against the keys (below them if not upright)."""
    known = {place: found for place, found in points.items() if found is not None}
    if not known:
        return
    places, means = list(known), [found.mean for found in known.values()]
    spreads = [0.0 if found.spread != found.spread else found.spread for found in known.values()]  # NaN: one seed
    spread: Any = {"yerr" if upright else "xerr": spreads}
    x, y = (places, means) if upright else (means, places)
    axes.errorbar(
        x,
        y,
        **spread,
        color=look.color,
        marker=look.marker,
        linestyle=look.line,
        markerfacecolor=look.color if look.filled else "none",
        capsize=2,
        elinewidth=0.8,
        label=label,
    )


def _measured(records: Sequence[CellRecord], name: str) -> Stat | None:
    return stat(record.measures.get(name, float("nan")) for record in records)


def _shared_legend(figure: Figure, rows: Any, n_columns: int = 5) -> None:
    """One legend below all panels, every label once."""
    found: dict[str, Any] = {}
    for axes in rows.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=min(len(found), n_columns))


def draw_topics(records: Sequence[CellRecord], titles: Mapping[str, str], panels: Mapping[str, str]) -> Figure:
    """A row a method, a panel a measure: against the number of topics, a line for each part of the training set."""
    methods = grouped(records, lambda cell: cell.method)
    topics = sorted({_n_topics(record) for record in records})
    fractions = sorted({record.cell.fraction for record in records})
    with _panels(len(methods), len(panels), 2.5, 2.2, sharex=True) as (figure, rows):
        for row, (method, some) in zip(rows, methods.items(), strict=True):
            for axes, (measure, heading) in zip(row, panels.items(), strict=True):
                for fraction, look in zip(fractions, _spread_out(len(fractions)), strict=True):
                    part = [record for record in some if record.cell.fraction == fraction]
                    by_topics = _by_topics(part, measure)
                    _draw(axes, by_topics, look, f"{percent(fraction)} of the training set")
                    if measure == "annotator_rmse":
                        oracle = look._replace(color="0.75", line="none", filled=False)
                        _draw(axes, _by_topics(part, "oracle_rmse"), oracle, "oracle (same markers)")
                axes.set_ylabel(heading)
                axes.yaxis.set_major_locator(MaxNLocator(5))
                _log_topics(axes, topics)
            row[0].set_title(titles[method], loc="left", fontweight="bold")
        for axes in rows[-1]:
            axes.set_xlabel("topics")
        _shared_legend(figure, rows)
    return figure


def _spread_out(n_lines: int) -> list[_Look]:
    """Looks for so many lines; the last, the whole training set, is always the strongest."""
    return [_LINES[place % len(_LINES)] for place in range(max(0, 4 - n_lines), max(4, n_lines))]


def _n_topics(record: CellRecord) -> int:
    return int(str(record.cell.option("n_topics")))


def _by_topics(records: Sequence[CellRecord], measure: str) -> dict[float, Stat | None]:
    groups = grouped(records, lambda cell: int(str(cell.option("n_topics"))))
    return {float(topics): _measured(groups[topics], measure) for topics in sorted(groups)}


def _log_topics(axes: Axes, topics: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(list(topics)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:.0f}")


_PART_PANELS = {
    "hamming_accuracy": ("Hamming accuracy", {"gold": "accuracy", "votes": "crowd_accuracy"}),
    "micro_f1": ("micro-F1", {"gold": "f1", "votes": "crowd_f1"}),
    "annotator_rmse": ("annotator RMSE", {"votes": "rmse"}),
}


def draw_parts(records: Sequence[CellRecord], titles: Mapping[str, str]) -> Figure:
    """Accuracy, micro-F1 and annotators against the part of the training set, clean and crowd, the paper's beside."""
    with _panels(1, len(_PART_PANELS), 2.9, 2.7) as (figure, rows):
        for axes, (measure, (heading, printed)) in zip(rows[0], _PART_PANELS.items(), strict=True):
            _draw_parts(axes, records, titles, measure)
            if records and records[0].cell.data == "reuters":
                _draw_printed_parts(axes, printed)
            axes.set_xlabel("part of the training set")
            axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            axes.set_ylabel(heading)
            axes.yaxis.set_major_locator(MaxNLocator(5))
        rows[0][-1].set_ylim(bottom=0)  # errors are seen for what they are worth
        _shared_legend(figure, rows, n_columns=3)
    return figure


def _draw_parts(axes: Axes, records: Sequence[CellRecord], titles: Mapping[str, str], measure: str) -> None:
    groups = grouped(records, lambda cell: (cell.method, cell.source))
    for (method, source), some in groups.items():
        color, marker = _METHOD_LOOKS[method]
        look = _Look(color, marker, _SOURCE_LINES[source], filled=source == "gold")
        _draw(axes, _by_part(some, measure), look, f"{titles[method]}, {SOURCES[source]}")
    if measure == "annotator_rmse":
        crowd = [record for record in records if record.cell.source == "votes"]
        _draw(axes, _by_part(crowd, "oracle_rmse"), _Look("0.0", ".", ":"), "oracle")


def _draw_printed_parts(axes: Axes, printed: Mapping[str, str]) -> None:
    for source, name in printed.items():
        points: dict[float, Stat | None] = {
            part: Stat(row[name], float("nan"), 1) for part, row in printed_figures.TABLE_2.items()
        }
        _draw(axes, points, _Look(*_PAPER_LOOK, _SOURCE_LINES[source]), f"the paper, {SOURCES[source]}")


def _by_part(records: Sequence[CellRecord], measure: str) -> dict[float, Stat | None]:
    groups = grouped(records, lambda cell: cell.fraction)
    return {fraction: _measured(groups[fraction], measure) for fraction in sorted(groups)}


_KINDS = {"honest annotators": _Look("0.35", "o", filled=False), "malicious annotators": _Look("0.0", "x")}


def draw_qualities(records: Sequence[CellRecord], titles: Mapping[str, str]) -> Figure:
    """How far off each annotator's quality is, against the true one; a panel a method, points of all seeds."""
    methods = grouped(records, lambda cell: cell.method)
    with _panels(1, len(methods), 3.4, 2.6, sharey=True) as (figure, rows):
        for axes, (method, some) in zip(rows[0], methods.items(), strict=True):
            axes.axhline(0.0, color="0.6", linewidth=0.8)
            for (label, look), errors in zip(_KINDS.items(), _errors_by_kind(some), strict=True):
                face = look.color if look.filled else "none"
                x, y = errors
                axes.plot(
                    x, y, look.marker, color=look.color, markerfacecolor=face, markersize=4, linewidth=0, label=label
                )
            axes.set_title(titles[method], loc="left", fontweight="bold")
            axes.set_xlabel("true quality")
            axes.set_xlim(-0.03, 1.03)
        rows[0][0].set_ylabel("quality found less the true one")
        _shared_legend(figure, rows)
    return figure


def _errors_by_kind(records: Sequence[CellRecord]) -> list[tuple[list[float], list[float]]]:
    """True qualities and errors of honest annotators, then of malicious ones."""
    details = [record.details for record in records]
    pairs = [
        (true, found - true)
        for one in details
        for true, found in zip(one.get("true_quality", ()), one.get("quality", ()), strict=True)
    ]
    kinds = ([pair for pair in pairs if (pair[0] < 0.5) == malicious] for malicious in (False, True))
    return [([true for true, _ in some], [error for _, error in some]) for some in kinds]


def draw_methods(records: Sequence[CellRecord], titles: Mapping[str, str], measure: str, label: str) -> Figure:
    """A panel a data set: what every method reaches, from each kind of labels; best methods on top."""
    sets = grouped(records, lambda cell: cell.data)
    order = _worst_first(records, measure)
    width = 1.9 + 0.065 * max(len(titles[method]) for method in order) / len(sets)  # names stand left of the first
    with _panels(1, len(sets), width, 1.2 + 0.25 * len(order), sharey=True) as (figure, rows):
        for axes, (data, some) in zip(rows[0], sets.items(), strict=True):
            for source, look in _SOURCE_LOOKS.items():
                chosen = [record for record in some if record.cell.source == source]
                points: dict[float, Stat | None] = {
                    float(order.index(method)): _measured(group, measure)
                    for method, group in grouped(chosen, lambda cell: cell.method).items()
                }
                _draw(axes, points, look, f"from {SOURCES[source]}", upright=False)
            axes.set_title(data, loc="left", fontweight="bold")
            axes.set_xlabel(label)
            axes.xaxis.set_major_locator(MaxNLocator(4))
            axes.set_yticks(range(len(order)), [titles[method] for method in order])
            axes.set_ylim(-0.7, len(order) - 0.3)
        _shared_legend(figure, rows)
    return figure


def _worst_first(records: Sequence[CellRecord], measure: str) -> list[str]:
    """Methods by their mean over data sets of the best that they reach."""

    def reached(some: Sequence[CellRecord]) -> float:
        groups = grouped(some, lambda cell: (cell.data, cell.source))
        best: dict[str, float] = {}
        for (data, _), group in groups.items():
            found = _measured(group, measure)
            if found is not None:
                best[data] = max(found.mean, best.get(data, found.mean))
        return sum(best.values()) / max(len(best), 1)

    methods = grouped(records, lambda cell: cell.method)
    return sorted(methods, key=lambda method: reached(methods[method]))
