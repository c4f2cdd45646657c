"""What only the real disk does: listings beside deletions, and many syncs at once.

What both file systems share is in tests/contract/test_file_system.py; the lock is in test_os_file_lock.py.
"""

import errno
import os
import re
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mqstore.store.errors import LimitReached, StoreFull
from mqstore.store.files import sync_kernels
from mqstore.store.files.os_file_system import OsFileSystem
from support.crash.interrupt_storm import Strike, Struck


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_a_listing_survives_a_file_that_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may delete one while we list: the others are still listed."""
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"x")

    class Vanishing:
        """The entries of a directory; `b` is deleted when it is looked at."""

        def __init__(self, path: Path) -> None:
            self._entries = real_scandir(path)

        def __enter__(self) -> "Vanishing":
            return self

        def __exit__(self, *error: object) -> None:
            self._entries.close()

        def __iter__(self) -> Iterator[os.DirEntry[str]]:
            for entry in sorted(self._entries, key=lambda entry: entry.name):
                if entry.name == "b":
                    (tmp_path / "b").unlink()
                yield entry

    real_scandir = os.scandir
    monkeypatch.setattr(os, "scandir", Vanishing)
    assert [entry.name for entry in OsFileSystem().list(tmp_path)] == ["a", "c"]


def all_flags_of_mapping(path: Path) -> list[list[str]]:
    """What the kernel says of the memory in which a file is mapped, one list for each part of it."""
    parts = Path("/proc/self/smaps").read_text().split(f" {path}\n")[1:]
    return [part.partition("VmFlags:")[2].partition("\n")[0].split() for part in parts]


def test_the_kernel_is_told_whether_to_read_ahead(path: Path) -> None:
    """At first as it does it for any large file; a small one is never read ahead."""
    region = OsFileSystem().map(path, 32 << 20, create=True)
    found = all_flags_of_mapping(path)
    for is_wanted in (False, True):
        region.read_ahead(0, is_wanted=is_wanted)
        found += all_flags_of_mapping(path)
    assert ["rr" in flags for flags in found] == [False, True, False]
    small = OsFileSystem().map(path.with_name("small"), 1 << 20, create=True)
    assert ["rr" in flags for flags in all_flags_of_mapping(path.with_name("small"))] == [True]
    small.read_ahead(0, is_wanted=True)
    assert ["rr" in flags for flags in all_flags_of_mapping(path.with_name("small"))] == [True]


def test_what_was_there_before_is_read_ahead_all_the_same(path: Path) -> None:
    """The kernel keeps what it was told of the pages up to a position, and of those from there on."""
    region = OsFileSystem().map(path, 32 << 20, create=True)
    region.read_ahead((20 << 20) + 5, is_wanted=False)
    of_file = re.findall(rf"(?m)^(\w+)-(\w+) .* {re.escape(str(path))}$", Path("/proc/self/maps").read_text())
    assert [int(end, 16) - int(begin, 16) for begin, end in of_file] == [20 << 20, 12 << 20]
    assert ["rr" in flags for flags in all_flags_of_mapping(path)] == [False, True]


@contextmanager
def no_free_descriptor(tmp_path: Path) -> Iterator[int]:
    """Nothing can be opened meanwhile. Yields the number of the descriptor that is lacking."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptor, limits[1]))
    try:
        yield descriptor
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("count", [3, 300])
def test_too_few_descriptors_are_a_full_disk_and_no_failed_sync(tmp_path: Path, count: int) -> None:
    """So the same files can be synced later."""
    file_system = OsFileSystem()
    regions = [file_system.map(tmp_path / str(index), 4_096, create=True) for index in range(count)]
    with no_free_descriptor(tmp_path) as descriptor, pytest.raises(StoreFull, match="open files"):
        file_system.sync_all(regions)
    file_system.sync_all(regions)
    assert os.open(tmp_path, os.O_RDONLY) == descriptor
    os.close(descriptor)


def test_a_file_that_is_synced_needs_no_other_descriptor_for_its_room(path: Path) -> None:
    """So the log goes on while there is none; a file without one says what is lacking."""
    region = OsFileSystem().map(path, 1 << 20, create=True)
    region.sync()
    with no_free_descriptor(path.parent):
        region.reserve(0, 1 << 20)
        blocks = path.stat().st_blocks
        region.release_descriptor()
        with no_free_descriptor(path.parent), pytest.raises(LimitReached, match="open files"):
            region.reserve(0, 1 << 20)
    assert blocks * 512 >= 1 << 20


