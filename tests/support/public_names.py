"""Public names: where each is defined, its docstring, and whether somebody shows how it is used.

Read from the sources, so nothing is imported: a name is followed through the `from ... import` of the modules
that pass it on, to the class, function or assignment that makes it.
"""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from support.pages import Block, blocks_of
from support.sources import Source, package_sources

__all__ = ["PUBLIC_MODULES", "Definition", "Shown", "definition_of", "names_of", "shown_in", "shown_on"]

PUBLIC_MODULES = (
    "mqstore",
    "mqstore.client",
    "mqstore.errors",
    "mqstore.observability.client_metrics",
    "mqstore.observability.events",
    "mqstore.observability.opentelemetry",
    "mqstore.observability.prometheus",
    "mqstore.observability.store_figures",
    "mqstore.observability.store_metrics",
    "mqstore.repair",
    "mqstore.server",
    "mqstore.testing",
    "mqstore.tools.archive",
    "mqstore.tools.export",
    "mqstore.tools.spark",
    "mqstore.verify",
)
"""What a program of a user imports from; their `__all__` is what is public."""

PRINTED_ERROR = re.compile(r"^(\w+): ", re.MULTILINE)


@dataclass(frozen=True)
class Definition:
    """Where a public name comes from. docstring: empty if it has none."""

    module: str
    name: str
    docstring: str
    examples: int
    """Docstrings with a prompt in them: its own, and those of its methods."""


@dataclass(frozen=True)
class Shown:
    """What code blocks that are run show: names that they import and use, and errors that they print."""

    used: frozenset[tuple[str, str]]
    """Module and name."""
    printed: frozenset[str]


@cache
def _sources() -> dict[str, Source]:
    return {source.module: source for source in package_sources()}


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_sources()[module].text)


def names_of(module: str) -> list[str]:
    """Its `__all__`, as it is written there."""
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    raise LookupError(f"{module} has no __all__")


@cache
def definition_of(module: str, name: str) -> Definition:
    """Follow the name to where it is made. Raises LookupError."""
    tree = _tree(module)
    for node, following in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            parts = [node, *(part for part in node.body if isinstance(part, ast.FunctionDef))]
            docstrings = [ast.get_docstring(part) or "" for part in parts]
            return Definition(module, name, docstrings[0], sum(">>> " in text for text in docstrings))
        if _assigned(node) == name:
            text = _text_of(following)
            return Definition(module, name, text, int(">>> " in text))
    for imported in ast.walk(tree):
        if isinstance(imported, ast.ImportFrom) and any(alias.name == name for alias in imported.names):
            return definition_of(imported.module or "", name)
    raise LookupError(f"{module} defines no {name}")


def _assigned(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0])
    return ast.unparse(node.target) if isinstance(node, ast.AnnAssign) else None


def _text_of(node: ast.stmt) -> str:
    """The docstring of what is assigned before it."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return str(node.value.value)
    return ""


def shown_in(blocks: list[Block]) -> Shown:
    """What is shown by those of the blocks that are run."""
    printed: set[str] = set()
    imported: set[tuple[str, str]] = set()
    names: set[str] = set()
    for block in blocks:
        if block.noted("not run: ") is not None:
            continue
        if block.kind in ("text", "console"):
            printed |= set(PRINTED_ERROR.findall(block.text))
        if block.kind == "python":
            for node in ast.walk(ast.parse(block.text)):
                imported |= _imported_by(node)
                names |= _named_by(node)
    used = {(module, name) for module, name in imported if name in names}
    return Shown(frozenset(used), frozenset(printed))


def _imported_by(node: ast.AST) -> set[tuple[str, str]]:
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "", alias.name) for alias in node.names}
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytest_plugins":
        # Fixtures are used by their names alone.
        return {(module, name) for module in ast.literal_eval(node.value) for name in names_of(module)}
    return set()


def _named_by(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.arg):
        return {node.arg}
    return {node.name} if isinstance(node, ast.FunctionDef) else set()


def shown_on(pages: list[Path]) -> Shown:
    """What the pages show, each for itself."""
    found = [shown_in(blocks_of(page.read_text("utf-8"))) for page in pages]
    return Shown(
        frozenset(pair for shown in found for pair in shown.used),
        frozenset(name for shown in found for name in shown.printed),
    )
