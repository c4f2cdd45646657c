"""The encoder: what a legal message becomes, and every way in which a message is refused.

A refusal names the value and the limit and leaves nothing behind; that nothing is stored follows from its
place before the append, and is asserted once more through the store in tests/unit/mqstore.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store.errors import (
    MessageIllegal,
    MessageTooLarge,
    PropertiesIllegal,
    QueueIllegal,
    StoreError,
    TopicIllegal,
)
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.message.message import Message
from mqstore.store.message.message_encoder import MessageEncoder
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.host import Host
from mqstore.store.status import PutMessageStatus, ResponseCode
from support.manual_clock import ManualClock
from support.stores.small_log import SmallLog, small_config

PROPERTIES_LIMIT = 32_767


def encoder(**settings: Any) -> MessageEncoder:
    return MessageEncoder(small_config(**settings))


def stored(message: Message, **settings: Any) -> StoredMessage:
    """The message as it comes back from a log."""
    from pathlib import Path

    small = SmallLog(MemoryFileSystem(), Path("/log"), clock=ManualClock(1_000), **settings)
    log: CommitLog = small.log
    appended = log.append(MessageEncoder(small.config).encode(message))
    found = log.look_message_by_offset(appended.physical_offset)
    assert found is not None
    return found


@pytest.mark.parametrize("append_crc", [True, False])
@given(
    body=st.binary(max_size=200),
    tags=st.none() | st.sampled_from(["TagA", "标签", "é", "🛫"]),
    keys=st.sampled_from([(), "one two", ("one", "two"), ["ü"]]),
    properties=st.dictionaries(
        st.sampled_from(["a", "b", "WAIT", "UNIQ_KEY"]), st.text("xyz ä", min_size=1, max_size=5)
    ),
    numbers=st.fixed_dictionaries(
        {
            "flag": st.integers(-(2**31), 2**31 - 1),
            "sys_flag": st.sampled_from([0, 1, 0x101, 0x8]),
            "reconsume_times": st.integers(0, 2**31 - 1),
            "prepared_transaction_offset": st.integers(0, 2**63 - 1),
            "born_timestamp": st.integers(0, 2**63 - 1),
        }
    ),
    born_host=st.sampled_from([Host.parse("1.2.3.4:5"), Host.parse("[2001:db8::1]:65535")]),
)
def test_what_was_put_comes_back(
    append_crc: bool,
    body: bytes,
    tags: str | None,
    keys: Any,
    properties: dict[str, str],
    numbers: dict[str, int],
    born_host: Host,
) -> None:
    """Every field of the producer's message, whichever CRC the record has."""
    message = Message(
        "orders",
        body,
        tags=tags,
        keys=keys,
        queue_id=3,
        properties=properties,
        born_host=born_host,
        **numbers,
    )
    found = stored(message, enabled_append_prop_crc=append_crc)
    assert (found.topic, found.queue_id, found.stored_body, found.tags) == ("orders", 3, body, tags)
    assert found.keys == (tuple(keys.split()) if isinstance(keys, str) else tuple(keys))
    assert {name: found.properties[name] for name in properties} == properties
    header = found.header._asdict()
    assert {name: header[name] for name in numbers} == numbers | {"sys_flag": found.stored_sys_flag}
    assert found.stored_sys_flag & ~0x30 == numbers["sys_flag"]
    assert (found.born_host, found.stored_sys_flag & 0x30 == 0x10) == (born_host, born_host.is_ipv6)
    assert (b"__CRC32#" in bytes(found.properties_view)) == append_crc


@pytest.mark.parametrize("append_crc", [True, False])
@pytest.mark.parametrize("tags", [None, "", "TagA", "标签"])
@pytest.mark.parametrize("key", ["7F000001535222C40DBC55D0B0C50017", "7", "id-7", "é", "n" * 300])
def test_a_message_with_a_unique_key_alone_has_the_same_record(
    key: str, tags: str | None, append_crc: bool
) -> None:
    """The quick way of what producers send, and the way of all others, make the same bytes."""
    quick = Message("orders", b"body", tags=tags, properties={"UNIQ_KEY": key})
    slow = Message("orders", b"body", tags=tags, properties={"UNIQ_KEY": key}, born_timestamp=1_000)
    found = stored(quick, enabled_append_prop_crc=append_crc)
    assert found.unique_key == key
    assert found.record == stored(slow, enabled_append_prop_crc=append_crc).record


