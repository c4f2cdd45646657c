"""What no writing may take away: the records of the log, from its first on, as long as all are whole.

Whatever the small files beside it say: an opening, a repair or a rebuild may add behind them, and retention
may delete the oldest segments. It reads with code of its own (tests/support/twins/log_walk.py).
"""

import contextlib
import itertools
import stat
import struct
from pathlib import Path

from support.twins.log_walk import LogRecord, walk_log

__all__ = ["KeptLog"]

_MOST_BYTES = 1 << 20


class _Segments:
    """What walk_log needs of a file system: the segments that are ordinary files of an ordinary length."""

    def list(self, directory: Path) -> list[Path]:
        if not directory.is_dir():
            return []
        return sorted(path for path in directory.iterdir() if _is_segment(path))

    def read(self, path: Path) -> bytes:
        return path.read_bytes()


def _is_segment(path: Path) -> bool:
    status = path.lstat()
    return path.name.isdigit() and stat.S_ISREG(status.st_mode) and status.st_size <= _MOST_BYTES


def _is_whole(record: LogRecord) -> bool:
    """Texts that end in zeros are torn to us, whatever the CRC says: RocketMQ 4's records have none."""
    texts = [record.topic, *record.properties, *record.properties.values()]
    return record.is_whole and not any("\0" in text for text in texts)


class KeptLog:
    """The records at the beginning of the log in `store`; none where it is no log at all."""

    def __init__(self, store: Path) -> None:
        # Records and the BLANKs between them, by the name of the segment.
        self._segments: dict[str, bytes] = {}
        with contextlib.suppress(OSError, ValueError, struct.error, OverflowError):
            self._read(store / "commitlog")

    def _read(self, directory: Path) -> None:
        files = _Segments()
        records, _ = walk_log(files, directory)  # type: ignore[arg-type]
        whole = list(itertools.takewhile(_is_whole, records))
        # A BLANK behind the last of them may be overwritten.
        stop = whole[-1].physical_offset + whole[-1].size if whole else 0
        for path in files.list(directory):
            start, data = int(path.name), files.read(path)
            if not data or start >= stop or (self._segments and start != self._end()):
                return
            self._segments[path.name] = data[: stop - start]

    def _end(self) -> int:
        name, data = next(reversed(self._segments.items()))
        return int(name) + len(data)

    def lost_in(self, store: Path) -> str:
        """What is missing or different there, in a sentence; empty if all is there."""
        there = {path.name: path for path in _Segments().list(store / "commitlog")}
        kept = [name for name in self._segments if name in there]
        if self._segments and list(self._segments)[-len(kept) :] != kept:
            return f"of the segments {list(self._segments)} only {kept} are left"
        for name in kept:
            data, before = there[name].read_bytes(), self._segments[name]
            if not data.startswith(before):
                at = next(at for at, (old, new) in enumerate(zip(before, data, strict=False)) if old != new)
                return f"segment {name} had whole records up to {len(before)}, and differs from byte {at} on"
        return ""
