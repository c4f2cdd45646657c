"""The check of the small files: what cannot be read, what only its .bak replaces, what is ahead of a queue.

Method: files of a small store, written by hand; the ends of the queues are given.
"""

from pathlib import Path

import pytest

from mqstore.schedule.delay.delayed_message import queue_of_level
from mqstore.store.files.file_system import FileSystem
from mqstore.store.finding import Finding
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.state.checkpoint_file import CheckpointFile
from mqstore.store_layout import StoreLayout
from mqstore.verify.state_file_check import StateCheck
from support.manual_clock import ManualClock

DELAYS = queue_of_level(3)


def found(
    file_system: FileSystem, root: Path, *, newest: int = 0, ends: dict[tuple[str, int], int] | None = None
) -> list[Finding]:
    """The findings of a log with these queue ends, whose delay queues begin at 5."""
    check = StateCheck(file_system, StoreLayout(root), ManualClock())
    return list(
        check.run(
            lambda topic, queue_id: (ends or {}).get((topic, queue_id), 0),
            lambda topic, queue_id: 5 if topic == SCHEDULE_TOPIC else 0,
            newest,
        )
    )


def kinds(findings: list[Finding]) -> list[tuple[str, str, bool]]:
    return [(each.kind, each.path.name, each.is_damage) for each in findings]


def written(file_system: FileSystem, root: Path, name: str, text: bytes) -> None:
    directory = StoreLayout(root).config
    file_system.make_directories(directory)
    file_system.write(directory / name, text)


def test_a_directory_without_small_files_is_sound(file_system: FileSystem, root: Path) -> None:
    """Each may be missing."""
    assert found(file_system, root) == []


@pytest.mark.parametrize(
    "name", ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"]
)
def test_a_file_that_cannot_be_read_is_damage(file_system: FileSystem, root: Path, name: str) -> None:
    """If its .bak cannot be read either."""
    written(file_system, root, name, b"junk")
    written(file_system, root, f"{name}.bak", b"junk")
    assert kinds(found(file_system, root)) == [("state-file", name, True)]


@pytest.mark.parametrize(("text", "is_damage"), [(None, False), (b"junk", True)])
def test_a_file_that_only_its_bak_replaces(
    file_system: FileSystem, root: Path, text: bytes | None, is_damage: bool
) -> None:
    """Missing is what a crash leaves; unreadable is damage."""
    if text is not None:
        written(file_system, root, "topics.json", text)
    written(file_system, root, "topics.json.bak", b"{}")
    assert kinds(found(file_system, root)) == [("state-file-backup", "topics.json", is_damage)]


@pytest.mark.parametrize(("end", "count"), [(7, 0), (6, 1)])
def test_a_consumer_beyond_its_queue_is_damage(
    file_system: FileSystem, root: Path, end: int, count: int
) -> None:
    """At the end is the next message, which is yet to come."""
    written(file_system, root, "consumerOffset.json", b'{"offsetTable":{"orders@billing":{0:7}}}')
    findings = found(file_system, root, ends={("orders", 0): end})
    assert [each.kind for each in findings] == ["consumer-offset"] * count


@pytest.mark.parametrize(
    ("offset", "kind", "is_damage"),
    [(5, None, False), (9, None, False), (10, "delay-offset", True), (4, "delay-offset-stale", False)],
)
def test_a_delay_level_outside_of_its_queue(
    file_system: FileSystem, root: Path, offset: int, kind: str | None, is_damage: bool
) -> None:
    """Beyond the end is damage; before the first message, what retention leaves."""
    written(file_system, root, "delayOffset.json", b'{"offsetTable":{3:%d}}' % offset)
    findings = found(file_system, root, ends={(SCHEDULE_TOPIC, DELAYS): 9})
    assert kinds(findings) == ([] if kind is None else [(kind, "delayOffset.json", is_damage)])


def test_a_checkpoint_ahead_of_the_newest_record_is_damage(file_system: FileSystem, root: Path) -> None:
    """Each of its three times; of an empty log nothing is known."""
    CheckpointFile(file_system, StoreLayout(root).checkpoint).save(100, 101, 99)
    assert found(file_system, root, newest=101) == []
    assert found(file_system, root) == []
    findings = found(file_system, root, newest=99)
    assert [(each.kind, each.position, each.found) for each in findings] == [
        ("checkpoint-ahead", 0, "100"),
        ("checkpoint-ahead", 8, "101"),
    ]