@pytest.mark.parametrize("key", ["", "a\x01b", "a\x02b", "\ud800", 7, b"7", "n" * 32_760])
def test_a_bad_unique_key_is_refused(key: Any) -> None:
    """As any other property is, whichever way it takes."""
    for born_timestamp in (None, 1_000):
        message = Message("orders", b"", properties={"UNIQ_KEY": key}, born_timestamp=born_timestamp)
        with pytest.raises((PropertiesIllegal, TypeError)):
            encoder().encode(message)


def test_born_time_and_host_are_the_stores_own_where_not_given() -> None:
    """Now, and the configured store host."""
    found = stored(Message("orders", b""), store_host=Host.parse("[2001:db8::2]:10911"))
    assert (found.born_timestamp, str(found.born_host), str(found.store_host)) == (
        1_000,
        "[2001:db8::2]:10911",
        "[2001:db8::2]:10911",
    )
    assert found.stored_sys_flag == 0x30


def test_fields_override_properties_of_the_same_name() -> None:
    """TAGS and KEYS of the fields win; WAIT=false is stored when the put does not wait."""
    properties = {"TAGS": "old", "KEYS": "old", "WAIT": "true"}
    message = Message("orders", b"", tags="new", keys="k", properties=properties, wait_store_msg_ok=False)
    assert stored(message).properties == {"TAGS": "new", "KEYS": "k", "WAIT": "false"}


@pytest.mark.parametrize("append_crc", [True, False])
def test_a_crc_of_the_producers_is_dropped(append_crc: bool) -> None:
    """The property `__CRC32#` is the record's own: a foreign one would make the record look damaged."""
    message = Message("orders", b"x", properties={"a": "b", "__CRC32#": "0123456789"})
    found = stored(message, enabled_append_prop_crc=append_crc)
    assert found.properties == {"a": "b"}
    assert b"0123456789" not in bytes(found.properties_view)


@pytest.mark.parametrize("body", [bytearray(b"body"), memoryview(b"body"), memoryview(b"xbodyx")[1:5]])
def test_a_body_may_be_any_bytes(body: Any) -> None:
    """It is copied, so changing it later changes nothing."""
    assert stored(Message("orders", body)).body == b"body"


BAD_TOPICS = [
    ("", 127, "topic is empty"),
    ("x" * 128, 127, "has 128 characters: at most 127"),
    ("%RETRY%" + "g" * 249, 255, "has 256 characters: at most 255"),
    ("%DLQ%" + "g" * 123, 127, "at most 127"),
    ("a topic", 127, "has ' ' at position 1"),
    ("../escape", 127, "has '.' at position 0"),
    ("航班", 127, "has '航'"),
    (None, 127, "is a NoneType"),
]


@pytest.mark.parametrize(("topic", "limit", "words"), BAD_TOPICS)
def test_a_bad_topic_is_refused(topic: Any, limit: int, words: str) -> None:
    """Empty, over 127 bytes (255 for a retry topic), or with characters outside RocketMQ's set."""
    with pytest.raises(TopicIllegal, match=words) as caught:
        encoder().encode(Message(topic, b""))
    assert (caught.value.value, caught.value.limit) == (topic, limit)
    assert caught.value.put_message_status is PutMessageStatus.MESSAGE_ILLEGAL


@pytest.mark.parametrize("body", [None, "text", 7, [1, 2]])
def test_a_missing_body_is_refused(body: Any) -> None:
    """None, and what is no bytes; an empty body is legal."""
    with pytest.raises(
        MessageIllegal, match=f"the body is a {type(body).__name__}, but must be bytes"
    ) as caught:
        encoder().encode(Message("orders", body))
    assert caught.value.value == body
    assert encoder().encode(Message("orders", b"")).waits


