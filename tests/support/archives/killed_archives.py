"""An archiver that is killed again and again beside a writer, and what must hold after each kill.

A child archives a store of small segments. It is killed at a random moment of its work, while more is put in
between. After each kill every entry of the manifest is compared with its segment on disk, byte by byte, and
retention may delete no more than that. At the end a run that is not killed completes the archive, and a store
is made of it, which must have every message.
"""

import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

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
from support.archives.segmented_store import archived_bodies, fill, open_store

__all__ = ["KilledArchive", "kill_and_restore"]

SEGMENTS_A_ROUND = 4
# An upload to the loopback takes longer than a copy to a directory.
_LONGEST_DELAYS_S = {False: 0.008, True: 0.06}


@dataclass(frozen=True, kw_only=True)
class KilledArchive:
    """killed: how many children were at work when they were killed. messages: found in the restored store."""

    kills: int
    killed: int
    segments: int
    messages: int


def kill_and_restore(directory: Path, url: str, kills: int, choice: random.Random) -> KilledArchive:
    """Raises AssertionError for an entry without its object, a segment too few, a message lost or changed."""
    with open_store(directory / "store") as store:
        killed, before = 0, 0
        for _ in range(kills):
            fill(store, SEGMENTS_A_ROUND)
            killed += _archive_and_kill(
                store.path,
                url,
                choice.randint(1, SEGMENTS_A_ROUND),
                choice.uniform(0, _LONGEST_DELAYS_S["://" in url]),
            )
            entries = _check(store, url)
            assert entries >= before
            before = entries
        last = archive(store, url, sweep=True)
        assert (last.segments, last.gaps, last.missing) == (kills * SEGMENTS_A_ROUND, (), ())
        assert _check(store, url) == last.segments
        report = restore(url, directory / "restored")
        assert report.max_offset == last.end_offset
        with open_store(directory / "restored", read_only=True) as restored:
            found = archived_bodies(restored, last.end_offset)
        assert found == archived_bodies(store, last.end_offset)
    assert verify(directory / "restored").is_sound
    return KilledArchive(
        kills=kills, killed=killed, segments=last.segments, messages=sum(map(len, found.values()))
    )


def _archive_and_kill(store: Path, url: str, pieces: int, seconds: float) -> bool:
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


def _check(store: MessageStore, url: str) -> int:
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
