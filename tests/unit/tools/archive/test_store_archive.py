"""Goal: whatever happens to an archiver, an entry names an object that is the segment; the next run goes on.

Method: a store of small segments, archived to a directory and to a server of S3's protocol; uploads that are
broken off or changed, objects that vanish, archivers that run at once.
"""

import os
import threading
from pathlib import Path

import msgspec
import pytest

from mqstore import Message, MessageStore
from mqstore.settings.archived_file import ArchivedFile
from mqstore.store.errors import CorruptRecord, StateFileCorrupt
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store_layout import StoreLayout
from mqstore.tools.archive import (
    ArchiveDamaged,
    ArchiverAtWork,
    ArchiveRefused,
    archive,
    read_manifest,
    restore,
)
from mqstore.tools.archive.archive_place import ArchivePlace
from mqstore.tools.archive.manifest import ArchivedSegment, decode_signed, encode_signed, entry_name
from mqstore.tools.archive.segments.sealed_segments import size_and_crc32c
from support.archives.odd_place import OddPlace
from support.archives.segmented_store import SEGMENT_BYTES, fill, open_store


class Stop(Exception):
    """What a progress callback raises."""


def check(url: str, store: MessageStore) -> int:
    """Every entry names an object that is the segment on disk; returns how many there are."""
    manifest, place = read_manifest(url), ArchivePlace(url)
    for each in manifest.segments:
        segment = StoreLayout(store.path).commit_log / f"{each.start_offset:020d}"
        assert place.read(each.name) == segment.read_bytes()
        assert size_and_crc32c(place.read_pieces(each.name)) == (each.size_bytes, each.crc32c)
    return len(manifest.segments)


