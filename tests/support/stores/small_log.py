"""A commit log with segments of 128 KiB, and the encoder that belongs to it: ground of the store tests."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mqstore.store.bulk.record_block import RecordBlock
from mqstore.store.config import StoreConfig
from mqstore.store.files.file_system import FileSystem
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.message.message import Message
from mqstore.store.message.message_encoder import EncodedMessage, MessageEncoder
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.record.record_template import encode_from
from mqstore.store.status import PutMessageStatus
from support.manual_clock import ManualClock

__all__ = ["SEGMENT_BYTES", "WINDOW_BYTES", "SmallLog", "small_config"]

SEGMENT_BYTES = 131_072
WINDOW_BYTES = 65_536


def small_config(**settings: Any) -> StoreConfig:
    """Segments of 128 KiB, bodies up to 60,000 bytes, consume-queue files of 100 entries."""
    small: dict[str, Any] = {
        "mapped_file_size_commit_log": SEGMENT_BYTES,
        "max_message_size": 60_000,
        "mapped_file_size_consume_queue": 2_000,
        "reserve_window_commit_log": WINDOW_BYTES,
        "reserve_window_consume_queue": 4_096,
    }
    return StoreConfig(**(small | settings))


class SmallLog:
    """A log in `directory`, empty or with what is there, its end at `end_offset`."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: Path,
        *,
        clock: ManualClock | None = None,
        read_only: bool = False,
        first_queue_offset: Callable[[str, int], int] = lambda topic, queue_id: 0,
        **settings: Any,
    ) -> None:
        self.clock = clock or ManualClock()
        self.config = small_config(**settings)
        self.log = CommitLog(
            file_system,
            directory,
            self.config,
            self.clock,
            read_only=read_only,
            first_queue_offset=first_queue_offset,
        )
        self.log.load()
        self._encoder = MessageEncoder(self.config)

    def append(self, body: bytes = b"body", topic: str = "orders", **fields: Any) -> PutMessageResult:
        """Append one message."""
        return self.log.append(self._encoder.encode(Message(topic, body, **fields)))

    def append_all(self, *bodies: bytes, topic: str = "orders", **fields: Any) -> list[PutMessageResult]:
        """Append messages under one lock."""
        return self.log.append_all([self._encoder.encode(Message(topic, body, **fields)) for body in bodies])

    def append_block(self, *bodies: bytes, topic: str = "orders", **fields: Any) -> list[PutMessageResult]:
        """As `append_all`, in one block."""
        encoded = [self._encoder.encode(Message(topic, body, **fields)) for body in bodies]
        block = block_of(encoded)
        places = self.log.append_block(block)
        assert not bodies or places.end_offset == self.log.max_offset
        return [
            PutMessageResult(
                PutMessageStatus.PUT_OK,
                message.topic,
                message.queue_id,
                queue_offset,
                physical_offset,
                message.size_bytes,
                places.store_timestamp,
                self.log.flushed_offset,
                self.config.store_host.encode(),
            )
            for message, queue_offset, physical_offset in zip(
                encoded, places.queue_offsets.tolist(), places.physical_offsets.tolist(), strict=True
            )
        ]

    def overhead_bytes(self, topic: str = "orders", **fields: Any) -> int:
        """What a record takes beyond its body."""
        return self._encoder.encode(Message(topic, b"", **fields)).size_bytes

    def fill_to(self, room_bytes: int) -> None:
        """Append until exactly `room_bytes` of the current segment are left."""
        while (room := self.room_bytes) > room_bytes:
            wanted = room - room_bytes
            size = wanted if wanted <= 40_000 else min(40_000, wanted - 20_000)
            self.append(bytes(size - self.overhead_bytes()))
        assert self.room_bytes == room_bytes

    @property
    def room_bytes(self) -> int:
        """What is left of the current segment."""
        return SEGMENT_BYTES - self.log.max_offset % SEGMENT_BYTES

    def bodies(self) -> list[bytes]:
        """The bodies of all records, walked from the beginning as a reader would."""
        bodies, offset = [], self.log.min_offset
        while offset < self.log.max_offset:
            message = self.log.look_message_by_offset(offset)
            if message is None:
                offset += SEGMENT_BYTES - offset % SEGMENT_BYTES
            else:
                bodies.append(message.body)
                offset += message.store_size
        return bodies


def block_of(messages: Sequence[EncodedMessage]) -> RecordBlock:
    """The records of messages that were encoded one by one."""
    records = [
        encode_from(
            message.template,
            message.ending,
            message.size_bytes,
            message.queue_id,
            message.body,
            message.body_crc,
            0,
            0,
            message.born_timestamp or 0,
            0,
        )
        for message in messages
    ]
    numbers: dict[tuple[str, int], int] = {}
    groups = [numbers.setdefault((message.topic, message.queue_id), len(numbers)) for message in messages]
    marks = bytearray(
        [message.template.has_crc | (message.born_timestamp is None) << 1 for message in messages]
    )
    starts = np.zeros(len(records) + 1, np.int64)
    np.cumsum(np.array([len(record) for record in records], np.int64), out=starts[1:])
    return RecordBlock(
        np.frombuffer(bytearray().join(records), np.uint8),
        starts,
        np.frombuffer(marks, np.uint8),
        list(numbers),
        np.array(groups, np.int32),
    )
