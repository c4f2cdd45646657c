"""Which dead letters are meant: bounds and marks, all of which must hold.

A value and a pure function: any thread, no I/O. Reading the queues is dead_letters.py.
"""

import msgspec

from mqstore.client.dead_letters.dead_letter import DeadLetter

__all__ = ["EVERY_DEAD_LETTER", "DeadLetterFilter"]


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What is left at its default excludes nothing.

    queue_id: of the dead-letter topic, which has one queue unless somebody gave it more.
    begin_offset, end_offset: queue offsets, the last not included.
    begin_ms, end_ms: bounds of the time at which they died, epoch ms, both included.
    original_topic, tag, key, origin_message_id: as the message has them.
    """

    queue_id: int | None = None
    begin_offset: int = 0
    end_offset: int | None = None
    begin_ms: int = 0
    end_ms: int | None = None
    original_topic: str | None = None
    tag: str | None = None
    key: str | None = None
    origin_message_id: str | None = None

    def accepts(self, letter: DeadLetter) -> bool:
        """Whether the letter is meant; offsets and queue are the reader's part."""
        return (
            self.begin_ms <= letter.store_timestamp
            and (self.end_ms is None or letter.store_timestamp <= self.end_ms)
            and self.original_topic in (None, letter.original_topic)
            and self.tag in (None, letter.message.tags)
            and (self.key is None or self.key in letter.message.keys)
            and self.origin_message_id in (None, letter.origin_message_id)
        )


EVERY_DEAD_LETTER = DeadLetterFilter()
