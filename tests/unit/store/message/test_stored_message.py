"""A stored message: every field of a record, and the message that would be put again."""

import zlib
from pathlib import Path

import pytest

from mqstore.store.errors import BodyTooLarge, CorruptBody
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.message.message import Message
from mqstore.store.message.message_encoder import MessageEncoder
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.host import Host
from mqstore.store.record.record_format import RecordIllegal
from mqstore.store.record.sys_flag import BORN_HOST_V6, COMPRESSED, MULTI_TAGS
from support.stores.small_log import SmallLog

MESSAGE = Message(
    "orders",
    b"some body",
    tags="paid",
    keys=("o-1", "o-2"),
    queue_id=2,
    properties={"UNIQ_KEY": "U", "user": "ü"},
    flag=-5,
    sys_flag=MULTI_TAGS,
    born_timestamp=17,
    born_host=Host.parse("[2001:db8::1]:1"),
    reconsume_times=3,
    prepared_transaction_offset=12,
)


@pytest.fixture
def small() -> SmallLog:
    return SmallLog(MemoryFileSystem(), Path("/log"))


def put(small: SmallLog, message: Message) -> StoredMessage:
    appended = small.log.append(MessageEncoder(small.config).encode(message))
    found = small.log.look_message_by_offset(appended.physical_offset)
    assert found is not None
    return found


def test_every_field_is_read(small: SmallLog) -> None:
    """As it was put, with what the store added."""
    small.append()
    offset = small.log.max_offset
    found = put(small, MESSAGE)
    assert (found.topic, found.queue_id, found.queue_offset, found.physical_offset) == (
        "orders",
        2,
        0,
        offset,
    )
    crc = zlib.crc32(b"some body") & 0x7FFF_FFFF
    assert (found.body, bytes(found.body_view), found.body_crc) == (b"some body", b"some body", crc)
    assert (found.tags, found.keys, found.unique_key) == ("paid", ("o-1", "o-2"), "U")
    assert found.properties == {"UNIQ_KEY": "U", "user": "ü", "KEYS": "o-1 o-2", "TAGS": "paid"}
    assert (found.flag, found.sys_flag, found.reconsume_times) == (-5, MULTI_TAGS | BORN_HOST_V6, 3)
    assert (found.born_timestamp, found.store_timestamp) == (17, small.clock.now_ms())
    assert (str(found.born_host), str(found.store_host)) == ("[2001:db8::1]:1", "127.0.0.1:10911")
    assert found.prepared_transaction_offset == 12
    assert found.msg_id == f"7F00000100002A9F{offset:016X}"
    assert found.store_size == len(found.record) == small.log.max_offset - offset


def test_a_message_without_extras_has_none(small: SmallLog) -> None:
    """No tags, no keys, no id, no properties; the record CRC is not shown as one."""
    found = put(small, Message("orders", b""))
    assert (found.tags, found.keys, found.unique_key, found.properties, found.body) == (
        None,
        (),
        None,
        {},
        b"",
    )


def test_it_can_be_put_again(small: SmallLog) -> None:
    """`to_message` gives back all that the producer said; only the store's own fields differ."""
    first = put(small, MESSAGE)
    second = put(small, first.to_message())
    for name in (
        "topic",
        "queue_id",
        "body",
        "properties",
        "flag",
        "sys_flag",
        "born_timestamp",
        "born_host",
    ):
        assert getattr(second, name) == getattr(first, name)
    assert (second.queue_offset, second.reconsume_times) == (1, 3)


def test_views_are_read_only_and_outlive_the_log(small: SmallLog) -> None:
    """What is lent cannot be written through, and stays valid when the segment is gone."""
    found = put(small, MESSAGE)
    with pytest.raises(TypeError):
        found.body_view[0] = 0
    small.log.files.destroy()
    assert found.body == b"some body"


