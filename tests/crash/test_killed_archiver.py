"""kill -9 of an archiver: every entry names a whole object, and the next run goes on until all is archived.

A child archives a store of small segments, to a directory and to a server of S3's protocol. It is killed at a
random moment of its work, again and again, while the writer puts more. After each kill every entry is
compared with its segment on disk, byte by byte, and retention may delete no more than that. At the end a
run that is not killed completes the archive, and a store is made of it. The seed is fixed; the moment at
which a signal strikes is not, so runs differ.
"""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mqstore import MessageStore
from mqstore.settings.archived_file import ArchivedFile
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store_layout import StoreLayout
from mqstore.tools.archive import archive, restore
from mqstore.tools.archive.archive_place import ArchivePlace
from mqstore.tools.archive.manifest import MANIFEST_FOLDER, ArchivedSegment, entry_name, offset_of
from mqstore.tools.archive.manifest_reader import load_object
from mqstore.verify import verify
from support.archives import killed_archiver
from support.archives.s3_server import s3_server
from support.archives.segmented_store import archived_bodies, fill, open_store

SEED = 20261123
KILLS = 4
SEGMENTS_A_ROUND = 4


def archive_and_kill(store: Path, url: str, pieces: int, seconds: float) -> bool:
    """Kill it so long after it has sent so many pieces; whether that was before it had ended."""
    command = [sys.executable, killed_archiver.__file__, str(store), url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(pieces)]
        assert said == ["piece\n"] * pieces, "the child could not archive"
        time.sleep(seconds)
        process.kill()
        process.wait()
        has_ended = "ended" in process.stdout.read()
    assert process.returncode in (0, -signal.SIGKILL)
    return not has_ended


def check(store: MessageStore, url: str) -> int:
    """Each entry's object is the segment; retention may go no further. Returns how many entries there are."""
    place = ArchivePlace(url)
    starts = [offset for name in place.list(MANIFEST_FOLDER) if (offset := offset_of(name)) is not None]
    confirmed = store.min_offset
    for start in sorted(starts):
        entry = load_object(place, entry_name(start), ArchivedSegment)
        assert place.read(entry.name) == (StoreLayout(store.path).commit_log / f"{start:020d}").read_bytes()
        confirmed = entry.end_offset if start == confirmed else confirmed
    archived = ArchivedFile(OsFileSystem(), StoreLayout(store.path).archived).load()
    assert archived is None or archived.end_offset <= confirmed
    return len(starts)


@pytest.mark.parametrize("kind", ["directory", "s3"])
def test_an_archiver_is_killed_and_started_again(tmp_path: Path, kind: str) -> None:
    """At no moment an entry without its object, and none too many is left to do."""
    choice = random.Random(SEED)
    with s3_server() as s3, open_store(tmp_path / "store") as store:
        url = str(tmp_path / "archive") if kind == "directory" else s3.url()
        killed, before = 0, 0
        for _ in range(KILLS):
            fill(store, SEGMENTS_A_ROUND)
            killed += archive_and_kill(store.path, url, choice.randint(1, 4), choice.uniform(0, 0.06))
            entries = check(store, url)
            assert entries >= before
            before = entries
        assert killed, "no child was killed at work: shorten the waits"
        last = archive(store, url, sweep=True)
        assert (last.segments, last.gaps, last.missing) == (KILLS * SEGMENTS_A_ROUND, (), ())
        assert check(store, url) == last.segments
        report = restore(url, tmp_path / "restored")
        assert report.max_offset == last.end_offset
        with open_store(tmp_path / "restored", read_only=True) as restored:
            assert archived_bodies(restored, last.end_offset) == archived_bodies(store, last.end_offset)
    assert verify(tmp_path / "restored").is_sound
