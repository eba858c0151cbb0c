"""Arguments of ``assign`` as users give them: annotators, prices, limits, and pairs of annotators and documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palda.data import validation
from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from palda.data import Array, Strings

    Ints = NDArray[np.int64]

NO_LIMIT = np.iinfo(np.int64).max // 2
"""Number of votes of a document or an annotator without a limit."""


class People(NamedTuple):
    """Annotators who are available, without repetitions."""

    names: list[str]
    positions: Ints  # in the model, -1 for annotators that it does not know
    listed: Ints  # how often each was listed


def parse_annotators(annotators: Any, known: Strings) -> People:
    """The annotators that are listed, or all known ones."""
    if annotators is None:
        names = [str(name) for name in known]
    elif isinstance(annotators, str):
        names = [annotators]
    else:
        names = [_name(name) for name in annotators]
    counted: dict[str, int] = {}
    for name in names:
        counted[name] = counted.get(name, 0) + 1
    if not counted:
        raise ValueError("annotators is empty: name at least one annotator, or pass None for all")
    place = {str(name): position for position, name in enumerate(known)}
    positions = np.array([place.get(name, -1) for name in counted], dtype=np.int64)
    return People(list(counted), positions, np.array(list(counted.values()), dtype=np.int64))


def _name(name: object) -> str:
    text = validation.name_text(name)
    if not text:
        raise ValueError(f"annotators has a name that is empty or missing: {name!r:.60}")
    return text


def parse_prices(price: Any, people: People, n_tokens: NDArray[np.float32]) -> Array:
    """(annotators, documents): price of each pair; 1 by default."""
    shape = len(people.names), len(n_tokens)
    if price is None:
        return np.broadcast_to(1.0, shape)
    if isinstance(price, str):
        if price != "tokens":
            raise ValueError(f'price={price!r:.60} must be a number, one number per annotator, or "tokens"')
        return np.broadcast_to(np.maximum(n_tokens.astype(np.float64), 1.0), shape)
    if isinstance(price, (int, float, np.number)):
        numbers = np.full(len(people.names), float(price))
    else:
        numbers = np.array([_of_annotator(price, name, "price") for name in people.names], dtype=np.float64)
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        raise ValueError("prices must be finite numbers above 0")
    return np.broadcast_to(numbers[:, None], shape)


def _of_annotator(table: Any, name: str, kind: str) -> float:
    given = table if isinstance(table, Mapping) else table.to_dict() if hasattr(table, "to_dict") else None
    if given is None:
        raise ValueError(f"{kind} must be a number or a mapping from annotators to numbers, not {type(table).__name__}")
    if name not in given:
        raise ValueError(f"{kind} has no entry for annotator {validation.shown(name)}")
    try:
        return float(given[name])
    except (TypeError, ValueError):
        raise ValueError(f"{kind} of annotator {validation.shown(name)} is not a number") from None


def parse_limits(limit: Any, people: People) -> Ints:
    """(annotators,): documents that each annotator may judge in all."""
    if limit is None:
        return np.full(len(people.names), NO_LIMIT)
    if isinstance(limit, (int, np.integer)):
        numbers = np.full(len(people.names), float(limit))
    else:
        numbers = np.array([_of_annotator(limit, name, "max_votes_per_annotator") for name in people.names])
        numbers = np.where(np.isnan(numbers), float(NO_LIMIT), numbers)
    if (numbers < 0).any():
        raise ValueError("max_votes_per_annotator must not be below 0")
    limits: Ints = np.minimum(numbers, float(NO_LIMIT)).astype(np.int64)
    return limits


def parse_pairs(pairs: Any, kind: str, doc_position: Mapping[str, int]) -> tuple[list[str], Ints]:
    """Annotators and documents of pairs: a data frame with columns annotator and doc, or pairs (annotator, doc)."""
    if pairs is None:
        return [], np.empty(0, dtype=np.int64)
    if hasattr(pairs, "columns"):
        missing = [name for name in ("annotator", "doc") if name not in pairs.columns]
        if missing:
            raise DataError(f"{kind} has no column {missing[0]!r}; it needs the columns annotator and doc")
        listed: Iterable[Any] = zip(pairs["annotator"], pairs["doc"], strict=True)
    else:
        listed = list(pairs)
        wrong = next((pair for pair in listed if isinstance(pair, str) or not _is_pair(pair)), None)
        if wrong is not None:
            raise DataError(f"{kind} must hold pairs (annotator, document), not {wrong!r:.60}")
    names, docs = [], []
    for annotator, doc in listed:
        name = validation.name_text(doc)
        if name not in doc_position:
            raise DataError(f"{kind}: document {validation.shown(name)} is not among those of the model")
        names.append(validation.name_text(annotator))
        docs.append(doc_position[name])
    return names, np.array(docs, dtype=np.int64)


def _is_pair(pair: Any) -> bool:
    try:
        return len(pair) == 2
    except TypeError:
        return False


def positive(number: Any, name: str, *, whole: bool = False) -> Any:
    """The number, if it is one above 0."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if isinstance(number, bool) or not isinstance(number, kinds) or not number > 0:
        raise ValueError(f"{name}={number!r:.60} must be {'an integer of at least 1' if whole else 'a number above 0'}")
    return number