def test_bytes_that_are_no_record_are_told(small: SmallLog) -> None:
    """`is_whole` says so without raising; the fields raise."""
    found = put(small, MESSAGE)
    assert found.is_whole
    assert not StoredMessage.of(found.record[:-1]).is_whole
    assert not StoredMessage.of(memoryview(bytes(200))).is_whole
    assert not StoredMessage.of(memoryview(b"")).is_whole
    with pytest.raises(RecordIllegal, match="at least 91 bytes"):
        _ = StoredMessage.of(memoryview(b"")).topic


def test_repr_says_where_it_lies(small: SmallLog) -> None:
    """Not its body."""
    found = put(small, Message("orders", b""))
    assert repr(found) == (
        "StoredMessage(topic='orders', queue_id=0, queue_offset=0, physical_offset=0, "
        f"store_size={found.store_size})"
    )


ZLIB = 0x300
SENT = b"the same again and " * 300
COMPRESSED_MESSAGE = Message("orders", zlib.compress(SENT), sys_flag=COMPRESSED | ZLIB | MULTI_TAGS)


def test_a_compressed_body_is_read_as_it_was_sent(small: SmallLog) -> None:
    """Body and sys flag belong together, as in RocketMQ's decoder: COMPRESSED is gone, how it was is kept."""
    found = put(small, COMPRESSED_MESSAGE)
    assert (found.body, bytes(found.body_view), found.decompressed_body()) == (SENT, SENT, SENT)
    assert found.is_compressed
    assert found.sys_flag == ZLIB | MULTI_TAGS


def test_the_stored_body_is_there_too(small: SmallLog) -> None:
    """With the sys flag and the CRC that belong to it; the view is lent from the mapping."""
    found = put(small, COMPRESSED_MESSAGE)
    assert found.stored_body == bytes(found.stored_body_view) == COMPRESSED_MESSAGE.body
    assert found.stored_sys_flag == COMPRESSED | ZLIB | MULTI_TAGS
    assert found.body_crc == zlib.crc32(found.stored_body_view) & 0x7FFF_FFFF
    assert found.stored_body_view.obj is found.record.obj


def test_a_compressed_message_is_put_again_as_it_is_stored(small: SmallLog) -> None:
    """Neither decompressed nor compressed twice: the same bytes, CRC and flag."""
    first = put(small, COMPRESSED_MESSAGE)
    second = put(small, first.to_message())
    assert (second.stored_body, second.body_crc, second.stored_sys_flag) == (
        first.stored_body,
        first.body_crc,
        first.stored_sys_flag,
    )


def test_the_limit_of_a_body_is_its_readers(small: SmallLog) -> None:
    """A body just as long as the limit is read, one byte longer is refused."""
    found = put(small, COMPRESSED_MESSAGE)
    assert found.decompressed_body(max_bytes=len(SENT)) == SENT
    with pytest.raises(BodyTooLarge) as caught:
        found.decompressed_body(max_bytes=len(SENT) - 1)
    assert (caught.value.physical_offset, caught.value.limit_bytes) == (0, len(SENT) - 1)


def test_a_body_that_is_not_what_the_flag_says_is_an_error(small: SmallLog) -> None:
    """All else of the message can be read."""
    found = put(small, Message("orders", b"never compressed", tags="paid", sys_flag=COMPRESSED))
    with pytest.raises(CorruptBody, match=r"at physical offset 0 .* ZLIB"):
        _ = found.body
    with pytest.raises(CorruptBody):
        _ = found.body_view
    assert (found.tags, found.stored_body) == ("paid", b"never compressed")


def test_an_empty_body_is_not_decompressed(small: SmallLog) -> None:
    """RocketMQ leaves it and its flag alone."""
    found = put(small, Message("orders", b"", sys_flag=COMPRESSED))
    assert (found.body, bytes(found.body_view), found.sys_flag) == (b"", b"", COMPRESSED)
    assert not found.is_compressed
