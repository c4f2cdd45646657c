"""What an entry of the manifest says of a segment is what its records say, however many topics there are.

Method: records by hypothesis, counted in pieces of any size with tables that begin with room for one row,
beside the plain twin.
"""

from collections.abc import Sequence
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.tools.archive.segments import content_kernels, segment_content
from mqstore.tools.archive.segments.segment_content import ContentCounter, SegmentContent
from support.twins.plain_content import PlainRecord, content
from support.twins.plain_records import V1, V2, host_bytes, record

_HALF = 0x4
_PART_BYTES = 500
_SEGMENT_BYTES = 1 << 20

small = st.integers(min_value=-1, max_value=3)
longs = st.one_of(small, st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 2))
ints = st.one_of(small, st.integers(min_value=-(1 << 31), max_value=(1 << 31) - 1))
topics = st.one_of(
    st.sampled_from(["orders", "orders2", "payments", "%RETRY%g", ""]), st.text(min_size=1, max_size=30)
)
hosts = st.sampled_from([host_bytes("10.0.0.1", 7), host_bytes("2001:db8::1", 7)])
layouts = st.tuples(st.sampled_from([V1, V2]), hosts, hosts)
drawn = st.lists(
    st.tuples(topics, ints, longs, longs, st.booleans(), st.binary(max_size=300), layouts), max_size=40
)
Row = tuple[str, int, int, int, bool, bytes, tuple[int, bytes, bytes]]
_PLAIN = (V1, host_bytes("10.0.0.1", 7), host_bytes("10.0.0.1", 7))


def encoded(rows: Sequence[Row]) -> list[tuple[PlainRecord, bytes]]:
    """The records as they stand in a segment that begins at 0, and what the twin is told of each."""
    found, position = [], 0
    for topic, queue_id, queue_offset, timestamp, is_half, body, (magic, born_host, store_host) in rows:
        data = record(
            position,
            topic=topic,
            body=body,
            queue_id=queue_id,
            queue_offset=queue_offset,
            store_timestamp=timestamp,
            sys_flag=_HALF * is_half,
            magic=magic,
            born_host=born_host,
            store_host=store_host,
        )
        found.append((PlainRecord(topic, queue_id, queue_offset, timestamp, is_half, len(data)), data))
        position += len(data)
    return found


def counted(pieces: Sequence[bytes]) -> SegmentContent:
    """What the counter says, whose tables have one row at first."""
    with mock.patch.multiple(
        segment_content, _TOPICS=1, _QUEUES=1, _NAMES_BYTES=1, _PARTS=1 << 20, _LEAST_PART_BYTES=_PART_BYTES
    ):
        counter = ContentCounter(_SEGMENT_BYTES)
        for piece in pieces:
            counter.count(np.frombuffer(piece, np.uint8))
        return counter.content()


@given(drawn, st.integers(min_value=1, max_value=40))
def test_the_counter_says_what_the_twin_does(rows: list[Row], records_a_piece: int) -> None:
    """Topics, queues, times and parts; half messages are in no queue."""
    records = encoded(rows)
    found = counted(
        [
            b"".join(data for _, data in records[first : first + records_a_piece])
            for first in range(0, len(records), records_a_piece)
        ]
    )
    plain_topics, plain_parts = content([plain for plain, _ in records], _PART_BYTES)
    assert {name: (each.messages, each.queues) for name, each in found.topics.items()} == plain_topics
    assert list(found.topics) == sorted(found.topics)
    names = list(found.topics)
    shown = [[*part_but_topics(part), {names[place] for place in part.topics or ()}] for part in found.parts]
    assert shown == plain_parts
    assert found.records == len(records)
    times = [plain.store_timestamp for plain, _ in records]
    assert (found.min_store_timestamp, found.max_store_timestamp) == (
        min(times, default=0),
        max(times, default=0),
    )


def part_but_topics(part: segment_content.ArchivedPart) -> list[int]:
    """The first five values."""
    return [
        part.position,
        part.size_bytes,
        part.records,
        part.min_store_timestamp,
        part.max_store_timestamp,
    ]


def test_parts_do_not_tell_of_too_many_topics() -> None:
    """Up to a number of topics each part names its own; with one more none does."""
    rows = [(f"topic-{n}", 0, 0, 0, False, b"", _PLAIN) for n in range(content_kernels.TOLD_TOPICS + 1)]
    told = counted([data for _, data in encoded(rows[:-1])])
    assert sum(len(part.topics or ()) for part in told.parts) == content_kernels.TOLD_TOPICS
    untold = counted([data for _, data in encoded(rows)])
    assert {part.topics for part in untold.parts} == {None}
    assert len(untold.topics) == content_kernels.TOLD_TOPICS + 1


def test_names_that_are_no_text_are_counted_together() -> None:
    """Two names that are shown alike: one topic, with the messages of both."""
    one, two = (record(0, topic="ab", body=b"x").replace(b"ab", raw) for raw in (b"\xff\xfe", b"\xfe\xff"))
    found = counted([one, two])
    assert {name: each.messages for name, each in found.topics.items()} == {"��": 2}


def test_bytes_that_are_no_record_are_no_endless_loop() -> None:
    """The counter trusts its caller, but not so far that it asks for ever more memory."""
    with pytest.raises(AssertionError, match="no record"):
        counted([record(0, body=b"whole") + b"rest"])
