"""CRC-32 for compiled loops, as fast as the machine can: zlib's polynomial, about three times zlib's speed.

With carry-less multiplication (PCLMULQDQ, x86-64 since 2010) two multiplications fold sixteen bytes, in four
parallel chains. With VPCLMULQDQ and AVX-512, which work on 512 bits, they fold sixty-four bytes. Other
processors use tables, eight bytes a step. All give the same numbers. The processor that numba compiles for
decides once, at import, which one is compiled.

`data` is uint8, C-contiguous; nothing outside data[start:stop] is read, and nothing is written. Callers hold
no lock: the kernel releases the GIL. The plain twin is zlib.crc32.
Source: Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (2009).
"""

from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

from mqstore.store.byte_kernels import address_of_bytes
from mqstore.store.compiled import compiled

__all__ = ["CAN_FOLD", "CAN_FOLD_WIDELY", "crc32", "folded_crc32", "table_crc32", "widely_folded_crc32"]

_POLYNOMIAL = 0x1_04C1_1DB7
_REFLECTED = np.uint32(0xEDB8_8320)
_LOW_32 = np.uint64(0xFFFF_FFFF)
_CRC_MASK = np.uint64(0x7FFF_FFFF)
# Wide vectors begin with 256 bytes. From this many bytes on they are faster, despite the split at the end.
_MANY_BYTES = 384


def _compiles_with(*wanted: str) -> bool:
    """Whether the code is compiled for a processor with these features."""
    if config.DISABLE_JIT or config.CPU_NAME or config.CPU_FEATURES:
        # Compiled for another processor than this one, or not at all.
        return False
    features = llvmlite.binding.get_host_cpu_features()
    return all(features.get(feature) for feature in wanted)


CAN_FOLD = _compiles_with("pclmul")
"""Whether `crc32` folds by carry-less multiplication."""
CAN_FOLD_WIDELY = bool(CAN_FOLD and config.ENABLE_AVX and _compiles_with("vpclmulqdq", "avx512f"))
"""Whether `crc32` folds 512 bits at a time."""


# -- by tables ----------------------------------------------------------------------------------------


def _crc_tables() -> np.ndarray:
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = np.uint32(byte)
        for _ in range(8):
            crc = crc >> np.uint32(1) ^ (_REFLECTED if crc & np.uint32(1) else np.uint32(0))
        tables[0, byte] = crc
    for row in range(1, 8):
        previous = tables[row - 1]
        tables[row] = previous >> np.uint32(8) ^ tables[0][previous & np.uint32(0xFF)]
    return tables


_TABLES = _crc_tables()


@compiled
def table_crc32(data, start, stop):  # type: ignore[no-untyped-def]
    """CRC-32 of data[start:stop], as zlib's, without the sign bit; eight bytes a step."""
    tables = _TABLES
    crc = np.uint32(0xFFFFFFFF)
    at = start
    while at + 8 <= stop:
        one = crc ^ (
            np.uint32(data[at])
            | np.uint32(data[at + 1]) << np.uint32(8)
            | np.uint32(data[at + 2]) << np.uint32(16)
            | np.uint32(data[at + 3]) << np.uint32(24)
        )
        crc = (
            tables[7, one & np.uint32(0xFF)]
            ^ tables[6, one >> np.uint32(8) & np.uint32(0xFF)]
            ^ tables[5, one >> np.uint32(16) & np.uint32(0xFF)]
            ^ tables[4, one >> np.uint32(24)]
            ^ tables[3, data[at + 4]]
            ^ tables[2, data[at + 5]]
            ^ tables[1, data[at + 6]]
            ^ tables[0, data[at + 7]]
        )
        at += 8
    while at < stop:
        crc = tables[0, (crc ^ np.uint32(data[at])) & np.uint32(0xFF)] ^ crc >> np.uint32(8)
        at += 1
    return np.int64((crc ^ np.uint32(0xFFFFFFFF)) & np.uint32(0x7FFFFFFF))


