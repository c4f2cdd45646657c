"""The checks of transactions: asks producers what became of those that nobody has ended, every 30 s.

If a half is open for too long, a copy of it with a higher count of checks is stored, and its producer is
asked. If the count has reached its limit, or the half is as old as retention allows, it is given up: it goes
to TRANS_CHECK_MAX_TIME_TOPIC, with a warning in the log. While a producer group has no client, nobody is
asked and nothing is counted; RocketMQ gives such halves up after some eight minutes.

A restart reads everything from the oldest open half on. So a half that lies far behind is carried: a copy is
stored without a question, as a broker does with each half that has CHECK_IMMUNITY_TIME_IN_SECONDS.

A check that fails is logged, and the next one tries again. The first comes 30 s after the first use of a
transaction, in the thread "mqstore transactions" (wake_up_thread.py).
Threads: `check` and `run_once` by one at a time; producers are asked in the same thread.
Durability: the copy of a half waits for the disk, like any put, before its producer is asked.
Source: docs/spec/remoting.md section 9; TransactionalMessageServiceImpl#check,
TransactionalMessageCheckService, DefaultTransactionalMessageCheckListener.
"""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from mqstore.broker.half_message import HALF_QUEUE_ID, HalfMessage, carried, given_up, op_of, renewed
from mqstore.broker.open_halves import OpenHalf
from mqstore.broker.producer_groups import ProducerGroups
from mqstore.broker.transactions import Transactions
from mqstore.message_store import MessageStore
from mqstore.put.arrivals import Arrival
from mqstore.store.errors import CorruptRecord, MessageNotFound, StoreClosed
from mqstore.store.events import events
from mqstore.store.events.event import log_event
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.topic_names import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC
from mqstore.store.record.properties_format import MAX_PROPERTIES_BYTES
from mqstore.store.threads.auto_reset_event import AutoResetEvent

__all__ = ["TransactionChecks", "TransactionSettings"]

_logger = logging.getLogger(__name__)

# Halves that are copied in one step: a thread that ends one of them waits for the whole step.
_CHUNK: Final = 32
# So many halves a restart reads, about, besides those that are open.
_MAX_BEHIND: Final = 100_000
# What is added to the properties with each check at most, and the record's CRC.
_ADDED_BYTES: Final = 64
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, kw_only=True)
class TransactionSettings:
    """RocketMQ's names and defaults; times in ms.

    >>> from mqstore.client import EmbeddedBroker
    >>> settings = TransactionSettings(transaction_timeout=60_000, transaction_check_max=5)
    >>> with MessageStore.open("data") as store:
    ...     with EmbeddedBroker(store, transaction_settings=settings) as broker:
    ...         broker.name
    'broker-a'
    """

    transaction_timeout: int = 6_000
    """Up to this age of a half nobody is asked; its property CHECK_IMMUNITY_TIME_IN_SECONDS overrides it."""
    transaction_check_max: int = 15
    """How often a producer is asked before its half is given up."""
    transaction_check_interval: int = 30_000
    """How often halves are looked at."""


class _Due(NamedTuple):
    """Halves by queue offset: to be asked about, to be carried, to be given up."""

    overdue: dict[int, HalfMessage]
    behind: dict[int, HalfMessage]
    hopeless: dict[int, HalfMessage]

    def among(self, queue_offsets: frozenset[int]) -> "_Due":
        """Those of them that are left."""
        return _Due(*({key: half for key, half in halves.items() if key in queue_offsets} for halves in self))


