"""Lazy names: what a package's `__init__.py` offers is imported when it is first used (PEP 562).

A package that offers a whole store costs nothing to those who import a small module below it: the Python
workers of Spark, the planning of a query, a reader of an archive.
"""

import importlib
import sys
from collections.abc import Callable, Mapping

__all__ = ["lazy_names"]


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of `package`, whose names come from `modules`: module by name.

    A name is looked up once; from then on it is an attribute like any other. Threads may ask at once.
    """

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
