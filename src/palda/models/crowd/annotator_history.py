"""Rates of annotators from earlier work, as individual priors.

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
    from palda.data import Array, Strings

MAX_HISTORY_VOTES = 200.0
"""Maximum number of votes that the history of one rate counts as."""

_DEFAULT_HISTORY_VOTES = 40.0  # of a rate without a number of votes, half of them on classes that are present
_MIN_HISTORY_VOTES = 5.0  # a reported mean counts as this much, however few the votes in that state were
_MIN_SIDE = 0.5  # pseudo-votes on the correct and the wrong side, so that no rate is certain


@dataclass(frozen=True)
class AnnotatorHistory:
    """Earlier rates and their numbers of votes; one entry per annotator, NaN for those without a history."""

    quality: Array
    sensitivity: Array
    specificity: Array
    n_present: Array
    n_absent: Array

    def betas(self, shape: tuple[int, ...]) -> Array:
        """Beta parameters (annotators, *shape, 2); ``shape`` is (), (states,) or (classes, states).

        For rates per class, each class gets an equal share of the votes.
        """
        if shape:
            rates = np.column_stack((self.specificity, self.sensitivity))
            n_votes = np.column_stack((self.n_absent, self.n_present)) / np.prod(shape[:-1])
        else:
            rates, n_votes = self.quality, self.n_present + self.n_absent
        strength = np.clip(n_votes, _MIN_HISTORY_VOTES, MAX_HISTORY_VOTES)
        betas = np.maximum(np.stack((rates * strength, (1.0 - rates) * strength), axis=-1), _MIN_SIDE)
        if len(shape) > 1:
            betas = np.repeat(betas[:, None], shape[0], axis=1)
        return betas


def parse_annotator_prior(given: Any, annotators: Strings) -> AnnotatorHistory:
    """History of each annotator in ``annotators``.

    ``given`` is ``annotator_quality_`` of an earlier fit, or any data frame with columns ``annotator`` and ``quality``,
    or ``annotator``, ``sensitivity`` and ``specificity``. Its optional columns ``n_votes`` and ``n_present`` are the
    numbers of votes behind the rates. Or ``given`` is a mapping from annotator to quality, or to (sensitivity,
    specificity). Annotators who are not named, or have no votes in the table, get the pool's prior.
    """
    columns = _mapping_columns(given) if isinstance(given, Mapping) else _frame_columns(given)
    names = names_array(columns.pop("annotator"))
    duplicate = validation.first_duplicate(names)
    if duplicate is not None:
        raise DataError(
            f"annotator_prior lists annotator {validation.shown(names[duplicate[0]])} more than once; keep one row"
        )
    table = _with_defaults({name: _numbers(values, name, names) for name, values in columns.items()})
    row_of = {name: row for row, name in enumerate(names)}
    rows = np.array([row_of.get(name, -1) for name in annotators], dtype=np.intp)
    if len(names) and not (rows >= 0).any():
        warnings.warn(
            "annotator_prior names none of the annotators who voted; check that the names match",
            PaldaWarning,
            stacklevel=2,
        )
    known = (rows >= 0) & (table["n_votes"][rows] > 0) if len(names) else np.zeros(len(rows), dtype=bool)
    aligned = {name: np.full(len(rows), np.nan) for name in AnnotatorHistory.__dataclass_fields__}
    for name, values in aligned.items():
        values[known] = table[name][rows[known]]
    return AnnotatorHistory(**aligned)


def _mapping_columns(given: Mapping[Any, Any]) -> dict[str, list[Any]]:
    pairs = []
    for name, value in given.items():
        rates = np.atleast_1d(np.asarray(value, dtype=object))
        if rates.shape not in ((1,), (2,)):
            raise DataError(
                f"annotator_prior of {validation.shown(name)} is {validation.shown(value)}; "
                "pass a quality or (sensitivity, specificity)"
            )
        pairs.append((rates[0], rates[-1]))
    sensitivity, specificity = ([pair[side] for pair in pairs] for side in (0, 1))
    return {"annotator": list(given), "sensitivity": sensitivity, "specificity": specificity}


def _frame_columns(given: Any) -> dict[str, Any]:
    header = [str(name) for name in getattr(given, "columns", ())]
    if not header:
        raise DataError(
            f"annotator_prior is a {type(given).__name__}; pass annotator_quality_ of an earlier fit, or a mapping "
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
    columns = ("annotator", "quality", "sensitivity", "specificity", "n_votes", "n_present")
    return {name: list(given[name]) for name in columns if name in header}


def _numbers(values: list[Any], name: str, names: Strings) -> Array:
    """A column of rates in (0, 1) or of numbers of votes, validated."""
    try:
        column = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"column {name} of annotator_prior must contain numbers") from None
    if name == "n_present":
        invalid = column < 0  # NaN is allowed: the earlier model had one rate for both states
    else:
        invalid = ~((column >= 0) & np.isfinite(column)) if name == "n_votes" else ~((column > 0) & (column < 1))
    if invalid.any():
        row = int(np.argmax(invalid))
        rule = "numbers of votes must be at least 0" if name.startswith("n_") else "rates must be above 0 and below 1"
        raise DataError(
            f"{name} of annotator {validation.shown(names[row])} in annotator_prior is {column[row]:g}; {rule}"
        )
    return column


def _with_defaults(table: dict[str, Array]) -> dict[str, Array]:
    """The table with missing columns derived from the others."""
    if "quality" not in table:
        table["quality"] = (table["sensitivity"] + table["specificity"]) / 2
    if not {"sensitivity", "specificity"} <= table.keys():
        table["sensitivity"] = table["specificity"] = table["quality"]
    n_votes = table.setdefault("n_votes", np.full(len(table["quality"]), _DEFAULT_HISTORY_VOTES))
    n_present = table.get("n_present", np.full(len(n_votes), np.nan))
    table["n_present"] = np.minimum(np.where(np.isnan(n_present), n_votes / 2, n_present), n_votes)
    table["n_absent"] = n_votes - table["n_present"]
    return table
