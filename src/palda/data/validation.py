"""Input checks; each finds the first offending row and raises an error of one line that says what to do."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

import numpy as np
from scipy import sparse

from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

DuplicateRule = Literal["error", "last", "first", "drop"]

_MAX_COMPARED_LENGTH, _MAX_COMPARED_NAMES = 100, 20_000
_MAX_DIGIT_BITS = 16  # of a radix sort: 65,536 counters stay in the cache

BLANK = -1
"""Value of a cell without a judgement; it does not mean "absent"."""

HALF = 0.5
"""A soft vote above it is "present", and one that is equal no judgement."""

_YES = frozenset({"1", "1.0", "true"})
_NO = frozenset({"0", "0.0", "false"})
_BLANKS = frozenset({"", "na", "nan", "null", "<na>"})

ALIASES: dict[str, tuple[str, ...]] = {
    "doc": (
        "doc", "doc_id", "docid", "document_id", "task", "task_id", "item", "item_id", "question", "unit", "unit_id",
        "_unit_id", "example", "example_id", "text_id", "inner_id", "id", "document",
    ),
    "annotator": (
        "annotator", "annotator_id", "worker", "worker_id", "workerid", "_worker_id", "rater", "rater_id",
        "completed_by", "user", "user_id", "username", "labeler", "labeller", "coder", "performer",
    ),
    "label": ("label", "class", "category", "tag"),
    "labels": ("labels", "label_set", "labelset", "classes", "categories", "tags", "choices"),
    "value": ("value", "vote", "answer", "judgement", "judgment", "response"),
    "probability": ("probability",),
    "confidence": ("confidence", "certainty"),
    "time": ("timestamp", "created_at", "submitted_at", "updated_at", "_created_at", "submit_time"),
    "kind": ("annotator_kind", "annotator_type", "kind"),
    "family": ("annotator_family", "model_family", "family"),
    "text": ("text", "body", "content", "document_text", "sentence", "post", "abstract", "review", "message"),
}  # fmt: skip
"""Usual column names by role, most specific first; case is ignored."""


@dataclass(frozen=True)
class SourceLocation:
    """File and rows of records, for error messages.

    ``rows`` has the spreadsheet row of each record; without it, records follow the header without gaps.
    """

    file: str | None = None
    rows: NDArray[np.int64] | None = None
    first_row: int = 2

    def row(self, record: int) -> int:
        """Row number, as a spreadsheet shows it, of a record counted from 0."""
        return int(self.rows[record]) if self.rows is not None else record + self.first_row

    def subset(self, records: NDArray[np.int64]) -> SourceLocation:
        """Location of some of the records."""
        rows = records + self.first_row if self.rows is None else self.rows[records]
        return SourceLocation(self.file, rows)

    def fail(self, problem: str, record: int | None = None, column: str | None = None) -> NoReturn:
        """Raise ``DataError`` for a record, a column or the whole file."""
        raise DataError(problem, file=self.file, row=None if record is None else self.row(record), column=column)


def shown(value: object, width: int = 60) -> str:
    """Representation of a value for a message: one line of at most ``width`` characters."""
    text = repr(value)
    return text if len(text) <= width else text[: width - 1] + "…"


def duplicate_id(doc_id: str, row: int) -> str:
    """Message about a document id that an earlier row has as well."""
    return f"duplicate id {shown(doc_id)}, which is in row {row} too; give each document its own id"


def find_column(header: Sequence[str], role: str, given: str | None, where: SourceLocation) -> str | None:
    """Column for ``role``: the one given by the caller, else the first alias that occurs."""
    if given is not None:
        if given in header:
            return given
        near = nearest(given, header)
        hint = f"; did you mean {near!r}?" if near else f"; the columns are {listed(header)}"
        where.fail(f"there is no column {given!r} for the {role}{hint}")
    lowered = {name.lower(): name for name in reversed(header)}
    return next((lowered[alias] for alias in ALIASES[role] if alias in lowered), None)


def listed(names: Iterable[object], max_names: int = 8) -> str:
    """Short enumeration for a message."""
    names = list(names)
    more = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    return ", ".join(shown(name) for name in names[:max_names]) + more


def is_blank(value: object) -> bool:
    """Whether a cell is blank: None, NaN, NA, or a blank string."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return True
    if isinstance(value, str):
        return value.strip().lower() in _BLANKS
    return type(value).__name__ in {"NAType", "NaTType"}


