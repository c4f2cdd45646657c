"""Three directories written by Apache RocketMQ 5.3.3 itself: opened, and compared with their manifests.

`clean` was shut down, `killed` got kill -9 (abort file, an all-zero segment, checkpoint behind), `propcrc`
has the record CRC. Each is opened as it is, reading only, and as a copy that is recovered for writing. Every
field of all 1,995 records and every one of the 1,949 queue entries must be what RocketMQ said it wrote.
"""

import hashlib
import itertools
import shutil
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqstore import GetMessageStatus, Message, MessageStore, StoreConfig
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.store.record.batch_format import BatchElement, encode_batch
from mqstore.store.record.java_hash import string_hash
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.record.properties_format import encode_properties
from mqstore.store.record.record_format import (CRC_PROPERTY_BYTES, check_record, encode_topic)
from mqstore.store.record.record_template import (encode_record)
from mqstore.store.message.stored_message import StoredMessage
from support.golden.manifest import GOLDEN_NAMES, ExpectedRecord, expected_records, manifest_rows
from support.manual_clock import ManualClock

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1_048_576,
    max_message_size=900_000,
    mapped_file_size_consume_queue=6_000,
    max_hash_slot_num=500,
    max_index_num=2_000,
)
# A day after the last record of the three.
CLOCK_MS = 1_795_225_047_656 + 86_400_000
RECORDS, ENTRIES = 1_995, 1_949
LEVELS = DelayLevels.parse(CONFIG.message_delay_level)

MODES = ("read-only", "recovered copy", "recovered copy, opened again")


class Opened:
    """One of the directories, open."""

    def __init__(self, name: str, store: MessageStore) -> None:
        self.name = name
        self.store = store
        self.has_record_crc = name.endswith("propcrc")

    @property
    def expected(self) -> tuple[ExpectedRecord, ...]:
        return expected_records(self.name)

    def message(self, expected: ExpectedRecord) -> StoredMessage:
        found = self.store.look_message_by_offset(expected.physical_offset)
        assert found is not None, expected
        return found

    def own_properties(self, message: StoredMessage) -> bytes:
        """The properties string without the record CRC."""
        stored = bytes(message.properties_view)
        return stored[:-CRC_PROPERTY_BYTES] if self.has_record_crc else stored


@pytest.fixture(
    scope="module", params=[(name, mode) for name in GOLDEN_NAMES for mode in MODES], ids=" ".join
)
def opened(
    request: pytest.FixtureRequest,
    golden_directory: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Opened]:
    name, mode = request.param
    path = golden_directory(name)
    clock = ManualClock(CLOCK_MS)
    if mode != "read-only":
        path = copy_of(path, tmp_path_factory.mktemp("copy"))
    if mode == "recovered copy, opened again":
        MessageStore.open(path, CONFIG, clock=clock, start=False).close()
    with MessageStore.open(path, CONFIG, read_only=mode == "read-only", clock=clock, start=False) as store:
        yield Opened(name, store)


def copy_of(path: Path, target: Path) -> Path:
    return Path(shutil.copytree(path, target / path.name))


def digests(path: Path) -> dict[str, str]:
    """Every file under `path`, by its content."""
    files = (file for file in sorted(path.rglob("*")) if file.is_file())
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


# -- the log ------------------------------------------------------------------------------------------


