"""Classifiers of scikit-learn from files of unknown source, in the skops format.

Only types that skops trusts by default, and those that the caller names, are restored. How and where a classifier works
does not come from the file: numbers of processes and cache folders are reset.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from palda.errors import PaldaError, reason_of
from palda.io import ArrayArchive

if TYPE_CHECKING:
    from collections.abc import Iterable

_RESET = {"n_jobs": None, "memory": None, "verbose": 0}
"""Parameters at any depth that a file does not set."""


class StoredClassifierError(PaldaError, ValueError):
    """A classifier in a file that cannot or must not be restored."""


def restore_classifiers(blob: bytes, trusted: Iterable[str] = ()) -> Any:
    """The object in the bytes of a skops file.

    Raises
    ------
    StoredClassifierError
        If it contains types that are not trusted, or is damaged.
    """
    from skops import io as skops_io

    also_trusted = list(trusted)
    try:
        ArrayArchive(io.BytesIO(blob)).json_text("schema.json")  # checks sizes before anything is read
        untrusted = sorted(set(skops_io.get_untrusted_types(data=blob)) - set(also_trusted))
        restored = None if untrusted else skops_io.loads(blob, trusted=also_trusted)
    except Exception as error:  # noqa: BLE001 - whatever skops and scikit-learn raise on a damaged file
        raise StoredClassifierError(f"the model's classifier cannot be restored ({reason_of(error)})") from None
    if untrusted:
        raise StoredClassifierError(
            f"the model's classifier contains types that are not trusted: {', '.join(untrusted)}; "
            "if you trust the source of the file, name them in load(path, trusted=[...])"
        )
    _reset(restored)
    return restored


def _reset(restored: Any) -> None:
    """Reset parameters in all estimators that the object contains."""
    waiting, seen = [restored], set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, (list, tuple, set, frozenset)):
            waiting += part
        elif hasattr(part, "get_params") and not isinstance(part, type):
            own = vars(part)
            own.update({name: value for name, value in _RESET.items() if name in own})
            waiting += own.values()
