"""Compiled loops hand numbers to Python, and no arrays: see the head of store/compiled.py.

Method: of every loop that a kernel module offers, those that were compiled for given types say what they
return; of the others the sources are read, which may return names, numbers and calls, but no slice of one.
"""

import ast
import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from numba import types
from numba.core.dispatcher import Dispatcher

from support.sources import Source, package_sources

KERNELS = [source for source in package_sources() if source.path.endswith("kernels.py")]


def is_number(kind: Any) -> bool:
    if isinstance(kind, types.BaseTuple):
        return all(is_number(member) for member in kind)
    return isinstance(kind, types.Number | types.Boolean | types.NoneType)


def arrays_returned_by(function: ast.FunctionDef) -> Iterator[str]:
    """What a function returns that is plainly an array."""
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            for part in ast.walk(node.value):
                is_slice = isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Slice)
                if is_slice or (isinstance(part, ast.Call) and ast.unparse(part.func) in ARRAY_MAKERS):
                    yield ast.unparse(node)


ARRAY_MAKERS = ("np.empty", "np.zeros", "np.full", "np.array")


def offences_in(source: Source) -> Iterator[str]:
    module = importlib.import_module(source.module)
    functions = {node.name: node for node in source.tree.body if isinstance(node, ast.FunctionDef)}
    for name in module.__all__:
        loop = getattr(module, name)
        if isinstance(loop, Dispatcher) and name in functions:
            yield from (f"{name} {signature}" for signature in returned_by(loop) if not is_number(signature))
            yield from (f"{name}: {text}" for text in arrays_returned_by(functions[name]))


def returned_by(loop: Any) -> list[Any]:
    return [compiled.signature.return_type for compiled in loop.overloads.values()]


@pytest.mark.parametrize("source", KERNELS, ids=lambda source: source.path)
def test_a_loop_returns_numbers(source: Source) -> None:
    """Or nothing."""
    assert not (offences := list(offences_in(source))), "\n".join(offences)


def test_the_checker_objects() -> None:
    """Arrays are told from numbers."""
    assert is_number(types.int64)
    assert not is_number(types.Tuple((types.int64, types.int64[::1])))
    function = ast.parse("def f():\n    return np.empty(3), at\n    return offsets[:3]").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert len(list(arrays_returned_by(function))) == 2
