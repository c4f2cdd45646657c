"""A forked child on a simulated disk: a real fork, whose steps the parent's disk takes over.

The child has a copy of the disk in its memory, as it has of all else. What it does there it would have done
to the files of its parent, so the steps are sent back and done again. A right child does none.
"""

import os
import pickle
from collections.abc import Callable
from contextlib import suppress

from support.disks.simulated_disk import SimulatedDisk, Step

__all__ = ["run_in_child"]


def run_in_child(disk: SimulatedDisk, *work: Callable[[], object]) -> int:
    """Do each piece of `work` in a forked child, whatever it raises; returns the number of its steps."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        first = len(disk.steps)
        for piece in work:
            with suppress(Exception):
                piece()
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(disk.steps[first:], pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        steps = pickle.load(pipe)
    os.waitpid(child, 0)
    for step in steps:
        _redo(disk, step)
    return len(steps)


def _redo(disk: SimulatedDisk, step: Step) -> None:
    path = step.path
    match step.kind:
        case "create":
            disk.map(path, step.size, create=True)
        case "write":
            disk.map(path, 0).write(step.position, step.data)
        case "reserve":
            disk.map(path, 0).reserve(step.position, step.size)
        case "replace":
            disk.write(path, step.data)
        case "sync":
            disk.sync(path)
        case "rename":
            assert step.target is not None
            disk.rename(path, step.target)
        case "delete":
            disk.delete(path)
        case "make_directory":
            disk.make_directories(path, durable=bool(step.size))
        case "delete_directory":
            disk.delete_directory(path)
        case "sync_directory":
            disk.sync_directory(path)
        case kind:
            raise AssertionError(f"a child has done {kind}")
