"""Bytes in compiled loops: reading and writing numbers, copies, comparisons, and operations that numba lacks.

Only compiled loops call them. They check nothing, unless loops are compiled with checked bounds
(just_in_time.py). `data`, `target` and `source` are C-contiguous uint8, positions int64: the caller makes
sure that all bytes that are read or written lie within them, or behind an address. Numbers are big-endian.
The plain twins are slices, int.from_bytes and int.to_bytes.
"""

import sys
from typing import Any

import numpy as np

from mqstore.store.compiled import compiled, compiled_into_caller
from mqstore.store.loops.intrinsics import cgutils, intrinsic, ir, types

__all__ = [
    "WORD_BYTES",
    "address_of_bytes",
    "borrowed",
    "call_address",
    "copy_bytes",
    "copy_out",
    "equals",
    "hash_bytes",
    "int_at",
    "load_word",
    "long_at",
    "matches",
    "parse_natural",
    "prefetch",
    "read_int",
    "read_long",
    "read_unsigned",
    "same_bytes",
    "trailing_zeros",
    "write_int",
    "write_long",
    "write_short",
]

WORD_BYTES = 8
_HASH_FACTOR = np.uint64(0x9E37_79B9_7F4A_7C15)
_IS_LITTLE_ENDIAN = sys.byteorder == "little"


