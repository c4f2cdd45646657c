"""A stored message: every field of a record, and the message that would be put again."""

import copy
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path
from types import GetSetDescriptorType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqstore.store.errors import BodyTooLarge, CorruptBody, TopicIllegal
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


def test_bytes_that_are_no_record_can_be_shown() -> None:
    """In a log line, say."""
    message = StoredMessage.of(memoryview(bytes(1_000)))
    assert repr(message) == str(message) == "StoredMessage(1,000 bytes that are no record)"


@pytest.mark.parametrize(
    ("body", "shown"),
    [(b"42.00", "body=b'42.00')"), (bytes(100), f"body={bytes(48)!r} and 52 bytes)"), (b"", "body=b'')")],
)
def test_print_shows_what_is_in_it(small: SmallLog, body: bytes, shown: str) -> None:
    """Tags, keys and the start of the body."""
    text = str(put(small, Message("orders", body, tags="created", keys=("o-1", "o-2"))))
    assert text.endswith(f", tags='created', keys=('o-1', 'o-2'), {shown}")
    plain = put(small, Message("orders", body))
    assert str(plain).endswith(f"store_size={plain.store_size}, {shown}")


def test_print_shows_what_can_be_read(small: SmallLog) -> None:
    """A body that is not what its flag says is left out."""
    message = put(small, Message("orders", b"no zlib", tags="created", sys_flag=COMPRESSED))
    assert str(message).endswith("tags='created')")


@pytest.mark.parametrize(
    "copied",
    [StoredMessage.detached, copy.deepcopy, lambda message: pickle.loads(pickle.dumps(message))],
)
def test_a_copy_has_bytes_of_its_own(
    small: SmallLog, copied: Callable[[StoredMessage], StoredMessage]
) -> None:
    """And the same fields, also after the log is closed and its mapping is gone."""
    message = put(small, Message("orders", b"42.00", tags="created", keys="o-1", properties={"a": "b"}))
    found = copied(message)
    assert type(found.data.obj) is bytes
    assert found.record == message.record
    assert (found.topic, found.body, found.properties, found.physical_offset) == (
        message.topic,
        message.body,
        message.properties,
        message.physical_offset,
    )


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


FIELDS = [
    name
    for name, member in vars(StoredMessage).items()
    if isinstance(member, property | GetSetDescriptorType)
    and not name.startswith("_")
    and name not in ("record", "layout")  # positions in other bytes
]
HOSTS = st.sampled_from([None, Host.parse("10.0.0.1:4"), Host.parse("[2001:db8::1]:1")])
ANY = st.builds(
    Message,
    topic=st.sampled_from(["a", "b" * 127, "%RETRY%" + "g" * 121, "%RETRY%" + "é" * 60]),
    body=st.one_of(st.binary(max_size=20), st.just(zlib.compress(SENT))),
    tags=st.sampled_from([None, "t", "ü" * 200]),
    properties=st.sampled_from([{}, {"UNIQ_KEY": "U"}, {"a": "b" * 300}]),
    queue_id=st.sampled_from([0, 7, 2**31 - 1]),
    flag=st.sampled_from([0, -5]),
    sys_flag=st.sampled_from([0, MULTI_TAGS, COMPRESSED | ZLIB, 0x4, 0x8]),
    born_timestamp=st.sampled_from([None, 0, 2**63 - 1]),
    born_host=HOSTS,
    reconsume_times=st.sampled_from([0, 3, 2**31 - 1]),
    prepared_transaction_offset=st.sampled_from([0, 2**40]),
)


def field_of(message: StoredMessage, name: str) -> object:
    try:
        return getattr(message, name)
    except CorruptBody:
        return CorruptBody


@settings(deadline=None, max_examples=60)
@given(ANY, st.booleans(), st.data())
def test_a_field_is_the_same_however_it_is_read(message: Message, is_ipv6: bool, data: st.DataObject) -> None:
    """Where it lies, from a decoded header, or of bytes of which nothing is known yet; in any order."""
    host = Host.parse("[2001:db8::7]:4711" if is_ipv6 else "127.0.0.1:10911")
    small = SmallLog(MemoryFileSystem(), Path("/log"), store_host=host)
    small.append()
    try:
        found = put(small, message)
    except TopicIllegal:
        return
    unknown = memoryview(bytes(found.record) + b"more")
    assert found.body_start >= 0 or message.sys_flag & COMPRESSED or len(message.topic) > 127
    for name in data.draw(st.permutations(FIELDS)):
        expected = field_of(StoredMessage.of(unknown), name)
        fresh = StoredMessage(found.data, found.start, found.stop, found.body_start, found.body_stop)
        assert field_of(fresh, name) == field_of(found, name) == expected, name
