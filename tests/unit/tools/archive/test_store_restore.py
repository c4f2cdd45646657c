"""Goal: a restored store is the archived one up to its last sealed segment, and skips nothing behind that.

Method: stores with topics, groups, offsets and delayed messages, archived and restored; the restored
directory is verified, read, written to and archived again. Archives with missing and wrong objects.
"""

from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.store.errors import StoreLocked
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store_layout import StoreLayout
from mqstore.tools.archive import ArchiveDamaged, ArchiveRefused, archive, read_manifest, restore
from mqstore.tools.archive.archive_place import ArchivePlace
from mqstore.tools.archive.manifest import StateSnapshot, decode_signed, encode_signed
from mqstore.verify import verify
from support.archives.segmented_store import SEGMENT_BYTES, archived_bodies, fill, open_store
from support.stores.small_log import small_config
from support.stores.small_store import bodies_of


@pytest.mark.slow
def test_a_restored_store_has_every_message_of_the_archive(
    url: str, store: MessageStore, tmp_path: Path
) -> None:
    """Bodies, offsets and keys; it is sound, of the same identity, and its log begins behind the archive."""
    archive(store, url)
    report = restore(url, tmp_path / "restored")
    assert (report.min_offset, report.max_offset) == (0, 3 * SEGMENT_BYTES)
    assert verify(tmp_path / "restored").is_sound
    with open_store(tmp_path / "restored", read_only=True) as restored:
        expected = archived_bodies(store, 3 * SEGMENT_BYTES)
        assert archived_bodies(restored, 3 * SEGMENT_BYTES) == expected
        assert report.messages == sum(map(len, expected.values()))
        found = restored.query_message("orders", "k0")
        assert [each.body for each in found] == expected["orders"][:1]
        assert restored.config.mapped_file_size_commit_log == SEGMENT_BYTES
    assert StoreLayout(tmp_path / "restored").identity.read_bytes() == (
        StoreLayout(store.path).identity.read_bytes()
    )
    for name in ("lock", "abort", "unfinished-backup"):
        assert not (tmp_path / "restored" / name).exists()


@pytest.mark.slow
def test_a_restored_store_goes_on_and_so_does_its_archive(tmp_path: Path, store: MessageStore) -> None:
    """What is put to it lies behind what is archived, and nothing archived is written again."""
    archive(store, tmp_path / "archive")
    before = read_manifest(tmp_path / "archive").segments
    store.close()
    restore(tmp_path / "archive", tmp_path / "restored")
    with open_store(tmp_path / "restored") as restored:
        put = restored.put_message(Message("orders", b"first", queue_id=0))
        assert put.physical_offset == 3 * SEGMENT_BYTES
        assert put.queue_offset == before[-1].topics["orders"].queues[0][1]
        fill(restored, 2)
        assert archive(restored, tmp_path / "archive").archived_segments == 2
    assert read_manifest(tmp_path / "archive").segments[:3] == before
    assert restore(tmp_path / "archive", tmp_path / "again").segments == 5


def test_topics_and_groups_come_back(tmp_path: Path, store: MessageStore) -> None:
    """Also those without a message in the archive, with their settings."""
    store.topics.create("empty", 3)
    store.subscription_groups.create("billing")
    store.flush()
    archive(store, tmp_path / "archive")
    restore(tmp_path / "archive", tmp_path / "restored")
    with open_store(tmp_path / "restored", read_only=True) as restored:
        config = restored.topics.get("empty")
        assert config is not None
        assert config.read_queue_nums == 3
        assert restored.subscription_groups.get("billing") is not None


def test_offsets_come_back_if_they_are_within_the_archive(tmp_path: Path, store: MessageStore) -> None:
    """Those of a run whose log ended within what is archived by now; a group sees some messages again."""
    store.consumer_offsets.commit("billing", "orders", 0, 7)
    store.flush()
    archive(store, tmp_path / "archive")
    restore(tmp_path / "archive", tmp_path / "none")
    with open_store(tmp_path / "none", read_only=True) as restored:
        assert list(restored.consumer_offsets) == []
    fill(store, 2)
    store.consumer_offsets.commit("billing", "orders", 0, store.get_max_offset_in_queue("orders", 0))
    store.flush()
    archive(store, tmp_path / "archive")
    restore(tmp_path / "archive", tmp_path / "some")
    with open_store(tmp_path / "some", read_only=True) as restored:
        assert [(row.group, row.offset) for row in restored.consumer_offsets] == [("billing", 7)]


