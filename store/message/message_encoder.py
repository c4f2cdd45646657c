"""From a message to the bytes that the log will append: every check, and all work that needs no lock.

Under the append lock, record_template.py puts the record together once its queue offset, physical offset and
store timestamp are known, and closes it with the record CRC.

It does not ask whether the topic or the queue exists (mqstore/put/put_path.py), nor rewrite delayed
messages (schedule/delay/delayed_message.py). Nothing is stored when a check fails.
Threads: any; what is kept of topics and tags is immutable and never wrong (repeated_names.py).
Source of the checks: docs/spec/commitlog.md, section 11, in its order.
"""

import reprlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from types import UnionType

import msgspec

from mqstore.store.checksum.crc32 import crc32
from mqstore.store.config import StoreConfig
from mqstore.store.errors import MessageIllegal, MessageTooLarge, PropertiesIllegal, QueueIllegal
from mqstore.store.message.message import NO_PROPERTIES, Message
from mqstore.store.message.message_properties import checked_properties, join_keys, ordinary_pairs
from mqstore.store.message.repeated_names import RepeatedNames
from mqstore.store.message.topic_names import check_topic
from mqstore.store.record.host import IPV4_HOST_BYTES, IPV6_HOST_BYTES, Host
from mqstore.store.record.properties_format import (
    CRC32,
    KEYS,
    MAX_PROPERTIES_BYTES,
    TAGS,
    UNIQ_KEY,
    WAIT,
    encode_properties,
)
from mqstore.store.record.record_format import (
    CRC_NAME,
    CRC_PROPERTY_BYTES,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    PROPERTIES_LENGTH,
    encode_topic,
)
from mqstore.store.record.record_template import RecordTemplate, encode_ending, record_template
from mqstore.store.record.sys_flag import (
    BORN_HOST_V6,
    INNER_BATCH,
    STORE_HOST_V6,
    TRANSACTION_MASK,
    takes_queue_offset,
)

__all__ = [
    "EncodedMessage",
    "MessageEncoder",
    "body_too_large",
    "refuse_mistyped",
]

_HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6
_KINDS: dict[str, type | UnionType] = {
    "tags": str | None,
    "keys": str | Iterable,
    "delay_level": int,
    "properties": Mapping,
    "born_host": Host | None,
}
_ZERO = 0
_join = b"".join
_pack_length = PROPERTIES_LENGTH.pack
# Template, ending of a message without keys and properties, the topic's field, the pair that the tags are.
_Named = tuple[RecordTemplate, bytes, bytes, bytes]

# So _pack_length raises for what is too long.
assert 2 ** (8 * PROPERTIES_LENGTH.size - 1) - 1 == MAX_PROPERTIES_BYTES


class EncodedMessage(msgspec.Struct, gc=False):
    """A checked message: all that its record is made of but what only the append lock knows.

    ending: from `encode_ending`. size_bytes: of the whole record. body_crc: all 32 bits. born_timestamp: None
    for the store time. takes_queue_offset: whether its queue grows. waits: whether the put waits for the disk
    in SYNC_FLUSH.
    """

    topic: str
    queue_id: int
    template: RecordTemplate
    ending: bytes
    size_bytes: int
    body: bytes
    body_crc: int
    born_timestamp: int | None
    takes_queue_offset: bool
    waits: bool


