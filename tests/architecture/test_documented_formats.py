"""The format pages and the format modules say the same.

Goal: neither docs/format/*.md nor a *_format.py can be changed alone. Method: the first table of a page whose
heading is `at | size | type | name | meaning` is read; its rows with a number under `at` and under `size` are
compared with `FIELDS` of the module: (position, size in bytes, type, name), in order. Rows of parts that have
no fixed place (a body, a topic) are left to the page.
"""

import importlib
from collections.abc import Sequence

import pytest

from support.sources import ROOT, package_sources

Field = tuple[int, int, str, str]

FORMATS = {
    "commit_log.md": "mqstore.store.record.record_format",
    "consume_queue.md": "mqstore.index.queue.consume_queue_format",
    "checkpoint.md": "mqstore.store.state.checkpoint_format",
    "recovery_point.md": "mqstore.store.state.recovery_point_format",
    "settings.md": "mqstore.settings.directory_settings_format",
    "queue_names.md": "mqstore.index.queue.queue_manifest_format",
}

HEADING = ["at", "size", "type", "name", "meaning"]


def cells_of(line: str) -> list[str]:
    """The cells of a Markdown table's row, without the back quotes; none for any other line."""
    line = line.strip()
    return [cell.strip().strip("`") for cell in line.strip("|").split("|")] if line.startswith("|") else []


def fields_of_page(text: str) -> list[Field]:
    """The fixed fields of the page's first format table. Raises ValueError when the page has none."""
    rows = [cells_of(line) for line in text.splitlines()]
    start = rows.index(HEADING) + 2  # the row below the heading is the ruler
    fields: list[Field] = []
    for row in rows[start:]:
        if not row:
            break
        if len(row) != len(HEADING):
            raise ValueError(f"a row of {len(row)} cells under a heading of {len(HEADING)}: {row}")
        at, size, kind, name, _ = row
        if at.isdigit() and size.isdigit():
            fields.append((int(at), int(size), kind, name))
    return fields


def differences(page: Sequence[Field], module: Sequence[Field]) -> list[str]:
    """One line for each field that the two do not have alike."""
    found = [f"only on the page:   {field}" for field in page if field not in module]
    found += [f"only in the module: {field}" for field in module if field not in page]
    return found or ([] if list(page) == list(module) else ["the same fields, in another order"])


@pytest.mark.parametrize(("page", "module"), FORMATS.items(), ids=FORMATS)
def test_the_page_and_the_module_agree(page: str, module: str) -> None:
    """Position, size, type and name of every fixed field are the same in both."""
    fields = fields_of_page((ROOT / "docs" / "format" / page).read_text("utf-8"))
    assert fields, f"docs/format/{page} has a table without fixed fields"
    assert not (found := differences(fields, importlib.import_module(module).FIELDS)), "\n".join(
        [page, *found]
    )


@pytest.mark.parametrize("module", FORMATS.values())
def test_the_fields_lie_end_to_end(module: str) -> None:
    """Each field begins where the one before it ends, and its name is there once."""
    fields = importlib.import_module(module).FIELDS
    ends = [at + size for at, size, *_ in fields]
    assert [at for at, *_ in fields] == [0, *ends[:-1]]
    assert len({name for *_, name in fields}) == len(fields)


def test_every_table_has_its_page() -> None:
    """A format module with FIELDS is compared with a page: a new one is added to FORMATS above."""
    formats = [source for source in package_sources() if source.path.endswith("_format.py")]
    with_fields = {source.module for source in formats if "\nFIELDS = " in source.text}
    assert with_fields == set(FORMATS.values())


PAGE = """
| other | table |
| --- | --- |
| 1 | 2 |

| at | size | type | name | meaning |
| --: | --: | --- | --- | --- |
| 0 | 4 | int | `TOTALSIZE` | whole record |
| 4 | 8 | long | OFFSET | where it lies |
| 12 | n | bytes | BODY | what was sent |

| at | size | type | name | meaning |
"""


def test_the_parser_reads_a_page() -> None:
    """The right table is taken, up to its end, with its fixed rows only."""
    assert fields_of_page(PAGE) == [(0, 4, "int", "TOTALSIZE"), (4, 8, "long", "OFFSET")]


@pytest.mark.parametrize("text", ["no table", PAGE.replace("| whole record |", "|")])
def test_the_parser_objects(text: str) -> None:
    """A page without the table, or with a row that lacks a cell, is an error and not an empty answer."""
    with pytest.raises(ValueError, match=r"not in list|cells"):
        fields_of_page(text)


@pytest.mark.parametrize(
    "changed",
    [
        [(0, 8, "int", "A"), (4, 8, "long", "B")],
        [(0, 4, "int", "A")],
        [(4, 8, "long", "B"), (0, 4, "int", "A")],
        [(0, 4, "int", "A"), (4, 8, "long", "C")],
    ],
)
def test_a_difference_is_seen(changed: list[Field]) -> None:
    """Another size, a missing row, another order, another name: each is told."""
    assert differences([(0, 4, "int", "A"), (4, 8, "long", "B")], changed)
