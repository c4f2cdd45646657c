"""The consumer groups: RocketMQ's file both ways, how groups come to be, and refusals that change nothing."""

import re
from pathlib import Path
from typing import Any

import pytest

from mqstore.metadata.subscription_groups import (
    SUBSCRIPTION_GROUP_FILE_NAME,
    SubscriptionGroupConfig,
    SubscriptionGroups,
)
from mqstore.store.errors import GroupIllegal, StateFileCorrupt, StoreReadOnly, SubscriptionGroupNotExist
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.state import state_file_format
from support.manual_clock import ManualClock
from support.stores.state_file_samples import STATE_FILES

# The specification's sample, in a whole file.
SAMPLE = STATE_FILES["subscriptionGroup.json"][0].encode()


def open_groups(file_system: FileSystem, directory: Path, **settings: bool) -> SubscriptionGroups:
    groups = SubscriptionGroups(file_system, directory, ManualClock(1726740000000), **settings)
    groups.load()
    return groups


def write_file(file_system: FileSystem, directory: Path, text: bytes) -> None:
    file_system.make_directories(directory)
    file_system.write(directory / SUBSCRIPTION_GROUP_FILE_NAME, text)


def test_the_sample_is_read_as_the_defaults_and_written_byte_for_byte(
    file_system: FileSystem, tmp_path: Path
) -> None:
    """All values of the sample are RocketMQ's defaults."""
    write_file(file_system, tmp_path, SAMPLE)
    groups = open_groups(file_system, tmp_path)
    assert list(groups) == [SubscriptionGroupConfig(group_name="GroupA")]
    assert not groups.persist()
    assert file_system.read(tmp_path / SUBSCRIPTION_GROUP_FILE_NAME) == SAMPLE


def test_what_mqstore_does_not_use_survives(file_system: FileSystem, tmp_path: Path) -> None:
    """The forbidden table, the retry policy and unknown fields are written back as they were."""
    policy = {
        "type": "EXPONENTIAL",
        "exponentialRetryPolicy": {"initial": 5000, "max": 7200000, "multiplier": 2},
    }
    group = {"colour": "red", "groupName": "g", "groupRetryPolicy": policy, "retryMaxTimes": 3}
    state = {"forbiddenTable": {"g": {"orders": 1}}, "subscriptionGroupTable": {"g": group}}
    write_file(file_system, tmp_path, state_file_format.encode(state))
    groups = open_groups(file_system, tmp_path)
    groups.create("h")
    written = state_file_format.decode(file_system.read(tmp_path / SUBSCRIPTION_GROUP_FILE_NAME))
    assert written["forbiddenTable"] == {"g": {"orders": 1}}
    assert written["subscriptionGroupTable"]["g"].items() >= group.items()


def test_a_group_comes_to_be_at_its_first_use(file_system: FileSystem, tmp_path: Path) -> None:
    """With the defaults; durable at the next persist."""
    groups = open_groups(file_system, tmp_path)
    assert groups.get("billing") is None
    config = groups.find("billing")
    assert (config.retry_max_times, config.retry_queue_nums) == (16, 1)
    assert groups.find("billing") is config
    assert "billing" not in open_groups(file_system, tmp_path)
    assert groups.persist()
    assert open_groups(file_system, tmp_path).get("billing") == config


def test_a_group_does_not_come_to_be_where_that_is_off() -> None:
    """SubscriptionGroupNotExist names the group; the broker's own groups are created all the same."""
    groups = open_groups(MemoryFileSystem(), Path("/config"), auto_create_subscription_group=False)
    with pytest.raises(SubscriptionGroupNotExist) as caught:
        groups.find("billing")
    assert caught.value.group == "billing"
    assert groups.find("CID_RMQ_SYS_TRANS").retry_max_times == 16


def test_create_is_durable_on_return_and_changes_what_exists(file_system: FileSystem, tmp_path: Path) -> None:
    """What create does not speak of stays."""
    write_file(file_system, tmp_path, SAMPLE.replace(b'"brokerId":0', b'"brokerId":7'))
    config = open_groups(file_system, tmp_path).create("GroupA", retry_max_times=3, retry_queue_nums=0)
    assert (config.retry_max_times, config.retry_queue_nums, config.broker_id) == (3, 0, 7)
    assert open_groups(file_system, tmp_path).get("GroupA") == config


