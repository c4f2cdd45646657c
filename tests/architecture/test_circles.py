"""No circles: files and folders can be read in an order in which each needs only what came before.

Goal: a reader, a test and a compiler can take any file without the rest of the house. Method: the graph of
all imports, those in functions and under TYPE_CHECKING too, first of the files, then of what lies in each
folder: its files and sub-folders. ORDER gives the order of the sub-folders; no import runs against it.
"""

import functools
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

import pytest

from support.sources import LAYERS, Source, package_sources

ORDER: dict[str, tuple[str, ...]] = {
    "": LAYERS,
    "store": (
        "events",
        "threads",
        "loops",
        "checksum",
        "record",
        "files",
        "state",
        "message",
        "direct",
        "bulk",
        "log",
    ),
    "index": ("queue", "pull", "arrow", "lmdb_files", "keys", "index_file"),
    "schedule": ("delay", "delivery", "retry"),
    "mqstore": ("loading", "metadata", "put", "settings", "verify", "repair", "administration"),
    "client": ("remote", "producer", "offsets", "rebalance", "consumer", "dead_letters"),
    "client/producer": ("message", "queues", "sends"),
    "client/consumer": ("pulls", "orderly", "lite_pull"),
    "observability": ("opentelemetry",),
    "server": ("security", "monitoring", "processors", "administration"),
    "tools": ("archive", "ingest", "export", "spark", "demo", "cli"),
    "tools/cli": (
        *("messages", "administration", "dead_letters", "maintenance", "monitoring"),
        *("serving", "spark", "demo", "ui"),
    ),
    "tools/spark": ("segments", "read", "stream", "sink", "jobs", "rebuild", "report"),
    "tools/cli/ui": ("pages",),
}
"""The sub-folders of each folder: each may import those before it, none behind it."""

Graph = Mapping[str, Iterable[str]]


def edges_of(sources: Iterable[Source]) -> dict[str, set[str]]:
    """For each file the files that it imports; a package stands for its `__init__.py`."""
    files = {source.module: source.path for source in sources}
    return {
        source.path: {
            files[module]
            for use in source.imports
            if (module := known_module(use.name, files)) and files[module] != source.path
        }
        for source in sources
    }


def known_module(name: str, files: Mapping[str, str]) -> str | None:
    """The module that an imported name is, or is in."""
    while name and name not in files:
        name = name.rpartition(".")[0]
    return name or None


def circle_in(graph: Graph) -> list[str]:
    """One circle, its first name again at its end; empty where there is none."""
    done: set[str] = set()
    for start in sorted(graph):
        path: list[str] = []
        stack = [(start, iter(sorted(graph[start])))]
        while stack:
            name, following = stack[-1]
            if len(path) < len(stack):
                path.append(name)
            step = next((other for other in following if other not in done), None)
            if step is None:
                done.add(name)
                stack.pop()
                path.pop()
            elif step in path:
                return [*path[path.index(step) :], step]
            else:
                stack.append((step, iter(sorted(graph.get(step, ())))))
    return []


def within(folder: str, edges: Graph) -> dict[str, set[str]]:
    """The graph of what lies directly in `folder`: its files, and its sub-folders as one node each."""
    graph: dict[str, set[str]] = {}
    for path, targets in edges.items():
        if (node := child(folder, path)) is not None:
            reached = {child(folder, target) for target in targets}
            graph.setdefault(node, set()).update(reached - {None, node})
    return graph


def child(folder: str, path: str) -> str | None:
    """What of `folder` holds `path`; None where it lies elsewhere."""
    parts, above = PurePosixPath(path).parts, PurePosixPath(folder).parts
    if parts[: len(above)] != above:
        return None
    # The `__init__.py` of a folder re-exports what lies in it: it is part of no room in there.
    rest = parts[len(above) :]
    return None if rest == ("__init__.py",) else rest[0]


def folders() -> list[str]:
    found = {""}
    for source in package_sources():
        parents = list(PurePosixPath(source.path).parents)[:-1]
        found |= {parent.as_posix() for parent in parents}
    return sorted(found)


@functools.cache
def edges() -> Graph:
    """The imports of the package, found when first asked: workers import this file and may run none of it."""
    return edges_of(package_sources())


def test_no_circle_among_files() -> None:
    """No file imports itself, over however many others."""
    without_doors = {
        path: {target for target in targets if not target.endswith("__init__.py")}
        for path, targets in edges().items()
    }
    assert not (circle := circle_in(without_doors)), " -> ".join(circle)


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder or "root")
def test_no_circle_within_a_folder(folder: str) -> None:
    """What lies directly in a folder, files and sub-folders, has an order."""
    assert not (circle := circle_in(within(folder, edges()))), " -> ".join(circle)


@pytest.mark.parametrize("folder", ORDER, ids=lambda folder: folder or "root")
def test_sub_folders_keep_their_order(folder: str) -> None:
    """No import runs against the order that is written down, and all sub-folders stand in it."""
    order, graph = ORDER[folder], within(folder, edges())
    known = {node for node in graph if not node.endswith(".py")}
    assert known == set(order)
    upward = [
        f"{node}/ imports {target}/"
        for node in known
        for target in graph[node]
        if target in known and order.index(target) > order.index(node)
    ]
    assert not upward, f"{', '.join(upward)}: the order is {' <- '.join(order)}"


def test_every_folder_with_sub_folders_has_an_order() -> None:
    """A new sub-folder is placed in the order of its folder."""
    needing = {
        folder
        for folder in folders()
        if sum(not node.endswith(".py") for node in within(folder, edges())) > 1
    }
    assert needing <= set(ORDER)


@pytest.mark.parametrize(
    ("graph", "circle"),
    [
        ({"a": ["b"], "b": ["c"], "c": []}, []),
        ({"a": ["b"], "b": ["a"]}, ["a", "b", "a"]),
        ({"a": ["b", "c"], "b": ["c"], "c": ["d"], "d": ["b"]}, ["b", "c", "d", "b"]),
        ({"a": ["c"], "b": ["c"], "c": []}, []),
    ],
)
def test_the_search_finds_circles(graph: Graph, circle: list[str]) -> None:
    """The search is itself tried on graphs of known answer."""
    assert circle_in(graph) == circle


@pytest.mark.parametrize(
    "text",
    [
        "from mqstore.store.b import f",
        "def g():\n    from mqstore.store import b",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import mqstore.store.b",
    ],
)
def test_imports_anywhere_count(text: str) -> None:
    """An import in a function or for the type checker alone is an arrow like others."""
    sources = [Source("store/a.py", text), Source("store/b.py", "import mqstore.store.a")]
    assert circle_in(edges_of(sources)) == ["store/a.py", "store/b.py", "store/a.py"]
