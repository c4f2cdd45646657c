"""Consumer offsets: RocketMQ's file both ways, and the rules of commit, query and reset.

That the file never stands beyond the bound that it is given is checked by reading it back.
"""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mqstore.metadata.consumer_offsets import (
    CONSUMER_OFFSET_FILE_NAME,
    NO_OFFSET,
    ConsumerOffset,
    ConsumerOffsets,
)
from mqstore.metadata.subscription_groups import SubscriptionGroups
from mqstore.metadata.topics import TopicConfigs
from mqstore.store.errors import (
    QueueIllegal,
    StateFileCorrupt,
    StoreReadOnly,
    SubscriptionGroupNotExist,
    TopicIllegal,
    TopicNotExist,
)
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.state import state_file_format
from support.manual_clock import ManualClock

# The specification's sample; mqstore writes the topics of a group in alphabetical order, RocketMQ in none.
SAMPLE = (
    b'{\n\t"dataVersion":{\n\t\t"counter":3,\n\t\t"stateVersion":0,\n\t\t"timestamp":1726740000000\n\t},\n'
    b'\t"groupTopicMap":{\n\t\t"GroupA":["%RETRY%GroupA","TopicTest"]\n\t},\n'
    b'\t"offsetTable":{\n\t\t"%RETRY%GroupA@GroupA":{0:0\n\t\t},\n'
    b'\t\t"TopicTest@GroupA":{0:5,1:7\n\t\t}\n\t}\n}'
)


def open_offsets(
    file_system: FileSystem, directory: Path, *, auto_create: bool = True, read_only: bool = False
) -> ConsumerOffsets:
    clock = ManualClock(1726740000000)
    topics = TopicConfigs(file_system, directory, clock, auto_create_topic_enable=auto_create)
    groups = SubscriptionGroups(file_system, directory, clock, auto_create_subscription_group=auto_create)
    topics.load()
    groups.load()
    for topic in ("TopicTest", "%RETRY%GroupA", "orders"):
        topics.ensure(topic, 4)
    offsets = ConsumerOffsets(
        file_system, directory, clock, topics=topics, subscription_groups=groups, read_only=read_only
    )
    offsets.load()
    return offsets


def write_file(file_system: FileSystem, directory: Path, text: bytes) -> None:
    file_system.make_directories(directory)
    file_system.write(directory / CONSUMER_OFFSET_FILE_NAME, text)


def unbounded(topic: str, queue_id: int) -> int:
    return 2**63 - 1


def test_the_sample_is_read_and_written_byte_for_byte(file_system: FileSystem, tmp_path: Path) -> None:
    """RocketMQ's file comes back unchanged, version and all."""
    write_file(file_system, tmp_path, SAMPLE)
    offsets = open_offsets(file_system, tmp_path)
    assert list(offsets) == [
        ConsumerOffset("GroupA", "%RETRY%GroupA", 0, 0),
        ConsumerOffset("GroupA", "TopicTest", 0, 5),
        ConsumerOffset("GroupA", "TopicTest", 1, 7),
    ]
    assert not offsets.persist(unbounded)
    offsets.commit("GroupA", "TopicTest", 0, 6)
    assert offsets.persist(unbounded)
    assert file_system.read(tmp_path / CONSUMER_OFFSET_FILE_NAME) == SAMPLE.replace(b"0:5", b"0:6")
    assert file_system.read(tmp_path / (CONSUMER_OFFSET_FILE_NAME + ".bak")) == SAMPLE


def test_a_file_of_4_9_is_read(file_system: FileSystem, tmp_path: Path) -> None:
    """It has neither groupTopicMap nor stateVersion; fields of a newer broker are kept."""
    write_file(file_system, tmp_path, b'{"newer":{"a":1},"offsetTable":{"TopicTest@GroupA":{"0":5}}}')
    offsets = open_offsets(file_system, tmp_path)
    assert offsets.query("GroupA", "TopicTest", 0) == 5
    offsets.persist(unbounded)
    state = state_file_format.decode(file_system.read(tmp_path / CONSUMER_OFFSET_FILE_NAME))
    assert state["newer"] == {"a": 1}
    assert state["groupTopicMap"] == {"GroupA": ["TopicTest"]}


