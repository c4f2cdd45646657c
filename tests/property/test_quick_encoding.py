"""The quick way to encode a message makes the bytes of the thorough way, and refuses nothing that it takes.

Goal: the ways that `MessageEncoder.encode` has for ordinary messages are only faster. Method: messages with
all that is odd about keys, tags and properties go through `encode` and through the thorough checks alone;
record or error must be the same. Ordinary ones are compared with a plain twin as well, which knows neither.
"""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqstore.store.checksum.crc32 import crc32
from mqstore.store.errors import StoreError
from mqstore.store.message.message import NO_PROPERTIES, Message
from mqstore.store.message.message_encoder import EncodedMessage, MessageEncoder
from mqstore.store.record.host import Host
from mqstore.store.record.record_format import encode_topic
from mqstore.store.record.record_template import encode_from, encode_record
from support.odd_messages import MESSAGES
from support.stores.small_log import small_config

Outcome = tuple[Any, ...]


def outcome_of(
    encoder: MessageEncoder, message: Message, *, is_thorough: bool, is_own: bool = False
) -> Outcome:
    """What becomes of a message: all of its record and of what the log is told, or the error."""
    try:
        encode = encoder._encode_thoroughly if is_thorough else encoder.encode
        encoded = encode(message, is_own=is_own)
    except (StoreError, TypeError, AttributeError) as error:
        return type(error), str(error)
    return (
        encoded.topic,
        encoded.queue_id,
        encoded.born_timestamp,
        encoded.takes_queue_offset,
        encoded.waits,
        record_of(encoded),
    )


def record_of(encoded: EncodedMessage) -> bytes:
    born = encoded.born_timestamp
    record = encode_from(
        encoded.template,
        encoded.ending,
        encoded.size_bytes,
        encoded.queue_id,
        encoded.body,
        encoded.body_crc,
        5,
        6,
        7 if born is None else born,
        7,
    )
    assert (len(record), encoded.body_crc) == (encoded.size_bytes, crc32(encoded.body))
    return record


def plain_record(message: Message, *, has_crc: bool) -> bytes:
    """The record of a message with an ordinary header, as a reader of the format would make it."""
    properties = dict(message.properties)
    if message.keys:
        properties["KEYS"] = message.keys if isinstance(message.keys, str) else " ".join(message.keys)
    if message.tags:
        properties["TAGS"] = message.tags
    properties.pop("__CRC32#", None)
    stored = b"".join(b"%b\x01%b\x02" % (bytes(n, "utf-8"), bytes(v, "utf-8")) for n, v in properties.items())
    topic_field, magic = encode_topic(message.topic)
    host = Host.parse("127.0.0.1:10911").encode()
    born = 7 if message.born_timestamp is None else message.born_timestamp
    return encode_record(
        magic,
        topic_field,
        bytes(message.body),
        stored,
        message.queue_id,
        0,
        5,
        6,
        0,
        born,
        host,
        7,
        host,
        0,
        0,
        has_crc,
    )


@pytest.mark.slow
@pytest.mark.parametrize("has_crc", [True, False])
@settings(max_examples=1_500, deadline=None)
@given(messages=st.lists(MESSAGES, min_size=1, max_size=3))
@example(messages=[Message("orders", b"", keys=("a",), properties={"x__CRC32#": "0123456789"})])
@example(messages=[Message("orders", b"", tags="x" * 40, properties={"a": "x" * 32_740})])
@example(
    messages=[Message("orders", b"", tags=tags, keys="k") for tags in ("\x01", "\ud800", "")],
)
def test_the_quick_ways_are_the_thorough_one(messages: list[Message], has_crc: bool) -> None:
    """Each message three times: at first, from what is kept aside, from what is known."""
    config = small_config(enabled_append_prop_crc=has_crc, store_host=Host.parse("127.0.0.1:10911"))
    encoder = MessageEncoder(config)
    for message in messages * 3:
        quick = outcome_of(encoder, message, is_thorough=False)
        assert quick == outcome_of(MessageEncoder(config), message, is_thorough=True)


