"""Interrupts: Ctrl-C between two lines of given modules, at a place that a test counts through.

Python raises KeyboardInterrupt in the main thread alone, and so does this: in the thread that calls it.
Python never does between the end of a `with` block and the giving back of its lock, where the line of the
`with` counts as run once more: such lines are passed over.
"""

import linecache
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

__all__ = ["interrupted_at"]


def interrupted_at(line: int, modules: tuple[ModuleType, ...], work: Callable[[], object]) -> bool:
    """Do `work`, with a KeyboardInterrupt before the line that is the `line`-th to be run in `modules`.

    False when the work was over before that.
    """
    files = {module.__file__ for module in modules}
    lines_run = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines_run
        if frame.f_code.co_filename not in files:
            return None
        if event == "line" and not _begins_with_block(frame):
            lines_run += 1
            if lines_run == line:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def _begins_with_block(frame: FrameType) -> bool:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")