@pytest.mark.parametrize("name", ["", "a@b", "g" * 121])
def test_an_illegal_name_creates_nothing(name: str) -> None:
    """Neither by first use nor by hand."""
    groups = open_groups(MemoryFileSystem(), Path("/config"))
    for attempt in (groups.find, groups.create):
        with pytest.raises(GroupIllegal):
            attempt(name)
    assert len(groups) == 0


@pytest.mark.parametrize("count", [-2, 2**31, True, "3"])
def test_an_illegal_number_creates_nothing(count: int) -> None:
    """The error has the number and the limit."""
    groups = open_groups(MemoryFileSystem(), Path("/config"))
    with pytest.raises(GroupIllegal, match="retry_max_times of group 'g'") as caught:
        groups.create("g", retry_max_times=count)
    assert caught.value.value == count
    assert "g" not in groups


def test_no_more_retry_queues_than_a_topic_may_have() -> None:
    """The first send-back could not create the retry topic."""
    groups = open_groups(MemoryFileSystem(), Path("/config"))
    with pytest.raises(GroupIllegal, match="retry_queue_nums of group 'g' is 65537"):
        groups.create("g", retry_queue_nums=65_537)
    assert groups.create("g", retry_queue_nums=65_536).retry_queue_nums == 65_536


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"consume_enable": "yes"}, "consume_enable of group 'g' is 'yes'"),
        ({"consume_message_orderly": 1}, "consume_message_orderly of group 'g' is 1"),
        ({"attributes": {"a": 1}}, "attributes of group 'g' is {'a': 1}"),
    ],
)
def test_a_setting_of_another_type_creates_nothing(settings: dict[str, Any], words: str) -> None:
    """It would be written and could not be read back."""
    file_system = MemoryFileSystem()
    groups = open_groups(file_system, Path("/config"))
    with pytest.raises(GroupIllegal, match=re.escape(words)):
        groups.create("g", **settings)
    assert "g" not in groups
    assert file_system.list(Path("/config")) == []


def test_reading_only_changes_nothing_on_disk() -> None:
    """A group may be found in memory, but none is created and nothing is written."""
    file_system = MemoryFileSystem()
    groups = open_groups(file_system, Path("/config"), read_only=True)
    groups.find("billing")
    assert not groups.persist()
    with pytest.raises(StoreReadOnly):
        groups.create("billing")
    assert file_system.list(Path("/config")) == []


def test_garbage_gives_way_to_the_backup_or_is_refused(file_system: FileSystem, tmp_path: Path) -> None:
    """As for every state file."""
    write_file(file_system, tmp_path, SAMPLE[:100])
    with pytest.raises(StateFileCorrupt, match=r"subscriptionGroup\.json"):
        open_groups(file_system, tmp_path)
    file_system.write(tmp_path / (SUBSCRIPTION_GROUP_FILE_NAME + ".bak"), SAMPLE)
    assert "GroupA" in open_groups(file_system, tmp_path)


def test_changes_are_shown_without_being_made() -> None:
    """What is not named stays as it is, a missing group has the defaults, and nothing changes."""
    groups = open_groups(MemoryFileSystem(), Path("/config"))
    assert groups.with_changes("billing", {"broker_id": 3}).retry_max_times == 16
    assert "billing" not in groups
    before = groups.create("billing", retry_max_times=3)
    after = groups.with_changes("billing", {"consume_broadcast_enable": False})
    assert (after.retry_max_times, after.consume_broadcast_enable) == (3, False)
    assert groups.get("billing") == before
    with pytest.raises(GroupIllegal, match="retry_max_times of group 'billing' is -2"):
        groups.with_changes("billing", {"retry_max_times": -2})


def test_settings_that_could_not_be_read_back_are_refused(file_system: FileSystem, tmp_path: Path) -> None:
    groups = open_groups(file_system, tmp_path)
    with pytest.raises(GroupIllegal, match="consume_enable"):
        groups.replace("billing", SubscriptionGroupConfig(group_name="billing", consume_enable="no"))  # type: ignore[arg-type]
    assert groups.get("billing") is None
