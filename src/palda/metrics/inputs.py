"""Checks of labels and probabilities, which become dense arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from palda.data import validation
from palda.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Labels: TypeAlias = NDArray[np.int8]

_ROUNDING = 1e-6
"""Tolerance for probabilities outside [0, 1], which single-precision rounding can cause."""


def truth_table(Y: Any, what: str = "Y_true", shape: tuple[int, int] | None = None) -> Labels:
    """Labels as int8: 1 present, 0 absent, -1 unknown (-1 or NaN in the input)."""
    values = _dense(Y, what)
    _check_shape(values, what, shape)
    unknown = (values == validation.BLANK) | np.isnan(values)
    check_cells(values, unknown | (values == 0) | (values == 1), what, "1 is present, 0 absent, -1 or NaN unknown")
    return np.where(unknown, validation.BLANK, values).astype(np.int8)


def prediction_table(predictions: Any, shape: tuple[int, int]) -> Labels:
    """Predicted labels as int8: 1 or 0."""
    values = _dense(predictions, "predictions")
    _check_shape(values, "predictions", shape)
    check_cells(values, (values == 0) | (values == 1), "predictions", "a prediction is 1 or 0")
    return values.astype(np.int8)


def probability_table(probs: Any, shape: tuple[int, int] | None = None) -> Floats:
    """Probabilities as float64, clipped to [0, 1] if rounding pushed them outside."""
    values = _dense(probs, "probs").astype(np.float64, copy=False)
    _check_shape(values, "probs", shape)
    inside = (values >= -_ROUNDING) & (values <= 1 + _ROUNDING)
    check_cells(values, inside, "probs", "a probability lies between 0 and 1")
    return np.clip(values, 0.0, 1.0)


def ratio(part: NDArray[Any], whole: NDArray[Any], empty: float = np.nan) -> Floats:
    """Element-wise ``part / whole``, or ``empty`` where the whole is 0."""
    result = np.full(whole.shape, empty, dtype=np.float64)
    np.divide(part, whole, out=result, where=whole > 0)
    return result


def mean_of_known(values: NDArray[Any]) -> float:
    """Mean without NaN values; NaN if there are no others."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _dense(table: Any, what: str) -> NDArray[Any]:
    try:
        values: NDArray[Any] = np.asarray(table.toarray() if hasattr(table, "toarray") else table)
    except ValueError:
        raise DataError(f"{what} has rows of different lengths; it must have shape (documents, classes)") from None
    if values.ndim == 1:
        values = values[:, np.newaxis]
    if values.ndim != 2:
        raise DataError(f"{what} must have shape (documents, classes), not {values.shape}")
    if values.dtype.kind not in "biuf":
        raise DataError(
            f"{what} holds {values.dtype}, not numbers; scikit-learn's MultiLabelBinarizer converts lists of labels"
        )
    return values


def _check_shape(values: NDArray[Any], what: str, shape: tuple[int, int] | None) -> None:
    if shape is not None and values.shape != shape:
        raise DataError(
            f"{what} has {values.shape[0]} documents x {values.shape[1]} classes; expected {shape[0]} x {shape[1]}"
        )


def check_cells(values: NDArray[Any], valid: NDArray[np.bool_], what: str, rule: str) -> None:
    """Raise for the first cell that is not valid."""
    if not valid.all():
        row, column = (int(i) for i in np.argwhere(~valid)[0])
        raise DataError(f"{what} holds {values[row, column]} at document {row}, class {column}; {rule}")