class MessageEncoder:
    """Checks and encodes messages for one store."""

    def __init__(self, config: StoreConfig) -> None:
        self._append_crc = config.enabled_append_prop_crc
        self._max_body_bytes = config.max_message_size
        self._store_host = config.store_host.encode()
        self._store_host_bit = STORE_HOST_V6 if config.store_host.is_ipv6 else 0
        self._born_host_bit = BORN_HOST_V6 if config.store_host.is_ipv6 else 0
        self._crc_bytes = CRC_PROPERTY_BYTES if self._append_crc else 0
        # Of messages whose header says nothing out of the ordinary, by their magic.
        self.templates = {
            magic: self._ordinary_template(magic) for magic in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2)
        }
        # Of each topic, and of each topic and tags. direct_put.py uses `templates` and `topics` too.
        self.topics = RepeatedNames(self._encode_topic)
        self._tagged = RepeatedNames(self._encode_tagged)
        # Of each topic, tags, and length of a UNIQ_KEY.
        self._identified = RepeatedNames(self._encode_identified)
        self._known_topic, self._known_tagged = self.topics.get, self._tagged.get
        self._known_identified = self._identified.get

    def encode(self, message: Message, *, is_own: bool = False) -> EncodedMessage:
        """Check a message and encode what can be encoded before its place in the log is known.

        is_own: a copy of a stored record, which may come from a broker that let more pass: its properties
        are kept as they are, and if there is no room for a record CRC, the copy has none.
        Raises TopicIllegal, QueueIllegal, MessageTooLarge, PropertiesIllegal, MessageIllegal.
        """
        topic, body, queue_id = message.topic, message.body, message.queue_id
        tags, born_timestamp = message.tags, message.born_timestamp
        if (
            type(body) is bytes
            # A subclass may compare as another topic does, or as other tags do.
            and type(topic) is str
            and (tags is None or type(tags) is str)
            and len(body) <= self._max_body_bytes
            and type(queue_id) is int
            and not queue_id >> 31  # as 0 <= queue_id < 2**31, at half its time
            # Compared by identity: False and 0.0 equal 0, but the thorough checks must decide about them.
            and message.flag is message.sys_flag is message.reconsume_times is _ZERO
            and message.prepared_transaction_offset is _ZERO
            and message.born_host is None
            and message.wait_store_msg_ok
            and (born_timestamp is None or (type(born_timestamp) is int and not born_timestamp >> 63))
        ):
            keys, properties = message.keys, message.properties
            if properties is NO_PROPERTIES and not keys and born_timestamp is None:
                if tags is None:
                    template, ending, _, _ = self._known_topic(topic) or self.topics.add(topic)
                else:
                    name = topic, tags
                    template, ending, _, _ = self._known_tagged(name) or self._tagged.add(name)
            elif (
                # As producers give it to each message. Neither separators nor what is not ASCII, for which
                # there is a "?", pass as alphanumeric.
                not keys
                and born_timestamp is None
                and len(properties) == 1
                and type(unique_key := properties.get(UNIQ_KEY)) is str
                and (key := unique_key.encode("ascii", "replace")).isalnum()
            ):
                kind = topic, tags, len(key)
                template, front, rest = self._known_identified(kind) or self._identified.add(kind)
                ending = front + key + rest
            else:
                found = self._with_properties(topic, tags, keys, properties)
                if found is None:
                    return self._encode_thoroughly(message, is_own=is_own)
                template, ending = found
            size = template.fixed_bytes + len(body) + len(ending)
            return EncodedMessage(
                topic, queue_id, template, ending, size, body, crc32(body), born_timestamp, True, True
            )
        return self._encode_thoroughly(message, is_own=is_own)

    def _with_properties(
        self, topic: str, tags: str | None, keys: str | Sequence[str], properties: Mapping[str, str]
    ) -> tuple[RecordTemplate, bytes] | None:
        """Template and ending of a message with keys or properties; None if any of them is odd."""
        try:
            pairs = ordinary_pairs(properties, keys)
            if (
                pairs is None
                or (tags is not None and TAGS in properties)
                or (CRC32 in pairs and not self._append_crc)
            ):
                return None
            if tags is None:
                template, _, topic_field, pair = self._known_topic(topic) or self.topics.add(topic)
            else:
                name = topic, tags
                template, _, topic_field, pair = self._known_tagged(name) or self._tagged.add(name)
            encoded = pairs.encode()
            length = _pack_length(len(encoded) + len(pair) + self._crc_bytes)
            return template, _join((topic_field, length, encoded, pair))
        except (PropertiesIllegal, UnicodeEncodeError, struct.error, TypeError, RuntimeError):
            # The thorough checks word the error. A RuntimeError: another thread changes the properties.
            return None

    def _encode_thoroughly(self, message: Message, *, is_own: bool) -> EncodedMessage:
        """Check and encode a message that may have anything."""
        ordinary, _, topic_field, _ = self._known_topic(message.topic) or self.topics.add(message.topic)
        body = _as_bytes(message.body)
        if len(body) > self._max_body_bytes:
            raise body_too_large("the body", len(body), self._max_body_bytes)
        queue_id = message.queue_id
        if type(queue_id) is not int or not 0 <= queue_id < 2**31:
            raise _queue_illegal(queue_id)
        properties = self._encode_properties(message, is_own=is_own)
        append_crc, crc_bytes = self._append_crc, self._crc_bytes
        if is_own and len(properties) + crc_bytes > MAX_PROPERTIES_BYTES >= len(properties):
            append_crc, crc_bytes = False, 0
        else:
            self._check_size(properties)
        if message.sys_flag:
            _refuse_inner_batch(message)
        sys_flag = message.sys_flag & ~_HOST_BITS | self._store_host_bit
        if message.born_host is None:
            born_host = self._store_host
            sys_flag |= self._born_host_bit
        else:
            born_host = _encode_born_host(message.born_host)
            if len(born_host) == IPV6_HOST_BYTES:
                sys_flag |= BORN_HOST_V6
        if message.born_timestamp is not None:
            _check_number("born_timestamp", message.born_timestamp, 64)
        try:
            template = record_template(
                ordinary.magic,
                message.flag,
                sys_flag,
                born_host,
                self._store_host,
                message.reconsume_times,
                message.prepared_transaction_offset,
                append_crc,
            )
        except struct.error:
            _refuse_number(message)
            raise
        ending = encode_ending(topic_field, properties, crc_bytes)
        return EncodedMessage(
            # Never of a subclass: it is hashed and compared under the append lock, where no Python code of a
            # program may run.
            str.__str__(message.topic),
            queue_id,
            template,
            ending,
            template.fixed_bytes + len(body) + len(ending),
            body,
            crc32(body),
            message.born_timestamp,
            not sys_flag & TRANSACTION_MASK or takes_queue_offset(sys_flag),
            message.wait_store_msg_ok,
        )

    def _ordinary_template(self, magic: int) -> RecordTemplate:
        host, sys_flag = self._store_host, self._store_host_bit | self._born_host_bit
        return record_template(magic, 0, sys_flag, host, host, 0, 0, self._append_crc)

    def _encode_topic(self, topic: str) -> _Named:
        return self._encode_tagged((topic, None))

    def _encode_tagged(self, name: tuple[str, str | None]) -> _Named:
        topic, tags = name
        pair = checked_properties({TAGS: tags}) if tags else b""
        check_topic(topic)
        self._check_size(pair)
        field, magic = encode_topic(topic)
        return self.templates[magic], encode_ending(field, pair, self._crc_bytes), field, pair

    def _encode_identified(self, name: tuple[str, str | None, int]) -> tuple[RecordTemplate, bytes, bytes]:
        """Template, and what the ending has before and behind a UNIQ_KEY of this length."""
        topic, tags, length = name
        first = encode_properties({UNIQ_KEY: "-" * length})
        properties = checked_properties({UNIQ_KEY: "-" * length, TAGS: tags}) if tags else first
        template, _, topic_field, _ = self._known_topic(topic) or self.topics.add(topic)
        self._check_size(properties)
        rest = properties[len(first) - 1 :]
        ending = encode_ending(topic_field, properties, self._crc_bytes)
        return template, ending[: -length - len(rest)], rest

    def _check_size(self, properties: bytes) -> None:
        size = len(properties) + self._crc_bytes
        if size > MAX_PROPERTIES_BYTES:
            raise PropertiesIllegal(
                f"the properties take {size} bytes, more than {MAX_PROPERTIES_BYTES}: shorten them, or put "
                "the data in the body",
                value=size,
                limit=MAX_PROPERTIES_BYTES,
            )

    def _encode_properties(self, message: Message, *, is_own: bool) -> bytes:
        tags, keys = message.tags, message.keys
        if not (isinstance(message.properties, Mapping) and isinstance(tags, str | None)):
            # A list of pairs would become a dict, and one without tags would be none.
            raise TypeError(f"properties or tags are of a wrong type: {message.properties!r}, {tags!r}")
        properties = dict(message.properties)
        if keys:
            properties[KEYS] = keys if isinstance(keys, str) else join_keys(tuple(keys))
        if tags:
            properties[TAGS] = tags
        if not message.wait_store_msg_ok:
            properties[WAIT] = "false"
        properties.pop(CRC32, None)
        if is_own:
            return encode_properties(properties)
        encoded = checked_properties(properties)
        if not self._append_crc and encoded[-CRC_PROPERTY_BYTES:].startswith(CRC_NAME):
            name = list(properties)[-1]
            raise PropertiesIllegal(
                f"the last property, {name!r}, would pass for the record's CRC: give it another name than "
                f"one that ends in {CRC32}, or open the store with enabled_append_prop_crc",
                value=name,
                limit=f"no name that ends in {CRC32}",
            )
        return encoded