ORDINARY_TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02 "), min_size=1, max_size=12
)
ORDINARY = st.builds(
    Message,
    topic=st.sampled_from(["orders", "%RETRY%" + "g" * 140]),
    body=st.binary(max_size=40),
    tags=st.none() | ORDINARY_TEXTS,
    keys=st.just(()) | ORDINARY_TEXTS | st.lists(ORDINARY_TEXTS, max_size=3),
    queue_id=st.integers(0, 2**31 - 1),
    properties=st.just(NO_PROPERTIES)
    | st.dictionaries(
        ORDINARY_TEXTS | st.sampled_from(["WAIT", "DELAY", "KEYS", "TAGS"]), ORDINARY_TEXTS, max_size=4
    )
    | st.builds(lambda key: {"UNIQ_KEY": key}, ORDINARY_TEXTS | st.text("0123456789ABCDEF", min_size=1)),
    born_timestamp=st.none() | st.integers(0, 2**63 - 1),
)


@pytest.mark.slow
@pytest.mark.parametrize("has_crc", [True, False])
@settings(max_examples=500, deadline=None)
@given(messages=st.lists(ORDINARY, min_size=1, max_size=4))
def test_ordinary_messages_have_the_records_of_the_format(messages: list[Message], has_crc: bool) -> None:
    """Byte by byte."""
    encoder = MessageEncoder(
        small_config(enabled_append_prop_crc=has_crc, store_host=Host.parse("127.0.0.1:10911"))
    )
    for message in messages * 3:
        record = plain_record(message, has_crc=has_crc)
        assert record_of(encoder.encode(message)) == record_of(encoder.encode(message, is_own=True)) == record


@pytest.mark.parametrize("has_crc", [True, False])
@pytest.mark.parametrize("text", ["x", "é", "-"])
@pytest.mark.parametrize("form", ["tags", "keys", "UNIQ_KEY", "tags behind others", "UNIQ_KEY with tags"])
def test_too_long_is_too_long_either_way(form: str, text: str, has_crc: bool) -> None:
    """At the limit and around it, with the same number in the error."""
    config = small_config(enabled_append_prop_crc=has_crc)
    encoder = MessageEncoder(config)
    for size in range(32_690, 32_770, 1 if text.isascii() else 2):
        long = text * (size // len(text.encode()))
        message = {
            "tags": Message("orders", b"", tags=long),
            "keys": Message("orders", b"", keys=(long,)),
            "UNIQ_KEY": Message("orders", b"", properties={"UNIQ_KEY": long}),
            "tags behind others": Message("orders", b"", tags=long, keys="k", properties={"a": "b"}),
            "UNIQ_KEY with tags": Message("orders", b"", tags="t", properties={"UNIQ_KEY": long}),
        }[form]
        quick = outcome_of(encoder, message, is_thorough=False)
        assert quick == outcome_of(encoder, message, is_thorough=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"keys": ("k",), "tags": "t"},
        {"keys": "k", "tags": "t"},
        {"keys": ["k", "l"], "properties": {"a": "b", "c": "ü"}},
        {"properties": {"a": "b"}, "tags": "é"},
        {"properties": {"UNIQ_KEY": "7F000001"}, "keys": ("k",)},
        {"properties": {"UNIQ_KEY": "id-7"}},
        {"properties": {}, "born_timestamp": 5},
        {"properties": {"TAGS": "t", "KEYS": "k", "DELAY": "1"}},
    ],
    ids=str,
)
def test_ordinary_messages_go_the_quick_way(fields: dict[str, Any]) -> None:
    """Without the thorough checks, or the others show nothing."""
    encoder = MessageEncoder(small_config())
    encoder._encode_thoroughly = None  # type: ignore[method-assign, assignment]
    assert encoder.encode(Message("orders", b"body", **fields)).queue_id == 0
