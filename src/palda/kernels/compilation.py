"""How functions that only kernels call are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba
from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


_KNOWN_NUMBA = ("0.68.",)  # versions with whose internals linking was tested; with others, compiling takes longer


def _linking_compiler() -> dict[str, Any]:
    """Numba's option for a compiler of functions that are only linked into kernels; none with an unknown Numba."""
    if not numba.__version__.startswith(_KNOWN_NUMBA):
        return {}
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler

    class LinkedLibrary(JITCodeLibrary):  # type: ignore[misc,unused-ignore]
        """Code of a function that is only linked into kernels, and not optimised or made machine code on its own."""

        @property
        def codegen(self) -> Any:
            """Where Numba would look for the machine code of the function, to connect it with Python objects."""
            return self

        def set_env(self, name: str, environment: object) -> None:
            """There is no machine code to connect."""

        def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002 - Numba's signature
            """0: there is no machine code."""
            self._ensure_finalized()  # type: ignore[no-untyped-call,unused-ignore]
            return 0

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()  # type: ignore[no-untyped-call,unused-ignore]
            self._finalized = True

    class LinkedCompiler(Compiler):  # type: ignore[misc,unused-ignore]
        """Numba's compiler, into a ``LinkedLibrary``."""

        def compile_extra(self, func: Any) -> Any:
            """Compile a Python function."""
            self.state.library = LinkedLibrary(self.state.targetctx.codegen(), func.__qualname__)  # type: ignore[no-untyped-call,unused-ignore]
            self.state.library.enable_object_caching()
            return super().compile_extra(func)  # type: ignore[no-untyped-call,unused-ignore]

    return {"pipeline_class": LinkedCompiler}


_PIPELINE = _linking_compiler()


def helper(**flags: Any) -> Callable[[F], F]:
    """Decorator of a function that only kernels call, with Numba's ``flags``.

    Nothing is compiled that would let Python or C call it, and it is optimised as a part of the kernels alone. Numba
    would optimise it on its own as well, which takes a quarter of the time that all kernels take to compile; and the
    process that compiles a kernel could run other machine code than those that load it from Numba's cache.
    """
    decorator = njit(
        nogil=True,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        **_PIPELINE,
        **flags,
    )  # type: ignore[call-overload]
    return cast("Callable[[F], F]", decorator)
