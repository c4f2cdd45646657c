"""A message in the commit log, decoded when its fields are read.

It holds a view of the mapped record. Nothing is copied until a field is read, and the view keeps the mapping
alive even after retention has deleted the file. `body` copies; `body_view` does not.

A body that its producer compressed is decompressed whenever it is read, as RocketMQ does for consumers:
`body`, `body_view` and `sys_flag` are the message as it was sent; `stored_body_view`, `stored_sys_flag` and
`body_crc` are the record's. The store copies a record from the stored fields.
RocketMQ's name for it is MessageExt. Threads: immutable except for its caches, safe to share.
"""

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import msgspec

from mqstore.store.errors import StoreError
from mqstore.store.message.compiled_read import READS
from mqstore.store.message.compressed_body import MAX_BODY_BYTES, decompress
from mqstore.store.message.message import Message
from mqstore.store.record.host import IPV4_HOST_BYTES, IPV6_HOST_BYTES, Host
from mqstore.store.record.message_id import encode_message_id
from mqstore.store.record.properties_format import (
    CRC32,
    KEY_SEPARATOR,
    KEYS,
    LOST,
    TAGS,
    UNIQ_KEY,
    parse_properties,
)
from mqstore.store.record.record_format import (
    BORN_HOST_POSITION,
    BORN_PORT_POSITION,
    BORN_TIMESTAMP_POSITION,
    FLAG_POSITION,
    MAGIC_CODE_POSITION,
    MESSAGE_MAGIC_CODE,
    PHYSICAL_OFFSET_POSITION,
    PROPERTIES_LENGTH_BYTES,
    QUEUE_ID_POSITION,
    QUEUE_OFFSET_POSITION,
    STORE_HOST_END_BEFORE_BODY,
    SYS_FLAG_POSITION,
    RecordHeader,
    RecordIllegal,
    RecordLayout,
    decode_header,
    decode_layout,
    store_timestamp_position,
)
from mqstore.store.record.sys_flag import BORN_HOST_V6, COMPRESSED, STORE_HOST_V6

__all__ = ["StoredMessage"]

# Of a body, by print.
_SHOWN_BYTES = 48
# Position of the byte of the sys flag that holds COMPRESSED.
_SYS_FLAG_LOW = SYS_FLAG_POSITION + 3
# Position and value of the byte of the magic by which a record with a short topic is known.
_MAGIC_LOW = MAGIC_CODE_POSITION + 3
_V1_LOW = MESSAGE_MAGIC_CODE & 0xFF


def _number_at(position: int, kind: str) -> Callable[[memoryview, int], tuple[int]]:
    """(data, start of a record) -> one number of its header: `kind` is struct's letter."""
    return struct.Struct(f">{position}x{kind}").unpack_from


_INT, _LONG = _number_at(0, "i"), _number_at(0, "q")
_total_size_of = _INT
_queue_id_of = _number_at(QUEUE_ID_POSITION, "i")
_flag_of = _number_at(FLAG_POSITION, "i")
_queue_offset_of = _number_at(QUEUE_OFFSET_POSITION, "q")
_physical_offset_of = _number_at(PHYSICAL_OFFSET_POSITION, "q")
_sys_flag_of = _number_at(SYS_FLAG_POSITION, "i")
_born_timestamp_of = _number_at(BORN_TIMESTAMP_POSITION, "q")


if TYPE_CHECKING or READS is None:

    class MessageView(msgspec.Struct, eq=False, gc=False):
        """What a message keeps: its place, and what has been found of it."""

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

else:
    MessageView = READS.MessageView