def test_a_body_over_max_message_size_is_refused() -> None:
    """One byte too many; the limit itself passes."""
    assert encoder(max_message_size=10).encode(Message("orders", bytes(10))).waits
    with pytest.raises(MessageTooLarge, match="has 11 bytes, more than max_message_size = 10") as caught:
        encoder(max_message_size=10).encode(Message("orders", bytes(11)))
    assert (caught.value.value, caught.value.limit) == (11, 10)


@pytest.mark.parametrize("append_crc", [True, False])
def test_properties_over_32767_bytes_are_refused(append_crc: bool) -> None:
    """Counted as stored, in UTF-8, separators and record CRC included."""
    room = PROPERTIES_LIMIT - (20 if append_crc else 0) - len("n\x01\x02")
    fits = Message("orders", b"", properties={"n": "é" * (room // 2) + "x" * (room % 2)})
    found = stored(fits, enabled_append_prop_crc=append_crc)
    assert len(found.properties_view) == PROPERTIES_LIMIT
    too_long = Message("orders", b"", properties={"n": "x" * (room + 1)})
    with pytest.raises(PropertiesIllegal, match="32768 bytes, more than 32767") as caught:
        encoder(enabled_append_prop_crc=append_crc).encode(too_long)
    assert (caught.value.value, caught.value.limit) == (PROPERTIES_LIMIT + 1, PROPERTIES_LIMIT)
    assert caught.value.put_message_status is PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
    assert caught.value.response_code is ResponseCode.MESSAGE_ILLEGAL


BAD_PROPERTIES = [
    {"properties": {"a": "b\x02c"}},
    {"properties": {"a": "b\x01c"}},
    {"properties": {"a\x01": "b"}},
    {"properties": {"a\x02b\x01c": "d"}},
    {"properties": {"": "b"}},
    {"properties": {"a": ""}},
    {"properties": {"a": None}},
    {"properties": {"a": "lone surrogate \ud800"}},
    {"tags": "a\x02b"},
    {"tags": "a\x01b"},
    {"tags": "\ud800"},
    {"keys": "a\x02b"},
    {"keys": ("a", "b\x01")},
    {"keys": ("\udfff",)},
]


@pytest.mark.parametrize("fields", BAD_PROPERTIES, ids=ascii)
def test_properties_that_would_not_come_back_are_refused(fields: dict[str, Any]) -> None:
    """Separators in a name or a value, empty ones, and text that has no UTF-8: also in tags and keys."""
    with pytest.raises(PropertiesIllegal) as caught:
        encoder().encode(Message("orders", b"", **fields))
    assert caught.value.value is not None


@pytest.mark.parametrize("fields", [{"properties": {"a": 1}}, {"properties": {1: "a"}}], ids=str)
@pytest.mark.parametrize("keys", [(), ("k",)])
def test_what_is_no_text_is_refused(fields: dict[str, Any], keys: tuple[str, ...]) -> None:
    """A number would come back as text; the error names it."""
    with pytest.raises(PropertiesIllegal, match=r"[15].*must be str"):
        encoder().encode(Message("orders", b"", keys=keys, **fields))


class _LikeAnother(str):
    """A text that passes for another one."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash("TagA")

    def __eq__(self, other: object) -> bool:
        return True


def test_tags_are_never_taken_for_others() -> None:
    """Whatever their type says about equality; nor is a list without tags taken for none."""
    made = encoder()
    for tags in ("TagA", _LikeAnother("TagB")):
        for born_timestamp in (None, 5):
            message = Message("orders", b"", tags=tags, born_timestamp=born_timestamp)
            ending = made.encode(message).ending
            assert ending.endswith(b"TAGS\x01" + str.encode(tags) + b"\x02"), ending
    for tags in ([], 5):  # type: ignore[assignment]
        for keys in ((), ("k",)):
            with pytest.raises(TypeError):
                made.encode(Message("orders", b"", tags=tags, keys=keys))


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_properties_are_no_list_of_pairs(keys: tuple[str, ...]) -> None:
    """With keys and without; the caller words it (`refuse_mistyped`)."""
    for pairs in ([], [("a", "b")]):
        with pytest.raises((TypeError, AttributeError)):
            encoder().encode(Message("orders", b"", keys=keys, properties=pairs))  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [("order 1",), ("a", "order 1", "b"), ["order 1", ""]])
def test_a_key_with_a_blank_is_refused(keys: Any) -> None:
    """It would be stored as two keys, as RocketMQ parts them by blanks. The error names it."""
    with pytest.raises(PropertiesIllegal, match="the key 'order 1' holds a blank") as caught:
        encoder().encode(Message("orders", b"", keys=keys))
    assert caught.value.value == "order 1"


def test_keys_that_were_read_already_are_refused() -> None:
    """An iterator gives them once: it is not taken for a message without keys."""
    with pytest.raises(PropertiesIllegal, match="KEYS"):
        encoder().encode(Message("orders", b"", keys=iter(())))


def test_several_keys_in_one_string_are_parted_by_blanks() -> None:
    """As RocketMQ's client takes them; empty ones count for nothing."""
    assert stored(Message("orders", b"", keys="a  b")).keys == ("a", "b")
    assert stored(Message("orders", b"", keys=iter(["a", "b"]))).keys == ("a", "b")
    assert stored(Message("orders", b"", keys=("a", ""))).keys == ("a",)


def test_a_property_that_would_pass_for_the_crc_is_refused() -> None:
    """Without the record CRC, a last property named `...__CRC32#` could be taken for one."""
    message = Message("orders", b"", properties={"x__CRC32#": "0123456789"})
    assert stored(message, enabled_append_prop_crc=True).properties == message.properties
    with pytest.raises(PropertiesIllegal, match="__CRC32#"):
        encoder(enabled_append_prop_crc=False).encode(message)


@pytest.mark.parametrize("queue_id", [-1, 2**31, 1.0, "0", None])
def test_a_bad_queue_is_refused(queue_id: Any) -> None:
    """Negative, over 32 bits, or no whole number."""
    with pytest.raises(QueueIllegal, match="must be from 0 to 2147483647") as caught:
        encoder().encode(Message("orders", b"", queue_id=queue_id))
    assert caught.value.value == queue_id


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flag", 2**31),
        ("flag", -(2**31) - 1),
        ("flag", "1"),
        ("sys_flag", 2**32),
        ("reconsume_times", 2**31),
        ("born_timestamp", 2**63),
        ("born_timestamp", 1.5),
        ("prepared_transaction_offset", -(2**63) - 1),
    ],
)
def test_a_number_that_the_record_cannot_hold_is_refused(name: str, value: Any) -> None:
    """Before the append, so that a batch is not half stored."""
    with pytest.raises(MessageIllegal, match=f"{name} is") as caught:
        encoder().encode(Message("orders", b"", **{name: value}))
    assert caught.value.value == value


@pytest.mark.parametrize("host", [Host(b"abc", 1), Host(bytes(4), -1), Host(bytes(16), 2**32), Host(b"", 0)])
def test_a_born_host_that_is_none_is_refused(host: Host) -> None:
    """Neither 4 nor 16 address bytes, or a port that is none."""
    with pytest.raises(MessageIllegal, match="born_host"):
        encoder().encode(Message("orders", b"", born_host=host))


def test_all_refusals_are_store_errors_and_value_errors() -> None:
    """One `except` catches them all, and so does the builtin one."""
    for kind in (TopicIllegal, QueueIllegal, MessageTooLarge, PropertiesIllegal, MessageIllegal):
        assert issubclass(kind, StoreError)
        assert issubclass(kind, ValueError)


def test_names_seen_before_are_encoded_alike() -> None:
    """The caches of topics and tags change nothing, and do not grow without end."""
    made = encoder()
    first = [made.encode(Message(f"t{number}", b"", tags=f"tag{number}")) for number in range(20_000)]
    again = [made.encode(Message(f"t{number}", b"", tags=f"tag{number}")) for number in range(20_000)]
    assert first == again
