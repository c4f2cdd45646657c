"""The topics: RocketMQ's file both ways, how topics come to be, and refusals that change nothing."""

import re
from pathlib import Path
from typing import Any

import pytest

from mqstore.metadata.topics import TOPICS_FILE_NAME, Perm, TopicConfig, TopicConfigs
from mqstore.store.errors import (
    QueueIllegal,
    StateFileCorrupt,
    StoreFull,
    StoreReadOnly,
    TopicIllegal,
    TopicNotExist,
)
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.state import state_file_format
from mqstore.store.status import ResponseCode
from support.manual_clock import ManualClock
from support.stores.state_file_samples import STATE_FILES

# The specification's sample, in a whole file.
SAMPLE = STATE_FILES["topics.json"][0].encode()


def open_topics(file_system: FileSystem, directory: Path, **settings: object) -> TopicConfigs:
    topics = TopicConfigs(file_system, directory, ManualClock(1726740000000), **settings)  # type: ignore[arg-type]
    topics.load()
    return topics


def write_file(file_system: FileSystem, directory: Path, text: bytes) -> None:
    file_system.make_directories(directory)
    file_system.write(directory / TOPICS_FILE_NAME, text)


def test_a_new_store_has_the_system_topics(file_system: FileSystem, tmp_path: Path) -> None:
    """The schedule topic with 18 queues and the template of automatic topics; nothing is on disk yet."""
    topics = open_topics(file_system, tmp_path)
    assert [(config.topic_name, config.write_queue_nums, config.perm) for config in topics] == [
        ("SCHEDULE_TOPIC_XXXX", 18, 6),
        ("TBW102", 8, 7),
    ]
    assert file_system.list(tmp_path) == []


def test_the_sample_is_read_and_written_byte_for_byte(file_system: FileSystem, tmp_path: Path) -> None:
    """RocketMQ's own text of a topic, among the system topics that were added."""
    write_file(file_system, tmp_path, SAMPLE)
    topics = open_topics(file_system, tmp_path)
    assert topics.get("%RETRY%GroupA") == TopicConfig(
        topic_name="%RETRY%GroupA", read_queue_nums=1, write_queue_nums=1
    )
    assert topics.persist()
    written = file_system.read(tmp_path / TOPICS_FILE_NAME)
    sample_lines = SAMPLE.split(b"\n")[6:17]
    assert b"\n".join(sample_lines[1:-1]) in written
    assert not topics.persist()


def test_fields_of_other_releases_survive(file_system: FileSystem, tmp_path: Path) -> None:
    """Unknown fields of the file and of a topic, and attributes, are written back; 4.9 has no attributes."""
    topic = {"attributes": {"message.type": "FIFO"}, "colour": {"of": "sky"}, "topicName": "a", "perm": 4}
    text = {"mapping": {"x": 1}, "topicConfigTable": {"a": topic, "old": {"topicName": "old"}}}
    write_file(file_system, tmp_path, state_file_format.encode(text))
    topics = open_topics(file_system, tmp_path)
    assert topics.get("old") == TopicConfig(topic_name="old")
    topics.persist()
    state = state_file_format.decode(file_system.read(tmp_path / TOPICS_FILE_NAME))
    assert state["mapping"] == {"x": 1}
    assert state["topicConfigTable"]["a"] == topic | {
        "order": False,
        "readQueueNums": 16,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "writeQueueNums": 16,
    }


def test_create_is_durable_on_return(file_system: FileSystem, tmp_path: Path) -> None:
    """Another open finds the topic without any persist."""
    config = open_topics(file_system, tmp_path).create("flights", queue_nums=4)
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (4, 4, 6)
    assert open_topics(file_system, tmp_path).get("flights") == config


def test_create_changes_what_exists(file_system: FileSystem, tmp_path: Path) -> None:
    """What create does not speak of stays; the version counts changes, not calls."""
    write_file(file_system, tmp_path, b'{"topicConfigTable":{"a":{"topicName":"a","topicSysFlag":2,"x":7}}}')
    topics = open_topics(file_system, tmp_path)
    before = topics.data_version.counter
    config = topics.create(
        "a", read_queue_nums=4, write_queue_nums=2, perm=Perm.READ, attributes={"message.type": "FIFO"}
    )
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (4, 2, 4)
    assert (config.topic_sys_flag, config.unknown, config.attributes) == (
        2,
        {"x": 7},
        {"message.type": "FIFO"},
    )
    assert topics.create("a", read_queue_nums=4, write_queue_nums=2, perm=4) == config
    assert topics.data_version.counter == before + 1


def test_a_topic_comes_to_be_at_its_first_use(file_system: FileSystem, tmp_path: Path) -> None:
    """With the default number of queues and TBW102's perm; durable at the next persist."""
    topics = open_topics(file_system, tmp_path, default_topic_queue_nums=5)
    config = topics.find("orders")
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (5, 5, 6)
    assert topics.find("orders") is config
    assert open_topics(file_system, tmp_path).get("orders") is None
    topics.persist()
    assert open_topics(file_system, tmp_path).get("orders") == config


