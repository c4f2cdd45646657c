"""The compiled walk against its plain twin, on whole, odd and broken logs.

Method: hypothesis builds segments out of records (both versions, both kinds of host, half and rollback
messages, properties that are no pairs, duplicate names, tags in any UTF-8), then damages some; kernel and
twin (tests/support/twins/index_kernels.py) must agree in every output. hypothesis prints what replays a
failure.
"""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqstore.index.pull import pull_kernels as search_kernels
from mqstore.index.queue import entry_kernels
from mqstore.store.record.java_hash import string_hash
from support.twins import index_kernels as plain
from support.twins.plain_records import BLANK, V1, V2, host_bytes, record

# The second holds from the middle of most logs on.
TABLES = [[0, 1_000, 5_000, -1, 30_000], [600, 2_000, 0, 9_000, -1]]
IPV6 = host_bytes("2001:db8::1", 7)
IPV4 = host_bytes("10.0.0.1", 7)
Replayed = list[tuple[bytes, int, int, bytes]]

pieces = st.sampled_from(
    [b"TAGS", b"DELAY", b"KEYS", b"TAG", b"\x01", b"\x02", b"3", b"+2", b"-1", b"99", b"a", b"\xff"]
)
properties = st.one_of(
    st.just(b"TAGS\x01TagA\x02"),
    st.lists(pieces, max_size=12).map(b"".join),
    st.text(max_size=6).map(lambda tags: b"A\x01b\x02TAGS\x01" + tags.encode(errors="replace")),
)
topics = st.sampled_from(["orders", "order", "SCHEDULE_TOPIC_XXXX", "t" * 127, "billing"])
fields = st.fixed_dictionaries(
    {
        "topic": topics,
        "queue_id": st.integers(0, 3),
        "queue_offset": st.integers(0, 3),
        "properties": properties,
        "body": st.binary(max_size=30),
        "sys_flag": st.sampled_from([0, 1, 0x4, 0x8, 0xC]),
        "store_timestamp": st.integers(0, 2**44),
        "born_host": st.sampled_from([IPV4, IPV6]),
        "store_host": st.sampled_from([IPV4, IPV6]),
        "magic": st.sampled_from([V1, V2]),
    }
)
endings = st.sampled_from([b"", bytes(200), struct.pack(">II", 1000, BLANK), b"garbage garbage"])


def as_array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def replay(data: bytes, base_offset: int = 0) -> tuple[Replayed, int, bool, int]:
    """The kernel's output with each entry beside the queue and the offset that its run gives it."""
    entries, runs, consumed, at_blank, timestamp = entry_kernels.consume_queue_entries(
        as_array(data), base_offset, np.array(TABLES)
    )
    packed = entries.tobytes()
    replayed: Replayed = []
    for first, count, queue_offset, topic_at, topic_length, queue_id in runs.tolist():
        assert first == len(replayed)
        topic = data[topic_at : topic_at + topic_length]
        for index in range(count):
            entry = packed[(first + index) * 20 : (first + index + 1) * 20]
            replayed.append((topic, queue_id, queue_offset + index, entry))
    assert len(packed) == 20 * len(replayed)
    return replayed, consumed, bool(at_blank), timestamp


def expected(data: bytes, base_offset: int = 0) -> tuple[Replayed, int, bool, int]:
    walked = plain.consume_queue_entries(data, base_offset, TABLES)
    queues = list(dict.fromkeys((entry.topic, entry.queue_id) for entry in walked.entries))
    grouped = sorted(walked.entries, key=lambda entry: queues.index((entry.topic, entry.queue_id)))
    return [tuple(entry) for entry in grouped], walked.consumed, walked.at_blank, walked.last_store_timestamp


def build(rows: list[dict[str, object]], base_offset: int, ending: bytes = b"") -> bytes:
    data = b""
    for row in rows:
        data += record(base_offset + len(data), **row)  # type: ignore[arg-type]
    return data + ending


@pytest.mark.slow
@given(st.lists(fields, max_size=30), endings, st.sampled_from([0, 2**40]))
@settings(deadline=None)
def test_the_kernel_is_its_twin_on_whole_logs(
    rows: list[dict[str, object]], ending: bytes, base_offset: int
) -> None:
    """Entries, their queues and offsets, where the walk ends and why, and the last store time."""
    data = build(rows, base_offset, ending)
    assert replay(data, base_offset) == expected(data, base_offset)


