"""Addresses in compiled loops: copies to memory that is no array, and calls of C functions.

Only compiled loops call them. They check nothing: the caller makes sure that an address is good, and that as
many bytes lie behind it as are read or written.
"""

from mqstore.store.byte_kernels import address_of_bytes
from mqstore.store.loops.intrinsics import cgutils, intrinsic, ir, types

__all__ = ["call", "copy_out", "int_at"]


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
def call(typing_context, function, first, second, third):  # type: ignore[no-untyped-def]
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
