"""A repaired directory is as good to Apache RocketMQ as one that was never damaged.

Method: mqstore puts messages of every shape and closes; records, pages and a whole segment are damaged, and
the directory is repaired in place. RocketMQ then opens a copy of it as it is, and another one without queues,
which it must build from the log: what covers the damage must keep the numbering of every queue on its own.
"""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from mqstore.repair.repair_in_place import repair_in_place
from mqstore.settings.directory_config import tool_config
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.record.properties_format import LOST
from mqstore.verify.verification import verify
from support.interop.messages import Traffic
from support.interop.picture import Picture, differences, directory_bytes, take_picture
from support.interop.process import Mqstore, RocketMq
from support.interop.stores import SETTINGS, create_topics_and_groups, put_all
from support.twins.log_walk import walk_log

MESSAGES = 5_000
SEGMENT_BYTES = SETTINGS["mapped_file_size_commit_log"]


@pytest.mark.parametrize("with_queues", [True, False], ids=["queues-kept", "queues-built-by-rocketmq"])
def test_they_read_what_was_repaired(
    theirs: RocketMq, ours: Mqstore, tmp_path: Path, with_queues: bool, seed: int
) -> None:
    """Every survivor with its offsets, the same queues as we have, and it goes on where we did."""
    path = tmp_path / "ours"
    ours.open(path, **SETTINGS)
    traffic = Traffic(seed, long_topics=theirs.has_long_topics)
    create_topics_and_groups(ours, traffic.topics)
    put = put_all(ours, traffic.messages(MESSAGES))
    before = take_picture(ours, put)
    ours.close()
    hurt(path, random.Random(seed))
    config = tool_config(OsFileSystem(), path).config
    plan, _ = repair_in_place(path, config)
    assert plan.placeholders > 5
    assert verify(path, config).is_sound
    shutil.copytree(path, tmp_path / "theirs")
    if not with_queues:
        shutil.rmtree(tmp_path / "theirs" / "consumequeue")
        # As after a crash of a young broker: the whole log is dispatched again.
        (tmp_path / "theirs" / "checkpoint").unlink()
        (tmp_path / "theirs" / "abort").write_bytes(b"1")
    log = {name: data for name, data in directory_bytes(path).items() if name.startswith("commitlog/")}
    ours.open(path, **SETTINGS, start=False)
    our_picture = take_picture(ours)
    ours.close()
    theirs.open(tmp_path / "theirs", **SETTINGS)
    forgets = not with_queues and theirs.forgets_deliver_times
    their_picture = take_picture(theirs, with_deliver_times=not forgets)
    theirs.close()
    if forgets:
        our_picture = without_deliver_times(our_picture)
    assert not differences(our_picture, their_picture)
    assert not lost_survivors(before, their_picture)
    after = directory_bytes(tmp_path / "theirs")
    assert [name for name, data in log.items() if after[name] != data] == []


def hurt(path: Path, chance: random.Random) -> None:
    """Bits in records, a page of zeros, and a segment that is gone."""
    records, _ = walk_log(OsFileSystem(), path / "commitlog")
    assert records[-1].physical_offset > 3 * SEGMENT_BYTES
    for record in chance.sample([each for each in records if each.physical_offset < SEGMENT_BYTES], 10):
        segment = path / "commitlog" / f"{0:020d}"
        data = bytearray(segment.read_bytes())
        data[record.physical_offset + chance.randrange(record.size)] ^= 1 << chance.randrange(8)
        segment.write_bytes(data)
    segment = path / "commitlog" / f"{SEGMENT_BYTES:020d}"
    data = bytearray(segment.read_bytes())
    data[40_960:45_056] = bytes(4_096)
    segment.write_bytes(data)
    (path / "commitlog" / f"{2 * SEGMENT_BYTES:020d}").unlink()


def lost_survivors(before: Picture, after: Picture) -> list[Any]:
    """Entries of queues that lead elsewhere, or to another message, and are no stand-ins."""
    wrong: list[Any] = []
    for name, queue in before.queues.items():
        entries = after.queues[name]["entries"]
        for number, entry in enumerate(queue["entries"][: len(entries)]):
            message = after.messages[entries[number][0]]
            if message is None or LOST in message["properties"]:
                continue
            if before.messages[entry[0]] != message:
                wrong.append((name, number, entry, entries[number]))
    return wrong


def without_deliver_times(picture: Picture) -> Picture:
    for queue in picture.queues.values():
        if queue["topic"] == "SCHEDULE_TOPIC_XXXX":
            queue["entries"] = [entry[:2] for entry in queue["entries"]]
    return picture
