"""Vectors of eight doubles in compiled code: sums over topics without the overhead of loops that LLVM makes SIMD code.

For a short loop that adds up a sum, most of LLVM's code is spent before and after the loop: it keeps four partial sums,
treats a remainder twice, and asks whether arrays overlap. Here a sum has one order, whatever the length of the array.
Arrays are C-contiguous and rows are padded with zeros to a multiple of ``WIDTH``; nothing is checked.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

WIDTH = 8
"""Doubles per vector: one register of AVX-512, two of AVX2."""

_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)


class _Lanes(types.Type):  # type: ignore[misc,unused-ignore]
    """Numba's type of a vector."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


_lanes = _Lanes()


@register_model(_Lanes)  # type: ignore[untyped-decorator,unused-ignore]
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc,unused-ignore]
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, _VECTOR)  # type: ignore[no-untyped-call,unused-ignore]


def _address(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Pointer to the vector that starts at ``array[row, column]``; ``row`` is 0 for an array with one dimension."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    width = builder.extract_value(array.shape, signature.args[0].ndim - 1)
    entry = builder.add(builder.mul(args[1], width), args[2])
    return builder.bitcast(builder.gep(array.data, [entry]), _VECTOR.as_pointer())


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _load(context: Any, array: Any, row: Any, column: Any) -> Any:  # noqa: ARG001 - Numba's signature
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, signature, args), align=8)

    return _lanes(array, types.intp, types.intp), build


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _store(context: Any, array: Any, row: Any, column: Any, vector: Any) -> Any:  # noqa: ARG001 - Numba's signature
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[3], _address(context, builder, signature, args), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, _lanes), build


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _splat(context: Any, number: Any) -> Any:  # noqa: ARG001 - Numba's signature
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001 - Numba's signature
        first = ir.Constant(ir.IntType(32), 0)
        single = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), args[0], first)
        return builder.shuffle_vector(single, single, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH))

    return _lanes(types.float64), build


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _add(context: Any, one: Any, other: Any) -> Any:  # noqa: ARG001 - Numba's signature
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001 - Numba's signature
        return builder.fadd(args[0], args[1])

    return _lanes(_lanes, _lanes), build


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _multiply(context: Any, one: Any, other: Any) -> Any:  # noqa: ARG001 - Numba's signature
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001 - Numba's signature
        return builder.fmul(args[0], args[1])

    return _lanes(_lanes, _lanes), build


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _multiply_add(context: Any, one: Any, other: Any, added: Any) -> Any:  # noqa: ARG001 - Numba's signature
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001 - Numba's signature
        return builder.fadd(builder.fmul(args[0], args[1], flags=("contract",)), args[2], flags=("contract",))

    return _lanes(_lanes, _lanes, _lanes), build


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _distance(context: Any, one: Any, other: Any) -> Any:  # noqa: ARG001 - Numba's signature
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001 - Numba's signature
        above, below = builder.fsub(args[0], args[1]), builder.fsub(args[1], args[0])
        return builder.select(builder.fcmp_ordered(">", above, below), above, below)

    return _lanes(_lanes, _lanes), build


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _total(context: Any, vector: Any) -> Any:  # noqa: ARG001 - Numba's signature
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001 - Numba's signature
        whole, width = args[0], WIDTH
        while width > 1:  # add the upper half to the lower half
            width //= 2
            mask = ir.VectorType(ir.IntType(32), width)
            low, high = (
                builder.shuffle_vector(whole, whole, ir.Constant(mask, list(range(first, first + width))))
                for first in (0, width)
            )
            whole = builder.fadd(low, high)
        return builder.extract_element(whole, ir.Constant(ir.IntType(32), 0))

    return types.float64(_lanes), build


load: Any = _load  # typed as what they are in compiled code: functions
store: Any = _store
splat: Any = _splat
add: Any = _add
multiply: Any = _multiply
multiply_add: Any = _multiply_add
distance: Any = _distance  # |one - other|
total: Any = _total
