"""The pages of the state files say what the code does: fields, defaults, and the examples byte for byte."""

import json
from pathlib import Path

import pytest

from mqstore.schedule.delay.delay_offsets import DelayOffsets
from mqstore.store.state import state_file_format
from mqstore.metadata.state_record import StateRecord
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.metadata.subscription_groups import SubscriptionGroupConfig
from mqstore.metadata.topics import TopicConfig
from support.golden.format_page import code_block, table
from support.manual_clock import ManualClock

VERSION = {"counter": 1, "stateVersion": 0, "timestamp": 1726740000000}


@pytest.mark.parametrize(("record", "number"), [(TopicConfig(), 0), (SubscriptionGroupConfig(), 1)])
def test_fields_and_defaults_are_those_of_the_page(record: StateRecord, number: int) -> None:
    """Each table has the fields of its record, in their order, with their defaults."""
    rows = table("state_files.md", "Fields", first_column="name")
    starts = [at for at, row in enumerate(rows) if row[0] == "attributes"]
    chosen = rows[starts[number] : (*starts, len(rows))[number + 1]]
    assert [(name, json.loads(default)) for name, default, _ in chosen] == list(record.encode().items())


def test_the_example_of_a_topics_file() -> None:
    """The page's text is the encoder's."""
    topic = TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2)
    state = {"dataVersion": VERSION, "topicConfigTable": {"orders": topic.encode()}}
    assert code_block("state_files.md", "Example").encode() == state_file_format.encode(state)


def test_the_example_of_a_delay_offset_file() -> None:
    """The page's text is read, and is what is written for it; its length is as said."""
    text = code_block("delay_offset.md", "Example").encode()
    file_system, directory = MemoryFileSystem(), Path("/config")
    file_system.make_directories(directory)
    file_system.write(directory / "delayOffset.json", text)
    offsets = DelayOffsets(file_system, directory, ManualClock())
    assert offsets.load() == {3: 24, 4: 11, 18: 2}
    assert not offsets.persist(offsets.snapshot())
    assert len(text) == 121
