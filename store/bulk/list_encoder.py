"""From a list of messages of one topic to a block of records, in one compiled pass.

The records are those of message_encoder.py, and of messages with a delay level those of
schedule/delay/delayed_message.py. A list is not taken if anything in it is special (a sys flag, a property
DELAY, a put that does not wait, a second topic) or illegal. Then message_list.py is tried, and after it the
single puts, which say what is wrong.
msgspec packs the list, without the fields that have their defaults, and the loop reads the packed bytes
(message_kernels.py). msgspec packs times, Enums and the like as texts and numbers too, so the types of what
was found are checked here. A batch of a client (sent_batch.py) is packed without msgspec and without objects.
Threads: any; the only state of an encoder is its caches.
"""

import functools
from collections.abc import Callable, Sequence
from itertools import chain
from types import ModuleType
from typing import Any

import msgspec
import numpy as np

from mqstore.store.bulk.buffer_pool import BufferPool
from mqstore.store.bulk.record_block import RecordBlock
from mqstore.store.bulk.sent.sent_batch import SentBatch
from mqstore.store.bulk.text_column import Bytes
from mqstore.store.config import StoreConfig
from mqstore.store.message.message import NO_PROPERTIES, Message
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.record.host import Host
from mqstore.store.record.record_format import CRC_PROPERTY_BYTES, MAGIC_CODE_POSITION, encode_topic
from mqstore.store.record.record_template import header_template
from mqstore.store.record.sys_flag import BORN_HOST_V6, STORE_HOST_V6

__all__ = ["ListEncoder"]

_CACHE_ENTRIES = 16_384
_MESSAGE = {Message}
_NONE = type(None)
_WAITING_TOPIC = np.frombuffer(encode_topic(SCHEDULE_TOPIC)[0], np.uint8)
_pack = msgspec.msgpack.Encoder().encode


@functools.cache
def _kernels() -> ModuleType:
    """The compiled loop. Cached, for an import statement costs a microsecond each time that it is run."""
    from mqstore.store.bulk import message_kernels

    return message_kernels