def name_text(value: object) -> str:
    """An id or name as text: 7, 7.0 and "7" are the same name, surrounding blanks are removed, missing is ""."""
    if isinstance(value, str):
        return value.strip()
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return ""
    if isinstance(value, (float, np.floating)):
        if np.isnan(value):
            return ""
        if float(value).is_integer():
            return str(int(value))
    return str(value).strip()


def is_nested(value: object) -> bool:
    """Whether a value is a list, an object or bytes, which are no name."""
    return isinstance(value, (dict, list, tuple, set, frozenset, bytes, np.ndarray))


def nested_name(value: object, kind: str) -> str:
    """Message about a value that is no name."""
    return f"{shown(value)} is not the name of {kind}; write a text or a number"


def encodable(text: str) -> bool:
    """Whether UTF-8 can express a text: not if it has half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_value(value: object, present_at: float | None = None) -> int | None:
    """Vote in a cell: 1, 0, ``BLANK`` for no judgement, or None when it is not a vote.

    With ``present_at`` the cell is a score, and scores of at least this value mean "present".
    """
    if is_blank(value):
        return BLANK
    if present_at is not None:
        try:
            score = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return None
        return None if np.isnan(score) else int(score >= present_at)
    text = str(value).strip().lower()
    if text in _YES:
        return 1
    return 0 if text in _NO else None


def parse_vote(value: object, present_at: float | None = None) -> float | None:
    """Vote in a cell: 1, 0, the probability of "present" between them, ``BLANK``, or None when it is not a vote."""
    vote = parse_value(value, present_at)
    if vote is not None or present_at is not None:
        return vote
    number = parse_number(value)
    return number if number is not None and 0 <= number <= 1 else None


def parse_number(value: object) -> float | None:
    """Number in a cell; None if it is none, or not finite."""
    if isinstance(value, str) and "_" in value:  # which Python would take for a separator of digits
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if np.isfinite(number) else None


def value_problem(value: object, present_at: float | None) -> str:
    """Message that says why a cell is not a vote and what to write instead."""
    if present_at is not None:
        return f"{shown(value)} is not a number; present_at={present_at:g} needs scores or blanks"
    hint = (
        "a vote is 1 for present, 0 for absent, blank for no judgement"
        if parse_number(value) is None
        else "leave the cell blank for no judgement, or pass present_at= to turn scores into votes"
    )
    return f"{shown(value)} is not 0, 1 or blank; {hint}"


def first_duplicate(names: Sequence[str] | NDArray[Any]) -> tuple[int, int] | None:
    """Positions of the first duplicate: its first and its second occurrence."""
    seen: dict[Any, int] = {}
    for position, name in enumerate(names):
        if name in seen:
            return seen[name], position
        seen[name] = position
    return None


def nearest(name: str, known: Collection[str]) -> str | None:
    """The most similar of the known names; None if none is similar. Long names, which take long, are not compared."""
    if len(name) > _MAX_COMPARED_LENGTH:
        return None
    short = [other for other in islice(known, _MAX_COMPARED_NAMES) if len(other) <= _MAX_COMPARED_LENGTH]
    return next(iter(difflib.get_close_matches(name, short, n=1)), None)


def unknown_name(name: str, known: Collection[str], kind: str, n_known: int | None = None) -> str:
    """Message for an unknown name, with the nearest known name.

    ``n_known`` is the number of known names if ``known`` has only some of them.
    """
    near = nearest(name, known)
    hint = f"did you mean {near!r}?" if near else "correct the name, or leave it out"
    size = len(known) if n_known is None else n_known
    return f"{kind} {shown(name)} is not among the {size} known ones; {hint}"


def keep_one_vote_each(
    key: NDArray[np.int64],
    value: NDArray[np.int8],
    *,
    time: NDArray[np.float64] | None,
    rule: DuplicateRule,
    describe: Any,
    where: SourceLocation,
) -> NDArray[np.int64]:
    """Records to keep, sorted by ``key``, so that each key (document, annotator, class) has one vote.

    Equal votes count once, and the last of them is kept (with ``"first"`` the first). If all votes of a key have a
    time, the latest is kept. Otherwise different votes are a contradiction that ``rule`` resolves: ``"last"`` or
    ``"first"`` in file order, ``"drop"`` keeps none, ``"error"`` names both rows. ``describe(record)`` describes the
    vote in the message.
    """
    require_choice(rule, get_args(DuplicateRule), "duplicates")
    if time is None:
        undated = np.ones(len(key), dtype=bool)
        order = _stable_order(key)
    else:
        undated = np.isin(key, key[np.isnan(time)])  # if one vote of a key has no time, the key stays in file order
        order = np.lexsort((np.where(undated, 0.0, time), key))
    ordered = key[order]
    starts_run = np.ones(len(order), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=starts_run[1:])
    if starts_run.all():
        return order
    ends_run = np.roll(starts_run, -1)
    votes = value[order]
    starts = np.flatnonzero(starts_run)
    conflicts = np.minimum.reduceat(votes, starts) != np.maximum.reduceat(votes, starts)
    in_file_order = undated[order[starts]]
    contested = conflicts & in_file_order
    if rule == "error" and contested.any():
        run = starts[contested]
        clash = min((_first_clash(order, votes, start) for start in run), key=lambda pair: pair[1])
        where.fail(
            f"{describe(clash[1])} contradicts row {where.row(clash[0])}; keep one of them, "
            "or choose with duplicates='last', 'first' or 'drop'",
            clash[1],
        )
    kept = order[ends_run]
    if rule == "first":
        kept[in_file_order] = order[starts[in_file_order]]
    return kept[~contested] if rule == "drop" else kept


def _stable_order(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Argsort that keeps file order among equal keys.

    A radix sort: each pass is the counting sort by which SciPy transposes a sparse row. It takes a third of the time
    of NumPy's stable argsort; a file that is sorted already costs nothing.
    """
    if len(key) < 2 or bool(np.all(key[1:] >= key[:-1])):
        return np.arange(len(key))
    kind = np.int32 if len(key) < np.iinfo(np.int32).max else np.int64
    order = np.arange(len(key), dtype=kind)
    bits = int(key.max()).bit_length()
    digit_bits = -(-bits // -(-bits // _MAX_DIGIT_BITS))
    for shift in range(0, bits, digit_bits):
        digits = ((key >> shift) & ((1 << digit_bits) - 1)).astype(kind)[order]
        row = sparse.csr_array((order, digits, np.array([0, len(key)], dtype=kind)), shape=(1, 1 << digit_bits))
        order = row.tocsc().data
    return order.astype(np.int64)


def _first_clash(order: NDArray[np.int64], votes: NDArray[np.int8], start: int) -> tuple[int, int]:
    """First record of a run and the first later one that contradicts it."""
    stop = start + 1
    while votes[stop] == votes[start]:
        stop += 1
    return int(order[start]), int(order[stop])


def as_floats(given: ArrayLike, name: str) -> NDArray[np.float64]:
    """A copy as an array of floats; raises an error that names the argument."""
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be numbers, not {shown(given)}") from None


def require_count(value: object, name: str, minimum: int = 1) -> None:
    """Raise unless the argument is an integer of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < minimum:
        raise DataError(f"{name} must be an integer of at least {minimum}, not {shown(value)}")


def require_number(value: ArrayLike, low: float, high: float, name: str) -> None:
    """Raise unless the argument is one number from ``low`` to ``high``."""
    number = as_floats(value, name)
    if number.ndim or not low <= number <= high:
        raise DataError(f"{name} must be a number from {low:g} to {high:g}, not {shown(value)}")


def require_choice(value: object, choices: Collection[object], name: str) -> None:
    """Raise unless the argument is one of the allowed values."""
    if value not in choices:
        raise DataError(f"{name} must be one of {listed(choices)}, not {shown(value)}")


def require_shape(array: NDArray[Any], shape: tuple[int, ...], name: str) -> None:
    """Raise unless an array has the given shape."""
    if array.shape != shape:
        raise DataError(f"{name} must have shape {shape} here, not {array.shape}")


def require_rates(rates: NDArray[np.float64], name: str) -> None:
    """Raise for the first rate outside 0 to 1."""
    wrong = rates[~((rates >= 0) & (rates <= 1))]
    if len(wrong):
        raise DataError(f"{name} must lie between 0 and 1, but one is {wrong[0]:g}")


def require_distributions(probs: NDArray[np.float64], name: str) -> None:
    """Raise unless every row is non-negative and sums to 1."""
    if not ((probs >= 0).all() and np.allclose(probs.sum(axis=-1), 1.0, rtol=0, atol=1e-5)):
        raise DataError(f"{name} must be probabilities that sum to 1")
