"""Repair: what is whole stays where it is, what is damaged is filled, and verify finds nothing afterwards.

Method: damages of all kinds, and random ones, on copies of one intact store; an oracle that shares no code
with mqstore tells which records must have survived (damaged_store.py).
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqstore import MessageStore
from mqstore.repair.repair_copy import repair_into
from mqstore.repair.repair_in_place import repair_in_place
from mqstore.repair.repair_plan import plan_repair
from mqstore.settings.directory_config import tool_config
from mqstore.store.errors import StoreLocked, StoreNotFound
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.record.properties_format import LOST
from mqstore.store.record.record_format import BLANK, BLANK_MAGIC_CODE
from mqstore.verify.verification import verify
from support.crash.witness import ROOT
from support.disks.simulated_disk import Image, SimulatedDisk
from support.manual_clock import ManualClock
from support.stores.damaged_store import (
    CONFIG,
    SEGMENT_BYTES,
    disk_of,
    intact,
    random_damage,
    segment_path,
    survivors,
)
from support.stores.repaired_store import ASIDE, NEW, hurt, repaired
from support.stores.small_store import messages_of
from support.twins.log_walk import SCHEDULE_TOPIC, walk_log


def opened(disk: SimulatedDisk, root: Path = ROOT) -> MessageStore:
    return MessageStore.open(root, CONFIG, clock=ManualClock(intact().now_ms), file_system=disk, start=False)


def number_of(topic: str, queue_id: int, queue_offset: int) -> int:
    wanted = (topic, queue_id, queue_offset)
    return next(
        number
        for number, each in enumerate(intact().records)
        if (each.topic, each.queue_id, each.queue_offset) == wanted
    )


# -- what it keeps ----------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 2**32), st.booleans())
def test_whatever_is_damaged_the_rest_survives(seed: int, into: bool) -> None:
    """Verify finds the damage; repair keeps every record that is whole, where it is; the store goes on."""
    image = random_damage(random.Random(seed), intact().image)
    is_hurt = len(survivors(image)) < len(intact().records)
    report = verify(ROOT, CONFIG, file_system=disk_of(image), workers=1)
    assert not (is_hurt and report.is_sound)
    _, plan = repaired(image, into=into)
    assert plan.left_out == ()


@pytest.mark.slow
@example(2696)
@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_without_queues_the_rest_survives_as_well(seed: int) -> None:
    """The places of lost messages are then not known: their placeholders go where there is room."""
    image = random_damage(random.Random(seed), intact().image)
    files = {path: data for path, data in image.files.items() if "consumequeue" not in path.parts}
    _, plan = repaired(Image(files, image.directories))
    assert plan.left_out == ()


def test_a_damaged_record_gets_a_placeholder() -> None:
    """Same queue, queue offset, place and size, so that every pointer holds; it says what it is."""
    number = number_of("a", 0, 5)
    lost = intact().records[number]
    disk, plan = repaired(hurt(number))
    assert [(each.topic, each.queue_id, each.queue_offset) for each in plan.fills[0].lost] == [("a", 0, 5)]
    with opened(disk) as store:
        (message,) = store.get_message("g", "a", 0, 5, 1).messages
        assert (message.physical_offset, message.store_size) == (lost.physical_offset, lost.size)
        assert message.properties[LOST] == "1"
        assert not any(message.body)
        assert store.get_max_offset_in_queue("a", 0) == 1 + max(
            each.queue_offset for each in intact().records if (each.topic, each.queue_id) == ("a", 0)
        )


def test_the_queues_differ_in_the_tags_of_placeholders_only() -> None:
    """All other entries are byte for byte what they were."""
    number = number_of("b", 1, 3)
    disk, _ = repaired(hurt(number))
    before = intact().image.files
    for path in (path for path in before if "consumequeue" in path.parts):
        old, new = bytes(before[path]), disk.read(path)
        differing = {at // 20 for at in range(len(old)) if old[at] != new[at]}
        assert differing <= ({3} if path.parts[-3:-1] == ("b", "1") else set())


def test_a_delayed_message_that_is_lost_delivers_nothing() -> None:
    """Its placeholder is discarded, and those behind it in the level's queue are delivered."""
    waiting = [each for each in intact().records if each.topic == SCHEDULE_TOPIC]
    queue_id = waiting[-1].queue_id
    in_queue = [each for each in waiting if each.queue_id == queue_id]
    lost, kept = in_queue[-2], in_queue[-1]
    disk, _ = repaired(hurt(intact().records.index(lost)))
    state = ROOT / "config" / "delayOffset.json"
    disk.write(state, b'{"offsetTable":{%d:%d}}' % (queue_id + 1, lost.queue_offset))
    clock = ManualClock(intact().now_ms + 10**9)
    with MessageStore.open(ROOT, CONFIG, clock=clock, file_system=disk, start=False) as store:
        assert store.deliver_due() >= 1
        assert store.delivery.pending().get(queue_id + 1) is None
        records, _ = walk_log(disk, ROOT / "commitlog")
        delivered = [each.body for each in records[len(intact().records) :]]
        assert delivered.count(kept.body) == 1
        assert lost.body not in delivered
        assert all(any(body) for body in delivered)
        assert all(level.error is None for level in store.delivery.status())