class ListEncoder:
    """Encodes lists of messages for one store."""

    def __init__(self, config: StoreConfig, max_delay_level: int, buffers: BufferPool) -> None:
        self._max_delay_level = max_delay_level
        self._append_crc = config.enabled_append_prop_crc
        self._max_body_bytes = config.max_message_size
        host = config.store_host.encode()
        sys_flag = BORN_HOST_V6 | STORE_HOST_V6 if config.store_host.is_ipv6 else 0
        self._header = header_template(sys_flag, host, host)
        self._buffers = buffers
        # Of topics; a plain dict whose entries are never wrong.
        self._fronts: dict[str, tuple[Bytes, int]] = {}

    def encode(
        self, messages: Sequence[Message], queues_to_put_to: Callable[[str], int | None]
    ) -> RecordBlock | None:
        """The records of a list that is not empty; None if it has anything special or illegal.

        queues_to_put_to: how many queues of a topic producers may put to; None where more must be checked.
        """
        if isinstance(messages, SentBatch):
            return self._encode_batch(messages, queues_to_put_to(messages.topic))
        if {*map(type, messages)} != _MESSAGE:
            return None
        topics = [message.topic for message in messages]
        tags = [message.tags for message in messages]
        topic, count = topics[0], len(topics)
        if not (type(topic) is str and topics.count(topic) == count and _are_texts(tags)):
            return None
        queue_nums = queues_to_put_to(topic)
        if queue_nums is None:
            return None
        try:
            packed = _pack(messages)
        except (TypeError, ValueError, BufferError, RecursionError, OverflowError, msgspec.MsgspecError):
            return None
        return self._encode_packed(
            messages, np.frombuffer(packed, np.uint8), len(messages), topic, queue_nums
        )

    def _encode_batch(self, batch: SentBatch, queue_nums: int | None) -> RecordBlock | None:
        packed = None if queue_nums is None else batch.packed()
        if packed is None or queue_nums is None:
            return None
        return self._encode_packed(None, *packed, batch.topic, queue_nums)

    def _encode_packed(
        self, messages: Sequence[Message] | None, packed: Bytes, count: int, topic: str, queue_nums: int
    ) -> RecordBlock | None:
        """messages: those whose types are to be checked; None if they were never objects."""
        kernels = _kernels()
        front, topic_bytes = self._fronts.get(topic) or self._add_front(topic)
        row_bytes = len(front) + len(_WAITING_TOPIC) + kernels.ROW_BYTES + CRC_PROPERTY_BYTES
        buffer = self._buffers.take(count * row_bytes + len(packed))
        starts, marks = np.empty(count + 1, np.int64), np.empty(count, np.uint8)
        topics, queue_ids = np.empty((2, count), np.int32)
        found, least, greatest = kernels.encode_messages(
            packed,
            front,
            len(self._header),
            topic_bytes,
            _WAITING_TOPIC,
            self._max_delay_level,
            buffer,
            starts,
            marks,
            topics,
            queue_ids,
            self._max_body_bytes,
            self._append_crc,
        )
        are_typed = messages is None or not found or _are_typed(messages, found)
        if found < 0 or greatest >= queue_nums or not are_typed:
            self._buffers.release(buffer)
            return None
        if least == greatest and not found & kernels.DELAY_LEVELS_FOUND:
            # All that is in `topics` is 0.
            return RecordBlock(buffer, starts, marks, [(topic, least)], topics)
        groups, first_rows = np.empty(count, np.int32), np.empty(count, np.int64)
        rows = first_rows[: kernels.group_rows(topics, queue_ids, groups, first_rows)]
        names = topic, SCHEDULE_TOPIC
        queues = [
            (names[index], queue_id)
            for index, queue_id in zip(topics[rows].tolist(), queue_ids[rows].tolist(), strict=True)
        ]
        return RecordBlock(buffer, starts, marks, queues, groups)

    def _add_front(self, topic: str) -> tuple[Bytes, int]:
        field, magic = encode_topic(topic)
        header = bytearray(self._header)
        header[MAGIC_CODE_POSITION : MAGIC_CODE_POSITION + 4] = magic.to_bytes(4, "big", signed=True)
        if len(self._fronts) >= _CACHE_ENTRIES:
            self._fronts.clear()
        front = np.frombuffer(bytes(header) + field, np.uint8), len(topic.encode())
        self._fronts[topic] = front
        return front

    def __repr__(self) -> str:
        return f"ListEncoder(topics={len(self._fronts)})"


def _are_texts(tags: list[Any]) -> bool:
    """Whether each is a str or None."""
    first = tags[0]
    # Values that equal the first may have another type, but msgspec packs them as the same text.
    return (first is None or type(first) is str) and (
        tags.count(first) == len(tags) or {*map(type, tags)} <= {str, _NONE}
    )


def _are_typed(messages: Sequence[Message], found: int) -> bool:
    """Whether the fields that the loop has found have the types that a message may have there."""
    kernels = _kernels()
    return not (
        (found & kernels.KEYS_FOUND and not _are_keys([message.keys for message in messages]))
        or (found & kernels.PROPERTIES_FOUND and not _are_properties([each.properties for each in messages]))
        or (found & kernels.QUEUE_IDS_FOUND and {*map(type, [each.queue_id for each in messages])} != {int})
        or (
            found & kernels.DELAY_LEVELS_FOUND
            and {*map(type, [each.delay_level for each in messages])} != {int}
        )
        or (found & kernels.FLAGS_FOUND and {*map(type, [each.flag for each in messages])} != {int})
        or (
            found & kernels.BORN_TIMESTAMPS_FOUND
            and not {*map(type, [each.born_timestamp for each in messages])} <= {int, _NONE}
        )
        or (
            found & kernels.BORN_HOSTS_FOUND
            and not {*map(type, [each.born_host for each in messages])} <= {Host, _NONE}
        )
    )


def _are_keys(values: list[Any]) -> bool:
    return {*map(type, values)} <= {tuple, list, str} and {*map(type, chain.from_iterable(values))} <= {str}


def _are_properties(values: list[Any]) -> bool:
    """Whether each is a dict of str, or none."""
    types = {*map(type, values)}
    if types != {dict}:
        values = [value for value in values if value is not NO_PROPERTIES]
        types = {*map(type, values)}
    return (
        types <= {dict}
        and {*map(type, chain.from_iterable(values))} <= {str}
        and {*map(type, chain.from_iterable(map(dict.values, values)))} <= {str}
    )
