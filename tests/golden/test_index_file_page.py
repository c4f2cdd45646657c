"""The page of the index file says what the code does: every field at its place, and the example's bytes."""

import pytest

from mqstore.index.index_file import index_file_format as index_file
from mqstore.index.index_file.index_file_format import IndexEntry, IndexHeader
from support.golden.format_page import field_table, table

PAGE = "index_file.md"


@pytest.mark.parametrize(
    ("title", "values", "data"),
    [
        ("Header", IndexHeader(1, 2, 3, 4, 5, 6), index_file.encode_header(IndexHeader(1, 2, 3, 4, 5, 6))),
        ("Entry", IndexEntry(1, 2, 3, 4), index_file.encode_entry(IndexEntry(1, 2, 3, 4))),
    ],
)
def test_every_field_lies_where_the_page_says(
    title: str, values: IndexHeader | IndexEntry, data: bytes
) -> None:
    """Names, places and sizes of the page's table are those of the encoder, and leave no gap."""
    rows = field_table(PAGE, title)
    assert [row.name for row in rows] == list(values._fields)
    for row in rows:
        assert data[row.at : row.at + row.size] == getattr(values, row.name).to_bytes(row.size, "big")
    assert sum(row.size for row in rows) == len(data)


def test_the_example_of_the_page() -> None:
    """Places and bytes of the worked example."""
    found = {
        what: (int(at), bytes.fromhex(data.strip("`")))
        for what, at, data in table(PAGE, "Example", first_column="what")
    }
    unique_key, order = (
        index_file.key_hash("TopicTest", key) for key in ("0A00000112345678ABCD000000010001", "order-1")
    )
    stored_ms = 1726740000123
    assert found == {
        "header": (0, index_file.encode_header(IndexHeader(stored_ms, stored_ms, 0, 0, 2, 3))),
        "slot of the UNIQ_KEY": (
            index_file.slot_position(index_file.slot_of(unique_key)),
            index_file.encode_slot(1),
        ),
        "slot of order-1": (index_file.slot_position(index_file.slot_of(order)), index_file.encode_slot(2)),
        "entry 1": (index_file.entry_position(1), index_file.encode_entry(IndexEntry(unique_key, 0, 0, 0))),
        "entry 2": (index_file.entry_position(2), index_file.encode_entry(IndexEntry(order, 0, 0, 0))),
    }
