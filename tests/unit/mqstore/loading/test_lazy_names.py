"""Lazy names: every package that loads its names late offers just what its `__all__` says.

Method: a fresh interpreter, for in this one all is loaded by now.
"""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[4]
PACKAGES = {
    "mqstore": "mqstore/__init__.py",
    "mqstore.tools.archive": "tools/archive/__init__.py",
    "mqstore.tools.spark": "tools/spark/__init__.py",
}


def for_type_checkers(source: str) -> dict[str, str]:
    """Module by name, of what is imported under `if TYPE_CHECKING`."""
    guarded = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        name.asname or name.name: node.module or ""
        for block in guarded
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_those_that_a_type_checker_sees(package: str) -> None:
    """The table and the imports for type checkers name the same things."""
    offered = importlib.import_module(package)
    seen = for_type_checkers((REPOSITORY / PACKAGES[package]).read_text("utf-8"))
    late = [name for name in offered.__all__ if name in seen]
    assert late
    for name in offered.__all__:
        value = getattr(offered, name)
        if name in seen:
            assert value is getattr(importlib.import_module(seen[name]), name)


@pytest.mark.parametrize("package", PACKAGES)
def test_all_names_come_by_a_star(package: str, tmp_path: Path) -> None:
    program = f"""
import sys
import {package}
assert "mqstore.message_store" not in sys.modules
from {package} import *
for name in {package}.__all__:
    assert name in globals() and name in vars({package}) and name in dir({package}), name
"""
    # Not in the root, where the folder mqstore/ would be found before the installed package.
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_there_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'MesageStore'"):
        getattr(importlib.import_module(package), "MesageStore")  # noqa: B009
    with pytest.raises(ImportError, match="MesageStore"):
        exec(f"from {package} import MesageStore")
