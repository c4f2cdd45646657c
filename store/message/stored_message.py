"""A message in the commit log, decoded when its fields are read.

It holds a view of the mapped record. Nothing is copied until a field is read, and the view keeps the mapping
alive even after retention has deleted the file. `body` copies; `body_view` does not.

A body that its producer compressed is decompressed whenever it is read, as RocketMQ does for consumers:
`body`, `body_view` and `sys_flag` are the message as it was sent; `stored_body_view`, `stored_sys_flag` and
`body_crc` are the record's. The store copies a record from the stored fields.
RocketMQ's name for it is MessageExt. Threads: immutable except for its caches, safe to share.
"""

from typing import Self

import msgspec

from mqstore.store.message.compressed_body import MAX_BODY_BYTES, decompress
from mqstore.store.message.message import Message
from mqstore.store.record.host import Host
from mqstore.store.record.message_id import encode_message_id
from mqstore.store.record.properties_format import (
    CRC32,
    KEY_SEPARATOR,
    KEYS,
    TAGS,
    UNIQ_KEY,
    parse_properties,
)
from mqstore.store.record.record_format import (
    SYS_FLAG_POSITION,
    RecordHeader,
    RecordIllegal,
    RecordLayout,
    decode_header,
    decode_layout,
)
from mqstore.store.record.sys_flag import COMPRESSED

__all__ = ["StoredMessage"]

# Position of the byte of the sys flag that holds COMPRESSED.
_SYS_FLAG_LOW = SYS_FLAG_POSITION + 3