@pytest.mark.slow
@given(st.lists(fields, min_size=1, max_size=4), st.data())
@settings(deadline=None)
def test_the_kernel_is_its_twin_on_damaged_logs(rows: list[dict[str, object]], data: st.DataObject) -> None:
    """Any bytes changed, any cut: the same answer, and no read outside the array."""
    damaged = bytearray(build(rows, 0, b"\x00" * 8))
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    assert replay(bytes(damaged[:cut])) == expected(bytes(damaged[:cut]))


@pytest.mark.parametrize("queues", [1, 15, 16, 17, 200])
def test_any_number_of_queues_is_told_apart(queues: int) -> None:
    """The table of queues grows; each queue of the chunk gets one run with its own entries."""
    rows = [{"topic": f"topic-{at % queues}", "queue_offset": at // queues} for at in range(3 * queues)]
    data = build(rows, 0)  # type: ignore[arg-type]
    assert replay(data) == expected(data)
    assert len(entry_kernels.consume_queue_entries(as_array(data), 0, np.array(TABLES))[1]) == queues


def test_a_jump_in_queue_offsets_begins_a_run() -> None:
    """Offsets 0 1 5 6 6 are three runs, each consecutive."""
    rows = [{"queue_offset": offset} for offset in (0, 1, 5, 6, 6)]
    runs = entry_kernels.consume_queue_entries(as_array(build(rows, 0)), 0, np.array(TABLES))[1]  # type: ignore[arg-type]
    assert runs[:, :3].tolist() == [[0, 2, 0], [2, 2, 5], [4, 1, 6]]


@pytest.mark.parametrize(
    ("delay", "code"),
    [
        (b"1", 101_000),
        (b"4", 130_000),
        (b"99", 130_000),
        (b"3", 101_000),
        (b"0", string_hash("x")),
        (b"-1", string_hash("x")),
        (b"two", string_hash("x")),
    ],
)
def test_the_schedule_topic_has_deliver_times(delay: bytes, code: int) -> None:
    """Store time plus delay; the highest level for a greater one; one second for a level without delay."""
    stored = b"DELAY\x01" + delay + b"\x02TAGS\x01x\x02"
    row = record(0, topic="SCHEDULE_TOPIC_XXXX", properties=stored, store_timestamp=100_000)
    assert struct.unpack(">q", replay(row)[0][0][3][12:])[0] == code


@pytest.mark.slow
@given(
    st.lists(fields, min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 7), st.integers(-2, 2), st.integers(-2, 2)), max_size=8),
    st.sampled_from([0, 2**40]),
    st.integers(0, 200),
    st.integers(0, 9),
    st.integers(0, 900),
)
@settings(deadline=None)
def test_records_are_located_as_the_twin_does(
    rows: list[dict[str, object]],
    asked: list[tuple[int, int, int]],
    start_offset: int,
    cut_bytes: int,
    max_count: int,
    max_bytes: int,
) -> None:
    """Entries in any order, some of them shifted, longer or shorter, or of records that are not all there."""
    data = build(rows, start_offset)
    walked = [entry.entry for entry in plain.consume_queue_entries(data, start_offset, TABLES).entries]
    entries = b""
    for index, shift, longer in asked or [(index, 0, 0) for index in range(len(walked))]:
        if walked:
            offset, size, code = struct.unpack(">qiq", walked[index % len(walked)])
            entries += struct.pack(">qiq", max(offset + shift, 0), size + longer, code)
    end = max(len(data) - cut_bytes, 0)
    places = np.full((4, max_count), -1)
    count, taken_bytes = search_kernels.locate_records(
        as_array(entries), as_array(data), start_offset, end, max_bytes, places
    )
    located = plain.locate_records(entries, data, start_offset, end, max_count, max_bytes)
    assert ([tuple(column) for column in places[:, :count].T.tolist()], taken_bytes) == located


@pytest.mark.parametrize("physical_offset", [2**63 - 4, 2**63 - 200, -(2**63), -(2**63) + 50])
@pytest.mark.parametrize("size", [-1, 0, 91, 2**31 - 1])
def test_an_entry_with_any_numbers_locates_nothing(physical_offset: int, size: int) -> None:
    """Offset and size together may exceed 63 bits: nothing is read outside the segment."""
    entries = as_array(struct.pack(">qiq", physical_offset, size, 0))
    places = np.full((4, 1), -1)
    for start_offset in (0, 2**31):
        data = as_array(bytes(1_000))
        assert search_kernels.locate_records(entries, data, start_offset, 1_000, 2**40, places) == (0, 0)