class TransactionChecks:
    """Checks the transactions of one broker.

    event: set when there is something to do. is_done: whether the store was closed.
    """

    def __init__(
        self,
        store: MessageStore,
        transactions: Transactions,
        producers: ProducerGroups,
        settings: TransactionSettings | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """now_s: in seconds, a clock that only goes forward."""
        self.event = AutoResetEvent()
        self.is_done = False
        # When the next check is due; at once for the first step, which only begins.
        self.due_s = -math.inf
        self._is_listening = False
        self._store = store
        self._transactions = transactions
        self._open_halves = transactions.open_halves
        self._producers = producers
        self._settings = settings or TransactionSettings()
        self._now_s = now_s

    # -- in the thread ----------------------------------------------------------------------------

    def run_once(self) -> None:
        """Check, if it is time to."""
        now_s = self._now_s()
        if now_s < self.due_s:
            return
        if not self._is_listening:
            self._is_listening = True
            self._store.add_arrival_listener(self._ignore, queues=(), on_close=self._on_close)
        else:
            self._check()
        self.due_s = now_s + self._settings.transaction_check_interval / 1000

    def _check(self) -> None:
        try:
            self.check()
        except StoreClosed:
            self.is_done = True
        except Exception:
            _logger.exception("the check of transactions failed")

    def end(self) -> None:
        """Hear no more of the store, and let the next start begin where this one has ended."""
        if self._is_listening:
            self._store.remove_arrival_listener(self._ignore)
        try:
            self._transactions.save_progress()
        except StoreClosed:
            # It was closed first: the next start reads what was put since the last check.
            return
        except Exception:
            _logger.exception("the progress of transactions could not be saved")

    def _ignore(self, arrival: Arrival) -> None:
        """It hears of no queue."""

    def _on_close(self) -> None:
        self.is_done = True
        self.event.set()

    # -- one round --------------------------------------------------------------------------------

    def check(self) -> int:
        """Ask the producers of all halves that are open for too long; returns how many were asked."""
        self._transactions.load()
        asked = 0
        end = self._store.get_max_offset_in_queue(TRANS_HALF_TOPIC, HALF_QUEUE_ID)
        queue_offsets = self._open_halves.in_order()
        # Many open halves are carried seldom: it takes more puts than there are of them.
        far_behind = end - max(_MAX_BEHIND, 4 * len(queue_offsets))
        remaining = iter(queue_offsets)
        while chunk := list(islice(remaining, _CHUNK)):
            asked += self._check_chunk(chunk, far_behind)
        self._transactions.save_progress()
        return asked

    def _check_chunk(self, queue_offsets: list[int], far_behind: int) -> int:
        due = _Due({}, {}, {})
        for queue_offset in queue_offsets:
            half = self._half_of(queue_offset)
            if half is None:
                continue
            if self._is_hopeless(half):
                due.hopeless[queue_offset] = half
            elif self._is_overdue(half):
                due.overdue[queue_offset] = half
            elif queue_offset < far_behind:
                due.behind[queue_offset] = half
        if not any(due):
            return 0
        candidates = (queue_offset for halves in due for queue_offset in halves)
        renewals = self._open_halves.checking(candidates, lambda left: self._put(due.among(left)))
        for put in renewals:
            self._ask(put)
        return len(renewals)

    def _half_of(self, queue_offset: int) -> HalfMessage | None:
        """None if it was ended meanwhile, or if its record cannot be read, or not be put again."""
        opened = self._open_halves.get(queue_offset)
        if opened is None or opened.physical_offset >= self._store.commit_log.visible_offset:
            # The disk is slow.
            return None
        if opened.physical_offset < self._store.min_offset:
            _logger.warning("a transaction has expired before anybody has ended it: %r", opened)
            self._open_halves.forget_lost(queue_offset)
            return None
        try:
            half = self._transactions.half_at(opened.physical_offset)
        except (MessageNotFound, CorruptRecord) as damage:
            _logger.warning("a transaction cannot be checked: %s", damage)
            return None
        limit = self._store.config.max_message_size
        if len(half.stored_body_view) > limit:
            _logger.warning("%r cannot be checked: it is longer than max_message_size = %d", half, limit)
            return None
        return half

    def _is_hopeless(self, half: HalfMessage) -> bool:
        age_ms = self._store.clock.now_ms() - half.born_timestamp
        return (
            half.check_times >= self._settings.transaction_check_max
            or age_ms > self._store.config.file_reserved_time * _HOUR_MS
            or not half.is_sound
            # There is no room to count a check.
            or len(half.properties_view) + _ADDED_BYTES > MAX_PROPERTIES_BYTES
        )

    def _is_overdue(self, half: HalfMessage) -> bool:
        now_ms, timeout_ms = self._store.clock.now_ms(), self._settings.transaction_timeout
        return half.producer_group in self._producers and not half.is_too_young(now_ms, timeout_ms)

    def _put(self, due: _Due) -> list[PutMessageResult]:
        """Copy those that stay open, give up the others; returns the overdue ones."""
        if not any(due):
            return []
        if due.hopeless:
            self._store.topics.ensure(TRANS_CHECK_MAX_TIME_TOPIC, 1)
            for half in due.hopeless.values():
                log_event(
                    _logger,
                    events.TRANSACTION_GIVEN_UP,
                    "%r of group %s is given up: nobody ended it",
                    *(half, half.producer_group),
                    producer_group=half.producer_group,
                    message_id=half.unique_key or half.msg_id,
                )
        messages = [
            *map(renewed, due.overdue.values()),
            *map(carried, due.behind.values()),
            *map(given_up, due.hopeless.values()),
        ]
        closed = [name for key in (*due.overdue, *due.hopeless) for name in self._names_of(key)]
        if closed:
            messages.append(op_of(closed, self._store.clock.now_ms()))
        puts = self._store.put_own(messages)
        opened = {
            put.queue_offset: OpenHalf(put.physical_offset, (*self._names_of(key), put.queue_offset))
            for key, put in zip((*due.overdue, *due.behind), puts, strict=False)
        }
        op_offset = puts[-1].queue_offset if closed else None
        self._open_halves.replace([key for halves in due for key in halves], op_offset, opened)
        return puts[: len(due.overdue)]

    def _names_of(self, queue_offset: int) -> tuple[int, ...]:
        opened = self._open_halves.get(queue_offset)
        assert opened is not None, queue_offset
        return opened.names

    def _ask(self, put: PutMessageResult) -> None:
        try:
            half = self._transactions.half_at(put.physical_offset)
        except MessageNotFound:
            # The disk is slow: its producer is asked with the next check.
            return
        check = self._producers.choose(half.producer_group)
        if check is None:
            return
        try:
            check(half, put)
        except (Exception, SystemExit):
            _logger.exception("producer group %s failed to answer for %r", half.producer_group, half)

    def __repr__(self) -> str:
        return f"TransactionChecks({self._transactions!r})"
