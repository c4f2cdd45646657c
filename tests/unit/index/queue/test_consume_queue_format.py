"""The entry's bytes: the spec's samples, and the agreement of struct, dtype and page.

Method: fixed samples, written out in hex; the page's table itself is held against FIELDS by
tests/architecture/test_documented_formats.py.
"""

import numpy as np

from mqstore.index.queue.consume_queue_format import (
    BLANK_SIZE,
    ENTRY,
    ENTRY_BYTES,
    ENTRY_DTYPE,
    FIELDS,
    PRE_BLANK_ENTRY,
    blank_entries,
)
from support.golden.format_page import code_block

SAMPLE_A = bytes.fromhex("0000000000000000 00000089 000000000027a807")


def test_the_spec_sample() -> None:
    """Record A of the commit log (137 bytes at offset 0, tag TagA) has the entry that the spec shows."""
    assert ENTRY.pack(0, 137, 2598919) == SAMPLE_A


def test_negative_hashes_are_sign_extended() -> None:
    """A tags code of -1 is eight bytes of ff."""
    assert ENTRY.pack(0, 1, -1)[12:] == b"\xff" * 8


def test_the_array_view_reads_what_the_struct_writes() -> None:
    """ENTRY_DTYPE and ENTRY are two readings of the same bytes, field by field."""
    rows = [(2**40 + 7, 137, -5), (0, BLANK_SIZE, 0), (1, 91, 1_726_740_010_123)]
    table = np.frombuffer(b"".join(ENTRY.pack(*row) for row in rows), ENTRY_DTYPE)
    assert [tuple(row) for row in table.tolist()] == rows
    assert [(ENTRY_DTYPE.fields or {})[name][1] for name in ENTRY_DTYPE.names or ()] == [
        at for at, *_ in FIELDS
    ]


def test_pre_blank_entries() -> None:
    """RocketMQ's filler in front of a queue that begins above 0; between messages it carries an offset."""
    assert PRE_BLANK_ENTRY.hex(" ", 4) == "00000000 00000000 7fffffff 00000000 00000000"
    assert blank_entries(3) == PRE_BLANK_ENTRY * 3
    assert ENTRY.unpack(blank_entries(1, 500)) == (500, BLANK_SIZE, 0)


def test_the_example_of_the_page() -> None:
    """The worked example is a pre-blank entry and the spec's sample."""
    block = code_block("consume_queue.md", "Example")
    assert bytes.fromhex(block) == PRE_BLANK_ENTRY + SAMPLE_A
    assert len(SAMPLE_A) == ENTRY_BYTES
