"""Names and headers: a reader guesses the right file, and finds at its top what it is for.

Goal: no module is a drawer for odds and ends, each says its duty in its first lines and its public names in
`__all__`, and nothing is left half done. Method: the parsed sources, compared with short tables.
"""

import ast
import re
from pathlib import PurePosixPath

import pytest

from support.sources import Source, package_sources, sources_of_tests

VAGUE = frozenset(
    [
        "util",
        "utils",
        "utility",
        "utilities",
        "helper",
        "helpers",
        "common",
        "manager",
        "managers",
        "misc",
        "base",
        "core",
    ]
)
"""Words that say nothing about what a module holds."""

UNFINISHED = re.compile(r"\b(TODO|FIXME|HACK|NotImplementedError)\b")
ALL_SOURCES = (*package_sources(), *sources_of_tests())


def is_sentence_alone(source: Source) -> bool:
    """Whether a folder's `__init__.py` says what the folder holds, and re-exports nothing."""
    return source.path.endswith("__init__.py") and len(source.tree.body) == 1


def vague_words_in(path: str) -> list[str]:
    parts = [part for name in PurePosixPath(path).with_suffix("").parts for part in name.split("_")]
    return [part for part in parts if part.lower() in VAGUE]


def unfinished_in(source: Source) -> list[str]:
    lines = enumerate(source.text.splitlines(), start=1)
    return [source.at(number) for number, line in lines if UNFINISHED.search(line)]


def public_names_of(source: Source) -> list[str] | None:
    """What `__all__` lists; None when there is none that is a plain list of strings."""
    for node in source.tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = ast.literal_eval(node.value)
            return list(names)
    return None


def defined_names_in(source: Source) -> set[str]:
    """Names bound at the top of the module."""
    names: set[str] = set()
    for node in source.tree.body:
        names |= bound_by(node)
    return names


def bound_by(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return {alias.asname or alias.name for alias in aliases}
        case ast.If(body=body, orelse=orelse):
            return set().union(*(bound_by(inner) for inner in (*body, *orelse)))
        case _:
            return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def test_a_module_is_named_for_what_it_holds() -> None:
    """No folder or module is called util, helper, common, manager or misc, alone or with another word."""
    vague = [source.path for source in ALL_SOURCES if vague_words_in(source.path)]
    assert not vague, "says nothing, name the noun:\n" + "\n".join(vague)


def test_a_module_begins_with_a_docstring() -> None:
    """The first lines of a file say what it is for, those of an `__init__.py` what its folder holds."""
    silent = [source.path for source in ALL_SOURCES if not source.docstring]
    assert not silent, "begin with the module's noun and its duty:\n" + "\n".join(silent)


def wrong_public_names_in(source: Source) -> list[str]:
    """What is wrong with the `__all__` of a module."""
    if is_sentence_alone(source):
        return []
    names, defined = public_names_of(source), defined_names_in(source)
    if names is None:
        return [f"{source.path}: say in __all__ what others may use"]
    # A module with `__getattr__` loads its names when they are first used.
    missing = set() if "__getattr__" in defined else set(names) - defined
    return [f"{source.path}: __all__ lists {name}, which it does not define" for name in sorted(missing)]


def test_a_module_lists_its_public_names() -> None:
    """Every module of the package has `__all__`, and all that it lists is there."""
    wrong = [line for source in package_sources() for line in wrong_public_names_in(source)]
    assert not wrong, "\n".join(wrong)


def test_nothing_is_left_half_done() -> None:
    """No note to oneself and no stub: what is not there yet has no place in the code."""
    lines = [line for source in package_sources() for line in unfinished_in(source)]
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize(
    "path",
    [
        "store/util.py",
        "store/file_helpers.py",
        "common/x.py",
        "mqstore/topic_manager.py",
        "tools/cli/misc.py",
    ],
)
def test_the_checker_objects_to_names(path: str) -> None:
    """A word that says nothing is seen wherever in the path it stands."""
    assert vague_words_in(path)


@pytest.mark.parametrize(
    "text", ["x = 1  # TODO", "# FIXME: later", "def f():\n    raise NotImplementedError"]
)
def test_the_checker_objects_to_what_is_half_done(text: str) -> None:
    """Notes and stubs are seen."""
    assert len(unfinished_in(Source("store/x.py", text))) == 1


def test_the_checker_reads_all() -> None:
    """`__all__` and the names of a module are found, whichever statement binds them."""
    source = Source(
        "store/x.py",
        '__all__ = ["A", "B", "C", "D", "E"]\nA: int = 1\nB = 2\nfrom y import z as C\n\nclass D: ...\n',
    )
    assert public_names_of(source) == ["A", "B", "C", "D", "E"]
    assert wrong_public_names_in(source) == ["store/x.py: __all__ lists E, which it does not define"]
    without = Source("store/x.py", "A = 1")
    assert wrong_public_names_in(without) == ["store/x.py: say in __all__ what others may use"]