# -- 128 bits that compiled code keeps in one register ---------------------------------------------------


class _Vector(types.Type):
    """Two unsigned 64-bit numbers; the first holds the bytes that come first."""

    def __init__(self) -> None:
        super().__init__(name="mqstore.store.checksum.Vector")


class _Wide(types.Type):
    """Four vectors side by side."""

    def __init__(self) -> None:
        super().__init__(name="mqstore.store.checksum.Wide")


_VECTOR, _WIDE = _Vector(), _Wide()
_LANES = ir.VectorType(ir.IntType(64), 2)
_WIDE_LANES = ir.VectorType(ir.IntType(64), 8)
_LANE = ir.IntType(32)
_SELECTOR = ir.IntType(8)


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager, front_end_type):  # type: ignore[no-untyped-def]
        super().__init__(manager, front_end_type, _LANES)


@register_model(_Wide)
class _WideModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager, front_end_type):  # type: ignore[no-untyped-def]
        super().__init__(manager, front_end_type, _WIDE_LANES)


def _loader(kind: types.Type, lanes: ir.VectorType) -> Any:
    @intrinsic
    def load(typing_context, data, at):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            length_bytes = ir.Constant(ir.IntType(64), 8 * lanes.count)
            address = address_of_bytes(
                context, builder, signature.args[0], arguments[0], arguments[1], length_bytes
            )
            loaded = builder.load(builder.bitcast(address, lanes.as_pointer()))
            loaded.align = 1
            return loaded

        return kind(data, types.int64), generate

    return load


# The sixteen, or sixty-four, bytes from data[at] on.
_load, _load_wide = _loader(_VECTOR, _LANES), _loader(_WIDE, _WIDE_LANES)


@intrinsic
def _vector(typing_context, low, high):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        half = builder.insert_element(ir.Constant(_LANES, ir.Undefined), arguments[0], _LANE(0))
        return builder.insert_element(half, arguments[1], _LANE(1))

    return _VECTOR(types.uint64, types.uint64), generate


@intrinsic
def _low(typing_context, vector):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.extract_element(arguments[0], _LANE(0))

    return types.uint64(_VECTOR), generate


@intrinsic
def _high(typing_context, vector):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.extract_element(arguments[0], _LANE(1))

    return types.uint64(_VECTOR), generate


@intrinsic
def _repeated(typing_context, vector):  # type: ignore[no-untyped-def]
    """The vector four times."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        places = ir.Constant(ir.VectorType(_LANE, 8), [0, 1] * 4)
        return builder.shuffle_vector(arguments[0], ir.Constant(_LANES, ir.Undefined), places)

    return _WIDE(_VECTOR), generate


@intrinsic
def _first_alone(typing_context, vector):  # type: ignore[no-untyped-def]
    """The vector, then three vectors of zeros."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        places = ir.Constant(ir.VectorType(_LANE, 8), [0, 1, *[2, 3] * 3])
        return builder.shuffle_vector(arguments[0], ir.Constant(_LANES, [0, 0]), places)

    return _WIDE(_VECTOR), generate


def _quarter(number: int) -> Any:
    @intrinsic
    def take(typing_context, wide):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            places = ir.Constant(ir.VectorType(_LANE, 2), [2 * number, 2 * number + 1])
            return builder.shuffle_vector(arguments[0], ir.Constant(_WIDE_LANES, ir.Undefined), places)

        return _VECTOR(_WIDE), generate

    return take


_first_quarter, _second_quarter, _third_quarter, _last_quarter = map(_quarter, range(4))


@intrinsic
def _xor(typing_context, one, other):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.xor(*arguments)

    return one(one, one), generate


