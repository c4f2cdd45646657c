"""Public imports stay short: what a user needs comes from a few modules.

Goal: a program that follows README, a page or an example does not break when a file moves to another room.
Method: the imports of all examples, and of the Python in the pages, against the list of public modules; and
the errors that the package defines against those that `mqstore.errors` gives.
"""

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import mqstore
import mqstore.errors
from support.public_names import PUBLIC_MODULES
from support.sources import ROOT, Source

PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("docs/tutorials/*.md")),
    *sorted(ROOT.glob("docs/howto/*.md")),
]
EXAMPLES = sorted(ROOT.glob("examples/*.py"))

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def python_in(page: Path) -> list[str]:
    """The Python of an example, or of the code blocks of a page."""
    text = page.read_text("utf-8")
    return [text] if page.suffix == ".py" else BLOCK.findall(text)


def deep_imports_in(text: str) -> list[str]:
    """Modules of ours that are imported and not public."""
    found = []
    for node in ast.walk(ast.parse(text)):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found += [module for module in modules if module.partition(".")[0] == "mqstore"]
    return [module for module in found if module not in PUBLIC_MODULES]


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_readers_are_shown_public_imports(page: Path) -> None:
    """README, the pages of docs/ and the examples import nothing deeper."""
    deep = [module for text in python_in(page) for module in deep_imports_in(text)]
    assert not deep, f"{page.name} imports {deep}: take it from one of {PUBLIC_MODULES}"


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_a_public_module_lists_what_it_gives(name: str) -> None:
    """Each public module can be imported, and says in `__all__` what is public."""
    module = importlib.import_module(name)
    assert module.__all__
    assert all(hasattr(module, public) for public in module.__all__)


def test_the_store_raises_no_error_that_cannot_be_imported() -> None:
    """`mqstore.errors` gives every error of the store's own layers."""
    defined = {}
    for layer in ("store", "index", "schedule"):
        package = importlib.import_module(f"mqstore.{layer}")
        for found in pkgutil.walk_packages(package.__path__, f"mqstore.{layer}."):
            if found.name.rpartition(".")[2] in ("direct_put", "direct_read", "direct_search"):
                # Only Cython can read them. They define no error.
                continue
            module = importlib.import_module(found.name)
            errors = (item for item in vars(module).values() if isinstance(item, type))
            defined |= {
                error.__name__: found.name
                for error in errors
                if issubclass(error, mqstore.StoreError) and error.__module__ == found.name
            }
    missing = set(defined) - set(mqstore.errors.__all__)
    assert not missing, {name: defined[name] for name in missing}


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("from mqstore import Message", []),
        ("from mqstore.client.consumer.listener import ConsumeStatus", ["mqstore.client.consumer.listener"]),
        ("import mqstore.store.errors", ["mqstore.store.errors"]),
        ("import numpy", []),
    ],
)
def test_the_checker_sees_deep_imports(text: str, modules: list[str]) -> None:
    """Both forms of import are read."""
    assert deep_imports_in(Source("examples/x.py", text).text) == modules
