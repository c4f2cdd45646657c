"""Interrupts: Ctrl-C within given modules, at a place that a test counts through.

Python raises KeyboardInterrupt in the main thread, where a function begins and where a call has returned
(and where a loop begins again). So does this, in the calling thread, for calls of Python and of C alike; not
where a lock has just been taken, for what takes it has no such place (store/threads/lock.py).
"""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, ModuleType

from mqstore.store.threads.lock import SafeLock

__all__ = ["interrupt_at", "interrupted_at"]


def interrupted_at(place: int, modules: tuple[ModuleType, ...], work: Callable[[], object]) -> bool:
    """Do `work`, with a KeyboardInterrupt at the `place`-th such place in `modules`; the first is 1.

    False when the work was over before that.
    """
    with suppress(KeyboardInterrupt), interrupt_at(place, modules) as has_struck:
        work()
    return has_struck()


@contextmanager
def interrupt_at(place: int, modules: tuple[ModuleType, ...]) -> Iterator[Callable[[], bool]]:
    """As `interrupted_at`, for a block; tells whether the place was reached.

    What strikes while the interpreter itself closes a generator is told as unraisable, and goes no further.
    No garbage is collected within: the end of a store of an earlier test has such places too.
    """
    files = {module.__file__ for module in modules}
    places_passed = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal places_passed
        if event == "return":
            # It is the caller that goes on.
            within = frame.f_back is not None and frame.f_back.f_code.co_filename in files
            within = within and frame.f_code is not SafeLock.__enter__.__code__
        else:
            within = event in ("call", "c_return") and frame.f_code.co_filename in files
        if within:
            places_passed += 1
            if places_passed == place:
                raise KeyboardInterrupt

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(profile)
    try:
        yield lambda: places_passed >= place
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
