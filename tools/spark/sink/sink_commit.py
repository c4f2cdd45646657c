"""The commit of a write: the driver puts the staged rows into the store, each once.

The writer's lock is held from the first look at the journal to the last entry, so nothing else is put between
the rows of one commit. A commit that was killed left its first rows in the log, in one piece that begins at
the journal's `begin` (or behind the end of its segment). The next commit of any application goes on behind
them, with the parts that were staged then: parts that are staged again for the same version may have their
rows in another order, and are dropped. Rows are known by their UNIQ_KEY, so it does not matter what another
writer, Apache RocketMQ too, has put meanwhile. Steps and what a crash leaves: import_journal.py.

A write that has no name has no journal: if it is killed, the first of its rows are in the log, and who writes
them again has them twice. Readers beside see rows as they are put.
Threads: one puts, a second one syncs what was put. Durability: all rows, when `commit` returns.
"""

import logging
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mqstore.message_store import MessageStore
from mqstore.store.clock import SystemClock
from mqstore.store.errors import StoreError, TopicNotSupported
from mqstore.store.files.file_tree import delete_tree
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.message.message import Message
from mqstore.store.record.properties_format import UNIQ_KEY
from mqstore.tools.spark.sink.import_journal import Entry, ImportJournal
from mqstore.tools.spark.sink.row_keys import row_key_prefix, row_number
from mqstore.tools.spark.sink.staged_parts import Part, PartDamaged, numbered_blocks
from mqstore.tools.spark.sink.store_lock import opened_for_write

__all__ = ["CommitReport", "Write", "WriteUnfinished", "commit", "discard"]

_logger = logging.getLogger(__name__)
_FORGOTTEN_MS = 7 * 86_400_000


class WriteUnfinished(StoreError):
    """A write was begun and cannot be finished. `path`: the store; `app`, `version`: of the write.

    No other write to the store begins until it is finished or given up.
    """

    def __init__(self, path: Path, entry: Entry, files: Sequence[Path], reason: str) -> None:
        names = " and ".join(map(str, files))
        super().__init__(
            f"{path}: version {entry.version} of {entry.app!r} was begun and cannot be finished: {reason}. "
            f"Mend that, and the next write to this store finishes it first. Or delete {names}: what is in "
            "the log stays, the rows that are missing are given up, and the store does not know any more "
            "which version this application has written last"
        )
        self.path, self.app, self.version = path, entry.app, entry.version


@dataclass(frozen=True, kw_only=True)
class Write:
    """A write of a DataFrame or of a batch of a stream: who writes, None for no name, and which write."""

    app: str | None = None
    version: int = 0


@dataclass(frozen=True, kw_only=True)
class CommitReport:
    """rows: put by this commit. is_repeated: this version was done, or begun, by an earlier attempt."""

    rows: int
    is_repeated: bool


def commit(root: Path, write: Write, parts: Sequence[Part], *, lock_timeout_ms: int = 0) -> CommitReport:
    """Put the rows of `parts`, and finish what earlier commits have begun.

    lock_timeout_ms: how long another writer is waited for.
    Raises LockTimeout; NoPermission, QueueIllegal, TopicIllegal, TopicNotExist, TopicNotSupported,
    SubscriptionGroupNotExist (no row is put then; topics may have been made); StoreFull, after which the next
    commit goes on with a write that has a name; WriteUnfinished; PartDamaged and TopicNotSupported for a
    write without a name; OSError, StorePoisoned, StateFileCorrupt.
    """
    journal = ImportJournal(root)
    with opened_for_write(root, lock_timeout_ms) as store:
        for entry in journal.unfinished():
            _logger.warning("finishing version %d of %s, which was begun before", entry.version, entry.app)
            _finish(store, journal, entry)
        _delete_forgotten(journal)
        known = None if write.app is None else journal.entry(write.app)
        is_repeated = known is not None and write.version <= known.version
        if known is not None and write.version < known.version:
            # Maybe an old job that runs again; maybe one that numbers its writes wrongly.
            _logger.warning(
                "%d rows of version %d of %r are not put into %s: its version %d came before, and a version "
                "that is not greater counts as written (txnVersion has to grow)",
                sum(part.rows for part in parts),
                write.version,
                write.app,
                root,
                known.version,
            )
        if not is_repeated:
            _check_queues(store, parts)
            _put(store, journal, write, tuple(parts))
        _delete(journal, parts)
    return CommitReport(rows=0 if is_repeated else sum(part.rows for part in parts), is_repeated=is_repeated)


def _put(store: MessageStore, journal: ImportJournal, write: Write, parts: tuple[Part, ...]) -> None:
    if write.app is None:
        prefix = row_key_prefix(uuid.uuid4().hex, write.version)
        _put_parts(store, journal.directory, parts, prefix, 0)
        store.flush()
        return
    # What comes before is durable when the entry is: after a power cut `begin` is still in the log.
    store.flush()
    entry = Entry(
        app=write.app,
        version=write.version,
        is_done=False,
        begin=store.max_offset,
        parts=parts,
    )
    journal.save(entry)
    _finish(store, journal, entry)


