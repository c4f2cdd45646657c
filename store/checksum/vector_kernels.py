"""Vectors in compiled loops: 128 bits, or more, that stay in one register, and carry-less multiplication.

For crc32_kernels.py. They check nothing, unless loops are compiled with checked bounds (compiled.py).
Multiplication needs PCLMULQDQ, that of wide vectors VPCLMULQDQ too: see crc32_kernels.py. A wide vector has
512 bits with AVX-512, else 256. Import this module only where loops are compiled (intrinsics.py).
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

from mqstore.store.byte_kernels import address_of_bytes
from mqstore.store.compiled import compiles_with

__all__ = [
    "PARTS_OF_WIDE",
    "first_alone",
    "high_of",
    "high_times_high",
    "load",
    "load_wide",
    "low_of",
    "low_times_high",
    "low_times_low",
    "repeated",
    "take_part",
    "vector_of",
    "xor",
]

PARTS_OF_WIDE = 4 if compiles_with("avx512f") else 2
"""How many vectors a wide one has."""


class _Vector(types.Type):
    """Two unsigned 64-bit numbers; the first holds the bytes that come first."""

    def __init__(self) -> None:
        super().__init__(name="mqstore.store.checksum.Vector")


class _Wide(types.Type):
    """Vectors side by side: PARTS_OF_WIDE."""

    def __init__(self) -> None:
        super().__init__(name="mqstore.store.checksum.Wide")


_VECTOR, _WIDE = _Vector(), _Wide()
_LANES = ir.VectorType(ir.IntType(64), 2)
_WIDE_LANES = ir.VectorType(ir.IntType(64), 2 * PARTS_OF_WIDE)
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


# The vector, or the wide vector, of the bytes from data[at] on.
load, load_wide = _loader(_VECTOR, _LANES), _loader(_WIDE, _WIDE_LANES)


@intrinsic
def vector_of(typing_context, low, high):  # type: ignore[no-untyped-def]
    """The vector of two numbers."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        half = builder.insert_element(ir.Constant(_LANES, ir.Undefined), arguments[0], _LANE(0))
        return builder.insert_element(half, arguments[1], _LANE(1))

    return _VECTOR(types.uint64, types.uint64), generate


@intrinsic
def low_of(typing_context, vector):  # type: ignore[no-untyped-def]
    """Its first number."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.extract_element(arguments[0], _LANE(0))

    return types.uint64(_VECTOR), generate


@intrinsic
def high_of(typing_context, vector):  # type: ignore[no-untyped-def]
    """Its second number."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.extract_element(arguments[0], _LANE(1))

    return types.uint64(_VECTOR), generate


@intrinsic
def repeated(typing_context, vector):  # type: ignore[no-untyped-def]
    """The vector as each part of a wide one."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        places = ir.Constant(ir.VectorType(_LANE, _WIDE_LANES.count), [0, 1] * PARTS_OF_WIDE)
        return builder.shuffle_vector(arguments[0], ir.Constant(_LANES, ir.Undefined), places)

    return _WIDE(_VECTOR), generate


@intrinsic
def first_alone(typing_context, vector):  # type: ignore[no-untyped-def]
    """The vector as the first part of a wide one, whose other parts are zeros."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        numbers = [0, 1, *[2, 3] * (PARTS_OF_WIDE - 1)]
        places = ir.Constant(ir.VectorType(_LANE, _WIDE_LANES.count), numbers)
        return builder.shuffle_vector(arguments[0], ir.Constant(_LANES, [0, 0]), places)

    return _WIDE(_VECTOR), generate


@intrinsic
def take_part(typing_context, wide, number):  # type: ignore[no-untyped-def]
    """A vector of a wide one. number: a literal, or a constant of the module that asks."""
    if not isinstance(number, types.IntegerLiteral):
        return None
    first_lane = 2 * number.literal_value

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        places = ir.Constant(ir.VectorType(_LANE, 2), [first_lane, first_lane + 1])
        return builder.shuffle_vector(arguments[0], ir.Constant(_WIDE_LANES, ir.Undefined), places)

    return _VECTOR(_WIDE, number), generate


@intrinsic
def xor(typing_context, one, other):  # type: ignore[no-untyped-def]
    """Exclusive or of two vectors, or of two wide ones."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.xor(*arguments)

    return one(one, one), generate


def _carryless_product(selector: int) -> Any:
    """The instruction. Bit 0 of `selector` selects the first factor's high half, bit 4 the second's."""

    @intrinsic
    def multiply(typing_context, one, other):  # type: ignore[no-untyped-def]
        lanes = _LANES if one == _VECTOR else _WIDE_LANES
        name = "llvm.x86.pclmulqdq" if one == _VECTOR else f"llvm.x86.pclmulqdq.{128 * PARTS_OF_WIDE}"

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            kind = ir.FunctionType(lanes, [lanes, lanes, _SELECTOR])
            instruction = cgutils.get_or_insert_function(builder.module, kind, name)
            return builder.call(instruction, [*arguments, _SELECTOR(selector)])

        return one(one, one), generate

    return multiply


low_times_low = _carryless_product(0x00)
high_times_high = _carryless_product(0x11)
low_times_high = _carryless_product(0x10)
