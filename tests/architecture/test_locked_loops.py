"""No loop under a lock that jumps back on a condition: an interrupt there would leave the lock taken.

CPython from 3.12 on looks for signals at the jump to the next turn of a loop. Where that jump depends on a
condition, it belongs to no block (github.com/python/cpython/issues/130279): a handler that raises there ends
the function without the end of its `with`. In a function that is called under the lock the same loop is safe,
for the call belongs to the block.
"""

import ast
from collections.abc import Iterator

from support.sources import package_sources

LOCKS = ("lock", "guard", "gate", "moving", "delivering", "resending", "writing", "connecting", "sending")
"""How names of locks end."""

INLINED = ("all", "any", "tuple", "list", "set")
"""Calls with a generator that CPython 3.14 makes loops of their own."""


def is_lock(expression: ast.expr) -> bool:
    name = getattr(expression, "attr", getattr(expression, "id", ""))
    return name.endswith(LOCKS)


def of_function(nodes: list[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes below, but those of functions within."""
    waiting: list[ast.AST] = list(nodes)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


def jumps_back_on_a_condition(node: ast.AST) -> bool:
    if isinstance(node, ast.Continue):
        return True
    if isinstance(node, ast.While):
        return not isinstance(node.test, ast.Constant) or _ends_with_if(node)
    if isinstance(node, ast.For):
        return _ends_with_if(node)
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp):
        return any(generator.ifs for generator in node.generators)
    is_inlined = isinstance(node, ast.Call) and getattr(node.func, "id", "") in INLINED
    return is_inlined and isinstance(node.args[0] if node.args else None, ast.GeneratorExp)  # type: ignore[attr-defined]


def _ends_with_if(loop: ast.While | ast.For) -> bool:
    last = loop.body[-1]
    return isinstance(last, ast.If) and not last.orelse


def test_no_loop_under_a_lock_jumps_back_on_a_condition() -> None:
    """In no source."""
    found = {
        source.at(node.lineno)
        for source in package_sources()
        for block in ast.walk(source.tree)
        if isinstance(block, ast.With) and any(is_lock(item.context_expr) for item in block.items)
        for node in of_function(block.body)
        if jumps_back_on_a_condition(node)
    }
    assert not found, f"call a function that has the loop: {sorted(found)}"
