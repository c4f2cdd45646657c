"""Every hex sample of RocketMQ's format that we know, byte for byte: encoded to it, and decoded from it.

The samples were taken from Apache RocketMQ's own encoder (or checked with its decoder). They are carried
here, so that the test needs nothing beside itself.
"""

import json
import zlib

import pytest

from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY, PRE_BLANK_ENTRY, blank_entries
from mqstore.index.index_file.index_file_format import (
    IndexEntry,
    IndexHeader,
    decode_entry,
    decode_header as decode_index_header,
    encode_entry,
    encode_header,
    encode_slot,
    entry_position,
    file_size_bytes,
    key_hash,
    slot_of,
    slot_position,
)
from mqstore.schedule.delay.timer_log_format import (
    TimerUnit,
    WheelSlot,
    decode_unit,
    decode_wheel_slot,
    encode_unit,
    encode_wheel_slot,
)
from mqstore.store.state import state_file_format
from mqstore.store.record.batch_format import BatchElement, decode_batch, encode_batch
from mqstore.store.state.checkpoint_format import Checkpoint, decode_checkpoint, encode_checkpoint
from mqstore.store.record.host import Host
from mqstore.store.record.java_hash import string_hash
from mqstore.store.files.file_names import file_name
from mqstore.store.record.message_id import decode_message_id, encode_message_id
from mqstore.store.record.properties_format import encode_properties, parse_properties
from mqstore.store.record.record_format import (BLANK_MAGIC_CODE, MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2, body_crc, check_record, crc_property, encode_blank, encode_topic)
from mqstore.store.record.record_template import (encode_record)
from mqstore.store.message.stored_message import StoredMessage
from support.stores.state_file_samples import STATE_FILES

BORN, STORED = 1_726_740_000_000, 1_726_740_000_123


def hexed(text: str) -> bytes:
    """Bytes of a hex dump; offsets at the beginning of a line are left out."""
    lines = [line.partition("  ")[2] or line for line in text.strip().splitlines()]
    return bytes.fromhex("".join(lines))


SAMPLE_A = hexed("""
0000  00 00 00 89 da a3 20 a7 69 c8 65 ed 00 00 00 03
0010  00 00 00 00 00 00 00 00 00 00 00 05 00 00 00 00
0020  00 00 00 00 00 00 00 00 00 00 01 92 09 b9 6d 00
0030  0a 00 00 01 00 00 d4 31 00 00 01 92 09 b9 6d 7b
0040  c0 a8 01 0a 00 00 2a 9f 00 00 00 00 00 00 00 00
0050  00 00 00 00 00 00 00 0e 48 65 6c 6c 6f 20 52 6f
0060  63 6b 65 74 4d 51 09 54 6f 70 69 63 54 65 73 74
0070  00 17 4b 45 59 53 01 6f 72 64 65 72 2d 31 02 54
0080  41 47 53 01 54 61 67 41 02
""")

SAMPLE_B = hexed("""
0000  00 00 00 75 da a3 20 a7 71 be ef f9 00 00 00 00
0010  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0020  00 00 00 00 00 00 00 30 00 00 00 00 00 00 00 01
0030  20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01
0040  00 00 00 01 00 00 00 00 00 00 00 02 20 01 0d b8
0050  00 00 00 00 00 00 00 00 00 00 00 02 00 00 2a 9f
0060  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01
0070  62 01 54 00 00
""")

PROPERTIES_OF_A = {"KEYS": "order-1", "TAGS": "TagA"}


def encode(topic: str, body: bytes, properties: dict[str, str], *, append_crc: bool = False, **fields: object) -> bytes:
    """A record with the fields of sample A where nothing else is said."""
    topic_field, magic = encode_topic(topic)
    values: dict[str, object] = {
        "queue_id": 0,
        "flag": 0,
        "queue_offset": 0,
        "physical_offset": 0,
        "sys_flag": 0,
        "born_timestamp": BORN,
        "born_host": Host.parse("10.0.0.1:54321").encode(),
        "store_timestamp": STORED,
        "store_host": Host.parse("192.168.1.10:10911").encode(),
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
    }
    return encode_record(
        magic=magic,
        topic_field=topic_field,
        body=body,
        properties=encode_properties(properties),
        append_crc=append_crc,
        **(values | fields),  # type: ignore[arg-type]
    )


