"""Rebuild: makes the consume queues agree with the commit log, from where they are durable or from nothing.

The states in which an open may find them, and the rule for each:

    1  complete                    nothing to do: the log is walked from the start offset, all is known
    2  behind the log              the messages behind the start offset get their entries
    3  ahead of the log, or torn   after a crash: cut back to the start offset, then as 2
    4  gone, all or one of them,   rebuilt from the log's first record
       or a file of one
    5  not in step with the log    entries were lost where they had been durable: as 4
    6  there without a log         the log was deleted: as 4, which leaves none and counts from 0 again

1 to 3 rely on the start offset: up to there the queues had been made durable. It is 5 if 2 or 3 finds a queue
at another entry than the log's next message for it. A single queue, or its first or last file, that is gone
is noticed by the manifest (queue_manifest_file.py).

A rebuild deletes all queues first, so a crash during it leaves 3 or 4 with a start offset that is too high:
the caller must reset the stored offset first (`on_rebuild`). A long rebuild is made durable now and then
(`on_durable`); after a kill the next opening continues there, by 2 or 3. The rebuilt files are byte-identical
to those that a broker, or this store, writes behind the log.
Threads: runs before any reader or writer. Durability: `rebuild_consume_queues` syncs what it built.
"""

import contextlib
from collections.abc import Callable

from mqstore.index.dispatcher import Dispatcher
from mqstore.index.queue.consume_queue import QueueOffsetConflict
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.index.queue.queue_manifest_format import QueueManifest
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.progress import Progress

__all__ = ["DISPATCHER_NAME", "DURABLE_BYTES", "bring_up_to_date", "rebuild_consume_queues"]

DISPATCHER_NAME = "consume queues"

# Bytes of the log in one step: enough for each of a thousand queues to get many entries at a time.
_STEP_BYTES = 64 << 20
DURABLE_BYTES = 512 << 20
"""After so many bytes of the log the queues are made durable, before dispatch goes on."""


def bring_up_to_date(
    commit_log: CommitLog,
    consume_queues: ConsumeQueueStore,
    start_offset: int,
    *,
    after_crash: bool,
    expected: QueueManifest | None = None,
    on_rebuild: Callable[[], None] | None = None,
    on_progress: Progress | None = None,
    on_durable: Callable[[int], None] | None = None,
    durable_bytes: int = DURABLE_BYTES,
) -> Dispatcher:
    """Make the queues agree with the visible log; returns the dispatcher that goes on from there.

    start_offset: the queues are durable up to here. after_crash: the last writer has not closed the store.
    expected: the files of queues that had entries. on_rebuild: called before the queues are deleted.
    on_progress: of `dispatch`, after each step. on_durable: called every `durable_bytes` with an offset up to
    which the queues are durable.
    Raises StoreFull, CorruptRecord.
    """
    has_records = commit_log.max_offset > commit_log.min_offset
    is_whole = expected is None or consume_queues.durable_manifest.has_all_of(expected)
    is_gone = has_records and not (consume_queues.queues() and is_whole)
    is_orphaned = commit_log.max_offset == 0 and bool(consume_queues.queues())
    if not (is_gone or is_orphaned):
        if after_crash:
            consume_queues.truncate(start_offset, commit_log)
        dispatcher = Dispatcher(commit_log, consume_queues, start_offset, DISPATCHER_NAME)
        with contextlib.suppress(QueueOffsetConflict):
            _follow(dispatcher, consume_queues, commit_log, on_progress, on_durable, durable_bytes)
            return dispatcher
    if on_rebuild is not None:
        on_rebuild()
    return rebuild_consume_queues(
        commit_log,
        consume_queues,
        on_progress=on_progress,
        on_durable=on_durable,
        durable_bytes=durable_bytes,
    )


def _follow(
    dispatcher: Dispatcher,
    consume_queues: ConsumeQueueStore,
    commit_log: CommitLog,
    on_progress: Progress | None,
    on_durable: Callable[[int], None] | None,
    durable_bytes: int,
) -> None:
    """Dispatch all that is visible, making the queues durable on the way."""
    min_offset, to_offset = commit_log.min_offset, commit_log.visible_offset
    durable_offset = dispatcher.dispatched_offset
    step_bytes = min(_STEP_BYTES, durable_bytes)
    while dispatcher.dispatched_offset < to_offset and dispatcher.run_once(step_bytes):
        if on_progress is not None:
            on_progress("dispatch", dispatcher.dispatched_offset - min_offset, to_offset - min_offset)
        behind_bytes = dispatcher.dispatched_offset - durable_offset
        if on_durable is not None and behind_bytes >= durable_bytes:
            consume_queues.flush()
            durable_offset = dispatcher.dispatched_offset
            on_durable(durable_offset)


def rebuild_consume_queues(
    commit_log: CommitLog,
    consume_queues: ConsumeQueueStore,
    *,
    on_progress: Progress | None = None,
    on_durable: Callable[[int], None] | None = None,
    durable_bytes: int = DURABLE_BYTES,
) -> Dispatcher:
    """Delete all queues and build them from the log; returns the dispatcher that goes on from there.

    on_durable, durable_bytes: as in `bring_up_to_date`. Raises StoreFull, CorruptRecord; run it again then.
    """
    consume_queues.destroy()
    dispatcher = Dispatcher(commit_log, consume_queues, commit_log.min_offset, DISPATCHER_NAME)
    consume_queues.follow_log = True
    try:
        _follow(dispatcher, consume_queues, commit_log, on_progress, on_durable, durable_bytes)
    finally:
        consume_queues.follow_log = False
    consume_queues.correct_min_offset(commit_log.min_offset)
    consume_queues.flush()
    return dispatcher
