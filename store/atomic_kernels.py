"""Words of memory that two threads share in compiled loops, and a pause between two looks at one.

Only compiled loops call them. A word is an int64 at an address that is a multiple of 8. All loads, stores and
exchanges are in one order that all threads see (LLVM's `seq_cst`): a thread that stores a word and then loads
another, as its counterpart does with the two the other way round, sees the counterpart's store or is seen.
"""

import platform
from typing import Any

from mqstore.store.loops.intrinsics import cgutils, intrinsic, ir, types

__all__ = ["exchange", "load", "pause", "store"]

_ORDER = "seq_cst"
_ALIGNMENT_BYTES = 8
# What LLVM calls the instruction that lets the other threads of a core go ahead, and its argument.
_PAUSES = {"x86_64": ("llvm.x86.sse2.pause", ()), "aarch64": ("llvm.aarch64.hint", (1,))}


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, ir.IntType(64).as_pointer())


@intrinsic
def load(typing_context, address):  # type: ignore[no-untyped-def]
    """The word at an address."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.load_atomic(_pointer(builder, arguments[0]), _ORDER, _ALIGNMENT_BYTES)

    return types.int64(types.int64), generate


@intrinsic
def store(typing_context, address, value):  # type: ignore[no-untyped-def]
    """Write the word at an address."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        builder.store_atomic(arguments[1], _pointer(builder, arguments[0]), _ORDER, _ALIGNMENT_BYTES)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def exchange(typing_context, address, value):  # type: ignore[no-untyped-def]
    """Write the word at an address; what it was, in one step."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.atomic_rmw("xchg", _pointer(builder, arguments[0]), arguments[1], _ORDER)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def pause(typing_context):  # type: ignore[no-untyped-def]
    """Let some tens of cycles pass, where the processor has an instruction for that."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        if platform.machine() in _PAUSES:
            name, values = _PAUSES[platform.machine()]
            number = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [number] * len(values))
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [*map(number, values)])
        return context.get_dummy_value()

    return types.void(), generate