def body_too_large(name: str, size: int, limit: int, row: int | None = None) -> MessageTooLarge:
    """The error for a body of more than max_message_size bytes."""
    return MessageTooLarge(
        f"{name} has {size} bytes, more than max_message_size = {limit}: "
        "split it, compress it, or open the store with a larger max_message_size",
        value=size,
        limit=limit,
        row=row,
    )


def _as_bytes(body: object) -> bytes:
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    is_text = isinstance(body, str)
    hint = "encode text with str.encode()" if is_text else "put(..., json=...) and Message.of_json write JSON"
    raise MessageIllegal(
        f"the body is a {type(body).__name__}, but must be bytes: {hint}",
        value=body,
        limit="bytes, bytearray or memoryview",
    )


def _refuse_inner_batch(message: Message) -> None:
    if message.sys_flag & INNER_BATCH:
        raise MessageIllegal(
            f"sys_flag is {message.sys_flag}, which says that the body is a batch, but only topics of BatchCQ"
            " keep batches whole, and there are none here: put the messages one by one, or with put_messages",
            value=message.sys_flag,
            limit=f"no bit {INNER_BATCH:#x}",
        )


def _encode_born_host(host: Host) -> bytes:
    try:
        encoded = host.encode()
    except (OverflowError, TypeError):
        encoded = b""
    if len(encoded) not in (IPV4_HOST_BYTES, IPV6_HOST_BYTES):
        raise MessageIllegal(
            f"born_host is {tuple(host)}, but must be 4 or 16 address bytes and a port",
            value=host,
            limit="4 or 16 address bytes",
        )
    return encoded


