"""What takes one or two instructions: `popcount` and `lowest_bit` of bit sets; bytes written many at once.

Most of an observation is bit sets, and writing them bit by bit would take longer than playing: `store_bits` turns 64
bits into 64 bytes. LLVM makes a masked move of the vector conversion below where the processor has one, and a compare
where it has not. `store_word` writes eight small numbers packed into one, and `prefetch` asks for memory that will be
written soon. Under ``NUMBA_DISABLE_JIT=1`` all five are plain Python.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

WIDTH = 64  # bytes that `store_bits` writes

_BYTES, _FLAGS = ir.VectorType(ir.IntType(8), WIDTH), ir.VectorType(ir.IntType(1), WIDTH)


def _store_bits(typing_context: Any, out: Any, start: Any, bits: Any) -> Any:
    """Write bit k of ``bits`` (int64) to ``out[start + k]``, int8, for k in 0 .. 63. Bounds are the caller's care."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        values = builder.zext(builder.bitcast(arguments[2], _FLAGS), _BYTES)
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), _BYTES.as_pointer())
        builder.store(values, place, align=1)
        return context.get_dummy_value()

    return types.void(out, types.int64, types.int64), generate


def _store_word(typing_context: Any, out: Any, start: Any, word: Any) -> Any:
    """Write byte k of ``word`` (int64) to ``out[start + k]``, int8, for k in 0 .. 7. Bounds are the caller's care."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(64).as_pointer())
        builder.store(arguments[2], place, align=1)
        return context.get_dummy_value()

    return types.void(out, types.int64, types.int64), generate


def _prefetch(typing_context: Any, out: Any, start: Any) -> Any:
    """Fetch the cache line of ``out[start]``, int8, to be written; `start` may lie beyond the end."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.gep(context.make_array(signature.args[0])(context, builder, arguments[0]).data, [arguments[1]])
        of_type = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], of_type)
        to_write, keep, data = (ir.Constant(number, value) for value in (1, 3, 1))
        builder.call(fetch, [builder.bitcast(place, byte), to_write, keep, data])
        return context.get_dummy_value()

    return types.void(out, types.int64), generate


def _popcount(typing_context: Any, bits: Any) -> Any:
    """Return the number of set bits of an int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


def _lowest_bit(typing_context: Any, bits: Any) -> Any:
    """Return the position of the lowest set bit of an int64, which must not be 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


def _store_bits_in_python(out: NDArray[np.int8], start: int, bits: int) -> None:
    for bit in range(WIDTH):
        out[start + bit] = int(bits) >> bit & 1


def _store_word_in_python(out: NDArray[np.int8], start: int, word: int) -> None:
    for byte in range(8):
        out[start + byte] = int(word) >> 8 * byte & 0x7F


def _prefetch_in_python(out: NDArray[np.int8], start: int) -> None:
    pass


def _popcount_in_python(bits: int) -> Any:
    return np.int64((int(bits) & (1 << 64) - 1).bit_count())


def _lowest_bit_in_python(bits: int) -> Any:
    return np.int64((int(bits) & -int(bits)).bit_length() - 1)


_PLAIN = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]
store_bits: Any = _store_bits_in_python if _PLAIN else intrinsic(_store_bits)
store_word: Any = _store_word_in_python if _PLAIN else intrinsic(_store_word)
prefetch: Any = _prefetch_in_python if _PLAIN else intrinsic(_prefetch)
popcount: Any = _popcount_in_python if _PLAIN else intrinsic(_popcount)
lowest_bit: Any = _lowest_bit_in_python if _PLAIN else intrinsic(_lowest_bit)
