"""A directory that was restored from an archive is as good to Apache RocketMQ as the one that was archived.

Method: mqstore puts messages of every shape and closes; its sealed segments are archived and restored.
RocketMQ opens a copy of what was restored: it must find every message of the archive with its offsets, the
same queues as mqstore, and the topics and groups; and it goes on behind the archive's end.
"""

import shutil
from pathlib import Path

from mqstore import MessageStore
from mqstore.tools.archive import archive, restore
from support.interop.messages import Traffic
from support.interop.picture import differences, directory_bytes, take_picture
from support.interop.process import Mqstore, RocketMq
from support.interop.stores import SETTINGS, create_topics_and_groups, put_all

MESSAGES = 5_000
SEGMENT_BYTES = SETTINGS["mapped_file_size_commit_log"]


def test_they_read_what_was_restored(theirs: RocketMq, ours: Mqstore, tmp_path: Path, seed: int) -> None:
    """And change no byte of what was archived."""
    ours.open(tmp_path / "ours", **SETTINGS)
    traffic = Traffic(seed, long_topics=theirs.has_long_topics)
    create_topics_and_groups(ours, traffic.topics)
    put = put_all(ours, traffic.messages(MESSAGES))
    before = take_picture(ours, put)
    ours.close()
    with MessageStore.open(tmp_path / "ours", read_only=True) as store:
        end_offset = archive(store, tmp_path / "archive").end_offset
    assert end_offset >= 3 * SEGMENT_BYTES
    restore(tmp_path / "archive", tmp_path / "restored")
    shutil.copytree(tmp_path / "restored", tmp_path / "theirs")
    archived = [offset for offset in put if offset < end_offset]
    ours.open(tmp_path / "restored", **SETTINGS, start=False)
    our_picture = take_picture(ours, archived)
    ours.close()
    theirs.open(tmp_path / "theirs", **SETTINGS)
    their_picture = take_picture(theirs, archived)
    theirs.close()
    assert not differences(our_picture, their_picture)
    assert len(their_picture.messages) > MESSAGES // 3
    for offset in archived:
        assert their_picture.messages[offset] == before.messages[offset]
    log = {
        name: data
        for name, data in directory_bytes(tmp_path / "ours").items()
        if name.startswith("commitlog/") and int(name.rpartition("/")[2]) < end_offset
    }
    after = directory_bytes(tmp_path / "theirs")
    assert [name for name, data in log.items() if after[name] != data] == []