def _check_number(name: str, value: int, bits: int) -> None:
    if type(value) is not int or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise MessageIllegal(
            f"{name} is {value!r}, but must be a whole number of at most {bits} bits",
            value=value,
            limit=f"{bits} bits",
        )


def refuse_mistyped(message: object) -> None:
    """Raise for what in `message` is of a wrong type; return when nothing is.

    For a caller that caught a TypeError or AttributeError: types are not checked before.
    Raises MessageIllegal, TopicIllegal, QueueIllegal.
    """
    if not isinstance(message, Message):
        raise MessageIllegal(
            f"{reprlib.repr(message)} is a {type(message).__name__}, but must be a Message(topic, body)",
            value=message,
            limit="a Message",
        )
    check_topic(message.topic)
    _as_bytes(message.body)
    if type(message.queue_id) is not int:
        raise _queue_illegal(message.queue_id)
    for name, kinds in _KINDS.items():
        _check_kind(name, getattr(message, name), kinds)
    if not isinstance(message.keys, str):
        for key in message.keys:
            _check_kind("keys has an element that", key, str)
    for name, value in message.properties.items():
        _check_kind(f"property {name}", value, str)
    _refuse_number(message)


def _check_kind(name: str, value: object, kinds: type | UnionType) -> None:
    if not isinstance(value, kinds):
        wanted = str(kinds) if isinstance(kinds, UnionType) else kinds.__name__
        raise MessageIllegal(
            f"{name} is {reprlib.repr(value)}, but must be: {wanted}", value=value, limit=wanted
        )


def _queue_illegal(queue_id: object) -> QueueIllegal:
    return QueueIllegal(
        f"queue_id is {queue_id!r}, but must be from 0 to 2147483647", value=queue_id, limit=0
    )


def _refuse_number(message: Message) -> None:
    """Raise for the number that the record has no room for."""
    for name in ("flag", "sys_flag", "reconsume_times"):
        _check_number(name, getattr(message, name), 32)
    _check_number("prepared_transaction_offset", message.prepared_transaction_offset, 64)