class StoredMessage(msgspec.Struct, eq=False, gc=False):
    """One record of the commit log: `data[start:stop]`, not copied.

    A caller that knows the position of a body that is not compressed passes it, which saves the search.
    """

    # A struct, because a pull makes thousands per millisecond: its constructor runs no Python code.
    data: memoryview
    start: int
    stop: int
    # Found at first use; two threads may find one twice, which does no harm. -1 for a compressed body.
    body_start: int = -1
    body_stop: int = -1
    _header: RecordHeader | None = None
    _layout: RecordLayout | None = None
    _topic: str | None = None
    _properties: dict[str, str] | None = None

    @classmethod
    def of(cls, record: memoryview) -> Self:
        """The message whose record is exactly these bytes."""
        return cls(record, 0, len(record))

    @property
    def record(self) -> memoryview:
        """A view of exactly the record's bytes."""
        return self.data[self.start : self.stop]

    @property
    def header(self) -> RecordHeader:
        """The fixed fields. Raises RecordIllegal if the bytes are not a record."""
        header = self._header
        if header is None:
            self._header = header = decode_header(self.record)
        return header

    @property
    def layout(self) -> RecordLayout:
        """Where body, topic and properties lie in `data`. Raises RecordIllegal if lengths do not add up."""
        layout = self._layout
        if layout is None:
            self._layout = layout = decode_layout(self.data, self.start, self.stop)
            if not self.data[self.start + _SYS_FLAG_LOW] & COMPRESSED:
                self.body_stop = layout.body_stop
                self.body_start = layout.body_start
        return layout

    @property
    def is_whole(self) -> bool:
        """Whether magic and lengths agree with each other; CRCs are not checked."""
        try:
            return self.layout is not None
        except RecordIllegal:
            return False

    @property
    def topic(self) -> str:
        """The topic that the record is stored under."""
        topic = self._topic
        if topic is None:
            layout = self.layout
            self._topic = topic = str(self.data[layout.topic_start : layout.topic_stop], "utf-8", "replace")
        return topic

    @property
    def properties(self) -> dict[str, str]:
        """The stored properties, `__CRC32#` left out."""
        properties = self._properties
        if properties is None:
            properties = parse_properties(self.properties_view)
            properties.pop(CRC32, None)
            self._properties = properties
        return properties

    @property
    def properties_view(self) -> memoryview:
        """A view of the properties string as stored."""
        layout = self.layout
        return self.data[layout.properties_start : layout.properties_stop]

    @property
    def body(self) -> bytes:
        """A copy of the body as it was sent: decompressed if its producer compressed it.

        Raises CorruptBody, and BodyTooLarge above 64 MiB (then see `decompressed_body`).
        """
        start = self.body_start
        if start < 0:
            _ = self.layout  # which finds the body
            start = self.body_start
            if start < 0:
                return self.decompressed_body()
        return self.data[start : self.body_stop].tobytes()

    @property
    def body_view(self) -> memoryview:
        """As `body`; a view of the mapping if it is not compressed."""
        start = self.body_start
        if start < 0:
            _ = self.layout  # which finds the body
            start = self.body_start
            if start < 0:
                return memoryview(self.decompressed_body())
        return self.data[start : self.body_stop]

    @property
    def is_compressed(self) -> bool:
        """Whether the producer compressed the body; an empty one never is."""
        header = self.header
        return header.sys_flag & COMPRESSED != 0 and header.body_length != 0

    def decompressed_body(self, *, max_bytes: int = MAX_BODY_BYTES) -> bytes:
        """A copy of the body as it was sent, decompressed to at most `max_bytes`.

        Raises CorruptBody if the bytes do not match the sys flag, and BodyTooLarge.
        """
        if not self.is_compressed:
            return self.stored_body_view.tobytes()
        header = self.header
        return decompress(self.stored_body_view, header.sys_flag, header.physical_offset, max_bytes)

    @property
    def stored_body(self) -> bytes:
        """A copy of the body as it is stored, compressed or not: what `body_crc` covers."""
        return self.stored_body_view.tobytes()

    @property
    def stored_body_view(self) -> memoryview:
        """A view of the body in the mapping, compressed or not."""
        layout = self.layout
        return self.data[layout.body_start : layout.body_stop]

    @property
    def queue_id(self) -> int:
        """The queue of the topic."""
        return self.header.queue_id

    @property
    def queue_offset(self) -> int:
        """The entry number in the queue; 0 for half and rollback records."""
        return self.header.queue_offset

    @property
    def physical_offset(self) -> int:
        """The byte in the commit log where the record begins."""
        return self.header.physical_offset

    @property
    def store_size(self) -> int:
        """Length of the record in bytes."""
        return self.header.total_size

    @property
    def body_crc(self) -> int:
        """CRC-32 of the body as stored, without the sign bit."""
        return self.header.body_crc

    @property
    def flag(self) -> int:
        """The application's flag."""
        return self.header.flag

    @property
    def sys_flag(self) -> int:
        """RocketMQ's bits (sys_flag.py), without COMPRESSED: they belong to `body`."""
        return self.header.sys_flag & ~COMPRESSED if self.is_compressed else self.header.sys_flag

    @property
    def stored_sys_flag(self) -> int:
        """RocketMQ's bits as stored: they belong to `stored_body`."""
        return self.header.sys_flag

    @property
    def born_timestamp(self) -> int:
        """When the producer made it, epoch ms."""
        return self.header.born_timestamp

    @property
    def born_host(self) -> Host:
        """Where the producer ran."""
        return Host.decode(self.header.born_host)

    @property
    def store_timestamp(self) -> int:
        """When it was appended, epoch ms."""
        return self.header.store_timestamp

    @property
    def store_host(self) -> Host:
        """Which store appended it."""
        return Host.decode(self.header.store_host)

    @property
    def reconsume_times(self) -> int:
        """How often its consumer group has failed on it."""
        return self.header.reconsume_times

    @property
    def prepared_transaction_offset(self) -> int:
        """Physical offset of the half message that a commit record completes."""
        return self.header.prepared_transaction_offset

    @property
    def tags(self) -> str | None:
        """The property TAGS."""
        return self.properties.get(TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The property KEYS, split at blanks."""
        return tuple(key for key in self.properties.get(KEYS, "").split(KEY_SEPARATOR) if key)

    @property
    def unique_key(self) -> str | None:
        """The producer's id, property UNIQ_KEY."""
        return self.properties.get(UNIQ_KEY)

    @property
    def msg_id(self) -> str:
        """The offset message id (message_id.py)."""
        return encode_message_id(self.header.store_host, self.header.physical_offset)

    def to_message(self) -> Message:
        """The same content as a message to put, with the body as stored. A retry starts from it."""
        header, properties = self.header, dict(self.properties)
        return Message(
            self.topic,
            self.stored_body,
            tags=properties.pop(TAGS, None),
            keys=properties.pop(KEYS, ()),
            queue_id=header.queue_id,
            properties=properties,
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            born_host=self.born_host,
            reconsume_times=header.reconsume_times,
            prepared_transaction_offset=header.prepared_transaction_offset,
        )

    def __repr__(self) -> str:
        return (
            f"StoredMessage(topic={self.topic!r}, queue_id={self.queue_id}, "
            f"queue_offset={self.queue_offset}, physical_offset={self.physical_offset}, "
            f"store_size={self.store_size})"
        )
