"""What earlier work says about annotators, as priors of their own.

A history never outweighs many new votes: each rate counts as at most ``MAX_HISTORY_VOTES`` earlier votes, and as at
least half a correct and half a wrong one.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palda.data import names_array, validation
from palda.errors import DataError, PaldaWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palda.data import Strings

    Array = NDArray[np.float64]

__all__ = ["MAX_HISTORY_VOTES", "STRENGTH", "AnnotatorHistory", "parse_annotator_prior"]

MAX_HISTORY_VOTES = 200.0
"""Most votes that the history of one rate counts as."""

STRENGTH = 40.0
"""How many votes a quality without a number of votes counts as, half of them on classes that are present."""

_LEAST_VOTES = 5.0  # a mean that somebody reported is worth this much, however few the votes in that state were
_LEAST_SIDE = 0.5  # nobody is infinitely right


@dataclass(frozen=True)
class AnnotatorHistory:
    """Earlier rates, and the numbers of votes behind them; an entry an annotator, NaN for who has no history."""

    quality: Array
    sensitivity: Array
    specificity: Array
    n_present: Array
    n_absent: Array

    def betas(self, shape: tuple[int, ...]) -> Array:
        """Beta parameters (annotators, *shape, 2) of rates: one, one a state (absent, present), or by class and state.

        Of rates by class each class gets an equal part of the votes.
        """
        if shape:
            rates = np.column_stack((self.specificity, self.sensitivity))
            n_votes = np.column_stack((self.n_absent, self.n_present)) / np.prod(shape[:-1])
        else:
            rates, n_votes = self.quality, self.n_present + self.n_absent
        strength = np.clip(n_votes, _LEAST_VOTES, MAX_HISTORY_VOTES)
        betas = np.maximum(np.stack((rates * strength, (1.0 - rates) * strength), axis=-1), _LEAST_SIDE)
        if len(shape) > 1:
            betas = np.repeat(betas[:, None], shape[0], axis=1)
        return betas


def parse_annotator_prior(given: Any, annotators: Strings, strength: float = STRENGTH) -> AnnotatorHistory:
    """History of the annotators named, in their order.

    Parameters
    ----------
    given
        ``annotator_quality_`` of an earlier fit, or any data frame with columns ``annotator`` and ``quality``, or
        ``sensitivity`` and ``specificity``; ``n_votes`` and ``n_present`` say how many votes are behind them. Or a
        mapping from annotator to quality, or to (sensitivity, specificity). Whoever is not named, or has no votes in
        the table, belongs to the pool.
    annotators
        Who votes now.
    strength
        How many votes a rate counts as if ``given`` does not say.
    """
    validation.require_number(strength, 1, MAX_HISTORY_VOTES, "strength")
    columns = _of_mapping(given) if isinstance(given, Mapping) else _of_frame(given)
    names = names_array(columns.pop("annotator"))
    twice = validation.first_duplicate(names)
    if twice is not None:
        raise DataError(
            f"annotator {validation.shown(names[twice[0]])} occurs twice in annotator_prior; keep one row each"
        )
    table = _with_defaults({name: _numbers(values, name, names) for name, values in columns.items()}, strength)
    row_of = {name: row for row, name in enumerate(names)}
    rows = np.array([row_of.get(name, -1) for name in annotators], dtype=np.intp)
    if len(names) and not (rows >= 0).any():
        warnings.warn("annotator_prior names nobody who voted; are annotators named alike?", PaldaWarning, stacklevel=2)
    known = (rows >= 0) & (table["n_votes"][rows] > 0) if len(names) else np.zeros(len(rows), dtype=bool)
    aligned = {name: np.full(len(rows), np.nan) for name in AnnotatorHistory.__dataclass_fields__}
    for name, values in aligned.items():
        values[known] = table[name][rows[known]]
    return AnnotatorHistory(**aligned)


def _of_mapping(given: Mapping[Any, Any]) -> dict[str, list[Any]]:
    pairs = []
    for name, value in given.items():
        rates = np.atleast_1d(np.asarray(value, dtype=object))
        if rates.shape not in ((1,), (2,)):
            raise DataError(
                f"annotator_prior of {validation.shown(name)} is {validation.shown(value)}; "
                "give a quality or (sensitivity, specificity)"
            )
        pairs.append((rates[0], rates[-1]))
    sensitivity, specificity = ([pair[side] for pair in pairs] for side in (0, 1))
    return {"annotator": list(given), "sensitivity": sensitivity, "specificity": specificity}


def _of_frame(given: Any) -> dict[str, Any]:
    header = [str(name) for name in getattr(given, "columns", ())]
    if not header:
        raise DataError(
            f"annotator_prior is a {type(given).__name__}; give annotator_quality_ of an earlier fit, or a mapping "
            "from annotator to quality"
        )
    missing = {"annotator"} - set(header)
    if not missing and "quality" not in header:
        missing = {"sensitivity", "specificity"} - set(header)
    if missing:
        raise DataError(
            f"annotator_prior has no column {validation.listed(sorted(missing))}, only {validation.listed(header)}; "
            "it needs annotator, and quality or both sensitivity and specificity"
        )
    wanted = ("annotator", "quality", "sensitivity", "specificity", "n_votes", "n_present")
    return {name: list(given[name]) for name in wanted if name in header}


def _numbers(values: list[Any], name: str, names: Strings) -> Array:
    """A column of rates inside (0, 1), or of numbers of votes."""
    try:
        column = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} in annotator_prior must hold numbers") from None
    if name == "n_present":
        wrong = column < 0  # NaN: the earlier model did not tell states apart
    else:
        wrong = ~((column >= 0) & np.isfinite(column)) if name == "n_votes" else ~((column > 0) & (column < 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        rule = (
            "a number of votes is at least 0" if name.startswith("n_") else "a rate lies between 0 and 1, both excluded"
        )
        raise DataError(
            f"{name} of annotator {validation.shown(names[row])} in annotator_prior is {column[row]:g}; {rule}"
        )
    return column


def _with_defaults(table: dict[str, Array], strength: float) -> dict[str, Array]:
    """Whatever was not said, from what was."""
    if "quality" not in table:
        table["quality"] = (table["sensitivity"] + table["specificity"]) / 2
    if not {"sensitivity", "specificity"} <= table.keys():
        table["sensitivity"] = table["specificity"] = table["quality"]
    n_votes = table.setdefault("n_votes", np.full(len(table["quality"]), strength))
    n_present = table.get("n_present", np.full(len(n_votes), np.nan))
    table["n_present"] = np.minimum(np.where(np.isnan(n_present), n_votes / 2, n_present), n_votes)
    table["n_absent"] = n_votes - table["n_present"]
    return table
