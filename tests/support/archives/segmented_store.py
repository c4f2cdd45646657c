"""A store with several sealed segments of 128 KiB, for archives."""

from pathlib import Path

from mqstore import Message, MessageStore
from support.stores.small_log import SEGMENT_BYTES, small_config
from support.stores.small_store import messages_of

__all__ = ["SEGMENT_BYTES", "archived_bodies", "fill", "open_store"]

TOPICS = ("orders", "payments")
_BODY = b"0123456789" * 500


def open_store(path: Path, *, read_only: bool = False) -> MessageStore:
    """Opened without services."""
    return MessageStore.open(path, small_config(), read_only=read_only, start=False)


def fill(store: MessageStore, segments: int, *, mark: bytes = b"") -> None:
    """Put until so many segments more are sealed and durable."""
    wanted = (store.max_offset // SEGMENT_BYTES + segments) * SEGMENT_BYTES
    number = 0
    while store.max_offset <= wanted:
        topic = TOPICS[number % len(TOPICS)]
        store.put_message(Message(topic, mark + b"%d " % number + _BODY, keys=(f"k{number}",), queue_id=0))
        number += 1
    store.flush()


def archived_bodies(store: MessageStore, end_offset: int) -> dict[str, list[bytes]]:
    """What the queues have of the log before `end_offset`."""
    return {
        topic: [each.body for each in messages_of(store, topic) if each.physical_offset < end_offset]
        for topic in TOPICS
    }