def test_a_topic_does_not_come_to_be_where_that_is_off(file_system: FileSystem, tmp_path: Path) -> None:
    """TopicNotExist names the topic; a topic that exists is found all the same."""
    topics = open_topics(file_system, tmp_path, auto_create_topic_enable=False)
    assert "TBW102" not in topics
    with pytest.raises(TopicNotExist) as caught:
        topics.find("orders")
    assert caught.value.topic == "orders"
    topics.create("orders")
    assert topics.find("orders").write_queue_nums == 8


def test_ensure_takes_what_exists(file_system: FileSystem, tmp_path: Path) -> None:
    """A retry topic keeps its settings once it is there."""
    topics = open_topics(file_system, tmp_path)
    config = topics.ensure("%RETRY%g", 1, topic_sys_flag=2)
    assert (config.write_queue_nums, config.perm, config.topic_sys_flag) == (1, 6, 2)
    assert topics.ensure("%RETRY%g", 7) is config


@pytest.mark.parametrize("name", ["", "a b", "x" * 128])
def test_an_illegal_name_creates_nothing(name: str) -> None:
    """By none of the three ways."""
    topics = open_topics(MemoryFileSystem(), Path("/config"))
    for attempt in (topics.find, topics.create, lambda topic: topics.ensure(topic, 1)):
        with pytest.raises(TopicIllegal):
            attempt(name)
    assert len(topics) == 2


@pytest.mark.parametrize("count", [-1, 65_537, True, "4", 1.5])
def test_an_illegal_number_of_queues_creates_nothing(count: int) -> None:
    """The error has the number and the limit."""
    topics = open_topics(MemoryFileSystem(), Path("/config"))
    with pytest.raises(QueueIllegal, match="0 to 65536") as caught:
        topics.create("a", queue_nums=count)
    assert (caught.value.value, caught.value.limit) == (count, 65_536)
    assert "a" not in topics


@pytest.mark.parametrize("perm", [-1, 8, 14, 16, 6.5, "6", True])
def test_an_illegal_perm_creates_nothing(perm: Any) -> None:
    """Three bits: the fourth, priority, is one that RocketMQ takes from nobody."""
    topics = open_topics(MemoryFileSystem(), Path("/config"))
    with pytest.raises(TopicIllegal, match="a sum of 4 read, 2 write, 1 inherit"):
        topics.create("a", perm=perm)
    assert "a" not in topics


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"order": "yes"}, "order of topic 'a' is 'yes'"),
        ({"order": 1}, "order of topic 'a' is 1"),
    ],
)
def test_a_setting_of_another_type_creates_nothing(settings: dict[str, Any], words: str) -> None:
    """It would be written and could not be read back."""
    file_system = MemoryFileSystem()
    topics = open_topics(file_system, Path("/config"))
    with pytest.raises(TopicIllegal, match=re.escape(words)):
        topics.create("a", **settings)
    assert "a" not in topics
    assert file_system.list(Path("/config")) == []


@pytest.mark.parametrize(
    "topic",
    ["SCHEDULE_TOPIC_XXXX", "TBW102", "rmq_sys_timer", "RMQ_SYS_TRANS_HALF_TOPIC", "CHECKPOINT_TOPIC"],
)
def test_the_topics_of_rocketmq_are_not_changed(topic: str) -> None:
    """Fewer queues for waiting messages, say, would hide them; the retry topics of groups may be changed."""
    topics = open_topics(MemoryFileSystem(), Path("/"))
    before = list(topics)
    with pytest.raises(TopicIllegal, match="one of RocketMQ's own") as caught:
        topics.create(topic, 1)
    assert caught.value.response_code is ResponseCode.INVALID_PARAMETER
    assert list(topics) == before
    assert topics.create("%RETRY%billing", 3).write_queue_nums == 3


def test_perm_bits() -> None:
    """Read is 4, write is 2."""
    read_only, write_only = TopicConfig(perm=4), TopicConfig(perm=2)
    assert (read_only.is_readable, read_only.is_writable) == (True, False)
    assert (write_only.is_readable, write_only.is_writable) == (False, True)


def test_create_on_a_full_disk_changes_nothing() -> None:
    """Neither a new topic nor a changed one stays in memory when the disk would not take it."""
    file_system = MemoryFileSystem()
    topics = open_topics(file_system, Path("/config"))
    config = topics.create("a", queue_nums=4)
    file_system.free_bytes = 0
    for topic in ("a", "b"):
        with pytest.raises(StoreFull):
            topics.create(topic, queue_nums=7)
    assert topics.get("a") == config
    assert "b" not in topics
    assert open_topics(file_system, Path("/config")).get("a") == config