def object_paths(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


# -- what it does -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sealed_segments_are_archived_once(url: str, store: MessageStore) -> None:
    """The segment that is written to is left out; a second run sends what was sealed since, and no more."""
    first = archive(store, url)
    assert (first.archived_segments, first.end_offset) == (3, 3 * SEGMENT_BYTES)
    assert check(url, store) == 3
    assert archive(store, url).archived_segments == 0
    fill(store, 2)
    second = archive(store, url)
    assert (second.archived_segments, second.segments, second.end_offset) == (2, 5, 5 * SEGMENT_BYTES)
    assert check(url, store) == 5


def test_a_reader_archives_beside_the_writer(tmp_path: Path, store: MessageStore) -> None:
    """It takes no lock of the writer, and archives no more than is known to be durable."""
    with open_store(store.path, read_only=True) as reader:
        fill(store, 1)
        store.put_message(Message("orders", b"not yet durable"))
        assert archive(reader, tmp_path / "archive").archived_segments == 4
        assert check(str(tmp_path / "archive"), store) == 4
    assert not ArchivedFile(OsFileSystem(), StoreLayout(store.path).archived).load()


def test_an_entry_says_what_is_in_a_segment(tmp_path: Path, store: MessageStore) -> None:
    """Counts, queue offsets and times add up to what the store has."""
    archive(store, tmp_path / "archive")
    segments = read_manifest(tmp_path / "archive").segments
    for topic in ("orders", "payments"):
        parts = [each.topics[topic] for each in segments]
        assert all(part.messages == part.queues[0][1] - part.queues[0][0] for part in parts)
        assert [part.queues[0][0] for part in parts[1:]] == [part.queues[0][1] for part in parts[:-1]]
        assert parts[0].queues[0][0] == 0
        last = store.get_message("g", topic, 0, parts[-1].queues[0][1] - 1, max_msg_nums=1).messages[0]
        assert segments[-1].start_offset <= last.physical_offset < segments[-1].end_offset
        assert last.store_timestamp <= segments[-1].max_store_timestamp
    assert all(each.records == sum(part.messages for part in each.topics.values()) for each in segments)


# -- what may go wrong --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("stop_at", [1, 2, 3])
def test_an_interrupted_run_is_taken_up(url: str, store: MessageStore, stop_at: int) -> None:
    """It leaves entries of whole segments only, of those that were under way; the next run sends the rest."""

    def stop(done_bytes: int, total_bytes: int) -> None:
        assert total_bytes == 3 * SEGMENT_BYTES
        if done_bytes > (stop_at - 1) * SEGMENT_BYTES:
            raise Stop

    with pytest.raises(Stop):
        archive(store, url, on_progress=stop)
    entered = check(url, store)
    assert entered <= min(3, stop_at + 1)
    assert archive(store, url).archived_segments == 3 - entered
    assert check(url, store) == 3


def test_an_object_that_was_complete_is_taken(tmp_path: Path, store: MessageStore) -> None:
    """An archiver was killed between the upload and the entry: nothing is sent again."""
    archive(store, tmp_path / "archive")
    before = object_paths(tmp_path / "archive")
    (tmp_path / "archive" / entry_name(SEGMENT_BYTES)).unlink()
    assert archive(store, tmp_path / "archive").archived_segments == 1
    assert object_paths(tmp_path / "archive") == before


def test_what_broken_uploads_left_is_swept(tmp_path: Path, store: MessageStore) -> None:
    """Objects that no entry names are counted, and deleted on request; no other one is touched."""
    archive(store, tmp_path / "archive")
    named = object_paths(tmp_path / "archive")
    for start in (0, 3 * SEGMENT_BYTES):
        (tmp_path / "archive" / "commitlog" / f"{start:020d}-00000000").write_bytes(b"half")
    assert archive(store, tmp_path / "archive").unnamed_objects == 2
    assert archive(store, tmp_path / "archive", sweep=True).unnamed_objects == 0
    assert object_paths(tmp_path / "archive") == named


@pytest.mark.parametrize("kind", ["cut short", "changed"])
def test_an_object_that_comes_back_otherwise_is_no_part_of_the_archive(
    tmp_path: Path, store: MessageStore, kind: str
) -> None:
    """It is reported, deleted and not entered; once the place is well again the next run goes on."""

    def change(name: str, data: bytes) -> bytes:
        if f"{SEGMENT_BYTES:020d}-" not in name:
            return data
        return data[:-1] if kind == "cut short" else data[:5_000] + b"?" + data[5_001:]

    odd = OddPlace(tmp_path, change).file_system
    with pytest.raises(ArchiveDamaged, match="CRC-32C") as caught:
        archive(store, "archive", file_system=odd)
    assert caught.value.name.startswith(f"commitlog/{SEGMENT_BYTES:020d}")
    assert check(str(tmp_path / "archive"), store) == 1
    assert len(object_paths(tmp_path / "archive")) == 1
    assert archive(store, tmp_path / "archive").archived_segments == 2


def test_a_place_that_fails_leaves_a_whole_manifest(tmp_path: Path, store: MessageStore) -> None:
    """An upload, and the write of an entry, that end in an error: each is done by the next run."""
    for failing in (f"{SEGMENT_BYTES:020d}-", entry_name(SEGMENT_BYTES)):

        def fail(name: str, data: bytes, failing: str = failing) -> bytes:
            if failing in name:
                raise OSError("connection reset")
            return data

        with pytest.raises(OSError, match="connection reset"):
            archive(store, "archive", file_system=OddPlace(tmp_path, fail).file_system)
        assert check(str(tmp_path / "archive"), store) == 2
    assert archive(store, tmp_path / "archive").segments == 3
    assert check(str(tmp_path / "archive"), store) == 3


def test_a_segment_that_cannot_be_completed_has_no_entry(tmp_path: Path, store: MessageStore) -> None:
    """Its bytes are sent, and it is to get its name while the next one is sent; the others are entered."""
    odd = OddPlace(tmp_path, lambda name, data: data)
    move = odd.move

    def fail(source: str, target: str) -> None:
        if f"{SEGMENT_BYTES:020d}-" in target:
            raise OSError("connection reset")
        move(source, target)

    odd.move = fail  # type: ignore[method-assign]
    with pytest.raises(OSError, match="connection reset"):
        archive(store, "archive", file_system=odd.file_system)
    assert check(str(tmp_path / "archive"), store) == 2
    report = archive(store, tmp_path / "archive")
    assert (report.archived_segments, report.segments) == (1, 3)


@pytest.mark.slow
def test_a_missing_object_is_sent_again(url: str, store: MessageStore) -> None:
    """As long as its segment is on disk; the entry then names the new object."""
    archive(store, url)
    ArchivePlace(url).delete(read_manifest(url).segments[1].name)
    report = archive(store, url)
    assert (report.archived_segments, report.missing) == (1, ())
    assert check(url, store) == 3


def test_a_damaged_entry_is_made_again(tmp_path: Path, store: MessageStore) -> None:
    """As is one that was cut short; what is sent was complete, so it is taken."""
    archive(store, tmp_path / "archive")
    path = tmp_path / "archive" / entry_name(0)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ArchiveDamaged, match="CRC-32C"):
        read_manifest(tmp_path / "archive")
    assert archive(store, tmp_path / "archive").archived_segments == 1
    assert check(str(tmp_path / "archive"), store) == 3