def test_the_log_holds_every_record_and_no_other(opened: Opened) -> None:
    """Walked from its first byte to its last: 1,995 records, each where the manifest has it."""
    store, offset, found = opened.store, opened.store.min_offset, []
    while offset < store.max_offset:
        message = store.look_message_by_offset(offset)
        if message is None:
            offset = (offset // CONFIG.mapped_file_size_commit_log + 1) * CONFIG.mapped_file_size_commit_log
            continue
        check_record(message.record, offset)
        found.append(offset)
        offset += message.store_size
    assert found == [expected.physical_offset for expected in opened.expected]
    assert len(found) == RECORDS
    last = opened.message(opened.expected[-1])
    assert store.max_offset == last.physical_offset + last.store_size
    assert opened.store.recovery.damage is None


def test_every_field_of_every_record(opened: Opened) -> None:
    """Topic, queue, offsets, times, flags, id; and for single puts also size, properties and body."""
    for expected in opened.expected:
        message = opened.message(expected)
        assert message.topic == expected.topic
        assert message.queue_id == expected.queue_id
        assert message.queue_offset == (expected.queue_offset if expected.has_queue_entry else 0)
        assert message.physical_offset == expected.physical_offset
        assert message.store_timestamp == expected.store_timestamp
        assert message.stored_sys_flag == expected.sys_flag
        assert message.born_timestamp == expected.born_timestamp
        assert message.msg_id == expected.message_id
        assert message.body_crc == zlib.crc32(message.stored_body_view) & 0x7FFF_FFFF
        if expected.properties is None:
            continue
        assert message.store_size == len(message.record) == expected.store_size
        assert message.flag == expected.flag
        assert (len(message.stored_body), message.body_crc) == (expected.body_length, expected.body_crc)
        assert opened.own_properties(message) == expected.properties.encode()
        assert message.properties == expected.parsed_properties


def test_tags_keys_and_unique_keys_are_the_manifests(opened: Opened) -> None:
    """As RocketMQ's own message had them; an empty tag is lost on reading, repeated blanks make no key."""
    by_offset = {row["phy"]: row for row in manifest_rows(opened.name) if row["kind"] == "single"}
    for offset, row in by_offset.items():
        message = opened.store.look_message_by_offset(offset)
        assert message is not None
        assert message.tags == (row["tags"] or None)
        assert message.keys == tuple((row["keys"] or "").split())
        assert message.unique_key == row["uniq"]


def test_hosts_are_ipv4_and_ipv6(opened: Opened) -> None:
    """The bits of sysFlag say which; the ports are those of the writer."""
    hosts = {
        (str(m.born_host), str(m.store_host), m.sys_flag & 0x30) for m in map(opened.message, opened.expected)
    }
    assert {(born.startswith("["), store.startswith("["), bits) for born, store, bits in hosts} == {
        (False, False, 0x00),
        (True, False, 0x10),
        (False, True, 0x20),
        (True, True, 0x30),
    } & {(bool(bits & 0x10), bool(bits & 0x20), bits) for _, _, bits in hosts}
    assert {born for born, _, _ in hosts} == {"127.0.0.1:54321", "[2001:db8::1]:7"}
    assert {store for _, store, _ in hosts} == {"127.0.0.1:10911", "[2001:db8::2]:10911"}


def test_batches_are_split_as_the_broker_splits_them(opened: Opened) -> None:
    """Consecutive records; put together again, they are the very bytes that the client had sent."""
    batches = [row for row in manifest_rows(opened.name) if row["kind"] == "batch"]
    assert len(batches) == 19
    by_id = {expected.message_id: expected for expected in opened.expected}
    for row in batches:
        messages = [opened.message(by_id[message_id]) for message_id in row["msgid"].split(",")]
        assert len(messages) == row["msgnum"]
        assert sum(message.store_size for message in messages) == row["size"]
        assert messages[0].physical_offset == row["phy"]
        for before, after in itertools.pairwise(messages):
            assert after.physical_offset == before.physical_offset + before.store_size
            assert after.queue_offset == before.queue_offset + 1
        sent = encode_batch(client_element(opened, message, row["properties"]) for message in messages)
        assert (len(sent), zlib.crc32(sent) & 0x7FFF_FFFF) == (row["body_len"], row["body_crc"])


def client_element(opened: Opened, message: StoredMessage, batch_properties: str) -> BatchElement:
    """The element that the client sent: 5.3.3 has appended the batch's own properties to it."""
    properties = opened.own_properties(message)
    assert properties.endswith(batch_properties.encode())
    own = properties[: len(properties) - len(batch_properties.encode())]
    return BatchElement(message.stored_body, own, message.flag)


def test_encoding_a_decoded_record_gives_the_same_bytes(opened: Opened) -> None:
    """Every record, record CRC included; only the properties' own text is taken over as it is."""
    for expected in opened.expected:
        message = opened.message(expected)
        topic_field, magic = encode_topic(message.topic)
        encoded = encode_record(
            magic=magic,
            topic_field=topic_field,
            body=message.stored_body,
            properties=opened.own_properties(message),
            queue_id=message.queue_id,
            flag=message.flag,
            queue_offset=message.queue_offset,
            physical_offset=message.physical_offset,
            sys_flag=message.stored_sys_flag,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host.encode(),
            store_timestamp=message.store_timestamp,
            store_host=message.store_host.encode(),
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
            append_crc=opened.has_record_crc,
        )
        assert encoded == message.record, expected


# -- the queues ---------------------------------------------------------------------------------------


def queues_of(records: tuple[ExpectedRecord, ...]) -> dict[tuple[str, int], list[ExpectedRecord]]:
    """The records of each queue that have an entry, in its order."""
    queues = defaultdict(list)
    for expected in records:
        if expected.has_queue_entry:
            queues[expected.topic, expected.queue_id].append(expected)
    return dict(queues)


def tags_code(message: StoredMessage) -> int:
    """The hash of the tag; in the schedule topic, when the message is due."""
    delay = message.properties.get("DELAY")
    if message.topic == SCHEDULE_TOPIC and delay is not None:
        return message.store_timestamp + LEVELS.delay_ms(min(int(delay), LEVELS.max_level))
    return string_hash(message.tags or "")


def test_every_queue_entry(opened: Opened) -> None:
    """Offset, size and tags code of all 1,949, and the bounds of each queue."""
    queues = queues_of(opened.expected)
    assert opened.store.consume_queues.queues() == sorted(queues)
    assert sum(map(len, queues.values())) == ENTRIES
    for (topic, queue_id), records in queues.items():
        assert [expected.queue_offset for expected in records] == list(range(len(records)))
        assert opened.store.get_min_offset_in_queue(topic, queue_id) == 0
        assert opened.store.get_max_offset_in_queue(topic, queue_id) == len(records)
        queue = opened.store.consume_queues.find(topic, queue_id)
        assert queue is not None
        for expected in records:
            message = opened.message(expected)
            entry = queue.entry_at(expected.queue_offset)
            assert entry == (expected.physical_offset, message.store_size, tags_code(message))


def test_every_queue_can_be_pulled_to_its_end(opened: Opened) -> None:
    """By following next_begin_offset: every message once, in order, then OFFSET_OVERFLOW_ONE."""
    for (topic, queue_id), records in queues_of(opened.expected).items():
        offset, pulled = 0, []
        while True:
            result = opened.store.get_message("test", topic, queue_id, offset)
            if result.status is not GetMessageStatus.FOUND:
                break
            pulled += [message.physical_offset for message in result.messages]
            offset = result.next_begin_offset
        assert result.status is GetMessageStatus.OFFSET_OVERFLOW_ONE
        assert pulled == [expected.physical_offset for expected in records]


@pytest.mark.parametrize("tag", ["TagA", "naïve"])
def test_pulling_by_tag_gives_exactly_its_messages(opened: Opened, tag: str) -> None:
    """Filtered by hash and then by string."""
    topic, queue_id = "TopicA", 0
    wanted = [
        expected.physical_offset
        for expected in queues_of(opened.expected)[topic, queue_id]
        if opened.message(expected).tags == tag
    ]
    assert wanted
    offset, pulled = 0, []
    end = opened.store.get_max_offset_in_queue(topic, queue_id)
    while offset < end:
        result = opened.store.get_message("test", topic, queue_id, offset, tags=tag)
        pulled += [message.physical_offset for message in result.messages]
        offset = result.next_begin_offset
    assert pulled == wanted


def test_every_queue_is_found_by_time(opened: Opened) -> None:
    """The first message stored at or after a time, and the last at or before it."""
    for (topic, queue_id), records in queues_of(opened.expected).items():
        times = [expected.store_timestamp for expected in records]
        for time in {times[0] - 1, times[0], times[len(times) // 2], times[-1], times[-1] + 1}:
            lower = opened.store.get_offset_in_queue_by_time(topic, queue_id, time)
            upper = opened.store.get_offset_in_queue_by_time(topic, queue_id, time, "UPPER")
            assert lower == sum(stored < time for stored in times)
            assert upper == max(0, sum(stored <= time for stored in times) - 1)


# -- keys ---------------------------------------------------------------------------------------------


def test_every_key_finds_its_messages(opened: Opened) -> None:
    """Unique keys and keys, of all but rollback records, oldest first, and no others."""
    by_key = defaultdict(set)
    for expected in opened.expected:
        message = opened.message(expected)
        if message.stored_sys_flag & 0xC != 0xC:
            for key in (message.unique_key, *message.keys):
                if key:
                    by_key[message.topic, key].add(message.physical_offset)
    assert len(by_key) > 1_900
    for (topic, key), offsets in by_key.items():
        found = opened.store.query_message(topic, key, max_num=10_000)
        assert [message.physical_offset for message in found] == sorted(offsets), (topic, key)


# -- what opening leaves behind -----------------------------------------------------------------------


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_reading_only_changes_nothing(name: str, golden_copy: Callable[[str], Path]) -> None:
    """No byte of any file, and no file more or less."""
    path = golden_copy(name)
    before = digests(path)
    with MessageStore.open(path, CONFIG, read_only=True, clock=ManualClock(CLOCK_MS)) as store:
        store.get_message("test", "TopicA", 0, 0)
        store.query_message("TopicA", "k0")
        store.stats()
    assert digests(path) == before


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_recovery_changes_no_record_and_no_entry(name: str, golden_copy: Callable[[str], Path]) -> None:
    """Opened for writing and closed: log and queues are byte for byte RocketMQ's; only the segment that was
    created ahead is gone, and so is `abort`."""
    path = golden_copy(name)
    before = digests(path)
    MessageStore.open(path, CONFIG, clock=ManualClock(CLOCK_MS), start=False).close()
    after = digests(path)
    kept = {file: digest for file, digest in before.items() if file.startswith(("commitlog", "consumequeue"))}
    kept.pop("commitlog/00000000000002097152", None)
    assert {
        file: digest for file, digest in after.items() if file.startswith(("commitlog", "consumequeue"))
    } == kept
    assert "abort" not in after


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_a_backup_is_byte_for_byte_the_brokers(
    name: str, golden_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    """Log and queues of a broker's directory; the source is as it was, and the state files say the same."""
    path = golden_copy(name)
    before = digests(path)
    with MessageStore.open(path, CONFIG, read_only=True, clock=ManualClock(CLOCK_MS)) as store:
        offsets = list(store.consumer_offsets)
        store.backup(tmp_path / "backup")
    assert digests(path) == before
    after = digests(tmp_path / "backup")
    kept = {file: digest for file, digest in before.items() if file.startswith(("commitlog", "consumequeue"))}
    kept.pop("commitlog/00000000000002097152", None)
    assert {
        file: digest for file, digest in after.items() if file.startswith(("commitlog", "consumequeue"))
    } == kept
    assert not {"abort", "lock"} & after.keys()
    with MessageStore.open(tmp_path / "backup", CONFIG, read_only=True) as backup:
        assert list(backup.consumer_offsets) == offsets


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_queues_rebuilt_from_the_log_are_rocketmqs(name: str, golden_copy: Callable[[str], Path]) -> None:
    """All queues deleted: what is built anew is byte-identical to what the broker had written."""
    path = golden_copy(name)
    before = digests(path / "consumequeue")
    shutil.rmtree(path / "consumequeue")
    MessageStore.open(path, CONFIG, clock=ManualClock(CLOCK_MS), start=False).close()
    assert digests(path / "consumequeue") == before


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_a_recovered_directory_goes_on(name: str, golden_copy: Callable[[str], Path]) -> None:
    """The next message of each queue gets the next offset, is found at once, and is there after reopening."""
    path = golden_copy(name)
    clock = ManualClock(CLOCK_MS)
    queues = {
        queue: records
        for queue, records in queues_of(expected_records(name)).items()
        if queue[0] != SCHEDULE_TOPIC
    }
    with MessageStore.open(path, CONFIG, clock=clock, start=False) as store:
        for (topic, queue_id), records in queues.items():
            put = store.put_message(Message(topic, b"next", queue_id=queue_id, keys="next"))
            assert put.queue_offset == len(records)
    with MessageStore.open(path, CONFIG, clock=clock, start=False) as store:
        for (topic, queue_id), records in queues.items():
            (message,) = store.get_message("test", topic, queue_id, len(records)).messages
            assert message.body == b"next"
            assert store.get_max_offset_in_queue(topic, queue_id) == len(records) + 1
            found = store.query_message(topic, "next", max_num=100)
            assert message.physical_offset in [each.physical_offset for each in found]


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_delayed_messages_of_the_broker_are_delivered(name: str, golden_copy: Callable[[str], Path]) -> None:
    """Each to its own topic and queue, when it is due and not before, with its properties as they were."""
    path = golden_copy(name)
    clock = ManualClock(min(expected.store_timestamp for expected in expected_records(name)))
    waiting = [r for r in expected_records(name) if r.topic == SCHEDULE_TOPIC and r.has_queue_entry]
    assert len(waiting) == 30
    with MessageStore.open(path, CONFIG, clock=clock, start=False) as store:
        assert store.deliver_due() == 0
        clock.advance(86_400_000)
        end = store.max_offset
        assert store.deliver_due() == len(waiting)
        assert store.deliver_due() == 0
        delivered = []
        offset = end
        while (message := store.look_message_by_offset(offset)) is not None:
            delivered.append((message.topic, str(message.queue_id), message.properties, message.stored_body))
            offset += message.store_size
        originals = [store.look_message_by_offset(record.physical_offset) for record in waiting]
        wanted = [
            (m.properties["REAL_TOPIC"], m.properties["REAL_QID"], m.properties, m.stored_body)
            for m in originals
            if m
        ]
    assert sorted(delivered, key=repr) == sorted(wanted, key=repr)


def test_our_encoder_writes_the_properties_that_were_parsed(opened: Opened) -> None:
    """Where no value was empty, parsing and encoding gives the broker's own string."""
    whole = 0
    for expected in opened.expected:
        if expected.properties is None or "\x01\x02" in expected.properties:
            continue
        assert encode_properties(expected.parsed_properties) == expected.properties.encode()
        whole += 1
    assert whole > 1_000
