"""The tree of errors that the module draws is the tree of its classes, and their texts are one line."""

import os
import re
from pathlib import Path

import pytest

from mqstore.store import errors
from mqstore.store.errors import CorruptRecord, StoreError

LINE = re.compile(
    r"    (?P<indent>(?:\|  |   )*)[|`]- (?P<name>\w+)(?: \((?P<also>\w+)\))?  +(?P<advice>\S.*)"
)


def drawn() -> dict[str, tuple[str, str | None]]:
    """Of each leaf in the drawing: the class above it, and the built-in that it also is."""
    assert errors.__doc__ is not None
    found: dict[str, tuple[str, str | None]] = {}
    above = ["StoreError"]
    for match in filter(None, map(LINE.fullmatch, errors.__doc__.splitlines())):
        depth = len(match["indent"]) // 3 + 1
        del above[depth:]
        found[match["name"]] = (above[-1], match["also"])
        above.append(match["name"])
    return found


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name != "StoreError"])
def test_each_error_is_drawn_where_it_belongs(name: str) -> None:
    """Under its class, with the built-in that catches it as well."""
    bases = [base.__name__ for base in getattr(errors, name).__bases__]
    parent, also = drawn()[name]
    assert bases == [parent] if also is None else bases == [parent, also]


def test_nothing_else_is_drawn() -> None:
    """An error that is gone leaves the drawing, too."""
    assert sorted(["StoreError", *drawn()]) == sorted(errors.__all__)


def test_the_text_of_an_error_is_one_printable_line() -> None:
    """Whatever the names of files and the bytes of a store hold."""
    path = Path(os.fsdecode(b"consumequeue/a\ncommitlog\x1b[2J\xff/0"))
    text = str(CorruptRecord(path, 60, "an entry", "17\u2028"))
    assert text.startswith(
        r"consumequeue/a\ncommitlog\x1b[2J\udcff/0 is damaged at byte 60: expected an entry"
    )
    assert text.isprintable()
    assert "ü" in str(StoreError("grün"))
