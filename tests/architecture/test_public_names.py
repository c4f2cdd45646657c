"""Every public name has a docstring, and somebody shows how it is used.

Goal: what a reader finds in the reference is explained, and he finds a piece of code that works. Method: the
names that the public modules list, followed to where they are made. An example is one in the docstring of the
name or of a method of it (test_examples.py runs them), a use in a code block of README or docs/ that is run
(tests/pages/), or, for an error, a line of such a block that prints it.
"""

import importlib
import re
from dataclasses import replace

import pytest

from support.pages import blocks_of
from support.public_names import (
    PUBLIC_MODULES,
    Definition,
    Shown,
    definition_of,
    names_of,
    shown_in,
    shown_on,
)
from support.sources import ROOT

PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
SHOWN = shown_on(PAGES)
NAMES = [(module, name) for module in PUBLIC_MODULES for name in names_of(module)]


def has_example(definition: Definition, shown: Shown) -> bool:
    """Whether a docstring or a page shows it, by whichever public module it was imported."""
    return (
        definition.examples > 0
        or (definition.name in shown.printed and is_error(definition))
        or any(is_same(definition, module, name) for module, name in shown.used)
    )


def is_error(definition: Definition) -> bool:
    """Whether it can be raised."""
    made = getattr(importlib.import_module(definition.module), definition.name)
    return isinstance(made, type) and issubclass(made, Exception)


def is_same(definition: Definition, module: str, name: str) -> bool:
    """Whether this public module gives it by this name."""
    if module not in PUBLIC_MODULES or name not in names_of(module):
        return False
    found = definition_of(module, name)
    return (found.module, found.name) == (definition.module, definition.name)


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_public_name_is_explained_and_shown(module: str, name: str) -> None:
    """By a docstring, and by an example that is run."""
    definition = definition_of(module, name)
    assert definition.docstring, f"{definition.module}.{name} has no docstring"
    assert has_example(definition, SHOWN), (
        f"{definition.module}.{name} has no example: write one into its docstring, or use it on a page"
    )


def test_the_reference_has_all_public_modules() -> None:
    """A module that the site's reference shows is public, and the reverse."""
    pages = "".join(page.read_text("utf-8") for page in ROOT.glob("docs/reference/*.md"))
    shown = set(re.findall(r"^::: (\S+)$", pages, re.MULTILINE))
    assert shown - {"mqstore.remoting"} == set(PUBLIC_MODULES)  # a heading of the protocol, without names


@pytest.mark.parametrize(
    ("page", "is_shown"),
    [
        ("```python\nfrom mqstore import Host\n\nHost.parse('127.0.0.1:1')\n```\n", True),
        ("```python\nfrom mqstore import Host\n```\n", False),
        ("<!-- not run: slow -->\n```python\nfrom mqstore import Host\n\nHost\n```\n", False),
        ("```python\nfrom elsewhere import Host\n\nHost\n```\n", False),
        ("```text\nHost: is no error\n```\n", False),
    ],
)
def test_what_counts_as_an_example(page: str, is_shown: bool) -> None:
    """A use of the name in a block that is run; an import alone is none."""
    host = replace(definition_of("mqstore", "Host"), examples=0)
    assert has_example(host, shown_in(blocks_of(page))) is is_shown


@pytest.mark.parametrize(
    ("page", "is_shown"),
    [
        ("```text\nStoreFull: no room\n```\n", True),
        ("```console\n$ mqstore put data orders x\nStoreFull: no room\n```\n", True),
        ("StoreFull: no room\n", False),
    ],
)
def test_an_error_is_shown_where_it_is_printed(page: str, is_shown: bool) -> None:
    """In what a block prints."""
    assert has_example(definition_of("mqstore.errors", "StoreFull"), shown_in(blocks_of(page))) is is_shown


def test_where_a_name_comes_from() -> None:
    """A name is followed through the modules that pass it on; a constant is explained below it."""
    assert definition_of("mqstore.repair", "RepairRefused").module == "mqstore.store.errors"
    assert definition_of("mqstore.tools.spark", "check_segments").module.endswith("segment_check")
    assert definition_of("mqstore.observability.client_metrics", "OTHERS").docstring
    with pytest.raises(LookupError):
        definition_of("mqstore", "NoSuchName")