# -- the commit log -----------------------------------------------------------------------------------------


def test_sample_a() -> None:
    """V1, two IPv4 hosts, 137 bytes: every field, both ways."""
    record = encode("TopicTest", b"Hello RocketMQ", PROPERTIES_OF_A, queue_id=3, queue_offset=5)
    assert record == SAMPLE_A
    message = StoredMessage.of(memoryview(SAMPLE_A))
    check_record(message.record, 0)
    assert (message.store_size, message.topic, message.queue_id, message.flag) == (137, "TopicTest", 3, 0)
    assert (message.queue_offset, message.physical_offset, message.sys_flag) == (5, 0, 0)
    assert (message.born_timestamp, str(message.born_host)) == (BORN, "10.0.0.1:54321")
    assert (message.store_timestamp, str(message.store_host)) == (STORED, "192.168.1.10:10911")
    assert (message.body, message.body_crc) == (b"Hello RocketMQ", 1_774_740_973)
    assert (message.properties, message.tags, message.keys) == (PROPERTIES_OF_A, "TagA", ("order-1",))
    assert (message.reconsume_times, message.prepared_transaction_offset) == (0, 0)
    assert message.msg_id == "C0A8010A00002A9F0000000000000000"


def test_sample_a_with_the_record_crc() -> None:
    """157 bytes, the CRC's digits reversed and padded."""
    record = encode("TopicTest", b"Hello RocketMQ", PROPERTIES_OF_A, queue_id=3, queue_offset=5, append_crc=True)
    ending = hexed("5f 5f 43 52 43 33 32 23 01 36 30 35 35 38 31 31 33 36 30 02")
    assert record[-20:] == ending == crc_property(631_185_506)
    assert record[:4].hex(" ") == "00 00 00 9d"
    assert record[0x70:0x72].hex(" ") == "00 2b"
    assert record[4:0x70] + record[0x72:-20] == SAMPLE_A[4:0x70] + SAMPLE_A[0x72:]
    assert zlib.crc32(record[:-20]) & 0x7FFF_FFFF == 631_185_506
    check_record(memoryview(record), 0)
    assert StoredMessage.of(memoryview(record)).properties == PROPERTIES_OF_A


def test_sample_b() -> None:
    """V1, two IPv6 hosts, 117 bytes, no properties."""
    record = encode(
        "T",
        b"b",
        {},
        sys_flag=0x30,
        born_timestamp=1,
        born_host=Host.parse("[2001:db8::1]:1").encode(),
        store_timestamp=2,
        store_host=Host.parse("[2001:db8::2]:10911").encode(),
    )
    assert record == SAMPLE_B
    message = StoredMessage.of(memoryview(SAMPLE_B))
    check_record(message.record, 0)
    assert (message.topic, message.body, message.properties) == ("T", b"b", {})
    assert (message.born_timestamp, str(message.born_host)) == (1, "[2001:db8::1]:1")
    assert (message.store_timestamp, str(message.store_host)) == (2, "[2001:db8::2]:10911")
    assert message.msg_id == "20010DB800000000000000000000000200002A9F0000000000000000"


def test_sample_c() -> None:
    """V2, a topic of 128 characters, 221 bytes."""
    topic = "%RETRY%" + "g" * 121
    record = encode(topic, b"x", {}, physical_offset=137, reconsume_times=1)
    assert len(record) == 221
    assert record[:12].hex(" ") == "00 00 00 dd da a3 20 ab 0c dc 16 83"
    assert record[0x58:0x5B].hex(" ") == "78 00 80"
    assert record[28:36] == (137).to_bytes(8, "big")
    message = StoredMessage.of(memoryview(record))
    check_record(message.record, 137)
    assert (message.topic, message.body, message.reconsume_times) == (topic, b"x", 1)


