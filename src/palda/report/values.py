"""Values that the page embeds: rounded numbers, shortened texts, and JSON that is safe inside a script element."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.io import visible

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_HEATMAP_NAMES = 60
"""Names along one side of a heatmap; more would not be legible."""

_MAX_NAME_LENGTH = 80
_ESCAPED = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def rounded(value: Any, digits: int = 4) -> float | None:
    """A rounded float for JSON; None if the value is not finite."""
    plain = float(value)
    return round(plain, digits) if np.isfinite(plain) else None


def heatmap(
    names: list[str], values: NDArray[np.float64], n_all: int, details: list[list[str]] | None = None
) -> dict[str, Any]:
    """A square, symmetric matrix of numbers between -1 and 1, drawn in colours, with additional text per cell.

    ``n_all`` is the number of names before the selection of those shown.
    """
    rows = [[rounded(value, 3) for value in row] for row in values]
    return {"names": names, "values": rows, "details": details, "n_all": n_all}


def script_json(value: Any) -> str:
    """JSON in which no character can end the surrounding script element or start a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPED)


def shortened(name: object, max_length: int = _MAX_NAME_LENGTH, keep: str = "") -> str:
    """The text, cut to ``max_length`` characters; invisible characters are escaped except those in ``keep``."""
    text = visible(str(name)[: max_length + 1], keep)
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"
