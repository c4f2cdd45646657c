"""How loops are compiled: the options that all of them share, and the one switch that checks their bounds.

Compiled loops check no index: they are given arrays that are long enough, and look at lengths from files
before they use them. NUMBA_BOUNDSCHECK=1, numba's own switch, checks every index and every raw copy all the
same, and raises IndexError instead of reading elsewhere; `make fuzz BOUNDS=1` runs all hostile files so.
Nothing is then kept on disk between runs, unless NUMBA_CACHE_DIR names a folder: numba does not tell code
with checks from code without, so give it one of its own.

A loop that Python calls returns numbers, and fills arrays that it is given: to hand out an array, numba runs
some Python behind the loop, and an interrupt (Ctrl-C) that is met there comes out as a SystemError.

Imported by the kernels alone.
"""

import os
from functools import partial
from typing import Final

import numba
from numba.core import config
from numba.core.compiler_lock import global_compiler_lock

__all__ = ["CHECKS_BOUNDS", "compiled", "compiled_holding_gil", "compiled_into_caller"]

CHECKS_BOUNDS: Final = config.BOUNDSCHECK == 1
"""Whether every index is checked."""

_compile = partial(numba.njit, boundscheck=CHECKS_BOUNDS, cache=not CHECKS_BOUNDS or bool(config.CACHE_DIR))

compiled = partial(_compile, nogil=True)
"""A loop that releases the interpreter's lock. With a signature it is compiled for these types alone."""
compiled_into_caller = partial(_compile, nogil=True, forceinline=True)
"""A small loop that becomes part of the code that calls it."""
compiled_holding_gil = partial(_compile, nogil=False)
"""A loop that no other Python thread of this process sees half done."""

# A fork waits for a loop that is being compiled or loaded: LLVM aborts a child that has half of it, at the
# end of its interpreter.
os.register_at_fork(
    before=global_compiler_lock.acquire,
    after_in_parent=global_compiler_lock.release,
    after_in_child=global_compiler_lock.release,
)
