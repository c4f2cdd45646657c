"""Rebuilding: queues come out byte for byte as they were, keys find what they found.

Method: queues and keys of intact stores, of ours and of RocketMQ, are deleted, hurt, or left, and rebuilt.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.repair.rebuild import rebuild
from mqstore.settings.directory_config import tool_config
from mqstore.store.config import StoreConfig
from mqstore.store.errors import CorruptRecord, StoreLocked, StoreNotFound
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.verify.verification import verify
from support.crash.witness import ROOT
from support.disks.simulated_disk import Image
from support.stores.damaged_store import CONFIG, disk_of, intact, segment_path, with_bytes

KEYED = StoreConfig(
    mapped_file_size_commit_log=131_072,
    mapped_file_size_consume_queue=2_000,
    max_message_size=60_000,
    max_hash_slot_num=500,
    max_index_num=2_000,
    key_index="both",
)


def queue_files(image: Image) -> dict[Path, bytes]:
    return {path: bytes(data) for path, data in image.files.items() if "consumequeue" in path.parts}


def hurt_queues(image: Image) -> Image:
    """Entries zeroed in one queue, junk in another, a file of a third cut, a fourth gone."""
    paths = sorted(queue_files(image))
    image = with_bytes(image, paths[0], lambda data: data.__setitem__(slice(0, 40), bytes(40)))
    image = with_bytes(image, paths[1], lambda data: data.__setitem__(slice(100, 120), b"x" * 20))
    image = Image({**image.files, paths[2]: bytes(image.files[paths[2]])[:500]}, image.directories)
    return Image({path: data for path, data in image.files.items() if path != paths[3]}, image.directories)


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("change", [lambda image: image, hurt_queues])
def test_queues_are_byte_identical(change: Callable[[Image], Image], closed: bool) -> None:
    """Whatever became of them; and nothing else is lost."""
    before = intact(closed=True)
    disk = disk_of(change(intact(closed=closed).image))
    stats = rebuild(ROOT, CONFIG, queues=True, file_system=disk, clock=disk.clock)
    assert queue_files(disk.image()) == queue_files(before.image)
    assert stats.max_offset == before.end_offset
    assert verify(ROOT, CONFIG, file_system=disk, workers=1).findings == ()


def test_queues_of_rocketmq_are_byte_identical(golden_copy: Callable[[str], Path]) -> None:
    """As the broker has written them."""
    path = golden_copy("rocketmq-5.3.3-clean")
    before = {each: each.read_bytes() for each in (path / "consumequeue").rglob("*") if each.is_file()}
    stats = rebuild(path, tool_config(OsFileSystem(), path).config, queues=True)
    assert stats.messages == 1_949
    assert before == {each: each.read_bytes() for each in before}
    assert len(before) == sum(each.is_file() for each in (path / "consumequeue").rglob("*"))


def test_keys_find_what_they_found(tmp_path: Path) -> None:
    """In LMDB and in index files, both damaged before."""
    with MessageStore.open(tmp_path, KEYED) as store:
        store.put_messages([Message("orders", b"%d" % n, keys=(f"o-{n}",)) for n in range(100)])
    (tmp_path / "mqstore" / "keys" / "data.mdb").write_bytes(b"garbage")
    (index,) = (tmp_path / "index").iterdir()
    data = bytearray(index.read_bytes())
    data[2_100:2_140] = bytes(40)
    index.write_bytes(data)
    assert not verify(tmp_path, KEYED).is_sound
    rebuild(tmp_path, tool_config(OsFileSystem(), tmp_path).config, keys=True)
    assert verify(tmp_path, KEYED).findings == ()
    for key_index in ("lmdb", "index_file"):
        config = StoreConfig(**{**KEYED.__dict__, "key_index": key_index})
        with MessageStore.open(tmp_path, config, read_only=True) as store:
            assert [each.body for each in store.query_message("orders", "o-42")] == [b"42"]


def test_a_damaged_log_is_to_be_repaired_first() -> None:
    """The queues stay as they were."""
    image = with_bytes(
        intact().image, segment_path(4), lambda data: data.__setitem__(slice(0, 50), bytes(50))
    )
    disk = disk_of(image)
    with pytest.raises(CorruptRecord):
        rebuild(ROOT, CONFIG, queues=True, file_system=disk)
    assert queue_files(disk.image()) == queue_files(image)


def test_it_needs_the_lock_and_a_store(tmp_path: Path) -> None:
    """Nothing is done beside a writer."""
    with pytest.raises(StoreNotFound):
        rebuild(tmp_path, KEYED, queues=True)
    assert not list(tmp_path.iterdir())
    with MessageStore.open(tmp_path, KEYED), pytest.raises(StoreLocked):
        rebuild(tmp_path, KEYED, queues=True)