def test_a_damaged_segment_is_not_archived(tmp_path: Path, store: MessageStore) -> None:
    """What comes before it is; the error names file and byte."""
    path = StoreLayout(store.path).commit_log / f"{SEGMENT_BYTES:020d}"
    data = bytearray(path.read_bytes())
    data[60_000] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecord) as caught:
        archive(store, tmp_path / "archive")
    assert caught.value.path == path
    assert [each.start_offset for each in read_manifest(tmp_path / "archive").segments] == [0]
    assert len(object_paths(tmp_path / "archive")) == 1


def test_an_object_that_was_taken_stays(tmp_path: Path, store: MessageStore) -> None:
    """When the segment before it is found damaged: another archiver may have entered it by now."""
    archive(store, tmp_path / "archive")
    first, taken, _ = object_paths(tmp_path / "archive")
    for start in (0, SEGMENT_BYTES):
        (tmp_path / "archive" / entry_name(start)).unlink()
    first.unlink()
    path = StoreLayout(store.path).commit_log / f"{0:020d}"
    path.write_bytes(path.read_bytes()[:60_000] + b"?" + path.read_bytes()[60_001:])
    with pytest.raises(CorruptRecord):
        archive(store, tmp_path / "archive")
    assert taken.exists()


# -- several archivers, several stores ----------------------------------------------------------------


def test_one_archiver_a_directory(tmp_path: Path, store: MessageStore) -> None:
    """The second one is told that, while the first is at work."""

    def again(done_bytes: int, total_bytes: int) -> None:
        with open_store(store.path, read_only=True) as reader, pytest.raises(ArchiverAtWork):
            archive(reader, tmp_path / "archive")

    archive(store, tmp_path / "archive", on_progress=again)
    assert check(str(tmp_path / "archive"), store) == 3


@pytest.mark.slow
def test_equal_copies_archive_to_one_place_at_once(url: str, store: MessageStore, tmp_path: Path) -> None:
    """Both say that all is archived, the manifest is whole, and a store can be made of it."""
    store.backup(tmp_path / "copy")
    start, errors = threading.Barrier(2), list[BaseException]()

    def run(path: Path) -> None:
        try:
            with open_store(path, read_only=True) as reader:
                start.wait()
                assert archive(reader, url).end_offset == 3 * SEGMENT_BYTES
        except BaseException as error:  # noqa: BLE001 - shown by the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(path,)) for path in (store.path, tmp_path / "copy")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert check(url, store) == 3
    assert restore(url, tmp_path / "restored").segments == 3


def test_an_object_of_a_slower_archiver_does_not_replace_a_confirmed_one(
    tmp_path: Path, store: MessageStore
) -> None:
    """One is in the middle of an upload when the other has finished; then it breaks off."""
    store.backup(tmp_path / "copy")

    def break_off(done_bytes: int, total_bytes: int) -> None:
        with open_store(tmp_path / "copy", read_only=True) as reader:
            assert archive(reader, tmp_path / "archive").archived_segments == 3
        raise Stop

    with pytest.raises(Stop):
        archive(store, tmp_path / "archive", on_progress=break_off)
    assert check(str(tmp_path / "archive"), store) == 3


@pytest.mark.slow
def test_another_store_is_refused(url: str, store: MessageStore, tmp_path: Path) -> None:
    """Nothing of it gets into the archive."""
    archive(store, url)
    with open_store(tmp_path / "other") as other:
        fill(other, 4)
        with pytest.raises(ArchiveRefused, match="is the archive of store"):
            archive(other, url)
    assert check(url, store) == 3


def test_two_stores_that_begin_at_once_are_never_mixed(tmp_path: Path, store: MessageStore) -> None:
    """The one that sees both roots withdraws."""
    root = next(iter(_root_of(tmp_path, store)))
    with open_store(tmp_path / "other") as other:
        fill(other, 1)

        def begun_meanwhile(name: str, data: bytes) -> bytes:
            if "store-" in name:
                (tmp_path / "archive" / root.name).write_bytes(root.read_bytes())
            return data

        with pytest.raises(ArchiveRefused, match="at this moment"):
            archive(other, "archive", file_system=OddPlace(tmp_path, begun_meanwhile).file_system)
    assert [path.name for path in (tmp_path / "archive").iterdir()] == [root.name]
    assert archive(store, tmp_path / "archive").segments == 3


