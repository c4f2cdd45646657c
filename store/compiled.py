"""The decorators of loops. A loop is machine code that was built with the package, or numba compiles it here.

Installed wheels have the machine code of all loops (machine_code.py): then numba is not needed and nothing is
compiled. Elsewhere, as in a checkout whose sources change, numba compiles a loop when its module is first
imported, and keeps it on disk (just_in_time.py).

Loops that Python calls name the kinds of their arguments (kinds.py). They return numbers, and fill arrays of
the caller. To return an array, Python code would have to run behind the loop, and an interrupt (Ctrl-C)
there would become a SystemError. Loops without kinds are called by other loops alone; where the machine code
was built, they are plain functions that nobody calls.

Only kernels import this module.
"""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

from mqstore.store.loops.machine_code import BUILT_IN, FOUND, NotFound

__all__ = [
    "CHECKS_BOUNDS",
    "COMPILES_HERE",
    "compiled",
    "compiled_holding_gil",
    "compiled_into_caller",
    "compiles_with",
]

COMPILES_HERE: Final = BUILT_IN is None
"""Whether numba compiles the loops in this process."""

CHECKS_BOUNDS: bool
"""Whether every index is checked."""

compiles_with: Callable[..., bool]
"""Whether loops are compiled here, and for a processor with these features, by LLVM's names."""

_loop_of: Callable[..., Any]

if BUILT_IN is None:
    try:
        from mqstore.store.loops import just_in_time
    except ModuleNotFoundError as missing:
        reason = FOUND.reason if isinstance(FOUND, NotFound) else ""
        raise ImportError(
            f"{reason}. And numba, which would compile them, is not installed: pip install 'mqstore[jit]'"
        ) from missing
    CHECKS_BOUNDS, compiles_with = just_in_time.CHECKS_BOUNDS, just_in_time.compiles_with
    _loop_of = just_in_time.compile_loop
else:
    CHECKS_BOUNDS, compiles_with = False, BUILT_IN.compiles_with
    _loop_of = BUILT_IN.loop_of


def _decorate(*given: Any, **options: Any) -> Any:
    """given: the function, or the kinds of its arguments."""
    if given and isinstance(given[0], FunctionType):
        return _loop_of(given[0], (), **options)
    return lambda function: _loop_of(function, given, **options)


compiled: Final[Callable[..., Any]] = functools.partial(_decorate, holds_gil=False)
"""A loop that releases the GIL. Its arguments are the kinds of those of a loop that Python calls."""
compiled_into_caller: Final[Callable[..., Any]] = functools.partial(
    _decorate, holds_gil=False, forceinline=True
)
"""A small loop that is inlined into its caller."""
compiled_holding_gil: Final[Callable[..., Any]] = functools.partial(_decorate, holds_gil=True)
"""A loop that holds the GIL: no other Python thread of this process sees it half done."""
