"""Rebuild: makes the consume queues agree with the commit log, from where they are durable or from nothing.

The states in which an open may find them, and the rule for each:

    1  complete                    nothing to do: the log is walked from the start offset, all is known
    2  behind the log              the messages behind the start offset get their entries
    3  ahead of the log, or torn   after a crash: cut back to the start offset, then as 2
    4  gone, while the log is not  rebuilt from the log's first record
    5  not in step with the log    entries were lost where they had been durable: as 4
    6  there without a log         the log was deleted: as 4, which leaves none and counts from 0 again

1 to 3 take the start offset for granted: up to there the queues had been made durable. A queue that 2 or 3
finds at another entry than the log's next message for it shows 5.

A rebuild deletes all queues first, so a crash in the middle of it leaves 3 or 4 with a start offset that is
too high: whoever keeps that offset must reset it first (`on_rebuild`). The rebuilt files are byte-identical
to those that a broker, or this store, writes behind the log.
Threads: runs before any reader or writer. Durability: `rebuild_consume_queues` syncs what it built.
"""

import contextlib
from collections.abc import Callable

from mqstore.index.consume_queue import QueueOffsetConflict
from mqstore.index.consume_queue_store import ConsumeQueueStore
from mqstore.index.dispatcher import Dispatcher
from mqstore.store.commit_log import CommitLog

__all__ = ["DISPATCHER_NAME", "bring_up_to_date", "rebuild_consume_queues"]

DISPATCHER_NAME = "consume queues"


def bring_up_to_date(
    commit_log: CommitLog,
    consume_queues: ConsumeQueueStore,
    start_offset: int,
    *,
    clean: bool,
    on_rebuild: Callable[[], None] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Dispatcher:
    """Make the queues agree with the visible log; returns the dispatcher that goes on from there.

    start_offset: the queues are durable up to here. clean: the store was closed, not killed.
    on_rebuild: called before the queues are deleted. on_progress: called with the offset reached.
    Raises StoreFull, CorruptRecord.
    """
    has_records = commit_log.max_offset > commit_log.min_offset
    is_gone = has_records and not consume_queues.queues()
    is_orphaned = commit_log.max_offset == 0 and bool(consume_queues.queues())
    if not (is_gone or is_orphaned):
        if not clean:
            consume_queues.truncate(start_offset, commit_log)
        dispatcher = Dispatcher(
            commit_log, consume_queues, start_offset, DISPATCHER_NAME, on_progress=on_progress
        )
        with contextlib.suppress(QueueOffsetConflict):
            dispatcher.catch_up(commit_log.visible_offset)
            return dispatcher
    if on_rebuild is not None:
        on_rebuild()
    return rebuild_consume_queues(commit_log, consume_queues, on_progress=on_progress)


def rebuild_consume_queues(
    commit_log: CommitLog,
    consume_queues: ConsumeQueueStore,
    *,
    on_progress: Callable[[int], None] | None = None,
) -> Dispatcher:
    """Delete all queues and build them from the log; returns the dispatcher that goes on from there.

    Raises StoreFull, CorruptRecord; run it again then.
    """
    consume_queues.destroy()
    dispatcher = Dispatcher(
        commit_log, consume_queues, commit_log.min_offset, DISPATCHER_NAME, on_progress=on_progress
    )
    consume_queues.follow_log = True
    try:
        dispatcher.catch_up(commit_log.visible_offset)
    finally:
        consume_queues.follow_log = False
    consume_queues.correct_min_offset(commit_log.min_offset)
    consume_queues.flush()
    return dispatcher
