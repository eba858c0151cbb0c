"""Exceptions and warnings of palda."""

from __future__ import annotations

from functools import partial

_MAX_REASON_LENGTH = 200
_MAX_NAME_LENGTH, _MAX_LENGTH = 120, 1000  # characters of a column's name and of a problem; names may be of any length


def _cut(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def reason_of(error: BaseException) -> str:
    """Message of another package's exception for a message of ours: one line of usual length, never empty."""
    return _cut(" ".join(str(error).split()), _MAX_REASON_LENGTH) or type(error).__name__


class PaldaError(Exception):
    """An error that the user can correct. The message is one line: what is wrong, and what to do."""


class DataError(PaldaError, ValueError):
    """Input that cannot be used.

    The message starts with the location of the fault: file, row as a spreadsheet numbers it (the header is row 1),
    column.

    Parameters
    ----------
    problem : str
        What is wrong, and what to do.
    file : str, default=None
        Name of the file.
    row : int, default=None
        Row number.
    column : str, default=None
        Column name.

    Examples
    --------
    >>> from palda import DataError
    >>> print(DataError("vote 'maybe' is not 0 or 1", file="votes.csv", row=3, column="value"))
    votes.csv, row 3, column 'value': vote 'maybe' is not 0 or 1
    """

    def __init__(
        self, problem: str, *, file: str | None = None, row: int | None = None, column: str | None = None
    ) -> None:
        self.problem, self.file, self.row, self.column = problem, file, row, column
        name = None if column is None else _cut(repr(column), _MAX_NAME_LENGTH)
        location = (file, None if row is None else f"row {row}", None if name is None else f"column {name}")
        where = ", ".join(part for part in location if part is not None)
        reason = _cut(problem, _MAX_LENGTH)
        super().__init__(" ".join(f"{where}: {reason}".split() if where else reason.split()))

    def __reduce__(self) -> tuple[object, ...]:
        return partial(DataError, file=self.file, row=self.row, column=self.column), (self.problem,)


class MissingDependencyError(PaldaError, ImportError):
    """An optional package is not installed; the message names the extra to install."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional package: pip install 'palda[{extra}]'")


class PaldaWarning(UserWarning):
    """The result is usable, but there is something to know about it."""
