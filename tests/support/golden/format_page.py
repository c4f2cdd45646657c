"""The tables of the format pages under docs/format/, so that tests can hold the code against them."""

from pathlib import Path
from typing import NamedTuple

__all__ = ["FieldRow", "code_block", "field_table", "table"]

_PAGES = Path(__file__).resolve().parents[3] / "docs" / "format"


class FieldRow(NamedTuple):
    """One field of a fixed layout."""

    at: int
    size: int
    type: str
    name: str


def _section(page: str, title: str | None) -> list[str]:
    """Lines of a page below the heading `title`, or above all of them."""
    lines = (_PAGES / page).read_text("utf-8").splitlines()
    if title is not None:
        lines = lines[lines.index(f"## {title}") + 1 :]
    ends = [at for at, line in enumerate(lines) if line.startswith("## ")]
    return lines[: ends[0]] if ends else lines


def table(page: str, title: str | None, *, first_column: str) -> list[list[str]]:
    """Cells of all tables in a section whose first column has this heading."""
    rows: list[list[str]] = []
    wanted = False
    for line in _section(page, title):
        if not line.startswith("|"):
            wanted = False
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if wanted and not cells[0].startswith("---"):
            rows.append(cells)
        wanted = wanted or cells[0] == first_column
    return rows


def field_table(page: str, title: str) -> list[FieldRow]:
    """The layout in a section: where each field lies."""
    return [
        FieldRow(int(at), int(size), kind, name)
        for at, size, kind, name, *_ in table(page, title, first_column="at")
    ]


def code_block(page: str, title: str) -> str:
    """The first fenced block of a section."""
    lines = _section(page, title)
    begin = lines.index("```") + 1
    return "\n".join(lines[begin : lines.index("```", begin)])
