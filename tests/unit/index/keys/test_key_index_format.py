"""The bytes of the key index: the page's example, both ways, and what is refused.

The page docs/format/key_index.md is read, so that neither it nor the code can change alone.
"""

import numpy as np
import pytest

from mqstore.index.keys.key_index import key_hash
from mqstore.index.keys.key_index_format import (
    ENTRY_BYTES,
    RUN_HEADER_BYTES,
    KeyIndexState,
    RunHeader,
    decode_entries,
    decode_run_header,
    decode_state,
    encode_run,
    encode_run_key,
    encode_state,
    is_run_key,
    run_key_offset,
)
from mqstore.index.keys.sorted_run import SortedRun
from support.sources import ROOT

STORE_TIMESTAMP = 1_726_740_000_123
STATE = KeyIndexState(137, 0, STORE_TIMESTAMP)
UNIQUE_KEY = "0A00000112345678ABCD000000010001"


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs/format/key_index.md").read_text("utf-8")


def test_the_example_of_the_page(page: str) -> None:
    """State, key and run of one message with two keys."""
    text = page.split("## Example")[1].split("```")[1]
    state, run_key, run = [bytes.fromhex(part) for part in text.strip().split("\n\n")]
    rows = [[key_hash("TopicTest", key), STORE_TIMESTAMP, 0] for key in (UNIQUE_KEY, "order-1")]
    assert encode_state(STATE) == state
    assert decode_state(state) == STATE
    assert encode_run_key(0) == run_key
    assert SortedRun.of_rows(np.array(rows, np.int64)).encode() == run
    assert sorted(decode_entries(run).tolist()) == sorted(rows)


def test_the_tables_of_the_page_add_up(page: str) -> None:
    """Each field begins where the one before it ends, up to the length of the whole."""
    rows = [
        [cell.strip() for cell in line.split("|")[1:3]] for line in page.splitlines() if line.startswith("| ")
    ]
    places = [(int(at.removesuffix(" + 24 n")), int(size)) for at, size in rows if at[:1].isdigit()]
    ends = [at + size for at, size in places]
    assert [at for at, _ in places] == [0, *ends[:4], 0, *ends[5:-1]]
    assert (ends[4], ends[7], ends[-1]) == (32, RUN_HEADER_BYTES, RUN_HEADER_BYTES + ENTRY_BYTES)


@pytest.mark.parametrize(
    "value", [b"", b"MQKI", bytes(32), b"MQKI\x00\x00\x00\x02" + bytes(24), encode_state(STATE) + b"\x00"]
)
def test_another_state_is_none(value: bytes) -> None:
    """Another magic, version or length: the index is built anew."""
    assert decode_state(value) is None


def test_run_keys_sort_as_the_log_does() -> None:
    """LMDB compares bytes; the state comes before all runs."""
    offsets = [0, 1, 255, 256, 2**40, 2**63 - 1]
    keys = [encode_run_key(offset) for offset in offsets]
    assert keys == sorted(keys)
    assert [run_key_offset(key) for key in keys] == offsets
    assert all(map(is_run_key, keys))
    assert not is_run_key(b"\x00")


def test_a_run_is_read_as_it_was_written() -> None:
    """Negative hashes and offsets beyond 32 bits included; the entries are lent, not copied."""
    rows = np.array([[-(2**63), 1, 2**40], [2**63 - 1, -5, 7]], np.int64)
    header = RunHeader(2**40, -5, 1)
    value = encode_run(header, rows)
    assert decode_run_header(value) == header
    assert np.array_equal(decode_entries(value), rows)
    assert decode_entries(value).base is not None


def test_state_without_a_new_record_keeps_its_anchor() -> None:
    """A BLANK moves the progress alone."""
    assert STATE.advanced(200, -1, -1) == KeyIndexState(200, 0, STORE_TIMESTAMP)
    assert STATE.advanced(300, 200, 5) == KeyIndexState(300, 200, 5)
