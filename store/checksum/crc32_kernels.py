"""CRC-32 for compiled loops, as fast as the machine can: zlib's polynomial, about three times zlib's speed.

With carry-less multiplication (PCLMULQDQ, x86-64 since 2010) two multiplications fold sixteen bytes, in four
parallel chains. With VPCLMULQDQ (since 2020) they fold thirty-two bytes, and sixty-four with AVX-512. Other
processors use tables, eight bytes a step. All give the same numbers. The processor that numba compiles for
decides once, at import, which one is compiled.

`data` is uint8, C-contiguous; nothing outside data[start:stop] is read, and nothing is written. Callers hold
no lock: the kernel releases the GIL. The plain twin is zlib.crc32.
Source: Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (2009).
"""

import numpy as np

from mqstore.store.compiled import COMPILES_HERE, compiled, compiles_with

if COMPILES_HERE:
    from mqstore.store.checksum.vector_kernels import (
        PARTS_OF_WIDE,
        first_alone,
        high_of,
        high_times_high,
        load,
        load_wide,
        low_of,
        low_times_high,
        low_times_low,
        repeated,
        take_part,
        vector_of,
        xor,
    )
else:
    PARTS_OF_WIDE = 2  # any number: where nothing is compiled, nothing folds

__all__ = ["CAN_FOLD", "CAN_FOLD_WIDELY", "crc32", "folded_crc32", "table_crc32", "widely_folded_crc32"]

_POLYNOMIAL = 0x1_04C1_1DB7
_REFLECTED = np.uint32(0xEDB8_8320)
_LOW_32 = np.uint64(0xFFFF_FFFF)
_CRC_MASK = np.uint64(0x7FFF_FFFF)
_WIDE_BYTES = 16 * PARTS_OF_WIDE
# Wide vectors begin with four times their bytes. From this many on they are faster, despite the end.
_MANY_BYTES = 6 * _WIDE_BYTES


CAN_FOLD = compiles_with("pclmul")
"""Whether `crc32` folds by carry-less multiplication."""
CAN_FOLD_WIDELY = CAN_FOLD and compiles_with("vpclmulqdq", "avx2")
"""Whether `crc32` folds 256 or 512 bits at a time."""


# -- by tables ----------------------------------------------------------------------------------------


def _crc_tables() -> np.ndarray:
    tables = np.zeros((8, 256), np.uint32)
    crcs = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crcs = crcs >> np.uint32(1) ^ _REFLECTED * (crcs & np.uint32(1))
    tables[0] = crcs
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


def _factors_over(length_bytes: int) -> tuple[np.uint64, np.uint64]:
    """The factors that carry sixteen bytes over so many."""
    return _power(8 * length_bytes + 32), _power(8 * length_bytes - 32)


_OVER_FOUR_WIDE = _factors_over(4 * _WIDE_BYTES)
_OVER_WIDE = _factors_over(_WIDE_BYTES)
_OVER_512 = _factors_over(64)
_OVER_128 = _factors_over(16)
_OVER_64 = _power(64)
_MODULUS, _QUOTIENT = np.uint64(_reflect(_POLYNOMIAL, 33)), _quotient()


@compiled(inline="always")
def _fold(folded, over, following):  # type: ignore[no-untyped-def]
    """Carry `folded` over the distance of the factors `over`, onto the bytes `following`."""
    return xor(xor(low_times_low(folded, over), high_times_high(folded, over)), following)


@compiled(inline="always")
def _reduce(folded):  # type: ignore[no-untyped-def]
    """The CRC of the last sixteen bytes, onto which all others were folded."""
    zero = np.uint64(0)
    product = low_times_high(folded, vector_of(_OVER_128[0], _OVER_128[1]))
    low, high = high_of(folded) ^ low_of(product), high_of(product)
    product = low_times_low(vector_of(low & _LOW_32, zero), vector_of(_OVER_64, zero))
    rest = low_of(product) ^ (low >> np.uint64(32) | high << np.uint64(32))
    barrett = vector_of(_MODULUS, _QUOTIENT)
    times = low_of(low_times_high(vector_of(rest & _LOW_32, zero), barrett)) & _LOW_32
    return (rest ^ low_of(low_times_low(vector_of(times, zero), barrett))) >> np.uint64(32)


@compiled(inline="always")
def _first_bytes(vector, count):  # type: ignore[no-untyped-def]
    """Zeros, then the first `count` bytes (1 to 15), the first four inverted: the start of a CRC."""
    low, high = low_of(vector) ^ _LOW_32, high_of(vector)
    shift = np.uint64(128 - 8 * count)
    if shift < np.uint64(64):
        return vector_of(low << shift, high << shift | low >> (np.uint64(64) - shift))
    return vector_of(np.uint64(0), low << (shift - np.uint64(64)))


