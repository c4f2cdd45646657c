"""The project's own sources, parsed: what the architecture tests look at.

A `Source` is one Python file, named by its path from the root. It can also be made from a string, so that
each checker is shown to object to a bad file without there being one.
"""

import ast
import functools
import io
import tokenize
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = ["LAYERS", "ROOT", "Source", "Use", "package_sources", "sources_of_tests"]

ROOT = Path(__file__).resolve().parents[2]

LAYERS = (
    "store",
    "index",
    "schedule",
    "mqstore",
    "broker",
    "remoting",
    "client",
    "observability",
    "server",
    "testing",
    "tools",
)
"""The top-level folders in import order: each may import itself and those before it."""


@dataclass(frozen=True)
class Use:
    """A dotted name that a source imports or mentions, with imports resolved: `os.fsync`, `print`."""

    name: str
    line: int


@dataclass(frozen=True)
class Source:
    """One Python file: `path` from the root with forward slashes, and its `text`."""

    path: str
    text: str

    @property
    def layer(self) -> str:
        """The top-level folder that the file lies in."""
        return self.path.partition("/")[0]

    @property
    def module(self) -> str:
        """The name that the file is imported by."""
        parts = list(PurePosixPath(self.path).with_suffix("").parts)
        if parts[0] != "mqstore":
            parts.insert(0, "mqstore")
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def docstring(self) -> str | None:
        """The docstring of the module."""
        return ast.get_docstring(self.tree)

    @functools.cached_property
    def prose(self) -> tuple[str, ...]:
        """The docstrings, those of functions and classes too, and the comments."""
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        docstrings = [ast.get_docstring(node) for node in ast.walk(self.tree) if isinstance(node, kinds)]
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
        return (*(text for text in docstrings if text), *comments)

    @functools.cached_property
    def imports(self) -> tuple[Use, ...]:
        """Every module imported, at the top or inside a function, and by importlib.import_module("...")."""
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found += [Use(alias.name, node.lineno) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = "." * node.level + (node.module or "")
                found += [Use(f"{base}.{alias.name}".strip(), node.lineno) for alias in node.names]
            elif isinstance(node, ast.Call) and _imports_by_name(node):
                found.append(Use(ast.literal_eval(node.args[0]), node.lineno))
        return tuple(found)

    @functools.cached_property
    def mentions(self) -> tuple[Use, ...]:
        """Every name and attribute, written in full: after `import time as t`, `t.time` is `time.time`."""
        originals = self._originals()
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name | ast.Attribute):
                head, dot, tail = ast.unparse(node).partition(".")
                found.append(Use(originals.get(head, head) + dot + tail, node.lineno))
        return tuple(found)

    def at(self, line: int) -> str:
        """Where, and what stands there: the path, the line's number and its text."""
        return f"{self.path}:{line}: {self.text.splitlines()[line - 1].strip()}"

    def _originals(self) -> dict[str, str]:
        """What each imported name stands for."""
        names = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names |= {alias.asname: alias.name for alias in node.names if alias.asname}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        return names


def _imports_by_name(call: ast.Call) -> bool:
    named = ast.unparse(call.func) in ("importlib.import_module", "import_module", "__import__")
    return named and bool(call.args) and isinstance(call.args[0], ast.Constant)


@functools.cache
def _sources_under(*folders: str) -> tuple[Source, ...]:
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return tuple(Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths)


def package_sources() -> tuple[Source, ...]:
    """Every Python file of the package."""
    return _sources_under(*LAYERS)


def sources_of_tests() -> tuple[Source, ...]:
    """Every Python file of the tests, the benchmarks and the examples."""
    return _sources_under("tests", "benchmarks", "examples")
