"""The table of rooms in ARCHITECTURE.md, made from what each folder says of itself.

    python tests/support/room_table.py     writes the table anew (`make docs`)

A row a folder: its name, the first sentence of its `__init__.py`, the number of its sources.
"""

import re
import sys
from collections import Counter
from pathlib import Path, PurePosixPath

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from support.sources import LAYERS, ROOT, Source, package_sources

__all__ = ["PAGE", "room_table", "with_room_table"]

PAGE = ROOT / "ARCHITECTURE.md"
_BETWEEN = re.compile(r"(<!-- rooms: begin -->\n).*?(<!-- rooms: end -->)", re.DOTALL)


def first_sentence(source: Source) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((source.docstring or "").partition("\n\n")[0].split())


def room_table() -> str:
    """The rows in import order of the layers, a sub-folder below its folder."""
    sources = package_sources()
    counts = Counter(_folder_of(source) for source in sources if not source.path.endswith("__init__.py"))
    rows = ["| folder | what it holds | sources |", "| --- | --- | --: |"]
    for layer in LAYERS:
        doors = (source for source in sources if source.layer == layer and _is_door(source))
        rows += [_row(source, counts[_folder_of(source)]) for source in sorted(doors, key=_folder_of)]
    return "\n".join(rows) + "\n"


def _is_door(source: Source) -> bool:
    return source.path.endswith("__init__.py")


def _folder_of(source: Source) -> str:
    return PurePosixPath(source.path).parent.as_posix()


def _row(source: Source, count: int) -> str:
    folder = _folder_of(source)
    indent = "&nbsp;&nbsp;" * folder.count("/")
    return f"| {indent}`{folder}/` | {first_sentence(source)} | {count} |"


def with_room_table(page: str) -> str:
    """The page with the table as it should be."""
    assert _BETWEEN.search(page), "ARCHITECTURE.md has no place for the table of rooms"
    return _BETWEEN.sub(lambda match: match[1] + room_table() + match[2], page)


if __name__ == "__main__":
    PAGE.write_text(with_room_table(PAGE.read_text("utf-8")), "utf-8")