def _carryless_product(selector: int) -> Any:
    """The instruction. Bit 0 of `selector` selects the first factor's high half, bit 4 the second's."""

    @intrinsic
    def multiply(typing_context, one, other):  # type: ignore[no-untyped-def]
        lanes = _LANES if one == _VECTOR else _WIDE_LANES
        name = "llvm.x86.pclmulqdq" if one == _VECTOR else "llvm.x86.pclmulqdq.512"

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            kind = ir.FunctionType(lanes, [lanes, lanes, _SELECTOR])
            instruction = cgutils.get_or_insert_function(builder.module, kind, name)
            return builder.call(instruction, [*arguments, _SELECTOR(selector)])

        return one(one, one), generate

    return multiply


_low_times_low = _carryless_product(0x00)
_high_times_high = _carryless_product(0x11)
_low_times_high = _carryless_product(0x10)


# -- by folding ---------------------------------------------------------------------------------------


def _reflect(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def _power(exponent: int) -> np.uint64:
    """x**exponent modulo the polynomial, reflected as folding needs it."""
    value = 1
    for _ in range(exponent):
        value <<= 1
        if value >> 32:
            value ^= _POLYNOMIAL
    return np.uint64(_reflect(value, 32) << 1)


def _quotient() -> np.uint64:
    """x**64 divided by the polynomial, reflected: Barrett's constant."""
    rest, quotient = 1 << 64, 0
    for shift in range(32, -1, -1):
        if rest >> (shift + 32) & 1:
            rest ^= _POLYNOMIAL << shift
            quotient |= 1 << shift
    return np.uint64(_reflect(quotient, 33))


# Factors that carry sixteen bytes over 2048, over 512, over 128 and over 64 bits.
_OVER_2048 = (_power(16 * 128 + 32), _power(16 * 128 - 32))
_OVER_512 = (_power(4 * 128 + 32), _power(4 * 128 - 32))
_OVER_128 = (_power(128 + 32), _power(128 - 32))
_OVER_64 = _power(64)
_MODULUS, _QUOTIENT = np.uint64(_reflect(_POLYNOMIAL, 33)), _quotient()


@compiled(inline="always")
def _fold(folded, over, following):  # type: ignore[no-untyped-def]
    """Carry `folded` over the distance of the factors `over`, onto the bytes `following`."""
    return _xor(_xor(_low_times_low(folded, over), _high_times_high(folded, over)), following)


@compiled(inline="always")
def _reduce(folded):  # type: ignore[no-untyped-def]
    """The CRC of the last sixteen bytes, onto which all others were folded."""
    zero = np.uint64(0)
    product = _low_times_high(folded, _vector(_OVER_128[0], _OVER_128[1]))
    low, high = _high(folded) ^ _low(product), _high(product)
    product = _low_times_low(_vector(low & _LOW_32, zero), _vector(_OVER_64, zero))
    rest = _low(product) ^ (low >> np.uint64(32) | high << np.uint64(32))
    barrett = _vector(_MODULUS, _QUOTIENT)
    times = _low(_low_times_high(_vector(rest & _LOW_32, zero), barrett)) & _LOW_32
    return (rest ^ _low(_low_times_low(_vector(times, zero), barrett))) >> np.uint64(32)


@compiled(inline="always")
def _first_bytes(vector, count):  # type: ignore[no-untyped-def]
    """Zeros, then the first `count` bytes (1 to 15), the first four inverted: the start of a CRC."""
    low, high = _low(vector) ^ _LOW_32, _high(vector)
    shift = np.uint64(128 - 8 * count)
    if shift < np.uint64(64):
        return _vector(low << shift, high << shift | low >> (np.uint64(64) - shift))
    return _vector(np.uint64(0), low << (shift - np.uint64(64)))


@compiled(inline="always")
def _begin(data, start, stop):  # type: ignore[no-untyped-def]
    """Fold the first bytes; (the result, where the rest begins). The rest is a multiple of sixteen bytes."""
    # Leading zeros do not change a CRC. So the odd bytes (length modulo 16) come first, behind zeros.
    at = np.int64(start)
    folded = _load(data, at)
    odd = np.int64(stop - start) & 15
    if odd == 0:
        folded = _xor(folded, _vector(_LOW_32, np.uint64(0)))
        at += 16
    else:
        folded = _first_bytes(folded, odd)
        at += odd
        if odd < 4:
            inverted = _vector(_LOW_32 >> np.uint64(8 * odd), np.uint64(0))
            folded = _fold(folded, _vector(_OVER_128[0], _OVER_128[1]), _xor(_load(data, at), inverted))
            at += 16
    return folded, at


@compiled(inline="always")
def _finish(data, folded, at, stop):  # type: ignore[no-untyped-def]
    """The CRC of the bytes folded so far and the rest. A long rest is folded in four parallel chains."""
    over = _vector(_OVER_128[0], _OVER_128[1])
    if stop - at >= 112:
        second, third, fourth = _load(data, at), _load(data, at + 16), _load(data, at + 32)
        at += 48
        far = _vector(_OVER_512[0], _OVER_512[1])
        while at + 64 <= stop:
            folded = _fold(folded, far, _load(data, at))
            second = _fold(second, far, _load(data, at + 16))
            third = _fold(third, far, _load(data, at + 32))
            fourth = _fold(fourth, far, _load(data, at + 48))
            at += 64
        folded = _fold(_fold(_fold(folded, over, second), over, third), over, fourth)
    while at < stop:
        folded = _fold(folded, over, _load(data, at))
        at += 16
    return np.int64((_reduce(folded) ^ _LOW_32) & _CRC_MASK)


@compiled
def folded_crc32(data, start, stop):  # type: ignore[no-untyped-def]
    """As `table_crc32`, by carry-less multiplication: only if CAN_FOLD."""
    if stop - start < 16:
        return table_crc32(data, start, stop)
    folded, at = _begin(data, start, stop)
    return _finish(data, folded, at, stop)


@compiled
def widely_folded_crc32(data, start, stop):  # type: ignore[no-untyped-def]
    """As `folded_crc32`, but many bytes are folded sixty-four at a time: only if CAN_FOLD_WIDELY."""
    if stop - start < 16:
        return table_crc32(data, start, stop)
    folded, at = _begin(data, start, stop)
    if stop - at >= _MANY_BYTES:
        over = _vector(_OVER_128[0], _OVER_128[1])
        # Carried over sixteen bytes, it can be combined with the first wide vector.
        folded = _xor(_low_times_low(folded, over), _high_times_high(folded, over))
        wide = _xor(_first_alone(folded), _load_wide(data, at))
        second, third = _load_wide(data, at + 64), _load_wide(data, at + 128)
        fourth = _load_wide(data, at + 192)
        at += 256
        far = _repeated(_vector(_OVER_2048[0], _OVER_2048[1]))
        while at + 256 <= stop:
            wide = _fold(wide, far, _load_wide(data, at))
            second = _fold(second, far, _load_wide(data, at + 64))
            third = _fold(third, far, _load_wide(data, at + 128))
            fourth = _fold(fourth, far, _load_wide(data, at + 192))
            at += 256
        near = _repeated(_vector(_OVER_512[0], _OVER_512[1]))
        wide = _fold(_fold(_fold(wide, near, second), near, third), near, fourth)
        while at + 64 <= stop:
            wide = _fold(wide, near, _load_wide(data, at))
            at += 64
        folded = _fold(_first_quarter(wide), over, _second_quarter(wide))
        folded = _fold(_fold(folded, over, _third_quarter(wide)), over, _last_quarter(wide))
    return _finish(data, folded, at, stop)


crc32 = widely_folded_crc32 if CAN_FOLD_WIDELY else folded_crc32 if CAN_FOLD else table_crc32
"""CRC-32 of data[start:stop], as zlib's, without the sign bit."""
