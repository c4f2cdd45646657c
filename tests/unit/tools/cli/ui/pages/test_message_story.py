"""The story of a message: its first record, failures, waits and death, from any of its records."""

from pathlib import Path

from mqstore.message_store import MessageStore
from mqstore.store.message.message import Message
from mqstore.tools.cli.ui.pages.message_story import story_of
from support.manual_clock import ManualClock


def test_a_story_is_told_whole_from_each_of_its_records(tmp_path: Path) -> None:
    """Put, failed once, delivered again, failed for good: five records, and each of them tells all five."""
    clock = ManualClock()
    with MessageStore.open(tmp_path / "store", clock=clock, start=False) as store:
        put = store.put_message(Message("orders", b"first", keys=("o-1",), queue_id=0))
        store.put_message(Message("orders", b"another", keys=("o-1",), queue_id=0))
        store.consumer_send_msg_back("billing", put.physical_offset, delay_level=1)
        clock.advance(2_000)
        assert store.deliver_due() == 1
        retry = store.get_message("x", "%RETRY%billing", 0, 0).messages[0]
        store.consumer_send_msg_back("billing", retry.physical_offset, delay_level=-1)
        store.flush()
        told = story_of(store, retry)
        assert [chapter.what for chapter in told] == [
            "stored",
            "attempt 1 of group billing failed; waits for the next",
            "delivered again to group billing",
            "dead letter of group billing after 2 failures",
        ]
        assert [chapter.is_this for chapter in told] == [False, False, True, False]
        for chapter in told:
            message = store.look_message_by_offset(chapter.physical_offset)
            assert message is not None
            offsets = [each.physical_offset for each in story_of(store, message)]
            assert offsets == [each.physical_offset for each in told]


def test_without_keys_the_properties_lead_back(tmp_path: Path) -> None:
    """A copy names its first record; the first one cannot name its copies."""
    with MessageStore.open(tmp_path / "store", start=False) as store:
        put = store.put_message(Message("orders", b"first", queue_id=0))
        store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)
        dead = store.get_message("x", "%DLQ%billing", 0, 0).messages[0]
        assert [chapter.topic for chapter in story_of(store, dead)] == ["orders", "%DLQ%billing"]


def test_an_id_that_is_none_is_no_origin(tmp_path: Path) -> None:
    """A property that a stranger wrote leads nowhere, and to no other message."""
    with MessageStore.open(tmp_path / "store", start=False) as store:
        store.put_message(Message("orders", b"other", queue_id=0))
        for origin in ("nonsense", "00" * 16, "FF" * 16):
            properties = {"ORIGIN_MESSAGE_ID": origin, "RETRY_TOPIC": "elsewhere"}
            put = store.put_message(Message("orders", b"x", properties=properties, queue_id=0))
            message = store.look_message_by_offset(put.physical_offset)
            assert message is not None
            (chapter,) = story_of(store, message)
            assert chapter.is_this
