"""The heap of Spark's Python workers: what is imported is left out of their garbage collections.

Spark collects after each task and each call of the planner, and that looks through all objects of numba,
PySpark and pandas, which takes longer than a small task.
"""

import functools
import gc
import sys

__all__ = ["freeze_imports"]


def freeze_imports() -> None:
    """Freeze what is imported by now: to be called at the end of a task, for modules are imported in it.

    Only in Spark's own processes: in a user's program objects live and die as it wants.
    """
    _freeze(len(sys.modules))


@functools.cache
def _freeze(modules: int) -> None:
    """Once for each number of modules."""
    program = getattr(sys.modules["__main__"], "__spec__", None)
    if program is not None and program.name.startswith("pyspark."):
        gc.collect()
        gc.freeze()