@pytest.mark.slow
def test_a_delayed_message_whose_delivery_is_not_archived_is_delivered(tmp_path: Path) -> None:
    """The delay offset of the old store was past it; that of the restored one is not."""
    config = small_config(message_delay_level="1s 2s")
    with MessageStore.open(tmp_path / "store", config, start=False) as store:
        store.put_message(Message("late", b"late", queue_id=0, delay_level=1))
        fill(store, 1)
        while not store.deliver_due():
            store.wait_for_messages("late", 0, 0, 100)
        store.flush()
        assert bodies_of(store, "late") == [b"late"]
        archive(store, tmp_path / "archive")
        assert read_manifest(tmp_path / "archive").segments[-1].end_offset < store.max_offset
    restore(tmp_path / "archive", tmp_path / "restored")
    with MessageStore.open(tmp_path / "restored", start=False) as restored:
        assert restored.config.message_delay_level == "1s 2s"
        assert bodies_of(restored, "late") == []
        restored.deliver_due()
        assert bodies_of(restored, "late") == [b"late"]


def test_a_part_of_an_archive(tmp_path: Path, store: MessageStore) -> None:
    """From an offset on; queues begin with the numbers that their messages have."""
    archive(store, tmp_path / "archive")
    report = restore(tmp_path / "archive", tmp_path / "restored", begin_offset=SEGMENT_BYTES)
    assert (report.min_offset, report.segments) == (SEGMENT_BYTES, 2)
    with open_store(tmp_path / "restored", read_only=True) as restored:
        first = read_manifest(tmp_path / "archive").segments[1].topics["orders"].queues[0][0]
        assert restored.get_min_offset_in_queue("orders", 0) == first
        assert bodies_of(restored, "orders") == archived_bodies(store, 3 * SEGMENT_BYTES)["orders"][first:]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["missing", "wrong bytes", "too short", "too long"])
def test_an_archive_that_is_damaged_is_not_restored(
    url: str, store: MessageStore, tmp_path: Path, kind: str
) -> None:
    """The error names the object, and what can be restored; nothing is left behind."""
    archive(store, url)
    place, name = ArchivePlace(url), read_manifest(url).segments[1].name
    data = place.read(name)
    place.delete(name)
    changed = {
        "wrong bytes": data[:777] + b"?" + data[778:],
        "too short": data[:-1],
        "too long": data + b"?",
    }
    if kind != "missing":
        place.write(name, [changed[kind]])
    with pytest.raises(ArchiveDamaged, match=f"--begin-offset {2 * SEGMENT_BYTES}") as caught:
        restore(url, tmp_path / "restored")
    assert caught.value.name == name
    assert not list(tmp_path.glob("restored*"))
    assert restore(url, tmp_path / "restored", begin_offset=2 * SEGMENT_BYTES).segments == 1


def test_a_directory_that_is_taken_is_refused(tmp_path: Path, store: MessageStore) -> None:
    """And left as it is. An empty one is taken, one in which another restore is at work is not."""
    archive(store, tmp_path / "archive")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(ArchiveRefused, match="not empty"):
        restore(tmp_path / "archive", tmp_path / "taken")
    (tmp_path / "empty").mkdir()

    def again(done_bytes: int, total_bytes: int) -> None:
        with pytest.raises(StoreLocked):
            restore(tmp_path / "archive", tmp_path / "empty")

    restore(tmp_path / "archive", tmp_path / "empty", on_progress=again)


def test_a_place_without_an_archive_is_refused(url: str, tmp_path: Path) -> None:
    """Nothing is made there or here."""
    with pytest.raises(ArchiveRefused, match="holds no archive"):
        restore(url, tmp_path / "restored")
    assert not list(tmp_path.glob("restored*"))


def test_an_archive_writes_nowhere_but_into_its_directory(tmp_path: Path, store: MessageStore) -> None:
    """Paths in a snapshot that are none of a store's small files are damage."""
    archive(store, tmp_path / "archive")
    (path,) = (tmp_path / "archive" / "state").iterdir()
    snapshot = decode_signed(path.read_bytes(), StateSnapshot)
    snapshot.files["../../escaped"] = b"?"
    path.write_bytes(encode_signed(snapshot))
    with pytest.raises(ArchiveDamaged, match="escaped"):
        restore(tmp_path / "archive", tmp_path / "restored")
    assert not OsFileSystem().exists(tmp_path.parent / "escaped")


def test_old_snapshots_are_deleted(tmp_path: Path, store: MessageStore) -> None:
    """Two that end within the archive are kept, and those that end behind it."""
    for _ in range(5):
        archive(store, tmp_path / "archive")
        fill(store, 1)
    archive(store, tmp_path / "archive")
    ends = sorted(int(path.stem) for path in (tmp_path / "archive" / "state").iterdir())
    assert len([end for end in ends if end <= 8 * SEGMENT_BYTES]) == 2
    assert len(ends) == 3
