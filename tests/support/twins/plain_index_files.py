"""RocketMQ's index files the plain way: the plain twin of the index kernels.

`plain_index_files` puts key after key, as IndexService#buildIndex and IndexFile#putKey do, into a bytearray.
"""

import struct
from collections.abc import Iterable
from pathlib import Path

from mqstore.index.index_file.index_file import IndexFileSize
from mqstore.index.index_file.index_file_format import key_hash
from mqstore.store.files.file_system import FileSystem
from mqstore.store.log.commit_log import CommitLog
from support.stores.key_log import keys_of

__all__ = ["index_contents", "plain_index_files"]

_HEADER = struct.Struct(">qqqqii")


class _File:
    def __init__(self, size: IndexFileSize, begin_ms: int, begin_offset: int) -> None:
        self.size = size
        self.header = [begin_ms, begin_ms, begin_offset, begin_offset, 0, 1]
        self.data = bytearray(40 + 4 * size.slot_count + 20 * size.entry_count)

    @property
    def is_full(self) -> bool:
        return self.header[5] >= self.size.entry_count

    def put(self, code: int, store_ms: int, physical_offset: int) -> None:
        number = self.header[5]
        slot_at = 40 + 4 * (code % self.size.slot_count)
        (previous,) = struct.unpack_from(">i", self.data, slot_at)
        difference_s = (store_ms - self.header[0]) // 1000 if self.header[0] > 0 else 0
        entry_at = 40 + 4 * self.size.slot_count + 20 * number
        difference_s = max(0, min(difference_s, 2**31 - 1))
        struct.pack_into(">iqii", self.data, entry_at, code, physical_offset, difference_s, previous)
        struct.pack_into(">i", self.data, slot_at, number)
        if number == 1:
            self.header[0], self.header[2] = store_ms, physical_offset
        self.header[1], self.header[3] = store_ms, physical_offset
        self.header[4] += previous == 0
        self.header[5] += 1

    def content(self) -> bytes:
        _HEADER.pack_into(self.data, 0, *self.header)
        return bytes(self.data)


def plain_index_files(
    log: CommitLog, offsets: Iterable[int], size: IndexFileSize, *, with_tags: bool = True
) -> list[bytes]:
    """The files that a broker would have written behind the records at `offsets`."""
    files: list[_File] = []
    for offset in offsets:
        message = log.look_message_by_offset(offset)
        assert message is not None
        # A rollback record has none of both.
        tags = [f"T#{message.tags}"] if message.tags and message.sys_flag & 0xC != 0xC else []
        for key in [*keys_of(message), *(tags if with_tags else [])]:
            if not files or files[-1].is_full:
                end = (files[-1].header[1], files[-1].header[3]) if files else (0, 0)
                files.append(_File(size, *end))
            files[-1].put(key_hash(message.topic, key), message.store_timestamp, offset)
    return [file.content() for file in files]


def index_contents(file_system: FileSystem, directory: Path) -> list[bytes]:
    """The files of `index/`, oldest first."""
    return [file_system.read(directory / entry.name) for entry in file_system.list(directory)]
