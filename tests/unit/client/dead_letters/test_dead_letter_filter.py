"""The filter of dead letters: each bound and mark alone excludes what it should, and nothing else."""

from pathlib import Path

import pytest

from mqstore import Message
from mqstore.client.dead_letters.dead_letter_filter import DeadLetterFilter
from mqstore.client.dead_letters.dead_letters import DeadLetters
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.stores.small_store import SmallStore

START_MS = 1_726_740_000_000


@pytest.mark.parametrize(
    ("wanted", "offsets"),
    [
        (DeadLetterFilter(), [0, 1, 2, 3]),
        (DeadLetterFilter(queue_id=0), [0, 1, 2, 3]),
        (DeadLetterFilter(queue_id=1), []),
        (DeadLetterFilter(begin_offset=1, end_offset=3), [1, 2]),
        (DeadLetterFilter(begin_offset=9), []),
        (DeadLetterFilter(begin_ms=START_MS + 1_000), [1, 2, 3]),
        (DeadLetterFilter(end_ms=START_MS + 1_000), [0, 1]),
        (DeadLetterFilter(original_topic="orders"), [0, 2]),
        (DeadLetterFilter(tag="t1"), [1, 3]),
        (DeadLetterFilter(key="k2"), [2]),
        (DeadLetterFilter(original_topic="orders", tag="t1"), []),
        (DeadLetterFilter(origin_message_id="none"), []),
    ],
    ids=str,
)
def test_what_is_accepted(wanted: DeadLetterFilter, offsets: list[int]) -> None:
    """Four letters, a second apart, of two topics in turn."""
    small = SmallStore(MemoryFileSystem(), Path("/store"))
    with small.open() as store:
        for number in range(4):
            topic = ("orders", "bills")[number % 2]
            message = Message(topic, b"x", tags=f"t{number % 2}", keys=(f"k{number}", "all"), queue_id=0)
            store.consumer_send_msg_back("billing", store.put_message(message).physical_offset, -1)
            small.clock.advance(1_000)
        assert [letter.queue_offset for letter in DeadLetters(store, "billing").find(wanted)] == offsets
