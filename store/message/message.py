"""A message to put, as a producer builds it.

Its stored form is `StoredMessage` (stored_message.py). It is checked when it is put (message_encoder.py),
so building one is cheap.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

import msgspec

from mqstore.store.errors import MessageIllegal
from mqstore.store.files.file_system import BytesLike
from mqstore.store.record.host import Host

__all__ = ["NO_PROPERTIES", "Message", "MessageFields", "json_body"]

NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


class MessageFields(TypedDict, total=False):
    """The fields of a Message by name, without topic and body."""

    tags: str | None
    keys: str | Sequence[str]
    queue_id: int
    delay_level: int
    properties: Mapping[str, str]
    flag: int
    sys_flag: int
    born_timestamp: int | None
    born_host: Host | None
    wait_store_msg_ok: bool


class Message(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One message to put.

    topic: 1 to 127 bytes of `%|a-zA-Z0-9_-` (255 for retry topics).
    body: any bytes, possibly empty, up to `max_message_size`.
    tags: the one tag consumers filter by; its hash goes into the consume queue.
    keys: looked up by `query_message`; one string with blanks between the keys, or several without blanks.
    queue_id: a queue of the topic, from 0; if negative, the store chooses one to write to.
    delay_level: 1 to 18 (with the default table) stores it in SCHEDULE_TOPIC_XXXX until due; 0 does not.
    properties: names and values without 0x01 and 0x02; fields override the names that the store uses.
    flag: the application's own 32 bits. sys_flag: RocketMQ's bits (sys_flag.py).
    born_timestamp: epoch ms, None for now. born_host: None for the store's own host.
    wait_store_msg_ok: if False, the put does not wait for the disk in SYNC_FLUSH.

    msgspec omits fields with default values: `put_messages` packs lists (bulk/list_encoder.py).

    >>> Message("orders", b"...", tags="created", keys=("o-1",))
    Message(topic='orders', body=b'...', tags='created', keys=('o-1',))
    """

    topic: str
    body: BytesLike
    tags: str | None = None
    keys: str | Sequence[str] = ()
    queue_id: int = 0
    delay_level: int = 0
    properties: Mapping[str, str] = NO_PROPERTIES
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int | None = None
    born_host: Host | None = None
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    wait_store_msg_ok: bool = True

    @classmethod
    def of_json(cls, topic: str, json: Any, **fields: Unpack[MessageFields]) -> "Message":
        """One whose body is anything that msgspec writes as JSON. Raises MessageIllegal.

        >>> Message.of_json("orders", {"id": 1}, tags="created")
        Message(topic='orders', body=b'{"id":1}', tags='created')
        """
        return cls(topic, json_body(json), **fields)

    def __reduce__(self) -> tuple[object, ...]:
        """For pickle and deepcopy: a view of a body becomes bytes, properties a dict."""
        body = self.body
        fields: dict[str, object] = {"body": bytes(body) if isinstance(body, memoryview) else body}
        for name, default in zip(self.__struct_fields__[2:], self.__struct_defaults__, strict=True):
            value = getattr(self, name)
            if value != default:
                fields[name] = dict(value) if name == "properties" else value
        return _message_of, (self.topic, fields)

    def __repr__(self) -> str:
        """The fields that differ from their defaults, a long body shortened."""
        is_long = isinstance(self.body, bytes | bytearray | memoryview) and len(self.body) > 48
        body = f"<{len(self.body)} bytes>" if is_long else repr(self.body)
        shown = [f"topic={self.topic!r}", f"body={body}"]
        optional = zip(self.__struct_fields__[2:], self.__struct_defaults__, strict=True)
        for name, default in optional:
            value = getattr(self, name)
            if value != default:
                shown.append(f"{name}={value!r}")
        return f"Message({', '.join(shown)})"


def json_body(json: Any) -> bytes:
    """A value as JSON in UTF-8. Raises MessageIllegal."""
    try:
        return msgspec.json.encode(json)
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageIllegal(f"json cannot be written as JSON: {error}", value=json) from error


def _message_of(topic: str, fields: dict[str, Any]) -> Message:
    return Message(topic, **fields)