def test_magic_codes() -> None:
    """As signed integers and as they stand in a hex dump."""
    magics = {MESSAGE_MAGIC_CODE: "DAA320A7", MESSAGE_MAGIC_CODE_V2: "DAA320AB", BLANK_MAGIC_CODE: "CBD43194"}
    assert list(magics) == [-626_843_481, -626_843_477, -875_286_124]
    for value, text in magics.items():
        assert value.to_bytes(4, "big", signed=True) == bytes.fromhex(text)


@pytest.mark.parametrize(
    ("length", "text"), [(200, "00 00 00 c8 cb d4 31 94"), (8, "00 00 00 08 cb d4 31 94")]
)
def test_blank_records(length: int, text: str) -> None:
    """The rest of a segment, then the magic."""
    assert encode_blank(length) == hexed(text)


@pytest.mark.parametrize(
    ("body", "crc"),
    [(b"hello", 0x3610A686), (b"hello", 907_060_870), (b"123456789", 1_274_296_614), (b"123456789", 0x4BF43926), (b"", 0)],
)
def test_body_crcs(body: bytes, crc: int) -> None:
    """CRC-32 without its sign bit."""
    assert body_crc(body) == crc


def test_properties_parse_example() -> None:
    """What is no pair is dropped; a value may hold 0x01."""
    stored = b"A\x02B\x01x\x02C\x01y\x01z\x02\x01q\x02D\x01w"
    assert parse_properties(stored) == {"B": "x", "C": "y\x01z", "D": "w"}


def test_batch_example() -> None:
    """One element of 45 bytes, as a client sends it."""
    sample = hexed(
        "0000002d 00000000 00000000 00000000 00000002 6869 0015"
        "54414753015461674102554e49515f4b4559015802"
    )
    element = BatchElement(b"hi", encode_properties({"TAGS": "TagA", "UNIQ_KEY": "X"}))
    assert encode_batch([element]) == sample
    assert decode_batch(sample) == [element]
    assert decode_batch(sample * 3) == [element] * 3


@pytest.mark.parametrize(
    ("host", "offset", "text"),
    [
        ("192.168.1.10:10911", 0, "C0A8010A00002A9F0000000000000000"),
        ("192.168.1.10:10911", 1_024, "C0A8010A00002A9F0000000000000400"),
        ("[2001:db8::2]:10911", 1_024, "20010DB800000000000000000000000200002A9F0000000000000400"),
    ],
)
def test_message_ids(host: str, offset: int, text: str) -> None:
    """Store host and physical offset, in upper-case hex."""
    assert encode_message_id(Host.parse(host).encode(), offset) == text
    assert decode_message_id(text) == (Host.parse(host), offset)


@pytest.mark.parametrize(
    ("offset", "name"), [(0, "00000000000000000000"), (1_073_741_824, "00000000001073741824")]
)
def test_segment_names(offset: int, name: str) -> None:
    """Twenty digits."""
    assert file_name(offset) == name


# -- the consume queue ------------------------------------------------------------------------------------------


def test_consume_queue_unit() -> None:
    """Of record A at offset 0: where it lies, how long it is, the hash of its tag."""
    sample = hexed("00 00 00 00 00 00 00 00  00 00 00 89  00 00 00 00 00 27 a8 07".replace("  ", " "))
    assert ENTRY.pack(0, 137, string_hash("TagA")) == sample
    assert ENTRY.unpack(sample) == (0, 137, 2_598_919)


def test_consume_queue_pre_blank_unit() -> None:
    """What fills a file before a queue's first entry."""
    sample = hexed("00 00 00 00 00 00 00 00 7f ff ff ff 00 00 00 00 00 00 00 00")
    assert sample == PRE_BLANK_ENTRY
    assert blank_entries(7) == sample * 7
    assert ENTRY.unpack(sample) == (0, BLANK_SIZE, 0)