@compiled(inline="always")
def _begin(data, start, stop):  # type: ignore[no-untyped-def]
    """Fold the first bytes; (the result, where the rest begins). The rest is a multiple of sixteen bytes."""
    # Leading zeros do not change a CRC. So the odd bytes (length modulo 16) come first, behind zeros.
    at = np.int64(start)
    folded = load(data, at)
    odd = np.int64(stop - start) & 15
    if odd == 0:
        folded = xor(folded, vector_of(_LOW_32, np.uint64(0)))
        at += 16
    else:
        folded = _first_bytes(folded, odd)
        at += odd
        if odd < 4:
            inverted = vector_of(_LOW_32 >> np.uint64(8 * odd), np.uint64(0))
            folded = _fold(folded, vector_of(_OVER_128[0], _OVER_128[1]), xor(load(data, at), inverted))
            at += 16
    return folded, at


@compiled(inline="always")
def _finish(data, folded, at, stop):  # type: ignore[no-untyped-def]
    """The CRC of the bytes folded so far and the rest. A long rest is folded in four parallel chains."""
    over = vector_of(_OVER_128[0], _OVER_128[1])
    if stop - at >= 112:
        second, third, fourth = load(data, at), load(data, at + 16), load(data, at + 32)
        at += 48
        far = vector_of(_OVER_512[0], _OVER_512[1])
        while at + 64 <= stop:
            folded = _fold(folded, far, load(data, at))
            second = _fold(second, far, load(data, at + 16))
            third = _fold(third, far, load(data, at + 32))
            fourth = _fold(fourth, far, load(data, at + 48))
            at += 64
        folded = _fold(_fold(_fold(folded, over, second), over, third), over, fourth)
    while at < stop:
        folded = _fold(folded, over, load(data, at))
        at += 16
    return np.int64((_reduce(folded) ^ _LOW_32) & _CRC_MASK)


@compiled
def folded_crc32(data, start, stop):  # type: ignore[no-untyped-def]
    """As `table_crc32`, by carry-less multiplication: only if CAN_FOLD."""
    if stop - start < 16:
        return table_crc32(data, start, stop)
    folded, at = _begin(data, start, stop)
    return _finish(data, folded, at, stop)


@compiled(inline="always")
def _joined(wide):  # type: ignore[no-untyped-def]
    """Fold the parts of a wide vector onto its last one."""
    over = vector_of(_OVER_128[0], _OVER_128[1])
    folded = _fold(take_part(wide, 0), over, take_part(wide, 1))
    if PARTS_OF_WIDE == 4:
        folded = _fold(_fold(folded, over, take_part(wide, 2)), over, take_part(wide, 3))
    return folded


@compiled
def widely_folded_crc32(data, start, stop):  # type: ignore[no-untyped-def]
    """As `folded_crc32`, but many bytes are folded in wide vectors: only if CAN_FOLD_WIDELY."""
    if stop - start < 16:
        return table_crc32(data, start, stop)
    folded, at = _begin(data, start, stop)
    if stop - at >= _MANY_BYTES:
        over = vector_of(_OVER_128[0], _OVER_128[1])
        # Carried over sixteen bytes, it can be combined with the first wide vector.
        folded = xor(low_times_low(folded, over), high_times_high(folded, over))
        wide = xor(first_alone(folded), load_wide(data, at))
        second, third = load_wide(data, at + _WIDE_BYTES), load_wide(data, at + 2 * _WIDE_BYTES)
        fourth = load_wide(data, at + 3 * _WIDE_BYTES)
        at += 4 * _WIDE_BYTES
        far = repeated(vector_of(_OVER_FOUR_WIDE[0], _OVER_FOUR_WIDE[1]))
        while at + 4 * _WIDE_BYTES <= stop:
            wide = _fold(wide, far, load_wide(data, at))
            second = _fold(second, far, load_wide(data, at + _WIDE_BYTES))
            third = _fold(third, far, load_wide(data, at + 2 * _WIDE_BYTES))
            fourth = _fold(fourth, far, load_wide(data, at + 3 * _WIDE_BYTES))
            at += 4 * _WIDE_BYTES
        near = repeated(vector_of(_OVER_WIDE[0], _OVER_WIDE[1]))
        wide = _fold(_fold(_fold(wide, near, second), near, third), near, fourth)
        while at + _WIDE_BYTES <= stop:
            wide = _fold(wide, near, load_wide(data, at))
            at += _WIDE_BYTES
        folded = _joined(wide)
    return _finish(data, folded, at, stop)


crc32 = widely_folded_crc32 if CAN_FOLD_WIDELY else folded_crc32 if CAN_FOLD else table_crc32
"""CRC-32 of data[start:stop], as zlib's, without the sign bit."""