def test_segments_in_each_others_place_go_home() -> None:
    """Nothing is lost."""
    one, other = segment_path(1), segment_path(2)
    files = intact().image.files
    image = Image({**files, one: files[other], other: files[one]}, intact().image.directories)
    for into in (False, True):
        disk = disk_of(image)
        root = NEW if into else ROOT
        if into:
            repair_into(ROOT, NEW, CONFIG, file_system=disk, clock=disk.clock, workers=1)
        else:
            repair_in_place(ROOT, CONFIG, file_system=disk, clock=disk.clock, workers=1)
        assert verify(root, CONFIG, file_system=disk, workers=1).is_sound
        records, _ = walk_log(disk, root / "commitlog")
        assert [each[:7] for each in records] == [each[:7] for each in intact().records]


@pytest.mark.parametrize("size", [0, 1, 50, 30_000, SEGMENT_BYTES - 1, SEGMENT_BYTES + 100])
@pytest.mark.parametrize("into", [False, True])
def test_a_segment_of_another_length(size: int, into: bool) -> None:
    """What is left of a cut one survives; what lies behind the end of a long one is kept aside."""
    path = segment_path(2)
    data = bytes(intact().image.files[path])
    image = Image({**intact().image.files, path: data.ljust(size, b"x")[:size]}, intact().image.directories)
    disk, _ = repaired(image, into=into)
    assert {entry.size_bytes for entry in disk.list((NEW if into else ROOT) / "commitlog")} == {SEGMENT_BYTES}
    if size > SEGMENT_BYTES and not into:
        assert disk.read(ASIDE / f"commitlog-{path.name}-behind-its-end") == b"x" * 100


def test_a_missing_segment_becomes_a_blank_behind_placeholders() -> None:
    """Its messages are known by their queues, so the log and every queue go on over it."""
    path = segment_path(2)
    files = {each: data for each, data in intact().image.files.items() if each != path}
    disk, plan = repaired(Image(files, intact().image.directories))
    lost = [each for each in intact().records if each.physical_offset // SEGMENT_BYTES == 2]
    assert plan.placeholders == len(lost)
    data = disk.read(path)
    (fill,) = plan.fills
    at = fill.filler_offset - 2 * SEGMENT_BYTES
    assert BLANK.unpack_from(data, at) == (SEGMENT_BYTES - at, BLANK_MAGIC_CODE)


def test_state_files_that_are_lost_begin_anew() -> None:
    """And the garbage is kept; consumers that stand beyond their queue come back to its end."""
    garbage = {ROOT / "config" / name: b"garbage" for name in ("topics.json", "topics.json.bak")}
    image = Image(dict(intact().image.files) | garbage, intact().image.directories)
    disk, plan = repaired(image)
    assert [path.name for path in plan.state_files] == ["topics.json"]
    assert disk.read(ASIDE / "topics.json") == b"garbage"
    with opened(disk) as store:
        assert {"a", "b"} <= {topic.topic_name for topic in store.topics}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("consumerOffset.json", b'{"offsetTable":{"a@group":{0:9999}}}'),
        ("delayOffset.json", b'{"offsetTable":{2:9999}}'),
    ],
)
def test_offsets_beyond_their_queue_come_back_to_its_end(name: str, text: bytes) -> None:
    """No consumer, and no delay level, waits behind what there is."""
    files = dict(intact().image.files) | {ROOT / "config" / name: text}
    repaired(Image(files, intact().image.directories))


