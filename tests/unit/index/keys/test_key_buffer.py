"""The key buffer and its kernel: every key of every record, however the rows run out.

The kernel is compared with its plain twin (tests/support/stores/key_log.py), which decodes each message.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqstore.index.keys import key_kernels
from mqstore.index.keys.key_buffer import KeyBuffer
from mqstore.index.keys.key_index_format import KeyIndexState
from mqstore.store.record.sys_flag import TRANSACTION_MASK
from support.stores.key_log import SEGMENT_BYTES, KeyLog, plain_key_rows

WORDS = st.text(
    st.characters(exclude_characters="\x01\x02 ", exclude_categories=["Cs"]), min_size=1, max_size=8
)


def listed(buffer: KeyBuffer) -> list[tuple[int, int, int]]:
    return [(int(a), int(b), int(c)) for run in buffer.runs() for a, b, c in run.rows]


def take_all(buffer: KeyBuffer, key_log: KeyLog) -> int:
    offset = 0
    while (chunk := key_log.log.chunk(offset, SEGMENT_BYTES)) is not None:
        offset += buffer.take(chunk)
    return offset


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["T", "orders", "%RETRY%g", "%RETRY%" + "g" * 121]),
            st.lists(WORDS, max_size=4),
            st.one_of(st.none(), WORDS),
            st.integers(0, 3),
            st.integers(-1_000, 1_000),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_the_kernel_makes_the_rows_of_its_plain_twin(
    puts: list[tuple[str, list[str], str | None, int, int]],
) -> None:
    """Hash, store time and offset of each key, in order; V1 and V2 records, all transaction types."""
    key_log, offsets = KeyLog(), []
    for topic, keys, unique, transaction, step_ms in puts:
        key_log.clock.advance(step_ms)
        sys_flag = transaction << 2 & TRANSACTION_MASK
        offsets.append(key_log.put("  ".join(keys), topic=topic, unique=unique, sys_flag=sys_flag))
    chunk = key_log.log.chunk(0, SEGMENT_BYTES)
    assert chunk is not None
    rows = np.empty((1 << 15, 3), np.int64)
    consumed, count, last_at, last_time, ending = key_kernels.key_entries(chunk.data, 0, rows, 5)
    assert (consumed, ending) == (key_log.log.max_offset, key_kernels.ENDING_NO_RECORD)
    assert (last_at, last_time) == (offsets[-1], key_log.clock.now_ms())
    assert [tuple(row) for row in rows[5:count].tolist()] == plain_key_rows(key_log.log, offsets)


@pytest.mark.parametrize("room", [1, 16_384, 20_000])
def test_no_key_is_missed_when_the_rows_run_out(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """The kernel stops before a record whose keys might not fit, and goes on with empty rows."""
    key_log = KeyLog()
    offsets = [key_log.put("x " * 16_000)]
    offsets += [key_log.put([f"k{number}-{word}" for word in range(500)]) for number in range(60)]
    offsets += [key_log.put(" ".join("abcdefgh"[word % 8] for word in range(16_000)))]
    buffer = KeyBuffer(KeyIndexState(0))
    buffer._rows = np.empty((max(room, 16_384), 3), np.int64)
    assert take_all(buffer, key_log) == key_log.log.max_offset
    assert sorted(listed(buffer)) == sorted(set(plain_key_rows(key_log.log, offsets)))


def test_the_kernel_stops_without_room() -> None:
    """It writes nothing beyond the rows that it was given."""
    key_log = KeyLog()
    key_log.put("a b c")
    chunk = key_log.log.chunk(0, SEGMENT_BYTES)
    assert chunk is not None
    rows = np.full((4, 3), 9, np.int64)
    assert key_kernels.key_entries(chunk.data, 0, rows, 3) == (0, 3, -1, -1, key_kernels.ENDING_NO_ROOM)
    assert (rows == 9).all()


def test_a_blank_ends_the_segment() -> None:
    """The bytes used up reach to the segment's end; the last record before it is told."""
    key_log = KeyLog()
    offsets = []
    while key_log.log.max_offset <= SEGMENT_BYTES:
        offsets.append(key_log.put("k"))
    chunk = key_log.log.chunk(0, 10 * SEGMENT_BYTES)
    assert chunk is not None
    buffer = KeyBuffer(KeyIndexState(0))
    assert buffer.take(chunk) == SEGMENT_BYTES == offsets[-1]
    assert buffer.state == KeyIndexState(SEGMENT_BYTES, offsets[-2], key_log.clock.now_ms())


def test_rows_below_an_offset_are_left_out() -> None:
    """So that a chunk that comes again adds nothing."""
    key_log = KeyLog()
    offsets = [key_log.put(f"k{number}") for number in range(10)]
    chunk = key_log.log.chunk(0, SEGMENT_BYTES)
    assert chunk is not None
    buffer = KeyBuffer(KeyIndexState(offsets[4]))
    for _ in range(2):
        assert buffer.take(chunk) == key_log.log.max_offset
    assert sorted(listed(buffer)) == sorted(plain_key_rows(key_log.log, offsets[4:]))
    buffer.keep_between(offsets[5], offsets[7], KeyIndexState(offsets[7]))
    assert sorted(listed(buffer)) == sorted(plain_key_rows(key_log.log, offsets[5:7]))
    assert repr(buffer) == "KeyBuffer(entries=2)"
    buffer.clear()
    assert (buffer.entry_count, buffer.runs()) == (0, ())