def _address(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


def address_of_bytes(context: Any, builder: Any, kind: Any, array: Any, at: Any, length: Any) -> Any:
    """For intrinsics: code for the address of array[at], from where `length` bytes are read or written.

    With checked bounds the code raises IndexError when they are not all in the array.
    """
    if context.enable_boundscheck:
        count = builder.extract_value(context.make_array(kind)(context, builder, array).shape, 0)
        # Compared as unsigned numbers: a negative position or length is too large.
        is_within = builder.and_(
            builder.icmp_unsigned("<=", length, count),
            builder.icmp_unsigned("<=", at, builder.sub(count, length)),
        )
        with cgutils.if_unlikely(builder, builder.not_(is_within)):
            context.call_conv.return_user_exc(builder, IndexError, ("bytes outside of an array",))
    return _address(context, builder, kind, array, at)


@intrinsic
def load_word(typing_context, data, at):  # type: ignore[no-untyped-def]
    """The eight bytes from data[at] on as a uint64, the first byte lowest."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kind = ir.IntType(64)
        address = address_of_bytes(
            context, builder, signature.args[0], arguments[0], arguments[1], kind(WORD_BYTES)
        )
        word = builder.load(builder.bitcast(address, kind.as_pointer()))
        word.align = 1
        return word if sys.byteorder == "little" else builder.bswap(word)

    return types.uint64(data, types.int64), generate


@intrinsic
def copy_bytes(typing_context, target, at, source, start, length):  # type: ignore[no-untyped-def]
    """target[at : at + length] = source[start : start + length], by memcpy; they must not overlap.

    A constant length is copied without a call.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        target_value, at_value, source_value, start_value, length_value = arguments
        cgutils.raw_memcpy(
            builder,
            address_of_bytes(context, builder, signature.args[0], target_value, at_value, length_value),
            address_of_bytes(context, builder, signature.args[2], source_value, start_value, length_value),
            length_value,
            ir.IntType(64)(1),
        )
        return context.get_dummy_value()

    return types.none(target, types.int64, source, types.int64, types.int64), generate


@intrinsic
def prefetch(typing_context, data, at):  # type: ignore[no-untyped-def]
    """Start to fetch the cache line of data[at] for reading. `at` may be anywhere, even outside of `data`."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature.args[0], *arguments)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(fetch, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.none(data, types.int64), generate


@intrinsic
def trailing_zeros(typing_context, word):  # type: ignore[no-untyped-def]
    """The number of trailing zero bits of a uint64; 64 for 0."""

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


@compiled
def matches(data, at, expected):  # type: ignore[no-untyped-def]
    """Whether the bytes of `expected` are at `at`."""
    return same_bytes(data, at, expected, 0, len(expected))


@compiled
def equals(data, at, length, expected):  # type: ignore[no-untyped-def]
    """Whether the `length` bytes at `at` are those of `expected`, no more and no fewer."""
    return length == len(expected) and same_bytes(data, at, expected, 0, length)


@compiled
def hash_bytes(data, at, length):  # type: ignore[no-untyped-def]
    """A hash of `length` bytes; not negative."""
    code = np.uint64(length)
    for place in range(at, at + length):
        code = (code ^ np.uint64(data[place])) * _HASH_FACTOR
    return np.int64(code >> np.uint64(32))


# -- numbers ------------------------------------------------------------------------------------------


@compiled
def read_int(data, at):  # type: ignore[no-untyped-def]
    """The signed 4-byte integer at `at`. The position must not be negative."""
    # An unsigned index needs no check of its sign, so the four loads become one.
    first = np.uint64(at)
    return np.int64(
        np.int32(
            np.uint32(data[first]) << np.uint32(24)
            | np.uint32(data[first + np.uint64(1)]) << np.uint32(16)
            | np.uint32(data[first + np.uint64(2)]) << np.uint32(8)
            | np.uint32(data[first + np.uint64(3)])
        )
    )


@compiled
def read_long(data, at):  # type: ignore[no-untyped-def]
    """The signed 8-byte integer at `at`."""
    return read_int(data, at) << np.int64(32) | (read_int(data, at + 4) & np.int64(0xFFFFFFFF))


@compiled_into_caller
def read_unsigned(data, at, size):  # type: ignore[no-untyped-def]
    """The unsigned number of `size` bytes at `at`."""
    value = np.int64(0)
    for place in range(np.uint64(at), np.uint64(at + size)):
        value = value << np.int64(8) | np.int64(data[place])
    return value


@compiled_into_caller
def write_short(target, at, value):  # type: ignore[no-untyped-def]
    """Write the low 2 bytes of `value`."""
    target[at] = np.uint8(value >> 8)
    target[at + 1] = np.uint8(value & 0xFF)


@compiled_into_caller
def write_int(target, at, value):  # type: ignore[no-untyped-def]
    """Write the low 4 bytes of `value`."""
    # Unsigned indexes need no check of their sign, so the four stores become one.
    first, bits = np.uint64(at), np.uint32(value)
    target[first] = np.uint8(bits >> np.uint32(24))
    target[first + np.uint64(1)] = np.uint8(bits >> np.uint32(16) & np.uint32(0xFF))
    target[first + np.uint64(2)] = np.uint8(bits >> np.uint32(8) & np.uint32(0xFF))
    target[first + np.uint64(3)] = np.uint8(bits & np.uint32(0xFF))


@compiled_into_caller
def write_long(target, at, value):  # type: ignore[no-untyped-def]
    """Write the 8 bytes of `value`."""
    write_int(target, at, value >> np.int64(32))
    write_int(target, at + 4, value & np.int64(0xFFFFFFFF))


@compiled
def parse_natural(data, at, length):  # type: ignore[no-untyped-def]
    """The decimal number at `at`; -1 if it has no digits, any other byte, or more than 31 bits."""
    if length <= 0:
        return np.int64(-1)
    value = np.int64(0)
    for index in range(length):
        digit = np.int64(data[at + index]) - 48
        if digit < 0 or digit > 9:
            return np.int64(-1)
        value = value * 10 + digit
        if value > 0x7FFF_FFFF:
            return np.int64(-1)
    return value


# -- arrays -------------------------------------------------------------------------------------------


@intrinsic
def borrowed(typing_context, arrays):  # type: ignore[no-untyped-def]
    """The arrays of a tuple without their owners, so that references to them are not counted.

    Counting is atomic and can cost more than the work of a loop over records. Only for arguments of a
    kernel, which its caller keeps alive; never for an array that the kernel makes.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        plain = []
        for kind, value in zip(arrays, cgutils.unpack_tuple(builder, arguments[0]), strict=True):
            array = context.make_array(kind)(context, builder, value)
            array.meminfo = cgutils.get_null_value(array.meminfo.type)
            array.parent = cgutils.get_null_value(array.parent.type)
            plain.append(array._getvalue())
        return context.make_tuple(builder, arrays, plain)

    return arrays(arrays), generate


# -- memory that is no array, and C ---------------------------------------------------------------------


@intrinsic
def copy_out(typing_context, address, source, at, length):  # type: ignore[no-untyped-def]
    """Copy source[at : at + length], uint8, to an address in memory."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address, source, at, length = arguments
        start = address_of_bytes(context, builder, signature.args[1], source, at, length)
        cgutils.raw_memcpy(builder, builder.inttoptr(address, start.type), start, length, 1)
        return context.get_dummy_value()

    return types.void(address, source, at, length), generate


@intrinsic
def call_address(typing_context, function, first, second, third):  # type: ignore[no-untyped-def]
    """Call the C function at an address with three integers; one that takes fewer does not see the rest."""
    long = types.int64

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address, *values = arguments
        kind = context.get_value_type(long)
        target = builder.inttoptr(address, ir.FunctionType(kind, [kind, kind, kind]).as_pointer())
        return builder.call(target, values)

    return long(long, long, long, long), generate


@intrinsic
def int_at(typing_context, address):  # type: ignore[no-untyped-def]
    """The C int at an address."""
    word = types.int32

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.load(builder.inttoptr(arguments[0], context.get_value_type(word).as_pointer()))

    return word(types.int64), generate


@intrinsic
def _word_at(typing_context, address):  # type: ignore[no-untyped-def]
    """The eight bytes at an address as an int64, as this machine has numbers."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kind = ir.IntType(64)
        word = builder.load(builder.inttoptr(arguments[0], kind.as_pointer()))
        word.align = 1
        return word

    return types.int64(types.int64), generate


@intrinsic
def _swapped(typing_context, word):  # type: ignore[no-untyped-def]
    """The bytes of an int64 in the other order."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bswap(arguments[0])

    return types.int64(types.int64), generate


@compiled_into_caller
def long_at(address, is_big_endian):  # type: ignore[no-untyped-def]
    """The signed 8-byte integer at an address."""
    word = _word_at(address)
    return _swapped(word) if is_big_endian == _IS_LITTLE_ENDIAN else word
