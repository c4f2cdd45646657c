"""No iterator over lent bytes: an error that leaves the loop would keep it, and the interpreter dies of it.

CPython's garbage collector takes apart a view that such an iterator still uses, when both became garbage with
the traceback of an error. The iterator then gives back memory that is gone: SIGSEGV, in a reader's process or
the writer's. Method: no source calls a method that makes one, whatever it is given.
"""

import ast

from support.sources import Source, package_sources

INSTEAD = {
    "iter_unpack": "unpack_from at each place, or numpy.frombuffer",
    "finditer": "search from each place on",
    "scanner": "search from each place on",
    "PickleBuffer": "bytes",
}


def offences_in(source: Source) -> list[str]:
    return [
        f"{source.at(node.lineno)}  -- use {INSTEAD[node.attr]}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and node.attr in INSTEAD
    ]


def test_no_source_iterates_over_lent_bytes() -> None:
    """Not by struct, re or pickle; numpy's arrays and slices of views are harmless."""
    offences = [offence for source in package_sources() for offence in offences_in(source)]
    assert not offences, "\n".join(offences)


def test_the_checker_objects() -> None:
    """Each of them is seen."""
    for name in INSTEAD:
        source = Source("index/pull/message_reader.py", f"for entry in ENTRY.{name}(view):\n    pass")
        assert len(offences_in(source)) == 1