def test_reading_only_changes_nothing_on_disk() -> None:
    """A topic may be found in memory, but none is created and nothing is written."""
    file_system = MemoryFileSystem()
    topics = open_topics(file_system, Path("/config"), read_only=True)
    topics.find("orders")
    assert not topics.persist()
    with pytest.raises(StoreReadOnly):
        topics.create("orders")
    assert file_system.list(Path("/config")) == []


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage",
        b'{"topicConfigTable":7}',
        b'{"topicConfigTable":{"a":7}}',
        b'{"topicConfigTable":{"a":{"perm":"x"}}}',
    ],
)
def test_garbage_is_refused_and_stays(file_system: FileSystem, tmp_path: Path, garbage: bytes) -> None:
    """Without a good .bak the store does not open; the file is left for someone to look at."""
    write_file(file_system, tmp_path, garbage)
    with pytest.raises(StateFileCorrupt, match=r"topics\.json"):
        open_topics(file_system, tmp_path)
    assert file_system.read(tmp_path / TOPICS_FILE_NAME) == garbage


def test_lookup_sees_every_change() -> None:
    """The bound lookup of the put path is the table itself, from before the load on."""
    topics = TopicConfigs(MemoryFileSystem(), Path("/config"), ManualClock())
    lookup = topics.lookup
    topics.load()
    assert lookup("a") is None
    config = topics.create("a")
    assert lookup("a") is config
    assert repr(topics) == "<TopicConfigs of 3 in '/config/topics.json'>"


def test_queues_to_put_to_are_those_that_producers_may_use() -> None:
    """None where a producer may not put, and as many as there are otherwise; every change shows."""
    file_system = MemoryFileSystem()
    topics = TopicConfigs(file_system, Path("/config"), ManualClock())
    queues_to_put_to = topics.queues_to_put_to
    topics.load()
    assert [queues_to_put_to(topic) for topic in ("a", "SCHEDULE_TOPIC_XXXX")] == [None, None]
    topics.create("a", read_queue_nums=2, write_queue_nums=3)
    assert queues_to_put_to("a") == 3
    topics.create("a", read_queue_nums=7, write_queue_nums=5)
    assert queues_to_put_to("a") == 7
    topics.create("a", read_queue_nums=2, write_queue_nums=5, perm=Perm.WRITE)
    assert queues_to_put_to("a") == 5
    file_system.free_bytes = 0
    for topic in ("a", "b"):
        with pytest.raises(StoreFull):
            topics.create(topic, perm=Perm.READ)
    assert (queues_to_put_to("a"), queues_to_put_to("b")) == (5, None)
    file_system.free_bytes = 2**30
    topics.create("a", perm=Perm.READ)
    assert queues_to_put_to("a") is None
    topics.create("a", queue_nums=4)
    assert open_topics(file_system, Path("/config")).queues_to_put_to("a") == 4


def test_changes_are_shown_without_being_made(file_system: FileSystem, tmp_path: Path) -> None:
    """What is not named stays; a missing topic has the settings of a new one; nothing changes."""
    topics = open_topics(file_system, tmp_path, read_only=True)
    assert topics.with_changes("orders", perm=Perm.READ) == TopicConfig(
        topic_name="orders", read_queue_nums=8, write_queue_nums=8, perm=4
    )
    assert "orders" not in topics
    topics = open_topics(file_system, tmp_path)
    before = topics.create("orders", 4, perm=2, order=True, attributes={"+message.type": "FIFO"})
    after = topics.with_changes("orders", read_queue_nums=6)
    assert (after.read_queue_nums, after.write_queue_nums, after.perm, after.order) == (6, 4, 2, True)
    assert after.attributes == {"message.type": "FIFO"}
    assert topics.get("orders") == before


def test_changes_are_checked_before_they_are_made(file_system: FileSystem, tmp_path: Path) -> None:
    """As `create` checks them."""
    topics = open_topics(file_system, tmp_path)
    with pytest.raises(QueueIllegal, match="read_queue_nums of topic 'orders' is 65537"):
        topics.with_changes("orders", read_queue_nums=65_537)
    with pytest.raises(TopicIllegal, match="one of RocketMQ's own"):
        topics.with_changes("TBW102", perm=4)


@pytest.mark.parametrize("perm", [Perm.READ, "6", 9])
def test_settings_that_could_not_be_read_back_are_refused(
    file_system: FileSystem, tmp_path: Path, perm: object
) -> None:
    """A Perm would be written by its name, and the store would not open again."""
    topics = open_topics(file_system, tmp_path)
    topics.create("orders")
    before = file_system.read(tmp_path / TOPICS_FILE_NAME)
    with pytest.raises(TopicIllegal, match="perm"):
        topics.replace("orders", TopicConfig(topic_name="orders", perm=perm))  # type: ignore[arg-type]
    assert (topics.find("orders").perm, file_system.read(tmp_path / TOPICS_FILE_NAME)) == (6, before)