@pytest.mark.parametrize("count", [3, 300])
def test_a_failed_sync_names_its_file(tmp_path: Path, count: int) -> None:
    """Here one that cannot even be opened any more."""
    file_system = OsFileSystem()
    regions = [file_system.map(tmp_path / f"{index}", 4_096, create=True) for index in range(count)]
    (tmp_path / "1").unlink()
    (tmp_path / "1").symlink_to("1")
    with pytest.raises(OSError, match=r"symbolic links|leads nowhere") as caught:
        file_system.sync_all(regions)
    assert str(tmp_path / "1") in str(caught.value)


@pytest.mark.parametrize(("error_number", "expected"), [(errno.EIO, OSError), (0, KeyboardInterrupt)])
def test_an_interrupt_does_not_hide_a_failed_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error_number: int, expected: type[BaseException]
) -> None:
    """Python raises Ctrl-C where the loop returns; a second sync would claim that all is well."""
    file_system = OsFileSystem()
    regions = [file_system.map(tmp_path / f"{index}", 4_096, create=True) for index in range(20)]

    def interrupted(*arguments: Any) -> None:
        arguments[-1][:] = 7, error_number
        raise KeyboardInterrupt

    monkeypatch.setattr(sync_kernels, "sync_files", interrupted)
    with pytest.raises(expected) as caught:
        file_system.sync_all(regions)
    assert error_number == 0 or str(tmp_path / "7") in str(caught.value)


def test_a_block_of_records_is_written_in_pieces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may take less than it was given; the first eight bytes come last all the same."""
    region = OsFileSystem().map(path, 1 << 20, create=True)
    region.reserve(0, 1 << 20)
    block = bytes(range(1, 201)) * 500
    write, first_bytes = os.pwrite, []

    def write_a_part(descriptor: int, data: memoryview, position: int) -> int:
        first_bytes.append(bytes(region.view[4_096:4_104]))
        return write(descriptor, data[:30_000], position)

    monkeypatch.setattr(os, "pwrite", write_a_part)
    region.publish(4_096, block)
    assert bytes(region.view[4_096 : 4_096 + len(block)]) == block
    assert first_bytes == [bytes(8)] * 4


def test_no_writer_waits_for_a_sync(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block goes in and room is reserved while the disk is at work, and another thread waits to release."""
    region = OsFileSystem().map(path, 1 << 20, create=True)
    region.reserve(0, 1 << 19)
    block = bytes(100_000)
    releaser = threading.Thread(target=region.release_descriptor)

    def write_meanwhile(descriptor: int) -> None:
        releaser.start()
        for act, arguments in ((region.publish, (0, block)), (region.reserve, (1 << 19, 1 << 19))):
            writer = threading.Thread(target=act, args=arguments, daemon=True)
            writer.start()
            writer.join(20)
            assert not writer.is_alive(), act

    region.publish(0, block)
    monkeypatch.setattr(os, "fdatasync", write_meanwhile)
    region.sync()
    releaser.join()


@pytest.mark.parametrize("is_timed", [False, True])
def test_an_error_of_an_interrupt_that_is_kept_keeps_no_descriptor(path: Path, *, is_timed: bool) -> None:
    """It strikes at every place of a sync; what is then released has no descriptor open."""
    region = OsFileSystem().map(path, 4_096, create=True)
    kept: list[Struck] = []
    has_struck = True
    while has_struck:
        region.sync()
        strike = Strike(len(kept) + 1)
        try:
            with strike:
                region.sync_within(60) if is_timed else region.sync()
        except Struck as struck:
            kept.append(struck)
        has_struck = strike.has_struck
        region.release_descriptor()
        assert region._descriptor is None, strike.where
    assert len(kept) > 1


@pytest.mark.parametrize("is_timed", [False, True])
def test_a_file_that_is_forgotten_keeps_no_descriptor(path: Path, *, is_timed: bool) -> None:
    """Nobody has released it, and no sync is under way."""
    region = OsFileSystem().map(path, 4_096, create=True)
    region.sync_within(60) if is_timed else region.sync()
    descriptor = region._descriptor
    assert descriptor is not None
    os.fstat(descriptor)
    del region
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.parametrize("is_timed", [False, True])
def test_a_finalizer_within_a_sync_leaves_its_descriptor(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_timed: bool
) -> None:
    """It syncs by another one, and what it releases is released when the outer sync has ended."""
    region = OsFileSystem().map(path, 4_096, create=True)
    synced = os.fdatasync
    descriptors = []

    def sync_again(descriptor: int) -> None:
        descriptors.append(descriptor)
        if len(descriptors) == 1:
            if is_timed:
                assert region.sync_within(60)
            else:
                region.sync()
            region.release_descriptor()
        synced(descriptor)

    monkeypatch.setattr(os, "fdatasync", sync_again)
    region.sync()
    assert len(set(descriptors)) == 2
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