# -- what it does not do ----------------------------------------------------------------------------------


def test_a_plan_changes_nothing() -> None:
    """Not a byte, and it says what would be done."""
    image = hurt(30)
    disk = disk_of(image)
    plan = plan_repair(ROOT, CONFIG, file_system=disk, workers=1)
    assert plan.is_needed
    assert plan.placeholders == 1
    assert disk.image() == image


@pytest.mark.parametrize("into", [False, True])
def test_a_sound_store_needs_no_repair(into: bool) -> None:
    """In place nothing is written; into a new directory it is a copy."""
    disk, plan = repaired(intact().image, into=into)
    assert not plan.is_needed
    assert disk.exists(NEW) == into
    assert not disk.exists(ASIDE)


@pytest.mark.parametrize("repair", [repair_in_place, plan_repair])
def test_nothing_is_done_beside_a_writer(repair: Callable[..., object]) -> None:
    """Nor where there is no store."""
    disk = disk_of(intact().image)
    with opened(disk), pytest.raises(StoreLocked):
        repair(ROOT, CONFIG, file_system=disk)
    with pytest.raises(StoreNotFound):
        repair(Path("/none"), CONFIG, file_system=disk)


# -- what RocketMQ wrote ----------------------------------------------------------------------------------


def pulled(path: Path) -> dict[tuple[str, int, int], tuple[int, bytes, bool]]:
    """Every message by its place in its queue: physical offset, body, whether it is a placeholder."""
    config = tool_config(OsFileSystem(), path).config
    with MessageStore.open(path, config, read_only=True) as store:
        return {
            (message.topic, message.queue_id, message.queue_offset): (
                message.physical_offset,
                message.body,
                LOST in message.properties,
            )
            for queue in store.consume_queues.queues()
            for message in messages_of(store, *queue)
        }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rocketmq-4.9.7-clean", "rocketmq-5.1.4-killed", "rocketmq-5.5.0-clean"])
@pytest.mark.parametrize("into", [False, True])
def test_a_directory_of_rocketmq_is_repaired(
    golden_copy: Callable[[str], Path], tmp_path: Path, name: str, into: bool
) -> None:
    """Without a recovery point, with records without a CRC, with index files."""
    path = golden_copy(name)
    before = pulled(path)
    segment = min((path / "commitlog").iterdir())
    data = bytearray(segment.read_bytes())
    data[50_000:53_000] = bytes(3_000)
    segment.write_bytes(data)
    config, target = tool_config(OsFileSystem(), path).config, tmp_path / "new"
    plan = repair_into(path, target, config) if into else repair_in_place(path, config)[0]
    repaired_path = target if into else path
    assert plan.placeholders > 0
    assert verify(repaired_path, tool_config(OsFileSystem(), repaired_path).config).is_sound
    after = pulled(repaired_path)
    assert before.keys() == after.keys()
    lost = {place for place, (_, _, is_lost) in after.items() if is_lost}
    assert len(lost) == plan.placeholders
    assert all(before[place] == after[place] for place in before.keys() - lost)
