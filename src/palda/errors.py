"""Everything that can go wrong on the user's side, as one family of exceptions."""

from __future__ import annotations

__all__ = ["DataError", "MissingDependencyError", "PaldaError", "PaldaWarning"]


class PaldaError(Exception):
    """Something the user can put right; the message is one line that says what and how."""


class DataError(PaldaError, ValueError):
    """Input that cannot be used as it stands.

    The message starts with where the fault is, as a person would look it up: file, row as a spreadsheet
    numbers it (the header is row 1), column.
    """

    def __init__(
        self, problem: str, *, file: str | None = None, row: int | None = None, column: str | None = None
    ) -> None:
        self.problem = problem
        self.file = file
        self.row = row
        self.column = column
        place = [
            file,
            None if row is None else f"row {row}",
            None if column is None else f"column {column!r}",
        ]
        where = ", ".join(part for part in place if part is not None)
        message = f"{where}: {problem}" if where else problem
        super().__init__(" ".join(message.split()))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_data_error, (self.problem, self.file, self.row, self.column)


def _rebuild_data_error(problem: str, file: str | None, row: int | None, column: str | None) -> DataError:
    return DataError(problem, file=file, row=row, column=column)


class MissingDependencyError(PaldaError, ImportError):
    """An optional package is needed; the message names the extra that brings it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional package: pip install 'palda[{extra}]'")


class PaldaWarning(UserWarning):
    """The result is usable, but the user should know something about it."""
