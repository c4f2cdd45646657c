"""The deleted topics: which records have no entries, and which runs of entries are left."""

import numpy as np
import pytest

from mqstore.index.queue import entry_kernels
from mqstore.index.queue.consume_queue_format import ENTRY
from mqstore.index.queue.deleted_topics import DeletedTopics
from support.twins.plain_records import record

BASE_OFFSET = 1_000
DELETED = DeletedTopics({"orders": 5_000, "paid": 2_000})


def test_records_before_the_deletion_have_no_entries() -> None:
    """A topic that was never deleted has all of its own."""
    assert [DELETED.end_of(topic) for topic in ("orders", "paid", "other")] == [5_000, 2_000, 0]


def test_a_topic_is_deleted_again() -> None:
    """The later deletion counts; the others stay."""
    again = DELETED.plus("paid", 9_000).plus("new", 9_000)
    assert again.offsets == {"orders": 5_000, "paid": 9_000, "new": 9_000}
    assert DELETED.offsets == {"orders": 5_000, "paid": 2_000}


@pytest.mark.parametrize(
    ("min_offset", "end_offset", "offsets"),
    [
        (0, 9_000, {"orders": 5_000, "paid": 2_000}),
        (2_000, 9_000, {"orders": 5_000}),
        (0, 3_000, {"orders": 3_000, "paid": 2_000}),
        (5_000, 9_000, {}),
    ],
    ids=["all", "one has expired", "the log lost its end", "all have expired"],
)
def test_what_matters_to_a_log(min_offset: int, end_offset: int, offsets: dict[str, int]) -> None:
    """A deletion whose records have expired is forgotten; none is remembered behind the end of the log."""
    assert DELETED.within(min_offset, end_offset) == DeletedTopics(offsets)


def test_most_chunks_are_not_looked_through() -> None:
    """None behind the newest deletion."""
    assert DELETED.concern(4_999)
    assert not DELETED.concern(5_000)
    assert not DeletedTopics({}).concern(0)


def runs_left(deleted: DeletedTopics) -> list[tuple[int, list[int]]]:
    """Of four records of `orders` and one other: queue offset and records of each run that is left."""
    data, places = b"", []
    for topic, queue_offset in (("orders", 7), ("orders", 8), ("other", 0), ("orders", 9), ("orders", 10)):
        places.append(BASE_OFFSET + len(data))
        data += record(BASE_OFFSET + len(data), topic=topic, queue_id=0, queue_offset=queue_offset)
    array = np.frombuffer(data, np.uint8)
    entries, runs, *_ = entry_kernels.consume_queue_entries(array, BASE_OFFSET, np.zeros((1, 1), np.int64))
    return [
        (
            queue_offset,
            [
                places.index(ENTRY.unpack_from(entries, at * ENTRY.size)[0])
                for at in range(index, index + count)
            ],
        )
        for index, count, queue_offset, *_ in deleted.remaining(array, entries, runs).tolist()
    ]


def test_runs_lose_what_was_deleted() -> None:
    """None, the first entries, or all of a run; another topic's run stays as it is."""
    end_of_two = BASE_OFFSET + 2 * len(record(0, topic="orders", queue_id=0, queue_offset=0))
    assert runs_left(DeletedTopics({})) == [(7, [0, 1, 3, 4]), (0, [2])]
    assert runs_left(DeletedTopics({"orders": end_of_two})) == [(9, [3, 4]), (0, [2])]
    assert runs_left(DeletedTopics({"orders": 10**6})) == [(0, [2])]


def test_equal_by_their_offsets() -> None:
    """So that what is kept on disk is written only when it changes."""
    assert DeletedTopics({"a": 1}) == DeletedTopics({"a": 1})
    assert hash(DeletedTopics({"a": 1})) == hash(DeletedTopics({"a": 1}))
    assert DeletedTopics({"a": 1}) != DeletedTopics({"a": 2})
    assert repr(DeletedTopics({"a": 1})) == "DeletedTopics({'a': 1})"
