"""Lines about progress, on standard error."""

from __future__ import annotations

import sys


def note(text: str) -> None:
    """Write one line."""
    sys.stderr.write(f"palda: {text}\n")


def duration(seconds: float) -> str:
    """Seconds as text, in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