def discard(root: Path, parts: Sequence[Part], folder: str) -> None:
    """Delete what tasks have staged for a write that failed, unless its rows are being put.

    folder: of the writer, where tasks that were killed may have left something.
    """
    journal = ImportJournal(root)
    kept = {part.folder for entry in journal.unfinished() for part in entry.parts}
    _delete(journal, [part for part in parts if part.folder not in kept])
    if folder not in kept:
        delete_tree(OsFileSystem(), journal.directory / folder)


def _delete(journal: ImportJournal, parts: Iterable[Part]) -> None:
    """Delete the parts, and their folders when nothing else is in them."""
    files = OsFileSystem()
    folders = set()
    for part in parts:
        files.delete(journal.directory / part.folder / part.name)
        folders.add(journal.directory / part.folder)
    for folder in folders:
        if not files.list(folder):
            files.delete_directory(folder)


def _delete_forgotten(journal: ImportJournal) -> None:
    """Delete what jobs that were killed, and tasks that failed or ran twice, have staged, a week later."""
    files = OsFileSystem()
    for entry in files.list(journal.directory):
        path = journal.directory / entry.name
        if entry.is_directory and SystemClock().now_ms() - files.modified_ms(path) > _FORGOTTEN_MS:
            delete_tree(files, path)


def _make_readable(store: MessageStore, topic: str, queue_id: int) -> None:
    """Make a topic that was deleted since its rows were checked, and give it the queues that it lost.

    Raises TopicNotSupported for one that became a topic of another kind.
    """
    config = store.topics.ensure(topic, max(store.topics.queue_nums_to_be(topic), queue_id + 1))
    config.refuse_unsupported()
    if config.queue_nums <= queue_id:
        _logger.warning(
            "topic %r of %s has %d queues, and gets %d to read: rows that were checked before go to them",
            topic,
            store.path,
            config.queue_nums,
            queue_id + 1,
        )
        store.topics.replace(topic, store.topics.with_changes(topic, read_queue_nums=queue_id + 1))


def _greatest_queues(parts: Iterable[Part]) -> dict[str, int]:
    """By topic the greatest queue id of a row."""
    greatest: dict[str, int] = {}
    for part in parts:
        for topic, queue_id in part.queues.items():
            greatest[topic] = max(queue_id, greatest.get(topic, -1))
    return greatest


def _check_queues(store: MessageStore, parts: Iterable[Part]) -> None:
    """Topics take puts and have the queues; missing topics are made. Raises as `put_message`."""
    for topic, queue_id in _greatest_queues(parts).items():
        store.check_message(Message(topic, b"x", queue_id=queue_id))


def _finish(store: MessageStore, journal: ImportJournal, entry: Entry) -> None:
    """Steps 3 to 5."""
    prefix = row_key_prefix(entry.app, entry.version)
    rows = sum(part.rows for part in entry.parts)
    done = _rows_in_log(store, prefix, entry, rows)
    if done < rows:
        if store.max_offset > entry.begin:
            # Others may have written behind the rows: those that come now are another piece of the log.
            store.flush()
            entry = msgspec.structs.replace(entry, begin=store.max_offset, rows_before=done)
            journal.save(entry)
        try:
            _put_parts(store, journal.directory, entry.parts, prefix, done)
        except (PartDamaged, TopicNotSupported) as error:
            raise WriteUnfinished(store.path, entry, journal.files(entry.app), str(error)) from error
    store.flush()
    journal.save(Entry(app=entry.app, version=entry.version, is_done=True, begin=entry.begin))
    _delete(journal, entry.parts)


def _put_parts(store: MessageStore, directory: Path, parts: Sequence[Part], prefix: str, done: int) -> None:
    """Put all of them; the last ones may not be durable on return.

    The store of a commit runs no services. A second thread syncs and dispatches what has been put while this
    one numbers and puts the next blocks.
    """
    for topic, queue_id in _greatest_queues(parts).items():
        _make_readable(store, topic, queue_id)
    with ThreadPoolExecutor(1, "mqstore-sink-flush") as second:
        flush: Future[None] | None = None
        for block in numbered_blocks(directory, parts, prefix, done):
            if flush is not None and flush.done():
                flush.result()
                flush = None
            store.put_block(block)
            flush = flush or second.submit(store.flush)
        if flush is not None:
            flush.result()


def _rows_in_log(store: MessageStore, prefix: str, entry: Entry, rows: int) -> int:
    """How many rows of a write are in the log: those behind `begin` lie one behind the other.

    Retention may have deleted the first of them by now.
    """
    segment_bytes = store.config.mapped_file_size_commit_log
    offset, count = max(entry.begin, store.min_offset), entry.rows_before
    while offset < store.max_offset and count < rows:
        message = store.look_message_by_offset(offset)
        if message is None:
            # The rest of a segment.
            offset = (offset // segment_bytes + 1) * segment_bytes
            continue
        number = row_number(message.properties.get(UNIQ_KEY), prefix)
        if number is None or number < count:
            break
        count = number + 1
        offset += message.store_size
    return count
