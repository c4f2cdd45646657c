"""Reads a store directory with ordinary file calls and no code of the store: log, consume queues and state
files.

It is written from the pages in docs/format/. It believes nothing: what is torn, missing or not understood
is simply not there, and judge.py says what that means.
"""

import itertools
import json
import re
import struct
from pathlib import Path
from typing import Any, NamedTuple

from support.twins.log_walk import LogEnd, LogRecord, walk_log

__all__ = ["PlainStore", "QueueEntry", "read_store"]

_ENTRY = struct.Struct(">qiq")
_BARE_KEY = re.compile(r"([{,]\s*)(\d+):")


class QueueEntry(NamedTuple):
    """20 bytes of a consume queue. code: the hash of the tags, or when a delayed message is due."""

    physical_offset: int
    size: int
    code: int


class PlainStore(NamedTuple):
    """What lies in a directory.

    segments: (start, bytes) by name. records: the log from its first byte to the first thing that is none.
    queues: by (topic, queue id), then by number; entries of zeros are left out. consumer_offsets: by
    (group, topic, queue id). delay_offsets: by level. topics: how many queues each has.
    """

    segments: list[tuple[int, int]]
    records: list[LogRecord]
    end: LogEnd
    queues: dict[tuple[str, int], dict[int, QueueEntry]]
    consumer_offsets: dict[tuple[str, str, int], int]
    delay_offsets: dict[int, int]
    topics: dict[str, int]

    @property
    def min_offset(self) -> int:
        """Where the log begins."""
        return self.segments[0][0] if self.segments else 0


def read_store(root: Path) -> PlainStore:
    """All of it. A directory that does not exist is an empty one."""
    log = root / "commitlog"
    config = root / "config"
    records, end = _whole_records(log)
    return PlainStore(
        [(int(path.name), path.stat().st_size) for path in _files(log)],
        records,
        end,
        _queues(root / "consumequeue"),
        _consumer_offsets(_state(config / "consumerOffset.json")),
        {int(level): offset for level, offset in _table(config / "delayOffset.json", "offsetTable").items()},
        {
            topic: settings["writeQueueNums"]
            for topic, settings in _table(config / "topics.json", "topicConfigTable").items()
        },
    )


def _whole_records(log: Path) -> tuple[list[LogRecord], LogEnd]:
    """The records up to the first that is not whole; what lies behind that counts as bytes behind the end."""
    records, end = walk_log(_Files(), log)  # type: ignore[arg-type]
    for number, record in enumerate(records):
        if not record.is_whole:
            return records[:number], LogEnd(record.physical_offset, end.offset - record.physical_offset)
    return records, end


def _files(directory: Path) -> list[Path]:
    """The files of a row, by name."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.name.isdigit() and path.is_file())


class _Files:
    """What walk_log needs of a file system."""

    def list(self, directory: Path) -> list[Path]:
        return _files(directory)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()


def _queues(directory: Path) -> dict[tuple[str, int], dict[int, QueueEntry]]:
    if not directory.is_dir():
        return {}
    return {
        (topic.name, int(queue.name)): _entries(queue)
        for topic in directory.iterdir()
        for queue in topic.iterdir()
    }


def _entries(directory: Path) -> dict[int, QueueEntry]:
    entries = {}
    for path in _files(directory):
        data = path.read_bytes()
        for at in range(0, len(data) - _ENTRY.size + 1, _ENTRY.size):
            entry = QueueEntry(*_ENTRY.unpack_from(data, at))
            if entry.size:
                entries[(int(path.name) + at) // _ENTRY.size] = entry
    return entries


def _state(path: Path) -> dict[str, Any]:
    """The state of a file, or else of its .bak; numbers as keys are quoted first."""
    for candidate in (path, path.with_name(path.name + ".bak")):
        try:
            state = json.loads(_BARE_KEY.sub(r'\1"\2":', candidate.read_text()))
        except (OSError, ValueError):
            continue
        if isinstance(state, dict):
            return state
    return {}


def _table(path: Path, name: str) -> dict[str, Any]:
    return _state(path).get(name) or {}


def _consumer_offsets(state: dict[str, Any]) -> dict[tuple[str, str, int], int]:
    table = state.get("offsetTable") or {}
    rows = itertools.chain.from_iterable(
        ((name, queue_id, offset) for queue_id, offset in queues.items()) for name, queues in table.items()
    )
    return {
        (name.partition("@")[2], name.partition("@")[0], int(queue_id)): offset
        for name, queue_id, offset in rows
    }