def _root_of(tmp_path: Path, store: MessageStore) -> list[Path]:
    archive(store, tmp_path / "elsewhere")
    return list((tmp_path / "elsewhere").glob("store-*.json"))


def test_a_copy_that_went_on_by_itself_is_refused(tmp_path: Path, store: MessageStore) -> None:
    """It is the same store by its identity, and has other bytes from some segment on."""
    store.backup(tmp_path / "copy")
    fill(store, 2)
    archive(store, tmp_path / "archive")
    with open_store(tmp_path / "copy") as copy:
        fill(copy, 3, mark=b"other")
        with pytest.raises(ArchiveRefused, match="went on by itself"):
            archive(copy, tmp_path / "archive")
    assert check(str(tmp_path / "archive"), store) == 5


def test_what_is_no_place_for_an_archive(tmp_path: Path, store: MessageStore) -> None:
    """Addresses without their secrets, folders with something else in them, the store itself."""
    with pytest.raises(ArchiveRefused, match="no place for an archive") as caught:
        archive(store, "s3x://key:secret@bucket/orders")
    assert "secret" not in str(caught.value)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpeg").write_bytes(b"")
    with pytest.raises(ArchiveRefused, match=r"cat\.jpeg"):
        archive(store, tmp_path / "photos")
    with pytest.raises(ArchiveRefused, match="lies in the store"):
        archive(store, store.path / "archive")


def test_a_directory_without_an_identity_is_refused(tmp_path: Path, store: MessageStore) -> None:
    """As RocketMQ leaves it; the error says what helps."""
    StoreLayout(store.path).identity.unlink()
    with pytest.raises(ArchiveRefused, match="open it once for writing"):
        archive(store, tmp_path / "archive")


# -- retention ----------------------------------------------------------------------------------------


def expire(store: MessageStore) -> int:
    """Let all segments be older than file_reserved_time, and delete what may go."""
    for path in StoreLayout(store.path).commit_log.iterdir():
        os.utime(path, (0, 0))
    return store.delete_expired_files()


def test_guarded_retention_deletes_only_what_is_confirmed(tmp_path: Path, store: MessageStore) -> None:
    """Not what was sealed since, nor behind an object that is missing; and after --no-guard as ever."""
    assert archive(store, tmp_path / "archive", guard=True).is_guarded
    fill(store, 2)
    assert len(store.expired_files()) == 0
    ArchivePlace(tmp_path / "archive").delete(read_manifest(tmp_path / "archive").segments[2].name)
    assert expire(store) == 3
    report = archive(store, tmp_path / "archive")
    assert report.is_guarded
    assert (report.archived_segments, report.missing) == (2, (2 * SEGMENT_BYTES,))
    assert expire(store) == 2
    fill(store, 2)
    assert expire(store) == 0
    assert not archive(store, tmp_path / "archive", guard=False).is_guarded
    fill(store, 1)
    assert expire(store) == 3


def test_a_gap_is_reported(tmp_path: Path, store: MessageStore) -> None:
    """Retention that is not guarded deletes a segment before it is archived."""
    archive(store, tmp_path / "archive")
    fill(store, 1)
    assert expire(store) == 4
    fill(store, 2)
    report = archive(store, tmp_path / "archive")
    assert report.gaps == ((3 * SEGMENT_BYTES, 4 * SEGMENT_BYTES),)
    with pytest.raises(ArchiveDamaged, match="--begin-offset 524288"):
        restore(tmp_path / "archive", tmp_path / "restored")
    assert restore(tmp_path / "archive", tmp_path / "restored", begin_offset=4 * SEGMENT_BYTES).segments == 2


def test_the_copy_of_a_damaged_guard_lets_nothing_go(tmp_path: Path, store: MessageStore) -> None:
    """Retention fails, visibly, rather than delete what may not be archived."""
    archive(store, tmp_path / "archive", guard=True)
    StoreLayout(store.path).archived.write_bytes(b"mqstore-archived 99999999999")
    with pytest.raises(StateFileCorrupt, match="archived"):
        expire(store)
    assert store.min_offset == 0


def test_an_entry_of_another_store_is_seen(tmp_path: Path, store: MessageStore) -> None:
    """A file that somebody copied into the archive."""
    archive(store, tmp_path / "archive")
    path = tmp_path / "archive" / entry_name(0)
    entry = decode_signed(path.read_bytes(), ArchivedSegment)
    path.write_bytes(encode_signed(msgspec.structs.replace(entry, store="0" * 32)))
    with pytest.raises(ArchiveDamaged, match="0" * 32):
        read_manifest(tmp_path / "archive")
