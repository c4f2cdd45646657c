"""What a machine can do with memory and numba has no name for: words at any place, copies, bits, prefetching.

For compiled loops alone. None of them checks anything, unless loops are compiled with checked bounds
(compiled.py). `data`, `target` and `source` are C-contiguous uint8, positions int64: the caller answers for
all bytes that are read and written being within them. The plain twins are slices and int.from_bytes.
"""

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mqstore.store.compiled import compiled_into_caller

__all__ = [
    "WORD_BYTES",
    "address_of_bytes",
    "copy_bytes",
    "load_word",
    "prefetch",
    "same_bytes",
    "trailing_zeros",
]

WORD_BYTES = 8

_INT = ir.IntType(32)
_WORD = ir.IntType(64)


def _address(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


def address_of_bytes(context: Any, builder: Any, kind: Any, array: Any, at: Any, length: Any) -> Any:
    """For intrinsics: code for the address of array[at], from where `length` bytes are read or written.

    With checked bounds the code raises IndexError when they are not all in the array.
    """
    if context.enable_boundscheck:
        count = builder.extract_value(context.make_array(kind)(context, builder, array).shape, 0)
        # Unsigned, so a negative position or length is beyond all others.
        is_within = builder.and_(
            builder.icmp_unsigned("<=", length, count),
            builder.icmp_unsigned("<=", at, builder.sub(count, length)),
        )
        with cgutils.if_unlikely(builder, builder.not_(is_within)):
            context.call_conv.return_user_exc(builder, IndexError, ("bytes outside of an array",))
    return _address(context, builder, kind, array, at)


@intrinsic
def load_word(typing_context, data, at):  # type: ignore[no-untyped-def]
    """The eight bytes from data[at] on as an uint64, the first of them lowest."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address = address_of_bytes(
            context, builder, signature.args[0], arguments[0], arguments[1], _WORD(WORD_BYTES)
        )
        word = builder.load(builder.bitcast(address, _WORD.as_pointer()))
        word.align = 1
        return word if sys.byteorder == "little" else builder.bswap(word)

    return types.uint64(data, types.int64), generate


@intrinsic
def copy_bytes(typing_context, target, at, source, start, length):  # type: ignore[no-untyped-def]
    """target[at : at + length] = source[start : start + length], by memcpy; they must not overlap.

    A length that is written as a number is copied without a call.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        target_value, at_value, source_value, start_value, length_value = arguments
        cgutils.raw_memcpy(
            builder,
            address_of_bytes(context, builder, signature.args[0], target_value, at_value, length_value),
            address_of_bytes(context, builder, signature.args[2], source_value, start_value, length_value),
            length_value,
            ir.Constant(_WORD, 1),
        )
        return context.get_dummy_value()

    return types.none(target, types.int64, source, types.int64, types.int64), generate


@intrinsic
def prefetch(typing_context, data, at):  # type: ignore[no-untyped-def]
    """Begin to fetch the line of data[at] for reading, and go on. `at` may be anywhere, even outside."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature.args[0], *arguments)
        kind = ir.FunctionType(ir.VoidType(), [address.type, _INT, _INT, _INT])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(fetch, [address, _INT(0), _INT(3), _INT(1)])
        return context.get_dummy_value()

    return types.none(data, types.int64), generate


@intrinsic
def trailing_zeros(typing_context, word):  # type: ignore[no-untyped-def]
    """How many zeros an uint64 ends in; 64 for 0."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@compiled_into_caller
def same_bytes(one, one_at, other, other_at, length):  # type: ignore[no-untyped-def]
    """Whether one[one_at : one_at + length] is other[other_at : other_at + length]."""
    at = np.int64(0)
    while at + WORD_BYTES <= length:
        if load_word(one, one_at + at) != load_word(other, other_at + at):
            return False
        at += WORD_BYTES
    while at < length:
        if one[one_at + at] != other[other_at + at]:
            return False
        at += 1
    return True
