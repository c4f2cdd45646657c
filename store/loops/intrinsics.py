"""What intrinsics are written with, where loops are compiled: numba's and LLVM's parts.

Where the loops were built with the package (machine_code.py), neither is imported: an intrinsic is in the
machine code, and its Python function is never called.
"""

from typing import Any

from mqstore.store.loops.machine_code import BUILT_IN

__all__ = ["cgutils", "intrinsic", "ir", "types"]


def _as_it_is(function: Any) -> Any:
    return function


cgutils: Any = None
intrinsic: Any = _as_it_is
ir: Any = None
types: Any = None

if BUILT_IN is None:
    import llvmlite.ir
    import numba.core.cgutils
    import numba.extending

    cgutils, ir, types = numba.core.cgutils, llvmlite.ir, numba.core.types
    intrinsic = numba.extending.intrinsic