@pytest.mark.parametrize(
    ("tags_code", "text"), [(-1, "ff ff ff ff ff ff ff ff"), (STORED + 10_000, "00 00 01 92 09 b9 94 8b")]
)
def test_consume_queue_tags_codes(tags_code: int, text: str) -> None:
    """A hash is sign-extended; in the schedule topic it is the deliver time."""
    sample = bytes(12) + hexed(text)
    assert ENTRY.pack(0, 0, tags_code) == sample
    assert ENTRY.unpack(sample)[2] == tags_code


# -- the checkpoint -------------------------------------------------------------------------------------------------


def test_checkpoint() -> None:
    """The first forty bytes, and eight more of 5.5.0."""
    sample = hexed("0000019209b96d7b 0000019209b96d7b 0000000000000000 0000000000000000 0000000000000000")
    sample += bytes(8)
    assert encode_checkpoint(Checkpoint(STORED, STORED)) == sample
    assert decode_checkpoint(sample) == Checkpoint(STORED, STORED)


# -- the index file -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "hash_of_key", "slot", "address", "entry_number", "position", "text"),
    [
        (
            "0A00000112345678ABCD000000010001",
            742_058_140,
            2_058_140,
            8_232_600,
            1,
            20_000_060,
            "2c3ae89c 0000000000000000 00000000 00000000",
        ),
        (
            "order-1",
            1_829_193_424,
            4_193_424,
            16_773_736,
            2,
            20_000_080,
            "6d0746d0 0000000000000000 00000000 00000000",
        ),
    ],
)
def test_index_file_example(
    key: str, hash_of_key: int, slot: int, address: int, entry_number: int, position: int, text: str
) -> None:
    """Hash, slot, addresses and entry of both keys of a message."""
    assert key_hash("TopicTest", key) == hash_of_key
    assert (slot_of(hash_of_key), slot_position(slot)) == (slot, address)
    assert entry_position(entry_number) == position
    entry = IndexEntry(hash_of_key, 0, 0, 0)
    assert encode_entry(entry) == hexed(text)
    assert decode_entry(hexed(text)) == entry
    assert encode_slot(entry_number) == entry_number.to_bytes(4, "big")


def test_index_file_header() -> None:
    """After the two keys of the example; and the length of a file."""
    sample = hexed("0000019209b96d7b 0000019209b96d7b 0000000000000000 0000000000000000 00000002 00000003")
    header = IndexHeader(STORED, STORED, 0, 0, 2, 3)
    assert encode_header(header) == sample
    assert decode_index_header(sample) == header
    assert file_size_bytes() == 420_000_040
    assert key_hash("", "") == ord("#")


def test_index_hash_of_the_least_integer_is_zero() -> None:
    """Java's abs leaves it negative."""
    assert string_hash("polygenelubricants") == -(2**31)
    assert string_hash("TopicTest#order-1") == -1_829_193_424


# -- the timer log ----------------------------------------------------------------------------------------------------


def test_timer_log_unit() -> None:
    """52 bytes, first of its slot."""
    sample = hexed(
        "00000034 ffffffffffffffff 00000001 0000019209b96d00 00002710 0000000000001000 0000012c 8e987641"
        "0000000000000000"
    )
    unit = TimerUnit(-1, 1, BORN, 10_000, 4_096, 300, string_hash("TopicTest"))
    assert unit.topic_hash == -1_902_610_879
    assert encode_unit(unit) == sample
    assert decode_unit(sample) == unit


def test_timer_wheel_slot() -> None:
    """Ten seconds later: tick, both ends of the chain, one message."""
    slot = WheelSlot((BORN + 10_000) // 1_000, 0, 0, 1)
    sample = hexed("0000000066ebf62a") + bytes(16) + hexed("00000001 00000000")
    assert encode_wheel_slot(slot) == sample
    assert decode_wheel_slot(sample) == slot


# -- the state files ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("text", "state"), STATE_FILES.values(), ids=STATE_FILES)
def test_state_files(text: str, state: dict[str, object]) -> None:
    """fastjson's text: tabs, unquoted integer keys on one line, a closing brace of its own, no final newline."""
    assert state_file_format.encode(state) == text.encode()
    decoded = state_file_format.decode(text.encode())
    assert decoded == json.loads(json.dumps(state))
