"""How functions that only kernels call are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def helper(**flags: Any) -> Callable[[F], F]:
    """Decorator of a function that only kernels call, with Numba's ``flags``.

    Nothing is compiled that would let Python or C call it: converting named tuples of arrays takes a fifth of the time
    that all kernels take to compile.
    """
    decorator = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, **flags)  # type: ignore[call-overload]
    return cast("Callable[[F], F]", decorator)
