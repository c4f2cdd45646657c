"""How loops are compiled: the options that all of them share, and the one switch that checks their bounds.

Compiled loops check no index: callers give them arrays that are long enough, and loops check lengths from
files before they use them. NUMBA_BOUNDSCHECK=1, numba's own switch, checks every index and every raw copy,
and raises IndexError instead of reading elsewhere; `make fuzz BOUNDS=1` runs all hostile files with it.
Compiled code is then not cached on disk, unless NUMBA_CACHE_DIR names a folder. Use a separate folder for
checked code: numba does not distinguish the two.

A loop that Python calls returns numbers, and fills arrays of the caller. To return an array, numba would run
Python code after the loop, and an interrupt (Ctrl-C) there would become a SystemError.

Only kernels import this module.
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
"""A loop that releases the GIL. With a signature it is compiled only for these types."""
compiled_into_caller = partial(_compile, nogil=True, forceinline=True)
"""A small loop that is inlined into its caller."""
compiled_holding_gil = partial(_compile, nogil=False)
"""A loop that holds the GIL: no other Python thread of this process sees it half done."""

# A fork waits while a loop is being compiled or loaded: otherwise LLVM would abort a child with a half-loaded
# loop when its interpreter ends.
os.register_at_fork(
    before=global_compiler_lock.acquire,
    after_in_parent=global_compiler_lock.release,
    after_in_child=global_compiler_lock.release,
)