def test_a_commit_is_a_plain_overwrite() -> None:
    """Forward and back; a queue never committed answers -1."""
    offsets = open_offsets(MemoryFileSystem(), Path("/config"))
    assert offsets.query("g", "orders", 0) == -1
    for offset in (5, 9, 3):
        offsets.commit("g", "orders", 0, offset)
        assert offsets.query("g", "orders", 0) == offset
    assert offsets.query("g", "orders", 1) == -1
    assert offsets.query("h", "orders", 0) == -1
    assert len(offsets) == 1


def test_an_unknown_topic_or_group_comes_to_be() -> None:
    """A topic whose settings a crash took, say: its queues are there, and the group goes on."""
    offsets = open_offsets(MemoryFileSystem(), Path("/config"))
    offsets.commit("new-group", "new-topic", 0, 1)
    assert offsets.query("new-group", "new-topic", 0) == 1
    with pytest.raises(TopicIllegal):
        offsets.commit("new-group", "new topic", 0, 1)


def test_an_unknown_topic_or_group_is_refused() -> None:
    """Where they do not come to be by themselves, with the codes that a broker answers: 26 and 17."""
    offsets = open_offsets(MemoryFileSystem(), Path("/config"), auto_create=False)
    with pytest.raises(SubscriptionGroupNotExist) as no_group:
        offsets.commit("g", "orders", 0, 1)
    with pytest.raises(TopicNotExist) as no_topic:
        offsets.commit("CID_RMQ_SYS_TRANS", "nothing", 0, 1)
    assert (no_group.value.response_code, no_topic.value.response_code) == (26, 17)
    assert len(offsets) == 0


@pytest.mark.parametrize(("queue_id", "offset"), [(-1, 0), (0, -1), (2**31, 0), (0, 2**63)])
def test_a_number_out_of_bounds_is_refused(queue_id: int, offset: int) -> None:
    """-1 means no offset, and is not to be committed; what is too large no broker could read back."""
    offsets = open_offsets(MemoryFileSystem(), Path("/config"))
    with pytest.raises(QueueIllegal, match=r"of topic 'orders' is .*, but must be from 0 to"):
        offsets.commit("g", "orders", queue_id, offset)
    assert len(offsets) == 0


@pytest.mark.parametrize("value", [1.0, "1", True, None])
def test_a_number_of_another_type_is_refused(value: Any) -> None:
    """By commit and reset, as queue and as offset; nothing is noted, for it could not be read back."""
    offsets = open_offsets(MemoryFileSystem(), Path("/config"))
    for move in (offsets.commit, offsets.reset):
        for queue_id, offset in ((0, value), (value, 0)):
            with pytest.raises(QueueIllegal, match=f"is {value!r}, but must be a whole number") as caught:
                move("unknown", "TopicTest", queue_id, offset)
            assert caught.value.value == value
    assert len(offsets) == 0
    assert offsets.query("unknown", "TopicTest", 0) == NO_OFFSET


def test_numbers_of_numpy_are_kept_as_int() -> None:
    """What counts entries in an array may be committed as it is, and is read back."""
    file_system = MemoryFileSystem()
    offsets = open_offsets(file_system, Path("/config"))
    offsets.commit("GroupA", "TopicTest", np.int32(1), np.int64(5))  # type: ignore[arg-type]
    offsets.reset("GroupA", "TopicTest", np.int32(2), np.int64(6))  # type: ignore[arg-type]
    assert {type(number) for row in offsets for number in (row.queue_id, row.offset)} == {int}
    assert offsets.persist(unbounded)
    assert list(open_offsets(file_system, Path("/config"))) == list(offsets)


def test_a_reset_holds_until_it_is_taken() -> None:
    """Commits of that queue are ignored and the query answers the reset; then the group goes on."""
    offsets = open_offsets(MemoryFileSystem(), Path("/config"))
    offsets.commit("g", "orders", 0, 50)
    offsets.reset("g", "orders", 0, 10)
    offsets.commit("g", "orders", 0, 51)
    offsets.commit("g", "orders", 1, 7)
    assert (offsets.query("g", "orders", 0), offsets.query("g", "orders", 1)) == (10, 7)
    assert offsets.take_reset("g", "orders", 0) == 10
    assert offsets.take_reset("g", "orders", 0) is None
    assert offsets.query("g", "orders", 0) == 10
    offsets.commit("g", "orders", 0, 11)
    assert offsets.query("g", "orders", 0) == 11


