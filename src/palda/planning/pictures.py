"""Picture of a plan: share of wrong labels against votes per document, one line per policy."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from palda.planning.curves import MIN_ERROR

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from palda.planning.curves import Curve

STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "palda",
}
LINES = (
    ("0.55", "s", "--"),
    ("#b07d2b", "^", "-."),
    ("#4477aa", "v", ":"),
    ("#882255", "D", "-"),
    ("0.3", "x", ":"),
    ("#117733", "o", "-"),
)
"""Colour, marker and line of each policy, which also differ in grey."""


def draw_plan(curves: Sequence[Curve], target_error: float | None = None, title: str = "") -> Figure:
    """Share of wrong labels (logarithmic) against votes per document; a line at the target.

    Examples
    --------
    >>> from palda.planning import Curve, CurvePoint, draw_plan
    >>> points = [CurvePoint(votes, 0, 0, 0.9, error, error, 0.9) for votes, error in ((1, 0.1), (2, 0.03))]
    >>> draw_plan([Curve("random", tuple(points))], target_error=0.02).axes[0].get_xlabel()
    'votes per document'
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.subplots()
        for curve, (color, marker, line) in zip(curves, line_styles(len(curves)), strict=True):
            error = np.maximum(curve.column("error"), MIN_ERROR)
            axes.plot(curve.column("votes_per_doc"), error, line, color=color, marker=marker, label=curve.policy)
        if target_error is not None:
            axes.axhline(target_error, color="0.2", linewidth=0.8)
            axes.annotate(
                f"target {_percent(target_error)}", (0.0, target_error), xycoords=("axes fraction", "data"),
                xytext=(4, 3), textcoords="offset points", fontsize=8, color="0.2",
            )  # fmt: skip
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(_percent))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("votes per document")
        axes.set_ylabel("wrong labels")
        axes.set_title(title, loc="left", fontsize=9)
        if curves:
            axes.legend()
    return figure


def line_styles(n_lines: int) -> list[tuple[str, str, str]]:
    """Colour, marker and line of so many lines; the last line is the same in every picture.

    Examples
    --------
    >>> from palda.planning import line_styles
    >>> line_styles(2)[-1] == line_styles(4)[-1]
    True
    """
    return [LINES[place % (len(LINES) - 1)] for place in range(n_lines - 1)] + [LINES[-1]] * min(n_lines, 1)


def save_picture(figure: Figure, path: Path | IO[bytes], kind: str) -> None:
    """Write a figure as ``"png"`` or ``"svg"``; equal figures give equal files.

    Examples
    --------
    >>> import io
    >>> from palda.planning import draw_plan, save_picture
    >>> file = io.BytesIO()
    >>> save_picture(draw_plan([]), file, "svg")
    >>> b"</svg>" in file.getvalue()
    True
    """
    with mpl.rc_context(STYLE):
        options: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {"dpi": 160}
        figure.savefig(path, format=kind, facecolor="white", **options)


def _percent(value: float, _position: int = 0) -> str:
    return f"{100 * value:.3g}%"
