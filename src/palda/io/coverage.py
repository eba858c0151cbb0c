"""How many answers of a file are votes: a file of which little is used is never read without a word."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field

from palda.errors import DataError, PaldaWarning

_MIN_USED = 10
"""A file is read without a warning if at least one in so many of its answers is a vote."""


@dataclass
class Coverage:
    """Numbers of answers that judge, and of those that do not, by reason.

    ``answers`` is the platform's word for them, such as "assignments". ``advice`` says by reason what a user can do.
    """

    answers: str
    n_judging: int = 0
    unused: Counter[str] = field(default_factory=Counter)
    doubts: Counter[str] = field(default_factory=Counter)
    advice: dict[str, str] = field(default_factory=dict)

    @property
    def n_answers(self) -> int:
        """Number of all answers."""
        return self.n_judging + self.unused.total()

    def check(self, file: str | None, *, n_classes: int, has_votes: bool, has_gold: bool) -> None:
        """Raise if the file has neither votes nor gold labels; warn if fewer than a tenth of the answers are votes."""
        if not has_votes and not has_gold:
            raise DataError(f"has no votes: {self._nothing(n_classes)}", file=file)
        where = f"{file}: " if file else ""
        if self.n_judging * _MIN_USED < self.n_answers:
            few = "none" if not self.n_judging else f"only {self.n_judging:,}"
            self._warn(f"{where}{few} of {self.n_answers:,} {self.answers} are votes: {self._reasons()}")
        for doubt, number in self.doubts.items():
            if (self.n_judging - number) * _MIN_USED < self.n_judging:
                self._warn(f"{where}{number:,} of {self.n_judging:,} {self.answers} {doubt}")

    def _nothing(self, n_classes: int) -> str:
        if self.n_judging and n_classes:
            return f"the {self.n_judging:,} {self.answers} contradict each other, or name no class"
        if self.n_judging:
            classes = " ".join(("classes=[...]", *filter(None, [self.advice.get("no classes")])))
            return f"none of {self.n_judging:,} {self.answers} chooses a class; name the classes with {classes}"
        if not self.unused:
            return f"there are no {self.answers}"
        return f"none of {self.n_answers:,} {self.answers} can be used: {self._reasons()}"

    def _reasons(self) -> str:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in self.unused.most_common())
        advice = [self.advice[reason] for reason in self.unused if reason in self.advice]
        return "; ".join((reasons, *advice))

    def _warn(self, message: str) -> None:
        warnings.warn(message, PaldaWarning, stacklevel=5)


def check_rows(file: str | None, n_rows: int, n_judging: int) -> None:
    """Warn if fewer than a tenth of the rows of a table of votes have a vote; raise if none has."""
    blank = Counter({"blank": n_rows - n_judging})
    has_votes = n_judging > 0 or not n_rows
    Coverage("rows", n_judging, blank).check(file, n_classes=1, has_votes=has_votes, has_gold=False)


def warn_about_blanks(n_blank: int, first: str) -> None:
    """Warn that blank cells were read as abstentions."""
    warnings.warn(
        f"{first}: {n_blank} blank cells were read as abstentions; if they mean that no class applies,"
        " pass blank='none' (or write []), else pass blank='abstained'",
        PaldaWarning,
        stacklevel=4,
    )