def test_the_file_is_never_beyond_the_bound(file_system: FileSystem, tmp_path: Path) -> None:
    """The lower of commit and bound is written; memory keeps the commit; the file follows the bound."""
    offsets = open_offsets(file_system, tmp_path)
    offsets.commit("g", "orders", 0, 100)
    offsets.commit("g", "orders", 1, 3)
    offsets.commit("g", "TopicTest", 0, 9)
    bounds = {("orders", 0): 60, ("orders", 1): 60, ("TopicTest", 0): 0}
    assert offsets.persist(lambda topic, queue_id: bounds[topic, queue_id])
    on_disk = open_offsets(file_system, tmp_path)
    assert [row.offset for row in on_disk] == [0, 60, 3]
    assert offsets.query("g", "orders", 0) == 100
    bounds["orders", 0] = 99
    assert offsets.persist(lambda topic, queue_id: bounds[topic, queue_id])
    assert open_offsets(file_system, tmp_path).query("g", "orders", 0) == 99


def test_correct_moves_back_what_stands_beyond_its_queue() -> None:
    """After recovery cut a queue, or a broker's file ran ahead of its log."""
    offsets = open_offsets(MemoryFileSystem(), Path("/config"))
    offsets.commit("g", "orders", 0, 100)
    offsets.commit("g", "orders", 1, 3)
    assert offsets.correct(lambda topic, queue_id: 60) == [ConsumerOffset("g", "orders", 0, 100)]
    assert [row.offset for row in offsets] == [60, 3]


def test_the_version_moves_every_so_many_commits() -> None:
    """500 by default, as consumerOffsetUpdateVersionStep says."""
    offsets = open_offsets(MemoryFileSystem(), Path("/config"))
    for offset in range(1000):
        offsets.commit("g", "orders", 0, offset)
    assert offsets.data_version.counter == 2


@pytest.mark.parametrize(
    "garbage",
    [b"garbage", b'{"offsetTable":7}', b'{"offsetTable":{"a@b":7}}', b'{"offsetTable":{"a@b":{0:"x"}}}'],
)
def test_garbage_gives_way_to_the_backup_or_is_refused(
    file_system: FileSystem, tmp_path: Path, garbage: bytes
) -> None:
    """With a good .bak groups go on from there; without one the store does not open at 0."""
    write_file(file_system, tmp_path, garbage)
    with pytest.raises(StateFileCorrupt, match=r"consumerOffset\.json"):
        open_offsets(file_system, tmp_path)
    file_system.write(tmp_path / (CONSUMER_OFFSET_FILE_NAME + ".bak"), SAMPLE)
    assert open_offsets(file_system, tmp_path).query("GroupA", "TopicTest", 1) == 7


def test_reading_only_refuses_commits_and_writes_nothing() -> None:
    """Even when there would be something to write."""
    file_system = MemoryFileSystem()
    offsets = open_offsets(file_system, Path("/config"), read_only=True)
    with pytest.raises(StoreReadOnly):
        offsets.commit("g", "orders", 0, 1)
    assert not offsets.persist(unbounded)
    assert file_system.list(Path("/config")) == []


def test_commits_go_on_while_another_thread_persists(tmp_path: Path) -> None:
    """Whatever the order, each file is whole and the last one has the last commits."""
    file_system = OsFileSystem()
    offsets = open_offsets(file_system, tmp_path)

    def commit_all(queue_id: int) -> None:
        for offset in range(300):
            offsets.commit("g", "orders", queue_id, offset)
            if offset % 100 == 0:
                offsets.persist(unbounded)

    threads = [threading.Thread(target=commit_all, args=(queue_id,)) for queue_id in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    offsets.persist(unbounded)
    assert [row.offset for row in open_offsets(file_system, tmp_path)] == [299] * 4
