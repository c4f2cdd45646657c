"""The queue names: which consume queues have had entries, and in which files, so that a lost one is noticed.

     0        4        8                        n - 4    n
    +--------+--------+------------- - - -----+--------+
    | MAGIC  | VERSION| NAMES                 | CRC-32C|
    +--------+--------+------------- - - -----+--------+

Big-endian. MAGIC is "MQSQ". NAMES is JSON in UTF-8, without blanks: where the log began, and for each topic
and queue id the names of the first and the last file as numbers, sorted:
`{"logMinOffset":0,"queues":{"orders":{"0":[0,6000000]}}}`. The CRC-32C covers all before it. A file of ours,
`<root>/mqstore/queue-names`, which a broker ignores. Page: docs/format/queue_names.md. No I/O here.
"""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from mqstore.store.checksum.crc32c import CRC32C_BYTES, content_of, with_crc32c

__all__ = ["FIELDS", "VERSION", "QueueFiles", "QueueManifest", "decode_queue_names", "encode_queue_names"]

# Version 1 had the queue ids alone; a file of that version is ignored.
VERSION: Final = 2
FIELDS = ((0, 4, "bytes", "MAGIC"), (4, 4, "int", "VERSION"))
_MAGIC: Final = b"MQSQ"

_HEAD = struct.Struct(">4si")
assert _HEAD.size == sum(size for _, size, _, _ in FIELDS) == 8


class QueueFiles(NamedTuple):
    """The first and the last file of a queue, by their names."""

    first: int
    last: int


class QueueManifest(NamedTuple):
    """The files of each queue (topic, queue id), of a log that began at `log_min_offset`. Immutable."""

    log_min_offset: int
    files: Mapping[tuple[str, int], QueueFiles]

    def plus(self, added: Mapping[tuple[str, int], QueueFiles]) -> "QueueManifest":
        """With these files of some queues; the same object when it has them already."""
        if added.items() <= self.files.items():
            return self
        return self._replace(files={**self.files, **added})

    def without(self, queue: tuple[str, int]) -> "QueueManifest":
        """Without a queue that is deleted."""
        return self._replace(files={name: files for name, files in self.files.items() if name != queue})

    def trimmed(self, log_min_offset: int, firsts: Mapping[tuple[str, int], int]) -> "QueueManifest":
        """After retention: where the log begins now, and the first file of each queue that has one."""
        files = {
            name: files._replace(first=firsts.get(name, files.first)) for name, files in self.files.items()
        }
        return QueueManifest(log_min_offset, files)

    def has_all_of(self, earlier: "QueueManifest") -> bool:
        """Whether no earlier file is missing, except those that retention takes.

        Rows grow at their end; at their beginning they shrink only with the log.
        """
        has_same_beginning = self.log_min_offset == earlier.log_min_offset
        for queue, files in earlier.files.items():
            now = self.files.get(queue)
            if now is None or now.last < files.last or (has_same_beginning and now.first > files.first):
                return False
        return True


class _Content(msgspec.Struct, rename="camel"):
    log_min_offset: int
    queues: dict[str, dict[int, tuple[int, int]]]


def encode_queue_names(known: QueueManifest) -> bytes:
    """The bytes of the file.

    >>> encode_queue_names(QueueManifest(0, {("orders", 0): QueueFiles(0, 6000000)}))[8:-4]
    b'{"logMinOffset":0,"queues":{"orders":{"0":[0,6000000]}}}'
    """
    queues: dict[str, dict[int, tuple[int, int]]] = {}
    for (topic, queue_id), files in sorted(known.files.items()):
        queues.setdefault(topic, {})[queue_id] = (files.first, files.last)
    content = msgspec.json.encode(_Content(known.log_min_offset, queues))
    return with_crc32c(_HEAD.pack(_MAGIC, VERSION) + content)


def decode_queue_names(data: bytes) -> QueueManifest | None:
    """The manifest; None when these are not the bytes of this version: then no loss is noticed."""
    if len(data) < _HEAD.size + CRC32C_BYTES or _HEAD.unpack_from(data) != (_MAGIC, VERSION):
        return None
    content = content_of(data)
    if content is None:
        return None
    try:
        decoded = msgspec.json.decode(content[_HEAD.size :], type=_Content)
    except msgspec.DecodeError:
        return None
    files = {
        (topic, queue_id): QueueFiles(*first_and_last)
        for topic, queues in decoded.queues.items()
        for queue_id, first_and_last in queues.items()
    }
    return QueueManifest(decoded.log_min_offset, files)