class StoredMessage(MessageView, eq=False, gc=False):
    """One record of the commit log: `data[start:stop]`, not copied.

    A caller that has found the record whole, of exactly these bytes, and its body not compressed, passes the
    position of the body. Then fields are read where they lie, one by one: all together take as long as five.

    >>> from mqstore import MessageStore
    >>> with MessageStore.open("data") as store:
    ...     put = store.put("orders", json={"id": 1}, tags="created", keys="o-1")
    ...     message = store.look_message_by_offset(put.physical_offset)
    ...     message.topic, message.json(), message.tags, message.keys, message.queue_offset
    ('orders', {'id': 1}, 'created', ('o-1',), 0)
    """

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
            self._header = header = decode_header(self.data, self.start, self.stop)
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
            data = self.data
            if self.body_start >= 0 and self._layout is None and data[self.start + _MAGIC_LOW] == _V1_LOW:
                start = self.body_stop + 1
                stop = start + data[start - 1]
            else:
                _, _, start, stop, _, _ = self.layout
            self._topic = topic = str(data[start:stop], "utf-8", "replace")
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
        data = self.data
        if self.body_start >= 0 and self._layout is None and data[self.start + _MAGIC_LOW] == _V1_LOW:
            topic_at = self.body_stop
            return data[topic_at + 1 + data[topic_at] + PROPERTIES_LENGTH_BYTES : self.stop]
        layout = self.layout
        return data[layout.properties_start : layout.properties_stop]

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

    def json(self, kind: Any = Any) -> Any:
        """The body, read as JSON: plain values, or a `kind` of msgspec (a Struct, `list[int]`, ...).

        Raises msgspec.DecodeError if it is no JSON, its ValidationError if it is no `kind`; as `body`.
        """
        return msgspec.json.decode(self.body_view, type=kind)

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
        if self.body_start >= 0:
            return self.data[self.body_start : self.body_stop]
        layout = self.layout
        return self.data[layout.body_start : layout.body_stop]

    @property
    def queue_id(self) -> int:
        """The queue of the topic."""
        if self.body_start < 0 or self._header is not None:
            return self.header.queue_id
        return _queue_id_of(self.data, self.start)[0]

    @property
    def queue_offset(self) -> int:
        """The entry number in the queue; 0 for half and rollback records."""
        if self.body_start < 0 or self._header is not None:
            return self.header.queue_offset
        return _queue_offset_of(self.data, self.start)[0]

    @property
    def physical_offset(self) -> int:
        """The byte in the commit log where the record begins."""
        if self.body_start < 0 or self._header is not None:
            return self.header.physical_offset
        return _physical_offset_of(self.data, self.start)[0]

    @property
    def store_size(self) -> int:
        """Length of the record in bytes."""
        if self.body_start < 0 or self._header is not None:
            return self.header.total_size
        return _total_size_of(self.data, self.start)[0]

    @property
    def body_crc(self) -> int:
        """CRC-32 of the body as stored, without the sign bit."""
        return self.header.body_crc

    @property
    def flag(self) -> int:
        """The application's flag."""
        if self.body_start < 0 or self._header is not None:
            return self.header.flag
        return _flag_of(self.data, self.start)[0]

    @property
    def sys_flag(self) -> int:
        """RocketMQ's bits (sys_flag.py), without COMPRESSED: they belong to `body`."""
        if self.body_start >= 0:
            return _sys_flag_of(self.data, self.start)[0]
        return self.header.sys_flag & ~COMPRESSED if self.is_compressed else self.header.sys_flag

    @property
    def stored_sys_flag(self) -> int:
        """RocketMQ's bits as stored: they belong to `stored_body`."""
        if self.body_start >= 0:
            return _sys_flag_of(self.data, self.start)[0]
        return self.header.sys_flag

    @property
    def born_timestamp(self) -> int:
        """When the producer made it, epoch ms."""
        if self.body_start < 0 or self._header is not None:
            return self.header.born_timestamp
        return _born_timestamp_of(self.data, self.start)[0]

    @property
    def born_host(self) -> Host:
        """Where the producer ran."""
        if self.body_start < 0 or self._header is not None:
            return Host.decode(self.header.born_host)
        start = self.start + BORN_HOST_POSITION
        stop = start + (IPV6_HOST_BYTES if self.sys_flag & BORN_HOST_V6 else IPV4_HOST_BYTES)
        return Host.decode(self.data[start:stop].tobytes())

    @property
    def store_timestamp(self) -> int:
        """When it was appended, epoch ms."""
        if self.body_start < 0 or self._header is not None:
            return self.header.store_timestamp
        sys_flag = self.data[self.start + _SYS_FLAG_LOW]
        return _LONG(self.data, self.start + store_timestamp_position(sys_flag))[0]

    @property
    def store_host(self) -> Host:
        """Which store appended it."""
        return Host.decode(self._encoded_store_host)

    @property
    def _encoded_store_host(self) -> bytes:
        if self.body_start < 0 or self._header is not None:
            return self.header.store_host
        stop = self.body_start - STORE_HOST_END_BEFORE_BODY
        start = stop - (IPV6_HOST_BYTES if self.sys_flag & STORE_HOST_V6 else IPV4_HOST_BYTES)
        return self.data[start:stop].tobytes()

    @property
    def reconsume_times(self) -> int:
        """How often its consumer group has failed on it."""
        if self.body_start < 0 or self._header is not None:
            return self.header.reconsume_times
        return _INT(self.data, self.body_start - STORE_HOST_END_BEFORE_BODY)[0]

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
    def is_placeholder(self) -> bool:
        """Whether a repair has put it in the place of a message that is lost; what had no room says False."""
        return self.data[self.start + BORN_PORT_POSITION] == 0 and LOST in self.properties

    @property
    def msg_id(self) -> str:
        """The offset message id (message_id.py)."""
        return encode_message_id(self._encoded_store_host, self.physical_offset)

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

    def detached(self) -> Self:
        """A copy with bytes of its own: it keeps no segment mapped, however long it is kept."""
        return type(self).of(memoryview(self.record.tobytes()))

    def __reduce__(self) -> tuple[object, ...]:
        """For pickle and deepcopy: the record's bytes."""
        return _of_bytes, (type(self), self.record.tobytes())

    def __str__(self) -> str:
        """As `repr`, with tags, keys and the start of the body, as far as they can be read."""
        shown = [repr(self)[:-1]]
        with suppress(StoreError, RecordIllegal):
            if (tags := self.tags) is not None:
                shown.append(f"tags={tags!r}")
            if keys := self.keys:
                shown.append(f"keys={keys!r}")
            body = self.body_view
            rest = len(body) - _SHOWN_BYTES
            shown.append(
                f"body={bytes(body[:_SHOWN_BYTES])!r}" + (f" and {rest:,} bytes" if rest > 0 else "")
            )
        return ", ".join(shown) + ")"

    def __repr__(self) -> str:
        """Where it lies. Bytes that are no record are told, not raised: a log line may show it."""
        if not self.is_whole:
            return f"{type(self).__name__}({self.stop - self.start:,} bytes that are no record)"
        return (
            f"StoredMessage(topic={self.topic!r}, queue_id={self.queue_id}, "
            f"queue_offset={self.queue_offset}, physical_offset={self.physical_offset}, "
            f"store_size={self.store_size})"
        )


if READS is not None:
    # The same answers by compiled code.
    for _name in ("body", "body_view", "queue_id", "queue_offset", "physical_offset"):
        setattr(StoredMessage, _name, getattr(MessageView, _name))


def _of_bytes(kind: type[StoredMessage], record: bytes) -> StoredMessage:
    return kind.of(memoryview(record))
