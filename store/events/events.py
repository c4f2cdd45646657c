"""The list of events, by the parts of a store and its clients that tell them.

It is in docs/monitoring.md as well. A test compares it with that table, and with each call of `log_event`.
"""

import logging
from typing import Final

from mqstore.store.events.event import Event

__all__ = ["EVENTS"]

_INFO, _WARNING, _ERROR = logging.INFO, logging.WARNING, logging.ERROR


STORE_OPENED: Final = Event(
    "store.opened", _INFO, ("store_path", "read_only", "min_offset", "max_offset"), "A store is open."
)
STORE_RECOVERED: Final = Event(
    "store.recovered",
    _INFO,
    ("store_path", "start_offset", "end_offset", "records", "erased_bytes"),
    "It was not closed before: the log was walked from start to end, and a torn tail was erased.",
)
STORE_CLOSED: Final = Event("store.closed", _INFO, ("store_path", "max_offset"), "A store is closed.")
STORE_REPAIRED: Final = Event(
    "store.repaired",
    _INFO,
    ("store_path", "findings", "placeholders"),
    "A repair has ended; so many findings, and records that stand for messages that are lost.",
)
STORE_REBUILT: Final = Event(
    "store.rebuilt", _INFO, ("store_path", "queues", "messages"), "Queues or keys were built from the log."
)
STORE_FAILED: Final = Event(
    "store.failed",
    _ERROR,
    ("store_path", "reason"),
    "A write or a sync failed: puts are refused for good.",
)
STORE_LOCK_LOST: Final = Event(
    "store.lock_lost", _ERROR, ("store_path", "reason"), "The lock is gone: the store refuses every call."
)
PUTS_REFUSED: Final = Event(
    "store.puts_refused", _WARNING, ("store_path", "reason"), "Puts are refused for now: the disk is full."
)
PUTS_ACCEPTED: Final = Event(
    "store.puts_accepted", _INFO, ("store_path",), "Puts are taken again, after they were refused."
)
DELAY_LEVELS_CHANGED: Final = Event(
    "store.delay_levels_changed",
    _WARNING,
    ("store_path", "before", "after", "physical_offset"),
    "The store was opened with other delay levels, which hold from this offset on.",
)
SEGMENT_BEGUN: Final = Event(
    "log.segment_begun", _INFO, ("store_path", "segment", "start_offset"), "The log goes on in a new segment."
)
SEGMENTS_DELETED: Final = Event(
    "log.segments_deleted", _INFO, ("store_path", "segments", "min_offset"), "Expired segments were deleted."
)
LEVEL_BLOCKED: Final = Event(
    "delay.level_blocked",
    _ERROR,
    ("delay_level", "reason"),
    "A message cannot be delivered, and all behind it in its level wait.",
)
DEAD_LETTERED: Final = Event(
    "message.dead_lettered",
    _INFO,
    ("consumer_group", "topic", "message_id", "reconsume_times"),
    "A group has given up a message: it lies in %DLQ%group.",
)
SEND_BACK_FAILED: Final = Event(
    "message.send_back_failed",
    _WARNING,
    ("consumer_group", "topic", "message_id"),
    "No broker took a failed message back, or it is damaged (no topic): it comes again from memory.",
)
LISTENER_FAILED: Final = Event(
    "consumer.listener_failed",
    _WARNING,
    ("consumer_group", "topic", "queue_id"),
    "A listener raised; the line has the traceback.",
)
GROUP_REBALANCED: Final = Event(
    "consumer.rebalanced",
    _INFO,
    ("consumer_group", "topic", "queues"),
    "This member of a group has other queues of a topic now: so many.",
)
REBALANCE_FAILED: Final = Event(
    "consumer.rebalance_failed",
    _WARNING,
    ("consumer_group",),
    "Queues could not be shared: tried again.",
)
TRANSACTION_GIVEN_UP: Final = Event(
    "transaction.given_up",
    _WARNING,
    ("producer_group", "message_id"),
    "Nobody ended a transaction: its message is never delivered.",
)

EVENTS: Final = {event.name: event for event in tuple(globals().values()) if isinstance(event, Event)}
"""All events by name."""
